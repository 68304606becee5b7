"""MEMORY.md: the index that the model sees, one pointer line a topic file.

Reads pointers, cuts the file to what is loaded, and adds, changes or removes single lines while
every other byte stays. Pure: bytes in, bytes out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from html import unescape
from urllib.parse import unquote

from lamina.memories import MEMORY_TYPES, LoadedIndex, Memory, Proposal, as_quoted

Rework = Callable[[str, bytes | None], bytes | None]
Resolve = Callable[[str], str]


def index_of(path: str) -> str:
    """The index that points at this memory."""
    return f"team/{INDEX}" if path.startswith("team/") else INDEX


def link_of(path: str) -> str:
    """The memory's path as its index writes it."""
    return path.removeprefix("team/")


def adding(proposal: Proposal, origin: str, base: Memory | None, quoted: str = "") -> Rework:
    """A pointer to the written memory. A line that is there stays unless name, text or whether it is
    `quoted` changed; a quotation gets none where that would crowd out others."""
    link = link_of(proposal.path)
    # Whose word it is shows in the line, unless it is the user's own.
    suffix = "" if origin in ("", "typed") else f" (source: {origin})"
    title, hook = told_of(link, proposal.name, proposal.description, quoted=quoted, suffix=suffix)
    if proposal.hook and not quoted:
        hook = proposal.hook if proposal.writer == "user" else harmless_hook(proposal.hook)
        hook += suffix
    same = base is not None and (base.name, base.description, base.quoted) == (
        proposal.name,
        proposal.description,
        quoted,
    )

    def rework(_path: str, index: bytes | None) -> bytes:
        index = index or b""
        there = any(pointer.file == link for pointer in pointers_of(index))
        if there and same and not proposal.hook:
            return index
        after = with_pointer(index, link, title, hook, section=proposal.type or "")
        return index if quoted and not there and load_index(after).warning else after

    return rework


def told_of(
    file: str, name: str, description: str, *, quoted: str = "", suffix: str = ""
) -> tuple[str, str]:
    """Title and hook of a memory's line. The index is always in view, so of a quotation it holds no word
    but the file's name."""
    if quoted:
        return _QUOTATION, f"{_WHEN_ASKED} (source: {as_quoted(quoted)})"
    return name, short_hook(file, name, description, suffix=suffix)


def without_quotations(content: bytes) -> bytes:
    """The index without the lines of quotations, which are found without them."""
    told = (p.file for p in pointers_of(content) if p.hook.startswith(f"{_WHEN_ASKED} (source:"))
    return without_pointer(content, *told)


def removing(path: str) -> Rework:
    def rework(_path: str, index: bytes | None) -> bytes | None:
        return None if index is None else without_pointer(index, link_of(path))

    return rework


def renaming(old: str, new: str, memory: Memory) -> Rework:
    same_index = index_of(old) == index_of(new)

    def rework(path: str, index: bytes | None) -> bytes | None:
        if same_index:
            return None if index is None else with_renamed(index, link_of(old), link_of(new))
        if path == index_of(old):
            return None if index is None else without_pointer(index, link_of(old))
        link = link_of(new)
        title, hook = told_of(link, memory.name, memory.description, quoted=memory.quoted)
        return with_pointer(index or b"", link, title, hook, section=memory.type or "")

    return rework


INDEX = "MEMORY.md"
LOADED_LINES = 200
LOADED_BYTES = 25_000
ADVISED_LINE = 150
_QUOTATION, _WHEN_ASKED = "Quotation", "shown when asked for"

_TARGET = (
    r"(?P<title>(?:[^\[\]\n]|\[[^\[\]\n]*\])*)\]"
    r"\((?P<open><?)(?P<file>[^()<>\n]*(?:\([^()<>\n]*\)[^()<>\n]*)*)>?\)"
)
_POINTER = re.compile(
    rf"(?P<lead>[ \t]*[-*+][ \t]+\[){_TARGET}"
    r"(?P<dash>[ \t]*(?:[—–:]+|-+[ \t])?[ \t]*)(?P<hook>[^\r\n]*)"
)
_LINK = re.compile(rf"\[{_TARGET}|\[\[(?P<wiki>[^\[\]\n|#]+)[^\[\]\n]*\]\]")
_BARE_TARGET = re.compile(r"\]\((?:\./)?([\w-]+)\)")  # a link without an ending
_LATIN = re.compile(
    "[\udc80-\udcff]"
)  # a byte that is no UTF-8: the letter that Latin-1 has for it
_PATHS = re.compile(r"[\w./-]+")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*\r?\n?\Z")


@dataclass(frozen=True, slots=True)
class Pointer:
    """One line of the index that points at a file."""

    line: int  # counted from 1
    file: str  # as the store names it: no "./", percent signs resolved
    title: str
    hook: str
    alone: bool = True  # the line is about this file: what stands behind the link is its hook


