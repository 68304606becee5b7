"""Skill: instructions for a kind of work, kept as `NAME/SKILL.md`, loaded when the model needs them.

The model is told names and descriptions; the text comes by calling the tool, which leaves the name
in the record, so that compaction can bring invoked skills back. It only reads the directories that
the host names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from lamina.errors import ToolError
from lamina.memory import read_header, read_topic
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec

FILE = "SKILL.md"
MOST_SKILLS = 100
LONGEST_DESCRIPTION = 300
LONGEST_SKILL = 40_000
_HEAD = 4_096


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    path: Path


def find_skills(directories: Sequence[Path]) -> list[Skill]:
    """The skills below these directories, by name; of two with one name the later directory's."""
    found: dict[str, Skill] = {}
    for directory in directories:
        for path in sorted(directory.glob(f"*/{FILE}")):
            try:
                with path.open("rb") as file:
                    name, description, _ = read_header(path.parent.name, file.read(_HEAD))
            except OSError:
                continue  # unreadable: the model is not offered what it can't have
            found[name] = Skill(name, " ".join(description.split())[:LONGEST_DESCRIPTION], path)
    return [found[name] for name in sorted(found)][:MOST_SKILLS]


class SkillTool:
    """The tool over some skills. The list is fixed, so that the prompt's bytes are."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = {skill.name: skill for skill in skills}
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
        self.spec = ToolSpec(
            name="Skill",
            description=(
                "Loads the instructions of a skill. Do so before work that one of these describes, "
                f"then follow them:\n{listed}"
            ),
            input_schema={
                "type": "object",
                "properties": {"name": {"type": "string", "enum": list(self._skills)}},
                "required": ["name"],
                "additionalProperties": False,
            },
            read_only=True,
        )

    async def run(
        self,
        input: Json,  # noqa: A002
        context: ToolContext,  # noqa: ARG002 - a skill is the same in every session
    ) -> ToolOutcome:
        skill = self._skills[input["name"]]
        text = await anyio.to_thread.run_sync(_load, skill)
        folder = f"Files that it names are in {skill.path.parent}."
        meta = {"skill": skill.name, "path": str(skill.path)}
        return ToolOutcome(f"{text}\n\n[{folder}]", meta=meta)


def _load(skill: Skill) -> str:
    try:
        with skill.path.open("rb") as file:
            data = file.read(4 * LONGEST_SKILL)
    except OSError as error:
        raise ToolError(f"The skill {skill.name} can't be read: {error.strerror}.") from error
    body = read_topic(str(skill.path), data).body.strip()
    return body if len(body) <= LONGEST_SKILL else f"{body[:LONGEST_SKILL]}\n\n[… cut here]"
