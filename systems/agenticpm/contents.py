"""The contents of artefacts: their schemas, and what must hold between their fields and between one and another.

Names are the design document's (4.2), all are needed, and there are no others. What a tracker may not know can be null:
a sprint between sprints, the day a milestone is due, an owner, a cycle time before anything was done. `checked_content`
is what everything passes before it is stored, whoever wrote it; `plain` is the form in which it is stored.
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

# How a table knows that the content stands elsewhere: `{"$object": <sha256>, "bytes": n}`.
OBJECT: Final = "$object"
FAULTS_TOLD_MAX: Final = 5
# Blockers, RAID items and decisions are numbered up to this: six digits.
NUMBER_MAX: Final = 999_999

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", re.ASCII)
_NUMBERS: Final = Context(prec=38)


class ArtefactType(StrEnum):
    delivery_state = "delivery_state"
    raid_log = "raid_log"
    backlog_summary = "backlog_summary"
    decision_log = "decision_log"


# --- values ------------------------------------------------------------------------------------------------------


def stated(moment: datetime) -> str:
    """A time as contents have it: ISO 8601 with Z, in whole seconds, or in thousandths where it has them."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(timespec="milliseconds" if utc.microsecond >= 1000 else "seconds") + "Z"


def _moment(value: object) -> datetime:
    if isinstance(value, datetime):
        if value.utcoffset() != timedelta(0) or value.microsecond % 1000:
            raise ValueError("a time is in UTC, in whole seconds or thousandths: bring it there before")
        return value
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise ValueError(
            "a time is written as 2026-02-03T00:00:00Z: ISO 8601 with Z, in seconds or thousandths"
        )
    return datetime.fromisoformat(value)


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("a number is needed here, not a text")
    return Decimal(str(value)) if isinstance(value, float) else value


Moment = Annotated[datetime, BeforeValidator(_moment), PlainSerializer(stated)]
Count = Annotated[int, BeforeValidator(_number), Field(ge=0, le=10**12)]
Amount = Annotated[Decimal, BeforeValidator(_number), Field(ge=0, le=10**12, max_digits=38)]
Text = StrictStr
Name = Annotated[str, StringConstraints(strict=True, min_length=1, pattern=r"\S")]
BlockerId = Annotated[str, StringConstraints(strict=True, pattern=r"^B[0-9]{3,6}$")]
RaidId = Annotated[str, StringConstraints(strict=True, pattern=r"^R[0-9]{3,6}$")]
DecisionId = Annotated[str, StringConstraints(strict=True, pattern=r"^D[0-9]{3,6}$")]


def next_id(letter: str, taken: Collection[str]) -> str:
    return next(free_ids(letter, taken))


def free_ids(letter: str, taken: Collection[str]) -> Iterator[str]:
    """The ids after the highest; where people have given the highest there can be, the lowest that are free."""
    numbers = {int(each[1:]) for each in taken}
    after = range(max(numbers, default=0) + 1, NUMBER_MAX + 1)
    yield from (f"{letter}{number:03d}" for number in after)
    yield from (f"{letter}{number:03d}" for number in count(1) if number not in numbers)


def _refuse_twice(what: str, names: list[str]) -> None:
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise ValueError(f"{what} {', '.join(twice)} more than once: give each its own")


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Content(Part):
    """What an artefact says."""


# --- delivery state ----------------------------------------------------------------------------------------------


class Progress(Part):
    total_points: Amount
    completed_points: Amount
    in_progress_points: Amount
    blocked_points: Amount

    @model_validator(mode="after")
    def _parts_fit_the_whole(self) -> Self:
        parts = self.completed_points + self.in_progress_points + self.blocked_points
        if parts > self.total_points:
            raise ValueError(
                f"completed, in progress and blocked are {parts} points of {self.total_points}: count each ticket once"
            )
        return self


class CurrentSprint(Part):
    name: Name
    start_date: Moment | None
    end_date: Moment | None
    goal: Text
    progress: Progress

    @model_validator(mode="after")
    def _ends_after_its_start(self) -> Self:
        if self.start_date and self.end_date and self.end_date < self.start_date:
            raise ValueError("end_date is before start_date: mend one of them")
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
    def _counts_its_blockers(self) -> Self:
        _refuse_twice("blockers has the id", [each.id for each in self.blockers])
        if self.key_metrics.open_blockers != len(self.blockers):
            raise ValueError(
                f"key_metrics.open_blockers is {self.key_metrics.open_blockers} and there are {len(self.blockers)} "
                "blockers: make them agree"
            )
        return self


# --- RAID log ----------------------------------------------------------------------------------------------------


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
    def _ends_with_a_resolution(self) -> Self:
        if self.is_over != (self.resolved_date is not None):
            raise ValueError(
                f"status {self.status} {'needs' if self.is_over else 'has no'} resolved_date: it is there where the "
                "item is resolved or closed, and only there"
            )
        if self.is_over and not (self.resolution or "").strip():
            raise ValueError(f"status {self.status} needs a resolution: say how it ended")
        if self.resolved_date and self.resolved_date < self.raised_date:
            raise ValueError("resolved_date is before raised_date: mend one of them")
        return self

    @property
    def is_over(self) -> bool:
        return self.status in ("resolved", "closed")

    @property
    def is_active(self) -> bool:
        return self.status in ("open", "mitigating")


