"""`DelayedActions`: the declaration of actions that run later, and the calls to delay, review and run them.

delay     a put that delays an action
find_due  the actions that are due
approve   make it due at once
edit      change its content; the delay continues
cancel    never run it
execute   run it once, at an external service
reopen    make it due again after a permanent refusal
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from holdfast.core.errors import DeclarationError, InvalidRequest, NotFound
from holdfast.guarantees.delayed_actions.claim import OFF_QUEUE, OUTCOME_UNKNOWN
from holdfast.guarantees.delayed_actions.execution import (
    DelayedAct,
    DelayedLookUp,
    Effect,
    compute_wait_s,
    execute,
)
from holdfast.guarantees.delayed_actions.patterns import PAGE_SIZE, DelayedActionPatterns, build_patterns
from holdfast.guarantees.delayed_actions.record import DELAYED_ACTIONS, DelayedAction, truncate_to_millisecond
from holdfast.guarantees.delayed_actions.reviews import (
    OnReview,
    Review,
    ReviewDecision,
    apply_review,
    build_gone,
    build_not_pending,
    check_reviewable,
)
from holdfast.guarantees.idempotency import Completion, Once, OnceStatus, fingerprint
from holdfast.guarantees.idempotency.declaration import CLOCK_MARGIN_S, LEASE_S, RETENTION_S
from holdfast.guarantees.idempotency.external_call import RefusalWrites
from holdfast.guarantees.idempotency.patterns import EXAMPLE_TIME
from holdfast.guarantees.idempotency.record import compute_time_after, truncate_to_second
from holdfast.guarantees.pattern_sets import Guarantee, Patterns, Role
from holdfast.model.entities import Get, Put, get_declaration
from holdfast.model.entities.key_texts import parse_key_text
from holdfast.model.operations import Write
from holdfast.model.patterns import Rate
from holdfast.model.ulids import UlidGenerator
from holdfast.operations import numbers
from holdfast.runtime import Stores
from holdfast.runtime.telemetry.figures import DELAYED_ACTIONS as DELAYED_ACTION_COUNT
from holdfast.runtime.telemetry.figures import DELAYED_ACTIONS_OVERDUE, Figure, count_states

H = TypeVar("H", bound=DelayedAction)
T = TypeVar("T")

# Attributes of `DelayedAction` that the caller may set; the guarantee writes the others.
_CALLER_ATTRIBUTES: Final = frozenset({"created_at", "expires_at"})
_INITIAL: Final[dict[str, Any]] = {
    name: info.get_default()
    for name, info in DelayedAction.model_fields.items()
    if name not in _CALLER_ATTRIBUTES and not info.is_required()
}


class DelayedActions(Guarantee, Generic[H]):
    """Outgoing actions that wait, can be reviewed (approved, edited, cancelled), and run once when due.

    `payload` names the attributes in `payload_sha256`; by default all that are neither in the key nor the
    guarantee's own. `lease_s`, `retention_s` and `clock_margin_s` are those of `Once`, under whose conditions
    an action runs once; `read_rate` is how often due actions are queried. `on_review` is called for each
    review, whoever makes it: it returns the writes that belong to it, such as its event, or raises
    `InvalidRequest` to refuse it.
    """

    def __init__(  # noqa: PLR0913 - delayed actions have this many parts
        self,
        entity: type[H],
        *,
        prefix: str,
        rate: Rate,
        read_rate: Rate | None = None,
        example: H | Callable[[], H],
        payload: Sequence[str] | None = None,
        lease_s: float = LEASE_S,
        retention_s: float = RETENTION_S,
        clock_margin_s: float = CLOCK_MARGIN_S,
        on_review: OnReview[H] | None = None,
    ) -> None:
        made: Any = example if callable(example) else lambda: example

        def build_queued_example() -> H:
            record: H = made()
            return record.model_copy(update={"queue": DELAYED_ACTIONS, "held_until": EXAMPLE_TIME})

        self.name, self.entity = entity.__name__, entity
        self._once = Once(
            entity,
            prefix=prefix,
            rate=rate,
            example=build_queued_example,
            lease_s=lease_s,
            retention_s=retention_s,
            clock_margin_s=clock_margin_s,
        )
        self.pattern_set: DelayedActionPatterns[H] = build_patterns(
            entity, prefix, rate, read_rate or rate, made, self._once.pattern_set, lease_s
        )
        self._once.pattern_set = replace(self._once.pattern_set, retake=self.pattern_set.take)
        self.payload, self._on_review = _choose_payload(entity, payload), on_review
        self.adopt_patterns()

    @property
    def author(self) -> Patterns:
        """The role that delays actions."""
        return (self.pattern_set.hold,)

    @property
    def reviewer(self) -> Patterns:
        """The role that approves, edits, cancels and reopens actions."""
        return (self.pattern_set.one, self.pattern_set.review)

    @property
    def executor(self) -> Role:
        """The role that finds due actions, executes them, and reports how many wait."""
        use = self.pattern_set
        patterns = (use.due, use.one, use.take, use.change, use.complete, use.waiting)
        return Role(patterns, figure_sources=(self,))

    def delay(self, stores: Stores, record: H, *, for_s: float) -> Put[H]:
        """Return a put that delays the action for `for_s` seconds, for the transaction of its cause.

        Its key must be new. Raises `InvalidRequest` if the record would expire before the action is due.
        """
        now = stores.clock.now()
        until = _compute_time_in(now, for_s)
        lasting = _compute_time_in(now, for_s + self._once.retention_s)
        ends = record.expires_at or lasting.replace(microsecond=0)
        if ends <= until:
            raise InvalidRequest(
                f"Invalid delay of {record.describe()} until {until}: its record expires at {ends}, so it "
                "would never be done. Shorten the delay, or set a later expires_at."
            )
        changes = _INITIAL | {
            "status": OnceStatus.HELD,
            "owner": UlidGenerator(stores.clock).new(),
            "revision": 1,
            "created_at": record.created_at or truncate_to_second(now),
            "expires_at": ends,
            "queue": DELAYED_ACTIONS,
            "held_until": until,
            "held_since": compute_time_after(now, 0),
            "payload_sha256": self._fingerprint(record),
        }
        return self.pattern_set.hold(record.model_copy(update=changes))

    # --- while it waits -----------------------------------------------------------------------------------

    async def approve(self, stores: Stores, seen: H, *writes: Write[Any], by: str) -> H:
        """Make the action due at once, commit `writes` with that, and return the changed record.

        `by` is the reviewer. `seen` is the record as the reviewer read it. Raises `NotPending` if it no
        longer waits, `ConditionFailed` if it was changed since.
        """
        check_reviewable(seen, stores.clock.now())
        now = truncate_to_millisecond(stores.clock.now())
        due_at = min(seen.held_until or now, now)
        changes = {"held_until": due_at, "held_since": due_at.timestamp(), "reviewed_by": by}
        changes |= {"review": "approved"}
        review = Review(ReviewDecision.APPROVED, seen, by)
        return await self._apply(stores, review, writes, changes)

    async def edit(self, stores: Stores, seen: H, *writes: Write[Any], by: str, **changes: Any) -> H:
        """Change the action's own attributes, commit `writes` with that, and return the record; the delay
        continues.

        Raises `InvalidRequest` for keys and the guarantee's own attributes, `NotPending` and
        `ConditionFailed` as `approve` does.
        """
        self._check_edit(changes)
        check_reviewable(seen, stores.clock.now())
        content = seen.model_copy(update=changes)
        review = Review(ReviewDecision.EDITED, seen, by, changes=dict(changes))
        changes |= {"payload_sha256": self._fingerprint(content), "reviewed_by": by, "review": "edited"}
        return await self._apply(stores, review, writes, changes)

    async def cancel(
        self, stores: Stores, seen: H, *writes: Write[Any], by: str, reason: str | None = None
    ) -> H:
        """Cancel the action, so that it never runs, and commit `writes` with that.

        Raises as `approve` does.
        """
        check_reviewable(seen, stores.clock.now())
        changes = {"status": OnceStatus.CANCELLED, "reviewed_by": by, "review": reason or "cancelled"}
        review = Review(ReviewDecision.CANCELLED, seen, by, reason)
        return await self._apply(stores, review, writes, changes | OFF_QUEUE)

    async def reopen(self, stores: Stores, seen: H, *writes: Write[Any], by: str) -> H:
        """Make the action due again after a permanent refusal, once an operator has confirmed that the reason
        is gone.

        For a refusal as `OUTCOME_UNKNOWN` the operator confirms that the action was not done, and it runs.
        The refusal of a repeat leaves the outcome of the earlier attempt open: the action is then repeated
        under its key, or looked up, never blindly. Raises `NotPending` if it was not refused.
        """
        if seen.refused is None:
            raise build_not_pending(seen)
        if seen.has_expired(stores.clock.now()):
            raise build_gone(seen)
        is_open = seen.asked_since is not None and seen.refused != OUTCOME_UNKNOWN
        changes = {
            # An action that may have been done cannot be edited or cancelled.
            "status": OnceStatus.FAILED if is_open else OnceStatus.HELD,
            "queue": DELAYED_ACTIONS,
            "held_until": truncate_to_millisecond(stores.clock.now()),
            "held_since": compute_time_after(stores.clock.now(), 0),
            "refused": None,
            "error": None,
            "asked_since": seen.asked_since if is_open else None,
            "reviewed_by": by,
            "review": "reopened",
        }
        return await self._apply(stores, Review(ReviewDecision.REOPENED, seen, by), writes, changes)

    async def get(self, stores: Stores, key: str) -> H:
        """Return the action with this key as one text, as `format_key` writes it. Raise `NotFound`."""
        declaration = get_declaration(self.entity)
        get = Get[H](declaration, parse_key_text(declaration, key)).consistent()
        found: H | None = await stores.run(get.with_pattern(self.pattern_set.one.id))
        if found is None:
            raise NotFound(f"No {self.entity.__name__} {key!r:.80}: it was never delayed, or has expired.")
        return found

    async def _apply(
        self, stores: Stores, review: Review[H], writes: Sequence[Write[Any]], changes: dict[str, Any]
    ) -> H:
        """Commit a review with the caller's writes and the declared ones."""
        declared = () if self._on_review is None else self._on_review(stores, review)
        return await apply_review(self.pattern_set, stores, review.seen, (*writes, *declared), changes)

    # --- when it is due -----------------------------------------------------------------------------------

    async def find_due(self, stores: Stores, page_size: int = PAGE_SIZE) -> list[H]:
        """Return all actions that are due, oldest first.

        Once per `lease_s`, also look for those that a clock ahead of this one delayed or took: they are due
        when this process has seen them for as long as they can wait.
        """
        due = list(await stores.all(self.pattern_set.due(stores.now(), page_size)))
        if stores.deadlines.should_look(self.name, self._once.lease_s):
            ahead = await stores.all(self.pattern_set.due(stores.now(), page_size, is_ahead=True))
            due += [each for each in ahead if compute_wait_s(self._once, stores, each) <= 0]
        return due

    async def execute(
        self,
        stores: Stores,
        record: H,
        *,
        act: DelayedAct[H, T],
        look_up: DelayedLookUp[H, T] | None = None,
        takes_key: bool = False,
        key_kept_s: float | None = None,
        act_s: float,
        writes: Callable[[T], Sequence[Write[Any]]] = lambda _: (),
        refused: RefusalWrites = lambda _: (),
    ) -> Completion[H]:
        """Run the action once, as it is now: `act` and `look_up` get the freshly read record and its key as
        text.

        As in `Once.call_external`: intent, call, outcome. An action with an unknown outcome is looked up, or
        repeated under its key, but only while the service keeps the key (`key_kept_s`; None for ever). The
        same holds for one that has been due for longer than a lease. The writes that `writes` returns for the
        outcome, or `refused` for a permanent refusal, are committed with it.

        Raises `InProgress` if it is not due yet or another worker has it, `NotPending` if it was cancelled or
        is gone, and `ExternalServiceRefused` if it was refused permanently.
        """
        effect = Effect(act, look_up, takes_key, key_kept_s, act_s, writes, refused)
        return await execute(self._once, self.pattern_set, stores, record, effect)

    # --- how many wait --------------------------------------------------------------------------------------

    @property
    def figures_name(self) -> str:
        return f"delayed actions {self.name}"

    @property
    def figure_patterns(self) -> Patterns:
        """The pattern that reads when each action is due, for the metrics of a process that may run it."""
        return (self.pattern_set.waiting,)

    async def read_figures(self, stores: Stores) -> list[Figure]:
        """Return how many actions wait and are due, and how long the first of these has been, for the
        metrics.
        """
        now, labels = stores.now(), {"actions": self.name}
        times = [row[self.entity.held_until] for row in await stores.all(self.pattern_set.waiting())]
        late_s = [(now - each).total_seconds() for each in times if each is not None and each <= now]
        counts = {"waiting": len(times) - len(late_s), "due": len(late_s)}
        overdue = Figure(DELAYED_ACTIONS_OVERDUE, max(late_s, default=0.0), labels)
        return [*count_states(DELAYED_ACTION_COUNT, counts, **labels), overdue]

    # --- its content --------------------------------------------------------------------------------------

    def _fingerprint(self, record: H) -> str:
        """Return the SHA-256 of the payload attributes."""
        attributes = get_declaration(self.entity).attributes
        content = {name: attributes[name].encode(getattr(record, name)) for name in self.payload}
        return fingerprint(json.dumps(content, sort_keys=True, default=_to_json_value))

    @property
    def editable(self) -> tuple[str, ...]:
        """The attributes that `edit` may change: neither in the key nor the guarantee's own."""
        return tuple(sorted(self.entity.model_fields.keys() - _get_fixed_names(self.entity)))

    def _check_edit(self, changes: dict[str, Any]) -> None:
        """Raise `InvalidRequest` for no changes, for unknown attributes, and for those that cannot be
        edited.
        """
        if not changes:
            raise InvalidRequest("Invalid edit: no changes. Pass the attributes and their new values.")
        if strangers := sorted(changes.keys() - self.entity.model_fields.keys()):
            raise InvalidRequest(
                f"Invalid edit: {self.entity.__name__} has no attribute {', '.join(strangers)}."
            )
        if fixed := sorted(changes.keys() & _get_fixed_names(self.entity)):
            raise InvalidRequest(
                f"Invalid edit of {', '.join(fixed)}: in the key of {self.entity.__name__} or written by the "
                "guarantee. Cancel the action and delay another."
            )


