"""What the store knows of all memories between writes: only files that changed are read again.

The gate compares every write with all of them, by their words, which the derived index keeps for
the next process. Within one second of the last look at every file, and as long as no directory has
changed but by our own writes, that look is not repeated.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from lamina.errors import MemoryStoreError
from lamina.memories import Change, Hit, Memory
from lamina.memory.beneath import Beneath
from lamina.memory.header_index import IndexBroken
from lamina.memory.index import INDEX
from lamina.memory.scan import LARGEST, TICK_NS, Scanner, key_of
from lamina.memory.topics import is_binary, read_topic
from lamina.text import wording

ALIKE = 0.72  # share of common stems from which two memories are one


class Familiar(Protocol):
    """The memories there are, the one that is about to be overwritten among them."""

    def __iter__(self) -> Iterator[Memory]:
        """All of them, at least with path, name and description."""
        ...

    def get(self, path: str) -> Memory | None:
        """One with its body, None if there is none."""
        ...

    def spellings(self, path: str) -> Sequence[str]:
        """The paths that are the same but for upper and lower case, this one included if it is there."""
        ...

    def nearest(self, stems: frozenset[str]) -> tuple[str, float]:
        """The memory that shares the most stems, and how alike the two are; ("", 0.0) below `ALIKE`."""
        ...


class Listed:
    """The answers from a list of whole memories: every one is compared."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = memories

    def __iter__(self) -> Iterator[Memory]:
        return iter(self._memories)

    def get(self, path: str) -> Memory | None:
        return next((memory for memory in self._memories if memory.path == path), None)

    def spellings(self, path: str) -> list[str]:
        folded = path.casefold()
        return [one.path for one in self._memories if one.path.casefold() == folded]

    def nearest(self, stems: frozenset[str]) -> tuple[str, float]:
        best, at = 0.0, ""
        for memory in self._memories if stems else ():
            other = stems_said(memory.description, memory.body)
            small, large = sorted((len(stems), len(other)))
            if small < ALIKE * large - 1e-9:
                continue
            shared = len(stems & other)
            alike = shared / (len(stems) + len(other) - shared)
            if alike > best or (alike == best and memory.path < at):
                best, at = alike, memory.path
        return (at, best) if best >= ALIKE else ("", 0.0)


@lru_cache(maxsize=8192)
def stems_said(description: str, body: str) -> frozenset[str]:
    """What a memory says, as stems. Kept by the two texts: a dream asks for the same ones often."""
    return wording.content_stems(f"{description}\n{body}")


@lru_cache(maxsize=1024)
def _stems_joined(description: str, body: str) -> str:
    """As they are kept. Of thousands of files that are read at once many may be copies."""
    return joined(wording.content_stems(f"{description}\n{body}"))


Fetch = Callable[[Sequence[str]], Mapping[str, str]]
_SHARED = 6  # rare words that a memory must have in common before it is compared


def joined(stems: Iterable[str]) -> str:
    """Stems as they are kept: one text."""
    return "\0".join(stems)


