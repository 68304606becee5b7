"""A hook of mkdocs: brings pages that live outside `docs/` into the site, and turns links to them, and
to source files, into ones that work there. Writes nothing but the site.
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "results.md": "bench/RESULTS.md",
    "changes.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
_LINK = re.compile(r"\[([^\]\[]*)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(?ms)(^```.*?^```$)")


def on_files(files: Files, config: Any) -> Files:
    for name, path in OUTSIDE.items():
        text = (ROOT / path).read_text("utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """A link to a page of the site stays one; what the site does not hold is named and not linked."""
    here = Path(OUTSIDE.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent
    names = {path: name for name, path in OUTSIDE.items()}
    depth = "../" * page.file.src_uri.count("/")

    def turned(link: re.Match[str]) -> str:
        target = (ROOT / here / link[2]).resolve()
        path = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
        if path in names:
            return f"[{link[1]}]({depth}{names[path]}{link[3] or ''})"
        inside = path.removeprefix("docs/")
        if path != inside and files.get_file_from_path(inside):
            return f"[{link[1]}]({depth}{inside}{link[3] or ''})"
        return link[1]

    parts = _FENCE.split(markdown)  # every second one is code
    parts[::2] = [_LINK.sub(turned, part) for part in parts[::2]]
    return "".join(parts)
