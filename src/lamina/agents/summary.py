"""What running agents are doing, in three to five words each, for whoever looks at them (L7.6).

Asked for while somebody looks, also from another process: at most one small call an agent in thirty
seconds, none if it did nothing new, none over a cap; checked by rule, else the last tool call says it
(`Reading runner.py`). Touches the agent's ledger, which other processes read, and the spend record.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lamina import prompts
from lamina.agents import roster
from lamina.agents.fork import last_words
from lamina.errors import LaminaError
from lamina.ledger import edits
from lamina.messages import Request, text

if TYPE_CHECKING:
    from lamina.agents.runner import Agent, Agents

SECONDS = 30.0
_AT_ONCE = 8  # agents of one look that may cost a call
_LAST = 2_000  # characters of the last answer that are shown


def shown(agents: Agents) -> list[str]:
    """For a status line: what each agent does. What is out of date is asked for meanwhile."""
    if _due(agents):
        agents.main.background.start("agent summaries", partial(refresh, agents))
    return [f"{a.card.name}: {a.line or a.doing or a.card.task}" for a in agents.running()]


async def refresh(agents: Agents) -> None:
    """Bring the lines of the running agents up to date, where that is due."""
    for agent in _due(agents):
        agent.summed = (agent.rounds, agents.main.deps.clock.monotonic())
        line = agent.line = await _asked(agents, agent)
        if line and agent.state is not None:
            agent.state.ledger.append(edits.state(roster.LINE, line))


def _due(agents: Agents) -> list[Agent]:
    now = agents.main.deps.clock.monotonic()
    return [
        one
        for one in agents.running()
        if one.doing and one.rounds != one.summed[0]
        if not one.summed[0] or now - one.summed[1] >= SECONDS
    ][:_AT_ONCE]


def fits(line: str, doing: str) -> bool:
    """Three to five words, in the present, that name what the last call was about."""
    words = line.split()
    named = any(word.strip("`'\".,()") in line for word in doing.split()[1:] if len(word) > 2)
    return 3 <= len(words) <= 5 and words[0].lower().endswith("ing") and named


async def _asked(agents: Agents, agent: Agent) -> str:
    """The model's line if it fits, else ""."""
    deps = agents.main.deps
    if deps.small is None:
        return ""
    said = last_words(agent.state.ledger)[-_LAST:] if agent.state is not None else ""
    words = f"Its task: {agent.card.task}\nIts last call: {agent.doing}\nIt said: {said or '-'}"
    request = Request(
        system=[text(prompts.load("agent_summary"))],
        tools=[],
        messages=[{"role": "user", "content": [text(words)]}],
        model=deps.small(deps.model).name,
        max_tokens=32,
        purpose="agent_summary",
    )
    try:
        response = await agents.main.ask_small(request)
    except LaminaError:
        return ""
    line = " ".join(response.text.split()).rstrip(".")
    return line if fits(line, agent.doing) else ""