class Neighbours:
    """The words of many memories, and who has how many of them. For each word which memories have it
    is worked out only for a process that asks again and again: for a single answer that is too dear."""

    def __init__(self, alike: float, fetch: Fetch = lambda _: {}) -> None:
        """`fetch` gives the words of memories of which only their number is known so far."""
        self._alike = alike
        self._fetch = fetch
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[str, int]] = {}  # path and number of words
        self._stems: dict[int, str] = {}  # the words, where they were needed
        self._having: dict[str, list[int]] = {}  # those of dropped memories too, until `_renumber`
        self._asked = 0
        self._next = 0

    def words(self, path: str) -> str:
        number = self._numbers.get(path)
        return "" if number is None else self._stems_of([number])[number]

    def put(self, path: str, stems: str) -> None:
        """Know a memory by its words (as `joined` gives them), in the place of what was known."""
        number = self.expect(path, _amount(stems))
        self._stems[number] = stems
        if self._asked > _OFTEN:
            self._look_into(number, stems)

    def expect(self, path: str, amount: int) -> int:
        """Know that a memory has so many words; its number."""
        self.drop(path)
        number = self._next
        self._next += 1
        self._numbers[path] = number
        self._known[number] = (path, amount)
        return number

    def expect_all(self, paths: Iterable[str], amounts: Iterable[int]) -> None:
        """As `expect` for each, when nothing is known yet."""
        self._known = dict(enumerate(zip(paths, amounts, strict=True)))
        self._numbers = {path: number for number, (path, _) in self._known.items()}
        self._next = len(self._known)

    def _stems_of(self, numbers: Collection[int]) -> dict[int, str]:
        lacking = [number for number in numbers if number not in self._stems]
        if lacking:
            found = self._fetch([self._known[number][0] for number in lacking])
            for number in lacking:
                self._stems[number] = found.get(self._known[number][0], "")
        return self._stems

    def _look_into(self, number: int, stems: str) -> None:
        having = self._having
        for word in stems.split("\0") if stems else ():
            if word in having:
                having[word].append(number)
            else:
                having[word] = [number]

    def drop(self, path: str) -> None:
        number = self._numbers.pop(path, None)
        if number is not None:
            del self._known[number]
            self._stems.pop(number, None)
            if self._next > 2 * len(self._known) + 1000:
                self._renumber()

    def _renumber(self) -> None:
        stems = self._stems_of(self._known) if self._asked > _OFTEN else self._stems
        known = [(*one, stems.get(number)) for number, one in self._known.items()]
        asked = self._asked
        self.__init__(self._alike, self._fetch)
        self._asked = asked
        for path, amount, words in known:
            if words is None:
                self.expect(path, amount)
            else:
                self.put(path, words)

    def nearest(self, stems: frozenset[str], *, without: str = "") -> tuple[str, float]:
        """The memory at another path that shares the most, if that is enough; the first by path of
        equals. ("", 0.0) if there is none."""
        size = len(stems)
        least = math.ceil(self._alike * size - 1e-9)  # words that a memory shares if it is alike
        self._asked += 1
        if self._asked == _OFTEN + 1:
            for number, words in [*self._stems_of(self._known).items()]:
                self._look_into(number, words)
        rivals = [
            number
            for number in (self._rivals(stems, least) if size else ())
            if least <= self._known[number][1] <= size / self._alike + 1e-9
            and self._known[number][0] != without
        ]
        best, at = 0.0, ""
        words_of = self._stems_of(rivals)
        for number in rivals:
            path, others = self._known[number]
            common = len(stems.intersection(words_of[number].split("\0")))
            likeness = common / (size + others - common)
            if likeness > best or (likeness == best and path < at):
                best, at = likeness, path
        return (at, best) if best >= self._alike else ("", 0.0)

    def _rivals(self, stems: frozenset[str], least: int) -> Iterator[int]:
        """Those that may be alike: all, or, where it is known, those with enough of the rarest words."""
        if self._asked <= _OFTEN:
            yield from self._known
            return
        shared = min(_SHARED, least)
        having = sorted((self._having.get(stem, ()) for stem in stems), key=len)
        hits: Counter[int] = Counter()
        for numbers in having[: len(stems) - least + shared]:
            hits.update(numbers)
        for number, count in hits.items():
            if count >= shared and number in self._known:
                yield number


_OFTEN = 2  # answers


def _amount(stems: str) -> int:
    return stems.count("\0") + 1


_TRUSTED = 1.0  # seconds


_Key = tuple[int, int, int]  # mtime, size, inode


