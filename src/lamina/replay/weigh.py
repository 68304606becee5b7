"""How many tokens each recorded block is, and how much was sent that the recording doesn't show, so
that every prompt adds up to what the provider reported. Bytes per token are fitted by kind of
block to the usage that the recording itself carries. Pure arithmetic on values it is handed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import Any, TypeAlias

from lamina.cache.simulate import PaperBlock
from lamina.conversation.entries import as_text
from lamina.messages import Block, Message, Usage, as_list, as_object
from lamina.replay.recording import Recording, RequestStep

KINDS = ("text", "call", "result", "thinking", "each")
# Fitted over the recorded sessions of several models: tokens a byte, and tokens for each block.
USUAL = (0.242, 0.301, 0.331, 0.214, 27.0)
IMAGE_TOKENS = 2000
_TRUST = 3.0  # the usual figures count as so many requests of the session
_ROUNDS = 12
# Set by hand on the recorded Claude Code sessions. A prompt that falls short of its parts by more
# than both of these lost content; by less, the estimate was off and its blocks are stretched.
_LOSS = 3000  # tokens
_LOSS_SHARE = 0.04  # of the prompt
_MOST_STRETCH = 1.7  # a block that would need more carries something that was not recorded
_LEAST_LEFT = 0.3  # of a block or of a history: less is no estimate, the rest is in the frame


@dataclass(frozen=True, slots=True)
class Piece:
    """A block as the scales see it."""

    key: Hashable
    kind: str
    size: int  # bytes that are turned into tokens
    flat: int = 0  # tokens that don't depend on bytes


def piece_of(block: Block) -> Piece:
    kind = block.get("type")
    key = _digest(block)
    if kind == "text":
        return Piece(key, "text", _length(block.get("text")))
    if kind == "tool_use":
        return Piece(key, "call", _length(block.get("name")) + _encoded(block.get("input")))
    if kind == "tool_result":
        size, images = _result_size(block.get("content"))
        return Piece(key, "result", size, images * IMAGE_TOKENS)
    if kind in ("thinking", "redacted_thinking"):
        # The text is often a summary of the thought; the signature grows with the thought itself.
        signature = _length(block.get("signature")) or _length(block.get("data"))
        return Piece(key, "thinking", signature or _length(block.get("thinking")))
    if kind in ("image", "document"):
        return Piece(key, "text", 0, IMAGE_TOKENS)
    return Piece(key, "call", _encoded(block))


def _digest(block: Block) -> Hashable:
    import msgspec

    if "cache_control" in block:
        block = {name: value for name, value in block.items() if name != "cache_control"}
    try:
        return blake2b(msgspec.json.encode(block, order="sorted"), digest_size=16).digest()
    except (RecursionError, ValueError):
        return id(block)  # too deep to be written down: it is only equal to itself


def _length(value: object) -> int:
    return len(value.encode("utf-8", "replace")) if isinstance(value, str) else 0


def _encoded(value: Any) -> int:
    import msgspec

    try:
        return len(msgspec.json.encode(value))
    except (RecursionError, ValueError):
        return 0


def _result_size(content: object) -> tuple[int, int]:
    """Bytes of text in a tool result, and its images."""
    if isinstance(content, str):
        return _length(content), 0
    size = images = 0
    for part in map(as_object, as_list(content)):
        if part.get("type") in ("image", "document"):
            images += 1
        elif "text" in part:
            size += _length(part.get("text"))
        else:
            size += _encoded(part)
    return size, images


@dataclass(frozen=True, slots=True)
class Scales:
    """Tokens a byte by kind of block, and tokens for each block."""

    weights: tuple[float, ...] = USUAL
    fitted: int = 0  # how many requests they rest on; 0: the usual figures

    def tokens(self, piece: Piece) -> int:
        rate = self.weights[KINDS.index(piece.kind)]
        return max(1, round(piece.size * rate + piece.flat + self.weights[-1]))


def calibrate(recording: Recording) -> Scales:
    """Scales fitted to how much each recorded prompt grew by what was added to it."""
    rows: list[list[float]] = []
    grown: list[float] = []
    last: dict[str, Usage] = {}
    for step in recording.steps():
        usage = step.request.usage
        before = last.get(step.request.thread)
        if usage is None or not usage.prompt:
            continue
        if before is not None and step.keep and not step.compacted:
            features, flat = _features(recording, step.new)
            rows.append(features)
            grown.append(usage.prompt - before.prompt - flat)
        last[step.request.thread] = usage
    if len(rows) < 3:
        return Scales()
    return Scales(_fit(rows, grown), len(rows))


def _features(recording: Recording, indexes: Sequence[int]) -> tuple[list[float], float]:
    features = [0.0] * len(KINDS)
    flat = 0
    for index in indexes:
        for block in recording.messages[index].message["content"]:
            piece = piece_of(block)
            features[KINDS.index(piece.kind)] += piece.size
            features[-1] += 1
            flat += piece.flat
    return features, flat


def _fit(rows: list[list[float]], grown: list[float]) -> tuple[float, ...]:
    """Least squares drawn towards the usual figures, with less weight on requests that fit badly:
    those carried something that the recording doesn't show."""
    import numpy as np

    features, target = np.array(rows), np.array(grown)
    usual = np.array(USUAL)
    # The prior counts as some requests with average content, each kind by itself.
    usual_pull = (features**2).mean(axis=0) * _TRUST + 1e-9
    weight = np.ones(len(target))
    fitted = usual
    for _ in range(_ROUNDS):
        weighted = features * weight[:, None]
        prior = np.diag(usual_pull * float(weight.mean()))
        fitted = np.linalg.solve(weighted.T @ features + prior, weighted.T @ target + prior @ usual)
        fitted = np.clip(fitted, usual / 3, usual * 3)
        missed = np.abs(target - features @ fitted)
        spread = float(np.median(missed)) * 1.5 + 5
        weight = 1 / np.maximum(1, missed / spread)
    return tuple(float(value) for value in fitted)


