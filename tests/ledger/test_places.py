"""Whose folder is it: slugs, project folders, and paths that would share one."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina import machine
from lamina.errors import StorageError
from lamina.ledger import places


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ann/shop", "-home-ann-shop"),
        ("/home/ann/shop.v2", "-home-ann-shop-v2"),
        ("/home/Ünal/x", "-home--nal-x"),
        ("/", "-"),
    ],
)
def test_a_slug_keeps_letters_and_digits_only(path: str, expected: str) -> None:
    assert places.slug(path) == expected


def test_a_long_slug_is_cut_and_gets_a_hash_of_the_whole_path() -> None:
    one, two = "/p" * 150 + "/one", "/p" * 150 + "/two"
    assert places.slug(one)[:200] == places.slug(two)[:200] == "-p" * 100
    assert places.slug(one) != places.slug(two)
    assert len(places.slug(one)) == 213


@given(st.text(min_size=1, max_size=600))
def test_a_slug_is_always_a_safe_folder_name(path: str) -> None:
    name = places.slug("/" + path.replace("\x00", "/").encode("utf-8", "replace").decode())
    assert set(name) <= set("-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert len(name) <= 213


def test_the_folder_is_private_marked_and_made_once(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "shop"
    project.mkdir()
    folder = places.project_folder(home, project)
    assert (
        folder == places.project_folder(home, project) == places.find_project_folder(home, project)
    )
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert json.loads((folder / "project.json").read_text())["path"] == str(project)
    assert [entry.name for entry in folder.iterdir()] == ["project.json"]


def test_looking_a_folder_up_creates_nothing(tmp_path: Path) -> None:
    places.find_project_folder(tmp_path / "home", tmp_path / "shop")
    assert list(tmp_path.iterdir()) == []


def test_two_projects_with_one_slug_get_two_folders(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = places.project_folder(home, tmp_path / "a.b")
    second = places.project_folder(home, tmp_path / "a-b")
    assert second.name == f"{first.name}-{places.path_hash(tmp_path / 'a-b')}"
    assert places.project_folder(home, tmp_path / "a.b") == first
    assert places.project_folder(home, tmp_path / "a-b") == second


def test_a_link_to_a_project_is_the_same_project(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shop")
    home = tmp_path / "home"
    assert places.project_folder(home, tmp_path / "link") == places.project_folder(
        home, tmp_path / "shop"
    )


def test_a_path_that_is_not_utf8_is_recorded_and_found_again(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    home = tmp_path / "h"
    assert not places.find_project_folder(home, odd).exists(), "a look makes none"
    made = places.project_folder(home, odd)
    assert places.find_project_folder(home, odd) == made
    assert places.known_projects(home) == [odd]
    assert places.project_folder(home, odd.replace("\udce9", "\udce8")) != made


def test_a_damaged_record_is_named_and_not_guessed(tmp_path: Path) -> None:
    folder = places.project_folder(tmp_path / "home", tmp_path)
    (folder / "project.json").write_text("{")
    with pytest.raises(StorageError, match="damaged"):
        places.project_folder(tmp_path / "home", tmp_path)


@pytest.mark.parametrize("last", ["flock", "write", "fsync"])
def test_a_claim_that_is_killed_leaves_no_file_and_blocks_nobody(tmp_path: Path, last: str) -> None:
    """The process ends before the named call, as by a kill: nothing of it tidies up."""
    module = "fcntl" if last == "flock" else "os"
    program = (
        "import os, fcntl, sys, pathlib; from lamina.ledger import places;"
        f"{module}.{last} = lambda *_: os._exit(9);"
        "places.project_folder(pathlib.Path(sys.argv[1]), sys.argv[2])"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "home"), str(tmp_path / "shop")]
    assert subprocess.run(words, check=False).returncode == 9
    folder = places.project_folder(tmp_path / "home", tmp_path / "shop")
    assert [entry.name for entry in folder.iterdir()] == ["project.json"]
    assert folder == places.project_folder(tmp_path / "home", tmp_path / "shop")


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(StorageError, match="home"):
        places.project_folder(tmp_path / "home", tmp_path)


def test_processes_that_race_for_one_slug_never_share_a_folder(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from lamina.ledger import places; sys.stdin.readline();"
        "print(places.project_folder(pathlib.Path(sys.argv[1]), sys.argv[2]).name)"
    )
    names = [tmp_path / "a.b", tmp_path / "a-b", tmp_path / "a.b", tmp_path / "a b"]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "home"), str(name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for child in children:
        assert child.stdin
        child.stdin.write("\n")
        child.stdin.flush()
    folders = [child.communicate()[0].strip() for child in children]
    assert all(child.returncode == 0 for child in children)
    assert folders[0] == folders[2]
    assert len(set(folders)) == 3


def test_nothing_but_a_plain_file_is_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for put in (
        lambda: machine.write_private(pipe, b"x"),
        lambda: machine.replace_file(pipe, b"x"),
        lambda: machine.replace_file(link, b"x"),
        lambda: machine.replace_file(link, None),
    ):
        with pytest.raises(OSError, match="device, pipe or socket"):
            put()
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


@pytest.mark.spec("F13")
def test_a_folder_made_for_a_file_of_the_users_is_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        machine.replace_file(tmp_path / ".codex" / "hooks.json", b"{}")
    finally:
        os.umask(before)
    assert (tmp_path / ".codex").stat().st_mode & 0o777 == 0o700
