"""Topic files: a bounded, tolerant reading of their frontmatter, and edits that keep every other byte.

Frontmatter is flat `key: value` between two `---` lines within the first 30 lines and 4 KB. One
level of nesting is read as `parent.key`, because other tools write `metadata:` that way. And how old
a memory is, in words, with the caveat for an old one. Pure: bytes in, bytes out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from lamina.errors import MemoryStoreError
from lamina.memories import MEMORY_TYPES, Memory, MemoryType, Proposal
from lamina.memory.merging import as_they_stood

# Frontmatter that says when or how a memory is kept, and nothing else.
KEPT_BY_US = frozenset(
    """said due modified created updated pinned source quoted_from
    originsessionid node_type""".split()  # noqa: SIM905 - a word list
)

HEAD_LINES = 30
HEAD_BYTES = 4096
_BOM = "\ufeff"
_TYPES: dict[str, MemoryType] = {known: known for known in MEMORY_TYPES}
_FENCE = re.compile(r"---[ \t]*\r?\n?\Z")
_KEY = re.compile(r"([A-Za-z_][\w.-]{0,79})[ \t]*:(?=[ \t\r\n]|\Z)[ \t]*")
_BLOCK = re.compile(r"[|>][-+\d]*")
_COMMENT = re.compile(r"[ \t]+#(?:[ \t].*)?\Z")
_PLAIN = re.compile(r"^( *)([A-Za-z_][\w.-]{0,79}):(?: +([^\s|>][^\t\r\n]*))? *$", re.MULTILINE)
# The three keys in the usual order, each a plain value on its line.
_USUAL = re.compile(
    rb"---\nname: ([^\s\"'|>][^\n\r\t]*)\ndescription: ([^\s\"'|>][^\n\r\t]*)\ntype: ([a-z]+)\n---\n"
)
_NEEDS_QUOTES = re.compile(
    r"\A[\s\-?:,\[\]{}#&*!|>'\"%@`~]|[\s:]\Z|:\s|\s#|\A(?:true|false|null|yes|no|on|off)\Z|\A[-+.\d][\d._eE+-]*\Z",
    re.IGNORECASE,
)


class _Field(NamedTuple):  # thousands are made in a scan
    """One key with its value and the lines (first, behind the last) that hold it."""

    value: str
    first: int
    behind: int
    value_at: int  # where in the first line the value begins


class _Parts(NamedTuple):
    """A topic file taken apart; `bom + head lines + body` is the text again."""

    bom: str
    head: list[str]  # opening fence to closing fence, line ends kept; [] without frontmatter
    body: str
    fields: dict[str, _Field]


def topic_at(path: str, content: bytes | None) -> Memory | None:
    """The same where there may be no file."""
    return None if content is None else read_topic(path, content)


def read_topic(path: str, content: bytes, *, mtime: float = 0.0, size: int = -1) -> Memory:
    """The memory that a topic file holds; whatever the bytes are, this never fails."""
    try:
        text, clean = content.decode(), str
    except UnicodeDecodeError:
        text, clean = _decode(content), _clean
    found = _plainly(text)
    if found is None:
        parts = _take_apart(content)
        found = {key: field.value for key, field in parts.fields.items()}, parts.body
    values, body = found
    type_key = _type_key(values)
    used = ("name", "description", type_key)
    return Memory(
        path=path,
        name=clean(values.get("name", "")) or _stem(path),
        description=clean(values.get("description", "")),
        type=memory_type(values.get(type_key, "")),
        body=clean(_unix(body).strip("\n")),
        extra={key: clean(value) for key, value in values.items() if key not in used},
        mtime=mtime,
        size=len(content) if size < 0 else size,
    )


def read_header(path: str, head: bytes) -> tuple[str, str, MemoryType | None]:
    """Name, description and type from a file's first 4 KB: what `read_topic` would say, sooner.

    The usual three keys are taken out by one expression: a scan of thousands of files spends its
    time here.
    """
    usual = _USUAL.match(head)
    if usual and usual.end() <= HEAD_BYTES and b" #" not in usual.group():
        name, description, kind = (
            text.decode("utf-8", "replace").strip() for text in usual.groups()
        )
        return name or _stem(path), description, _TYPES.get(kind)
    memory = read_topic(path, head)
    return memory.name, memory.description, memory.type


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".md")


def _plainly(text: str) -> tuple[dict[str, str], str] | None:
    """All values and the body, where both fences are bare and well within the bounds and each line
    between them is a plain `key: value` or one of those below a `key:`. Nearly all files are like
    that, and reading thousands spends its time here; of any other None."""
    end = text.find("\n---\n", 3, HEAD_BYTES // 4)
    if end < 4 or not text.startswith("---\n"):
        return None
    lines = _PLAIN.findall(text, 4, end)
    if len(lines) != text.count("\n", 4, end) + 1 or len(lines) > HEAD_LINES - 2:
        return None
    values: dict[str, str] = {}
    nested: dict[str, str] = {}
    above = ""
    for indent, key, value in lines:
        if bool(indent) != bool(above) and (indent or not nested):
            return None  # a value that goes on below, or a key with nothing below it
        if indent:
            nested.setdefault(f"{above}.{key}", _scalar(value))
            continue
        if nested:
            values, nested = {**nested, **values}, {}
        above = "" if value else key
        if value:
            values.setdefault(key, _scalar(value))
    return None if above and not nested else ({**nested, **values}, text[end + 5 :])


def memory_type(word: str) -> MemoryType | None:
    """A type by its name; anything unknown is none."""
    return _TYPES.get(word) or _TYPES.get(word.strip().lower())


def is_binary(content: bytes) -> bool:
    return b"\x00" in content[:HEAD_BYTES]


def new_topic(
    *,
    name: str,
    description: str,
    type: MemoryType | None,  # noqa: A002 - the key's own name
    body: str,
    extra: Mapping[str, str] | None = None,
) -> bytes:
    """A whole new topic file."""
    fields = {"name": name, "description": description, "type": type or "", **(extra or {})}
    _check_keys(fields)
    lines = [
        f"{key}: {_written(value)}\n" for key, value in fields.items() if value and "." not in key
    ]
    text = _given(_unix(body)).strip("\n")
    return _encode("".join(["---\n", *lines, "---\n\n", f"{text}\n" if text else ""]))


def topic_of(one: Memory | Proposal) -> bytes:
    """The new file that it would be."""
    return new_topic(
        name=one.name, description=one.description, type=one.type, body=one.body, extra=one.extra
    )


def edit_topic(
    content: bytes,
    *,
    name: str | None = None,
    description: str | None = None,
    type: MemoryType | None = None,  # noqa: A002 - the key's own name
    body: str | None = None,
    extra: Mapping[str, str | None] | None = None,
) -> bytes:
    """The file with these values changed (None: left alone; an extra key with None is removed).

    A value that is the same already is not rewritten, so its quotes and comment stay as they are.
    """
    text = _decode(content)
    parts = _take_apart(content)
    if not parts.head and _looks_open(text):
        raise MemoryStoreError(
            f"The frontmatter does not end within {HEAD_LINES} lines and {HEAD_BYTES} bytes. "
            "Close it with --- there, then edit again."
        )
    wanted: dict[str, str | None] = {**(extra or {})}
    given = {"name": name, "description": description, _type_key(parts.fields): type}
    _check_keys(wanted)
    wanted |= {key: value for key, value in given.items() if value is not None}
    end = _line_end(text)
    head = list(parts.head)
    for key, value in wanted.items():
        fields = _fields_of(head)
        head = _with_value(head, fields, key, value, end)
    fresh = bool(head) and not parts.head
    return _encode(parts.bom + "".join(head) + _with_body(parts, body, end, fresh=fresh))


def brought_to(content: bytes, memory: Memory) -> bytes:
    """The file saying all that the memory says; keys that it does not mention stay."""
    there = read_topic(memory.path, content)
    return edit_topic(
        content,
        name=memory.name if memory.name != there.name else None,
        description=memory.description if memory.description != there.description else None,
        type=memory.type,
        body=memory.body,
        extra={key: value for key, value in memory.extra.items() if there.extra.get(key) != value},
    )


# ---- taking apart


def _take_apart(content: bytes) -> _Parts:
    """The same answer for a whole file and for its first 4 KB, as far as the keys are concerned."""
    text = _decode(content)
    bom = _BOM if text.startswith(_BOM) else ""
    text = text[len(bom) :]
    if not text.startswith("---"):
        return _Parts(bom, [], text, {})
    bounded = _decode(content[:HEAD_BYTES])[len(bom) :]
    head: list[str] = []
    taken = 0
    for line in bounded.split("\n", HEAD_LINES)[:HEAD_LINES]:
        whole = bounded[taken : taken + len(line) + 1]
        taken += len(whole)
        complete = whole.endswith("\n") or len(content) < HEAD_BYTES
        fence = complete and line.startswith("---") and bool(_FENCE.match(whole))
        if not head and not fence:
            break
        head.append(whole)
        if fence and len(head) > 1:
            return _Parts(bom, head, text[taken:], _fields_of(head))
    return _Parts(bom, [], text, {})


def why_ambiguous(content: bytes, before: bytes | None = None) -> str:
    """ "" or why other readers of the file could see more or else in its head than we do: they know all
    of YAML, where the last of two keys counts, keys come in more forms, and a value may carry a tag; and a
    person sees the comments. What was so `before` may stay."""
    stood = {said for _, said in _ambiguities(before)} if before else set[str]()
    return next((why for why, said in _ambiguities(content) if said not in stood), "")


def _ambiguities(content: bytes) -> Iterator[tuple[str, str]]:
    """Each with what it is about. A line is named by its number: it may be cut off amid a secret."""
    parts = _take_apart(content)
    if not parts.head:
        if _looks_open(_decode(content[:HEAD_BYTES])):
            yield f"its frontmatter does not end within {HEAD_LINES} lines", ""
        return
    seen: set[str] = set()
    held = {at for one in parts.fields.values() for at in range(one.first, one.behind)}
    for number, line in enumerate(parts.head[1:-1], 1):
        match = _KEY.match(line)
        key, value = (
            (match[1], line[match.end() :].rstrip()) if match else ("", f" {line.rstrip()}")
        )
        if key in seen:
            yield f"its frontmatter says {key} twice", key
        elif number not in held and value.strip():
            yield f"line {number + 1} of its frontmatter is no plain key and value", line
        elif _escapes(value):
            yield f"line {number + 1} of its frontmatter has a letter behind a backslash", line
        elif _comment_of(value):
            yield f"line {number + 1} of its frontmatter has a comment", line
        seen.update([key] if key else ())
    for key, field in parts.fields.items():
        if field.value[:1] in ('"', "'") and not field.value[1:].rstrip().endswith(field.value[0]):
            why = f"the value of {key} opens a quotation mark and never closes it"
            yield why, f"{key}: {field.value}"
    kinds = {parts.fields[key].value for key in ("type", "metadata.type") if key in parts.fields}
    if len(kinds) > 1:
        yield "its frontmatter gives two types", "types"
    if any(memory_type(kind) is None and not re.fullmatch(r"[\w-]*", kind) for kind in kinds):
        yield "its type is no plain word", "type"


def _escapes(value: str) -> bool:
    """Does a value in double quotes escape more than a quotation mark or a backslash?"""
    plain = value.replace("\\\\", "").replace('\\"', "")
    return value.lstrip(" -\t").startswith('"') and "\\" in plain


def _looks_open(text: str) -> bool:
    """Does it begin like frontmatter that never ends: a fence and a key?"""
    lines = text.removeprefix(_BOM)[:HEAD_BYTES].split("\n", 2)
    return len(lines) > 1 and bool(_FENCE.match(lines[0])) and bool(_KEY.match(lines[1]))


def _fields_of(head: list[str]) -> dict[str, _Field]:
    """Every key between the fences, its value folded to one line; the first of doubles counts."""
    fields: dict[str, _Field] = {}
    number, fence = 1, len(head) - 1
    while number < fence:
        line = head[number]
        match = _KEY.match(line)
        if match is None:
            number += 1
            continue
        key, at, behind = match[1], match.end(), number + 1
        while behind < fence and _continues(head[behind]):
            behind += 1
        inline = line[at:].strip()
        if not inline and (nested := _nested(key, head, number, behind)):
            fields = {**nested, **fields}
        elif key not in fields:
            below = [more for line in head[number + 1 : behind] if (more := line.strip())]
            fields[key] = _Field(_folded(inline, below), number, behind, at)
        number = behind
    return fields


def _continues(line: str) -> bool:
    """A line that belongs to the key above it: indented, or an item of its list."""
    return line.startswith((" ", "\t", "- "))


def _nested(parent: str, head: list[str], first: int, behind: int) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for number in range(first + 1, behind):
        line = head[number]
        if match := _KEY.match(line, len(line) - len(line.lstrip(" \t"))):
            value = _scalar(line[match.end() :].rstrip("\r\n"))
            key = f"{parent}.{match.group(1)}"
            found.setdefault(key, _Field(value, number, number + 1, match.end()))
    return found


def _folded(plain: str, below: list[str]) -> str:
    if plain[:1] in ("|", ">") and _BLOCK.fullmatch(plain):
        return " ".join(below)
    if below and all(line.startswith("- ") for line in below):
        return ", ".join(_scalar(line[2:]) for line in below)
    return _scalar(" ".join([plain, *below]))


def _scalar(text: str) -> str:
    """A value without its quotes and without a comment behind it."""
    text = text.strip()
    if text[:1] == '"' and (match := re.match(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?\Z', text)):
        return re.sub(r"\\(.)", _unescaped, match.group(1))
    if text[:1] == "'" and (match := re.match(r"'((?:[^']|'')*)'\s*(?:#.*)?\Z", text)):
        return match.group(1).replace("''", "'")
    return _COMMENT.sub("", text) if "#" in text else text


def _unescaped(match: re.Match[str]) -> str:
    return {"n": " ", "t": " ", "r": " "}.get(match.group(1), match.group(1))


# ---- putting together


def _check_keys(keys: Iterable[str]) -> None:
    for key in keys:
        if not re.fullmatch(r"[A-Za-z_][\w.-]{0,79}", key):
            raise MemoryStoreError(
                f"{key[:80]!r} can't be a key of a topic file. Use letters, digits, _ and -."
            )


def _with_value(
    head: list[str], fields: Mapping[str, _Field], key: str, value: str | None, end: str
) -> list[str]:
    field = fields.get(key)
    if value is None:
        return head if field is None else head[: field.first] + head[field.behind :]
    value = " ".join(value.split())
    if field is None:
        line = f"{key.rsplit('.', 1)[-1]}: {_written(value)}{end}"
        if not head:
            return [f"---{end}", line, f"---{end}"]
        return [*head[:-1], line, head[-1]]
    if field.value == value:
        return head
    old = head[field.first]
    kept_end = old[len(old.rstrip("\r\n")) :]
    inline = old[field.value_at :].rstrip("\r\n")
    before = old[: field.value_at]
    before += "" if before[-1:] in (" ", "\t") else " "
    line = f"{before}{_written(value)}{_comment_of(inline)}{kept_end}"
    return [*head[: field.first], line, *head[field.behind :]]


def _comment_of(inline: str) -> str:
    """The comment behind a value, with the space before it."""
    stripped = inline.strip()
    if stripped[:1] in ('"', "'"):
        quoted = re.match(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')([ \t]+#.*)?\Z""", stripped)
        return (quoted.group(1) or "") if quoted else ""
    match = _COMMENT.search(inline)
    return match.group(0) if match else ""


