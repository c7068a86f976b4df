"""Artefacts: the next version over the one that was seen, one step back, and what is too large for an item.

There is one item for each project and type, with the version before in it and nothing older. `updated` gives the writes
of a next version for the caller's transaction; `update` and `undo` do it at once, for a person who says which version
they saw. Undo is a next version too: what was undone is the version before it, so a second undo brings it back.
Contents that would make the item too large are put as objects before, named by their hash; what is left behind by a
crash between the two is an object that nothing names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import uuid4

import msgspec

from agenticpm import patterns
from agenticpm.contents import OBJECT, ArtefactType, check_between, checked_content, plain
from agenticpm.diffing import Difference, differences, shown
from agenticpm.events import moment, recorded
from agenticpm.model import Artefact, EventType, ProjectId
from holdfast import Check, Stores, Write
from holdfast.errors import (
    AlreadyThere,
    ConditionFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    ObjectDamaged,
    TransactionCancelled,
    TransactionConflict,
)

# Of the 400 KiB that an item may have: the rest is for its other attributes and for what counting as JSON leaves out.
CONTENTS_BYTES_MAX: Final = 350 * 1024

EVENT_BYTES_MAX: Final = 2000
EVENT_DIFFERENCES_MAX: Final = 5
WHY_CHARS_MAX: Final = 160

# With which other artefact a content must agree when it is stored. A delivery state counts the risks of the RAID log
# as it was then: a RAID log that changes makes it old, not wrong.
AGREES_WITH: Final[Mapping[ArtefactType, ArtefactType]] = {
    ArtefactType.delivery_state: ArtefactType.raid_log,
    ArtefactType.decision_log: ArtefactType.raid_log,
    ArtefactType.raid_log: ArtefactType.decision_log,
}

_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", order="deterministic")


async def content_of(stores: Stores, artefact: Artefact) -> dict[str, Any]:
    """What it says, in full."""
    return await _in_full(stores, artefact, artefact.content)


async def previous_of(stores: Stores, artefact: Artefact) -> dict[str, Any] | None:
    """What the version before said, in full."""
    if artefact.previous_version is None:
        return None
    return await _in_full(stores, artefact, artefact.previous_version)


async def updated(
    stores: Stores,
    project_id: ProjectId,
    type: ArtefactType,
    content: Mapping[str, Any],
    *,
    seen: Artefact | None,
    at: datetime | None = None,
    why: str = "",
    beside: Mapping[ArtefactType, Mapping[str, Any]] | None = None,
    facts: str | None = None,
) -> list[Write[Any]]:
    """The writes of the next version, over the one that was `seen`, and of its event. None where nothing differs.

    `beside` are contents of other artefacts, in full, that this one must agree with. `facts` is what the agent wrote it
    of; a person's version keeps those of the one before.
    """
    said = _checked(type, content)
    before = None if seen is None else await content_of(stores, seen)
    found = differences(before, said)
    if not found:
        return []
    _check_agreement({**(beside or {}), type: said})
    step = _Step(project_id, type, seen, before, said, found, at or moment(stores.clock), why, facts)
    return await _written(stores, step)


async def update(
    stores: Stores,
    project_id: ProjectId,
    type: ArtefactType,
    content: Mapping[str, Any],
    expected_version: int,
) -> Artefact:
    """The next version, for who saw `expected_version`: 0 where there was none. Nothing is written if nothing differs."""
    seen = await _expected(stores, project_id, type, expected_version)
    if seen is None and await stores.run(patterns.project(project_id)) is None:
        raise NotFound(f"There is no project {project_id}: an artefact belongs to one.")
    beside, unchanged = await _beside(stores, project_id, type)
    writes = await updated(stores, project_id, type, content, seen=seen, beside=beside)
    if not writes and seen is not None:
        return seen
    return await _stored(stores, project_id, type, expected_version, [*writes, *unchanged])


async def undo(stores: Stores, project_id: ProjectId, type: ArtefactType, expected_version: int) -> Artefact:
    """One step back, as a next version. Twice is there again: what was undone is the version before."""
    seen = await _expected(stores, project_id, type, expected_version)
    before = None if seen is None else await previous_of(stores, seen)
    if seen is None or before is None:
        raise InvalidRequest(
            f"There is nothing to undo in the {type} of {project_id}: "
            + ("it has no version yet." if seen is None else "its first version has none before it.")
        )
    unchanged: tuple[Check[Artefact], ...] = ()
    if type is not ArtefactType.delivery_state:
        beside, unchanged = await _beside(stores, project_id, type)
        _check_agreement({**beside, type: before})
    undone = await content_of(stores, seen)
    found = differences(undone, before)
    step = _Step(project_id, type, seen, undone, before, found, moment(stores.clock), "undo")
    writes = [*await _written(stores, step), *unchanged]
    return await _stored(stores, project_id, type, expected_version, writes)


# --- what is written ---------------------------------------------------------------------------------------------


def _checked(type: ArtefactType, content: Mapping[str, Any]) -> dict[str, Any]:
    if OBJECT in content:
        raise InvalidRequest(f"A {type} is given in full: where it is kept is no concern of who writes it.")
    try:
        return plain(checked_content(type, content))
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def _check_agreement(contents: Mapping[ArtefactType, Mapping[str, Any]]) -> None:
    try:
        check_between(contents)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


async def _beside(
    stores: Stores, project_id: ProjectId, type: ArtefactType
) -> tuple[dict[ArtefactType, dict[str, Any]], tuple[Check[Artefact], ...]]:
    """The artefact that this one must agree with, where there is one; and that it still is so when this is written."""
    other = AGREES_WITH.get(type)
    found = None if other is None else await stores.run(patterns.artefact(project_id, other))
    if found is None or other is None:
        return {}, ()
    return {other: await content_of(stores, found)}, (patterns.check_artefact(found),)


@dataclass(frozen=True)
class _Step:
    """From one version to the next. Both contents are in full."""

    project_id: ProjectId
    type: ArtefactType
    seen: Artefact | None
    before: dict[str, Any] | None
    after: dict[str, Any]
    found: Sequence[Difference]
    at: datetime
    why: str
    facts: str | None = None

    @property
    def version(self) -> int:
        return 1 if self.seen is None else self.seen.version + 1


async def _written(stores: Stores, step: _Step) -> list[Write[Any]]:
    content, previous = await _fitted(stores, step)
    seen = step.seen
    wanted = Artefact(
        id=str(uuid4()) if seen is None else seen.id,
        project_id=step.project_id,
        type=step.type,
        content=content,
        previous_version=previous,
        version=step.version,
        facts=step.facts or (None if seen is None else seen.facts),
        created_at=step.at if seen is None else seen.created_at,
        updated_at=step.at,
    )
    put = patterns.create_artefact(wanted) if seen is None else patterns.put_artefact(wanted, seen.version)
    summary = f"The {step.type} is at version {step.version}: {len(step.found)} differences"
    event = recorded(stores, step.project_id, EventType.artefact_updated, summary, _detail(step), at=step.at)
    return [put, *event]


def _detail(step: _Step) -> dict[str, Any]:
    """What the event tells: how many differences, and the first of them in short."""
    first: list[dict[str, str]] = []
    detail: dict[str, Any] = {"type": str(step.type), "version": step.version, "first": first}
    detail["differences"] = len(step.found)
    if step.why:
        detail["why"] = shown(step.why, WHY_CHARS_MAX)
    for each in step.found[:EVENT_DIFFERENCES_MAX]:
        first.append(
            {"path": shown(each.path), "before": shown(each.before, 60), "after": shown(each.after, 60)}
        )
        if len(_ENCODER.encode(detail)) > EVENT_BYTES_MAX:
            first.pop()
            break
    return detail


# --- storing -----------------------------------------------------------------------------------------------------


async def _expected(
    stores: Stores, project_id: ProjectId, type: ArtefactType, expected_version: int
) -> Artefact | None:
    seen = await stores.run(patterns.artefact(project_id, type))
    if (0 if seen is None else seen.version) != expected_version:
        raise _stale(project_id, type, expected_version, seen)
    return seen


async def _stored(
    stores: Stores,
    project_id: ProjectId,
    type: ArtefactType,
    expected_version: int,
    writes: Sequence[Write[Any]],
) -> Artefact:
    try:
        await stores.transact(*writes)
    except (ConditionFailed, TransactionCancelled, TransactionConflict) as error:
        now = await stores.run(patterns.artefact(project_id, type))
        raise _stale(project_id, type, expected_version, now) from error
    stored: Artefact = writes[0].entity  # type: ignore[attr-defined]
    return stored


def _stale(project_id: ProjectId, type: ArtefactType, expected: int, now: Artefact | None) -> Conflict:
    version = 0 if now is None else now.version
    if version == expected:
        return Conflict(
            f"Somebody else was writing the {type} of {project_id} at the same moment, and nothing was written over "
            f"version {expected}: try again."
        )
    return Conflict(
        f"The {type} of {project_id} is at version {version}, and this was made for version {expected}: read it again, "
        "and decide again."
    )


# --- what is too large for an item -------------------------------------------------------------------------------


async def _fitted(stores: Stores, step: _Step) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Both contents as the item holds them: where they do not fit, the larger one is put as an object, then the other."""
    kept: dict[str, dict[str, Any] | None] = {"after": step.after, "before": step.before}
    bodies = {name: b"" if each is None else _ENCODER.encode(each) for name, each in kept.items()}
    for name in sorted(bodies, key=lambda each: -len(bodies[each])):
        if sum(map(len, bodies.values())) > CONTENTS_BYTES_MAX:
            kept[name] = await _spilled(stores, step.project_id, step.type, bodies[name])
            bodies[name] = b""
    return kept["after"] or step.after, kept["before"]


async def _spilled(stores: Stores, project_id: ProjectId, type: ArtefactType, body: bytes) -> dict[str, Any]:
    sha256 = hashlib.sha256(body).hexdigest()
    try:
        await stores.run(patterns.keep_content(body, project_id, type, sha256))
    except AlreadyThere:
        pass  # the same bytes: it is named by them
    return {OBJECT: sha256, "bytes": len(body)}


async def _in_full(stores: Stores, artefact: Artefact, kept: dict[str, Any]) -> dict[str, Any]:
    if OBJECT not in kept:
        return kept
    sha256 = kept[OBJECT]
    found = await stores.run(patterns.kept_content(artefact.project_id, artefact.type, sha256))
    if hashlib.sha256(found.body).hexdigest() != sha256:
        raise ObjectDamaged(
            patterns.artefact_contents.bucket.name, found.info.key, "its bytes are not those it is named by"
        )
    content: dict[str, Any] = _DECODER.decode(found.body)
    return content
