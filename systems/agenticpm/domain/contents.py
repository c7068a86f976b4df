"""Artefact contents: the Pydantic schema of each type, and the rules within and between contents.

Names are the design document's (4.2); all fields are required, and no others are allowed. Values that a
tracker may not know can be null: the sprint between sprints, a milestone's due date, an owner, the cycle time
before anything was done. Every content passes `validate_content` before it is stored; `to_stored` returns its
stored form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from enum import StrEnum
from itertools import count
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictStr,
    StringConstraints,
    ValidationError,
    model_validator,
)

# Marks a content that is stored as an object: `{"$object": <sha256>, "bytes": n}`.
OBJECT: Final = "$object"
MAX_REPORTED_FAULTS: Final = 5
# The highest number of a blocker, RAID item or decision: six digits.
MAX_NUMBER: Final = 999_999

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", re.ASCII)
_NUMBERS: Final = Context(prec=38)


class ArtefactType(StrEnum):
    delivery_state = "delivery_state"
    raid_log = "raid_log"
    backlog_summary = "backlog_summary"
    decision_log = "decision_log"


# --- values -------------------------------------------------------------------------------------------------


def format_time(moment: datetime) -> str:
    """Format a time as contents have it: ISO 8601 with Z, in seconds, or in milliseconds if it has any."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(timespec="milliseconds" if utc.microsecond >= 1000 else "seconds") + "Z"


def _parse_time(value: object) -> datetime:
    """Return a UTC time in whole seconds or milliseconds. Raise ValueError for any other value."""
    if isinstance(value, datetime):
        if value.utcoffset() != timedelta(0) or value.microsecond % 1000:
            raise ValueError("invalid time: expected UTC, in whole seconds or milliseconds")
        return value
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError(
            "invalid time: expected ISO 8601 with Z, in seconds or milliseconds, such as 2026-02-03T00:00:00Z"
        )
    return datetime.fromisoformat(value)


def _parse_number(value: object) -> object:
    """Return the number, with a float as Decimal. Raise ValueError for a bool or any other type."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("expected a number")
    return Decimal(str(value)) if isinstance(value, float) else value


Moment = Annotated[datetime, BeforeValidator(_parse_time), PlainSerializer(format_time)]
Count = Annotated[int, BeforeValidator(_parse_number), Field(ge=0, le=10**12)]
Amount = Annotated[Decimal, BeforeValidator(_parse_number), Field(ge=0, le=10**12, max_digits=38)]
Text = StrictStr
Name = Annotated[str, StringConstraints(strict=True, min_length=1, pattern=r"\S")]
BlockerId = Annotated[str, StringConstraints(strict=True, pattern=r"^B[0-9]{3,6}$")]
RaidId = Annotated[str, StringConstraints(strict=True, pattern=r"^R[0-9]{3,6}$")]
DecisionId = Annotated[str, StringConstraints(strict=True, pattern=r"^D[0-9]{3,6}$")]


def get_next_id(letter: str, taken: Collection[str]) -> str:
    """Return the first free id with this letter: R004 after R003."""
    return next(iter_free_ids(letter, taken))


def iter_free_ids(letter: str, taken: Collection[str]) -> Iterator[str]:
    """Yield the free ids above the highest taken number; after 999999, the lowest free ids."""
    numbers = {int(each[1:]) for each in taken}
    after = range(max(numbers, default=0) + 1, MAX_NUMBER + 1)
    yield from (f"{letter}{number:03d}" for number in after)
    yield from (f"{letter}{number:03d}" for number in count(1) if number not in numbers)


def _refuse_duplicates(what: str, names: list[str]) -> None:
    """Raise ValueError if a name occurs more than once. `what` begins the message."""
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise ValueError(f"{what} {', '.join(twice)} more than once: each must be unique")


class Part(BaseModel):
    """The base of all schemas: frozen, and without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Content(Part):
    """The base of the content schemas: the whole content of an artefact."""


# --- delivery state -----------------------------------------------------------------------------------------


class Progress(Part):
    total_points: Amount
    completed_points: Amount
    in_progress_points: Amount
    blocked_points: Amount

    @model_validator(mode="after")
    def _check_sum(self) -> Self:
        """Refuse parts that exceed the total."""
        parts = self.completed_points + self.in_progress_points + self.blocked_points
        if parts > self.total_points:
            raise ValueError(
                f"completed, in progress and blocked sum to {parts} of {self.total_points} points: count "
                "each ticket once"
            )
        return self


class CurrentSprint(Part):
    name: Name
    start_date: Moment | None
    end_date: Moment | None
    goal: Text
    progress: Progress

    @model_validator(mode="after")
    def _check_dates(self) -> Self:
        if self.start_date and self.end_date and self.end_date < self.start_date:
            raise ValueError("end_date is before start_date: fix one of them")
        return self


class Milestone(Part):
    name: Name
    due_date: Moment | None
    status: Literal["on_track", "at_risk", "delayed", "completed"]
    notes: Text


