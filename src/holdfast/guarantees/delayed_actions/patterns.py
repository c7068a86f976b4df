"""The access patterns of delayed actions: delay, review, find due actions, and those of `Once` to run them.

No pattern claims a record that does not exist: an action that was never delayed, or is gone, cannot run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.guarantees.delayed_actions.record import DELAYED_ACTIONS, DelayedAction, truncate_to_millisecond
from holdfast.guarantees.idempotency.patterns import (
    EXAMPLE_END,
    EXAMPLE_OWNER,
    EXAMPLE_TIME,
    OncePatterns,
    build_pattern_name,
)
from holdfast.guarantees.idempotency.record import OnceStatus, get_key
from holdfast.guarantees.pattern_sets import PatternSet, build_pattern
from holdfast.model.entities import Condition, Get, Put, Query, SelectQuery, get_declaration
from holdfast.model.entities.declaration import Attribute, KeyDeclaration
from holdfast.model.entities.keys import BoundIndex
from holdfast.model.patterns import Pattern, Rate
from holdfast.operations.values import Value

H = TypeVar("H", bound=DelayedAction)

PAGE_SIZE: Final = 25
# Share of actions that a person approves, edits or cancels. A guess, for the cost estimate.
REVIEW_SHARE: Final = 0.2

# An action in progress, so that each pattern, run with its example after the first, finds the state it needs.
_EXAMPLE: Final[dict[str, Any]] = {
    "status": OnceStatus.PROCESSING,
    "created_at": EXAMPLE_TIME,
    "queue": DELAYED_ACTIONS,
    "held_until": EXAMPLE_TIME,
    "owner": EXAMPLE_OWNER,
    "revision": 1,
    "expires_at": EXAMPLE_END,
}


@dataclass(frozen=True)
class DelayedActionPatterns(PatternSet, Generic[H]):
    """The eight patterns of `DelayedActions`."""

    hold: Pattern[[H], Put[H]]
    take: Pattern[[H, str, int], Put[H]]
    change: Pattern[[H, str, int], Put[H]]
    complete: Pattern[[H, str, int], Put[H]]
    review: Pattern[[H, H], Put[H]]
    due: Pattern[..., Query[H]]
    one: Pattern[[H], Get[H]]
    waiting: Pattern[[], SelectQuery[H]]


def build_patterns(
    entity: type[H],
    prefix: str,
    rate: Rate,
    read_rate: Rate,
    example: Callable[[], H],
    once: OncePatterns[H],
    lease_s: float,
) -> DelayedActionPatterns[H]:
    """Build the eight patterns, `{prefix}1` to `{prefix}8`; two of them are those of `Once`, unchanged."""
    _check_time_precision(entity)
    index: BoundIndex[H, Any, Any] = BoundIndex(get_declaration(entity), find_due_key(entity))
    what = entity.__name__

    def hold(record: H) -> Put[H]:
        return entity.create(record)

    def take(record: H, owner: str, revision: int) -> Put[H]:
        return once.retake.function(record, owner, revision)

    def review(record: H, seen: H) -> Put[H]:
        as_seen = (entity.owner == seen.owner, entity.revision == seen.revision)
        return entity.put(record).when(*as_seen, entity.status == seen.status)

    def due(
        now: datetime, limit: int = PAGE_SIZE, after: str | None = None, *, is_ahead: bool = False
    ) -> Query[H]:
        moment = truncate_to_millisecond(now.timestamp())
        queued = index(DELAYED_ACTIONS)
        if is_ahead:  # those that only a clock ahead of this one can have written
            return queued.query().where(_build_ahead_condition(entity, moment, lease_s)).page(limit, after)
        return queued.until(moment).where(*_build_free_conditions(entity, moment)).page(limit, after)

    def one(record: H) -> Get[H]:
        return Get[H](get_declaration(entity), tuple(get_key(record).items())).consistent()

    def waiting() -> SelectQuery[H]:
        return index(DELAYED_ACTIONS).query().select(entity.held_until)

    def build_held_example() -> H:
        return example().model_copy(update=_EXAMPLE)

    def build_next_example() -> H:
        return build_held_example().model_copy(update={"revision": 2})

    def get_take_example() -> tuple[H, str, int]:
        return once.retake.example_arguments  # type: ignore[return-value]

    def build_one(number: int, name: str, function: Any, purpose: str, rate: Rate, example: Any) -> Any:
        takes = {name: entity for name in ("record", "seen") if name in function.__annotations__}
        return build_pattern(
            function,
            f"{prefix}{number}",
            build_pattern_name(name, entity),
            purpose,
            rate=rate,
            example=example,
            argument_types=takes,
        )

    rare = Rate(rate.per, rate.times * REVIEW_SHARE)
    return DelayedActionPatterns(
        hold=build_one(1, "hold", hold, f"Delay a new {what}", rate, lambda: (build_held_example(),)),
        take=build_one(2, "take", take, f"Take a due {what}, to run it", rate, get_take_example),
        change=once.change,
        complete=once.complete,
        review=build_one(
            5,
            "review",
            review,
            f"Approve, edit or cancel a waiting {what}",
            rare,
            lambda: (build_next_example(), build_held_example()),
        ),
        due=build_one(6, "due", due, f"Due records of {what}, oldest first", read_rate, (EXAMPLE_TIME,)),
        one=build_one(
            7, "one", one, f"Read the current {what} before it runs", rate, lambda: (build_held_example(),)
        ),
        waiting=build_one(8, "waiting", waiting, f"When each waiting {what} is due", read_rate, ()),
    )


def _build_free_conditions(entity: type[H], now: datetime) -> tuple[Condition[H], ...]:
    """Return the conditions that no worker has the action, no intent is open, and the record has not
    expired.
    """
    moment = now.timestamp()
    return (
        entity.in_progress_expires_at.not_exists() | (entity.in_progress_expires_at <= moment),
        entity.act_until.not_exists() | (entity.act_until <= moment),
        entity.expires_at >= now,
    )


def _build_ahead_condition(entity: type[H], now: datetime, lease_s: float) -> Condition[H]:
    """Return the condition that a clock ahead of this one wrote the delay, the lease or the intent."""
    moment = now.timestamp()
    is_leased = (entity.in_progress_expires_at > moment + lease_s) | (entity.act_until > moment + lease_s)
    condition: Condition[H] = is_leased | (entity.held_since > moment)
    return condition


def find_due_key(entity: type[DelayedAction]) -> KeyDeclaration:
    """Return the index key that sorts the queue by `held_until`; raise `DeclarationError` if there is
    none.
    """
    for key in get_declaration(entity).indexes:
        if key.partition.attribute_names == {"queue"} and key.sort is not None and _sorts_by_time(key):
            _check_projection(entity, key)
            return key
    raise DeclarationError(
        f"Invalid {entity.__name__}: it has no index to find due actions. Declare queue and held_until again "
        f'in its class, with by_due = IndexKey(index, "{entity.__name__.upper()}#" + queue, '
        'held_until + "#" + id), and held_until as a datetime or as TimestampMillis, which sort by time.'
    )


def _sorts_by_time(key: KeyDeclaration) -> bool:
    """Return whether the sort key starts with `held_until`, in a fixed-width form with milliseconds."""
    first = key.sort.slots[0] if key.sort is not None and key.sort.slots else None
    if first is None or first.attribute.name != "held_until" or first.function is not None:
        return False
    forms = [_encode_time(first.attribute, moment) for moment in (1.0, 1.5)]
    return all(isinstance(form, str) for form in forms) and len({len(str(form)) for form in forms}) == 1


def _encode_time(attribute: Attribute, moment: float) -> Value:
    """Return the stored form of a time, or None if the attribute cannot store it."""
    try:
        return attribute.encode(truncate_to_millisecond(moment))
    except InvalidRequest:
        return None


def _check_time_precision(entity: type[DelayedAction]) -> None:
    """Raise `DeclarationError` if a time attribute cannot store milliseconds: after the action ran it is too
    late.
    """
    for name in ("executed_at", "reviewed_at"):
        if _encode_time(get_declaration(entity).attributes[name], 1.5) is None:
            raise DeclarationError(
                f"Invalid {entity.__name__}.{name}: it cannot store milliseconds. Declare it as "
                "TimestampMillis | None, or leave it as in DelayedAction."
            )


def _check_projection(entity: type[DelayedAction], key: KeyDeclaration) -> None:
    """Raise `DeclarationError` unless the index projects whole items."""
    if key.index is not None and key.index.projection.kind != "ALL":
        raise DeclarationError(
            f"Invalid index {key.index!r} of {entity.__name__}: it must contain whole items, so that due "
            "actions in progress can be skipped. Declare the index with the projection ALL."
        )