def load_index(content: bytes, *, total_bytes: int = -1) -> LoadedIndex:
    """Cut to 200 lines, then to 25,000 bytes at a line end. `content` may be the file's beginning."""
    total = len(content) if total_bytes < 0 else total_bytes
    lines = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    kept = content
    if lines > LOADED_LINES:
        kept = b"\n".join(content.split(b"\n", LOADED_LINES)[:LOADED_LINES]) + b"\n"
    cut_lines = lines > LOADED_LINES
    cut_bytes = len(kept) > LOADED_BYTES
    if cut_bytes:
        kept = kept[:LOADED_BYTES]
        end = kept.rfind(b"\n")
        kept = kept[: end + 1] if end >= 0 else kept
    text = kept.decode("utf-8", "ignore" if cut_bytes else "replace")
    more = "more than " if total > len(content) else ""
    warning = ""
    if cut_lines or cut_bytes or total > len(content):
        loaded = kept.count(b"\n") + (not kept.endswith(b"\n") and bool(kept))
        warning = (
            f"{INDEX} has {more}{lines:,} lines and {total:,} bytes; only the first {loaded:,} lines "
            f"({len(kept):,} bytes) were loaded. Keep each line under {ADVISED_LINE} characters and "
            "move detail into topic files."
        )
    return LoadedIndex(text, warning, lines, total)


def is_index(path: str) -> bool:
    """One of the two indexes; a MEMORY.md anywhere else is no name for anything."""
    return path in (INDEX, f"team/{INDEX}")


def pointers_of(content: bytes) -> list[Pointer]:
    """Every pointer line, in order."""
    found: list[Pointer] = []
    for number, line in enumerate(lines_in(content), 1):
        if match := _POINTER.match(line):
            found.append(
                Pointer(
                    number, _named(match["file"]), match["title"].strip(), match["hook"].strip()
                )
            )
    return found


def links_of(content: bytes) -> list[Pointer]:
    """Every link to a memory in whatever form people write it: in bold, behind a word, several in a
    line, in a table, [[by name]]. Which file is meant by a name, `resolver` says."""
    found: list[Pointer] = []
    for number, line in enumerate(lines_in(content), 1):
        links = [link for link in _LINK.finditer(line) if _leads_to_memory(link)]
        plain = [link for link in links if link["file"] is not None]
        item = line.lstrip()[:1] in ("-", "*", "+") or line.lstrip()[:1].isdigit()
        for place, link in enumerate(links):
            alone = item and place == 0 and len(plain) <= 1
            hook = (
                line[link.end() :].strip().lstrip("*_").lstrip(" \t—–:-").rstrip() if alone else ""
            )
            title = (link["title"] or link["wiki"] or "").strip()
            found.append(Pointer(number, _target(link), title, hook, alone))
    return found


def lines_of_text(content: bytes, resolve: Resolve) -> list[int]:
    """Numbers of the lines that say something and point nowhere: neither a heading, of a table too, nor
    a comment, nor one that gives the name of a file in another way."""
    lines = content.decode("utf-8-sig", "replace").split("\n")
    pointers = {one.line for one in (*pointers_of(content), *links_of(content))}
    found: list[int] = []
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
        bare = line.strip()
        ruled = any(one and {*one} <= {*"-=|: "} for one in (bare, below.strip()))
        if not bare or ruled or number in pointers or bare.startswith(("#", "<!--")):
            continue
        named = [*_PATHS.findall(bare), *(f"{one}.md" for one in _BARE_TARGET.findall(bare))]
        if not any(map(resolve, named)):
            found.append(number)
    return found


def resolver(paths: Iterable[str]) -> Resolve:
    """Which of these files a link means; "" if none or two. A name may leave out the ending, the
    folder or the type that it begins with, and differ in case and hyphens."""
    known = frozenset(paths)

    @cache
    def by_key() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for path in known:
            for key in _keys(path):
                found.setdefault(key, set()).add(path)
        return found

    def resolve(link: str) -> str:
        if link in known:
            return link
        for key in _keys(link):
            meant = by_key().get(key, ())
            if meant:
                return next(iter(meant)) if len(meant) == 1 else ""
        return ""

    return resolve


def files_named(content: bytes, paths: Sequence[str]) -> set[str]:
    """Those of these files that an index names: by a link, by file name in the text, or, with all that
    lies in it, as a folder."""
    resolve = resolver(paths)
    text = _composed(unquote(content.decode("utf-8", "replace")))
    words = {*_PATHS.findall(text)}
    ends = {word.rsplit("/", 1)[-1] for word in words if word.endswith(".md")}
    folders = {word.removeprefix("./").rsplit("/", 1)[0] for word in words if "/" in word}
    own = {resolve(link.file) for link in links_of(content)}
    own |= {resolve(f"{bare}.md") for bare in _BARE_TARGET.findall(text)}
    listed = {folder for folder in folders if not any(p.startswith(f"{folder}/") for p in own)}
    return {
        path
        for path in paths
        if path in own
        or _composed(path.rsplit("/", 1)[-1]) in ends
        or ("/" in path and path.rsplit("/", 1)[0] in listed)
    }