class Blocker(Part):
    id: BlockerId
    description: Name
    owner: Text | None
    raised_date: Moment
    severity: Literal["high", "medium", "low"]
    source_ticket: Text | None


class KeyMetrics(Part):
    velocity_trend: Literal["increasing", "stable", "decreasing"]
    avg_cycle_time_days: Amount | None
    open_blockers: Count
    active_risks: Count


class DeliveryState(Content):
    overall_status: Literal["green", "amber", "red"]
    status_summary: Text
    current_sprint: CurrentSprint | None
    milestones: list[Milestone]
    blockers: list[Blocker]
    key_metrics: KeyMetrics
    next_actions: list[Text]

    @model_validator(mode="after")
    def _check_blockers(self) -> Self:
        """Refuse duplicate ids, and another number of open blockers than are listed."""
        _refuse_duplicates("blockers has the id", [each.id for each in self.blockers])
        if self.key_metrics.open_blockers != len(self.blockers):
            raise ValueError(
                f"key_metrics.open_blockers is {self.key_metrics.open_blockers}, but there are "
                f"{len(self.blockers)} blockers: make them equal"
            )
        return self


# --- RAID log -----------------------------------------------------------------------------------------------


class RaidItem(Part):
    """A risk, an assumption, an issue or a dependency."""

    id: RaidId
    type: Literal["risk", "assumption", "issue", "dependency"]
    title: Name
    description: Text
    severity: Literal["critical", "high", "medium", "low"]
    status: Literal["open", "mitigating", "resolved", "accepted", "closed"]
    owner: Text | None
    raised_date: Moment
    due_date: Moment | None
    mitigation: Text | None
    resolution: Text | None
    resolved_date: Moment | None
    source: Literal["agent_detected", "user_added", "integration_signal"]
    source_reference: Text | None
    last_reviewed: Moment | None

    @model_validator(mode="after")
    def _check_resolution(self) -> Self:
        """Require a resolution and its date for a finished item, and allow no date for any other."""
        if self.is_finished != (self.resolved_date is not None):
            raise ValueError(
                f"status {self.status} {'needs a' if self.is_finished else 'allows no'} resolved_date: give "
                "it only for a resolved or closed item"
            )
        if self.is_finished and not (self.resolution or "").strip():
            raise ValueError(f"status {self.status} needs a resolution: say how it ended")
        if self.resolved_date and self.resolved_date < self.raised_date:
            raise ValueError("resolved_date is before raised_date: fix one of them")
        return self

    @property
    def is_finished(self) -> bool:
        """Whether the item is resolved or closed. (An accepted item is neither finished nor active.)"""
        return self.status in ("resolved", "closed")

    @property
    def is_active(self) -> bool:
        """Whether the item is open or mitigating."""
        return self.status in ("open", "mitigating")


class RaidLog(Content):
    items: list[RaidItem]

    @model_validator(mode="after")
    def _check_unique_ids(self) -> Self:
        _refuse_duplicates("items has the id", [each.id for each in self.items])
        return self

    @property
    def active_risks(self) -> int:
        """The number of open or mitigating risks."""
        return sum(each.type == "risk" and each.is_active for each in self.items)


# --- decision log -------------------------------------------------------------------------------------------


class ConsideredOption(Part):
    option: Name
    pros: list[Text]
    cons: list[Text]


class Decision(Part):
    id: DecisionId
    title: Name
    context: Text
    options_considered: list[ConsideredOption]
    decision: Name
    rationale: Text
    made_by: Name
    date: Moment
    status: Literal["active", "superseded", "reversed"]
    related_raid_items: list[RaidId]

    @model_validator(mode="after")
    def _check_decision(self) -> Self:
        """Refuse duplicate options or RAID items, and a decision that is not one of the options."""
        names = [each.option for each in self.options_considered]
        _refuse_duplicates("options_considered has", names)
        _refuse_duplicates("related_raid_items has", self.related_raid_items)
        if self.decision not in names:
            raise ValueError(
                f"the decision {self.decision!r} is not in options_considered "
                f"({', '.join(names) or 'none'}): add it "
                "there, or choose one of them"
            )
        return self


class DecisionLog(Content):
    decisions: list[Decision]

    @model_validator(mode="after")
    def _check_unique_ids(self) -> Self:
        _refuse_duplicates("decisions has the id", [each.id for each in self.decisions])
        return self


# --- backlog summary ----------------------------------------------------------------------------------------


class ByStatus(Part):
    to_do: Count
    in_progress: Count
    done_this_sprint: Count
    blocked: Count


class ByPriority(Part):
    critical: Count
    high: Count
    medium: Count
    low: Count


class Totals(Part):
    total_items: Count
    by_status: ByStatus
    by_priority: ByPriority

    @model_validator(mode="after")
    def _check_sums(self) -> Self:
        """Refuse counts that do not sum to the total."""
        for name, parts in (("by_status", self.by_status), ("by_priority", self.by_priority)):
            if (counted := sum(parts.model_dump().values())) != self.total_items:
                raise ValueError(
                    f"{name} sums to {counted}, but total_items is {self.total_items}: count each item once "
                    "in each"
                )
        return self


