"""Login sessions, stored in the cache only. If the cache is lost, users log in again.

    sessions = Sessions("session:{tenant}:{id}", Caller, "SE", lifetime_s=1800, rate=Rate("request"),
                        example={"tenant": "clinic-1"}, example_value=Caller(name="ada"))

    id = await sessions.begin(stores, Caller(name="ada"), tenant="clinic-1")
    caller = await sessions.find(stores, id, tenant="clinic-1")          # None: log in again

An id is 256 random bits without meaning. A session ends `lifetime_s` after it was last found, and
`max_lifetime_s` after it began at the latest. It is found only under its own tenant, which is part of its
key. An unavailable cache raises `CacheUnavailable`, which does not end the session: the user retries and is
still logged in.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from holdfast.core.errors import DeclarationError
from holdfast.guarantees.pattern_sets import build_pattern
from holdfast.model import CachedValue, DeleteCached, ExtendCached, GetCached, Pattern, PutCached, Rate
from holdfast.runtime import Stores

V = TypeVar("V", bound=BaseModel)

ID: Final = "id"
ID_BYTES: Final = 32
# The URL-safe base64 of 32 bytes.
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
MAX_LIFETIME_S: Final = 12 * 3600.0

Fields: TypeAlias = dict[str, str | int]


class SessionRecord(BaseModel, Generic[V], frozen=True):
    """The cached session: the system's own value, and when the session began, in epoch seconds."""

    begun_at: float
    value: V


class Sessions(Generic[V]):
    """The sessions of one key template.

    `{id}` in it is the session's id; pass every other field (a tenant) with each call.
    """

    def __init__(
        self,
        template: str,
        value: type[V],
        prefix: str,
        *,
        lifetime_s: float,
        rate: Rate,
        example: Mapping[str, str | int],
        example_value: V,
        max_lifetime_s: float = MAX_LIFETIME_S,
    ) -> None:
        if max_lifetime_s < lifetime_s:
            raise DeclarationError(
                f"Invalid max_lifetime_s={max_lifetime_s:g} of {template!r}: expected at least "
                f"lifetime_s={lifetime_s:g}."
            )
        self.lifetime_s, self.max_lifetime_s = lifetime_s, max_lifetime_s
        record: type[SessionRecord[V]] = SessionRecord[value]  # type: ignore[valid-type]
        self.cached: CachedValue[SessionRecord[V]] = CachedValue(template, record, lifetime_s=lifetime_s)
        if ID not in self.cached.key_template.fields:
            raise DeclarationError(
                f"Invalid session template {template!r}: the session id is missing. Add {{{ID}}}."
            )
        fields = {**example, ID: "e" * 43}
        self._pattern_set = _Patterns(
            self.cached, prefix, rate, fields, record(begun_at=1770166800.0, value=example_value)
        )

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that read, to grant to a component."""
        return (self._pattern_set.find,)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that write, to grant to a component."""
        return (self._pattern_set.begin, self._pattern_set.renew, self._pattern_set.end)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        """All patterns, for the system's declaration."""
        return (*self.reads, *self.writes)

    async def begin(self, stores: Stores, value: V, /, **fields: str | int) -> str:
        """Begin a session and return its id, a secret for the client that logged in."""
        id = secrets.token_urlsafe(ID_BYTES)
        record = SessionRecord(begun_at=stores.clock.now(), value=value)
        await stores.run(self._pattern_set.begin({**fields, ID: id}, record))
        return id

    async def find(self, stores: Stores, id: str, /, **fields: str | int) -> V | None:
        """Return the value of the session and extend its lifetime.

        Return None if the id is malformed, or the session does not exist, has ended or cannot be parsed; the
        last two are also deleted.
        """
        if not _SESSION_ID.fullmatch(id):
            return None
        place: Fields = {**fields, ID: id}
        record = await stores.run(self._pattern_set.find(place))
        if record is None:
            await stores.run(self._pattern_set.end(place))  # remove a record that cannot be parsed any more
            return None
        left_s = min(self.lifetime_s, record.begun_at + self.max_lifetime_s - stores.clock.now())
        if left_s <= 0:
            await stores.run(self._pattern_set.end(place))
            return None
        return record.value if await stores.run(self._pattern_set.renew(place, left_s)) else None

    async def end(self, stores: Stores, id: str, /, **fields: str | int) -> None:
        """End the session (log out); nothing happens if there is none.

        A concurrent `find` does not restore it.
        """
        if _SESSION_ID.fullmatch(id):
            await stores.run(self._pattern_set.end({**fields, ID: id}))


class _Patterns(Generic[V]):
    """The four patterns of sessions: find, begin, renew, end."""

    def __init__(
        self,
        cached: CachedValue[SessionRecord[V]],
        prefix: str,
        rate: Rate,
        fields: Fields,
        record: SessionRecord[V],
    ) -> None:
        def find_session(fields: Fields) -> GetCached[SessionRecord[V]]:
            return cached.get(**fields)

        def begin_session(fields: Fields, record: SessionRecord[V]) -> PutCached[SessionRecord[V]]:
            checked = cached.value_type.model_validate(record.model_dump())
            return cached.put(checked, lifetime_s=None, only_if_absent=True, **fields)

        def renew_session(fields: Fields, lifetime_s: float) -> ExtendCached[SessionRecord[V]]:
            return cached.extend(lifetime_s=lifetime_s, **fields)

        def end_session(fields: Fields) -> DeleteCached[SessionRecord[V]]:
            return cached.delete(**fields)

        spoken, word = f"({cached.template})", cached.template.partition(":")[0]
        self.find = build_pattern(
            find_session,
            f"{prefix}1",
            f"find_{word}",
            f"Find a session {spoken}",
            rate=rate,
            example=(fields,),
        )
        self.begin = build_pattern(
            begin_session,
            f"{prefix}2",
            f"begin_{word}",
            f"Begin a session {spoken}",
            rate=rate,
            example=(fields, record),
            argument_types={"record": cached.value_type},
        )
        self.renew = build_pattern(
            renew_session,
            f"{prefix}3",
            f"renew_{word}",
            f"Extend a session in use {spoken}",
            rate=rate,
            example=(fields, cached.lifetime_s),
        )
        self.end = build_pattern(
            end_session, f"{prefix}4", f"end_{word}", f"End a session {spoken}", rate=rate, example=(fields,)
        )
