"""What the day has cost, against its ceiling, and who may write while how much of it is left.

    full       below 80 %: the model writes whatever has prose
    reduced    from 80 %: the model writes the delivery state alone, the rest is by rules
    rules      from 100 %, until the day is over

A day is that of the wall clock in the zone of the working hours: it ends when those who pay for it have gone home. The
spend is counted after a draft has come, so the ceiling is passed by one draft at most. It is one item (`CONFIG#spend`),
written over what was seen: of several who pay at the same time, each is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from agenticpm import configs, patterns
from agenticpm.configs import SPEND, Configs, zone_of
from agenticpm.contents import ArtefactType
from agenticpm.events import moment, recorded
from agenticpm.model import AgentConfig, Event, EventType, Severity
from agenticpm.tickets import Writer
from holdfast import Put, Stores
from holdfast.errors import Conflict

REDUCED_FROM: Final = Decimal("0.8")
# What the model still writes when little is left: what people read first.
FIRST: Final = ArtefactType.delivery_state
# Each attempt that is refused means that another's was taken.
ATTEMPTS: Final = 100


class Level(StrEnum):
    full = "full"
    reduced = "reduced"
    rules = "rules"


@dataclass(frozen=True)
class BudgetState:
    """A day's bill. `told` says that its event was recorded: a ceiling that is raised and reached again tells no second."""

    date: str
    spent: Decimal
    calls: int
    ceiling: Decimal
    told: bool = False

    @property
    def level(self) -> Level:
        if self.spent >= self.ceiling:
            return Level.rules
        return Level.reduced if self.spent >= self.ceiling * REDUCED_FROM else Level.full


async def state(stores: Stores, settings: Configs) -> BudgetState:
    seen = await stores.run(patterns.agent_config(SPEND))
    return _state(seen, settings, moment(stores.clock))


async def spend(stores: Stores, usd: Decimal) -> BudgetState:
    """Puts a price on the day's bill, with the event where that reaches the ceiling. Gives the bill after it."""
    settings = await configs.read(stores)
    for _ in range(ATTEMPTS - 1):
        try:
            return await _spend(stores, settings, usd)
        except Conflict:
            continue
    return await _spend(stores, settings, usd)


def chosen_writer(level: Level, type: str, claude: Writer, rules: Writer) -> Writer:
    if level is Level.full or (level is Level.reduced and type == FIRST):
        return claude
    return rules


def reached(stores: Stores, before: BudgetState, after: BudgetState) -> tuple[Put[Event], ...]:
    """The event of a ceiling that is reached, for the transaction that reaches it: once a day."""
    if before.told or after.level is not Level.rules:
        return ()
    summary = f"The budget of {after.date} is spent: {after.spent} of {after.ceiling} USD; rules write until tomorrow"
    detail = {"date": after.date, "usd": after.spent, "ceiling_usd": after.ceiling, "calls": after.calls}
    return recorded(stores, None, EventType.budget_reached, summary, detail, severity=Severity.warning)


async def _spend(stores: Stores, settings: Configs, usd: Decimal) -> BudgetState:
    now = moment(stores.clock)
    seen = await stores.run(patterns.agent_config(SPEND))
    before = _state(seen, settings, now)
    after = replace(before, spent=before.spent + usd, calls=before.calls + 1)
    event = reached(stores, before, after)
    after = replace(after, told=before.told or bool(event))
    kept = patterns.put_record(AgentConfig(key=SPEND, value=_kept(after), updated_at=now), seen)
    # A transaction costs twice a write, and is needed once a day.
    if event:
        await stores.transact(kept, *event)
    else:
        await stores.run(kept)
    return after


def _state(seen: AgentConfig | None, settings: Configs, now: datetime) -> BudgetState:
    today = now.astimezone(zone_of(settings.working_hours.timezone)).date().isoformat()
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


def _kept(bill: BudgetState) -> dict[str, Any]:
    return {"date": bill.date, "usd": bill.spent, "calls": bill.calls, "told": bill.told}
