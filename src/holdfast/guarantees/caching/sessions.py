"""Sessions: who is logged in, in the cache and nowhere else. To lose it is to log in again.

    sessions = Sessions("session:{tenant}:{id}", Caller, "SE", lifetime_s=1800, rate=Rate("request"),
                        example={"tenant": "clinic-1"}, example_value=Caller(name="ada"))

    id = await sessions.begin(stores, Caller(name="ada"), tenant="clinic-1")
    caller = await sessions.find(stores, id, tenant="clinic-1")          # None: log in again

An id is 256 random bits and says nothing. A session lives for `lifetime_s` after it was last found, and never longer than
`longest_s` in all. It is found under the tenant it was begun for and under no other, because the tenant is in its key.
A cache that gives no answer is `CacheUnavailable`, not a session that ended: the caller comes again, and is still logged in.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from holdfast.errors import DeclarationError
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import Cached, DeleteCached, ExtendCached, GetCached, Pattern, PutCached, Rate
from holdfast.runtime import Stores

V = TypeVar("V", bound=BaseModel)

ID: Final = "id"
ID_BYTES: Final = 32
# That of 32 bytes in base64, as in an address.
_OUR_IDS: Final = re.compile(r"[A-Za-z0-9_-]{43}")
LONGEST_S: Final = 12 * 3600.0

Fields: TypeAlias = dict[str, str | int]


class SessionRecord(BaseModel, Generic[V], frozen=True):
    """What is kept: the system's own, and when the session began, in epoch seconds."""

    begun_at: float
    value: V


class Sessions(Generic[V]):
    """`{id}` in the template is the session's; every other field (a tenant) is passed with each call."""

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
        longest_s: float = LONGEST_S,
    ) -> None:
        if longest_s < lifetime_s:
            raise DeclarationError(
                f"A session of {template!r} would end after {longest_s:g} s in all, before the {lifetime_s:g} s that it may "
                "lie unused: give longest_s no less than lifetime_s."
            )
        self.lifetime_s, self.longest_s = lifetime_s, longest_s
        record: type[SessionRecord[V]] = SessionRecord[value]  # type: ignore[valid-type]
        self.cached: Cached[SessionRecord[V]] = Cached(template, record, lifetime_s=lifetime_s)
        if ID not in self.cached.keys.fields:
            raise DeclarationError(f"{template!r} has no place for the id of a session: put {{{ID}}} in it.")
        fields = {**example, ID: "e" * 43}
        self._use = _Patterns(
            self.cached, prefix, rate, fields, record(begun_at=1770166800.0, value=example_value)
        )

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self._use.find,)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self._use.begin, self._use.renew, self._use.end)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)

    async def begin(self, stores: Stores, value: V, /, **fields: str | int) -> str:
        """A new session, by its id, which only the caller that logged in is told."""
        id = secrets.token_urlsafe(ID_BYTES)
        record = SessionRecord(begun_at=stores.clock.now(), value=value)
        await stores.run(self._use.begin({**fields, ID: id}, record))
        return id

    async def find(self, stores: Stores, id: str, /, **fields: str | int) -> V | None:
        """What was kept with it, and its lifetime anew; None where there is none, or it was ended meanwhile."""
        if not _OUR_IDS.fullmatch(id):
            return None
        place: Fields = {**fields, ID: id}
        record = await stores.run(self._use.find(place))
        if record is None:
            await stores.run(self._use.end(place))  # what cannot be read any more must not lie there
            return None
        left_s = min(self.lifetime_s, record.begun_at + self.longest_s - stores.clock.now())
        if left_s <= 0:
            await stores.run(self._use.end(place))
            return None
        return record.value if await stores.run(self._use.renew(place, left_s)) else None

    async def end(self, stores: Stores, id: str, /, **fields: str | int) -> None:
        """Logs out. Who is finding it at the same moment does not bring it back."""
        if _OUR_IDS.fullmatch(id):
            await stores.run(self._use.end({**fields, ID: id}))


class _Patterns(Generic[V]):
    def __init__(
        self,
        cached: Cached[SessionRecord[V]],
        prefix: str,
        rate: Rate,
        fields: Fields,
        record: SessionRecord[V],
    ) -> None:
        def find_session(fields: Fields) -> GetCached[SessionRecord[V]]:
            return cached.get(**fields)

        def begin_session(fields: Fields, record: SessionRecord[V]) -> PutCached[SessionRecord[V]]:
            checked = cached.value.model_validate(record.model_dump())
            return cached.put(checked, lifetime_s=None, only_if_absent=True, **fields)

        def renew_session(fields: Fields, lifetime_s: float) -> ExtendCached[SessionRecord[V]]:
            return cached.extend(lifetime_s=lifetime_s, **fields)

        def end_session(fields: Fields) -> DeleteCached[SessionRecord[V]]:
            return cached.delete(**fields)

        spoken, word = f"({cached.template})", cached.template.partition(":")[0]
        self.find = made_pattern(
            find_session,
            f"{prefix}1",
            f"find_{word}",
            f"Whose session it is {spoken}",
            rate=rate,
            example=(fields,),
        )
        self.begin = made_pattern(
            begin_session,
            f"{prefix}2",
            f"begin_{word}",
            f"Begin a session {spoken}",
            rate=rate,
            example=(fields, record),
            takes={"record": cached.value},
        )
        self.renew = made_pattern(
            renew_session,
            f"{prefix}3",
            f"renew_{word}",
            f"A session that is used goes on {spoken}",
            rate=rate,
            example=(fields, cached.lifetime_s),
        )
        self.end = made_pattern(
            end_session, f"{prefix}4", f"end_{word}", f"End a session {spoken}", rate=rate, example=(fields,)
        )
