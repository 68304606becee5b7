"""Prompts: one Markdown file each, in our own words. Reads the package's own files, nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"\{\{(\w+)\}\}")


def load(name: str, **values: str) -> str:
    """A prompt with its `{{names}}` filled in."""
    return fill(_text(name), values)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Each `{{name}}` replaced once; what is put in is never expanded again; unknown names stay."""
    return _NAME.sub(lambda m: values.get(m[1], m[0]), template)


@cache
def _text(name: str) -> str:
    return (files(__package__ or __name__) / f"{name}.md").read_text("utf-8").strip()
