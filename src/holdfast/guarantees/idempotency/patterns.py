"""The five access patterns of a `Once`: claim, take over, change, complete and check a record.

Each puts the whole record, on condition that the record is in the state it was read in. An owner and a
revision are written only once, so a put that arrives twice or late changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from holdfast.guarantees.idempotency.record import OnceRecord, OnceStatus, get_key
from holdfast.guarantees.pattern_sets import PatternSet
from holdfast.model.entities import Condition, ConditionCheck, Put, get_declaration
from holdfast.model.patterns import Pattern, Rate
from holdfast.operations.expressions import nodes

R = TypeVar("R", bound=OnceRecord)

# Share of claims that take over from a worker that did not finish. A guess, for the cost estimate.
RETAKE_SHARE: Final = 0.01

EXAMPLE_TIME: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)
EXAMPLE_END: Final = datetime(2126, 2, 4, 1, tzinfo=UTC)
EXAMPLE_OWNER: Final = "01KGK5CD00EXAMPLE000000000"


@dataclass(frozen=True)
class OncePatterns(PatternSet, Generic[R]):
    """The patterns of a `Once`."""

    claim: Pattern[[R, datetime], Put[R]]
    retake: Pattern[[R, str, int], Put[R]]
    change: Pattern[[R, str, int], Put[R]]
    complete: Pattern[[R, str, int], Put[R]]
    check: Pattern[[R], ConditionCheck[R]]


def build_patterns(entity: type[R], prefix: str, rate: Rate, example: Callable[[], R]) -> OncePatterns[R]:
    """Build the five patterns, `{prefix}1` to `{prefix}5`."""
    there = nodes.Path(get_declaration(entity).table.partition)
    absent = Condition[R](nodes.AttributeNotExists(there))
    rare = Rate(rate.per, rate.times * RETAKE_SHARE)

    def claim(record: R, now: datetime) -> Put[R]:
        ended: Condition[R] = entity.expires_at < now
        # A record with an open intent is never replaced: its outcome is looked up first.
        forgotten = ended & entity.act_until.not_exists()
        return entity.put(record).when(absent | forgotten)

    def over(record: R, owner: str, revision: int) -> Put[R]:
        return entity.put(record).when(entity.owner == owner, entity.revision == revision)

    def under(record: R, owner: str, revision: int) -> Put[R]:
        return over(record, owner, revision).when(entity.status == OnceStatus.PROCESSING)

    def check(record: R) -> ConditionCheck[R]:
        of_mine = (entity.owner == record.owner) & (entity.status == OnceStatus.PROCESSING)
        return ConditionCheck[R](get_declaration(entity), tuple(get_key(record).items())).when(of_mine)

    def build_example() -> R:
        return example().model_copy(update=_EXAMPLE)

    def build_change_example() -> tuple[R, str, int]:
        return build_example().model_copy(update={"revision": 2}), EXAMPLE_OWNER, 1

    def build_one(number: int, name: str, purpose: str, function: Any, rate: Rate, example: Any) -> Any:
        return Pattern(_copy_as(function, name, entity), f"{prefix}{number}", purpose, rate, example)

    what = entity.__name__
    return OncePatterns(
        claim=build_one(
            1, "claim", f"Claim an unclaimed {what}", claim, rate, lambda: (build_example(), EXAMPLE_TIME)
        ),
        retake=build_one(
            2, "retake", f"Take over the {what} of a dead or failed worker", over, rare, build_change_example
        ),
        change=build_one(
            3,
            "change",
            f"Renew, release or fail the {what}, or record an intent, as its owner",
            under,
            rate,
            build_change_example,
        ),
        complete=build_one(
            4, "complete", f"Complete the {what}, as its owner", under, rate, build_change_example
        ),
        check=build_one(
            5,
            "check",
            f"Check that a worker still owns the {what}, in a transaction with other writes",
            check,
            rare,
            lambda: (build_example(),),
        ),
    )


_EXAMPLE: Final[dict[str, Any]] = {
    "owner": EXAMPLE_OWNER,
    "revision": 1,
    "attempts": 1,
    "created_at": EXAMPLE_TIME,
    "in_progress_expires_at": (EXAMPLE_TIME + timedelta(minutes=1)).timestamp(),
    # Far in the future: a store could remove an expired example between two measurements.
    "expires_at": EXAMPLE_END,
}


def build_pattern_name(name: str, entity: type[OnceRecord]) -> str:
    """Return `name` followed by the entity's name in snake case, such as `claim_event_record`."""
    return f"{name}_{re.sub('(?<!^)(?=[A-Z])', '_', entity.__name__).lower()}"


def _copy_as(function: Callable[..., Any], name: str, entity: type[OnceRecord]) -> Callable[..., Any]:
    """Return a wrapper of the function under the pattern's name, with the entity as the type of `record`."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    wrapper.__name__ = build_pattern_name(name, entity)
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    wrapper.__annotations__ = function.__annotations__ | {"record": entity}
    return wrapper
