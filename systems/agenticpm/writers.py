"""Who writes an artefact: a model where one is configured and the day's budget allows it, else the rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agenticpm import budget, configs
from agenticpm.claude_writer import ClaudeWriter
from agenticpm.model import Project
from agenticpm.rules_writer import RulesWriter
from agenticpm.thresholds import thresholds_of
from agenticpm.tickets import Draft, Writer, Writing
from holdfast import Stores
from holdfast.ai import Reasoner, open_reasoner


@dataclass(frozen=True)
class Writers:
    """Without rules of somebody's own, they are those of the project's thresholds."""

    stores: Stores
    claude: Writer | None = None
    rules: Writer | None = None

    async def write(self, writing: Writing, project: Project) -> Draft:
        """The draft, and its price on the day's bill."""
        rules = self.rules or RulesWriter(thresholds_of(project.config))
        if self.claude is None:
            return await rules.write(writing)
        state = await budget.state(self.stores, await configs.read(self.stores))
        if isinstance(self.claude, ClaudeWriter):
            # What it sets words into, and falls back on, follows the project's own thresholds.
            self.claude.fallback = rules
        writer = budget.chosen_writer(state.level, writing.type, self.claude, rules)
        draft = await writer.write(writing)
        if draft.usd:
            await budget.spend(self.stores, draft.usd)
        return draft


@asynccontextmanager
async def open_writers(stores: Stores) -> AsyncIterator[Writers]:
    """Those that the settings name, for as long as this is entered."""
    async with open_reasoner() as reasoner:
        yield Writers(stores, None if reasoner is None else _remembering(reasoner))


# One in a process: it remembers what it has asked, so that the same facts are not paid for twice.
_REMEMBERED: list[ClaudeWriter] = []


def _remembering(reasoner: Reasoner) -> ClaudeWriter:
    if not _REMEMBERED:
        _REMEMBERED.append(ClaudeWriter(reasoner, RulesWriter()))
    _REMEMBERED[0].reasoner = reasoner
    return _REMEMBERED[0]
