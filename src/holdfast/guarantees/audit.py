"""Audit: a history that only grows. Entries are created and never changed, in order per subject, redacted, with a
lifetime.

    class ActionAudit(AuditEntry, table=action_audit):
        conversation_id: Attr[str] = attr()
        place: Attr[str] = attr("ts_action_id")
        action: Attr[str] = attr()
        of = Key(conversation_id, place)

    audit = Audit(ActionAudit, "AU", rate=Rate("action"), lifetime_s=60 * 86400, example={…})
    await stores.transact(change, audit.entry(stores, {"team": "billing"}, conversation_id="c-1", action="route"))

`entry` redacts and makes the write, which stands in the transaction of what it tells about. There is one pattern to
append and two to read, so that a component can be given the one without the others.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.correlation import correlation_id
from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.guarantees.lifetimes import kept
from holdfast.guarantees.pattern_sets import made_pattern, moment
from holdfast.guarantees.redaction import Redactor
from holdfast.model import (
    Attr,
    Document,
    Entity,
    EpochSeconds,
    Pattern,
    Put,
    Query,
    Rate,
    Ulids,
    attr,
    declaration_of,
    timestamp,
)
from holdfast.model.declaration import told
from holdfast.model.keys import BoundKey, Partition
from holdfast.model.templates import ABOVE_ALL
from holdfast.runtime import Stores

PAYLOAD_BYTES_MAX: Final = 2048
LIFETIME_S: Final = 60 * 86400
PAGE_ENTRIES: Final = 50
# Between the time and the id: an entry's place reads `2026-02-04T01:00:00.000000Z#01HX…`.
SEPARATOR: Final = "#"

EXAMPLE_PAYLOAD: Final = '{"example":"a reason"}'

Redact = Callable[[str], str]


class AuditResult(Document):
    """How what was done came out."""

    ok: bool
    reason: str | None = None


class AuditEntry(Entity):
    """Derive from it with a table, a subject and `of = Key(subject, place)`; store what it brings under names of yours.

    `place` is the time and an id, of one width, so that entries sort as they were made. `payload` is JSON, redacted.
    """

    place: Attr[str] = attr()
    payload: Attr[str] = attr(default="{}")
    result: Attr[AuditResult | None] = attr(default=None)
    correlation: Attr[str | None] = attr(default=None)
    expires_at: Attr[EpochSeconds] = attr()

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.place.partition(SEPARATOR)[0])

    @property
    def entry_id(self) -> str:
        return self.place.partition(SEPARATOR)[2]

    @property
    def told(self) -> Any:
        """The payload, read."""
        return json.loads(self.payload)


A = TypeVar("A", bound=AuditEntry)


class Audit(Generic[A]):
    """The patterns of one history, and what makes its entries.

    `example` has the attributes of your own, the subject among them. `redact` masks a payload, by the names of its
    members too, and the reason of a result: a `Redactor` of yours, or Holdfast's own. A plain function sees every text
    and no names.
    """

    def __init__(
        self,
        entity: type[A],
        prefix: str,
        *,
        rate: Rate,
        example: Mapping[str, Any],
        reading: Rate | None = None,
        lifetime_s: float = LIFETIME_S,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
        redact: Redactor | Redact | None = None,
    ) -> None:
        self.entity, self.lifetime_s, self.payload_bytes_max = entity, lifetime_s, payload_bytes_max
        self._subject = _subject_of(entity)
        kept(entity, lifetime_s, "the lifetime of the history; an entry may say another end")
        self._redactor = redact or Redactor()
        self._places = _Places()
        self.append = self._append_pattern(f"{prefix}1", rate, example)
        self.history = self._history_pattern(f"{prefix}2", reading or rate, example)
        self.span = self._span_pattern(f"{prefix}3", reading or rate, example)

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self.history, self.span)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self.append,)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.writes, *self.reads)

    def entry(
        self,
        stores: Stores,
        payload: Mapping[str, Any] | None = None,
        /,
        *,
        at: datetime | None = None,
        id: str | None = None,
        **attributes: Any,
    ) -> Put[A]:
        """The write of a new entry. With `at` and `id` given, the same entry twice is refused the second time.

        `expires_at` may be given too, where an environment keeps entries for another time than the declared one.
        """
        if attributes.get("result") is not None:
            attributes["result"] = _redacted_result(attributes["result"], self._redact)
        return self.append(self._made(stores.clock, self._payload(payload or {}), at, id, attributes))

    # --- an entry -------------------------------------------------------------------------------------------

    def _made(
        self,
        clock: Clock,
        payload: str,
        at: datetime | None,
        id: str | None,
        attributes: Mapping[str, Any],
    ) -> A:
        at, id = self._places.next(clock, at, id)
        values = {"correlation": correlation_id()} | dict(attributes)
        values |= {
            "place": timestamp(at) + SEPARATOR + id,
            "payload": payload,
            "expires_at": attributes.get("expires_at") or at + timedelta(seconds=self.lifetime_s),
        }
        try:
            return self.entity(**values)
        except ValidationError as error:
            raise InvalidRequest(f"This {self.entity.__name__} cannot be kept: {told(error)}.") from error

    def _payload(self, payload: Mapping[str, Any]) -> str:
        try:
            told = self._redact_value(_told_apart(payload, self._redact))
            text = json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            size = len(text.encode())
        except (TypeError, ValueError) as error:
            raise InvalidRequest(
                f"The payload of an audit entry is kept as JSON, and this cannot be ({type(error).__name__}): give text, "
                "finite numbers, bool, None, lists and maps."
            ) from error
        if size > self.payload_bytes_max:
            raise InvalidRequest(
                f"The payload of this {self.entity.__name__} has {size} bytes as JSON, and {self.payload_bytes_max} are "
                "allowed: keep ids and reasons, and a hash in place of a text."
            )
        return text

    def _redact(self, text: str) -> str:
        return self._redactor.redact(text) if isinstance(self._redactor, Redactor) else self._redactor(text)

    def _redact_value(self, value: Any) -> Any:
        if isinstance(self._redactor, Redactor):
            return self._redactor.redact_value(value)
        return _redacted(value, self._redactor)

    # --- the patterns ---------------------------------------------------------------------------------------

    def _append_pattern(self, id: str, rate: Rate, example: Mapping[str, Any]) -> Pattern[[A], Put[A]]:
        entity = self.entity

        def append(entry: A) -> Put[A]:
            return entity.create(entry)

        def arguments() -> tuple[A]:
            # Without a redactor: reports read examples where its packages are not installed.
            return (self._made(SYSTEM_CLOCK, EXAMPLE_PAYLOAD, None, None, example),)

        purpose = f"Append to the audit of a {_spoken(self._subject)}"
        name = f"append_{_snake(entity)}"
        return made_pattern(append, id, name, purpose, rate=rate, example=arguments, takes={"entry": entity})

    def _history_pattern(self, id: str, rate: Rate, example: Mapping[str, Any]) -> Pattern[..., Query[A]]:
        def history(subject: str, limit: int = PAGE_ENTRIES, after: str | None = None) -> Query[A]:
            return self._of(subject).query().page(limit, after)

        purpose = f"What was done about a {_spoken(self._subject)}, in the order it was done"
        name = f"{_snake(self.entity)}_history"
        return made_pattern(history, id, name, purpose, rate=rate, example=(example[self._subject],))

    def _span_pattern(self, id: str, rate: Rate, example: Mapping[str, Any]) -> Pattern[..., Query[A]]:
        def span(
            subject: str,
            since: datetime,
            until: datetime,
            limit: int = PAGE_ENTRIES,
            after: str | None = None,
        ) -> Query[A]:
            low, high = timestamp(since), timestamp(until) + SEPARATOR + ABOVE_ALL
            return self._of(subject).between(low, high).page(limit, after)

        def arguments() -> tuple[Any, ...]:
            now = moment()
            return (example[self._subject], now - timedelta(days=1), now)

        purpose = f"What was done about a {_spoken(self._subject)} between two times, both included"
        name = f"{_snake(self.entity)}_between"
        return made_pattern(span, id, name, purpose, rate=rate, example=arguments)

    def _of(self, subject: str) -> Partition[A, Any]:
        declaration = declaration_of(self.entity)
        return BoundKey[A, Any, Any](declaration, declaration.primary)(subject)


class _Places:
    """Times and ids on one clock after another: at equal times, and where a clock goes back, ids still count up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0.0
        self._ulids = Ulids(self)

    def now(self) -> float:
        return self._now

    def next(self, clock: Clock, at: datetime | None, id: str | None) -> tuple[datetime, str]:
        """When an entry was made, and its id."""
        with self._lock:
            self._now = clock.now()
            return at or moment(self), id or self._ulids.new()