class Highlight(Part):
    ticket_id: Name
    title: Text
    flag: Literal["blocked", "stale", "missing_criteria", "scope_creep", "new"]
    detail: Text
    suggested_action: Text


class RefinementCandidate(Part):
    ticket_id: Name
    title: Text
    issue: Text


class BacklogSummary(Content):
    source: Literal["jira", "asana"]
    last_synced: Moment
    summary: Totals
    highlights: list[Highlight]
    refinement_candidates: list[RefinementCandidate]
    scope_notes: Text


# --- validation ---------------------------------------------------------------------------------------------


class ObjectReference(Content):
    """A reference to the object with a content that is too large for its item."""

    object: Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{64}$")] = Field(alias=OBJECT)
    bytes: Count


C = TypeVar("C", bound=Content)

SCHEMAS: Final[Mapping[ArtefactType, type[Content]]] = {
    ArtefactType.delivery_state: DeliveryState,
    ArtefactType.raid_log: RaidLog,
    ArtefactType.backlog_summary: BacklogSummary,
    ArtefactType.decision_log: DecisionLog,
}


def validate_content(type: ArtefactType, content: Mapping[str, Any]) -> Content:
    """Return the content parsed by the schema of its type. Raise ValueError with path and reason.

    An object reference (`{"$object": …}`) is accepted for every type.
    """
    return parse_as(ObjectReference if OBJECT in content else SCHEMAS[type], content, str(type))


def parse_as(schema: type[C], content: Mapping[str, Any], name: str | None = None) -> C:
    """Return the content parsed by the given schema. Raise ValueError with path and reason."""
    try:
        return schema.model_validate(dict(content))
    except ValidationError as error:
        raise ValueError(f"Invalid {name or schema.__name__}: {_format_errors(error)}") from None


def _format_errors(error: ValidationError) -> str:
    """Format the first five validation errors with their paths, and the number of the others."""
    faults = [
        f"{_format_path(each['loc'])}: {_format_reason(each)}" for each in error.errors(include_url=False)
    ]
    more = len(faults) - MAX_REPORTED_FAULTS
    return "; ".join(faults[:MAX_REPORTED_FAULTS]) + (f"; and {more} more" if more > 0 else "")


def _format_path(path: tuple[str | int, ...]) -> str:
    """Format the location of an error: `items[0].id`."""
    written = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    return written.lstrip(".") or "the content"


def _format_reason(fault: Any) -> str:
    if fault["type"] == "missing":
        return "is missing: add it"
    if fault["type"] == "extra_forbidden":
        return "is not in the schema: leave it out"
    return str(fault["msg"]).removeprefix("Value error, ")


def to_stored(content: BaseModel) -> dict[str, Any]:
    """Return a content as it is stored, so that equal values compare equal.

    Times become text; numbers become int or normalized Decimal.
    """
    return {name: _to_stored_value(value) for name, value in content.model_dump(by_alias=True).items()}


def _to_stored_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_stored_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_to_stored_value(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value.normalize(_NUMBERS)
    return value


# --- between artefacts --------------------------------------------------------------------------------------


def check_references(decision_log: DecisionLog, raid_log: RaidLog) -> None:
    """Raise ValueError if a decision refers to an item that the RAID log does not have."""
    known = {each.id for each in raid_log.items}
    for decision in decision_log.decisions:
        if strangers := [each for each in decision.related_raid_items if each not in known]:
            raise ValueError(
                f"The decision {decision.id} names {', '.join(strangers)}, which the RAID log does not have: "
                "keep the item (closed if it is finished), or remove it from related_raid_items."
            )


def check_active_risks(state: DeliveryState, raid_log: RaidLog) -> None:
    """Raise ValueError if the delivery state's number of active risks differs from the RAID log's."""
    if state.key_metrics.active_risks != raid_log.active_risks:
        raise ValueError(
            f"key_metrics.active_risks is {state.key_metrics.active_risks}, but the RAID log has "
            f"{raid_log.active_risks} open or mitigating risks: use that number."
        )


def check_consistency(contents: Mapping[ArtefactType, Mapping[str, Any]]) -> None:
    """Raise ValueError if the given full contents do not agree with the RAID log.

    Without one, check nothing.
    """
    if (raid := contents.get(ArtefactType.raid_log)) is None:
        return
    raid_log = parse_as(RaidLog, raid)
    if (decisions := contents.get(ArtefactType.decision_log)) is not None:
        check_references(parse_as(DecisionLog, decisions), raid_log)
    if (state := contents.get(ArtefactType.delivery_state)) is not None:
        check_active_risks(parse_as(DeliveryState, state), raid_log)


def normalize_import(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an imported item with `previousVersion`, which the document also writes as `previous_version`.

    Raise ValueError if the item has both with different values.
    """
    normalized = dict(item)
    other = normalized.pop("previous_version", None)
    if other is None:
        return normalized
    if normalized.get("previousVersion") not in (None, other):
        raise ValueError(
            "The item has previous_version and previousVersion with different values: keep the right one."
        )
    return normalized | {"previousVersion": other}
