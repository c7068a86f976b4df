"""Who writes an artefact: a model where one is configured and the day's budget allows it, else the rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from agenticpm import budget, configs
from agenticpm.model import Project
from agenticpm.rules_writer import RulesWriter
from agenticpm.tickets import Draft, Writer, Writing
from holdfast import Stores


@dataclass(frozen=True)
class Writers:
    stores: Stores
    claude: Writer | None = None
    rules: Writer = field(default_factory=RulesWriter)

    async def write(self, writing: Writing, project: Project) -> Draft:
        """The draft, and its price on the day's bill."""
        if self.claude is None:
            return await self.rules.write(writing)
        state = await budget.state(self.stores, await configs.read(self.stores))
        writer = budget.chosen_writer(state.level, writing.type, self.claude, self.rules)
        draft = await writer.write(writing)
        if draft.usd:
            await budget.spend(self.stores, draft.usd)
        return draft
