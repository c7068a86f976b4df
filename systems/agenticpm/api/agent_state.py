"""The state of the agent: liveness, heartbeat, last cycles, spend of the day, holder of the loop's lease.

The heartbeat is the checkpoint that each cycle of a project writes. Time outside working hours does not
count, so the agent is not dead at eight in the morning. The agent is alive while its newest heartbeat is
fresh. Without one it is dead once a project has waited for too long, and waiting for its turn until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from agenticpm.domain.plain_text import format_count
from agenticpm.model import agent_settings, budget, integration_settings, patterns
from agenticpm.model.agent_settings import AgentSettings
from agenticpm.model.entities import Checkpoint, Project
from agenticpm.model.events import get_now
from agenticpm.model.snapshots import AGENT, FAILING, LAST_CYCLE, NOTHING
from holdfast import Stores, batch_get

# The agent is dead after this many polling intervals of working hours without a heartbeat.
MAX_INTERVALS: Final = 3


class Liveness(StrEnum):
    """How the agent is doing. `resting`: outside working hours; `idle`: no active project."""

    alive = "alive"
    waiting = "waiting"
    dead = "dead"
    resting = "resting"
    idle = "idle"


class LastCycle(BaseModel):
    """The last cycle of a project, and what failed in it. `is_late`: the next cycle is overdue.

    `since` is when the project began to wait: its last cycle, or its last change if that is later.
    """

    model_config = ConfigDict(frozen=True)

    project_id: str
    name: str
    at: datetime | None
    since: datetime
    is_late: bool
    failed: str | None = None


class Holder(BaseModel):
    """The instance that holds the lease of the loop."""

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
    # Integrations that a sandbox simulates, with its address.
    stand_ins: dict[str, str]


async def load_agent_state(stores: Stores) -> AgentState:
    """Compute the current state from the settings, the checkpoints, the spend and the lease."""
    settings, now = await agent_settings.load(stores), get_now(stores.clock)
    active = (await stores.all(patterns.projects_in())).items
    cycles = await _load_cycles(stores, settings, active, now)
    bill = await budget.load_state(stores, settings)
    beat = max((each.at for each in cycles if each.at is not None), default=None)
    liveness = _compute_liveness(settings, cycles, beat, now)
    return AgentState(
        liveness=liveness,
        says=_describe(liveness, beat, settings, cycles, now),
        heartbeat_at=beat,
        heartbeat_age_s=None if beat is None else (now - beat).total_seconds(),
        polling_interval_minutes=settings.polling_interval_minutes,
        next_opening=agent_settings.find_next_opening(settings, now),
        cycles=cycles,
        spent_usd=bill.spent,
        ceiling_usd=bill.ceiling,
        budget_level=str(bill.level),
        loop=await _load_holder(stores),
        stand_ins=await integration_settings.load_recorded_sandboxes(stores),
    )


async def _load_cycles(
    stores: Stores, settings: AgentSettings, active: Sequence[Project], now: datetime
) -> list[LastCycle]:
    """Load the last cycle of each active project."""
    marks = await stores.run(batch_get(patterns.checkpoint(each.id, AGENT, LAST_CYCLE) for each in active))
    failed = await stores.run(batch_get(patterns.checkpoint(each.id, AGENT, FAILING) for each in active))
    return [_build_cycle(settings, *each, now) for each in zip(active, marks, failed, strict=True)]


def _build_cycle(
    settings: AgentSettings,
    project: Project,
    mark: Checkpoint | None,
    failed: Checkpoint | None,
    now: datetime,
) -> LastCycle:
    """Build a project's last cycle from the checkpoints of the cycle (`mark`) and of the failed parts."""
    at = None if mark is None else mark.updated_at
    # A project that is new, or was paused, waits only since it became active.
    since = project.updated_at if at is None else max(at, project.updated_at)
    return LastCycle(
        project_id=project.id,
        name=project.name,
        at=at,
        since=since,
        is_late=_is_late(settings, since, now),
        failed=None if failed is None or failed.checkpoint_value == NOTHING else failed.checkpoint_value,
    )


def _is_late(settings: AgentSettings, since: datetime, now: datetime) -> bool:
    """Return whether more than the allowed intervals of working hours have passed, in whole minutes."""
    most = settings.polling_interval_minutes * MAX_INTERVALS + 1
    return agent_settings.count_working_minutes(settings, since, now, most) >= most


def _compute_liveness(
    settings: AgentSettings, cycles: Sequence[LastCycle], beat: datetime | None, now: datetime
) -> Liveness:
    """Compute the liveness; `beat` is the newest heartbeat of all projects.

    The agent is alive while any project has a fresh heartbeat: a single late project has a problem of its
    own.
    """
    if not agent_settings.is_working_hours(settings, now):
        return Liveness.resting
    if not cycles:
        return Liveness.idle
    if beat is not None and not _is_late(settings, beat, now):
        return Liveness.alive
    return Liveness.dead if any(each.is_late for each in cycles) else Liveness.waiting


def _describe(
    liveness: Liveness,
    beat: datetime | None,
    settings: AgentSettings,
    cycles: Sequence[LastCycle],
    now: datetime,
) -> str:
    """Describe the state in a sentence for a person."""
    last = "no heartbeat yet" if beat is None else f"last heartbeat at {_format_time(beat)}"
    match liveness:
        case Liveness.resting:
            return (
                "Outside working hours until "
                f"{_format_time(agent_settings.find_next_opening(settings, now))}; {last}."
            )
        case Liveness.idle:
            return "No project is active, so there is nothing to do."
        case Liveness.waiting:
            first = min(each.since for each in cycles)
            turn = "first turn" if beat is None else "next turn"
            return (
                f"The agent waits for its {turn} (since {_format_time(first)}); {last}. It checks every half "
                "minute while `holdfast up agenticpm` or `holdfast run agenticpm` runs."
            )
        case Liveness.dead:
            return (
                f"The agent is dead: {last}, and a project has waited for more than {MAX_INTERVALS} "
                f"intervals of {format_count(settings.polling_interval_minutes, 'minute')}. Start it "
                "(`holdfast run agenticpm`), and read its log."
            )
    trouble = [f"{each.failed} of {each.name}" for each in cycles if each.failed is not None]
    failed = f" Failed in the last cycle: {', '.join(trouble)}; `events list` shows why." if trouble else ""
    return f"The agent is running; {last}.{failed}"


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


async def _load_holder(stores: Stores) -> Holder | None:
    """Return the instance that holds the lease now, or None."""
    found = await stores.run(patterns.LEASE.pattern_set.read(patterns.LOOP))
    now = stores.clock.now()
    if found is None or found.until <= now:
        return None
    return Holder(holder=found.holder, token=found.token, seconds_left=round(found.until - now, 3))
