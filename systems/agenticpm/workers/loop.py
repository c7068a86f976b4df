"""The loop: run a cycle for each due project, within working hours and under a lease.

A project is due every polling interval. The lease ensures that one instance at a time runs cycles.

    tick → (lease) → for each active project that is due: run_cycle
    run_cycle: tracker → mailbox → artefacts → heartbeat

The results of reading (events, held actions, escalations) are committed with the checkpoint of the read
position in one transaction, which also checks the lease. So a crash between two steps repeats nothing and
skips nothing: committed input is not read again, and uncommitted input is. `on_step` is called before each
step.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from agenticpm.domain.plain_text import format_count
from agenticpm.integrations.clients import IntegrationClients
from agenticpm.model import agent_settings, patterns, snapshots
from agenticpm.model.agent_settings import AgentSettings
from agenticpm.model.entities import AgentLease, Autonomy, EventType, Project, ProjectStatus, Severity
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.transactions import CONFLICTS
from agenticpm.workers.artefact_writer import write_artefacts
from agenticpm.workers.cycle import CycleContext, CycleReport, StepHook
from agenticpm.workers.sync import sync_mail, sync_tracker
from agenticpm.workers.writers import Writers
from holdfast import Stores, Write
from holdfast.core.errors import HoldfastError, InProgress, LeaseLost, NotFound, error_label
from holdfast.guarantees import HeldLease

log = logging.getLogger(__name__)


def _ignore_step(_: str) -> None:
    return None


@dataclass(frozen=True)
class TickResult:
    """The result of one tick: why nothing was done (`skip_reason`), or the cycles that ran."""

    skip_reason: str | None = None
    cycles: tuple[CycleReport, ...] = ()


@dataclass(frozen=True)
class Loop:
    """The loop over all projects, with its dependencies."""

    stores: Stores
    clients: IntegrationClients
    writers: Writers
    on_step: StepHook = _ignore_step

    async def tick(self) -> TickResult:
        """Run the due cycles, unless it is outside working hours or another instance holds the lease.

        Absent settings are seeded first.
        """
        settings = await agent_settings.load_or_seed(self.stores)
        now = get_now(self.stores.clock)
        if not agent_settings.is_working_hours(settings, now):
            return TickResult(
                "outside working hours; the next start is "
                f"{agent_settings.find_next_opening(settings, now).isoformat()}"
            )
        due = [each for each in await self._load_active() if await self._is_due(each, settings)]
        if not due:
            return TickResult("no project is due")
        try:
            async with patterns.LEASE.hold(self.stores, patterns.LOOP) as lease:
                # Check again: another instance may have run the cycles before it released the lease.
                still = [each for each in due if await self._is_due(each, settings)]
                done = [await self._run_cycle_safely(each, settings, lease) for each in still]
                cycles = tuple(each for each in done if each is not None)
                return TickResult(cycles=cycles) if cycles else TickResult("no project is due")
        except InProgress as held:
            return TickResult(f"another instance runs the loop: {held.message}")
        except LeaseLost as lost:
            return TickResult(f"another instance took over: {lost.message}")

    async def _run_cycle_safely(
        self, listed: Project, settings: AgentSettings, lease: HeldLease[AgentLease]
    ) -> CycleReport | None:
        """Run the cycle of one project; None if the project is no longer active.

        An error does not affect the other projects; a lost lease ends the tick. The project is read again
        before its cycle, so a pause or a lower autonomy level takes effect at once.
        """
        try:
            project = await self.stores.run(patterns.project(listed.id))
            if project is None or project.status is not ProjectStatus.active:
                return None
            return await self.run_cycle(project, settings, lease)
        except LeaseLost:
            raise
        except Exception as error:
            log.exception("The cycle of %s failed and will be retried", listed.id)
            return CycleReport(listed.id, errors=[error_label(error)])

    async def run_cycle(
        self, project: Project, settings: AgentSettings, lease: HeldLease[AgentLease]
    ) -> CycleReport:
        """Run the cycle of one project: tracker, mail, artefacts, heartbeat.

        A failing part is recorded as an error event, and the cycle continues.
        """
        cycle = CycleReport(project.id)
        on = CycleContext(
            self.stores, self.clients, self.writers, self.on_step, project, settings, lease, cycle
        )
        await _run_part(on, "tracker", sync_tracker)
        if project.config.get("mail"):
            await _run_part(on, "mail", sync_mail)
        if project.autonomy_level is not Autonomy.monitoring:
            await _run_part(on, "artefacts", write_artefacts)
        await _record_heartbeat(on)
        return cycle

    # --- schedule -------------------------------------------------------------------------------------------

    async def _load_active(self) -> list[Project]:
        """Load all active projects."""
        return list(await self.stores.all(patterns.projects_in()))

    async def _is_due(self, project: Project, settings: AgentSettings) -> bool:
        """Return whether the polling interval has passed since the project's last cycle."""
        last = await snapshots.read_checkpoint(self.stores, project.id, snapshots.AGENT, snapshots.LAST_CYCLE)
        interval = timedelta(minutes=settings.polling_interval_minutes)
        return last.has_passed(interval, get_now(self.stores.clock))


