"""`Once`: what a system declares, and the ways to use it.

claim     the record claimed, to be completed by the caller
do        an effect in tables: claimed, done and completed, or its stored result
applied   the same, as a decorator
outside   an effect at an outside party: intent, act, outcome; looked up before it is repeated
reopen    what a party refused for good may be claimed again
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from holdfast.errors import DeclarationError, IdempotencyMismatch, InProgress, InvalidRequest, PartyRefused
from holdfast.guarantees.lifetimes import kept
from holdfast.guarantees.once.claim import TRIES_MAX, Claim, Done, busy, stored
from holdfast.guarantees.once.outside import Act, Deadline, LookUp, acted, refuse_unsafe
from holdfast.guarantees.once.patterns import OncePatterns, patterns_of
from holdfast.guarantees.once.record import (
    OnceRecord,
    OnceStatus,
    end_of,
    moment_after,
    whole_second,
)
from holdfast.guarantees.once.working import worked
from holdfast.model import Pattern, Put, Rate, Ulids, Write, declaration_of
from holdfast.runtime import Stores

R = TypeVar("R", bound=OnceRecord)
T = TypeVar("T")
P = ParamSpec("P")

LEASE_S: Final = 60.0
LIFETIME_S: Final = 30 * 24 * 3600.0

# Of a record that is claimed for the first time, or anew: whatever the caller's has there.
_UNDONE: Final[dict[str, Any]] = dict.fromkeys(("result", "error", "act_until", "last_processed_at"))


class Once(Generic[R]):
    """Something that happens once per record, however often it is asked for and whoever dies over it.

    `lease_s` is how long a worker may go without a sign of life before another takes over, `lifetime_s` how long the
    result is kept and a repeat recognised.
    """

    def __init__(
        self,
        entity: type[R],
        prefix: str,
        *,
        rate: Rate,
        example: R | Callable[[], R],
        lease_s: float = LEASE_S,
        lifetime_s: float = LIFETIME_S,
    ) -> None:
        self.entity, self.lease_s, self.lifetime_s = entity, lease_s, lifetime_s
        _refuse_misfits(entity, lease_s, lifetime_s)
        kept(entity, lifetime_s, "so long a repeat is recognised; the record may say another end")
        made: Any = example if callable(example) else lambda: example
        self.patterns: OncePatterns[R] = patterns_of(entity, prefix, rate, made)

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return self.patterns.reads

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return self.patterns.writes

    async def claim(self, stores: Stores, record: R, *, act_s: float | None = None) -> Claim[R] | Done[R]:
        """The right to do it; or, where it is done, its stored result.

        With `act_s`, the first claim of a record says with the same write that an outside party is about to act.

        Raises `InProgress` while another works on it, `IdempotencyMismatch` when the key was used for another payload,
        and `PartyRefused` when a party has refused it for good.
        """
        return await self._claimed(stores, record, act_s)

    async def reopen(self, stores: Stores, record: R) -> None:
        """Lets what a party refused for good be claimed again: the reason is gone, and somebody says so."""
        taken = await self._claimed(stores, record, reopens=True)
        if isinstance(taken, Claim):
            await taken.release()

    async def do(self, stores: Stores, record: R, effect: Callable[[Claim[R]], Awaitable[object]]) -> Done[R]:
        """Does it, once. `effect` may complete the claim itself, with its writes; else what it returns is the result."""
        taken = await self.claim(stores, record)
        return taken if isinstance(taken, Done) else await worked(taken, effect)

    def applied(
        self, record: Callable[P, R]
    ) -> Callable[
        [Callable[Concatenate[Stores, Claim[R], P], Awaitable[object]]],
        Callable[Concatenate[Stores, P], Awaitable[Done[R]]],
    ]:
        """As a decorator. `record` makes the record of the same arguments that the function takes after the claim."""

        def decorated(
            function: Callable[Concatenate[Stores, Claim[R], P], Awaitable[object]],
        ) -> Callable[Concatenate[Stores, P], Awaitable[Done[R]]]:
            @functools.wraps(function)
            async def once(stores: Stores, /, *args: P.args, **kwargs: P.kwargs) -> Done[R]:
                return await self.do(
                    stores, record(*args, **kwargs), lambda claim: function(stores, claim, *args, **kwargs)
                )

            return once

        return decorated

    async def outside(
        self,
        stores: Stores,
        record: R,
        *,
        act: Act[T],
        look_up: LookUp[T] | None = None,
        takes_key: bool = False,
        act_s: float,
        writes: Callable[[T], Sequence[Write[Any]]] = lambda _: (),
    ) -> Done[R]:
        """Does it at an outside party. `act` and `look_up` are called with the record's key as text.

        `act` has until shortly before `act_s` seconds have passed. Where it may have been done and nobody knows,
        the next attempt waits out that deadline and asks `look_up`, which gives the outcome, or None where the party
        has none; only then it acts. `takes_key=True` says that the party takes `act`'s key as an idempotency key, so
        that it can be asked again instead of looked up. What `writes` makes of the outcome is written with it.
        """
        refuse_unsafe(self.entity.__name__, look_up is not None, takes_key, act_s, self.lease_s)
        began = asyncio.get_running_loop().time()
        taken = await self.claim(stores, record, act_s=act_s)
        if isinstance(taken, Done):
            return taken
        return await acted(taken, act, look_up, Deadline(act_s, began), writes)

    # --- claiming ---------------------------------------------------------------------------------------------

    async def _claimed(
        self, stores: Stores, record: R, act_s: float | None = None, *, reopens: bool = False
    ) -> Claim[R] | Done[R]:
        seen: R | None = None
        for _ in range(TRIES_MAX):
            now = stores.clock.now()
            put = (
                self._fresh(stores, record, now, act_s)
                if seen is None
                else self._retake(stores, record, seen, now)
            )
            found = await stored(stores, put)
            if found is None:
                ends = self._wanted_end(record, now)
                return Claim(self, stores, put.entity, ends, has_intent=seen is None and act_s is not None)
            seen = self.entity.from_item(found) if found else None
            if seen is None or seen.is_forgotten(stores.clock.now()):
                seen = None
            elif self._is_done(seen, record, stores.clock.now(), reopens=reopens):
                return Done(seen, replayed=True)
        raise busy()

    def _fresh(self, stores: Stores, record: R, now: float, act_s: float | None) -> Put[R]:
        act_until = None if act_s is None else moment_after(now, act_s)
        changes = _UNDONE | self.begun(stores, record, now, act_until) | {"attempts": 1, "revision": 1}
        changes["created_at"] = record.created_at or whole_second(now)
        return self.patterns.claim(record.model_copy(update=changes), whole_second(now))

    def _retake(self, stores: Stores, record: R, seen: R, now: float) -> Put[R]:
        """What the worker before has left stays: since when it is known, and what a party was asked to do."""
        return self.retaken(seen, self.begun(stores, record, now, seen.act_until))

    def retaken(self, seen: R, begun: dict[str, Any]) -> Put[R]:
        """The record that was seen taken over, and one more attempt counted; unless somebody was there meanwhile."""
        changes = begun | {"attempts": seen.attempts + 1, "revision": seen.revision + 1}
        return self.patterns.retake(seen.model_copy(update=changes), seen.owner, seen.revision)

    def begun(self, stores: Stores, record: R, now: float, act_until: float | None) -> dict[str, Any]:
        """A record outlives its lease and what it must tell of an intent, also where the caller says when it ends."""
        until = moment_after(now, self.lease_s)
        kept_until = None if act_until is None else now + self.lifetime_s
        return {
            "status": OnceStatus.PROCESSING,
            "owner": Ulids(stores.clock).new(),
            "in_progress_expires_at": until,
            "act_until": act_until,
            "refused": None,
            "expires_at": end_of(self._wanted_end(record, now), until, kept_until),
        }

    def _wanted_end(self, record: R, now: float) -> datetime:
        return record.expires_at or whole_second(now + self.lifetime_s)

    def _is_done(self, seen: R, record: R, now: float, *, reopens: bool) -> bool:
        """Whether it is processed. Raises where it is another's, refused, or another thing altogether."""
        if seen.payload_sha256 != record.payload_sha256:
            raise IdempotencyMismatch(
                f"{record.spoken()} was used before with another payload: the same key stands for the same content. "
                "Use a new key for new content."
            )
        if seen.status in (OnceStatus.HELD, OnceStatus.CANCELLED):
            raise InvalidRequest(
                f"{record.spoken()} is {seen.status} in a hold queue, which alone may do it: call its execute."
            )
        if seen.status is OnceStatus.PROCESSED:
            return True
        if seen.refused is not None and not reopens:
            raise PartyRefused(
                seen.refused,
                f"{record.spoken()} was refused for good before ({seen.refused}), and the party was not asked again. End "
                "what asks for it; where the reason is gone, call reopen.",
            )
        if seen.is_live_until() > now:
            wait_s = seen.is_live_until() - now
            raise InProgress(
                f"{record.spoken()} is being worked on, or may be until {wait_s:.1f} s from now: come again then, and "
                "do not acknowledge it before.",
                retry_after_s=wait_s,
            )
        return False


def _refuse_misfits(entity: type[OnceRecord], lease_s: float, lifetime_s: float) -> None:
    declaration = declaration_of(entity)
    stored_as = declaration.attributes["expires_at"].stored
    if declaration.table.ttl != stored_as:
        raise DeclarationError(
            f"{entity.__name__} ends by its expires_at, which is stored as {stored_as}, and the table "
            f"{declaration.table.name} ends lives by {declaration.table.ttl or 'nothing'}: declare "
            f"Table({declaration.table.name!r}, …, ttl={stored_as!r})."
        )
    if not 0 < lease_s < lifetime_s:
        raise DeclarationError(
            f"Once({entity.__name__}) has a lease of {lease_s:g} s and a lifetime of {lifetime_s:g} s: the lease is above "
            "0, and the record must outlive it."
        )
