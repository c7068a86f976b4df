"""`HoldQueue`: what a system declares, and the ways to use it.

held      a put that holds something for a time
approve   it is due at once
edit      its content changes, and the hold goes on
cancel    it is never done
due       what is due, oldest first
execute   done once, at an outside party
reopen    what was refused for good is due again
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

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.guarantees.hold_queue.claim import LEFT, OUTCOME_UNKNOWN
from holdfast.guarantees.hold_queue.executing import Effect, HeldAct, HeldLookUp, executed
from holdfast.guarantees.hold_queue.patterns import HoldPatterns, patterns_of
from holdfast.guarantees.hold_queue.record import HELD, HeldRecord, millisecond
from holdfast.guarantees.hold_queue.reviewing import gone, not_held, refuse_ended, reviewed
from holdfast.guarantees.once import Done, Once, OnceStatus, fingerprint
from holdfast.guarantees.once.declaration import LEASE_S, LIFETIME_S
from holdfast.guarantees.once.outside import Refusal
from holdfast.guarantees.once.patterns import EXAMPLE_MOMENT
from holdfast.guarantees.once.record import whole_second
from holdfast.model import Pattern, Put, Query, Rate, Ulids, Write, declaration_of
from holdfast.operations import numbers
from holdfast.runtime import Stores

H = TypeVar("H", bound=HeldRecord)
T = TypeVar("T")

# The caller's own of what a held record has; all else is written by the queue.
_GIVEN: Final = frozenset({"created_at", "expires_at"})
_FRESH: Final[dict[str, Any]] = {
    name: info.get_default()
    for name, info in HeldRecord.model_fields.items()
    if name not in _GIVEN and not info.is_required()
}


class HoldQueue(Generic[H]):
    """What goes outward waits, can be approved, edited or cancelled meanwhile, and is done once when it is due.

    `payload` are the attributes that `payload_sha256` is made of; where none are named, all that are neither in the key
    nor the guarantee's own. `lease_s` and `lifetime_s` are those of `Once`; `reading` is how often it is looked for what
    is due.
    """

    def __init__(
        self,
        entity: type[H],
        prefix: str,
        *,
        rate: Rate,
        example: H | Callable[[], H],
        payload: Sequence[str] | None = None,
        lease_s: float = LEASE_S,
        lifetime_s: float = LIFETIME_S,
        reading: Rate | None = None,
    ) -> None:
        made: Any = example if callable(example) else lambda: example

        def queued() -> H:
            record: H = made()
            return record.model_copy(update={"queue": HELD, "held_until": EXAMPLE_MOMENT})

        self.entity = entity
        self._once = Once(entity, prefix, rate=rate, example=queued, lease_s=lease_s, lifetime_s=lifetime_s)
        self.patterns: HoldPatterns[H] = patterns_of(
            entity, prefix, rate, reading or rate, made, self._once.patterns
        )
        self._once.patterns = replace(self._once.patterns, retake=self.patterns.take)
        self.due: Pattern[..., Query[H]] = self.patterns.due
        self.payload = _payload_of(entity, payload)

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return self.patterns.reads

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return self.patterns.writes

    def held(self, stores: Stores, record: H, *, for_s: float) -> Put[H]:
        """Holds it for so long; a put to stand in a transaction with what it follows from. Its key must be a new one."""
        now = stores.clock.now()
        until = _moment_in(now, for_s)
        lasting = _moment_in(now, for_s + self._once.lifetime_s)
        ends = record.expires_at or lasting.replace(microsecond=0)
        if ends <= until:
            raise InvalidRequest(
                f"{record.spoken()} would be held until {until}, and its life ends at {ends}: it would never be done. "
                "Hold it for less, or let it live longer."
            )
        changes = _FRESH | {
            "status": OnceStatus.HELD,
            "owner": Ulids(stores.clock).new(),
            "revision": 1,
            "created_at": record.created_at or whole_second(now),
            "expires_at": ends,
            "queue": HELD,
            "held_until": until,
            "payload_sha256": self._fingerprint(record),
        }
        return self.patterns.hold(record.model_copy(update=changes))

    # --- while it waits ---------------------------------------------------------------------------------------

    async def approve(self, stores: Stores, seen: H, *writes: Write[Any], by: str) -> H:
        """It is due at once. Raises `NotHeld` where it does not wait any more, `ConditionFailed` where it was changed."""
        refuse_ended(seen, stores.clock.now())
        now = millisecond(stores.clock.now())
        changes = {"held_until": min(seen.held_until or now, now), "reviewed_by": by, "review": "approved"}
        return await reviewed(self.patterns, stores, seen, writes, changes)

    async def edit(self, stores: Stores, seen: H, *writes: Write[Any], by: str, **changes: Any) -> H:
        """Its content is another, and the hold goes on. Keys, ids and what the guarantee writes cannot be changed."""
        self._refuse_fixed(changes)
        refuse_ended(seen, stores.clock.now())
        content = seen.model_copy(update=changes)
        changes |= {"payload_sha256": self._fingerprint(content), "reviewed_by": by, "review": "edited"}
        return await reviewed(self.patterns, stores, seen, writes, changes)

    async def cancel(
        self, stores: Stores, seen: H, *writes: Write[Any], by: str, reason: str | None = None
    ) -> H:
        """It is never done."""
        refuse_ended(seen, stores.clock.now())
        changes = {"status": OnceStatus.CANCELLED, "reviewed_by": by, "review": reason or "cancelled"}
        return await reviewed(self.patterns, stores, seen, writes, changes | LEFT)

    async def reopen(self, stores: Stores, seen: H, *writes: Write[Any], by: str) -> H:
        """What was refused for good is due again: the reason is gone, and somebody says so.

        Of one that was refused as `OUTCOME_UNKNOWN` they say that it was not done, and it is done. A refusal of a repeat
        leaves open what the attempt before did: it is then asked for under its key, or looked up, and never blindly.
        """
        if seen.refused is None:
            raise not_held(seen)
        if seen.has_ended(stores.clock.now()):
            raise gone(seen)
        is_open = seen.asked_since is not None and seen.refused != OUTCOME_UNKNOWN
        changes = {
            # What may have been done cannot be edited or cancelled.
            "status": OnceStatus.FAILED if is_open else OnceStatus.HELD,
            "queue": HELD,
            "held_until": millisecond(stores.clock.now()),
            "refused": None,
            "error": None,
            "asked_since": seen.asked_since if is_open else None,
            "reviewed_by": by,
            "review": "reopened",
        }
        return await reviewed(self.patterns, stores, seen, writes, changes)

    # --- when it is due ---------------------------------------------------------------------------------------

    async def execute(
        self,
        stores: Stores,
        record: H,
        *,
        act: HeldAct[H, T],
        look_up: HeldLookUp[H, T] | None = None,
        takes_key: bool = False,
        key_kept_s: float | None = None,
        act_s: float,
        writes: Callable[[T], Sequence[Write[Any]]] = lambda _: (),
        refused: Refusal = lambda _: (),
    ) -> Done[H]:
        """Does it once, as it is now: `act` and `look_up` are called with the record read afresh and its key as text.

        As `Once.outside`: intent, act, outcome; one whose outcome is open is looked up, or repeated under its key, and
        that only as long as the party keeps it (`key_kept_s`; None for ever). So is one that has been due for longer than
        a lease, and should have been done before. What `writes` makes of the outcome, or `refused` of a refusal for good,
        is written with it.

        Raises `InProgress` where it is not due yet or another is at it, `NotHeld` where it was cancelled or is gone, and
        `PartyRefused` where it was refused for good.
        """
        effect = Effect(act, look_up, takes_key, key_kept_s, act_s, writes, refused)
        return await executed(self._once, self.patterns, stores, record, effect)

    # --- its content ------------------------------------------------------------------------------------------

    def _fingerprint(self, record: H) -> str:
        attributes = declaration_of(self.entity).attributes
        content = {name: attributes[name].encode(getattr(record, name)) for name in self.payload}
        return fingerprint(json.dumps(content, sort_keys=True, default=_as_text))

    def _refuse_fixed(self, changes: dict[str, Any]) -> None:
        if not changes:
            raise InvalidRequest("An edit changes something: name the attributes and their new values.")
        if strangers := sorted(changes.keys() - self.entity.model_fields.keys()):
            raise InvalidRequest(f"{self.entity.__name__} has no {', '.join(strangers)}.")
        if fixed := sorted(changes.keys() & _fixed_of(self.entity)):
            raise InvalidRequest(
                f"{', '.join(fixed)} is in the key of {self.entity.__name__} or written by the hold queue, and is not "
                "edited: cancel it and hold another."
            )


def _moment_in(now: float, seconds: float) -> datetime:
    with suppress(ValueError, OverflowError, OSError):  # of what no calendar has
        if math.isfinite(seconds) and seconds >= 0:
            return millisecond(now + seconds)
    raise InvalidRequest(
        f"Nothing can be held for {seconds!s:.20} s: give seconds from 0 up, with an end that a calendar has."
    )


def _payload_of(entity: type[HeldRecord], payload: Sequence[str] | None) -> tuple[str, ...]:
    free = sorted(entity.model_fields.keys() - _fixed_of(entity))
    if payload is None:
        return tuple(free)
    if strangers := sorted(set(payload) - set(free)):
        raise DeclarationError(
            f"The payload of a hold queue is what can be edited, and {', '.join(strangers)} cannot: name some of "
            f"{', '.join(free) or 'the attributes that are still to be declared'}."
        )
    return tuple(payload)


def _fixed_of(entity: type[HeldRecord]) -> frozenset[str]:
    return declaration_of(entity).primary.uses_of_key | HeldRecord.model_fields.keys()


def _as_text(value: Any) -> Any:
    """What JSON has no form for, so that the same content has the same text."""
    if isinstance(value, Decimal):
        return numbers.text(value)
    if isinstance(value, bytes):
        return value.hex()
    return sorted(str(_as_text(each)) for each in value)