# --- parts of a cycle ---------------------------------------------------------------------------------------


async def _record_heartbeat(context: CycleContext) -> None:
    """Record the heartbeat event, the failed parts, and the time of this cycle.

    The next cycle is due one polling interval after that time.
    """
    context.on_step("heartbeat")
    last = await context.read_checkpoint(snapshots.AGENT, snapshots.LAST_CYCLE)
    failing = await context.read_checkpoint(snapshots.AGENT, snapshots.FAILING)
    failed = ", ".join(context.report.errors)
    read = (
        f"{format_count(context.report.tickets, 'ticket')} read, "
        f"{format_count(len(context.report.signals), 'signal')}"
    )
    beat = build_event_writes(
        context.stores,
        context.project.id,
        EventType.heartbeat,
        f"{context.project.name}: {read}" + (f"; failed: {failed}" if failed else ""),
        {
            "tickets": context.report.tickets,
            "signals": len(context.report.signals),
            "artefacts": context.report.artefacts,
            "errors": len(context.report.errors),
            "failed": context.report.errors,
            "token": context.lease.token,
        },
        severity=Severity.warning if failed else Severity.info,
    )
    now = snapshots.format_time(get_now(context.stores.clock))
    state = failed or snapshots.NOTHING
    noted = (
        [] if (failing.value or snapshots.NOTHING) == state else [failing.build_write(context.stores, state)]
    )
    await context.commit(last.build_write(context.stores, now), *noted, *beat)
    context.on_step("beaten")


async def _run_part(
    context: CycleContext, part: str, work: Callable[[CycleContext], Awaitable[None]]
) -> None:
    """Run one part of the cycle; on a failure, record its name in the report and an event.

    A conflict records no event, a missing configuration one a day. A lost lease is raised.
    """
    try:
        await work(context)
    except LeaseLost:
        raise
    except CONFLICTS as error:
        # Another writer changed the input: the next cycle decides again.
        log.info("The %s part of %s met a conflict: %s", part, context.report.project_id, error)
        context.report.errors.append(part)
    except Exception as error:
        is_ours = isinstance(error, HoldfastError | ValueError)
        log.warning(
            "The %s part of %s failed: %s", part, context.report.project_id, error, exc_info=not is_ours
        )
        context.report.errors.append(part)
        writes: list[Write[Any]] = list(_build_failure_event(context, part, error))
        if isinstance(error, NotFound):
            # A missing configuration stays until an operator fixes it: report it once a day.
            report = f"{get_now(context.stores.clock).date().isoformat()} {part}: {error}"
            absent = await context.read_checkpoint(snapshots.AGENT, snapshots.ABSENT)
            writes = [] if absent.value == report else [absent.build_write(context.stores, report), *writes]
        if writes:
            await context.commit(*writes)


def _build_failure_event(context: CycleContext, part: str, error: Exception) -> Sequence[Write[Any]]:
    return build_event_writes(
        context.stores,
        context.report.project_id,
        EventType.error,
        f"The {part} part failed and will be retried: {error}",
        {"part": part, "error": error_label(error)},
        severity=Severity.error,
    )
