"""Audit: an append-only history. Entries are redacted, ordered per subject, and expire after a lifetime.

    class ActionAudit(AuditEntry, table=action_audit):
        conversation_id: Attr[str] = attr()
        place: Attr[str] = attr("ts_action_id")
        action: Attr[str] = attr()
        of = Key(conversation_id, place)

    audit = Audit(ActionAudit, prefix="AU", rate=Rate("action"), example={…}, retention_s=60 * 86400)
    entry = audit.record(stores, {"team": "billing"}, conversation_id="c-1", action="route")
    await stores.transact(change, entry)

`record` redacts the payload and returns the write, for the transaction of the change that it documents. One
pattern appends and two read, so that a component can be granted the one without the others.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.guarantees.lifetimes import declare_retention
from holdfast.guarantees.pattern_sets import Guarantee, PatternSet, build_pattern, utc_now
from holdfast.guarantees.privacy.redaction import Redactor
from holdfast.model.entities import (
    Attr,
    Document,
    Entity,
    EpochSeconds,
    Put,
    Query,
    attr,
    format_timestamp,
    get_declaration,
)
from holdfast.model.entities.declaration import format_error
from holdfast.model.entities.key_templates import HIGHEST_CHARACTER
from holdfast.model.entities.keys import BoundKey, Partition
from holdfast.model.patterns import Pattern, Rate
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import Stores

MAX_PAYLOAD_BYTES: Final = 2048
RETENTION_S: Final = 60 * 86400
PAGE_ENTRIES: Final = 50
# Between the time and the id in an entry's place: `2026-02-04T01:00:00.000000Z#01HX…`.
SEPARATOR: Final = "#"

EXAMPLE_PAYLOAD: Final = '{"example":"a reason"}'

RedactFunction = Callable[[str], str]


class AuditResult(Document):
    """The result of the audited action."""

    ok: bool
    reason: str | None = None


class AuditEntry(Entity):
    """The base class of an audit's entries.

    Derive from it with a table, a subject and `of = Key(subject, place)`; choose your own stored names.
    `place` is the time and an id, of fixed width, so that entries sort by creation. `payload` is redacted
    JSON.
    """

    place: Attr[str] = attr()
    payload: Attr[str] = attr(default="{}")
    result: Attr[AuditResult | None] = attr(default=None)
    correlation: Attr[str | None] = attr(default=None)
    expires_at: Attr[EpochSeconds] = attr()

    @property
    def at(self) -> datetime:
        """The time of the entry, parsed from its place."""
        return datetime.fromisoformat(self.place.partition(SEPARATOR)[0])

    @property
    def entry_id(self) -> str:
        """The id of the entry, parsed from its place."""
        return self.place.partition(SEPARATOR)[2]

    @property
    def parsed_payload(self) -> Any:
        """The payload, parsed from JSON."""
        return json.loads(self.payload)


A = TypeVar("A", bound=AuditEntry)


@dataclass(frozen=True)
class AuditPatterns(PatternSet, Generic[A]):
    """The patterns of an `Audit`: append an entry, read a history, read a period of it."""

    append: Pattern[[A], Put[A]]
    history: Pattern[..., Query[A]]
    between: Pattern[..., Query[A]]


class Audit(Guarantee, Generic[A]):
    """The patterns of one history, and the builder of its entries.

    `example` has your own attributes, including the subject. `redact` masks a payload, including by field
    names, and the reason of a result: your `Redactor`, or the default one. A plain function gets every text
    but no field names.
    """

    def __init__(
        self,
        entity: type[A],
        *,
        prefix: str,
        rate: Rate,
        read_rate: Rate | None = None,
        example: Mapping[str, Any],
        retention_s: float = RETENTION_S,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        redact: Redactor | RedactFunction | None = None,
    ) -> None:
        self.name, self.entity = entity.__name__, entity
        self.retention_s, self.max_payload_bytes = retention_s, max_payload_bytes
        self._subject = _get_subject(entity)
        declare_retention(entity, retention_s, "the lifetime of the history; an entry may set its own end")
        self._redactor = redact or Redactor()
        self._entry_clock = _EntryClock()
        self.pattern_set: AuditPatterns[A] = AuditPatterns(
            self._build_append(f"{prefix}1", rate, example),
            self._build_history(f"{prefix}2", read_rate or rate, example),
            self._build_between(f"{prefix}3", read_rate or rate, example),
        )

    def record(
        self,
        stores: Stores,
        payload: Mapping[str, Any] | None = None,
        /,
        *,
        at: datetime | None = None,
        id: str | None = None,
        **attributes: Any,
    ) -> Put[A]:
        """Return the write of a new entry, with its payload and the reason of its result redacted.

        Writes nothing. `at` and `id` default to the current time and a new ULID; with both given, a second
        write of the same entry is refused. `attributes` are those of the entity, including the subject;
        `expires_at` may be given too, if an environment keeps entries for another time than the declared one.
        Raises `InvalidRequest` for a payload that is not JSON or too large, and for invalid attributes.
        """
        if attributes.get("result") is not None:
            attributes["result"] = _redact_result(attributes["result"], self._redact)
        return self.pattern_set.append(
            self._build_entry(stores.clock, self._encode_payload(payload or {}), at, id, attributes)
        )

    # --- an entry -------------------------------------------------------------------------------------------

    def _build_entry(
        self,
        clock: Clock,
        payload: str,
        at: datetime | None,
        id: str | None,
        attributes: Mapping[str, Any],
    ) -> A:
        """Return an entry with a payload that is already redacted JSON; raise `InvalidRequest` for invalid
        attributes.
        """
        at, id = self._entry_clock.next(clock, at, id)
        values = {"correlation": get_correlation_id()} | dict(attributes)
        values |= {
            "place": format_timestamp(at) + SEPARATOR + id,
            "payload": payload,
            "expires_at": attributes.get("expires_at") or at + timedelta(seconds=self.retention_s),
        }
        try:
            return self.entity(**values)
        except ValidationError as error:
            raise InvalidRequest(f"Invalid {self.entity.__name__}: {format_error(error)}.") from error

    def _encode_payload(self, payload: Mapping[str, Any]) -> str:
        """Return the redacted payload as JSON; raise `InvalidRequest` if it is not JSON or above
        `max_payload_bytes`.
        """
        try:
            redacted = self._redact_value(_number_masked_names(payload, self._redact))
            text = json.dumps(redacted, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            size = len(text.encode())
        except (TypeError, ValueError) as error:
            raise InvalidRequest(
                f"Invalid payload of an audit entry ({type(error).__name__}): it is kept as JSON. Use text, "
                "finite numbers, bool, None, lists and maps."
            ) from error
        if size > self.max_payload_bytes:
            raise InvalidRequest(
                f"Invalid payload of {self.entity.__name__}: {size} bytes as JSON, but at most "
                f"{self.max_payload_bytes} are allowed. Keep ids and reasons, and a hash in place of a text."
            )
        return text

    def _redact(self, text: str) -> str:
        return self._redactor.redact(text) if isinstance(self._redactor, Redactor) else self._redactor(text)

    def _redact_value(self, value: Any) -> Any:
        """Redact every text in the value, at any depth; a `Redactor` also masks values by their field
        names.
        """
        if isinstance(self._redactor, Redactor):
            return self._redactor.redact_value(value)
        return _redact_texts(value, self._redactor)

    # --- the patterns ---------------------------------------------------------------------------------------

    def _build_append(self, id: str, rate: Rate, example: Mapping[str, Any]) -> Pattern[[A], Put[A]]:
        """Build the pattern `id` that creates an entry."""
        entity = self.entity

        def append(entry: A) -> Put[A]:
            return entity.create(entry)

        def arguments() -> tuple[A]:
            # Without a redactor: reports build examples where its packages are not installed.
            return (self._build_entry(SYSTEM_CLOCK, EXAMPLE_PAYLOAD, None, None, example),)

        purpose = f"Append to the audit of a {_to_words(self._subject)}"
        name = f"append_{_to_snake_case(entity)}"
        return build_pattern(
            append, id, name, purpose, rate=rate, example=arguments, argument_types={"entry": entity}
        )

    def _build_history(self, id: str, rate: Rate, example: Mapping[str, Any]) -> Pattern[..., Query[A]]:
        """Build the pattern `id` that reads the entries of a subject page by page, oldest first."""

        def history(subject: str, limit: int = PAGE_ENTRIES, after: str | None = None) -> Query[A]:
            return self._get_partition(subject).query().page(limit, after)

        purpose = f"Audit entries of a {_to_words(self._subject)}, oldest first"
        name = f"{_to_snake_case(self.entity)}_history"
        return build_pattern(history, id, name, purpose, rate=rate, example=(example[self._subject],))

    def _build_between(self, id: str, rate: Rate, example: Mapping[str, Any]) -> Pattern[..., Query[A]]:
        """Build the pattern `id` that reads the entries of a subject between two times, both included, oldest
        first.
        """

        def between(
            subject: str,
            since: datetime,
            until: datetime,
            limit: int = PAGE_ENTRIES,
            after: str | None = None,
        ) -> Query[A]:
            low, high = format_timestamp(since), format_timestamp(until) + SEPARATOR + HIGHEST_CHARACTER
            return self._get_partition(subject).between(low, high).page(limit, after)

        def arguments() -> tuple[Any, ...]:
            now = utc_now()
            return (example[self._subject], now - timedelta(days=1), now)

        purpose = f"Audit entries of a {_to_words(self._subject)} between two times, both included"
        name = f"{_to_snake_case(self.entity)}_between"
        return build_pattern(between, id, name, purpose, rate=rate, example=arguments)

    def _get_partition(self, subject: str) -> Partition[A, Any]:
        """Return the partition with the entries of the subject, to query."""
        declaration = get_declaration(self.entity)
        return BoundKey[A, Any, Any](declaration, declaration.primary)(subject)


class _EntryClock:
    """Times and ids of new entries: at equal times, and if the clock is set back, the ids still grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0.0
        self._ulids = UlidGenerator(self)

    def now(self) -> float:
        """Return the time of the last call of `next`: the clock of the ULID generator."""
        return self._now

    def next(self, clock: Clock, at: datetime | None, id: str | None) -> tuple[datetime, str]:
        """Return the time and the id of a new entry: the given ones, otherwise the clock's time and a new
        ULID.
        """
        with self._lock:
            self._now = clock.now()
            return at or utc_now(self), id or self._ulids.new()


