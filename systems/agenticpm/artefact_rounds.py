"""Artefacts, written anew in each round from what is known, and stored where they tell something new.

They follow from what is, and not from what is new: a crash before them loses nothing, because the next round writes the
same. What a person has made of one stays, until its facts change.
"""

from __future__ import annotations

from typing import Any

from agenticpm import artefacts, patterns, snapshots
from agenticpm.asking import ask_again
from agenticpm.contents import ArtefactType
from agenticpm.events import moment
from agenticpm.model import Artefact
from agenticpm.rounds import Round
from agenticpm.rules_writer import facts_of, same_but_for_time
from agenticpm.signals import detect
from agenticpm.thresholds import thresholds_of
from agenticpm.tickets import Signal, Snapshot, Writing
from holdfast import Write


async def write_artefacts(on: Round) -> None:
    """All of them from what is known now, in one transaction, where they differ."""
    on.step("artefacts")
    pointer = await on.mark(on.project.source, snapshots.SNAPSHOT)
    snapshot = await snapshots.last_seen(on.stores, on.project, pointer)
    if snapshot is None or snapshot.is_partial:
        # Half a project is not what people should be told about.
        return
    seen = {each.type: each for each in await on.stores.all(patterns.artefacts(on.project.id))}
    standing = _standing(on, snapshot, await _content_of(on, seen.get(ArtefactType.raid_log)))
    decisions = await _content_of(on, seen.get(ArtefactType.decision_log))
    writes: list[Write[Any]] = []
    raid: Any = None
    for type in (
        ArtefactType.raid_log,
        ArtefactType.delivery_state,
        ArtefactType.backlog_summary,
        ArtefactType.decision_log,
    ):
        previous = await _content_of(on, seen.get(type))
        writing = Writing(
            type=type,
            previous=previous,
            snapshot=snapshot,
            signals=standing,
            raid_log=raid,
            now=moment(on.stores.clock),
        )
        draft = await on.writers.write(writing, on.project)
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
            on.stores, on.project.id, type, content, seen=kept, why=why, beside=beside, facts=facts
        )
        on.cycle.artefacts.append(type)
    if writes:
        log_seen = seen.get(ArtefactType.decision_log)
        if log_seen is not None and ArtefactType.decision_log not in on.cycle.artefacts:
            writes.append(patterns.check_artefact(log_seen))
        on.step("artefacts commit")
        await on.written(patterns.check_project(on.project), *writes)
        on.step("artefacts committed")
    await ask_again(on, standing)


def _standing(on: Round, snapshot: Snapshot, raid_log: Any) -> tuple[Signal, ...]:
    """Every signal that stands now, told before or not: artefacts follow from what is, and not from what is new."""
    unflagged = snapshot.model_copy(update={"flags": {}})
    _, signals = detect(
        unflagged,
        unflagged,
        (),
        raid_log=raid_log,
        now=moment(on.stores.clock),
        thresholds=thresholds_of(on.project.config),
        most=len(snapshot.tickets) * 10 + 1000,
    )
    return tuple(signals)


async def _content_of(on: Round, artefact: Artefact | None) -> dict[str, Any] | None:
    return None if artefact is None else await artefacts.content_of(on.stores, artefact)
