"""Writer choice: use a model if one is configured and the day's budget allows it, else the rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agenticpm.domain.thresholds import parse_thresholds
from agenticpm.domain.tickets import Draft, Writer, Writing
from agenticpm.domain.writers.rules import RulesWriter
from agenticpm.integrations.claude.writer import ClaudeWriter
from agenticpm.model import agent_settings, budget
from agenticpm.model.entities import Project
from holdfast import Stores
from holdfast.ai import Reasoner, open_reasoner


@dataclass(frozen=True)
class Writers:
    """The available writers. If `rules` is None, a rules writer with the project's thresholds is made."""

    stores: Stores
    claude: Writer | None = None
    rules: Writer | None = None

    async def write(self, writing: Writing, project: Project) -> Draft:
        """Return a draft by the writer that the budget allows, and add its price to the day's spend."""
        rules = self.rules or RulesWriter(parse_thresholds(project.config))
        if self.claude is None:
            return await rules.write(writing)
        state = await budget.load_state(self.stores, await agent_settings.load(self.stores))
        if isinstance(self.claude, ClaudeWriter):
            # The model's skeleton and fallback follow the project's own thresholds.
            self.claude.fallback = rules
        writer = budget.choose_writer(state.level, writing.type, self.claude, rules)
        draft = await writer.write(writing)
        if draft.usd:
            await budget.spend(self.stores, draft.usd)
        return draft


@asynccontextmanager
async def open_writers(stores: Stores) -> AsyncIterator[Writers]:
    """Open the writers that the settings name, while the context lasts."""
    async with open_reasoner() as reasoner:
        yield Writers(stores, None if reasoner is None else _get_claude_writer(reasoner))


# One per process: it remembers the facts it has sent, so that they are not paid for twice.
_CLAUDE_WRITERS: list[ClaudeWriter] = []


def _get_claude_writer(reasoner: Reasoner) -> ClaudeWriter:
    """Return the Claude writer of this process, with this reasoner."""
    if not _CLAUDE_WRITERS:
        _CLAUDE_WRITERS.append(ClaudeWriter(reasoner, RulesWriter()))
    _CLAUDE_WRITERS[0].reasoner = reasoner
    return _CLAUDE_WRITERS[0]
