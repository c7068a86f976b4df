"""How the agent is: when it last gave a sign of life, what it has spent, who runs the loop, and whether it is dead.

The sign of life is the mark that each cycle of a project leaves with its heartbeat. Time in which the agent rests does
not count: after a night, nobody is dead at eight in the morning.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from agenticpm import budget, configs, patterns
from agenticpm.configs import Configs
from agenticpm.events import moment
from agenticpm.model import Checkpoint, Project
from agenticpm.snapshots import AGENT, LAST_CYCLE
from holdfast import Stores, batch

# So many polling intervals of working hours without a heartbeat are too many.
INTERVALS_MAX: Final = 3


class Liveness(StrEnum):
    alive = "alive"
    dead = "dead"
    resting = "resting"
    idle = "idle"


class LastCycle(BaseModel):
    """When a project was last looked after; `is_late` says that the agent should have come by since."""

    model_config = ConfigDict(frozen=True)

    project_id: str
    name: str
    at: datetime | None
    is_late: bool


class Holder(BaseModel):
    """Who runs the loop at this moment, if anybody."""

    model_config = ConfigDict(frozen=True)

    holder: str
    token: int
    seconds_left: float


class AgentState(BaseModel):
    model_config = ConfigDict(frozen=True)

    liveness: Liveness
    says: str
    heartbeat_at: datetime | None
    heartbeat_age_s: float | None
    polling_interval_minutes: int
    next_opening: datetime
    cycles: list[LastCycle]
    spent_usd: Decimal
    ceiling_usd: Decimal
    budget_level: str
    loop: Holder | None


async def agent_state(stores: Stores) -> AgentState:
    settings, now = await configs.read(stores), moment(stores.clock)
    active = (await stores.all(patterns.projects_in())).items
    cycles = await _cycles(stores, settings, active, now)
    bill = await budget.state(stores, settings)
    beat = max((each.at for each in cycles if each.at is not None), default=None)
    liveness = _liveness(settings, cycles, now)
    return AgentState(
        liveness=liveness,
        says=_said(liveness, beat, settings, now),
        heartbeat_at=beat,
        heartbeat_age_s=None if beat is None else (now - beat).total_seconds(),
        polling_interval_minutes=settings.polling_interval_minutes,
        next_opening=configs.next_opening(settings, now),
        cycles=cycles,
        spent_usd=bill.spent,
        ceiling_usd=bill.ceiling,
        budget_level=str(bill.level),
        loop=await _holder(stores),
    )


async def _cycles(
    stores: Stores, settings: Configs, active: Sequence[Project], now: datetime
) -> list[LastCycle]:
    marks = await stores.run(batch(patterns.checkpoint(each.id, AGENT, LAST_CYCLE) for each in active))
    return [_cycle(settings, project, mark, now) for project, mark in zip(active, marks, strict=True)]


def _cycle(settings: Configs, project: Project, mark: Checkpoint | None, now: datetime) -> LastCycle:
    at = None if mark is None else mark.updated_at
    # One that is new, or was paused for a while, has waited since it became active at the earliest.
    since = project.updated_at if at is None else max(at, project.updated_at)
    most = settings.polling_interval_minutes * INTERVALS_MAX + 1
    is_late = configs.working_minutes(settings, since, now, most) >= most
    return LastCycle(project_id=project.id, name=project.name, at=at, is_late=is_late)


def _liveness(settings: Configs, cycles: Sequence[LastCycle], now: datetime) -> Liveness:
    """Dead is an agent that is late everywhere; where one project alone is late, that one has the trouble."""
    if not configs.is_working_hours(settings, now):
        return Liveness.resting
    if not cycles:
        return Liveness.idle
    return Liveness.dead if all(each.is_late for each in cycles) else Liveness.alive


def _said(liveness: Liveness, beat: datetime | None, settings: Configs, now: datetime) -> str:
    last = "it was never heard of" if beat is None else f"last heard of at {beat:%Y-%m-%d %H:%M} UTC"
    match liveness:
        case Liveness.resting:
            return f"Outside working hours until {configs.next_opening(settings, now):%Y-%m-%d %H:%M} UTC; {last}."
        case Liveness.idle:
            return "No project is active, so there is nothing to look after."
        case Liveness.dead:
            return (
                f"The agent is dead: {last}, more than {INTERVALS_MAX} intervals of {settings.polling_interval_minutes} "
                "minutes ago. Start it (`holdfast run agenticpm`), and look into its log."
            )
    return f"The agent is at work; {last}."


async def _holder(stores: Stores) -> Holder | None:
    found = await stores.run(patterns.LEASE.patterns.read(patterns.LOOP))
    now = stores.clock.now()
    if found is None or found.until <= now:
        return None
    return Holder(holder=found.holder, token=found.token, seconds_left=round(found.until - now, 3))