def _subject_of(entity: type[AuditEntry]) -> str:
    """The attribute that the partition key is made of; a declaration that could not keep the promise is refused."""
    declaration = declaration_of(entity)
    partition, sort = declaration.primary.partition, declaration.primary.sort
    if len(partition.slots) != 1 or sort is None or [each.attribute.name for each in sort.slots] != ["place"]:
        raise DeclarationError(
            f"{entity.__name__} is an audit: its partition key is made of one attribute, the subject, and its sort key "
            "of `place` and nothing else: of = Key(subject, place)."
        )
    if declaration.table.ttl != declaration.attributes["expires_at"].stored:
        raise DeclarationError(
            f"{entity.__name__} keeps the end of its life under {declaration.attributes['expires_at'].stored}, and its "
            f"table looks under {declaration.table.ttl}: give Table(…, ttl=…) the same name."
        )
    return partition.slots[0].attribute.name


def _redacted_result(result: AuditResult | Mapping[str, Any], redact: Redact) -> AuditResult:
    given = AuditResult.model_validate(result)
    return given if given.reason is None else given.model_copy(update={"reason": redact(given.reason)})


def _told_apart(value: Any, redact: Redact) -> Any:
    """Names of members that would be masked alike have a number behind the mask, so that none takes another's place."""
    if isinstance(value, list | tuple):
        return [_told_apart(inner, redact) for inner in value]
    if not isinstance(value, Mapping):
        return value
    members: dict[str, Any] = {}
    masked: set[str] = set()
    for name, inner in value.items():
        mask, kept = redact(str(name)), str(name)
        if mask in masked:
            mask = kept = next(each for n in count(2) if (each := f"{mask} ({n})") not in masked)
        masked.add(mask)
        members[kept] = _told_apart(inner, redact)
    return members


def _redacted(value: Any, redact: Redact) -> Any:
    """Every text in it, however deep, names of members too."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(name)): _redacted(inner, redact) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_redacted(inner, redact) for inner in value]
    return value


def _snake(entity: type[Entity]) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", entity.__name__).lower()


def _spoken(attribute: str) -> str:
    return attribute.removesuffix("_id").replace("_", " ")