def _with_body(parts: _Parts, body: str | None, end: str, *, fresh: bool) -> str:
    old = _unix(parts.body)
    if body is None or _unix(body).strip("\n") in (old.strip("\n"), _clean(old).strip("\n")):
        return f"{end}{parts.body}" if fresh and parts.body[:1] not in ("\r", "\n") else parts.body
    leading = parts.body[: len(parts.body) - len(parts.body.lstrip("\r\n"))]
    trailing = parts.body[len(parts.body.rstrip("\r\n")) :] or end
    text = _unix(_given(body)).strip("\n")
    mixed = "\r\n" in parts.body and old.count("\n") != parts.body.count("\r\n")
    if mixed or _clean(old) != old:
        text = as_they_stood(parts.body.strip("\r\n"), text, end, _clean)
    else:
        text = text.replace("\n", end)
    if not leading and (fresh or (parts.head and not parts.body)):
        leading = end
    return f"{leading}{text}{trailing if text else ''}"


def _written(value: str) -> str:
    value = _given(" ".join(value.split()))
    if value and not _NEEDS_QUOTES.search(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _type_key(fields: Collection[str]) -> str:
    return "metadata.type" if "type" not in fields and "metadata.type" in fields else "type"


def _line_end(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # bytes that were no UTF-8 go back as they came


def _clean(text: str) -> str:
    """For values that leave this module: bytes that were no text become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _encode(text).decode("utf-8", "replace")
    return text


def _given(text: str) -> str:
    """For values that come in: a lone surrogate can't be written and becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_DAY = 86_400.0


def age_days(saved: float, now: float) -> int:
    """Whole days since then; a time in the future or no time at all counts as now."""
    age = now - saved
    return int(age // _DAY) if math.isfinite(age) and age > 0 else 0


def age_words(saved: float, now: float) -> str:
    """`today`, `yesterday` or `N days ago`: models judge those better than dates."""
    days = age_days(saved, now)
    return {0: "today", 1: "yesterday"}.get(days, f"{days:,} days ago")


def caveat(saved: float, now: float, stale_days: float = 1.0) -> str:
    """ "" for a fresh memory, else a sentence on how far to trust it."""
    if now - saved <= stale_days * _DAY or not math.isfinite(now - saved):
        return ""
    days = max(1, age_days(saved, now))
    old = "1 day" if days == 1 else f"{days:,} days"
    return (
        f"Written {old} ago, so it may be out of date. Look at the present state of things before "
        "you rely on what it says."
    )


def heading(path: str, saved: float, now: float, stale_days: float = 1.0) -> str:
    """`Memory (saved N days ago): path`, with the caveat below it where the memory is old."""
    line = f"Memory (saved {age_words(saved, now)}): {path}"
    note = caveat(saved, now, stale_days)
    return f"{line}\n{note}" if note else line
