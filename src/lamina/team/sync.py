"""Keeps `memory/team/` in step with the team's server.

A pull is judged file by file and comes in as one commit. The server's version wins; an edit made here
that does not merge is kept among the conflicts. What is gone here stays gone, and goes nowhere else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from lamina.errors import Conflict, GateRefused, UsageError
from lamina.memories import Change, Memory, Note, Proposal
from lamina.memory import (
    INDEX,
    is_index,
    is_memory_path,
    merge_contents,
    pointers_of,
    proposal_of,
    read_topic,
    told_of,
    with_pointers,
    without_pointer,
)
from lamina.ports import MemoryStore
from lamina.team.entries import EMPTY, Entry, lines_of, sha256, why_not_shared, with_lines
from lamina.team.joined import Place, Progress, noted
from lamina.team.remote import News, Remote, TeamMoved, TeamRefused, batches
from lamina.text.wording import content_stems

_TRIES = 3
TEAM = "team/"
_AWAY = "you forgot it"
_WAITS = "you have not accepted it"


@dataclass(slots=True)
class Pulled:
    """What a pull did, by key."""

    taken: dict[str, str] = field(default_factory=dict[str, str])  # → author
    removed: dict[str, str] = field(default_factory=dict[str, str])  # → author
    waiting: dict[str, str] = field(default_factory=dict[str, str])  # → why a person should look
    left_out: dict[str, str] = field(default_factory=dict[str, str])  # → why
    clashes: list[str] = field(default_factory=list[str])

    def add(self, other: Pulled) -> None:
        self.taken |= other.taken
        self.removed |= other.removed
        self.waiting |= other.waiting
        self.left_out |= other.left_out
        self.clashes += other.clashes


@dataclass(slots=True)
class Pushed:
    sent: list[str] = field(default_factory=list[str])
    refused: dict[str, str] = field(default_factory=dict[str, str])  # → why
    unconfirmed: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a pull is about to do, before anything is done."""

    did: Pulled
    changes: list[Change]
    authors: dict[str, str]  # path → author
    held: list[tuple[Entry, Memory, str]]
    clashes: list[tuple[Entry, bytes]]
    whys: dict[str, str]  # key → why it is not here


