"""Artefact storage: write the next version, undo one step, and store large contents as objects.

There is one item for each project and type, which holds the current and the previous version. `build_update`
returns the writes of a next version for the caller's transaction; `update` and `undo` commit at once, for a
person who names the version they saw. Undo writes a next version whose previous version is the undone one, so
a second undo restores it. Contents that would make the item too large are stored first as objects named by
their hash; a crash between the two leaves an unreferenced object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from agenticpm.domain.contents import OBJECT, ArtefactType, check_consistency, to_stored, validate_content
from agenticpm.domain.diff import Difference, compute_differences, format_value
from agenticpm.model import patterns
from agenticpm.model.entities import Artefact, EventType, ProjectId
from agenticpm.model.events import build_event_writes, get_now
from holdfast import Stores, Write
from holdfast.core.errors import (
    AlreadyExists,
    ConditionFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    ObjectDamaged,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.core.rng import make_uuid
from holdfast.model.entities import ConditionCheck

# An item may have 400 KiB: the rest is for other attributes and for the difference to the JSON size.
MAX_CONTENTS_BYTES: Final = 350 * 1024

MAX_EVENT_BYTES: Final = 2000
MAX_EVENT_DIFFERENCES: Final = 5
MAX_WHY_CHARS: Final = 160

# The other artefact that a content must agree with when it is stored. A delivery state counts the risks of
# the RAID log at that time: a later RAID log makes it outdated, not wrong.
AGREES_WITH: Final[Mapping[ArtefactType, ArtefactType]] = {
    ArtefactType.delivery_state: ArtefactType.raid_log,
    ArtefactType.decision_log: ArtefactType.raid_log,
    ArtefactType.raid_log: ArtefactType.decision_log,
}

_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", order="deterministic")


async def load_content(stores: Stores, artefact: Artefact) -> dict[str, Any]:
    """Return the full content of an artefact, from its object if it is stored as one."""
    return await _load_full(stores, artefact, artefact.content)


async def load_previous(stores: Stores, artefact: Artefact) -> dict[str, Any] | None:
    """Return the full content of the previous version, or None if there is none."""
    if artefact.previous_version is None:
        return None
    return await _load_full(stores, artefact, artefact.previous_version)


async def build_update(
    stores: Stores,
    project_id: ProjectId,
    type: ArtefactType,
    content: Mapping[str, Any],
    *,
    seen: Artefact | None,
    at: datetime | None = None,
    reason: str = "",
    related: Mapping[ArtefactType, Mapping[str, Any]] | None = None,
    facts: str | None = None,
) -> list[Write[Any]]:
    """Build the writes of the next version over `seen`, with its event; no writes if nothing differs.

    Large contents are stored as objects at once. `related` has the full contents of other artefacts that this
    one must agree with. `facts` is the hash of the facts that the agent wrote it from; a person's version
    keeps the previous one. Raise InvalidRequest if the content is invalid or does not agree.
    """
    validated = _validate(type, content)
    before = None if seen is None else await load_content(stores, seen)
    found = compute_differences(before, validated)
    if not found:
        return []
    _check_agreement({**(related or {}), type: validated})
    step = _VersionChange(
        project_id, type, seen, before, validated, found, at or get_now(stores.clock), reason, facts
    )
    return await _build_writes(stores, step)


async def update(
    stores: Stores,
    project_id: ProjectId,
    type: ArtefactType,
    content: Mapping[str, Any],
    expected_version: int,
) -> Artefact:
    """Write the next version if the current one is `expected_version` (0: none yet), and return it.

    Write nothing if nothing differs. Raise Conflict if the version is another, NotFound without a project.
    """
    seen = await _load_expected(stores, project_id, type, expected_version)
    if seen is None and await stores.run(patterns.project(project_id)) is None:
        raise NotFound(f"Project {project_id} not found: an artefact needs a project.")
    related, unchanged = await _load_related(stores, project_id, type)
    writes = await build_update(stores, project_id, type, content, seen=seen, related=related)
    if not writes and seen is not None:
        return seen
    return await _commit_version(stores, project_id, type, expected_version, [*writes, *unchanged])


async def undo(stores: Stores, project_id: ProjectId, type: ArtefactType, expected_version: int) -> Artefact:
    """Restore the previous version as a next version, and return it. A second undo restores the undone one.

    Raise InvalidRequest if there is no previous version, Conflict if the version is not `expected_version`.
    """
    seen = await _load_expected(stores, project_id, type, expected_version)
    before = None if seen is None else await load_previous(stores, seen)
    if seen is None or before is None:
        raise InvalidRequest(
            f"There is nothing to undo in the {type} of {project_id}: "
            + ("it has no version yet." if seen is None else "it has only one version.")
        )
    unchanged: tuple[ConditionCheck[Artefact], ...] = ()
    if type is not ArtefactType.delivery_state:
        related, unchanged = await _load_related(stores, project_id, type)
        _check_agreement({**related, type: before})
    undone = await load_content(stores, seen)
    found = compute_differences(undone, before)
    step = _VersionChange(project_id, type, seen, undone, before, found, get_now(stores.clock), "undo")
    writes = [*await _build_writes(stores, step), *unchanged]
    return await _commit_version(stores, project_id, type, expected_version, writes)


# --- writes ---------------------------------------------------------------------------------------------


def _validate(type: ArtefactType, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a person's or writer's full content as it is stored. Raise InvalidRequest."""
    if OBJECT in content:
        raise InvalidRequest(f"Invalid {type}: {OBJECT} is reserved. Send the full content.")
    try:
        return to_stored(validate_content(type, content))
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def _check_agreement(contents: Mapping[ArtefactType, Mapping[str, Any]]) -> None:
    """Raise InvalidRequest if the contents do not agree with each other."""
    try:
        check_consistency(contents)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


