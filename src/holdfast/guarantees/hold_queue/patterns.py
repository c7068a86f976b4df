"""The access patterns of a hold queue: to hold, to review, to find what is due, and what `Once` needs to do it.

Nothing here claims a record that is not there: what was not held, or is gone, cannot be executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.guarantees.hold_queue.record import HELD, HeldRecord, millisecond
from holdfast.guarantees.once.patterns import EXAMPLE_END, EXAMPLE_MOMENT, EXAMPLE_OWNER, OncePatterns, spoken
from holdfast.guarantees.once.record import OnceStatus, key_of
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import Condition, Get, Pattern, Put, Query, Rate, declaration_of
from holdfast.model.declaration import Attribute, KeyDeclaration
from holdfast.model.keys import BoundIndex
from holdfast.operations.values import Value

H = TypeVar("H", bound=HeldRecord)

PAGE: Final = 25
# How many of a hundred are approved, edited or cancelled by a person. A guess, for the cost.
REVIEWED_SHARE: Final = 0.2

# One that is being done, so that each of the patterns, run with its example after the first, finds what it needs.
_EXAMPLE: Final[dict[str, Any]] = {
    "status": OnceStatus.PROCESSING,
    "created_at": EXAMPLE_MOMENT,
    "queue": HELD,
    "held_until": EXAMPLE_MOMENT,
    "owner": EXAMPLE_OWNER,
    "revision": 1,
    "expires_at": EXAMPLE_END,
}


@dataclass(frozen=True)
class HoldPatterns(Generic[H]):
    """`hold` is for who puts something into the queue, `review` for people, the others for who executes."""

    hold: Pattern[[H], Put[H]]
    take: Pattern[[H, str, int], Put[H]]
    change: Pattern[[H, str, int], Put[H]]
    complete: Pattern[[H, str, int], Put[H]]
    review: Pattern[[H, H], Put[H]]
    due: Pattern[..., Query[H]]
    one: Pattern[[H], Get[H]]

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self.hold, self.take, self.change, self.complete, self.review)

    @property
    def executing(self) -> tuple[Pattern[..., Any], ...]:
        """The writes of who executes."""
        return (self.take, self.change, self.complete)

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self.due, self.one)

    def __iter__(self) -> Iterator[Pattern[..., Any]]:
        return iter((*self.writes, *self.reads))


def patterns_of(
    entity: type[H], prefix: str, rate: Rate, reading: Rate, example: Callable[[], H], once: OncePatterns[H]
) -> HoldPatterns[H]:
    """Seven patterns, `{prefix}1` to `{prefix}7`; two of them are those of `Once` as they are."""
    _refuse_coarse(entity)
    index: BoundIndex[H, Any, Any] = BoundIndex(declaration_of(entity), due_key_of(entity))
    what = entity.__name__

    def hold(record: H) -> Put[H]:
        return entity.create(record)

    def take(record: H, owner: str, revision: int) -> Put[H]:
        return once.retake.function(record, owner, revision)

    def review(record: H, seen: H) -> Put[H]:
        as_seen = (entity.owner == seen.owner, entity.revision == seen.revision)
        return entity.put(record).when(*as_seen, entity.status == seen.status)

    def due(now: datetime, limit: int = PAGE, after: str | None = None) -> Query[H]:
        moment = millisecond(now.timestamp())
        return index(HELD).until(moment).where(*_free(entity, moment)).page(limit, after)

    def one(record: H) -> Get[H]:
        return Get[H](declaration_of(entity), tuple(key_of(record).items())).consistent()

    def held() -> H:
        return example().model_copy(update=_EXAMPLE)

    def following() -> H:
        return held().model_copy(update={"revision": 2})

    def taking() -> tuple[H, str, int]:
        return once.retake.example_arguments  # type: ignore[return-value]

    def made(number: int, name: str, function: Any, purpose: str, rate: Rate, example: Any) -> Any:
        takes = {name: entity for name in ("record", "seen") if name in function.__annotations__}
        return made_pattern(
            function,
            f"{prefix}{number}",
            spoken(name, entity),
            purpose,
            rate=rate,
            example=example,
            takes=takes,
        )

    rare = Rate(rate.per, rate.times * REVIEWED_SHARE)
    return HoldPatterns(
        hold=made(1, "hold", hold, f"Hold a new {what}", rate, lambda: (held(),)),
        take=made(2, "take", take, f"Take a {what} that is due, to do it", rate, taking),
        change=once.change,
        complete=once.complete,
        review=made(
            5,
            "review",
            review,
            f"Approve, edit or cancel a {what} that waits",
            rare,
            lambda: (following(), held()),
        ),
        due=made(6, "due", due, f"Each {what} that is due, oldest first", reading, (EXAMPLE_MOMENT,)),
        one=made(7, "one", one, f"A {what} as it is now, before it is done", rate, lambda: (held(),)),
    )


def _free(entity: type[H], now: datetime) -> tuple[Condition[H], ...]:
    """That nobody works on it, that no party may still be at it, and that its life is not over."""
    moment = now.timestamp()
    return (
        entity.in_progress_expires_at.missing() | (entity.in_progress_expires_at <= moment),
        entity.act_until.missing() | (entity.act_until <= moment),
        entity.expires_at >= now,
    )


def due_key_of(entity: type[HeldRecord]) -> KeyDeclaration:
    """The key of the index by which what is due is found."""
    for key in declaration_of(entity).indexes:
        if key.partition.names == {"queue"} and key.sort is not None and _begins_with_time(key):
            _refuse_partial(entity, key)
            return key
    raise DeclarationError(
        f"{entity.__name__} has no index by which a hold queue finds what is due: declare queue and held_until again in "
        f'its class, with by_due = IndexKey(index, "{entity.__name__.upper()}#" + queue, held_until + "#" + id), and '
        "held_until as a datetime or as Milliseconds, which sort as times do."
    )


def _begins_with_time(key: KeyDeclaration) -> bool:
    """Whether the sort key begins with `held_until`, in a form of one width that keeps thousandths."""
    first = key.sort.slots[0] if key.sort is not None and key.sort.slots else None
    if first is None or first.attribute.name != "held_until" or first.function is not None:
        return False
    forms = [_form(first.attribute, moment) for moment in (1.0, 1.5)]
    return all(isinstance(form, str) for form in forms) and len({len(str(form)) for form in forms}) == 1


def _form(attribute: Attribute, moment: float) -> Value:
    """How a moment is kept in an attribute; None where it is not."""
    try:
        return attribute.encode(millisecond(moment))
    except InvalidRequest:
        return None


def _refuse_coarse(entity: type[HeldRecord]) -> None:
    """Found out at once: when something was done is no moment to learn that it cannot be written down."""
    for name in ("executed_at", "reviewed_at"):
        if _form(declaration_of(entity).attributes[name], 1.5) is None:
            raise DeclarationError(
                f"{entity.__name__}.{name} cannot keep a thousandth of a second: declare it as Milliseconds | None, or "
                "leave it as HeldRecord has it."
            )


def _refuse_partial(entity: type[HeldRecord], key: KeyDeclaration) -> None:
    if key.index is not None and key.index.projection.kind != "ALL":
        raise DeclarationError(
            f"{entity.__name__} is found when it is due by {key.index!r}, which does not hold whole items: who works on "
            "one cannot be told from it. Declare the index with the projection ALL."
        )