# For each restart of the recorder that lost content: messages before this index, and their share
# that was left.
Losses: TypeAlias = tuple[tuple[int, float], ...]


class Weigher:
    """Blocks of one recording as the cache on paper takes them: stretched so that each prompt adds up
    to what the provider reported; what remains is booked as unrecorded."""

    def __init__(self, recording: Recording, scales: Scales | None = None) -> None:
        self.recording = recording
        self.scales = scales if scales is not None else calibrate(recording)
        self._paper: dict[int, list[PaperBlock]] = {}  # by index of the message
        self._index = {id(one.message): index for index, one in enumerate(recording.messages)}
        self._by_key: dict[Hashable, int] = {}
        self._place: dict[Hashable, int] = {}  # a block's name → index of its message
        # What a recorded block weighs by its anchor for what the scales say: by name and by kind.
        self._stretch: dict[Hashable, float] = {}
        self._tails: dict[Hashable, list[PaperBlock]] = {}  # by the block that they follow
        self._loose: dict[int, tuple[Block, list[PaperBlock]]] = {}  # by id, kept with its block
        self._frames: dict[int, list[PaperBlock]] = {}  # by number of the request
        self._losses: dict[int, Losses] = {}  # by number of the request
        self._lost: dict[tuple[int, Losses], list[PaperBlock]] = {}
        self._now: Losses = ()
        self._anchor()
        found: dict[Hashable, list[int]] = {}
        for index, paper in self._paper.items():
            for key, tokens in paper:
                found.setdefault(key, []).append(tokens)
            self._note_tail(index, paper)
        self._note_stretch()
        # Equal blocks were stretched each by its own anchor. Which of them a policy kept can't be
        # told, so that it gets their mean: the last one's weight would be a saving or a loss.
        self._by_key = {key: round(sum(sizes) / len(sizes)) for key, sizes in found.items()}
        self._note_orphans()

    def _note_stretch(self) -> None:
        """How far off the scales are for each block, so that a changed form of it is as far off."""
        by_kind: dict[str, list[tuple[int, int]]] = {}
        for index, paper in self._paper.items():
            blocks = self.recording.messages[index].message["content"]
            for block, (key, tokens) in zip(blocks, paper, strict=False):
                piece = piece_of(block)
                guess = self.scales.tokens(piece)
                self._stretch[_name(block, key)] = tokens / guess
                by_kind.setdefault(piece.kind, []).append((tokens, guess))
        for kind, pairs in by_kind.items():
            self._stretch[kind] = sum(t for t, _ in pairs) / sum(g for _, g in pairs)

    def _note_orphans(self) -> None:
        """Results whose call the recording has lost: a session would hold their words as text, which
        weighs what they weighed."""
        messages = [entry.message["content"] for entry in self.recording.messages]
        calls = {b.get("id") for blocks in messages for b in blocks if b.get("type") == "tool_use"}
        for index, paper in self._paper.items():
            for block, (key, tokens) in zip(messages[index], paper, strict=False):
                if block.get("type") == "tool_result" and block.get("tool_use_id") not in calls:
                    words = piece_of(as_text(block)).key
                    self._by_key[words] = tokens
                    self._tails[words] = self._tails.get(_name(block, key), [])

    def at(self, number: int) -> Sequence[PaperBlock]:
        """Weigh for this request from now on. Returns what precedes its messages: system and
        tools, then what wasn't recorded."""
        self._now = self._losses[number]
        return self._frames[number]

    @property
    def losses(self) -> Losses:
        """What makes recorded messages lighter now; while it stays, so do their weights."""
        return self._now

    def uncut(self) -> Weigher:
        """For the same recording without its compactions: blocks keep their weight, and nothing in
        front of them changes."""
        first: dict[str, list[PaperBlock]] = {}
        frames = {
            number: first.setdefault(request.thread, self._frames[number])
            for number, request in enumerate(self.recording.requests)
        }
        other = copy(self)
        other.recording = self.recording.without_compactions()
        other._frames, other._losses = frames, dict.fromkeys(frames, ())  # noqa: SLF001 - a copy of ours
        return other

    def paper(self, message: Message) -> list[PaperBlock]:
        """A message's blocks; one that a policy made is weighed by its content."""
        index = self._index.get(id(message))
        if index is not None and self.recording.messages[index].message is message:
            if not self._now:
                return self.recorded(index)
            # A restart of the recorder left less of it than was recorded.
            if (index, self._now) not in self._lost:
                share, paper = self._share(index), self.recorded(index)
                less = [(key, max(1, round(tokens * share))) for key, tokens in paper]
                self._lost[index, self._now] = less
            return self._lost[index, self._now]
        return [paper for block in message["content"] for paper in self._made(block)]

    def recorded(self, index: int) -> list[PaperBlock]:
        paper = self._paper.get(index)
        if paper is None:
            blocks = self.recording.messages[index].message["content"]
            pieces = [piece_of(block) for block in blocks]
            paper = [(piece.key, self.scales.tokens(piece)) for piece in pieces]
            self._paper[index] = paper
        return paper

    def _share(self, index: int) -> float:
        return prod(share for before, share in self._now if index < before)

    def block(self, block: Block) -> PaperBlock:
        """A block that a policy made or kept."""
        return self._made(block)[0]

    def _made(self, block: Block) -> list[PaperBlock]:
        """The block, and what was sent behind it without being recorded."""
        held = self._loose.get(id(block))
        if held is None or held[0] is not block:
            piece = piece_of(block)
            name = _name(block, piece.key)
            tokens = self._by_key.get(piece.key, 0)
            if not tokens:
                # In another form than it was recorded in, it weighs as much for its bytes as it did;
                # if it stands for no other, as much as the average of its kind.
                stretch = self._stretch.get(name) or self._stretch.get(piece.kind, 1.0)
                tokens = max(1, round(self.scales.tokens(piece) * stretch))
            held = (block, [(piece.key, tokens), *self._tails.get(name, ())])
            self._loose[id(block)] = held
        place = self._place.get(_name(block, held[1][0][0])) if self._now else None
        if place is None:
            return held[1]
        return [(key, max(1, round(tokens * self._share(place)))) for key, tokens in held[1]]

    def _note_tail(self, index: int, paper: list[PaperBlock]) -> None:
        blocks = self.recording.messages[index].message["content"]
        for block, (key, _) in zip(blocks, paper, strict=False):
            self._place[_name(block, key)] = index
        if blocks and len(paper) > len(blocks):
            name = _name(blocks[-1], paper[len(blocks) - 1][0])
            # Equal blocks can't be told apart: then the tail goes with none of them.
            self._tails[name] = [] if name in self._tails else paper[len(blocks) :]

    def tokens(self, message: Message) -> int:
        return sum(tokens for _, tokens in self.paper(message))

    def _anchor(self) -> None:
        threads: dict[str, _AnchoredThread] = {}
        later = self._later_frames()
        for step in self.recording.steps():
            name = step.request.thread
            thread = threads.setdefault(name, _AnchoredThread(later.get(name)))
            thread.follow(self, step)
            self._frames[step.number] = thread.frame
            self._losses[step.number] = thread.losses

    def _later_frames(self) -> dict[str, int]:
        """By conversation, the least that stood before the messages after a compaction."""
        least: dict[str, int] = {}
        for step in self.recording.steps():
            usage = step.request.usage
            if step.compacted and usage is not None and usage.prompt:
                said = sum(tokens for index in step.new for _, tokens in self.recorded(index))
                frame, name = max(0, usage.prompt - said), step.request.thread
                least[name] = min(frame, least.get(name, frame))
        return least


