"""Where memory is: canonical roots by real git, overrides by their order, refusals by name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lamina.errors import SettingsError
from lamina.ledger import places
from lamina.memory.paths import (
    canonical_root,
    checked_directory,
    claim,
    memory_place,
    prepare,
)


def git(cwd: Path, *arguments: str) -> None:
    quiet = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=cwd,
        env=quiet,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-q")
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "file").write_text("x")
    git(root, "add", ".")
    git(root, "commit", "-qm", "x")
    return root


@pytest.mark.spec("M1")
def test_every_directory_and_worktree_of_a_repository_shares_one_root(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "elsewhere"), "-b", "other")
    assert canonical_root(repository / "src" / "deep") == repository
    assert canonical_root(tmp_path / "elsewhere") == repository
    assert canonical_root(tmp_path / "elsewhere" / "src") == repository


@pytest.mark.spec("M1")
def test_a_submodule_and_its_worktree_have_the_submodules_root(
    repository: Path, tmp_path: Path
) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "add", "-q", str(repository), "lib")
    git(outer / "lib", "worktree", "add", "-q", str(tmp_path / "libtree"), "-b", "other")
    assert canonical_root(outer / "lib" / "src") == outer / "lib"
    assert canonical_root(tmp_path / "libtree") == outer / "lib"
    assert canonical_root(outer) == outer


@pytest.mark.spec("M1")
def test_bare_repositories_and_their_worktrees_share_the_bare_root(
    repository: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    git(bare, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert canonical_root(bare) == canonical_root(bare / "refs") == bare
    assert canonical_root(tmp_path / "tree") == bare


@pytest.mark.spec("M1")
def test_the_layout_with_a_hidden_bare_repository_shares_one_root(
    repository: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "clone", "-q", "--bare", str(repository), ".bare")
    (project / ".git").write_text("gitdir: ./.bare\n")
    git(project, "worktree", "add", "-q", "main2", "-b", "main2")
    assert canonical_root(project) == canonical_root(project / "main2") == project / ".bare"


@pytest.mark.spec("M1")
def test_without_git_the_directory_itself_is_the_root(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert canonical_root(tmp_path / "plain") == tmp_path / "plain"


@pytest.mark.spec("M1")
@pytest.mark.parametrize("trick", ["worktree", "own-worktree", "gitdir", "garbage", "binary"])
def test_an_unpacked_archive_cannot_claim_another_projects_memory(
    repository: Path, tmp_path: Path, trick: str
) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "real"), "-b", "other")
    evil = tmp_path / "evil"
    (evil / "fake").mkdir(parents=True)
    pointer = evil / ".git"
    if trick == "worktree":
        pointer.write_text(f"gitdir: {repository}/.git/worktrees/real\n")
    elif trick == "own-worktree":
        (evil / "fake" / "HEAD").write_text("ref: refs/heads/x")
        (evil / "fake" / "commondir").write_text(f"{repository}/.git")
        (evil / "fake" / "gitdir").write_text(str(pointer))
        pointer.write_text("gitdir: fake\n")
    elif trick == "gitdir":
        pointer.write_text(f"gitdir: {repository}/.git\n")
    elif trick == "garbage":
        pointer.write_text("gitdir: \n")
    else:
        pointer.write_bytes(b"gitdir: \x00\xff" * 5000)
    assert canonical_root(evil) == evil


@pytest.mark.spec("M1")
def test_the_default_is_the_slug_of_the_canonical_root_under_home(
    repository: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    place = memory_place(home, repository / "src")
    assert place.directory == home / "projects" / places.slug(repository) / "memory"
    assert place.state.parent == place.directory.parent
    assert not home.exists()
    assert prepare(place) == prepare(place) == ""
    claim(place)
    assert place.directory.is_dir()
    assert memory_place(home, repository) == place


@pytest.mark.spec("M1")
def test_environment_wins_over_setting_and_setting_over_default(tmp_path: Path) -> None:
    home, one, two = tmp_path / "home", str(tmp_path / "one"), str(tmp_path / "two")
    both = memory_place(home, tmp_path, environment=one, setting=two)
    assert (str(both.directory), both.chosen_by) == (one, "LAMINA_MEMORY_DIR")
    only = memory_place(home, tmp_path, setting=two)
    assert (str(only.directory), only.chosen_by) == (two, "memory.directory")
    remote = memory_place(home, tmp_path, remote=str(tmp_path / "far"))
    assert remote.directory.is_relative_to(tmp_path / "far" / "projects")


@pytest.mark.spec("M1")
def test_a_setting_may_begin_with_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checked_directory("~/notes/memory", "x") == tmp_path / "notes" / "memory"


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("memory", "relative"),
        ("./memory", "relative"),
        ("../memory", "relative"),
        ("/", "root or one level"),
        ("/memory", "root or one level"),
        ("/./memory/", "root or one level"),
        ("C:\\", "root of a drive"),
        ("c:/", "root of a drive"),
        ("c:/memory/x", "path on a drive"),
        ("\\\\server\\share\\x", "UNC"),
        ("//server/share/x", "UNC"),
        ("/home/x\x00y/z", "NUL"),
        ("~", "home directory itself"),
        ("~/", "home directory itself"),
        ("~root/memory/x", "another user"),
        ("/home/x/../../etc", "'..'"),
        ("/home/" + "x" * 256, "255 bytes"),
    ],
)
def test_a_bad_directory_is_refused_by_name_and_reason(value: str, word: str) -> None:
    with pytest.raises(SettingsError, match="directory can") as raised:
        checked_directory(value, "memory.directory")
    assert word in str(raised.value)


@pytest.mark.spec("M1")
def test_a_link_that_leaves_is_refused_and_one_above_is_the_users_choice(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "memory").symlink_to(outside)
    with pytest.raises(SettingsError, match="link that leaves"):
        checked_directory(str(tmp_path / "mine" / "memory"), "x")
    (tmp_path / "alias").symlink_to(tmp_path / "mine")
    assert checked_directory(str(tmp_path / "alias" / "new"), "x") == tmp_path / "mine" / "new"


@pytest.mark.spec("M1")
def test_a_link_in_the_default_place_that_leaves_home_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = memory_place(home, tmp_path)
    place.directory.parent.mkdir(parents=True)
    place.directory.symlink_to(tmp_path)
    with pytest.raises(SettingsError, match="link that leaves"):
        memory_place(home, tmp_path)
    assert "link that leaves" in prepare(place)


@pytest.mark.spec("M1")
def test_no_permission_is_a_sentence_until_something_writes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("a file stands here")
    assert str(home) in prepare(memory_place(home, tmp_path))


@pytest.mark.spec("M13")
def test_in_claude_mode_the_directory_is_shared_and_our_own_files_are_apart(
    repository: Path, tmp_path: Path
) -> None:
    place = memory_place(tmp_path / ".claude", repository, claude=True)
    folder = tmp_path / ".claude" / "projects" / places.slug(repository)
    assert place.directory == folder / "memory"
    assert place.state.is_relative_to(tmp_path / ".claude" / "lamina")
    prepare(place)
    claim(place)
    assert [entry.name for entry in folder.iterdir()] == ["memory"]