def _keys(path: str) -> list[str]:
    """By which a file is known, the surest first."""
    whole = _composed(path).strip().removesuffix(".md").casefold()
    if "-" in whole or " " in whole or "__" in whole:
        whole = re.sub(r"[-_ ]+", "_", whole)
    name = whole.rsplit("/", 1)[-1]
    bare = name.split("_", 1)[-1] if name.split("_", 1)[0] in MEMORY_TYPES else name
    return [*dict.fromkeys((whole, f"/{name}", f"//{bare}"))]


def _leads_to_memory(link: re.Match[str]) -> bool:
    target = _target(link)
    outside = target.startswith(("../", "/", "~")) or ":" in target.split("/", 1)[0]
    return target.endswith(".md") and not outside and target.rsplit("/", 1)[-1] != INDEX


def _target(link: re.Match[str]) -> str:
    if link["wiki"] is not None:
        name = link["wiki"].strip()
        return name if name.endswith(".md") else f"{name}.md"
    return _named(link["file"])


def with_pointer(content: bytes, file: str, title: str, hook: str, *, section: str = "") -> bytes:
    """The index with a pointer to the file: its line changed if there is one, else a new line.

    A new line goes to the end of the list under a heading that begins with `section` (the type),
    else behind the last pointer, else to the end.
    """
    return with_pointers(content, [(file, title, hook, section)])


def with_pointers(content: bytes, wanted: Iterable[tuple[str, str, str, str]]) -> bytes:
    """The same for many files, each (file, title, hook, section), in one pass."""
    lines = lines_in(content)
    matches = [_POINTER.match(line) for line in lines]
    known = {_named(match["file"]): n for n, match in reversed([*enumerate(matches)]) if match}
    linked = cache(lambda: {link.file for link in links_of(content)})
    place_for = cache(partial(_place_for, lines, [match is not None for match in matches]))
    new: dict[int, list[str]] = {}
    for file, title, hook, section in wanted:
        if match := matches[known[file]] if file in known else None:
            lines[known[file]] = _changed(match.string, match, title, hook)
        elif file not in linked():  # else in a line of another form, which is somebody's own
            new.setdefault(place_for(section), []).append(pointer_line(file, title, hook))
    end = _line_end(lines)
    for position in sorted(new, reverse=True):
        if position > 0 and not lines[position - 1].endswith("\n"):
            lines[position - 1] += end
        lines[position:position] = [line + end for line in new[position]]
    return joined_lines(lines)


def without_pointer(content: bytes, *files: str) -> bytes:
    """The index without any line that points at these files; where a line points at others too, or is
    a sentence, only the link goes."""
    gone = frozenset(files)
    return joined_lines([_without_link(line, gone) for line in lines_in(content)])


def with_renamed(content: bytes, old: str, new: str) -> bytes:
    """The index with pointers to `old` pointing at `new`; titles and hooks stay."""
    lines = lines_in(content)
    for number, line in enumerate(lines):
        for match in reversed([*_LINK.finditer(line)]):
            if match["file"] is not None and _named(match["file"]) == old:
                line = line[: match.start("file")] + _link(new) + line[match.end("file") :]  # noqa: PLW2901
        lines[number] = line
    return joined_lines(lines)


def without_change(content: bytes, before: bytes, after: bytes) -> bytes:
    """The index without what a change did to it: its new lines go, those that it took come back."""
    # Without their ends: the last line of a file may have got one since.
    old, new = ([line.rstrip("\r\n") for line in lines_in(text)] for text in (before, after))
    kept = [
        line
        for line in lines_in(content)
        if line.rstrip("\r\n") in old or line.rstrip("\r\n") not in new
    ]
    there = {line.rstrip("\r\n") for line in kept}
    back = [
        line
        for line, bare in zip(lines_in(before), old, strict=True)
        if bare not in new and bare not in there
    ]
    position = _place_for(kept, [_POINTER.match(line) is not None for line in kept], "")
    if back and position > 0 and not kept[position - 1].endswith("\n"):
        kept[position - 1] += _line_end(kept)
    if back and position < len(kept) and not back[-1].endswith("\n"):
        back[-1] += _line_end(kept)
    return joined_lines([*kept[:position], *back, *kept[position:]])