@dataclass(slots=True)
class TeamSync:
    """One project's copy. The caller holds the place's lock. `shares_index`: beside an agent that writes
    team/MEMORY.md itself it is sent too, and merged line by line; else it follows from the files here.
    """

    store: MemoryStore
    place: Place
    remote: Remote
    with_index: bool = True
    shares_index: bool = False
    pulled: Pulled = field(default_factory=Pulled)  # by all pulls: a push may need one too

    # ---- pulling

    def pull(self) -> Pulled:
        progress = self.place.progress()
        news = self.remote.news(progress.etag)
        did = Pulled()
        if news is not None:
            progress.you = news.you or progress.you
            if not self.shares_index:
                news = news._replace(entries=[one for one in news.entries if one.key != INDEX])
            if news.whole and progress.etag != EMPTY:
                news = self._ahead_of(news, progress)
            did = self._take(news, progress)
            self.pulled.add(did)
        self._reached(progress, news.etag if news else progress.etag)
        return did

    def _ahead_of(self, news: News, progress: Progress) -> News:
        """The server was put back to an earlier state: what it has lost is ours to send again."""
        listed = {entry.key: entry for entry in news.entries}
        passed: set[str] = set()
        for key, known in [*progress.files.items()]:
            entry = listed.get(key)
            if entry is None and self.store.content(TEAM + key) is not None:
                del progress.files[key]
            elif entry is not None and entry.sha256 in known.seen:
                progress.files[key] = noted(None, entry.sha256, entry.author, known.why)
                self.place.keep_base(entry.content or "")
                passed.add(key)
        return news._replace(entries=[one for one in news.entries if one.key not in passed])

    def _take(self, news: News, progress: Progress) -> Pulled:
        self.store.catch_up()  # edits by hand are recorded first, as their writer's
        for _ in range(_TRIES):
            plan = self._planned(news, progress)
            try:
                self._apply(plan)
                break
            except Conflict:  # somebody saved a file meanwhile: look again
                continue
        else:
            raise Conflict("The files in team/ keep changing. Try again later.")
        for entry in news.entries:
            if entry.content is None:
                progress.files.pop(entry.key, None)
                continue
            self.place.keep_base(entry.content)
            known, why = progress.files.get(entry.key), plan.whys.get(entry.key, "")
            progress.files[entry.key] = noted(known, entry.sha256, entry.author, why)
        return plan.did

    def _planned(self, news: News, progress: Progress) -> _Plan:
        plan = _Plan(Pulled(), [], {}, [], [], {})
        for entry in news.entries:
            if entry.key == INDEX:
                continue
            if entry.content is None:
                self._plan_removal(entry, progress, plan)
            elif why := why_not_shared(entry.key, entry.content, self.store.secret_rules):
                plan.did.left_out[entry.key] = plan.whys[entry.key] = why
            else:
                self._plan_one(entry, entry.content.encode(), progress, plan)
        self._plan_index(plan, news, progress)
        return plan

    def _plan_removal(self, entry: Entry, progress: Progress, plan: _Plan) -> None:
        path, known = TEAM + entry.key, progress.files.get(entry.key)
        if known is None or not is_memory_path(path):
            return
        local = self.store.content(path)
        if local is None:
            return
        if sha256(local) not in (known.sha256, *known.seen):
            plan.clashes.append((entry, local))
            plan.did.clashes.append(entry.key)
        plan.changes.append(Change(path, local, None))
        plan.authors[path] = entry.author
        plan.did.removed[entry.key] = entry.author

    def _plan_one(self, entry: Entry, theirs: bytes, progress: Progress, plan: _Plan) -> None:
        path, known = TEAM + entry.key, progress.files.get(entry.key)
        local = self.store.content(path)
        if local == theirs:
            return
        if local is None and known is not None and known.why in ("", _AWAY):
            plan.did.left_out[entry.key] = plan.whys[entry.key] = _AWAY
            return
        after, ours = theirs, (known.sha256, *known.seen) if known else ()
        edited = local is not None and sha256(local) not in ours
        if edited:
            base = self.place.base(known.sha256) if known else None
            after = merge_contents(base, local, theirs, path) or theirs
        memory = read_topic(path, after)
        proposal = dataclasses.replace(proposal_of(memory, "team", ""), teammate=entry.author)
        try:
            verdict = self.store.judge(proposal, local, after)
        except GateRefused as refused:
            plan.did.left_out[entry.key] = plan.whys[entry.key] = str(refused)
            return
        held = verdict.decision == "inbox"
        if edited and local is not None and (held or after == theirs):
            plan.clashes.append((entry, local))
            plan.did.clashes.append(entry.key)
        if held:
            plan.held.append((entry, memory, verdict.reason))
            plan.did.waiting[entry.key] = verdict.reason
            plan.whys[entry.key] = _WAITS
            return
        plan.changes.append(Change(path, local, after))
        plan.authors[path] = entry.author
        plan.did.taken[entry.key] = entry.author

    def _apply(self, plan: _Plan) -> None:
        for entry, local in plan.clashes:  # first: nothing is overwritten that is not kept
            self.place.clash(entry.key, local, entry.content, entry.author)
        if plan.changes:
            names = sorted(set(plan.authors.values()))
            count = sum(not is_index(change.path) for change in plan.changes) or 1
            note = Note(
                writer="team",
                subject=f"pull {count} file{'s' * (count != 1)} from {', '.join(names)}",
                origin=f"teammate {names[0]}" if len(names) == 1 else "teammate",
                marks={
                    "Teammates": " ".join(f"{who}:{path}" for path, who in plan.authors.items())
                },
            )
            self.store.apply(plan.changes, note, first=lambda: None)
        asked = {one.exact for one in self.store.waiting()} if plan.held else set[bytes | None]()
        for entry, memory, _ in plan.held:
            content = (entry.content or "").encode()
            if content in asked:
                continue
            asked.add(content)
            proposal = dataclasses.replace(proposal_of(memory, "team", ""), teammate=entry.author)
            current = self.store.content(memory.path)
            try:
                self.store.hold(proposal, self.store.judge(proposal, current, content), content)
            except GateRefused as refused:
                plan.did.waiting.pop(entry.key, None)
                plan.did.left_out[entry.key] = plan.whys[entry.key] = str(refused)

    def _plan_index(self, plan: _Plan, news: News | None, progress: Progress) -> None:
        """team/MEMORY.md follows from the files that are here."""
        if not self.with_index:
            return
        path = TEAM + INDEX
        before = self.store.content(path)
        gone = (one.path.removeprefix(TEAM) for one in plan.changes if one.after is None)
        new: list[tuple[str, str, str, str]] = []
        for change in plan.changes:
            if change.after is not None:
                memory, key = read_topic(change.path, change.after), change.path.removeprefix(TEAM)
                label = f" (source: teammate {plan.authors[change.path]})"
                about = (key, memory.name or key, memory.description)
                line = told_of(*about, quoted=memory.quoted, suffix=label)
                new.append((key, *line, memory.type or ""))
        after = with_pointers(without_pointer(before or b"", *gone), new)
        theirs = next((one for one in news.entries if one.key == INDEX), None) if news else None
        text, rules = theirs.content or "" if theirs else "", self.store.secret_rules
        if news and theirs and not why_not_shared(INDEX, text, rules):
            after = self._their_lines(after, theirs, plan, progress)
            plan.authors.setdefault(path, theirs.author)
        if after != (before or b""):
            plan.changes.append(Change(path, before, after))

    def _their_lines(self, index: bytes, theirs: Entry, plan: _Plan, progress: Progress) -> bytes:
        """What the others changed in it since we looked, where it says what a memory here says."""
        known = progress.files.get(INDEX)
        base = lines_of((self.place.base(known.sha256) if known else None) or b"")
        here, new = lines_of(index), {one.path: one.after for one in plan.changes}
        paths = {path for path in self.store.stamps() if path.startswith(TEAM)} | new.keys()
        contents = ((path, new.get(path) or self.store.content(path)) for path in sorted(paths))
        memories = {
            path: read_topic(path, content)
            for path, content in contents
            if content is not None and not is_index(path) and new.get(path, content) is not None
        }
        named = {
            stem: one
            for one in memories.values()
            for stem in content_stems(f"{one.name} {one.description}")
        }

        def taken(about: str, line: str) -> str:
            old, file = base.get(about), progress.files.get(about)
            if TEAM + about not in new and (line == old or here.get(about, old) != old):
                return ""  # they left it as it was, or we did not
            proposal = Proposal(TEAM + INDEX, "", "", None, line, "team", teammate=theirs.author)
            one = memories.get(TEAM + about.removeprefix(TEAM))
            among = [one] if one else [named[stem] for stem in content_stems(line) & named.keys()]
            if self.store.judge_among(proposal, among, "").decision != "accept":
                return ""
            author = plan.authors.get(TEAM + about) or (file.author if file else "")
            return line if author in ("", progress.you) else f"{line} (source: teammate {author})"

        return with_lines(index, (theirs.content or "").encode(), taken)

    def _shared_index(self, progress: Progress, sent: Mapping[str, str]) -> str:
        """The team's index with our lines about what the team has. Lines go with their files alone."""
        known = progress.files.get(INDEX)
        base = (self.place.base(known.sha256) if known else None) or b""
        there = {*progress.files, *sent}

        def taken(about: str, line: str) -> str:
            return line if about in there or line.startswith("#") else ""

        after = with_lines(base, self.store.content(TEAM + INDEX) or b"", taken)
        astray = (one.file for one in pointers_of(after) if one.file not in there)
        return without_pointer(after, *astray).decode("utf-8", "replace")

    # ---- pushing

    def changed(self, progress: Progress) -> dict[str, bytes]:
        """What is here and not on the server, by key."""
        found: dict[str, bytes] = {}
        for path in sorted(self.store.stamps()):
            if not path.startswith(TEAM) or is_index(path):
                continue
            key, content = path.removeprefix(TEAM), self.store.content(path)
            known = progress.files.get(key)
            digest = sha256(content or b"")
            if known and digest == known.sha256:  # what waited was accepted: the user's word now
                known.author = "" if known.why == _WAITS else known.author
                known.why = ""
            if content is None or (known and digest in (known.sha256, *known.seen)):
                continue
            if known and known.why not in ("", _AWAY):
                continue  # the team's version is not settled here: ours would undo it
            found[key] = content
        return found

    def push(self, *, confirm: bool = False) -> Pushed:
        """Send what changed. Two more tries where somebody else was faster."""
        did = Pushed()
        for left in range(_TRIES - 1, -1, -1):
            progress = self.place.progress()
            if confirm:
                progress.unconfirmed.clear()
            contents = self._sendable(progress, did)
            try:
                for batch in batches(contents):
                    self._send(batch, progress, did)
                self._reached(progress, progress.etag)
                return did
            except TeamMoved:
                self.place.save(progress)
                if not left:
                    raise
                self.pull()
        return did

    def _sendable(self, progress: Progress, did: Pushed) -> dict[str, str]:
        contents: dict[str, str] = {}
        did.unconfirmed.clear()
        for key, content in self.changed(progress).items():
            digest = sha256(content)
            said = progress.refused.get(key, ("", ""))
            text = content.decode("utf-8", "surrogateescape")
            if progress.unconfirmed.get(key) == digest:
                did.unconfirmed.append(key)
            elif why := why_not_shared(key, text, self.store.secret_rules):
                did.refused[key] = why
            elif said[0] == digest:
                did.refused[key] = said[1]
            else:
                contents[key] = text
        if self.shares_index:
            index, known = self._shared_index(progress, contents), progress.files.get(INDEX)
            if index.strip() and (known is None or sha256(index.encode()) != known.sha256):
                contents[INDEX] = index
        return contents

    def _send(self, batch: Mapping[str, str], progress: Progress, did: Pushed) -> None:
        try:
            done = self.remote.put(batch, progress.etag)
        except TeamRefused as refused:
            wrong = {key: why for key, why in refused.details.items() if key in batch}
            if not wrong:
                raise
            for key, why in wrong.items():
                progress.refused[key] = (sha256(batch[key].encode()), why)
                did.refused[key] = why
            if rest := {key: text for key, text in batch.items() if key not in wrong}:
                self._send(rest, progress, did)
            return
        for key, text in batch.items():
            digest = sha256(text.encode())
            self.place.keep_base(text)
            progress.files[key] = noted(progress.files.get(key), digest, done.you)
            progress.unconfirmed.pop(key, None)
            progress.refused.pop(key, None)
            did.sent.append(key)
        progress.etag, progress.you = done.etag, done.you
        self.place.save(progress)

    def remove(self, key: str) -> None:
        """Take it out of the team's memory, and out of this copy; the server keeps its versions."""
        self.pull()
        progress = self.place.progress()
        if key not in progress.files:
            raise UsageError(f"The team has no {key}. `lamina team log` lists all versions.")
        progress.etag = self.remote.remove(key, progress.etag).etag
        progress.files.pop(key, None)
        self.place.save(progress)
        if self.store.content(TEAM + key) is not None:
            self.store.forget(TEAM + key, tombstone=False, reason="lamina team remove")

    def restore(self, entry: Entry) -> None:
        """An earlier version again, for everybody and here."""
        self.pull()
        text = entry.content or ""
        progress, did = self.place.progress(), Pushed()
        self._send({entry.key: text}, progress, did)
        if did.refused:
            raise UsageError(did.refused[entry.key])
        path = TEAM + entry.key
        change = Change(path, self.store.content(path), text.encode())
        # Still its author's words, whoever brings them back.
        progress.files[entry.key].author = entry.author
        self.place.save(progress)
        plan = _Plan(Pulled(), [change], {path: entry.author}, [], [], {})
        self._plan_index(plan, None, progress)
        self._apply(plan)

    def _reached(self, progress: Progress, etag: str) -> None:
        now = self.place.now()
        progress.etag, progress.reached, progress.tried, progress.problem = etag, now, now, ""
        self.place.drop_bases(progress)
        self.place.save(progress)
