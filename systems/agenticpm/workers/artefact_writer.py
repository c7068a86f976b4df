"""Artefact writing: in each cycle, draft all artefacts from the current facts and store those that changed.

Artefacts follow from the current state, not from what is new: a crash before the commit loses nothing,
because the next cycle writes the same. An edit by a person stays until the artefact's facts change.
"""

from __future__ import annotations

from typing import Any

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.signals import detect
from agenticpm.domain.thresholds import parse_thresholds
from agenticpm.domain.tickets import Signal, Snapshot, Writing
from agenticpm.domain.writers.rules import compute_facts_hash, is_same_except_times
from agenticpm.model import artefacts, patterns, snapshots
from agenticpm.model.entities import Artefact
from agenticpm.model.events import get_now
from agenticpm.workers.cycle import CycleContext
from agenticpm.workers.questions import repeat_expired_questions
from holdfast import Write


async def write_artefacts(context: CycleContext) -> None:
    """Draft all artefacts, store the changed ones in one transaction, and repeat expired questions.

    Do nothing without a complete snapshot.
    """
    context.on_step("artefacts")
    pointer = await context.read_checkpoint(context.project.source, snapshots.SNAPSHOT)
    snapshot = await snapshots.load_snapshot(context.stores, context.project, pointer)
    if snapshot is None or snapshot.is_partial:
        # A partial snapshot would produce wrong reports.
        return
    seen = {each.type: each for each in await context.stores.all(patterns.artefacts(context.project.id))}
    current_signals = _detect_current_signals(
        context, snapshot, await _load_content(context, seen.get(ArtefactType.raid_log))
    )
    decisions = await _load_content(context, seen.get(ArtefactType.decision_log))
    writes: list[Write[Any]] = []
    raid: Any = None
    for type in (
        ArtefactType.raid_log,
        ArtefactType.delivery_state,
        ArtefactType.backlog_summary,
        ArtefactType.decision_log,
    ):
        previous = await _load_content(context, seen.get(type))
        writing = Writing(
            type=type,
            previous=previous,
            snapshot=snapshot,
            signals=current_signals,
            raid_log=raid,
            now=get_now(context.stores.clock),
        )
        draft = await context.writers.write(writing, context.project)
        content, facts = dict(draft.content), draft.facts or compute_facts_hash(draft.content)
        current = seen.get(type)
        # A person's undo or edit stays until the facts change.
        is_known = current is not None and current.facts == facts
        if previous is not None and (is_known or is_same_except_times(previous, content)):
            raid = previous if type is ArtefactType.raid_log else raid
            continue
        raid = content if type is ArtefactType.raid_log else raid
        related = {} if raid is None else {ArtefactType.raid_log: raid}
        if type is ArtefactType.raid_log and decisions is not None:
            related = {ArtefactType.decision_log: decisions}
        why = f"written by {draft.writer}"
        writes += await artefacts.build_update(
            context.stores,
            context.project.id,
            type,
            content,
            seen=current,
            reason=why,
            related=related,
            facts=facts,
        )
        context.report.artefacts.append(type)
    if writes:
        log_seen = seen.get(ArtefactType.decision_log)
        if log_seen is not None and ArtefactType.decision_log not in context.report.artefacts:
            writes.append(patterns.check_artefact(log_seen))
        context.on_step("artefacts commit")
        await context.commit(patterns.check_project(context.project), *writes)
        context.on_step("artefacts committed")
    await repeat_expired_questions(context, current_signals)


def _detect_current_signals(context: CycleContext, snapshot: Snapshot, raid_log: Any) -> tuple[Signal, ...]:
    """Detect every signal that holds now, reported before or not."""
    unflagged = snapshot.model_copy(update={"flags": {}})
    _, signals = detect(
        unflagged,
        unflagged,
        (),
        raid_log=raid_log,
        now=get_now(context.stores.clock),
        thresholds=parse_thresholds(context.project.config),
        limit=len(snapshot.tickets) * 10 + 1000,
    )
    return tuple(signals)


async def _load_content(context: CycleContext, artefact: Artefact | None) -> dict[str, Any] | None:
    """Return the full content of the artefact, or None without one."""
    return None if artefact is None else await artefacts.load_content(context.stores, artefact)
