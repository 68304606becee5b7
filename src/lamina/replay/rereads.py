"""Finds where a recorded turn leans on content that a policy had taken out of the prompt, so that the
saving can be charged for it, for every policy alike. Pure: works on the blocks that it is handed.

A turn leans on removed content when it changes or names a file whose only view was removed, speaks
of a command whose output was removed, or quotes a line that now stands nowhere in the prompt. What is
said in another form, or elsewhere, is not missing: a view or output of which nearly all lines are in
the prompt need not be fetched. A path, command or description in a call says what to do: no quote. A
call that reads the same file or runs the same command once more brings its own result: the recording pays
for that under every policy, so that it is no extra.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from lamina.messages import Block, as_list, as_object, text_of
from lamina.replay.results import Reread

SHORTEST_QUOTE = 20  # characters: shorter lines are found everywhere
_LETTERS_IN_A_QUOTE = 10
_NEARLY_ALL = 0.9  # of a result's lines, by their length
_PATH_KEYS = ("file_path", "path", "notebook_path", "filename", "file_name", "file")
_COMMAND_KEYS = ("command", "cmd")
_NO_QUOTES = frozenset({*_PATH_KEYS, *_COMMAND_KEYS, "description"})
_READING_TOOLS = frozenset(
    {"read", "view", "open", "grep", "glob", "ls", "search", "cat", "find_file", "search_file"}
)
_READING_COMMAND = re.compile(
    r"\s*(?:cat|head|tail|less|more|sed\s+-n|grep|rg|ls|find|nl|awk|git\s+(?:diff|show|log|status))\b"
)
_LINE_NUMBER = re.compile(r"^\s*(?:\d+\s*[→:|\t]|[^\s:]+:\d+[:-])\s?")
_SHELL_BREAK = re.compile(r"[\s'\"=<>|;&()]+")
_CODE_SPAN = re.compile(r"`([^`\n]{6,300})`")


@dataclass(slots=True)
class _Held:
    """One block of the whole history."""

    tokens: int
    lines: frozenset[str]
    path: str = ""
    command: str = ""
    out: bool = False  # not in the prompt now


class Rereads:
    """Follows one conversation: what has been said in it, and what of that a policy left out."""

    def __init__(self) -> None:
        self._pending: dict[Hashable, tuple[Block, int]] = {}  # held, but not yet looked into
        self._held: dict[Hashable, _Held] = {}
        self._times: Counter[Hashable] = Counter()  # how often the conversation holds a block
        self._out: set[Hashable] = set()
        self._by_line: dict[str, set[Hashable]] = {}
        self._by_path: dict[str, set[Hashable]] = {}
        self._by_command: dict[str, set[Hashable]] = {}
        self._calls: dict[str, Block] = {}

    def tell(self, key: Hashable, block: Block) -> None:
        """A block of the policy's own: lines that it quotes are there, but it is no view of a file
        and no output of a command."""
        self.add(key, {name: value for name, value in block.items() if name != "tool_use_id"}, 0)

    def add(self, key: Hashable, block: Block, tokens: int) -> None:
        """A block that the conversation now holds."""
        if block.get("type") == "tool_use":
            self._calls[str(block.get("id"))] = block
        self._times[key] += 1
        if key not in self._held:
            self._pending[key] = (block, tokens)

    def knows(self, key: Hashable) -> bool:
        return key in self._held or key in self._pending

    def _look_into(self, key: Hashable, block: Block, tokens: int) -> None:
        call = self._calls.get(str(block.get("tool_use_id")), {})
        held = _Held(tokens, frozenset(quotable(_texts(block))), path_of(call), command_of(call))
        self._held[key] = held
        for index, name in self._places(held):
            index.setdefault(name, set()).add(key)

    def _places(self, held: _Held) -> Iterator[tuple[dict[str, set[Hashable]], str]]:
        """Where a block is looked up, and by what."""
        yield from ((self._by_line, line) for line in held.lines)
        named = ((self._by_path, held.path), (self._by_command, held.command))
        yield from ((index, name) for index, name in named if name)

    def forget(self, key: Hashable) -> None:
        """A block that the recording itself gave up, by going back or by its own compaction; where
        it holds another with the same words, these stay."""
        self._times[key] -= 1
        if self._times[key] > 0:
            return
        del self._times[key]
        held = self._held.pop(key, None)
        self._pending.pop(key, None)
        self._out.discard(key)
        for index, name in self._places(held) if held is not None else ():
            index[name].discard(key)

    def show(self, key: Hashable) -> None:
        """The block is in the prompt."""
        self._out.discard(key)

    def hide(self, key: Hashable) -> None:
        """The block is not in the prompt, though the conversation holds it."""
        if self.knows(key):
            self._out.add(key)

    def found(self, answer: Iterable[Block]) -> list[tuple[Hashable, Reread]]:
        """What the answer leans on that is not there: each removed block at most once."""
        if not self._out:
            return []
        # Nothing is looked into before something is missing: most sessions never need it.
        for key, (block, tokens) in self._pending.items():
            self._look_into(key, block, tokens)
        self._pending.clear()
        wanted: dict[Hashable, Reread] = {}
        for kind, what, keys in self._references(answer):
            # Where anything still in the prompt tells the same, nothing need be fetched.
            if keys and keys <= self._out and not keys & wanted.keys():
                if kind != "quote" and any(map(self._still_said, keys)):
                    continue
                key = max(keys, key=lambda key: self._held[key].tokens)
                wanted[key] = Reread(kind, what, self._held[key].tokens)
        return list(wanted.items())

    def _still_said(self, key: Hashable) -> bool:
        """Do nearly all lines of a removed block stand in the prompt: in a shorter form of it, or
        in what others say?"""
        lines = self._held[key].lines
        there = sum(len(line) for line in lines if self._by_line[line] - self._out)
        return bool(lines) and there >= _NEARLY_ALL * sum(map(len, lines))

    def _references(self, answer: Iterable[Block]) -> Iterator[tuple[str, str, set[Hashable]]]:
        for block in answer:
            if block.get("type") == "tool_use":
                path, command = path_of(block), command_of(block)
                if path and str(block.get("name", "")).lower() not in _READING_TOOLS:
                    yield "file", path, self._by_path.get(path, set())
                if command and not _READING_COMMAND.match(command):
                    for word in _SHELL_BREAK.split(command):
                        yield "file", word, self._by_path.get(word, set())
            elif block.get("type") == "text":
                for command in _CODE_SPAN.findall(str(block.get("text", ""))):
                    yield "command", command, self._by_command.get(command.strip(), set())
            for line in quotable(_texts(block)):
                yield "quote", line, self._by_line.get(line, set())


def path_of(call: Block) -> str:
    return _first(call, _PATH_KEYS)


def command_of(call: Block) -> str:
    return _first(call, _COMMAND_KEYS).strip()


def _first(call: Block, names: tuple[str, ...]) -> str:
    given = as_object(call.get("input"))
    return next((given[name] for name in names if isinstance(given.get(name), str)), "")


def quotable(texts: Iterable[str]) -> Iterator[str]:
    """Lines long enough to be recognised, without numbering and indentation."""
    for text in texts:
        if len(text) < SHORTEST_QUOTE:
            continue
        for line in text.splitlines():
            bare = _LINE_NUMBER.sub("", line, count=1).strip()
            if len(bare) >= SHORTEST_QUOTE and sum(map(str.isalnum, bare)) >= _LETTERS_IN_A_QUOTE:
                yield bare


def _texts(block: Block) -> Iterator[str]:
    """What a block says; thinking is nobody's quote."""
    kind = block.get("type")
    if kind == "text":
        yield str(block.get("text", ""))
    elif kind == "tool_result":
        content = block.get("content")
        yield (
            content
            if isinstance(content, str)
            else text_of([part for part in map(as_object, as_list(content)) if part])
        )
    elif kind == "tool_use":
        yield from _strings(block.get("input"), 6)


def _strings(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth:
        for name, inner in as_object(value).items():
            if name not in _NO_QUOTES:
                yield from _strings(inner, depth - 1)
        for inner in as_list(value):
            yield from _strings(inner, depth - 1)