def _compute_time_in(now: float, seconds: float) -> datetime:
    """Return the time `seconds` after `now`, cut to milliseconds; raise `InvalidRequest` if there is no such
    datetime.
    """
    with suppress(ValueError, OverflowError, OSError):  # beyond the range of datetime
        if math.isfinite(seconds) and seconds >= 0:
            return truncate_to_millisecond(now + seconds)
    raise InvalidRequest(
        f"Invalid delay of {seconds!s:.20} s: expected seconds from 0 up, with an end that a datetime can "
        "represent."
    )


def _choose_payload(entity: type[DelayedAction], payload: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the payload attributes: the given ones, or all that can be edited.

    Raise `DeclarationError` if a given one cannot be edited.
    """
    free = sorted(entity.model_fields.keys() - _get_fixed_names(entity))
    if payload is None:
        return tuple(free)
    if strangers := sorted(set(payload) - set(free)):
        raise DeclarationError(
            f"Invalid payload: {', '.join(strangers)} cannot be edited. Choose from "
            f"{', '.join(free) or 'attributes of your own, of which none is declared'}."
        )
    return tuple(payload)


def _get_fixed_names(entity: type[DelayedAction]) -> frozenset[str]:
    """Return the attributes that cannot be edited: those of the key and those of the guarantee."""
    return get_declaration(entity).primary.attribute_names | DelayedAction.model_fields.keys()


def _to_json_value(value: Any) -> Any:
    """Return a Decimal, bytes or a set as JSON text or a sorted list, always the same for the same
    content.
    """
    if isinstance(value, Decimal):
        return numbers.to_text(value)
    if isinstance(value, bytes):
        return value.hex()
    return sorted(str(_to_json_value(each)) for each in value)