def _get_subject(entity: type[AuditEntry]) -> str:
    """Return the name of the one attribute in the partition key.

    Raise `DeclarationError` if the key is not (subject, `place`) or the table does not expire by
    `expires_at`.
    """
    declaration = get_declaration(entity)
    partition, sort = declaration.primary.partition, declaration.primary.sort
    if len(partition.slots) != 1 or sort is None or [each.attribute.name for each in sort.slots] != ["place"]:
        raise DeclarationError(
            f"Invalid key of the audit {entity.__name__}: the partition key must be one attribute, the "
            "subject, and the sort key `place` alone. Declare of = Key(subject, place)."
        )
    if declaration.table.ttl != declaration.attributes["expires_at"].stored_name:
        raise DeclarationError(
            f"Invalid {entity.__name__}: its expires_at is stored as "
            f"{declaration.attributes['expires_at'].stored_name}, but "
            f"the time-to-live attribute of its table is {declaration.table.ttl}. Use the same name in "
            "Table(…, ttl=…)."
        )
    return partition.slots[0].attribute.name


def _redact_result(result: AuditResult | Mapping[str, Any], redact: RedactFunction) -> AuditResult:
    """Validate the result and return it with its reason redacted."""
    given = AuditResult.model_validate(result)
    return given if given.reason is None else given.model_copy(update={"reason": redact(given.reason)})


def _number_masked_names(value: Any, redact: RedactFunction) -> Any:
    """Return the payload with a number, as in `[email] (2)`, on field names that would be masked alike.

    Otherwise one masked field would replace another. All other names and all values stay as they are.
    """
    if isinstance(value, list | tuple):
        return [_number_masked_names(inner, redact) for inner in value]
    if not isinstance(value, Mapping):
        return value
    members: dict[str, Any] = {}
    masked: set[str] = set()
    for name, inner in value.items():
        mask, kept = redact(str(name)), str(name)
        if mask in masked:
            mask = kept = next(each for n in count(2) if (each := f"{mask} ({n})") not in masked)
        masked.add(mask)
        members[kept] = _number_masked_names(inner, redact)
    return members


def _redact_texts(value: Any, redact: RedactFunction) -> Any:
    """Redact every text in the value, at any depth, including field names."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(name)): _redact_texts(inner, redact) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_redact_texts(inner, redact) for inner in value]
    return value


def _to_snake_case(entity: type[Entity]) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", entity.__name__).lower()


def _to_words(attribute: str) -> str:
    """Return the attribute's name as words, without a final `_id`."""
    return attribute.removesuffix("_id").replace("_", " ")