async def _load_related(
    stores: Stores, project_id: ProjectId, type: ArtefactType
) -> tuple[dict[ArtefactType, dict[str, Any]], tuple[ConditionCheck[Artefact], ...]]:
    """Load the content that this artefact must agree with, and the check that it stays unchanged.

    The caller commits the check with its writes. Both are empty if there is no such artefact.
    """
    other = AGREES_WITH.get(type)
    found = None if other is None else await stores.run(patterns.artefact(project_id, other))
    if found is None or other is None:
        return {}, ()
    return {other: await load_content(stores, found)}, (patterns.check_artefact(found),)


@dataclass(frozen=True)
class _VersionChange:
    """A change from one version to the next, with both contents in full."""

    project_id: ProjectId
    type: ArtefactType
    seen: Artefact | None
    before: dict[str, Any] | None
    after: dict[str, Any]
    differences: Sequence[Difference]
    at: datetime
    reason: str
    facts: str | None = None

    @property
    def version(self) -> int:
        """The number of the next version."""
        return 1 if self.seen is None else self.seen.version + 1


async def _build_writes(stores: Stores, step: _VersionChange) -> list[Write[Any]]:
    """Build the put of the next version and its event; large contents are stored as objects at once."""
    content, previous = await _fit_into_item(stores, step)
    seen = step.seen
    wanted = Artefact(
        id=str(make_uuid()) if seen is None else seen.id,
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
    summary = f"The {step.type} is at version {step.version}: {len(step.differences)} differences"
    event = build_event_writes(
        stores, step.project_id, EventType.artefact_updated, summary, _build_event_detail(step), at=step.at
    )
    return [put, *event]


def _build_event_detail(step: _VersionChange) -> dict[str, Any]:
    """Build the event's detail: the number of differences, and the first of them in short form."""
    first: list[dict[str, str]] = []
    detail: dict[str, Any] = {"type": str(step.type), "version": step.version, "first": first}
    detail["differences"] = len(step.differences)
    if step.reason:
        detail["why"] = format_value(step.reason, MAX_WHY_CHARS)
    for each in step.differences[:MAX_EVENT_DIFFERENCES]:
        first.append(
            {
                "path": format_value(each.path),
                "before": format_value(each.before, 60),
                "after": format_value(each.after, 60),
            }
        )
        if len(_ENCODER.encode(detail)) > MAX_EVENT_BYTES:
            first.pop()
            break
    return detail


# --- storing ------------------------------------------------------------------------------------------------


async def _load_expected(
    stores: Stores, project_id: ProjectId, type: ArtefactType, expected_version: int
) -> Artefact | None:
    """Load the artefact, or None if there is none yet. Raise Conflict unless it is at `expected_version`."""
    seen = await stores.run(patterns.artefact(project_id, type))
    if (0 if seen is None else seen.version) != expected_version:
        raise _build_conflict(project_id, type, expected_version, seen)
    return seen


async def _commit_version(
    stores: Stores,
    project_id: ProjectId,
    type: ArtefactType,
    expected_version: int,
    writes: Sequence[Write[Any]],
) -> Artefact:
    """Commit the writes and return the artefact of the first one.

    Raise Conflict if another writer was first.
    """
    try:
        await stores.transact(*writes)
    except (ConditionFailed, TransactionCancelled, TransactionConflict) as error:
        now = await stores.run(patterns.artefact(project_id, type))
        raise _build_conflict(project_id, type, expected_version, now) from error
    stored: Artefact = writes[0].entity  # type: ignore[attr-defined]
    return stored


def _build_conflict(
    project_id: ProjectId, type: ArtefactType, expected: int, current: Artefact | None
) -> Conflict:
    """Build the error for a version conflict; `current` is the artefact as it is now."""
    version = 0 if current is None else current.version
    if version == expected:
        return Conflict(
            f"Another writer changed the {type} of {project_id} at the same time; version {expected} is "
            "unchanged. Retry."
        )
    return Conflict(
        f"The {type} of {project_id} is at version {version}, but the request expects version {expected}: "
        "read it again and retry."
    )


# --- large contents -------------------------------------------------------------------------------


async def _fit_into_item(
    stores: Stores, step: _VersionChange
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the current and previous content as the item stores them.

    If they do not fit, the larger becomes an object, then the other.
    """
    stored: dict[str, dict[str, Any] | None] = {"after": step.after, "before": step.before}
    bodies = {name: b"" if each is None else _ENCODER.encode(each) for name, each in stored.items()}
    for name in sorted(bodies, key=lambda each: -len(bodies[each])):
        if sum(map(len, bodies.values())) > MAX_CONTENTS_BYTES:
            stored[name] = await _store_as_object(stores, step.project_id, step.type, bodies[name])
            bodies[name] = b""
    return stored["after"] or step.after, stored["before"]


async def _store_as_object(
    stores: Stores, project_id: ProjectId, type: ArtefactType, body: bytes
) -> dict[str, Any]:
    """Store a content as an object named by its hash, and return the reference to it."""
    sha256 = hashlib.sha256(body).hexdigest()
    try:
        await stores.run(patterns.keep_content(body, project_id, type, sha256))
    except AlreadyExists:
        pass  # the object is named by its hash, so it has the same bytes
    return {OBJECT: sha256, "bytes": len(body)}


async def _load_full(stores: Stores, artefact: Artefact, stored: dict[str, Any]) -> dict[str, Any]:
    """Return the stored content, or load the object it refers to. Raise ObjectDamaged if its hash differs."""
    if OBJECT not in stored:
        return stored
    sha256 = stored[OBJECT]
    found = await stores.run(patterns.kept_content(artefact.project_id, artefact.type, sha256))
    if hashlib.sha256(found.body).hexdigest() != sha256:
        raise ObjectDamaged(
            patterns.artefact_contents.bucket.name, found.info.key, "its bytes do not match its hash"
        )
    content: dict[str, Any] = _DECODER.decode(found.body)
    return content
