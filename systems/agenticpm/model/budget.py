"""Daily model budget: record the day's spend, compare it with the ceiling, and choose the writer.

    full       below 80 %: the model writes every artefact with prose
    reduced    from 80 %: the model writes only the delivery state, the rules write the rest
    rules      from 100 % until the end of the day

A day is a calendar day in the time zone of the working hours. A draft's price is added after the draft has
arrived, so the spend exceeds the ceiling by one draft at most. The spend is one item (`CONFIG#spend`),
written with a condition on the value read: concurrent payments are each counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import Writer
from agenticpm.model import agent_settings, patterns
from agenticpm.model.agent_settings import SPEND, AgentSettings, get_zone
from agenticpm.model.entities import AgentConfig, Event, EventType, Severity
from agenticpm.model.events import build_event_writes, get_now
from holdfast import Put, Stores
from holdfast.core.errors import Conflict

REDUCED_FROM: Final = Decimal("0.8")
# The artefact that the model still writes at a reduced budget: people read it first.
ESSENTIAL_TYPE: Final = ArtefactType.delivery_state
# Each conflict means that another process made progress.
MAX_ATTEMPTS: Final = 100


class BudgetLevel(StrEnum):
    """Which writers the rest of the day's budget allows."""

    full = "full"
    reduced = "reduced"
    rules = "rules"


@dataclass(frozen=True)
class BudgetState:
    """The spend of one day.

    `is_recorded`: the ceiling event of the day exists; reaching a raised ceiling records none.
    """

    date: str
    spent: Decimal
    calls: int
    ceiling: Decimal
    is_recorded: bool = False

    @property
    def level(self) -> BudgetLevel:
        """The level by the share of the ceiling that is spent."""
        if self.spent >= self.ceiling:
            return BudgetLevel.rules
        return BudgetLevel.reduced if self.spent >= self.ceiling * REDUCED_FROM else BudgetLevel.full


async def load_state(stores: Stores, settings: AgentSettings) -> BudgetState:
    """Load the spend of today; a record of another day counts as no spend."""
    seen = await stores.run(patterns.agent_config(SPEND))
    return _parse_state(seen, settings, get_now(stores.clock))


async def spend(stores: Stores, usd: Decimal) -> BudgetState:
    """Add a price to the day's spend, with the event if it reaches the ceiling. Return the new state.

    Retry up to 100 times if another process changed the record, then raise Conflict.
    """
    settings = await agent_settings.load(stores)
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return await _try_spend(stores, settings, usd)
        except Conflict:
            continue
    return await _try_spend(stores, settings, usd)


def choose_writer(level: BudgetLevel, type: str, claude: Writer, rules: Writer) -> Writer:
    """Return the Claude writer if the level allows it for this artefact type, else the rules writer."""
    if level is BudgetLevel.full or (level is BudgetLevel.reduced and type == ESSENTIAL_TYPE):
        return claude
    return rules


def build_ceiling_event(stores: Stores, before: BudgetState, after: BudgetState) -> tuple[Put[Event], ...]:
    """Build the event of a reached ceiling, for the same transaction; nothing if the day already has one."""
    if before.is_recorded or after.level is not BudgetLevel.rules:
        return ()
    summary = (
        f"The budget of {after.date} is spent: {after.spent} of {after.ceiling} USD; "
        "rules write until tomorrow"
    )
    detail = {"date": after.date, "usd": after.spent, "ceiling_usd": after.ceiling, "calls": after.calls}
    return build_event_writes(
        stores, None, EventType.budget_reached, summary, detail, severity=Severity.warning
    )


async def _try_spend(stores: Stores, settings: AgentSettings, usd: Decimal) -> BudgetState:
    """Add the price once. Raise Conflict if another process changed the record since it was read."""
    now = get_now(stores.clock)
    seen = await stores.run(patterns.agent_config(SPEND))
    before = _parse_state(seen, settings, now)
    after = replace(before, spent=before.spent + usd, calls=before.calls + 1)
    event = build_ceiling_event(stores, before, after)
    after = replace(after, is_recorded=before.is_recorded or bool(event))
    write = patterns.put_record(AgentConfig(key=SPEND, value=_to_value(after), updated_at=now), seen)
    # A transaction costs twice a write, and is needed once a day.
    if event:
        await stores.transact(write, *event)
    else:
        await stores.run(write)
    return after


def _parse_state(seen: AgentConfig | None, settings: AgentSettings, now: datetime) -> BudgetState:
    """Return today's state from the stored record, in the time zone of the working hours."""
    today = now.astimezone(get_zone(settings.working_hours.timezone)).date().isoformat()
    ceiling = settings.budget_ceiling_daily_usd
    value: Mapping[str, Any] = seen.value if seen is not None and isinstance(seen.value, dict) else {}
    if value.get("date") != today:
        return BudgetState(today, Decimal(0), 0, ceiling)
    return BudgetState(
        today,
        Decimal(value.get("usd", 0)),
        int(value.get("calls", 0)),
        ceiling,
        bool(value.get("told", False)),
    )


def _to_value(bill: BudgetState) -> dict[str, Any]:
    """Return the state as the record stores it."""
    return {"date": bill.date, "usd": bill.spent, "calls": bill.calls, "told": bill.is_recorded}
