"""How the agent is: when it last gave a sign of life, what it has spent, who runs the loop, and whether it is dead.

The sign of life is the mark that each cycle of a project leaves with its heartbeat. Time in which the agent rests does
not count: after a night, nobody is dead at eight in the morning. An agent whose newest sign is fresh is alive. Where
there is none, it is dead once a project has waited for too long, and until then it waits for its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from agenticpm import budget, configs, integrations, patterns
from agenticpm.configs import Configs
from agenticpm.events import moment
from agenticpm.model import Checkpoint, Project
from agenticpm.plain_text import many
from agenticpm.snapshots import AGENT, FAILING, LAST_CYCLE, NOTHING
from holdfast import Stores, batch

# So many polling intervals of working hours without a heartbeat are too many.
INTERVALS_MAX: Final = 3


class Liveness(StrEnum):
    alive = "alive"
    waiting = "waiting"
    dead = "dead"
    resting = "resting"
    idle = "idle"


class LastCycle(BaseModel):
    """When a project was last looked after, and what failed then; `is_late`: the agent should have come by since.

    `since` is from when on it waits: its last cycle, or its last change where that is later.
    """

    model_config = ConfigDict(frozen=True)

    project_id: str
    name: str
    at: datetime | None
    since: datetime
    is_late: bool
    failed: str | None = None


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
    # Integrations that a sandbox stands in for, with its address.
    stand_ins: dict[str, str]


async def agent_state(stores: Stores) -> AgentState:
    settings, now = await configs.read(stores), moment(stores.clock)
    active = (await stores.all(patterns.projects_in())).items
    cycles = await _cycles(stores, settings, active, now)
    bill = await budget.state(stores, settings)
    beat = max((each.at for each in cycles if each.at is not None), default=None)
    liveness = _liveness(settings, cycles, beat, now)
    return AgentState(
        liveness=liveness,
        says=_said(liveness, beat, settings, cycles, now),
        heartbeat_at=beat,
        heartbeat_age_s=None if beat is None else (now - beat).total_seconds(),
        polling_interval_minutes=settings.polling_interval_minutes,
        next_opening=configs.next_opening(settings, now),
        cycles=cycles,
        spent_usd=bill.spent,
        ceiling_usd=bill.ceiling,
        budget_level=str(bill.level),
        loop=await _holder(stores),
        stand_ins=await integrations.noted_stand_ins(stores),
    )


async def _cycles(
    stores: Stores, settings: Configs, active: Sequence[Project], now: datetime
) -> list[LastCycle]:
    marks = await stores.run(batch(patterns.checkpoint(each.id, AGENT, LAST_CYCLE) for each in active))
    failed = await stores.run(batch(patterns.checkpoint(each.id, AGENT, FAILING) for each in active))
    return [_cycle(settings, *each, now) for each in zip(active, marks, failed, strict=True)]


def _cycle(
    settings: Configs, project: Project, mark: Checkpoint | None, failed: Checkpoint | None, now: datetime
) -> LastCycle:
    at = None if mark is None else mark.updated_at
    # One that is new, or was paused for a while, has waited since it became active at the earliest.
    since = project.updated_at if at is None else max(at, project.updated_at)
    return LastCycle(
        project_id=project.id,
        name=project.name,
        at=at,
        since=since,
        is_late=_is_late(settings, since, now),
        failed=None if failed is None or failed.checkpoint_value == NOTHING else failed.checkpoint_value,
    )


def _is_late(settings: Configs, since: datetime, now: datetime) -> bool:
    """More than so many intervals of working hours have passed; in whole minutes."""
    most = settings.polling_interval_minutes * INTERVALS_MAX + 1
    return configs.working_minutes(settings, since, now, most) >= most


def _liveness(
    settings: Configs, cycles: Sequence[LastCycle], beat: datetime | None, now: datetime
) -> Liveness:
    """Where one project alone is late, that one has the trouble: the agent lives while it comes by at another."""
    if not configs.is_working_hours(settings, now):
        return Liveness.resting
    if not cycles:
        return Liveness.idle
    if beat is not None and not _is_late(settings, beat, now):
        return Liveness.alive
    return Liveness.dead if any(each.is_late for each in cycles) else Liveness.waiting


def _said(
    liveness: Liveness,
    beat: datetime | None,
    settings: Configs,
    cycles: Sequence[LastCycle],
    now: datetime,
) -> str:
    last = "it was never heard of" if beat is None else f"last heard of at {_at(beat)}"
    match liveness:
        case Liveness.resting:
            return f"Outside working hours until {_at(configs.next_opening(settings, now))}; {last}."
        case Liveness.idle:
            return "No project is active, so there is nothing to look after."
        case Liveness.waiting:
            first = min(each.since for each in cycles)
            turn = "first turn" if beat is None else "next turn"
            return (
                f"The agent waits for its {turn} (since {_at(first)}); {last}. It looks every half minute while "
                "`holdfast up agenticpm` or `holdfast run agenticpm` runs."
            )
        case Liveness.dead:
            return (
                f"The agent is dead: {last}, and a project waits for more than {INTERVALS_MAX} intervals of "
                f"{many(settings.polling_interval_minutes, 'minute')}. Start it (`holdfast run agenticpm`), and look into "
                "its log."
            )
    trouble = [f"{each.failed} of {each.name}" for each in cycles if each.failed is not None]
    failed = (
        f" In the last cycle these failed: {', '.join(trouble)}; `events list` says why." if trouble else ""
    )
    return f"The agent is at work; {last}.{failed}"


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


async def _holder(stores: Stores) -> Holder | None:
    found = await stores.run(patterns.LEASE.patterns.read(patterns.LOOP))
    now = stores.clock.now()
    if found is None or found.until <= now:
        return None
    return Holder(holder=found.holder, token=found.token, seconds_left=round(found.until - now, 3))