class KnownMemories:
    def __init__(self, files: Beneath, scanner: Scanner) -> None:
        self._files = files
        self._scanner = scanner
        self._keys: dict[str, _Key] = {}
        self._contents: dict[str, int] = {}  # hashes in this process, of those that were read here
        self._unsure: set[str] = set()  # not read well after the file's last change
        self._whole: dict[str, Memory] = {}  # those that were read here
        self._neighbours = Neighbours(ALIKE, self._words_of)
        self._spelled: dict[str, set[str]] = {}  # by the folded path
        self._lock = threading.RLock()
        self._begun = False
        self._looked = -_TRUSTED
        self._folders: dict[str, int] = {}  # and when each last changed

    def all(self) -> list[Memory]:
        """Every readable memory with its body, in no particular order."""
        with self._lock:
            self._look_again()
            found = [self._memory(path) for path in self._keys]
        return [memory for memory in found if memory is not None]

    def but(self, path: str, instead: Memory | None) -> Others:
        """All memories, with `instead` (or none) in the place of the one at this path."""
        with self._lock:
            self._look_again()
        return Others(self, path, instead)

    def get(self, path: str) -> Memory | None:
        with self._lock:
            return self._memory(path) if path in self._keys else None

    def on_disk(self, path: str) -> Memory | None:
        """As the file is at this moment, whatever was seen of it before."""
        with contextlib.suppress(MemoryStoreError):
            content = self._files.read(path)
            if content is not None and not is_binary(content):
                return read_topic(path, content)
        return None

    def content(self, path: str) -> bytes | None:
        return self._files.read(path)

    def spellings(self, path: str) -> set[str]:
        with self._lock:
            if not self._spelled:
                for one in self._keys:
                    self._spelled.setdefault(one.casefold(), set()).add(one)
            return set(self._spelled.get(path.casefold(), ()))

    def nearest(self, stems: frozenset[str], *, without: str) -> tuple[str, float]:
        with self._lock:
            return self._neighbours.nearest(stems, without=without)

    def headers(self) -> list[Memory]:
        return self._scanner.scan().all()

    def noted(self, changes: Sequence[Change]) -> None:
        """These were just written by us."""
        with self._lock:
            for path, _, content in changes:
                if path.rsplit("/", 1)[-1] == INDEX:
                    continue
                self._drop(path)
                with contextlib.suppress(MemoryStoreError):
                    stat = self._files.stat(path) if content is not None else None
                    if stat and content is not None:
                        # Not sure: what another program does to it within the same tick has no
                        # other key, so the next look compares the content once more.
                        self._unsure.add(path)
                        self._keep(path, key_of(stat), content)
            if gone := [change.path for change in changes if change.after is None]:
                self._save([], gone)  # what was forgotten does not wait for the next look
            for folder in {change.path.rpartition("/")[0] for change in changes}:
                if folder in self._folders:  # else the next look finds it
                    self._folders[folder] = self._changed(folder)

    # ---- looking

    def _look_again(self) -> None:
        now = time.monotonic()
        if now - self._looked >= _TRUSTED or self._changes() != self._folders:
            self._look()
            self._looked = now

    def _look(self) -> None:
        if not self._begun:
            self._begin()
        folders = {"": 0}
        before = self._changes()
        there = self._scanner.stamps()
        known, unsure = self._keys, self._unsure
        changed = [path for path, key in there.items() if known.get(path) != key or path in unsure]
        fresh = [path for path in changed if self._read(path, there[path])]
        folders |= {path.rpartition("/")[0]: 0 for path in there if "/" in path}
        gone = known.keys() - there.keys()
        for path in gone:
            self._drop(path)
        self._save(fresh, gone)
        # When the folders changed is from before the look: what came during it is seen next time.
        self._folders = {folder: before.get(folder, 0) for folder in folders}

    def _changes(self) -> dict[str, int]:
        return {folder: self._changed(folder) for folder in self._folders or {"": 0}}

    def _changed(self, folder: str) -> int:
        with contextlib.suppress(MemoryStoreError):
            return self._files.changed_ns(folder)
        return 0

    def _read(self, path: str, key: _Key) -> bool:
        """Look into one file; whether the derived index should know of it."""
        now = time.time_ns()
        content = None
        if key[1] <= LARGEST:
            with contextlib.suppress(MemoryStoreError):
                content = self._files.read(path)
        if content is None:
            self._drop(path)
            return False
        if self._contents.get(path) == hash(content):
            self._keys[path] = key  # the same words, and now it is sure
            self._whole.pop(path, None)
        else:
            self._drop(path)
            self._keep(path, key, content)
        sure = key[0] < now - TICK_NS
        (self._unsure.discard if sure else self._unsure.add)(path)
        return sure

    def _keep(self, path: str, key: _Key, content: bytes) -> None:
        self._keys[path], self._contents[path] = key, hash(content)
        if self._spelled:
            self._spelled.setdefault(path.casefold(), set()).add(path)
        stems = ""
        if not is_binary(content):
            memory = read_topic(path, content)
            stems = _stems_joined(memory.description, memory.body)
        self._neighbours.put(path, stems)

    def _drop(self, path: str) -> None:
        if self._keys.pop(path, None) is not None:
            self._contents.pop(path, None)
            self._whole.pop(path, None)
            self._unsure.discard(path)
            self._neighbours.drop(path)
            self._spelled.get(path.casefold(), set()).discard(path)

    def _memory(self, path: str) -> Memory | None:
        found = self._whole.get(path)
        if found is None and (key := self._keys[path])[1] <= LARGEST:
            with contextlib.suppress(MemoryStoreError):
                content = self._files.read(path)
                if content is not None and not is_binary(content):
                    found = self._whole[path] = read_topic(path, content, mtime=key[0] / 1e9)
        return found

    # ---- what the next process need not read

    def _begin(self) -> None:
        self._begun = True
        if not self._scanner.has_index:
            return
        with contextlib.suppress(IndexBroken):
            self._keys, amounts = self._scanner.index.wordings()
            self._neighbours.expect_all(self._keys, amounts)

    def _words_of(self, paths: Sequence[str]) -> dict[str, str]:
        """The words of memories that were not read here, from the index or else from the files."""
        found: dict[str, str] = {}
        with contextlib.suppress(IndexBroken):
            found = self._scanner.index.stems(paths)
        for path in paths:
            if path not in found and path in self._keys and (one := self._memory(path)):
                found[path] = joined(stems_said(one.description, one.body))
        return found

    def _save(self, fresh: list[str], gone: Iterable[str]) -> None:
        gone = list(gone)
        if fresh or gone:
            words = {path: self._neighbours.words(path) for path in fresh}
            rows = [(path, *self._keys[path], _amount(words[path]), words[path]) for path in fresh]
            with contextlib.suppress(IndexBroken):
                self._scanner.index.keep_wordings(rows, gone)


