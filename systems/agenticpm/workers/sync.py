"""Sync of trackers and mailboxes: read from a checkpoint, detect signals, commit them with the new one.

The checkpoint, the snapshot, the signal events and the actions or escalations that follow are one
transaction: committed input is not read again, and uncommitted input is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from agenticpm.domain import autonomy
from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.signals import detect, detect_mail_signals
from agenticpm.domain.thresholds import parse_thresholds
from agenticpm.domain.tickets import FieldChange, Plan, Signal, Snapshot, SyncPage, Tracker, apply_page
from agenticpm.model import artefacts, patterns, snapshots
from agenticpm.model.entities import Action, Escalation, EscalationStatus, EventType, Severity, Source
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.snapshots import SeenCheckpoint
from agenticpm.workers import actions, escalations
from agenticpm.workers.cycle import SIGNALS_PER_COMMIT, CycleContext
from agenticpm.workers.questions import build_question
from holdfast import Put, Write
from holdfast.core.errors import ExternalServiceFailed

# Pages read before a commit: more than that is a first sync, whose history is not news.
PAGES_AT_ONCE: Final = 40
MAX_ROUNDS: Final = 25
MAX_MAIL_PAGES: Final = 20
FULL_SYNC_INTERVAL: Final = timedelta(days=1)
# A snapshot in use is rewritten at this age, long before it expires.
REWRITE_AFTER: Final = timedelta(days=patterns.SNAPSHOT_DAYS // 2)


# --- the tracker --------------------------------------------------------------------------------------------


async def sync_tracker(context: CycleContext) -> None:
    """Read the tracker from its checkpoint and commit the signals; daily, read Jira in full as well.

    Without a readable snapshot, everything is read again.
    """
    context.on_step("tracker")
    tracker = await context.clients.get_tracker(context.project.source)
    synced = await context.read_checkpoint(context.project.source, snapshots.LAST_SYNC)
    pointer = await context.read_checkpoint(context.project.source, snapshots.SNAPSHOT)
    before = await snapshots.load_snapshot(context.stores, context.project, pointer)
    position = synced.value
    if before is None:
        # There is no readable snapshot: read everything again.
        before, position = await snapshots.rebuild_from_events(context.stores, context.project), None
    plan = await tracker.fetch_plan(context.project.source_project_key)
    whole = await _get_due_full_sync(context)
    # The limit keeps an endless tracker from delaying other projects: the next cycle resumes from the
    # checkpoint.
    for _ in range(MAX_ROUNDS):
        is_full_read = position is None
        read = await _read_pages(context, tracker, before, position, plan)
        context.report.tickets += read.tickets
        committed = _CommittedState(synced, pointer, before)
        after = await _commit_signals(context, committed, read)
        if is_full_read and whole is not None:
            # Only after the commit: an interrupted full sync starts again.
            now = snapshots.format_time(get_now(context.stores.clock))
            await context.commit(whole.build_write(context.stores, now))
            whole = None
        if not read.has_more and whole is None:
            return
        # Read the changes before a full sync: a full sync has no field changes.
        before, position = after, read.position if read.has_more else None
        synced = await context.read_checkpoint(context.project.source, snapshots.LAST_SYNC)
        pointer = await context.read_checkpoint(context.project.source, snapshots.SNAPSHOT)


async def _get_due_full_sync(context: CycleContext) -> SeenCheckpoint | None:
    """Return the checkpoint of the daily full sync if it is due, else None. Only Jira needs one.

    Jira's search by time misses deleted and moved tickets.
    """
    if context.project.source is not Source.jira:
        return None
    last = await context.read_checkpoint(context.project.source, snapshots.LAST_WHOLE)
    return last if last.has_passed(FULL_SYNC_INTERVAL, get_now(context.stores.clock)) else None


async def _read_pages(
    context: CycleContext, tracker: Tracker, before: Snapshot, position: str | None, plan: Plan
) -> _TrackerChanges:
    """Read up to `PAGES_AT_ONCE` pages and merge them into the snapshot. Nothing is stored."""
    after, changes, tickets = before, list[FieldChange](), 0
    page = SyncPage(checkpoint=position or "", has_more=True)
    for _ in range(PAGES_AT_ONCE):
        page = await tracker.fetch_changes(context.project.source_project_key, position)
        if page.has_more and page.checkpoint == position:
            raise ExternalServiceFailed(
                f"Invalid response of {context.project.source}: it reports more pages but the checkpoint did "
                "not change.",
                may_be_done=False,
            )
        after = apply_page(after, page, plan, get_now(context.stores.clock))
        changes += page.changes
        tickets += len(page.tickets)
        position = page.checkpoint
        if not page.has_more:
            break
    after = after.model_copy(update={"is_partial": page.has_more})
    return _TrackerChanges(after, tuple(changes), tickets, position or "", page.has_more)


async def _commit_signals(
    context: CycleContext, committed: _CommittedState, read: _TrackerChanges
) -> Snapshot:
    """Commit the changes and what follows from them, in as many transactions as needed.

    Return the snapshot.
    """
    raid = await _load_raid_log(context)
    before, after = committed.snapshot, read.snapshot
    while True:
        found, signals = detect(
            before,
            after,
            read.changes,
            raid_log=raid,
            now=get_now(context.stores.clock),
            thresholds=parse_thresholds(context.project.config),
            limit=SIGNALS_PER_COMMIT,
            is_complete=not read.has_more,
            dismissed=frozenset((context.project.config or {}).get("dismissed_signals", ())),
        )
        is_last = len(signals) < SIGNALS_PER_COMMIT
        # Only the last commit moves the checkpoint: after a crash the changes, which are the evidence, are
        # read again.
        position = read.position if is_last else None
        committed = await _commit_snapshot(context, committed, found, position, signals)
        context.report.signals += signals
        if is_last:
            return found
        after = found


async def _load_raid_log(context: CycleContext) -> dict[str, Any] | None:
    """Return the content of the RAID log, or None."""
    found = await context.stores.run(patterns.artefact(context.project.id, ArtefactType.raid_log))
    return None if found is None else await artefacts.load_content(context.stores, found)


async def _commit_snapshot(
    context: CycleContext,
    committed: _CommittedState,
    snapshot: Snapshot,
    position: str | None,
    signals: Sequence[Signal],
) -> _CommittedState:
    """Store the snapshot and commit one transaction, and return the new committed state.

    The transaction has the checkpoints, the events, the actions and escalations, and the check of the lease.
    If nothing changed, write nothing. `position` is the new read position, None to keep the old one.
    """
    is_unmoved = position is None or committed.synced.value == position
    if not signals and is_unmoved and not _needs_write(committed.snapshot, snapshot):
        return committed
    context.on_step("snapshot")
    sha256 = await snapshots.store_snapshot(context.stores, context.project, snapshot)
    writes: list[Write[Any]] = []
    if position is not None and not is_unmoved:
        writes.append(committed.synced.build_write(context.stores, position))
    if committed.pointer.value != sha256:
        writes.append(committed.pointer.build_write(context.stores, sha256))
    known = await escalations.list_of_project(context.stores, context.project.id) if signals else []
    for signal in signals:
        writes += _build_signal_event(context, signal)
        writes += await _build_response(context, snapshot, signal, _PendingWrites(writes, known))
    context.on_step("commit")
    await context.commit(patterns.check_project(context.project), *writes)
    context.on_step("committed")
    return _CommittedState(
        committed.synced.with_value(position), committed.pointer.with_value(sha256), snapshot
    )


def _build_signal_event(context: CycleContext, signal: Signal) -> Sequence[Write[Any]]:
    return build_event_writes(
        context.stores,
        context.project.id,
        EventType.signal_detected,
        signal.summary,
        autonomy.build_signal_detail(signal),
        severity=Severity(signal.severity),
    )


async def _build_response(
    context: CycleContext, snapshot: Snapshot, signal: Signal, pending: _PendingWrites
) -> Sequence[Write[Any]]:
    """Build the writes that respond to a signal: a held action, a question, or nothing.

    It is an action if the agent is allowed and confident, else a question. `pending` are the writes so far.
    """
    wanted = autonomy.propose(context.project, signal)
    if isinstance(wanted, autonomy.Proposal):
        site = await context.clients.get_site(actions.get_integration(wanted.kind, context.project.source))
        precedents = await actions.count_precedents(
            context.stores, context.project.id, wanted.action_type, pending=pending.actions
        )
        sure = autonomy.compute_confidence(context.project, snapshot, wanted, precedents)
        failing = autonomy.find_failing_scores(sure)
        if not failing:
            hold_s = context.settings.hold_queue_minutes * 60
            return actions.build_proposal_hold(
                context.stores, context.project.id, wanted, sure, hold_s=hold_s, site=site
            )
        if pending.questions >= autonomy.MAX_QUESTIONS:
            # Too many questions get no answers. The event and the artefacts still report the signal.
            return ()
        wanted = autonomy.build_permission_question(wanted, sure, failing, site)
    return () if wanted is None else await build_question(context, wanted, pending.known_escalations)


# --- mail ---------------------------------------------------------------------------------------------------


async def sync_mail(context: CycleContext) -> None:
    """Read the mailbox from its checkpoint and commit the signals, up to `MAX_MAIL_PAGES` pages.

    Do nothing without a readable snapshot, because mails refer to tickets.
    """
    context.on_step("mail")
    mailbox = await context.clients.get_mailbox()
    for _ in range(MAX_MAIL_PAGES):
        token = await context.read_checkpoint("outlook", snapshots.DELTA_TOKEN)
        pointer = await context.read_checkpoint(context.project.source, snapshots.SNAPSHOT)
        before = await snapshots.load_snapshot(context.stores, context.project, pointer)
        if before is None:
            # Mails refer to tickets. A snapshot without tickets would hide that they must be read again.
            return
        page = await mailbox.fetch_messages(token.value)
        committed = _CommittedState(token, pointer, before)
        for begin in range(0, max(1, len(page.messages)), SIGNALS_PER_COMMIT):
            some = page.messages[begin : begin + SIGNALS_PER_COMMIT]
            part = page.model_copy(update={"messages": some})
            now = get_now(context.stores.clock)
            after, signals = detect_mail_signals(
                committed.snapshot, part, context.project.source_project_key, now
            )
            # Only the last part moves the token: after a crash the page is read again, and the snapshot knows
            # the reported mentions.
            is_last = begin + SIGNALS_PER_COMMIT >= len(page.messages)
            position = page.checkpoint if is_last else token.value
            committed = await _commit_snapshot(context, committed, after, position, signals)
            context.report.signals += signals
        if not page.has_more:
            return


# --- intermediate values ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PendingWrites:
    """The writes of an uncommitted transaction, and the project's escalations before it."""

    writes: Sequence[Write[Any]]
    known_escalations: Sequence[Escalation]

    @property
    def actions(self) -> int:
        """The number of new actions in the transaction."""
        return self._count(Action)

    @property
    def questions(self) -> int:
        """The number of pending escalations, with those in the transaction."""
        pending = sum(each.status is EscalationStatus.pending for each in self.known_escalations)
        return pending + self._count(Escalation)

    def _count(self, kind: type[Action | Escalation]) -> int:
        return sum(isinstance(each, Put) and isinstance(each.entity, kind) for each in self.writes)


@dataclass(frozen=True)
class _TrackerChanges:
    """Changes read from a tracker and not committed yet: the merged snapshot and the next read position."""

    snapshot: Snapshot
    changes: tuple[FieldChange, ...]
    tickets: int
    position: str
    has_more: bool


@dataclass(frozen=True)
class _CommittedState:
    """The committed checkpoints, and the snapshot they point to."""

    synced: SeenCheckpoint
    pointer: SeenCheckpoint
    snapshot: Snapshot


def _needs_write(before: Snapshot, after: Snapshot) -> bool:
    """Return whether the snapshot changed, or the stored one is old and must be rewritten."""
    if before.model_copy(update={"synced_at": None}) != after.model_copy(update={"synced_at": None}):
        return True
    if before.synced_at is None or after.synced_at is None:
        return before.synced_at is not after.synced_at
    return after.synced_at - before.synced_at > REWRITE_AFTER
