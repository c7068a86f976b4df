"""The loop: goes round every polling interval inside working hours, in one live instance, and loses nothing on the way.

    tick → (lease) → for each active project that is due: cycle
    cycle: tracker → mailbox → artefacts → heartbeat

What follows from something that was read (events, held actions, questions) is committed with the checkpoint that says it
was read, in one transaction, which also checks the lease. So a crash between two steps repeats nothing and skips nothing:
what was committed is read no more, and what was not is read again. `step` is told before each of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from agenticpm import configs, patterns, snapshots
from agenticpm.artefact_rounds import write_artefacts
from agenticpm.committing import OVERTAKEN
from agenticpm.configs import Configs
from agenticpm.events import moment, recorded
from agenticpm.model import Autonomy, EventType, Project, ProjectStatus, Severity
from agenticpm.parties import Parties
from agenticpm.plain_text import many
from agenticpm.reading import read_mail, read_tracker
from agenticpm.rounds import Cycle, Round, Step
from agenticpm.writers import Writers
from holdfast import Stores, Write
from holdfast.errors import HoldfastError, InProgress, LeaseLost, NotFound, error_label
from holdfast.guarantees import HeldLease

log = logging.getLogger(__name__)


def _unnoticed(_: str) -> None:
    return None


@dataclass(frozen=True)
class Turn:
    """A turn of the loop: why nothing was done, or what was."""

    why_not: str | None = None
    cycles: tuple[Cycle, ...] = ()


@dataclass(frozen=True)
class Loop:
    """What the loop works with."""

    stores: Stores
    parties: Parties
    writers: Writers
    step: Step = _unnoticed

    async def tick(self) -> Turn:
        """One turn, if it is time for one and no other instance is at it."""
        settings = await configs.ensured(self.stores)
        now = moment(self.stores.clock)
        if not configs.is_working_hours(settings, now):
            return Turn(
                f"outside working hours; they begin at {configs.next_opening(settings, now).isoformat()}"
            )
        due = [each for each in await self._active() if await self._is_due(each, settings)]
        if not due:
            return Turn("no project is due")
        try:
            async with patterns.LEASE.held(self.stores, patterns.LOOP) as lease:
                # Looked at once more: another instance may have gone round until it gave the lease back.
                still = [each for each in due if await self._is_due(each, settings)]
                done = [await self._one_of_several(each, settings, lease) for each in still]
                cycles = tuple(each for each in done if each is not None)
                return Turn(cycles=cycles) if cycles else Turn("no project is due")
        except InProgress as held:
            return Turn(f"another instance is at work: {held.message}")
        except LeaseLost as lost:
            return Turn(f"another instance has taken over: {lost.message}")

    async def _one_of_several(self, listed: Project, settings: Configs, lease: HeldLease) -> Cycle | None:
        """What goes wrong with one project does not keep the others waiting; losing the lease ends the turn.

        A project is read anew when its turn has come: who pauses it, or lets the agent do less, is heard at once.
        """
        try:
            project = await self.stores.run(patterns.project(listed.id))
            if project is None or project.status is not ProjectStatus.active:
                return None
            return await self.cycle(project, settings, lease)
        except LeaseLost:
            raise
        except Exception as error:
            log.exception("the cycle of %s failed; it will be tried again", listed.id)
            return Cycle(listed.id, errors=[error_label(error)])

    async def cycle(self, project: Project, settings: Configs, lease: HeldLease) -> Cycle:
        """One project. A party that fails is told as an error event, and the rest of the cycle goes on."""
        cycle = Cycle(project.id)
        on = Round(self.stores, self.parties, self.writers, self.step, project, settings, lease, cycle)
        await _guarded(on, "tracker", read_tracker)
        if project.config.get("mail"):
            await _guarded(on, "mail", read_mail)
        if project.autonomy_level is not Autonomy.monitoring:
            await _guarded(on, "artefacts", write_artefacts)
        await _beat(on)
        return cycle

    # --- when -----------------------------------------------------------------------------------------------

    async def _active(self) -> list[Project]:
        return list(await self.stores.all(patterns.projects_in()))

    async def _is_due(self, project: Project, settings: Configs) -> bool:
        last = await snapshots.mark(self.stores, project.id, snapshots.AGENT, snapshots.LAST_CYCLE)
        if last.value is None:
            return True
        interval = timedelta(minutes=settings.polling_interval_minutes)
        passed = moment(self.stores.clock) - snapshots.moment_of(last.value)
        # A clock that was set back leaves a mark in the future: it is no reason to wait for it.
        return passed >= interval or passed < timedelta(0)


# --- parts of a cycle --------------------------------------------------------------------------------------------


async def _beat(on: Round) -> None:
    """The heartbeat, with the checkpoint by which the next cycle is due."""
    on.step("heartbeat")
    last = await on.mark(snapshots.AGENT, snapshots.LAST_CYCLE)
    failing = await on.mark(snapshots.AGENT, snapshots.FAILING)
    failed = ", ".join(on.cycle.errors)
    read = f"{many(on.cycle.tickets, 'ticket')} read, {many(len(on.cycle.signals), 'signal')}"
    beat = recorded(
        on.stores,
        on.project.id,
        EventType.heartbeat,
        f"{on.project.name}: {read}" + (f"; failed: {failed}" if failed else ""),
        {
            "tickets": on.cycle.tickets,
            "signals": len(on.cycle.signals),
            "artefacts": on.cycle.artefacts,
            "errors": len(on.cycle.errors),
            "failed": on.cycle.errors,
            "token": on.lease.token,
        },
        severity=Severity.warning if failed else Severity.info,
    )
    now = snapshots.text_of(moment(on.stores.clock))
    state = failed or snapshots.NOTHING
    noted = [] if (failing.value or snapshots.NOTHING) == state else [failing.moved(on.stores, state)]
    await on.written(last.moved(on.stores, now), *noted, *beat)
    on.step("beaten")


async def _guarded(on: Round, part: str, work: Callable[[Round], Awaitable[None]]) -> None:
    """A failure of an outside party, or of what was made of its answer, ends its part of the cycle and is told as an
    event: the other parts go on."""
    try:
        await work(on)
    except LeaseLost:
        raise
    except OVERTAKEN as error:
        # Somebody wrote what this was decided on: the next cycle decides anew.
        log.info("the %s of %s was overtaken: %s", part, on.cycle.project_id, error)
        on.cycle.errors.append(part)
    except Exception as error:
        is_ours = isinstance(error, HoldfastError | ValueError)
        log.warning("the %s of %s failed: %s", part, on.cycle.project_id, error, exc_info=not is_ours)
        on.cycle.errors.append(part)
        writes: list[Write[Any]] = list(_told_failure(on, part, error))
        if isinstance(error, NotFound):
            # What is not there is so until somebody does something about it: that is told once a day.
            told = f"{moment(on.stores.clock).date().isoformat()} {part}: {error}"
            absent = await on.mark(snapshots.AGENT, snapshots.ABSENT)
            writes = [] if absent.value == told else [absent.moved(on.stores, told), *writes]
        if writes:
            await on.written(*writes)


def _told_failure(on: Round, part: str, error: Exception) -> Sequence[Write[Any]]:
    return recorded(
        on.stores,
        on.cycle.project_id,
        EventType.error,
        f"The {part} failed, and will be tried again: {error}",
        {"part": part, "error": error_label(error)},
        severity=Severity.error,
    )
