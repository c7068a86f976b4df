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
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from agenticpm import actions, artefacts, autonomy, configs, escalations, patterns, snapshots
from agenticpm.configs import Configs
from agenticpm.contents import ArtefactType
from agenticpm.events import moment, recorded
from agenticpm.model import (
    Action,
    Artefact,
    Autonomy,
    Escalation,
    EscalationStatus,
    EventType,
    Project,
    ProjectId,
    ProjectStatus,
    Severity,
    Source,
)
from agenticpm.parties import Parties
from agenticpm.plain_text import many
from agenticpm.rules_writer import facts_of, same_but_for_time
from agenticpm.signals import detect, mail_signals
from agenticpm.snapshots import Mark
from agenticpm.thresholds import thresholds_of
from agenticpm.tickets import FieldChange, Plan, Signal, Snapshot, SyncPage, Tracker, Writing, applied
from agenticpm.writers import Writers
from holdfast import Put, Stores, Write
from holdfast.errors import (
    ConditionFailed,
    HoldfastError,
    InProgress,
    LeaseLost,
    NotFound,
    PartyFailed,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.guarantees import HeldLease

# A signal is two items, what it calls for up to three more; a transaction holds a hundred.
SIGNALS_PER_COMMIT: Final = 15
# How much is read before something is committed: more than that is a first sync, and its history is no news.
PAGES_AT_ONCE: Final = 40
ROUNDS_MAX: Final = 25
MAIL_PAGES_MAX: Final = 20
WHOLE_EVERY: Final = timedelta(days=1)
ASKED_EVERY: Final = timedelta(days=1)
# A snapshot that is pointed to is put anew when it is as old, long before its lifetime ends.
KEPT_ANEW_AFTER: Final = timedelta(days=patterns.SNAPSHOT_DAYS // 2)

Step = Callable[[str], None]
log = logging.getLogger(__name__)


def _unnoticed(_: str) -> None:
    return None


@dataclass
class Cycle:
    """What a cycle of a project did."""

    project_id: ProjectId
    tickets: int = 0
    signals: list[Signal] = field(default_factory=list)
    artefacts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


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
            return Cycle(listed.id, errors=[type(error).__name__])

    async def cycle(self, project: Project, settings: Configs, lease: HeldLease) -> Cycle:
        """One project. A party that fails is told as an error event, and the rest of the cycle goes on."""
        cycle = Cycle(project.id)
        await self._guarded(
            lease, cycle, "tracker", lambda: self._read_tracker(project, settings, lease, cycle)
        )
        if project.config.get("mail"):
            await self._guarded(
                lease, cycle, "mail", lambda: self._read_mail(project, settings, lease, cycle)
            )
        if project.autonomy_level is not Autonomy.monitoring:
            await self._guarded(
                lease, cycle, "artefacts", lambda: self._write_artefacts(project, lease, cycle)
            )
        await self._beat(project, lease, cycle)
        return cycle

    # --- when -----------------------------------------------------------------------------------------------

    async def _active(self) -> list[Project]:
        return list(await self.stores.all(patterns.projects_in()))

    async def _is_due(self, project: Project, settings: Configs) -> bool:
        last = await self._mark(project, snapshots.AGENT, snapshots.LAST_CYCLE)
        if last.value is None:
            return True
        interval = timedelta(minutes=settings.polling_interval_minutes)
        passed = moment(self.stores.clock) - snapshots.moment_of(last.value)
        # A clock that was set back leaves a mark in the future: it is no reason to wait for it.
        return passed >= interval or passed < timedelta(0)

    # --- the tracker ----------------------------------------------------------------------------------------

    async def _read_tracker(
        self, project: Project, settings: Configs, lease: HeldLease, cycle: Cycle
    ) -> None:
        self.step("tracker")
        tracker = await self.parties.tracker(project.source)
        synced = await self._mark(project, project.source, snapshots.LAST_SYNC)
        pointer = await self._mark(project, project.source, snapshots.SNAPSHOT)
        before = await snapshots.last_seen(self.stores, project, pointer)
        position = synced.value
        if before is None:
            # Nothing is known, or what was known is lost: everything is read anew.
            before, position = await snapshots.told_before(self.stores, project), None
        plan = await tracker.plan(project.source_project_key)
        whole = await self._whole_due(project)
        # One that always has more to tell keeps no other project waiting: the next cycle goes on from what is committed.
        for _ in range(ROUNDS_MAX):
            is_anew = position is None
            read = await self._read(tracker, project, before, position, plan)
            cycle.tickets += read.tickets
            committed = _Committed(synced, pointer, before)
            after = await self._commit_signals(project, settings, lease, cycle, committed, read)
            if is_anew and whole is not None:
                # Not before: what was begun and came to nothing is begun again.
                now = snapshots.text_of(moment(self.stores.clock))
                await self._written(lease, whole.moved(self.stores, now))
                whole = None
            if not read.has_more and whole is None:
                return
            # What has changed is told first, with how it has: who reads all of it anew is told nothing of that.
            before, position = after, read.position if read.has_more else None
            synced = await self._mark(project, project.source, snapshots.LAST_SYNC)
            pointer = await self._mark(project, project.source, snapshots.SNAPSHOT)

    async def _whole_due(self, project: Project) -> Mark | None:
        """Once a day all of Jira is read anew: a search by time never tells what was deleted or moved away."""
        if project.source is not Source.jira:
            return None
        last = await self._mark(project, project.source, snapshots.LAST_WHOLE)
        now = moment(self.stores.clock)
        is_due = last.value is None or now - snapshots.moment_of(last.value) >= WHOLE_EVERY
        return last if is_due else None

    async def _read(
        self, tracker: Tracker, project: Project, before: Snapshot, position: str | None, plan: Plan
    ) -> _Read:
        """As many pages as are taken at once, put together."""
        after, changes, tickets = before, list[FieldChange](), 0
        page = SyncPage(checkpoint=position or "", has_more=True)
        for _ in range(PAGES_AT_ONCE):
            page = await tracker.changes(project.source_project_key, position)
            if page.has_more and page.checkpoint == position:
                raise PartyFailed(
                    f"{project.source} tells that there is more, and nothing of it: its answer makes no sense.",
                    may_be_done=False,
                )
            after = applied(after, page, plan, moment(self.stores.clock))
            changes += page.changes
            tickets += len(page.tickets)
            position = page.checkpoint
            if not page.has_more:
                break
        after = after.model_copy(update={"is_partial": page.has_more})
        return _Read(after, tuple(changes), tickets, position or "", page.has_more)

    async def _commit_signals(
        self,
        project: Project,
        settings: Configs,
        lease: HeldLease,
        cycle: Cycle,
        committed: _Committed,
        read: _Read,
    ) -> Snapshot:
        """Commits what was read with what follows from it, in as many transactions as that takes."""
        raid = await self._content(project, ArtefactType.raid_log)
        before, after = committed.snapshot, read.snapshot
        while True:
            found, signals = detect(
                before,
                after,
                read.changes,
                raid_log=raid,
                now=moment(self.stores.clock),
                thresholds=thresholds_of(project.config),
                most=SIGNALS_PER_COMMIT,
                is_whole=not read.has_more,
            )
            is_last = len(signals) < SIGNALS_PER_COMMIT
            # The checkpoint moves with the last: until then a crash reads the changes again, which are the evidence.
            position = read.position if is_last else None
            committed = await self._commit(project, settings, lease, committed, found, position, signals)
            cycle.signals += signals
            if is_last:
                return found
            after = found

    async def _commit(
        self,
        project: Project,
        settings: Configs,
        lease: HeldLease,
        committed: _Committed,
        snapshot: Snapshot,
        position: str | None,
        signals: Sequence[Signal],
    ) -> _Committed:
        """One transaction: the checkpoints, the events, what they call for, and the lease."""
        stands = position is None or committed.synced.value == position
        if not signals and stands and not _differ(committed.snapshot, snapshot):
            return committed
        self.step("snapshot")
        sha256 = await snapshots.keep(self.stores, project, snapshot)
        writes: list[Write[Any]] = []
        if position is not None and not stands:
            writes.append(committed.synced.moved(self.stores, position))
        if committed.pointer.value != sha256:
            writes.append(committed.pointer.moved(self.stores, sha256))
        known = await escalations.of_project(self.stores, project.id) if signals else []
        for signal in signals:
            writes += self._told(project, signal)
            writes += await self._called_for(project, settings, snapshot, signal, _Begun(writes, known))
        self.step("commit")
        await self._written(lease, patterns.check_project(project), *writes)
        self.step("committed")
        return _Committed(committed.synced.at(position), committed.pointer.at(sha256), snapshot)

    def _told(self, project: Project, signal: Signal) -> Sequence[Write[Any]]:
        return recorded(
            self.stores,
            project.id,
            EventType.signal_detected,
            signal.summary,
            autonomy.told(signal),
            severity=Severity(signal.severity),
        )

    async def _called_for(
        self, project: Project, settings: Configs, snapshot: Snapshot, signal: Signal, begun: _Begun
    ) -> Sequence[Write[Any]]:
        """An action where the agent may and is sure, a question where it is not, or nothing."""
        wanted = autonomy.proposed(project, signal)
        if isinstance(wanted, autonomy.Proposal):
            party = await self.parties.site(actions.integration_of(wanted.kind, project.source))
            precedents = await actions.precedents(
                self.stores, project.id, wanted.action_type, begun=begun.actions
            )
            sure = autonomy.confidence_in(project, snapshot, wanted, precedents)
            failing = autonomy.failing(sure)
            if not failing:
                hold_s = settings.hold_queue_minutes * 60
                return actions.held_proposal(
                    self.stores, project.id, wanted, sure, hold_s=hold_s, party=party
                )
            if begun.questions >= autonomy.QUESTIONS_MAX:
                # Who is asked too much answers nothing. The signal is told, and the artefacts have it.
                return ()
            wanted = autonomy.asked_instead(wanted, sure, failing, party)
        return () if wanted is None else await self._asked(project, wanted, begun.known)

    async def _asked(
        self, project: Project, question: autonomy.Question, known: Sequence[Escalation]
    ) -> Sequence[Write[Any]]:
        return await escalations.escalated(
            self.stores,
            project.id,
            title=question.title,
            context=question.context,
            options=question.options,
            recommendation=question.recommendation,
            rationale=question.rationale,
            subject=question.subject,
            expires_at=moment(self.stores.clock) + autonomy.ESCALATION_LIVES,
            known=known,
        )

    async def _ask_again(self, project: Project, lease: HeldLease, standing: Sequence[Signal]) -> None:
        """Once a day: what nobody decided in time and still stands is asked anew."""
        last = await self._mark(project, snapshots.AGENT, snapshots.LAST_ASKED)
        now = moment(self.stores.clock)
        if last.value is not None and now - snapshots.moment_of(last.value) < ASKED_EVERY:
            return
        known = await escalations.of_project(self.stores, project.id)
        newest = {each.subject: each for each in known if each.subject is not None}
        writes: list[Write[Any]] = [last.moved(self.stores, snapshots.text_of(now))]
        for signal in standing:
            question = autonomy.proposed(project, signal)
            asked = newest.get(signal.key)
            lapsed = asked is not None and asked.status is EscalationStatus.expired
            if isinstance(question, autonomy.Question) and lapsed and len(writes) < SIGNALS_PER_COMMIT * 4:
                writes += await self._asked(project, question, known)
        await self._written(lease, patterns.check_project(project), *writes)

    # --- mail -----------------------------------------------------------------------------------------------

    async def _read_mail(self, project: Project, settings: Configs, lease: HeldLease, cycle: Cycle) -> None:
        self.step("mail")
        mailbox = await self.parties.mailbox()
        for _ in range(MAIL_PAGES_MAX):
            token = await self._mark(project, "outlook", snapshots.DELTA_TOKEN)
            pointer = await self._mark(project, project.source, snapshots.SNAPSHOT)
            before = await snapshots.last_seen(self.stores, project, pointer)
            if before is None:
                # A mail is about tickets. To keep a snapshot without them would hide that they are to be read anew.
                return
            page = await mailbox.messages(token.value)
            committed = _Committed(token, pointer, before)
            for begin in range(0, max(1, len(page.messages)), SIGNALS_PER_COMMIT):
                some = page.messages[begin : begin + SIGNALS_PER_COMMIT]
                part = page.model_copy(update={"messages": some})
                now = moment(self.stores.clock)
                after, signals = mail_signals(committed.snapshot, part, project.source_project_key, now)
                # The token moves with the last part: until then a crash reads the page again, and mentions that were
                # told are known.
                is_last = begin + SIGNALS_PER_COMMIT >= len(page.messages)
                position = page.checkpoint if is_last else token.value
                committed = await self._commit(project, settings, lease, committed, after, position, signals)
                cycle.signals += signals
            if not page.has_more:
                return

    # --- artefacts ------------------------------------------------------------------------------------------

    async def _write_artefacts(self, project: Project, lease: HeldLease, cycle: Cycle) -> None:
        """All of them from what is known now, in one transaction, where they differ."""
        self.step("artefacts")
        pointer = await self._mark(project, project.source, snapshots.SNAPSHOT)
        snapshot = await snapshots.last_seen(self.stores, project, pointer)
        if snapshot is None or snapshot.is_partial:
            # Half a project is not what people should be told about.
            return
        seen = {each.type: each for each in await self.stores.all(patterns.artefacts(project.id))}
        standing = self._standing(project, snapshot, await self._content_of(seen.get(ArtefactType.raid_log)))
        decisions = await self._content_of(seen.get(ArtefactType.decision_log))
        writes: list[Write[Any]] = []
        raid: Any = None
        for type in (
            ArtefactType.raid_log,
            ArtefactType.delivery_state,
            ArtefactType.backlog_summary,
            ArtefactType.decision_log,
        ):
            previous = await self._content_of(seen.get(type))
            writing = Writing(
                type=type,
                previous=previous,
                snapshot=snapshot,
                signals=standing,
                raid_log=raid,
                now=moment(self.stores.clock),
            )
            draft = await self.writers.write(writing, project)
            content, facts = dict(draft.content), draft.facts or facts_of(draft.content)
            kept = seen.get(type)
            # What a person has undone or written anew stays, until there is something new to tell.
            is_known = kept is not None and kept.facts == facts
            if previous is not None and (is_known or same_but_for_time(previous, content)):
                raid = previous if type is ArtefactType.raid_log else raid
                continue
            raid = content if type is ArtefactType.raid_log else raid
            beside = {} if raid is None else {ArtefactType.raid_log: raid}
            if type is ArtefactType.raid_log and decisions is not None:
                beside = {ArtefactType.decision_log: decisions}
            why = f"written by {draft.writer}"
            writes += await artefacts.updated(
                self.stores, project.id, type, content, seen=kept, why=why, beside=beside, facts=facts
            )
            cycle.artefacts.append(type)
        if writes:
            log_seen = seen.get(ArtefactType.decision_log)
            if log_seen is not None and ArtefactType.decision_log not in cycle.artefacts:
                writes.append(patterns.check_artefact(log_seen))
            self.step("artefacts commit")
            await self._written(lease, patterns.check_project(project), *writes)
            self.step("artefacts committed")
        await self._ask_again(project, lease, standing)

    def _standing(self, project: Project, snapshot: Snapshot, raid_log: Any) -> tuple[Signal, ...]:
        """Every signal that stands now, told before or not: artefacts follow from what is, and not from what is new."""
        unflagged = snapshot.model_copy(update={"flags": {}})
        _, signals = detect(
            unflagged,
            unflagged,
            (),
            raid_log=raid_log,
            now=moment(self.stores.clock),
            thresholds=thresholds_of(project.config),
            most=len(snapshot.tickets) * 10 + 1000,
        )
        return tuple(signals)

    async def _content(self, project: Project, type: ArtefactType) -> dict[str, Any] | None:
        return await self._content_of(await self.stores.run(patterns.artefact(project.id, type)))

    async def _content_of(self, artefact: Artefact | None) -> dict[str, Any] | None:
        return None if artefact is None else await artefacts.content_of(self.stores, artefact)

    # --- the end of a cycle ---------------------------------------------------------------------------------

    async def _beat(self, project: Project, lease: HeldLease, cycle: Cycle) -> None:
        """The heartbeat, with the checkpoint by which the next cycle is due."""
        self.step("heartbeat")
        last = await self._mark(project, snapshots.AGENT, snapshots.LAST_CYCLE)
        failing = await self._mark(project, snapshots.AGENT, snapshots.FAILING)
        failed = ", ".join(cycle.errors)
        read = f"{many(cycle.tickets, 'ticket')} read, {many(len(cycle.signals), 'signal')}"
        beat = recorded(
            self.stores,
            project.id,
            EventType.heartbeat,
            f"{project.name}: {read}" + (f"; failed: {failed}" if failed else ""),
            {
                "tickets": cycle.tickets,
                "signals": len(cycle.signals),
                "artefacts": cycle.artefacts,
                "errors": len(cycle.errors),
                "failed": cycle.errors,
                "token": lease.token,
            },
            severity=Severity.warning if failed else Severity.info,
        )
        now = snapshots.text_of(moment(self.stores.clock))
        state = failed or snapshots.NOTHING
        noted = [] if (failing.value or snapshots.NOTHING) == state else [failing.moved(self.stores, state)]
        await self._written(lease, last.moved(self.stores, now), *noted, *beat)
        self.step("beaten")

    async def _guarded(
        self, lease: HeldLease, cycle: Cycle, part: str, work: Callable[[], Awaitable[None]]
    ) -> None:
        """A failure of an outside party, or of what was made of its answer, ends its part of the cycle and is told as an
        event: the other parts go on."""
        try:
            await work()
        except LeaseLost:
            raise
        except (ConditionFailed, TransactionCancelled, TransactionConflict) as error:
            # Somebody wrote what this was decided on: the next cycle decides anew.
            log.info("the %s of %s was overtaken: %s", part, cycle.project_id, error)
            cycle.errors.append(part)
        except Exception as error:
            is_ours = isinstance(error, HoldfastError | ValueError)
            log.warning("the %s of %s failed: %s", part, cycle.project_id, error, exc_info=not is_ours)
            cycle.errors.append(part)
            writes: list[Write[Any]] = list(self._told_failure(cycle, part, error))
            if isinstance(error, NotFound):
                # What is not there is so until somebody does something about it: that is told once a day.
                told = f"{moment(self.stores.clock).date().isoformat()} {part}: {error}"
                absent = await snapshots.mark(
                    self.stores, cycle.project_id, snapshots.AGENT, snapshots.ABSENT
                )
                writes = [] if absent.value == told else [absent.moved(self.stores, told), *writes]
            if writes:
                await self._written(lease, *writes)

    def _told_failure(self, cycle: Cycle, part: str, error: Exception) -> Sequence[Write[Any]]:
        return recorded(
            self.stores,
            cycle.project_id,
            EventType.error,
            f"The {part} failed, and will be tried again: {error}",
            {"part": part, "error": type(error).__name__},
            severity=Severity.error,
        )

    async def _written(self, lease: HeldLease, *writes: Write[Any]) -> None:
        """One transaction, while the lease is this instance's. Where it is another's, the turn ends: LeaseLost."""
        try:
            await self.stores.transact(lease.check(), *writes)
        except TransactionCancelled:
            await lease.renew()
            raise

    async def _mark(self, project: Project, integration: str, key: str) -> Mark:
        return await snapshots.mark(self.stores, project.id, integration, key)


@dataclass(frozen=True)
class _Begun:
    """What is on its way in a transaction, beside the project's escalations as they were."""

    writes: Sequence[Write[Any]]
    known: Sequence[Escalation]

    @property
    def actions(self) -> int:
        return self._new(Action)

    @property
    def questions(self) -> int:
        pending = sum(each.status is EscalationStatus.pending for each in self.known)
        return pending + self._new(Escalation)

    def _new(self, kind: type[Action | Escalation]) -> int:
        return sum(isinstance(each, Put) and isinstance(each.entity, kind) for each in self.writes)


@dataclass(frozen=True)
class _Read:
    """What was read from a tracker and is not committed yet."""

    snapshot: Snapshot
    changes: tuple[FieldChange, ...]
    tickets: int
    position: str
    has_more: bool


@dataclass(frozen=True)
class _Committed:
    """What the checkpoints say, and what they point to."""

    synced: Mark
    pointer: Mark
    snapshot: Snapshot


def _differ(before: Snapshot, after: Snapshot) -> bool:
    """Whether there is something new to keep, or what is kept is old and must be put anew."""
    if before.model_copy(update={"synced_at": None}) != after.model_copy(update={"synced_at": None}):
        return True
    if before.synced_at is None or after.synced_at is None:
        return before.synced_at is not after.synced_at
    return after.synced_at - before.synced_at > KEPT_ANEW_AFTER