class Others:
    """The gate's view: every memory but one, and in its place what it was before the change."""

    def __init__(self, known: KnownMemories, path: str, instead: Memory | None) -> None:
        self._known = known
        self._path = path
        self._instead = instead

    def __iter__(self) -> Iterator[Memory]:
        yield from (memory for memory in self._known.headers() if memory.path != self._path)
        if self._instead is not None:
            yield self._instead

    def get(self, path: str) -> Memory | None:
        return self._instead if path == self._path else self._known.get(path)

    def spellings(self, path: str) -> list[str]:
        others = self._known.spellings(path) - {self._path}
        if self._instead is not None and path.casefold() == self._path.casefold():
            others.add(self._path)
        return sorted(others)

    def nearest(self, stems: frozenset[str]) -> tuple[str, float]:
        return self._known.nearest(stems, without=self._path)


def search(memories: Sequence[Memory], query: str, limit: int) -> list[Hit]:
    """Memories that share words with the query, best first; name and description count double."""
    wanted = wording.content_stems(query)
    if not wanted:
        return []
    texts = [
        (
            wording.content_stems(f"{memory.path} {memory.name} {memory.description}"),
            wording.content_stems(memory.body),
        )
        for memory in memories
    ]
    weight = {
        stem: math.log(
            1 + len(memories) / (1 + sum(stem in head or stem in body for head, body in texts))
        )
        for stem in wanted
    }
    hits = [
        Hit(memory, sum(weight[stem] * (2 * (stem in head) + (stem in body)) for stem in wanted))
        for memory, (head, body) in zip(memories, texts, strict=True)
    ]
    found = [hit for hit in hits if hit.score > 0]
    return sorted(found, key=lambda hit: (-hit.score, -hit.memory.mtime, hit.memory.path))[:limit]
