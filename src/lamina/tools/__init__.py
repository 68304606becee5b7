"""Tools: what an agent can do to the world, and the rules that it does it by."""

from __future__ import annotations

from lamina.messages import Json


def takes(required: str = "", /, **fields: Json) -> Json:
    """The schema of a tool's input: these fields and no others. `required` names those that it needs."""
    needed = {"required": required.split()} if required else {}
    return {"type": "object", "properties": fields, **needed, "additionalProperties": False}


def words(most: int, about: str) -> Json:
    """A text of at most so many characters."""
    return {"type": "string", "minLength": 1, "maxLength": most, "description": about}


def counted(about: str) -> Json:
    """A number from 1 on."""
    return {"type": "integer", "minimum": 1, "description": about}
