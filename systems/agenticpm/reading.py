"""What trackers and mailboxes tell, read from a checkpoint on and committed with what follows from it.

The checkpoint, the snapshot, the events of the signals and what these call for are one transaction: what was committed is
read no more, and what was not is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from agenticpm import actions, artefacts, autonomy, escalations, patterns, snapshots
from agenticpm.asking import asked
from agenticpm.contents import ArtefactType
from agenticpm.events import moment, recorded
from agenticpm.model import Action, Escalation, EscalationStatus, EventType, Severity, Source
from agenticpm.rounds import SIGNALS_PER_COMMIT, Round
from agenticpm.signals import detect, mail_signals
from agenticpm.snapshots import Mark
from agenticpm.thresholds import thresholds_of
from agenticpm.tickets import FieldChange, Plan, Signal, Snapshot, SyncPage, Tracker, applied
from holdfast import Put, Write
from holdfast.errors import PartyFailed

# How much is read before something is committed: more than that is a first sync, and its history is no news.
PAGES_AT_ONCE: Final = 40
ROUNDS_MAX: Final = 25
MAIL_PAGES_MAX: Final = 20
WHOLE_EVERY: Final = timedelta(days=1)
# A snapshot that is pointed to is put anew when it is as old, long before its lifetime ends.
KEPT_ANEW_AFTER: Final = timedelta(days=patterns.SNAPSHOT_DAYS // 2)


# --- the tracker -----------------------------------------------------------------------------------------------


async def read_tracker(on: Round) -> None:
    on.step("tracker")
    tracker = await on.parties.tracker(on.project.source)
    synced = await on.mark(on.project.source, snapshots.LAST_SYNC)
    pointer = await on.mark(on.project.source, snapshots.SNAPSHOT)
    before = await snapshots.last_seen(on.stores, on.project, pointer)
    position = synced.value
    if before is None:
        # Nothing is known, or what was known is lost: everything is read anew.
        before, position = await snapshots.told_before(on.stores, on.project), None
    plan = await tracker.plan(on.project.source_project_key)
    whole = await _whole_due(on)
    # One that always has more to tell keeps no other project waiting: the next cycle goes on from what is committed.
    for _ in range(ROUNDS_MAX):
        is_anew = position is None
        read = await _read(on, tracker, before, position, plan)
        on.cycle.tickets += read.tickets
        committed = _Committed(synced, pointer, before)
        after = await _commit_signals(on, committed, read)
        if is_anew and whole is not None:
            # Not before: what was begun and came to nothing is begun again.
            now = snapshots.text_of(moment(on.stores.clock))
            await on.written(whole.moved(on.stores, now))
            whole = None
        if not read.has_more and whole is None:
            return
        # What has changed is told first, with how it has: who reads all of it anew is told nothing of that.
        before, position = after, read.position if read.has_more else None
        synced = await on.mark(on.project.source, snapshots.LAST_SYNC)
        pointer = await on.mark(on.project.source, snapshots.SNAPSHOT)


async def _whole_due(on: Round) -> Mark | None:
    """Once a day all of Jira is read anew: a search by time never tells what was deleted or moved away."""
    if on.project.source is not Source.jira:
        return None
    last = await on.mark(on.project.source, snapshots.LAST_WHOLE)
    now = moment(on.stores.clock)
    is_due = last.value is None or now - snapshots.moment_of(last.value) >= WHOLE_EVERY
    return last if is_due else None


async def _read(on: Round, tracker: Tracker, before: Snapshot, position: str | None, plan: Plan) -> _Read:
    """As many pages as are taken at once, put together."""
    after, changes, tickets = before, list[FieldChange](), 0
    page = SyncPage(checkpoint=position or "", has_more=True)
    for _ in range(PAGES_AT_ONCE):
        page = await tracker.changes(on.project.source_project_key, position)
        if page.has_more and page.checkpoint == position:
            raise PartyFailed(
                f"{on.project.source} tells that there is more, and nothing of it: its answer makes no sense.",
                may_be_done=False,
            )
        after = applied(after, page, plan, moment(on.stores.clock))
        changes += page.changes
        tickets += len(page.tickets)
        position = page.checkpoint
        if not page.has_more:
            break
    after = after.model_copy(update={"is_partial": page.has_more})
    return _Read(after, tuple(changes), tickets, position or "", page.has_more)


async def _commit_signals(on: Round, committed: _Committed, read: _Read) -> Snapshot:
    """Commits what was read with what follows from it, in as many transactions as that takes."""
    raid = await _raid_log(on)
    before, after = committed.snapshot, read.snapshot
    while True:
        found, signals = detect(
            before,
            after,
            read.changes,
            raid_log=raid,
            now=moment(on.stores.clock),
            thresholds=thresholds_of(on.project.config),
            most=SIGNALS_PER_COMMIT,
            is_whole=not read.has_more,
        )
        is_last = len(signals) < SIGNALS_PER_COMMIT
        # The checkpoint moves with the last: until then a crash reads the changes again, which are the evidence.
        position = read.position if is_last else None
        committed = await _commit(on, committed, found, position, signals)
        on.cycle.signals += signals
        if is_last:
            return found
        after = found


async def _raid_log(on: Round) -> dict[str, Any] | None:
    found = await on.stores.run(patterns.artefact(on.project.id, ArtefactType.raid_log))
    return None if found is None else await artefacts.content_of(on.stores, found)


async def _commit(
    on: Round, committed: _Committed, snapshot: Snapshot, position: str | None, signals: Sequence[Signal]
) -> _Committed:
    """One transaction: the checkpoints, the events, what they call for, and the lease."""
    stands = position is None or committed.synced.value == position
    if not signals and stands and not _differ(committed.snapshot, snapshot):
        return committed
    on.step("snapshot")
    sha256 = await snapshots.keep(on.stores, on.project, snapshot)
    writes: list[Write[Any]] = []
    if position is not None and not stands:
        writes.append(committed.synced.moved(on.stores, position))
    if committed.pointer.value != sha256:
        writes.append(committed.pointer.moved(on.stores, sha256))
    known = await escalations.of_project(on.stores, on.project.id) if signals else []
    for signal in signals:
        writes += _told(on, signal)
        writes += await _called_for(on, snapshot, signal, _Begun(writes, known))
    on.step("commit")
    await on.written(patterns.check_project(on.project), *writes)
    on.step("committed")
    return _Committed(committed.synced.at(position), committed.pointer.at(sha256), snapshot)


def _told(on: Round, signal: Signal) -> Sequence[Write[Any]]:
    return recorded(
        on.stores,
        on.project.id,
        EventType.signal_detected,
        signal.summary,
        autonomy.told(signal),
        severity=Severity(signal.severity),
    )


async def _called_for(on: Round, snapshot: Snapshot, signal: Signal, begun: _Begun) -> Sequence[Write[Any]]:
    """An action where the agent may and is sure, a question where it is not, or nothing."""
    wanted = autonomy.proposed(on.project, signal)
    if isinstance(wanted, autonomy.Proposal):
        party = await on.parties.site(actions.integration_of(wanted.kind, on.project.source))
        precedents = await actions.precedents(
            on.stores, on.project.id, wanted.action_type, begun=begun.actions
        )
        sure = autonomy.confidence_in(on.project, snapshot, wanted, precedents)
        failing = autonomy.failing(sure)
        if not failing:
            hold_s = on.settings.hold_queue_minutes * 60
            return actions.held_proposal(on.stores, on.project.id, wanted, sure, hold_s=hold_s, party=party)
        if begun.questions >= autonomy.QUESTIONS_MAX:
            # Who is asked too much answers nothing. The signal is told, and the artefacts have it.
            return ()
        wanted = autonomy.asked_instead(wanted, sure, failing, party)
    return () if wanted is None else await asked(on, wanted, begun.known)


# --- mail --------------------------------------------------------------------------------------------------------


async def read_mail(on: Round) -> None:
    on.step("mail")
    mailbox = await on.parties.mailbox()
    for _ in range(MAIL_PAGES_MAX):
        token = await on.mark("outlook", snapshots.DELTA_TOKEN)
        pointer = await on.mark(on.project.source, snapshots.SNAPSHOT)
        before = await snapshots.last_seen(on.stores, on.project, pointer)
        if before is None:
            # A mail is about tickets. To keep a snapshot without them would hide that they are to be read anew.
            return
        page = await mailbox.messages(token.value)
        committed = _Committed(token, pointer, before)
        for begin in range(0, max(1, len(page.messages)), SIGNALS_PER_COMMIT):
            some = page.messages[begin : begin + SIGNALS_PER_COMMIT]
            part = page.model_copy(update={"messages": some})
            now = moment(on.stores.clock)
            after, signals = mail_signals(committed.snapshot, part, on.project.source_project_key, now)
            # The token moves with the last part: until then a crash reads the page again, and mentions that were
            # told are known.
            is_last = begin + SIGNALS_PER_COMMIT >= len(page.messages)
            position = page.checkpoint if is_last else token.value
            committed = await _commit(on, committed, after, position, signals)
            on.cycle.signals += signals
        if not page.has_more:
            return


# --- on the way --------------------------------------------------------------------------------------------------


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
