"""`lamina team`: join a team's memory, look at it, and keep in step with it. What runs the server
itself is in `serving`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Generator
from dataclasses import asdict
from typing import Any

from lamina.cli import terminal
from lamina.cli.options import (
    add_verb,
    begin_group,
    command,
    config_of,
    count,
    flag,
    hint,
    optional,
)
from lamina.cli.settings import change
from lamina.cli.terminal import harmless, moment, note, out, out_json, picked, plural, table
from lamina.config import Config, settings_files
from lamina.errors import LaminaError, UsageError
from lamina.events import quiet
from lamina.memory import diff_text, open_store, team_folder, team_is_on
from lamina.ports import MemoryStore
from lamina.team import serving
from lamina.team.entries import sha256
from lamina.team.joined import Clash, Joined, Place, Progress, repository_of
from lamina.team.remote import Remote, TeamRefused, checked_url
from lamina.team.sync import TEAM, Pulled, Pushed, TeamSync

EXAMPLES = """
lamina team join https://team.acme.org   asks for the token, or takes LAMINA_TEAM_TOKEN
lamina memory add "Releases are cut on Tuesdays" --team
lamina team status                       what is shared, pending or in conflict
lamina team pull                         now, without waiting for the next session
lamina team log                          who changed what
lamina team resolve                      both versions of what clashed
lamina team remove project_old.md        for everybody; `restore` brings it back
lamina team serve --db sqlite:///srv/lamina/team.db
lamina team token create --name ana --tenant acme --repo "acme/*" --db sqlite:///srv/lamina/team.db
"""

_SOON = 3.0  # seconds that a push waits for further writes
_AGAIN = 60.0  # seconds before a server that was away is asked again


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    join = add_verb(verbs, "join", "share this project's team memory")
    begin_group(verbs, "sharing")
    join.add_argument("url", help="the server's address")
    join.add_argument("--repo", default="", help="owner/name (from the git remote)")
    flag(join, "--yes", "push what is already in team/ without asking")
    add_verb(verbs, "leave", "stop sharing; the files stay")
    add_verb(verbs, "status", "show what is shared, pending or in conflict")
    add_verb(verbs, "pull", "fetch what others wrote")
    push = add_verb(verbs, "push", "send what was written here")
    flag(push, "--yes", "also what was in team/ before joining")
    log = add_verb(verbs, "log", "list versions on the server, newest first")
    begin_group(verbs, "looking")
    optional(log, "file", "one file")
    log.add_argument("-n", "--number", type=count, default=20, help="how many (20); 0: all")
    add_verb(verbs, "diff", "show what was changed here and not sent yet")
    add_verb(verbs, "members", "list who shares this repository")
    resolve = add_verb(verbs, "resolve", "show both versions of what clashed, or choose one")
    begin_group(verbs, "mending")
    optional(resolve, "file", "one file")
    chosen = resolve.add_mutually_exclusive_group()
    flag(chosen, "--mine", "write my version, for everybody")
    flag(chosen, "--theirs", "keep the team's version")
    remove = add_verb(verbs, "remove", "remove a memory for everybody; its versions are kept")
    remove.add_argument("file", help="the file")
    restore = add_verb(verbs, "restore", "bring an earlier version back, for everybody")
    restore.add_argument("file", help="the file")
    which = "its number in `team log` (the last)"
    restore.add_argument("version", nargs="?", type=count, help=which)
    sync = add_verb(verbs, "sync", "pull and push in the background; sessions call it")
    flag(sync, "--soon", "wait a little for further writes")
    serving.add_verbs(verbs)


def run(args: argparse.Namespace) -> int | None:
    if args.verb in serving.VERBS:
        return serving.run(args)
    config = config_of(args)
    if not config.bool("memory.enabled"):
        raise UsageError("Memory is off here, so there is nothing to share.")
    with open_store(config.with_(**{"team.sync": False}), quiet) as store:
        place = Place(team_folder(store.state))
        if args.verb == "join":
            return _join(args, config, place)
        if args.verb == "leave":
            shared = "is no longer shared. The files stay" if place.joined() else "was not shared"
            left = f"This project {shared}."
            place.leave()
            return _told(args, {"joined": False}, left)
        return _VERBS[args.verb](args, config, store, place)


# ---- joining


def _join(args: argparse.Namespace, config: Config, place: Place) -> None:
    names = config.table("team.repositories")
    joined = Joined(checked_url(args.url), repository_of(config.project, args.repo, names))
    given = config.secret("team")
    token = given or _asked_token()
    Remote(joined.url, joined.repo, token).members()  # says what is wrong before anything is kept
    with place.locked():
        old = place.joined()
        progress = place.progress() if old == joined else Progress()
        place.join(joined, "" if given else token, progress)
    if not config.bool("team.enabled"):
        own = settings_files(config.project, config.own_home)["user"]
        change(own, "team.enabled", value=True)
    config = config_of(args)
    if not team_is_on(config, place.folder.parent):
        where = config.source("team.enabled")
        raise UsageError(f"team.enabled is switched off by {where}. Change it there.")
    with open_store(config.with_(**{"team.sync": False}), quiet) as store:
        if old != joined:
            progress.unconfirmed = {
                path.removeprefix(TEAM): sha256(store.content(path) or b"")
                for path in store.stamps()
                if path.startswith(TEAM)
            }
            place.save(progress)
        with _syncing(config, store, place) as sync:
            sync.pull()
            confirmed = args.yes or _confirmed([*sync.changed(place.progress())])
            pushed = sync.push(confirm=confirmed)
    value = {"joined": True, "url": joined.url, "repo": joined.repo}
    value |= _json_of(sync.pulled, pushed)
    _told(args, value, f"Joined {joined.repo} at {joined.url}.", sync.pulled, pushed)


def _asked_token() -> str:
    if not sys.stdin.isatty():
        raise UsageError("There is no token. Set LAMINA_TEAM_TOKEN.")
    import getpass

    token = getpass.getpass("Token: ").strip()
    if not token:
        raise UsageError("You need a token to join. Ask whoever runs the server for one.")
    return token


def _confirmed(keys: list[str]) -> bool:
    """What lay there before anybody shared it is not sent unasked."""
    if not keys:
        return True
    if not sys.stdin.isatty():
        return False
    for key in keys:
        note(f"  {harmless(key)}")
    return input(f"Share {plural(len(keys), 'file')} with the team? [y/N] ").strip().lower() == "y"


# ---- what every verb needs


def _joined(config: Config, store: MemoryStore, place: Place) -> tuple[Joined, Remote]:
    joined = place.joined()
    if joined is None or not team_is_on(config, store.state):
        raise UsageError("This project shares no team memory. Start with `lamina team join URL`.")
    token = config.secret("team") or place.token()
    if not token:
        raise UsageError("There is no token. Set LAMINA_TEAM_TOKEN, or join again.")
    return joined, Remote(joined.url, joined.repo, token)


@contextlib.contextmanager
def _syncing(config: Config, store: MemoryStore, place: Place) -> Generator[TeamSync]:
    _, remote = _joined(config, store, place)
    with place.locked():
        try:
            index = config.bool("memory.index")
            yield TeamSync(store, place, remote, index, shares_index=index and config.claude)
        except UsageError:  # says nothing of the server
            raise
        except LaminaError as error:
            progress = place.progress()
            progress.tried, progress.problem = place.now(), str(error)
            place.save(progress)
            raise


def _told(
    args: argparse.Namespace,
    value: dict[str, Any],
    sentence: str = "",
    pulled: Pulled | None = None,
    pushed: Pushed | None = None,
) -> None:
    if args.json:
        return out_json(value)
    if sentence:
        out(sentence)
    if args.quiet:
        return None
    pulled, pushed = pulled or Pulled(), pushed or Pushed()
    did = [(key, f"from {author}") for key, author in pulled.taken.items()]
    did += [(key, f"removed by {author}") for key, author in pulled.removed.items()]
    for key, what in (*did, *((key, "sent") for key in pushed.sent)):
        out(f"  {harmless(key)}  {what}")
    for key, why in {**pulled.left_out, **pushed.refused}.items():
        note(f"Left out: {harmless(key)}: {harmless(why)}")
    for line in _for_a_person(args, pulled):
        note(line)
    if pushed.unconfirmed:
        names = ", ".join(map(harmless, pushed.unconfirmed[:5]))
        push = command(args, "team push --yes")
        note(f"Not sent, because it was there before you joined: {names}. {push} sends it.")
    return None


def _json_of(pulled: Pulled | None, pushed: Pushed | None) -> dict[str, Any]:
    return (asdict(pulled) if pulled else {}) | (asdict(pushed) if pushed else {})


def _key(word: str) -> str:
    key = word.removeprefix(TEAM)
    return key if key.endswith(".md") else f"{key}.md"


# ---- the verbs


def _pull(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    with _syncing(config, store, place) as sync:
        did = sync.pull()
    news = plural(len(did.taken) + len(did.removed), "change")
    _told(args, _json_of(did, None), f"Pulled {news}.", did)


def _push(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> int:
    with _syncing(config, store, place) as sync:
        waiting = [*place.progress().unconfirmed]
        lying = [key for key in sync.changed(place.progress()) if key in waiting]
        did = sync.push(confirm=args.yes or (bool(lying) and _confirmed(lying)))
    sentence = f"Pushed {plural(len(did.sent), 'file')}."
    _told(args, _json_of(sync.pulled, did), sentence, sync.pulled, did)
    return 3 if did.refused else 0


def _sync(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    """Quiet: whoever called it does not wait, and `status` tells what went wrong."""
    if args.soon:
        with place.locked("soon", wait=False) as ours:
            if not ours:
                return
            time.sleep(_SOON)
    with contextlib.suppress(LaminaError), _syncing(config, store, place) as sync:
        progress = place.progress()  # whom we waited for may have just failed
        if progress.problem and abs(place.now() - progress.tried) < _AGAIN:
            return
        try:
            sync.pull()
            sync.push()
        finally:
            place.tell(_for_a_person(args, sync.pulled))


def _for_a_person(args: argparse.Namespace, pulled: Pulled) -> list[str]:
    """What only they can settle: a teammate's orders, and what clashed."""
    inbox = command(args, "memory inbox")
    asked = [
        f"{harmless(k)} is waiting for your review: {harmless(v)} {inbox}"
        for k, v in pulled.waiting.items()
    ]
    return asked + [
        f"Your version of {harmless(key)} is kept: {command(args, f'team resolve {key}')}"
        for key in pulled.clashes
    ]