class _AnchoredThread:
    """The running sum of one conversation while its blocks are anchored."""

    def __init__(self, later_frame: int | None = None) -> None:
        self._later_frame = later_frame  # what stood before the messages after a compaction
        self.frame: list[PaperBlock] = []
        self._ends: list[int] = []  # tokens up to each message held
        self._open: list[int] = []  # messages since the last anchor
        self._before = 0  # messages with a smaller index have been sent
        self.losses: Losses = ()

    def follow(self, weigher: Weigher, step: RequestStep) -> None:
        del self._ends[step.keep :]
        held = weigher.recording.messages
        while self._open and held[self._open[-1]].depth > step.keep:
            self._open.pop()
        for index in step.new:
            tokens = sum(tokens for _, tokens in weigher.recorded(index))
            self._ends.append((self._ends[-1] if self._ends else 0) + tokens)
            self._open.append(index)
            self._before = max(self._before, index + 1)
        prompt = step.request.usage.prompt if step.request.usage is not None else 0
        if not self.frame:
            self._open_frame(weigher, step)
            self._open = [] if prompt else self._open
        elif prompt:
            self._settle(weigher, prompt)

    def _open_frame(self, weigher: Weigher, step: RequestStep) -> None:
        recording, usage = weigher.recording, step.request.usage
        frame = recording.frames[step.request.frame]
        parts = (*frame.tools, *frame.system)
        known = sum(weigher.scales.tokens(piece_of(block)) for block in parts)
        model = (step.request.model, step.request.frame)
        held = self._ends[-1] if self._ends else 0
        if usage is None or not usage.prompt:
            self.frame = [(("system", *model), known)]
            return
        total = max(usage.prompt - held, known)
        total -= self._lost_beginning(weigher, step, total, known)
        system = _system_tokens(recording, step, total) or known
        # What others had put into the cache for the first request may be more than the system.
        shared = usage.cache_read if system < usage.cache_read <= total else system
        self.frame = [(("system", *model), system), (("unrecorded", *model, 0), total - shared)]
        if shared > system:
            self.frame.insert(1, (("shared", *model), shared - system))

    def _lost_beginning(self, weigher: Weigher, step: RequestStep, total: int, known: int) -> int:
        """Tokens of a conversation whose beginning the file doesn't hold. They are messages, which a
        policy may take out, and no part of the system prompt: they go with the first one recorded.
        """
        if self._later_frame is None or not step.new:
            return 0
        system = _system_tokens(weigher.recording, step, total)
        lost = total - max(self._later_frame, known, system)
        least = max(_LOSS, _LOSS_SHARE * total) if self._later_frame else max(1, 2 * system)
        if lost <= least:
            return 0
        first = step.new[0]
        weigher.recorded(first).append((("before the file", first), lost))
        self._ends = [end + lost for end in self._ends]
        return lost

    def _settle(self, weigher: Weigher, prompt: int) -> None:
        """Stretch what was added since the last anchor so that the prompt's size comes out."""
        framed = sum(tokens for _, tokens in self.frame)
        held = self._ends[-1] if self._ends else 0
        added = sum(sum(t for _, t in weigher.recorded(index)) for index in self._open)
        wanted = prompt - framed - (held - added)
        if added - wanted > max(_LOSS, _LOSS_SHARE * prompt):
            self._lose(added - wanted)
        elif self._open:
            self._stretch(weigher, added, wanted)
        self._open.clear()

    def _stretch(self, weigher: Weigher, added: int, wanted: int) -> None:
        factor = min(_MOST_STRETCH, max(_LEAST_LEFT, wanted / added)) if added else 1.0
        end = start = self._ends[-1] - added
        del self._ends[len(self._ends) - len(self._open) :]
        for index in self._open:
            paper = weigher.recorded(index)
            paper[:] = [(key, max(1, round(tokens * factor))) for key, tokens in paper]
            end += sum(tokens for _, tokens in paper)
            self._ends.append(end)
        missing = start + wanted - end
        if missing > 0:
            # Reminders and attachments that the program added without writing them down.
            last = self._open[-1]
            weigher.recorded(last).append((("unrecorded", last), missing))
            self._ends[-1] += missing

    def _lose(self, tokens: int) -> None:
        """The prompt shrank without a word: a restart rebuilt it with less, behind the system."""
        held = self._ends[-1] if self._ends else 0
        share = max(_LEAST_LEFT, 1 - tokens / held) if held else 1.0
        self.losses = (*self.losses, (self._before, share))
        self._ends = [round(end * share) for end in self._ends]
        key, size = self.frame[-1]
        rest = tokens - round(held * (1 - share))
        self.frame = [*self.frame[:-1], ((key, self._before), max(0, size - rest))]


def _name(block: Block, key: Hashable) -> Hashable:
    """A result keeps its name when its content is replaced."""
    return ("result", block.get("tool_use_id")) if block.get("type") == "tool_result" else key


def _system_tokens(recording: Recording, step: RequestStep, most: int) -> int:
    """The size of system and tools: the least that any request of its model read, be it the first
    from a cache that others had filled, or one after a break."""
    first = step.request
    reads = [
        request.usage.cache_read
        for request in recording.requests
        if request.usage is not None
        and request.model == first.model
        and request.thread == first.thread
        and 0 < request.usage.cache_read <= most
    ]
    return min(reads, default=0)
