"""Every setting changes something in a live session: the same story is told with its default and with
another value, and what was sent, said and written must differ. Where a story would have to break
something or wait, another test is named that sets it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.layers.talks import SMALL, answer, question, summary
from tests.layers.test_tool_results import saying
from tests.sessions import Place, run, use
from tests.test_turn import Probe
from tests.wire.server import Answer, WireServer, fails, says

from lamina.config import SETTINGS
from lamina.errors import LaminaError
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Capabilities

HERE = Path(__file__).parent
CACHED = Capabilities(cache="anthropic", min_cacheable=0)
LONG = "a result of some length " * 40
NO_NOTES = {"notes.enabled": False}
NO_MEMORY = {"memory.enabled": False}
QUIET = {**NO_NOTES, **NO_MEMORY}
WHOLE = {**QUIET, "folds.enabled": False}  # results that say the same are told in full


@dataclass(frozen=True, slots=True)
class Live:
    """A story in which one setting counts. `value` may be made from the place."""

    value: Any
    steps: Any = ("ok",)
    asks: tuple[str, ...] = ("hello",)
    base: dict[str, Any] = field(default_factory=dict[str, Any])
    can: Capabilities = CACHED
    otherwise: dict[str, Any] = field(default_factory=dict[str, Any])
    prepare: Callable[[Place], None] = lambda _: None
    pause: float = 0.0  # before the last question
    compact: bool = False  # by hand, at the end
    interactive: bool = False
    results: Any = ()  # of the tool Probe
    wire: str = ""  # a model behind the wire server, and its answers
    answers: tuple[Answer, ...] = ()
    own_model: bool = False  # the settings name the model
    wait: bool = True  # for the background, after each answer


# ---- stories


def talks(count: int, tokens: int = 3_000) -> list[Any]:
    return [answer(n, tokens) for n in range(count)]


def asked(count: int) -> tuple[str, ...]:
    return tuple(question(n) for n in range(count))


def probes(count: int) -> list[Any]:
    return [*(use("Probe", f"r{n}", n=n) for n in range(count)), "done", *["ok"] * 5]


def filling(value: Any, count: int = 14, **more: Any) -> Live:
    """Fourteen answers of 3,000 tokens in a window of 60,000: it is compacted on the way."""
    base = {**QUIET, **more.pop("base", {})}
    otherwise = {"summary": summary(), "probe": "unknown", **more.pop("otherwise", {})}
    steps = [*talks(count), *["ok"] * 3]
    return Live(value, steps, asked(count), base, SMALL, otherwise, **more)


def noted(value: Any, **more: Any) -> Live:
    """Answers that are worth notes."""
    base = {**NO_MEMORY, **more.pop("base", {})}
    steps = [*talks(9), *["ok"] * 3]
    return Live(value, steps, asked(9), base, CACHED, {"notes": "Nothing."}, **more)


def clearing(value: Any, **more: Any) -> Live:
    """Eight results, and a pause before the next question."""
    base = {**WHOLE, **more.pop("base", {})}
    return Live(value, probes(8), ("work", "on"), base, pause=600, results=LONG, **more)


def deleting(value: Any) -> Live:
    """A provider that can delete from its cache."""
    can = Capabilities(cache="anthropic", cache_edits=True)
    return Live(value, probes(14), ("work",), QUIET, can, results=LONG)


def wearing(value: Any) -> Live:
    """Results that cost more to carry than to drop."""
    results = [LONG * 600, *[LONG * 12] * 59]
    return Live(value, probes(60), ("work",), WHOLE, results=results)


def large(value: Any, size: int = 20_000, count: int = 1, **more: Any) -> Live:
    return Live(value, probes(count), ("work",), QUIET, results="x" * size, **more)


def with_files(place: Place) -> None:
    for name in ("a", "b"):
        (place.project / f"{name}.txt").write_text(f"file {name} has words\n" * 400)
    skill = place.project.parent / "skills"
    for name in ("brew", "pour"):
        (skill / name).mkdir(parents=True)
        text = (
            f"---\nname: {name}\ndescription: How to {name}.\n---\n" + f"{name} with care\n" * 300
        )
        (skill / name / "SKILL.md").write_text(text)


def skills(place: Place) -> list[str]:
    return [str(place.project.parent / "skills")]


def restoring(value: Any, base: dict[str, Any] | None = None) -> Live:
    """Two files and two skills are read, then all is compacted."""
    steps = [
        use("Read", file_path="a.txt"),
        use("Read", file_path="b.txt"),
        *({"tool_use": [{"name": "Skill", "input": {"name": n}}]} for n in ("brew", "pour")),
        *talks(3),
    ]
    return Live(
        value,
        steps,
        asked(3),
        {**QUIET, "skills.directories": skills, **(base or {})},
        CACHED,
        {"summary": summary()},
        with_files,
        compact=True,
    )


def remembering(value: Any, **more: Any) -> Live:
    """Memories that fit the question."""
    return Live(value, ["ok"] * 3, (TEA, TEA2), {**NO_NOTES, **more.pop("base", {})}, **more)


TEA = "How do we brew the green tea, the black tea and the white tea of the house?"
TEA2 = "And what else do we know of brewing green tea at home?"


def with_memories(place: Place) -> None:
    folder = memory_folder(place)
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for n, leaf in enumerate(("green", "black", "white")):
        body = "\n".join(
            f"Brew the {leaf} tea of the house at {70 + i} degrees." for i in range(60)
        )
        name = f"reference_{leaf}_tea.md"
        head = f"---\nname: {leaf} tea\ndescription: How we brew the {leaf} tea of the house.\n"
        (folder / name).write_text(f"{head}type: reference\n---\n{body}\n")
        long_ago = place.clock.at - 30 * 86_400
        os.utime(folder / name, (long_ago, long_ago))
        lines.append(f"- [{leaf} tea]({name}) — brewing the {leaf} tea {n}")
    (folder / "MEMORY.md").write_text("\n".join(lines) + "\n")


def memory_folder(place: Place) -> Path:
    return place.project.parent / "memories"


def with_instructions(place: Place) -> None:
    inner = place.project / "docs"
    inner.mkdir()
    (place.project / "AGENTS.md").write_text("ALWAYS WEIGH THE TEA\n@docs/one.md\n" + "x " * 700)
    (inner / "one.md").write_text("ONE\n@two.md\n")
    (inner / "two.md").write_text("TWO\n@../../outside.md\n")
    (place.project.parent / "outside.md").write_text("OUTSIDE\n")


def bash(command: str, **more: Any) -> list[Any]:
    return [use("Bash", command=command, **more), "done"]


REMEMBER = {
    "tool_use": [
        {
            "name": "Remember",
            "input": {
                "content": "I want tabs in all files.",
                "name": "tabs",
                "description": "I want tabs in all files.",
                "type": "feedback",
            },
        }
    ]
}
WANT = ("Remember: I want tabs in all files.",)
ALLOW = {**QUIET, "permissions.allow": ["Bash"]}
TEAM = {"memory.directory": memory_folder}
OPUS, HOUSE = "anthropic:claude-opus-4-5", "openai:house-model"
THINKS = {**QUIET, "anthropic.thinking": "enabled"}


def on_wire(value: Any, model: str = OPUS, *answers: Answer, **base: Any) -> Live:
    return Live(value, asks=("hello",), base={**QUIET, **base}, wire=model, answers=answers)


def scripted_file(place: Place) -> str:
    path = place.project.parent / "script.json"
    path.write_text(json.dumps({"steps": [{"reply": "from the script"}] * 5}))
    return f"scripted:{path}"


def dreaming(value: Any, **base: Any) -> Live:
    otherwise = {"dream": "Nothing to do.", "extraction": "Nothing."}
    given = {**NO_NOTES, **TEAM, **base}
    return Live(
        value, ["ok"], base=given, otherwise=otherwise, prepare=with_memories, interactive=True
    )


PICKED = "it bounds a small model's pick, which tests/recall/test_select.py drives by itself"
EXTRACT = {"extraction": use("Grep", pattern="x"), "notes": "Nothing."}

WALK: dict[str, Live | str] = {
    "model": Live(scripted_file, own_model=True, base=QUIET),
    "small_model": "tests/recall/test_prefetch.py",
    "memory.reader": "tests/layers/test_reading.py",
    "max_output": Live(1_000),
    "anthropic.base_url": "tests/e2e/test_cache_edits.py",
    "anthropic.cache_edits": "tests/e2e/test_cache_edits.py",
    "anthropic.thinking": on_wire("adaptive"),
    "anthropic.thinking_tokens": on_wire(2_000, **{"anthropic.thinking": "enabled"}),
    "anthropic.betas": on_wire(["some-beta"]),
    "anthropic.headers": on_wire({"x-team": "blue"}),
    "anthropic.diagnostics": on_wire(True),
    "openai.base_url": "tests/e2e/test_every_setting.py",  # every story on that wire sets it
    "openai.headers": on_wire({"x-team": "blue"}, HOUSE),
    "openai.cache_key": on_wire("team-7", HOUSE),
    "api.timeout": on_wire(77.0),
    "api.retries": on_wire(1, OPUS, *[fails(529)] * 3),
    "cache.ttl": on_wire("1h"),
    "cache.keep_warm": "tests/layers/test_keep_warm.py",
    "window.tokens": on_wire(50_000, HOUSE),
    "turn.max_calls": Live(1, probes(3), ("work",), QUIET, results="x"),
    "turn.recover": Live(
        True,
        [*probes(8)[:9], Step({"error": "prompt_too_long"}), "recovered"],
        ("work", "on"),
        {
            **QUIET,
            **dict.fromkeys(
                (
                    "microcompact.time_based",
                    "microcompact.worn",
                    "microcompact.cache_edits",
                    "microcompact.api_management",
                    "compact.auto",
                ),
                False,
            ),
        },
        results=LONG,
    ),
    "turn.continuations": Live(
        0, [{"text": "a", "stop_reason": "max_tokens"}] * 4 + ["b"], base={**QUIET, "max_output": 9}
    ),
    "background.profile": "tests/layers/test_background_profile.py",
    "background.turns": "tests/layers/test_background_profile.py",
    "background.drain_seconds": noted(0.0, wait=False),
    "tool_results.enabled": large(False, 60_000),
    "tool_results.threshold": large(10_000),
    "tool_results.thresholds": large({"Probe": 10_000}),
    "tool_results.message_limit": large(10_000),
    "tool_results.preview_bytes": large(300, 60_000),
    "folds.enabled": Live(False, probes(2), ("work",), QUIET, results=LONG),
    "folds.least": Live(100_000, probes(2), ("work",), QUIET, results=LONG),
    "microcompact.time_based": clearing(False),
    "microcompact.gap_minutes": clearing(60.0),
    "microcompact.keep": clearing(1),
    "microcompact.worn": "tests/layers/test_microcompact.py",
    "microcompact.worn_tokens": "tests/layers/test_microcompact.py",
    "microcompact.worn_keep": wearing(20),
    "microcompact.cache_edits": deleting(False),
    "microcompact.edits_trigger": deleting(3),
    "microcompact.edits_keep": deleting(2),
    "microcompact.api_management": on_wire(False),
    "microcompact.api_trigger": on_wire(50_000),
    "microcompact.api_clear_at_least": on_wire(9_000),
    "microcompact.thinking_turns": on_wire(2, **{"anthropic.thinking": "enabled"}),
    "snip.enabled": Live(False),
    "notes.enabled": noted(False),
    "notes.first_tokens": noted(20_000),
    "notes.every_tokens": noted(50_000),
    "notes.tool_calls": "notes run beside the rounds that it counts: the order would be chance",
    "notes.section_tokens": noted(100),
    "notes.total_tokens": noted(1_000, compact=True),
    "notes.keep_tokens": noted(100, compact=True, base={"notes.keep_messages": 1}),
    "notes.keep_messages": noted(1, compact=True, base={"notes.keep_tokens": 1}),
    "notes.keep_most_tokens": noted(7_000, compact=True),
    "compact.auto": filling(False),
    "compact.from_notes": noted(False, compact=True),
    "compact.full": filling(False),
    "compact.window": filling(40_000),
    "compact.percent": filling(30.0),
    "compact.output_reserve": filling(1_000),
    "compact.margin": filling(18_000),
    "compact.warning_margin": filling(1_000),
    "compact.blocking_margin": filling(20_000, 20, base={"compact.auto": False}),
    "compact.tries": filling(0, otherwise={"summary": {"error": "prompt_too_long"}}),
    "compact.failures": "tests/layers/test_compaction.py",
    "compact.fidelity": "tests/layers/test_compaction.py",
    "compact.restore_files": restoring(1),
    "compact.restore_file_tokens": restoring(500),
    "compact.restore_files_tokens": restoring(700),
    "compact.restore_skill_tokens": restoring(300),
    "compact.restore_skills_tokens": restoring(400),
    "collapse.enabled": filling(True),
    "collapse.stage_percent": filling(20.0, 6, base={"collapse.enabled": True}),
    "collapse.commit_percent": filling(75.0, base={"collapse.enabled": True}),
    "extraction.enabled": Live(
        False, ["ok"] * 2, WANT, NO_NOTES, otherwise=EXTRACT, interactive=True
    ),
    "extraction.non_interactive": Live(True, ["ok"] * 2, WANT, NO_NOTES, otherwise=EXTRACT),
    "extraction.every_turns": Live(
        3, ["ok"] * 2, WANT * 2, NO_NOTES, otherwise=EXTRACT, interactive=True
    ),
    "extraction.max_calls": Live(
        1, ["ok"] * 2, WANT, NO_NOTES, otherwise=EXTRACT, interactive=True
    ),
    "dream.enabled": dreaming(False, **{"dream.hours": 0.0, "dream.sessions": 0}),
    "dream.hours": "a first dream waits for no hours, and a second one for a day",
    "dream.sessions": dreaming(0, **{"dream.hours": 0.0}),
    "dream.non_interactive": "tests/layers/test_dream.py",
    "dream.scan_minutes": "it only spares a look at the folder between two turns; nothing is sent",
    "dream.max_minutes": "a dream would have to work for a minute of real time",
    "memory.enabled": Live(False),
    "memory.directory": Live(memory_folder),
    "memory.remote_directory": Live(memory_folder, base={"remote": True}),
    "memory.guidelines": Live("Save nothing on Mondays."),
    "memory.inbox_all": "tests/cli/test_chat_once.py",
    "memory.inbox_most": "tests/layers/test_extraction.py",
    "memory.index": Live(False),
    "memory.manifest_files": "tests/layers/test_extraction.py",
    "memory.past_context": Live(False),
    "memory.daily_log": Live(True),
    "recall.enabled": remembering(False, base=TEAM, prepare=with_memories),
    "recall.max_files": "tests/recall/test_prefetch.py",
    "recall.max_lines": remembering(5, base=TEAM, prepare=with_memories),
    "recall.max_bytes": remembering(200, base=TEAM, prepare=with_memories),
    "recall.session_bytes": remembering(100, base=TEAM, prepare=with_memories),
    "recall.stale_days": remembering(1e6, base=TEAM, prepare=with_memories),
    "recall.max_tokens": PICKED,
    "recall.timeout": PICKED,
    "recall.wait": "tests/recall/test_prefetch.py",
    "instructions.excludes": Live(["**/AGENTS.md"], prepare=with_instructions),
    "instructions.trust": Live(True, prepare=with_instructions),
    "instructions.depth": Live(1, prepare=with_instructions),
    "instructions.warn_characters": Live(1_000, prepare=with_instructions),
    "memory.max_file": "tests/cli/test_dream.py",
    "permissions.allow": Live(
        ["Bash"], bash("touch made"), base={**QUIET, "sandbox.profile": "full"}
    ),
    "permissions.ask": Live(["Read"], [use("Read", file_path="a.txt"), "done"], prepare=with_files),
    "permissions.deny": Live(
        ["Read"], [use("Read", file_path="a.txt"), "done"], prepare=with_files
    ),
    "sandbox.profile": Live("read-only", bash("touch made && echo made"), base=ALLOW),
    "sandbox.network": "tests/tools/test_sandbox.py",
    "team.enabled": "tests/team/test_sharing.py",
    "team.sync": "tests/team/test_sharing.py",
    "team.repositories": "tests/team/test_sharing.py",
    "sandbox.unattended_reach": "tests/tools/test_sandbox.py",
    "bash.timeout": Live(33.0, base=QUIET),
    "bash.environment": "tests/cli/test_chat_once.py",
    "bash.max_timeout": Live(333.0, base=QUIET),
    "hooks": Live({"SessionStart": [{"command": "echo HOOKED"}]}, base=QUIET),
    "mcp.servers": Live({"gone": {"command": "/nowhere/at/all"}}, base=QUIET),
    "mcp.wait_seconds": "tests/e2e/test_providers.py",
    "skills.directories": Live(skills, prepare=with_files, base=QUIET),
    "web.search": Live("cat", base=QUIET),
    "web.fetch": Live("cat", base=QUIET),
    "secrets.rules": "tests/e2e/test_own_secret_rules.py",
    "spend.daily_cap": "tests/cache/test_spend.py",
    "spend.layer_caps": "tests/layers/test_notes.py",
    "prices": Live(
        {"claude-opus-4-5": {"input": 99.0, "output": 99.0}},
        base=QUIET,
        wire=OPUS,
        answers=(says("ok", message={"model": "claude-opus-4-5"}),),
    ),
    "bare": Live(True),
    "remote": Live(True),
    "agents.enabled": Live(True, base=QUIET),
    "agents.coordinator": Live(True, base={**QUIET, "agents.enabled": True}),
    "agents.trust": "tests/agents/test_types.py",
    "agents.depth": "tests/agents/test_agents.py",
    "agents.at_once": "tests/agents/test_agents.py",
    "agents.max_calls": "tests/agents/test_agents.py",
    "agents.max_minutes": "tests/agents/test_agents.py",
    "agents.max_dollars": "tests/agents/test_agents.py",
    "agents.name": "tests/agents/test_roads.py",
    "agents.serves": "tests/agents/test_roads.py",
    "agents.bridge": "tests/agents/test_roads.py",
}


# ---- telling them

PASSING = ("text_delta", "hook_ran", "memory_adopted")
PLAIN: dict[str, str] = {}  # a story with the default, by its words


def _made(value: Any, place: Place) -> Any:
    made = value(place) if callable(value) else value
    return str(made) if isinstance(made, Path) else made


async def _tell(place: Place, live: Live, config: dict[str, Any], heard: list[Any]) -> list[Any]:
    told: list[Any] = []
    scripted = ScriptedModel(list(live.steps), capabilities=live.can, otherwise=live.otherwise)
    model: Any = None if live.own_model else live.wire or scripted
    wishes: dict[str, Any] = {
        "config": config,
        "interactive": live.interactive,
        "session_id": "walk",
    }
    wishes |= {
        "on_event": heard.append,
        "tools": [Probe(saying(live.results), clearable=True)] if live.results else [],
    }
    try:
        async with place.open(model, **wishes) as session:
            told.append(session.status().window)
            for number, words in enumerate(live.asks):
                place.clock.at += live.pause if number == len(live.asks) - 1 else 0
                reply = await session.ask(words)
                told.append([reply.text, reply.stop])
                while live.wait and session.state.background.running():
                    await anyio.lowlevel.checkpoint()
            if live.compact:
                told.append((await session.compact()).source)
            told.append(session.view().messages)
            told.append(sorted(Counter(e["kind"] for e in session.ledger.entries).items()))
    except LaminaError as error:
        told.append(str(error))
    return [*told, [_request(r) for r in scripted.requests]]


def _request(request: Any) -> Any:
    parts = (
        request.purpose,
        request.max_tokens,
        dict(request.params),
        list(request.cache_deletions),
    )
    return [*parts, list(request.system), list(request.tools), list(request.messages)]


def trace(root: Path, live: Live, name: str, wire: WireServer, *, changed: bool) -> str:
    """All that a story showed, without what differs by chance."""
    for _ in range(1_000):  # what ran behind the last story may still put a file there
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists():
            break
    root.mkdir()
    place = Place(root)
    live.prepare(place)
    config = {key: _made(value, place) for key, value in live.base.items()}
    if changed:
        config[name] = _made(live.value, place)
    wire.received.clear()
    wire.answers[:] = live.answers
    heard: list[Any] = []
    told = run(_tell, place, live, config, heard)
    # Background work is told of when it gets its turn.
    told += sorted(json.dumps(event.to_json()) for event in heard if event.kind not in PASSING)
    told += [[one.raw.decode(), sorted(one.headers.items())] for one in wire.received]
    text = json.dumps(told, default=str).replace(str(root), "ROOT")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "ID", text)
    text = re.sub(r"(#|Expand )[0-9a-f]{8}\b", r"\1ID", text)
    return re.sub(
        r'\\*"(?:seconds|delay)\\*": [0-9.e-]+|127\.0\.0\.1:\d+|copy-[0-9a-f]{12}|ROOT-[\w-]+',
        "",
        text,
    )


@pytest.mark.spec("F8", "F9")
def test_every_setting_has_its_story() -> None:
    assert set(WALK) == {setting.name for setting in SETTINGS}
    for name, story in WALK.items():
        if isinstance(story, str) and story.startswith("tests/"):
            text = (HERE.parents[1] / story).read_text()
            assert name.rpartition(".")[2] in text, f"{story} sets no {name}"


@pytest.mark.spec("F8", "F9")
@pytest.mark.parametrize("name", [name for name, story in WALK.items() if isinstance(story, Live)])
def test_a_setting_changes_something_in_a_live_session(
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    wire: WireServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.anthropic_url)
    monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)
    live = WALK[name]
    assert isinstance(live, Live)
    root = tmp_path_factory.getbasetemp() / "walk"
    same = repr(replace(live, value=None))
    if same not in PLAIN:
        PLAIN[same] = trace(root, live, name, wire, changed=False)
        again = trace(root, live, name, wire, changed=False)
        assert again == PLAIN[same], "a story of chance"
    assert trace(root, live, name, wire, changed=True) != PLAIN[same]
