"""Secrets that a write would bring into memory: where they stand, and the same write without them. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from lamina.memories import Memory, Proposal
from lamina.secrets import Rules, Secrets, scan, secrets_in

Written = TypeVar("Written", Memory, Proposal)


@dataclass(frozen=True, slots=True)
class Leak:
    """One secret, and where it stands."""

    where: str  # "the body of deploy.md", "MEMORY.md"
    line: int
    rule: str
    value: str = dataclasses.field(repr=False)

    @property
    def sentence(self) -> str:
        return f"Line {self.line} of {self.where} looks like a secret ({self.rule})."


def leaks_in(text: str, where: str, rules: Rules | None) -> list[Leak]:
    return [
        Leak(where, found.line, found.rule, text[found.start : found.end])
        for found in scan(text, rules)
    ]


def leaks_of(proposal: Proposal, rules: Rules | None) -> list[Leak]:
    """All that its parts hold."""
    return [
        leak
        for part, text in _parts(proposal).items()
        for leak in leaks_in(text, f"the {part} of {proposal.path}", rules)
    ]


def new_leaks(leaks: Sequence[Leak], before: Memory | None) -> list[Leak]:
    """Those that the file does not hold already: what somebody wrote there knowingly may stay."""
    old = _all(before) if before is not None else ""
    return [leak for leak in leaks if leak.value not in old]


def secrets_of(proposal: Proposal, rules: Rules | None, *beside: str) -> Secrets:
    """Every secret that a word about this write could repeat, its evidence and file name included."""
    quotes = (one.quote for one in proposal.evidence)
    path = proposal.path
    texts = (*_parts(proposal).values(), proposal.reason, *quotes, *beside)
    return secrets_in(*texts, path, path.upper(), rules=rules)


def safe_path(proposal: Proposal, rules: Rules | None) -> str:
    """Its path, or a neutral one where the name gives a secret away."""
    found = secrets_of(proposal, rules)
    if not found.named_by(proposal.path):
        return proposal.path
    mark = hashlib.sha256(found.mask(_all(proposal)).encode("utf-8", "replace")).hexdigest()[:8]
    return f"{proposal.type or 'memory'}_masked_{mark}.md"


def without_secrets(
    proposal: Proposal, exact: bytes | None, base: Memory | None, rules: Rules | None
) -> tuple[Proposal, bytes | None]:
    """The same write with every secret masked that its file does not hold already."""
    text = (exact or b"").decode("utf-8", "surrogateescape")
    found = secrets_of(proposal, rules, text)
    found = found.beyond(_all(base)) if base else found
    if not found:
        return proposal, exact
    exact = None if exact is None else found.mask(text).encode("utf-8", "surrogateescape")
    quotes = [dataclasses.replace(one, quote=found.mask(one.quote)) for one in proposal.evidence]
    masked = dataclasses.replace(
        proposal,
        path=safe_path(proposal, rules),
        name=found.mask(proposal.name),
        description=found.mask(proposal.description),
        body=found.mask(proposal.body),
        hook=found.mask(proposal.hook),
        reason=found.mask(proposal.reason),
        extra={key: found.mask(value) for key, value in proposal.extra.items()},
        evidence=tuple(quotes),
    )
    return masked, exact


def for_index(written: Written, rules: Rules | None) -> Written:
    """With name, description and hook as the index may show them: it goes into every prompt."""
    found = secrets_in(*_parts(written).values(), rules=rules)
    if not found:
        return written
    head = {"name": found.mask(written.name), "description": found.mask(written.description)}
    if isinstance(written, Proposal):
        head["hook"] = found.mask(written.hook)
    return dataclasses.replace(written, **head)


def _parts(written: Memory | Proposal) -> dict[str, str]:
    return {
        "name": written.name,
        "description": written.description,
        "hook": written.hook if isinstance(written, Proposal) else "",
        "frontmatter": "\n".join(f"{key}: {value}" for key, value in written.extra.items()),
        "body": written.body,
    }


def _all(written: Memory | Proposal) -> str:
    return "\n".join(_parts(written).values())