class RaidLog(Content):
    items: list[RaidItem]

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        _refuse_twice("items has the id", [each.id for each in self.items])
        return self

    @property
    def active_risks(self) -> int:
        return sum(each.type == "risk" and each.is_active for each in self.items)


# --- decision log ------------------------------------------------------------------------------------------------


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
    def _is_one_of_its_options(self) -> Self:
        names = [each.option for each in self.options_considered]
        _refuse_twice("options_considered has", names)
        _refuse_twice("related_raid_items has", self.related_raid_items)
        if self.decision not in names:
            raise ValueError(
                f"the decision {self.decision!r} is none of options_considered ({', '.join(names) or 'there are none'}): "
                "add it there, or name one of them"
            )
        return self


class DecisionLog(Content):
    decisions: list[Decision]

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        _refuse_twice("decisions has the id", [each.id for each in self.decisions])
        return self


# --- backlog summary ---------------------------------------------------------------------------------------------


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
    def _sums_agree(self) -> Self:
        for name, parts in (("by_status", self.by_status), ("by_priority", self.by_priority)):
            if (counted := sum(parts.model_dump().values())) != self.total_items:
                raise ValueError(
                    f"{name} sums to {counted} and total_items is {self.total_items}: count each item once in each"
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


# --- checking ----------------------------------------------------------------------------------------------------


class Spilled(Content):
    """Stands in an item for a content that is too large for it, and says which object has it."""

    object: Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{64}$")] = Field(alias=OBJECT)
    bytes: Count


C = TypeVar("C", bound=Content)

SCHEMAS: Final[Mapping[ArtefactType, type[Content]]] = {
    ArtefactType.delivery_state: DeliveryState,
    ArtefactType.raid_log: RaidLog,
    ArtefactType.backlog_summary: BacklogSummary,
    ArtefactType.decision_log: DecisionLog,
}


def checked_content(type: ArtefactType, content: Mapping[str, Any]) -> Content:
    """The content as its schema reads it, or ValueError with the place and the reason. A spilled one passes as such."""
    return parsed(Spilled if OBJECT in content else SCHEMAS[type], content, str(type))


def parsed(schema: type[C], content: Mapping[str, Any], name: str | None = None) -> C:
    """A content by the schema that is named: for who knows which it is."""
    try:
        return schema.model_validate(dict(content))
    except ValidationError as error:
        raise ValueError(f"This {name or schema.__name__} cannot be stored: {_told(error)}") from None


def _told(error: ValidationError) -> str:
    faults = [f"{_place(each['loc'])}: {_reason(each)}" for each in error.errors(include_url=False)]
    more = len(faults) - FAULTS_TOLD_MAX
    return "; ".join(faults[:FAULTS_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")


def _place(path: tuple[str | int, ...]) -> str:
    written = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    return written.lstrip(".") or "the whole"


def _reason(fault: Any) -> str:
    if fault["type"] == "missing":
        return "is missing: add it"
    if fault["type"] == "extra_forbidden":
        return "is not in the schema: leave it out"
    return str(fault["msg"]).removeprefix("Value error, ")


def plain(content: BaseModel) -> dict[str, Any]:
    """A content as it is stored: times as texts, numbers as int or Decimal in one form, so that equal is equal."""
    return {name: _plain(value) for name, value in content.model_dump(by_alias=True).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value.normalize(_NUMBERS)
    return value


# --- between artefacts -------------------------------------------------------------------------------------------


def check_references(decision_log: DecisionLog, raid_log: RaidLog) -> None:
    """Raises ValueError where a decision names an item that the RAID log does not have."""
    known = {each.id for each in raid_log.items}
    for decision in decision_log.decisions:
        if strangers := [each for each in decision.related_raid_items if each not in known]:
            raise ValueError(
                f"The decision {decision.id} names {', '.join(strangers)}, which the RAID log does not have: keep the "
                "item (closed, where it is over), or take it out of related_raid_items."
            )


def check_active_risks(state: DeliveryState, raid_log: RaidLog) -> None:
    if state.key_metrics.active_risks != raid_log.active_risks:
        raise ValueError(
            f"key_metrics.active_risks is {state.key_metrics.active_risks}, and the RAID log has {raid_log.active_risks} "
            "risks that are open or mitigating: take its number."
        )


def check_between(contents: Mapping[ArtefactType, Mapping[str, Any]]) -> None:
    """Raises ValueError where those artefacts that are given do not agree with each other. They are in full."""
    if (raid := contents.get(ArtefactType.raid_log)) is None:
        return
    raid_log = parsed(RaidLog, raid)
    if (decisions := contents.get(ArtefactType.decision_log)) is not None:
        check_references(parsed(DecisionLog, decisions), raid_log)
    if (state := contents.get(ArtefactType.delivery_state)) is not None:
        check_active_risks(parsed(DeliveryState, state), raid_log)


def imported(item: Mapping[str, Any]) -> dict[str, Any]:
    """An artefact's item from outside: the document writes `previous_version` too, and we store `previousVersion`."""
    taken = dict(item)
    other = taken.pop("previous_version", None)
    if other is None:
        return taken
    if taken.get("previousVersion") not in (None, other):
        raise ValueError(
            "The item has previous_version and previousVersion, and they differ: keep the right one."
        )
    return taken | {"previousVersion": other}