def pointer_line(file: str, title: str, hook: str) -> str:
    """`- [Title](file.md) — hook`, on one line."""
    title = _title(title) or file
    hook = _one_line(hook)
    return f"- [{title}]({_link(file)})" + (f" — {hook}" if hook else "")


def short_hook(file: str, title: str, description: str, *, suffix: str = "") -> str:
    """The description cut so that the whole line stays within what is advised."""
    description = harmless_hook(_one_line(description))
    room = ADVISED_LINE - len(pointer_line(file, title, "x")) + 1 - len(suffix)
    if len(description) > room:
        words = description[: max(room - 1, 20)]
        cut = words.rsplit(" ", 1)[0] if " " in words else words
        description = cut.rstrip(" ,;:.—-") + "…"
    return description + suffix


def harmless_hook(text: str) -> str:
    """Words as they may stand in a line that others read: no link or picture besides the pointer, and
    no comment that would hide the lines after it from whoever looks at the rendered page."""
    return text.replace("](", "] (").replace("<!--", "<! --")


# ---- lines


def _changed(line: str, match: re.Match[str], title: str, hook: str) -> str:
    title = _title(title)
    hook = _one_line(hook)
    old_hook = match["hook"].rstrip()
    if (not title or title == match["title"].strip()) and (not hook or hook == old_hook.strip()):
        return line
    new_title = title or match["title"]
    dash = match["dash"] if match["dash"].strip() or not hook else " — "
    target = line[match.end("title") : match.start("dash")]
    tail = line[match.start("hook") + len(old_hook) :]
    return f"{match['lead']}{new_title}{target}{dash}{hook or old_hook}{tail}"


def _place_for(lines: list[str], is_pointer: list[bool], section: str) -> int:
    """The number of the line before which a new pointer goes."""
    last_pointer, in_section, section_heading = -1, -1, -1
    inside = False
    for number, line in enumerate(lines):
        if not is_pointer[number] and (heading := _HEADING.match(line)):
            inside = bool(section) and heading.group(1).lower().startswith(section)
            if inside and line.startswith("##"):  # "# Project memory" is the title of all
                section_heading = number
        elif is_pointer[number]:
            last_pointer = number
            if inside:
                in_section = number
    if in_section >= 0:
        return in_section + 1
    if section_heading >= 0:
        follows_blank = section_heading + 1 < len(lines) and not lines[section_heading + 1].strip()
        return section_heading + (2 if follows_blank else 1)
    return last_pointer + 1 if last_pointer >= 0 else len(lines)


def unlinked(line: str) -> str:
    """The line with the title of its first link instead of the link."""
    link = next(link for link in _LINK.finditer(line) if _leads_to_memory(link))
    return line[: link.start()] + (link["title"] or link["wiki"] or "") + line[link.end() :]


def _without_link(line: str, files: frozenset[str]) -> str:
    links = [*_LINK.finditer(line)]
    meant = [link for link in links if _target(link) in files]
    if not meant:
        return line
    if _POINTER.match(line) or line.lstrip()[:1] in ("-", "*", "+", "|"):
        others = [link for link in links if _leads_to_memory(link) and _target(link) not in files]
        if meant[0] is links[0] and not any(link["file"] is not None for link in others):
            return ""
    for link in reversed(meant):
        before, after = line[: link.start()], line[link.end() :]
        gap = re.match(r"\s*[/,·|+&]\s*", after)
        if link["file"] is not None and gap:
            line = before + after[gap.end() :]
        elif link["file"] is not None and re.search(r"[/,·+&]\s*$", before):
            line = re.sub(r"\s*[/,·+&]\s*$", "", before) + after
        else:
            line = before + (link["title"] or link["wiki"] or "") + after
    return line


def _named(link: str) -> str:
    link = _LATIN.sub(lambda found: chr(ord(found[0]) - 0xDC00), link.strip().split("#", 1)[0])
    while link.startswith("./"):
        link = link[2:]
    link = unescape(link) if "&" in link else link
    return unquote(link) if "%" in link else link


def _composed(text: str) -> str:
    """In one spelling: some systems write "ü" as two characters, in names too."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _link(file: str) -> str:
    return re.sub(r"[\s()<>%#]", lambda found: f"%{ord(found.group(0)):02X}", file)


def _title(text: str) -> str:
    return harmless_hook(_one_line(text)).replace("[", "(").replace("]", ")")


def _one_line(text: str) -> str:
    return " ".join(text.split()).encode("utf-8", "replace").decode()


def _line_end(lines: list[str]) -> str:
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"


def lines_in(content: bytes) -> list[str]:
    """With their ends, which `joined_lines` puts together again."""
    text = content.decode("utf-8", "surrogateescape")
    *lines, rest = text.split("\n")
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


def joined_lines(lines: Sequence[str]) -> bytes:
    return "".join(lines).encode("utf-8", "surrogateescape")
