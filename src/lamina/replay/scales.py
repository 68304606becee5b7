"""Bytes per token by kind of block, for recordings made with a tokeniser that we don't have: fitted to
the usage that the recording itself carries. Pure arithmetic on values that it is handed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from lamina.messages import Block, Usage
from lamina.replay.files import as_list, as_object
from lamina.replay.recording import Recording

KINDS = ("text", "call", "result", "thinking", "each")
# Fitted over the recorded sessions of several models: tokens a byte, and tokens for each block.
USUAL = (0.242, 0.301, 0.331, 0.214, 27.0)
IMAGE_TOKENS = 2000
_TRUST = 3.0  # the usual figures count as so many requests of the session
_ROUNDS = 12


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

    def bytes_per_token(self) -> dict[str, float]:
        return {kind: round(1 / self.weights[i], 2) for i, kind in enumerate(KINDS[:-1])}


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
    those carried something that the recording doesn't show.
    """
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
