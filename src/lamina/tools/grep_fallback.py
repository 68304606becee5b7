"""Grep without ripgrep: the same search in Python, with RE2 for the same syntax and linear time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lamina.errors import ToolError
from lamina.tools.globs import matches
from lamina.tools.grep import Found, Query, shown_line, shown_path
from lamina.tools.text import SNIFFED, is_binary, utf16
from lamina.tools.walk import OutOfTime, Walk

LARGEST_FILE = 64 << 20

TYPES: dict[str, tuple[str, ...]] = {
    "c": ("*.[chH]", "*.[chH].in", "*.cats"),
    "cpp": ("*.[ChH]", "*.cc", "*.[ch]pp", "*.[ch]xx", "*.hh", "*.inl", "*.cc.in", "*.hh.in"),
    "css": ("*.css", "*.scss"),
    "go": ("*.go",),
    "html": ("*.htm", "*.html", "*.ejs"),
    "java": ("*.java", "*.jsp", "*.jspx", "*.properties"),
    "js": ("*.js", "*.jsx", "*.vue", "*.cjs", "*.mjs"),
    "json": ("*.json", "composer.lock", "*.sarif"),
    "md": ("*.markdown", "*.md", "*.mdown", "*.mdwn", "*.mkd", "*.mkdn", "*.mdx"),
    "php": ("*.php", "*.php3", "*.php4", "*.php5", "*.php7", "*.php8", "*.pht", "*.phtml"),
    "py": ("*.py", "*.pyi"),
    "ruby": ("*.rb", "*.rbw", "*.gemspec", "Gemfile", "Rakefile", "config.ru", ".irbrc"),
    "rust": ("*.rs",),
    "sh": ("*.bash", "*.sh", "*.zsh", ".bashrc", ".profile", ".zshrc", "*.ksh", "*.csh"),
    "sql": ("*.sql", "*.psql"),
    "toml": ("*.toml", "Cargo.lock"),
    "ts": ("*.ts", "*.tsx", "*.cts", "*.mts"),
    "txt": ("*.txt",),
    "xml": ("*.xml", "*.xml.dist", "*.dtd", "*.xsl", "*.xslt", "*.xsd", "*.xjb", "*.rng", "*.sch"),
    "yaml": ("*.yaml", "*.yml"),
}


def search(query: Query, project: Path) -> Found:
    """All that the query finds, in the order and the form in which ripgrep would say it."""
    expression = _compile(query)
    deadline = time.monotonic() + query.timeout
    found = Found([])
    try:
        for path in _files(query, deadline):
            if time.monotonic() > deadline:
                raise OutOfTime
            _search_file(path, expression, query, project, found)
    except OutOfTime:
        found.complete = False
    return found


def _compile(query: Query) -> Any:
    import re2  # it has no types

    re2_untyped: Any = re2
    options = re2_untyped.Options()
    options.case_sensitive = not query.any_case
    options.log_errors = False
    try:
        return re2_untyped.compile(query.pattern.encode(), options)
    except re2_untyped.error as error:
        raise ToolError(
            f"{query.pattern!r} is not a regular expression that can be searched for: {error}."
        ) from error


def _files(query: Query, deadline: float) -> Iterator[str]:
    if query.type and query.type not in TYPES:
        raise ToolError(f"No file type {query.type!r} is known here. Use glob instead.")
    if query.root.is_file():
        yield str(query.root)
        return
    types = TYPES.get(query.type)
    for entry in Walk(query.root, deadline=deadline, glob=query.glob).files():
        if types is None or any(matches(glob, entry.name) for glob in types):
            yield entry.path


def _search_file(path: str, expression: Any, query: Query, project: Path, found: Found) -> None:
    data = _load(path)
    if data is None:
        return
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    hits = [n for n, line in enumerate(lines) if expression.search(line.removesuffix(b"\r"))]
    if not hits:
        return
    name = shown_path(path, project)
    if query.mode == "files":
        found.lines.append(name)
    elif query.mode == "count":
        found.lines.append(f"{name}:{len(hits)}")
    else:
        _show(name, lines, hits, query, found)


def _show(name: str, lines: list[bytes], hits: list[int], query: Query, found: Found) -> None:
    """Matches and the lines around them, overlapping ones once, `--` where lines are left out."""
    matched = set(hits)
    after_last = 0
    for hit in hits:
        first = max(after_last, hit - query.before)
        apart = first > after_last or after_last == 0
        if apart and found.lines and (query.before or query.after):
            found.lines.append("--")
        for number in range(first, min(len(lines), hit + query.after + 1)):
            text = lines[number].decode("utf-8", "replace")
            found.lines.append(shown_line(name, number + 1, text, is_match=number in matched))
            after_last = number + 1


def _load(path: str) -> bytes | None:
    """A file's text as UTF-8; None for what is binary, too large or unreadable."""
    try:
        with open(path, "rb") as file:
            head = file.read(SNIFFED)
            if is_binary(head):
                return None
            data = head + file.read(LARGEST_FILE)
    except OSError:
        return None
    encoding = utf16(data)
    if len(data) > LARGEST_FILE or (encoding is None and b"\0" in data):
        return None
    if encoding is not None:
        return data[2:].decode(encoding, "replace").encode("utf-8", "replace")
    return data.removeprefix(b"\xef\xbb\xbf")
