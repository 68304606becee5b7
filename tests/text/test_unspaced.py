"""Chinese, Japanese and Korean: what can't both be right, and what only looks like it."""

from __future__ import annotations

import pytest

from lamina.text.contradictions import contradictions

pytestmark = pytest.mark.spec("L6.6")


def reasons(one: str, other: str) -> list[str]:
    texts = [
        (path, f"记录 기록 記録\n{path}", text) for path, text in (("a.md", one), ("b.md", other))
    ]
    return [reason for _, _, reason in contradictions(texts, len(texts))]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("主页支持夜间模式。", "主页不支持夜间模式。"),
        ("发版前必须打标签。", "发版前不用打标签。"),
        ("日志保存三十天。", "日志保存九十天。"),
        ("接口文档用英文写。", "接口文档用法文写。"),
        ("每周四发周报,收件人是小张。", "每周四发周报,收件人是老周。"),
        ("夜間のジョブは毎日実行します。", "夜間のジョブは毎日実行しません。"),
        ("設定ファイルは共有フォルダに置く。", "設定ファイルは個人フォルダに置く。"),
        ("定例会は水曜日に開く。", "定例会は月曜日に開く。"),
        ("ビルドの上限は15分です。", "ビルドの上限は25分です。"),
        ("로그 파일은 암호화해서 저장한다.", "로그 파일은 암호화해서 저장하지 않는다."),
        ("응답은 항상 존댓말로 작성한다.", "응답은 항상 반말로 작성한다."),
        ("세션 제한 시간은 30분이다.", "세션 제한 시간은 90분이다."),
        ("이 폴더의 파일을 쓰면 안 된다.", "이 폴더의 파일을 써도 된다."),
        ("当直は木曜日に替わる。", "当直は日曜日に替わる。"),
        ("月次会は火曜日に開く。", "月次会は木曜日に開く。"),
        ("사진은 줄여서 올린다.", "사진은 줄이지 않고 올린다."),
        ("알림 기능을 쓴다.", "알림 기능을 쓰지 않는다."),
        ("검토에는 두 명이 필요하다.", "검토에는 세 명이 필요하다."),
    ],
)
def test_two_that_part_at_what_decides_contradict_each_other(one: str, other: str) -> None:
    assert len(reasons(one, other)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("计划七已经交给小张检查。", "计划八已经交给小张检查。"),
        ("今天有12个测试失败。", "今天有9个测试失败。"),
        ("在Linux上缓存默认打开。", "在macOS上缓存默认打开。"),
        ("如果有错误就通知小张。", "如果没有错误就通知小张。"),
        ("自动测试需要十分钟。", "手动测试需要十分钟。"),
        ("しきい値は15です。", "しきい値は15.0です。"),
        ("エラーがあるときは止める。", "エラーがないときは止める。"),
        ("iOSでは通知が使える。", "Androidでは通知が使える。"),
        ("3월 방문자는 500명이다.", "4월 방문자는 500명이다."),
        ("오류가 있으면 알림을 보낸다.", "오류가 없으면 알림을 보낸다."),
        ("검색 화면은 민수가 만든다.", "결제 화면은 민수가 만든다."),
        ("関連: [[設計]]と[[試験]]", "関連: [[設計]]と[[運用]]"),
    ],
)
def test_other_things_times_and_conditions_do_not(one: str, other: str) -> None:
    assert reasons(one, other) == []
