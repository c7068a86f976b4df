"""The access patterns through which everything of a `Once` goes, so that a component can be given them.

Each puts the record whole, under a condition that names the state it was decided on. An owner and a revision are
written once only: a put that comes twice, or late, changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from holdfast.guarantees.once.record import OnceRecord, OnceStatus, key_of
from holdfast.model import Check, Condition, Pattern, Put, Rate, declaration_of
from holdfast.operations.expressions import nodes

R = TypeVar("R", bound=OnceRecord)

# How many of a hundred claims find the work of somebody who did not end it. A guess, for the cost.
RETAKEN_SHARE: Final = 0.01

EXAMPLE_MOMENT: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)
EXAMPLE_END: Final = datetime(2126, 2, 4, 1, tzinfo=UTC)
EXAMPLE_OWNER: Final = "01KGK5CD00EXAMPLE000000000"


@dataclass(frozen=True)
class OncePatterns(Generic[R]):
    """List them in the system and its components: `*once.patterns`, or `.reads` and `.writes` apart."""

    claim: Pattern[[R, datetime], Put[R]]
    retake: Pattern[[R, str, int], Put[R]]
    change: Pattern[[R, str, int], Put[R]]
    complete: Pattern[[R, str, int], Put[R]]
    check: Pattern[[R], Check[R]]

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self.claim, self.retake, self.change, self.complete)

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self.check,)

    def __iter__(self) -> Iterator[Pattern[..., Any]]:
        return iter((*self.writes, *self.reads))


def patterns_of(entity: type[R], prefix: str, rate: Rate, example: Callable[[], R]) -> OncePatterns[R]:
    """Five patterns, `{prefix}1` to `{prefix}5`."""
    there = nodes.Path(declaration_of(entity).table.partition)
    absent = Condition[R](nodes.AttributeNotExists(there))
    rare = Rate(rate.per, rate.times * RETAKEN_SHARE)

    def claim(record: R, now: datetime) -> Put[R]:
        ended: Condition[R] = entity.expires_at < now
        # Of a record with an open intent the end does not count: the party is looked up first.
        forgotten = ended & entity.act_until.missing()
        return entity.put(record).when(absent | forgotten)

    def over(record: R, owner: str, revision: int) -> Put[R]:
        return entity.put(record).when(entity.owner == owner, entity.revision == revision)

    def under(record: R, owner: str, revision: int) -> Put[R]:
        return over(record, owner, revision).when(entity.status == OnceStatus.PROCESSING)

    def check(record: R) -> Check[R]:
        of_mine = (entity.owner == record.owner) & (entity.status == OnceStatus.PROCESSING)
        return Check[R](declaration_of(entity), tuple(key_of(record).items())).when(of_mine)

    def begun() -> R:
        return example().model_copy(update=_EXAMPLE)

    def next_one() -> tuple[R, str, int]:
        return begun().model_copy(update={"revision": 2}), EXAMPLE_OWNER, 1

    def made(number: int, name: str, purpose: str, function: Any, rate: Rate, example: Any) -> Any:
        return Pattern(_named(function, name, entity), f"{prefix}{number}", purpose, rate, example)

    what = entity.__name__
    return OncePatterns(
        claim=made(
            1, "claim", f"Claim a {what}, if nobody has", claim, rate, lambda: (begun(), EXAMPLE_MOMENT)
        ),
        retake=made(
            2, "retake", f"Take over a {what} whose worker is gone or has failed", over, rare, next_one
        ),
        change=made(
            3, "change", f"Renew, intend, give back or fail, as the owner of a {what}", under, rate, next_one
        ),
        complete=made(4, "complete", f"Complete a {what}, as its owner", under, rate, next_one),
        check=made(
            5,
            "check",
            f"That a {what} is still its worker's, for other writes",
            check,
            rare,
            lambda: (begun(),),
        ),
    )


_EXAMPLE: Final[dict[str, Any]] = {
    "owner": EXAMPLE_OWNER,
    "revision": 1,
    "attempts": 1,
    "created_at": EXAMPLE_MOMENT,
    "in_progress_expires_at": (EXAMPLE_MOMENT + timedelta(minutes=1)).timestamp(),
    # Far away: a store removes what has ended, also between two examples that are measured one after the other.
    "expires_at": EXAMPLE_END,
}


def spoken(name: str, entity: type[OnceRecord]) -> str:
    """`claim_event_record`."""
    return f"{name}_{re.sub('(?<!^)(?=[A-Z])', '_', entity.__name__).lower()}"


def _named(function: Callable[..., Any], name: str, entity: type[OnceRecord]) -> Callable[..., Any]:
    """The same function under a name of its own, with the entity in its signature where a type variable stands."""

    def named(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    named.__name__ = spoken(name, entity)
    named.__wrapped__ = function  # type: ignore[attr-defined]
    named.__annotations__ = function.__annotations__ | {"record": entity}
    return named
