"""What providers report that a call used, each in its own form, as ours. Pure."""

from __future__ import annotations

from lamina.messages import Usage, as_object


def anthropic_usage(value: object) -> Usage | None:
    """Usage as Anthropic's API reports it."""
    usage = as_object(value)
    if not usage:
        return None
    detail = as_object(usage.get("cache_creation"))
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
        count(detail.get("ephemeral_1h_input_tokens")),
    )


def openai_usage(value: object) -> Usage | None:
    """Usage as OpenAI's two APIs report it: the prompt's count includes what was cached. Routers
    that speak for Anthropic report in the same form, what was written to the cache besides.
    """
    usage = as_object(value)
    if not usage:
        return None
    prompt = count(usage.get("prompt_tokens", usage.get("input_tokens")))
    detail = as_object(usage.get("prompt_tokens_details", usage.get("input_tokens_details")))
    written = (
        count(detail.get("cache_write_tokens"))
        or count(detail.get("cache_creation_tokens"))
        or count(usage.get("cache_creation_input_tokens"))
    )
    read = min(prompt, count(detail.get("cached_tokens")))
    write = min(prompt - read, written)
    output = count(usage.get("completion_tokens", usage.get("output_tokens")))
    return Usage(prompt - read - write, output, read, write)


def count(value: object) -> int:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12
    return value if right and isinstance(value, int) else 0


def gemini_usage(value: object) -> Usage | None:
    """Usage as Google's API reports it: the prompt's count includes what was cached, thoughts are
    counted apart from the answer."""
    usage = as_object(value)
    if not usage:
        return None
    prompt = count(usage.get("promptTokenCount"))
    read = min(prompt, count(usage.get("cachedContentTokenCount")))
    thought = count(usage.get("thoughtsTokenCount"))
    return Usage(prompt - read, count(usage.get("candidatesTokenCount")) + thought, read)
