"""Login sessions, stored in the cache only. If the cache is lost, users log in again.

    sessions = Sessions("session:{tenant}:{id}", Caller, prefix="SE", rate=Rate("request"), lifetime_s=1800,
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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from holdfast.core.errors import DeclarationError
from holdfast.core.rng import make_url_token
from holdfast.guarantees.pattern_sets import Guarantee, PatternSet, build_pattern
from holdfast.model.cache import CachedValue, DeleteCached, ExtendCached, GetCached, PutCached
from holdfast.model.patterns import Pattern, Rate
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


@dataclass(frozen=True)
class SessionPatterns(PatternSet, Generic[V]):
    """The patterns of `Sessions`."""

    find: Pattern[[Fields], GetCached[SessionRecord[V]]]
    begin: Pattern[[Fields, SessionRecord[V]], PutCached[SessionRecord[V]]]
    renew: Pattern[[Fields, float], ExtendCached[SessionRecord[V]]]
    end: Pattern[[Fields], DeleteCached[SessionRecord[V]]]


class Sessions(Guarantee, Generic[V]):
    """The sessions of one key template.

    `{id}` in it is the session's id; pass every other field (a tenant) with each call.
    """

    def __init__(
        self,
        template: str,
        value: type[V],
        *,
        prefix: str,
        rate: Rate,
        example: Mapping[str, str | int],
        example_value: V,
        lifetime_s: float,
        max_lifetime_s: float = MAX_LIFETIME_S,
    ) -> None:
        if max_lifetime_s < lifetime_s:
            raise DeclarationError(
                f"Invalid max_lifetime_s={max_lifetime_s:g} of {template!r}: expected at least "
                f"lifetime_s={lifetime_s:g}."
            )
        self.name, self.lifetime_s, self.max_lifetime_s = template, lifetime_s, max_lifetime_s
        record: type[SessionRecord[V]] = SessionRecord[value]  # type: ignore[valid-type]
        self.cached: CachedValue[SessionRecord[V]] = CachedValue(template, record, lifetime_s=lifetime_s)
        if ID not in self.cached.key_template.fields:
            raise DeclarationError(
                f"Invalid session template {template!r}: the session id is missing. Add {{{ID}}}."
            )
        fields = {**example, ID: "e" * 43}
        begun = record(begun_at=1770166800.0, value=example_value)
        self.pattern_set: SessionPatterns[V] = _build_patterns(self.cached, prefix, rate, fields, begun)

    async def begin(self, stores: Stores, value: V, /, **fields: str | int) -> str:
        """Begin a session and return its id, a secret for the client that logged in."""
        id = make_url_token(ID_BYTES)
        record = SessionRecord(begun_at=stores.clock.now(), value=value)
        await stores.run(self.pattern_set.begin({**fields, ID: id}, record))
        return id

    async def find(self, stores: Stores, id: str, /, **fields: str | int) -> V | None:
        """Return the value of the session and extend its lifetime.

        Return None if the id is malformed, or the session does not exist, has ended or cannot be parsed; the
        last two are also deleted.
        """
        if not _SESSION_ID.fullmatch(id):
            return None
        place: Fields = {**fields, ID: id}
        record = await stores.run(self.pattern_set.find(place))
        if record is None:
            await stores.run(self.pattern_set.end(place))  # remove a record that cannot be parsed any more
            return None
        left_s = min(self.lifetime_s, record.begun_at + self.max_lifetime_s - stores.clock.now())
        if left_s <= 0:
            await stores.run(self.pattern_set.end(place))
            return None
        return record.value if await stores.run(self.pattern_set.renew(place, left_s)) else None

    async def peek(self, stores: Stores, id: str, /, **fields: str | int) -> V | None:
        """Return the value of the session as `find` does, but do not extend its lifetime: for requests that
        no user makes, such as those of a page that refreshes itself.
        """
        if not _SESSION_ID.fullmatch(id):
            return None
        record = await stores.run(self.pattern_set.find({**fields, ID: id}))
        is_over = record is None or record.begun_at + self.max_lifetime_s <= stores.clock.now()
        return None if record is None or is_over else record.value

    async def end(self, stores: Stores, id: str, /, **fields: str | int) -> None:
        """End the session (log out); nothing happens if there is none.

        A concurrent `find` does not restore it.
        """
        if _SESSION_ID.fullmatch(id):
            await stores.run(self.pattern_set.end({**fields, ID: id}))


def _build_patterns(
    cached: CachedValue[SessionRecord[V]],
    prefix: str,
    rate: Rate,
    fields: Fields,
    record: SessionRecord[V],
) -> SessionPatterns[V]:
    """Build the four patterns, `{prefix}1` to `{prefix}4`; `fields` and `record` are the example."""

    def find(fields: Fields) -> GetCached[SessionRecord[V]]:
        return cached.get(**fields)

    def begin(fields: Fields, record: SessionRecord[V]) -> PutCached[SessionRecord[V]]:
        checked = cached.value_type.model_validate(record.model_dump())
        return cached.put(checked, lifetime_s=None, only_if_absent=True, **fields)

    def renew(fields: Fields, lifetime_s: float) -> ExtendCached[SessionRecord[V]]:
        return cached.extend(lifetime_s=lifetime_s, **fields)

    def end(fields: Fields) -> DeleteCached[SessionRecord[V]]:
        return cached.delete(**fields)

    def build(number: int, function: Any, purpose: str, *more: Any, **types: Any) -> Any:
        return build_pattern(
            function,
            f"{prefix}{number}",
            f"{function.__name__}_{cached.template.partition(':')[0]}",
            f"{purpose} ({cached.template})",
            rate=rate,
            example=(fields, *more),
            argument_types=types,
        )

    return SessionPatterns(
        build(1, find, "Find a session"),
        build(2, begin, "Begin a session", record, record=cached.value_type),
        build(3, renew, "Extend a session in use", cached.lifetime_s),
        build(4, end, "End a session"),
    )