def _status(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    joined, remote = _joined(config, store, place)
    progress = place.progress()
    sync = TeamSync(store, place, remote)
    unsent = [*sync.changed(progress)]
    kept_out = {key: known.why for key, known in progress.files.items() if known.why}
    clashes = [clash.key for clash in place.clashes()]
    if args.json:
        refused = {key: why for key, (_, why) in progress.refused.items()}
        value = {"url": joined.url, "repo": joined.repo, "files": len(progress.files)}
        value |= {"unsent": unsent, "unconfirmed": [*progress.unconfirmed], "left_out": kept_out}
        value |= {"refused": refused, "conflicts": clashes}
        out_json(value | {"reached": progress.reached, "problem": progress.problem})
        return
    out(f"{joined.repo} at {joined.url}: {plural(len(progress.files), 'file')}.")
    if progress.reached:
        out(f"Last in sync {moment(progress.reached)}.")
    if progress.problem:
        note(harmless(f"Last attempt, {moment(progress.tried)}: {progress.problem}"))
    if unsent:
        out(f"Not sent yet: {', '.join(map(harmless, unsent))}.")
    for key, why in kept_out.items():
        out(f"Not here: {harmless(key)}: {harmless(why)}.".replace("..", "."))
    for key in clashes:
        out(f"Conflict: {harmless(key)}. {command(args, 'team resolve')} shows both.")


def _log(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    found = _joined(config, store, place)[1].history(_key(args.file) if args.file else "")
    names = ("version", "file", "author", "when", "removed")
    shown = [
        (one.version, one.key, one.author, one.at, one.content is None)
        for one in found[: args.number or None]
    ]
    if args.json:
        out_json([dict(zip(names, row, strict=True)) for row in shown])
    elif shown:
        rows = [
            [str(version), moment(at), author, harmless(key) + (" (removed)" if gone else "")]
            for version, key, author, at, gone in shown
        ]
        out(table(rows, ["version", "when", "who", "file"]))
    else:
        note("Nothing was shared yet.")


def _diff(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    progress = place.progress()
    sync = TeamSync(store, place, _joined(config, store, place)[1])
    diffs: dict[str, str] = {}
    for key, content in sync.changed(progress).items():
        known = progress.files.get(key)
        base = place.base(known.sha256) if known else None
        diffs[key] = diff_text(TEAM + key, base, content)
    if args.json:
        return out_json(diffs)
    for text in diffs.values():
        terminal.print_diff(text)
    return hint(args, "Nothing to send: everything is on the server.") if not diffs else None


def _members(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    members = _joined(config, store, place)[1].members()
    if args.json:
        return out_json([picked(one, "name writes") for one in members])
    rows = [[harmless(one.name), "writes" if one.writes else "reads"] for one in members]
    return out(table(rows))


def _resolve(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    found = [one for one in place.clashes() if not args.file or one.key == _key(args.file)]
    if args.file and not found:
        raise UsageError(f"{args.file} has no conflict. `lamina team resolve` lists them.")
    if args.mine or args.theirs:
        if not args.file:
            raise UsageError("Which file? Name it after `lamina team resolve`.")
        if args.mine:
            _write_mine(store, found[-1])
        for clash in found:
            place.settled(clash)
        pushed = None
        if args.mine:
            with _syncing(config, store, place) as sync:
                pushed = sync.push()
        whose = "your" if args.mine else "the team's"
        _told(args, {"resolved": args.file}, f"Kept {whose} version.", None, pushed)
        return
    if args.json:
        kept = ((one.key, one.mine, one.theirs, one.author) for one in found)
        out_json([dict(zip(("file", "mine", "theirs", "by"), one, strict=True)) for one in kept])
        return
    for one in found:
        out(f"{harmless(one.key)}: {one.author}'s version replaced yours, {moment(one.when)}")
        theirs = None if one.theirs is None else one.theirs.encode()
        terminal.print_diff(diff_text(TEAM + one.key, theirs, one.mine.encode()))
    if found:
        hint(
            args, "`lamina team resolve FILE --mine` writes yours for everybody; --theirs drops it."
        )
    else:
        note("Nothing clashed.")


def _write_mine(store: MemoryStore, clash: Clash) -> None:
    path = TEAM + clash.key
    store.write_file(
        path,
        clash.mine.encode(),
        writer="user",
        base=store.content(path),
        pointer=True,
        reason="lamina team resolve",
    )


def _remove(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    key = _key(args.file)
    with _syncing(config, store, place) as sync:
        sync.remove(key)
    back = command(args, f"team restore {key}")
    sentence = f"Removed {harmless(key)} for everybody. {back} undoes it."
    _told(args, {"removed": key}, sentence)


def _restore(args: argparse.Namespace, config: Config, store: MemoryStore, place: Place) -> None:
    key = _key(args.file)
    remote = _joined(config, store, place)[1]
    number = args.version
    if number is None:
        number = next((one.version for one in remote.history(key) if one.content is not None), None)
    if number is None:
        raise UsageError(f"The team never had {key}. `lamina team log` lists all versions.")
    entry = remote.version(key, number)
    if entry.content is None:
        raise TeamRefused(f"{key} was removed in version {number}. Choose an earlier one.")
    with _syncing(config, store, place) as sync:
        sync.restore(entry)
    sentence = f"{harmless(key)} is again as {entry.author} wrote it in version {number}."
    _told(args, {"restored": key, "version": number}, sentence)


_VERBS = {
    verb.__name__[1:]: verb
    for verb in (_status, _pull, _push, _sync, _log, _diff, _members, _resolve, _remove, _restore)
}
