"""Declarations of cached values and window counters, and the frozen operations on them.

    oauth = CachedValue("oauth:{payer_id}", AccessToken, lifetime_s=3600)
    requests = WindowCounter("ratelimit:{tenant}:{window}", window_s=60)

    @pattern("C1", "Get the token of a payer", rate=Rate(per="call"), example=("payer-1",))
    def payer_token(payer_id: str) -> GetCached[AccessToken]:
        return oauth.get(payer_id=payer_id)

Values are Pydantic documents, stored as JSON. A value that cannot be decoded, because it was written under
another declaration, counts as absent. Keys are built only here, and field values are encoded so that they
cannot change the structure of a key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.operations import EngineOperation
from holdfast.operations import cache as requests
from holdfast.operations.cache import IncrementResult

__all__ = [
    "CacheHit",
    "CachedValue",
    "CountInWindow",
    "DeleteCached",
    "ExtendCached",
    "GetCached",
    "PeekCached",
    "PutCached",
    "ReadWindow",
    "WindowCounter",
]

V = TypeVar("V", bound=BaseModel)
V_co = TypeVar("V_co", bound=BaseModel, covariant=True)
R_co = TypeVar("R_co", covariant=True)

# Leaves 64 bytes for the environment prefix.
MAX_KEY_BYTES: Final = requests.MAX_KEY_BYTES - 64
# The template field for the window number.
WINDOW_FIELD: Final = "window"
# Stored instead of a value that is known not to exist.
ABSENT_VALUE: Final = b"null"
# No key ends like this: in a key, '%' is always followed by two hexadecimal digits.
LOCK_SUFFIX: Final = "%lock"
_LITERAL: Final = re.compile(r"[A-Za-z0-9_.:/#-]*")
# These characters stay as they are in a value; all others are percent-encoded.
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*")
# Keyword arguments that operations and guarantees take in addition to the key's fields.
_PARAMETERS: Final = frozenset({"lifetime_s", "only_if_absent", "token", "cost", "most", "limit"})

FieldValue: TypeAlias = str | int


@dataclass(frozen=True, eq=False)
class KeyTemplate:
    """A template for cache keys: `oauth:{payer_id}`."""

    template: str
    parts: tuple[tuple[str, str | None], ...] = field(default=(), init=False, repr=False)
    _names: frozenset[str] = field(default=frozenset(), init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _parse_template(self.template))
        object.__setattr__(self, "_names", frozenset(self.fields))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the template's fields, in order."""
        return tuple(name for _, name in self.parts if name is not None)

    def build_key(self, **fields: FieldValue) -> str:
        """Return the key for these field values; raise `InvalidRequest` for missing, unknown or invalid
        ones.
        """
        if fields.keys() != self._names:
            wrong = sorted(fields.keys() ^ self._names)
            raise InvalidRequest(
                f"Invalid fields for a key of {self.template!r}: {', '.join(wrong)} is missing or unknown. "
                f"Expected {', '.join(self.fields)}."
            )
        key = "".join(before + self._encode_field(name, fields) for before, name in self.parts)
        if len(key) > MAX_KEY_BYTES:
            raise InvalidRequest(
                f"Invalid key of {self.template!r}: it has {len(key)} bytes, and at most {MAX_KEY_BYTES} are "
                "allowed. Shorten a field value."
            )
        return key

    def _encode_field(self, name: str | None, fields: Mapping[str, Any]) -> str:
        """Return the field's value percent-encoded; empty without a name.

        Errors do not show the value: it may be a session id.
        """
        if name is None:
            return ""
        value = fields[name]
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise InvalidRequest(
                f"Invalid {name} for a key of {self.template!r}: expected a non-empty string or an integer."
            )
        try:
            return quote(str(value), safe="")
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"Invalid {name} for a key of {self.template!r}: expected valid Unicode text."
            ) from error

    def __str__(self) -> str:
        return self.template


@dataclass(frozen=True)
class CacheHit(Generic[V_co]):
    """A cache hit: a value, or None if the cache recorded that no value exists."""

    value: V_co | None


class CachedValue(Generic[V]):
    """Cached values of one kind; its methods return operations for `stores.run`.

    `lifetime_s` is how long a value is kept unless a put overrides it.
    """

    def __init__(self, template: str, value_type: type[V], *, lifetime_s: float, purpose: str = "") -> None:
        self.key_template, self.value_type = KeyTemplate(template), value_type
        self.lifetime_s, self.purpose = lifetime_s, purpose
        given: Any = value_type
        if not isinstance(given, type) or not issubclass(given, BaseModel):
            raise DeclarationError(
                f"Invalid value type {value_type!r} for {template!r}: expected a Pydantic model."
            )
        _check_lifetime(template, lifetime_s)

    @property
    def template(self) -> str:
        return self.key_template.template

    def build_key(self, **fields: FieldValue) -> str:
        """Return the key for these field values; raise `InvalidRequest` for missing, unknown or invalid
        ones.
        """
        return self.key_template.build_key(**fields)

    # --- operations -----------------------------------------------------------------------------------------

    def get(self, **fields: FieldValue) -> GetCached[V]:
        """Build the read of a value: its result is None if it is not cached, not decodable, or recorded as
        absent.
        """
        return GetCached(self, self.build_key(**fields))

    def peek(self, **fields: FieldValue) -> PeekCached[V]:
        """Build the read of a cache hit.

        Its result is `CacheHit(value)`, `CacheHit(None)` if absence is recorded, or None if nothing is
        cached.
        """
        return PeekCached(self, self.build_key(**fields))

    def put(
        self,
        value: V,
        /,
        *,
        lifetime_s: float | None = None,
        only_if_absent: bool = False,
        **fields: FieldValue,
    ) -> PutCached[V]:
        """Build the write of a value; its result is True if it was stored.

        With `only_if_absent` only one of several concurrent callers succeeds.
        """
        if not isinstance(value, self.value_type):
            raise InvalidRequest(
                f"Invalid value for {self}: expected a {self.value_type.__name__}, got a "
                f"{type(value).__name__}."
            )
        body = value.model_dump_json(by_alias=True).encode()
        return PutCached(
            self, self.build_key(**fields), body, self._resolve_lifetime(lifetime_s), only_if_absent
        )

    def put_absence(self, *, lifetime_s: float | None = None, **fields: FieldValue) -> PutCached[V]:
        """Build the write that records that no such value exists."""
        return PutCached(self, self.build_key(**fields), ABSENT_VALUE, self._resolve_lifetime(lifetime_s))

    def extend(self, *, lifetime_s: float | None = None, **fields: FieldValue) -> ExtendCached[V]:
        """Build the operation that restarts a value's lifetime; its result is False if nothing is cached."""
        return ExtendCached(self, self.build_key(**fields), self._resolve_lifetime(lifetime_s))

    def delete(self, **fields: FieldValue) -> DeleteCached[V]:
        """Build the deletion of a value; its result is True if there was one."""
        return DeleteCached(self, self.build_key(**fields))

    def lock(self, *, token: str, lifetime_s: float, **fields: FieldValue) -> PutCached[V]:
        """Build the write that takes the lock to load this value; its result is False if another token holds
        it.

        The lock lasts until `unlock` with the same token, or `lifetime_s` seconds.
        """
        return PutCached(self, self.build_key(**fields) + LOCK_SUFFIX, token.encode(), lifetime_s, True)

    def unlock(self, *, token: str, **fields: FieldValue) -> DeleteCached[V]:
        """Build the operation that releases the lock if this token still holds it."""
        return DeleteCached(self, self.build_key(**fields) + LOCK_SUFFIX, token.encode())

    def decode(self, body: bytes | None) -> CacheHit[V] | None:
        """Return a stored body as a cache hit; None if there is none or it cannot be decoded."""
        if body is None or body == ABSENT_VALUE:
            return None if body is None else CacheHit(None)
        try:
            return CacheHit(self.value_type.model_validate_json(body))
        except ValidationError:
            return None

    def _resolve_lifetime(self, given: float | None) -> float:
        """Return the given lifetime, or the declared one."""
        return self.lifetime_s if given is None else given

    def __str__(self) -> str:
        return repr(self.template)


class WindowCounter:
    """Counters per time window: `{window}` in the template is the window's number, which grows with time."""

    def __init__(self, template: str, *, window_s: float, purpose: str = "") -> None:
        self.key_template, self.window_s, self.purpose = KeyTemplate(template), window_s, purpose
        if WINDOW_FIELD not in self.key_template.fields:
            raise DeclarationError(
                f"Invalid key template {template!r}: expected the field {{{WINDOW_FIELD}}} for the window "
                "number."
            )
        _check_lifetime(template, window_s)

    @property
    def template(self) -> str:
        return self.key_template.template

    def get_window(self, now: float) -> int:
        """Return the number of the window that contains a time in epoch seconds."""
        return int(now // self.window_s)

    def count(
        self,
        *,
        cost: int = 1,
        most: int | None = None,
        lifetime_s: float | None = None,
        **fields: FieldValue,
    ) -> CountInWindow:
        """Build the addition of `cost` to a counter, unless it would then exceed `most`.

        The counter is kept for one window by default. The window's number is one of the `fields`.
        """
        kept_s = self.window_s if lifetime_s is None else lifetime_s
        return CountInWindow(self, self.key_template.build_key(**fields), cost, most, kept_s)

    def read(self, **fields: FieldValue) -> ReadWindow:
        """Build the read of a counter; its result is 0 if there is none."""
        return ReadWindow(self, self.key_template.build_key(**fields))

    def __str__(self) -> str:
        return repr(self.template)


# --- operations ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CacheOperation(EngineOperation[R_co]):
    """An operation on one key of a declared cache. `kind` is the Redis command."""

    store: ClassVar[str] = "cache"

    declaration: CachedValue[Any] | WindowCounter
    key: str = field(repr=False)

    @property
    def resource(self) -> str:
        return self.declaration.template

    def _build_key(self, environment: str) -> str:
        """Return the key with the environment as prefix, `prod:oauth:payer-1`: environments may share a
        server.
        """
        return f"{environment}:{self.key}" if environment else self.key


@dataclass(frozen=True)
class PeekCached(CacheOperation["CacheHit[V] | None"], Generic[V]):
    """Read a value or its recorded absence; None if nothing is cached."""

    declaration: CachedValue[V]

    kind = "GET"

    def build_request(self, environment: str) -> requests.GetValue:
        return requests.GetValue(key=self._build_key(environment), pattern=self.pattern)

    def decode_result(self, result: bytes | None) -> CacheHit[V] | None:
        return self.declaration.decode(result)


@dataclass(frozen=True)
class GetCached(CacheOperation["V | None"], Generic[V]):
    """Read a value; None if it is absent."""

    declaration: CachedValue[V]

    kind = "GET"

    def build_request(self, environment: str) -> requests.GetValue:
        return requests.GetValue(key=self._build_key(environment), pattern=self.pattern)

    def decode_result(self, result: bytes | None) -> V | None:
        """Return the value; None if it is not cached, not decodable, or recorded as absent."""
        known = self.declaration.decode(result)
        return None if known is None else known.value


@dataclass(frozen=True)
class PutCached(CacheOperation[bool], Generic[V]):
    """Store a value; True if it was stored."""

    writes: ClassVar[bool] = True

    declaration: CachedValue[V]
    body: bytes = field(repr=False)
    lifetime_s: float
    only_if_absent: bool = False

    kind = "SET"

    def build_request(self, environment: str) -> requests.PutValue:
        return requests.PutValue(
            key=self._build_key(environment),
            value=self.body,
            lifetime_s=self.lifetime_s,
            only_if_absent=self.only_if_absent,
            pattern=self.pattern,
        )

    def decode_result(self, result: bool) -> bool:
        return result


@dataclass(frozen=True)
class ExtendCached(CacheOperation[bool], Generic[V]):
    """Restart a value's lifetime; False if nothing is cached."""

    writes: ClassVar[bool] = True

    declaration: CachedValue[V]
    lifetime_s: float

    kind = "PEXPIRE"

    def build_request(self, environment: str) -> requests.ExtendValue:
        return requests.ExtendValue(
            key=self._build_key(environment), lifetime_s=self.lifetime_s, pattern=self.pattern
        )

    def decode_result(self, result: bool) -> bool:
        return result


@dataclass(frozen=True)
class DeleteCached(CacheOperation[bool], Generic[V]):
    """Delete a value, with `only_if` only if it is exactly these bytes; True if it was deleted."""

    writes: ClassVar[bool] = True

    declaration: CachedValue[V]
    only_if: bytes | None = field(default=None, repr=False)

    kind = "DEL"

    def build_request(self, environment: str) -> requests.DeleteValue:
        return requests.DeleteValue(
            key=self._build_key(environment), only_if=self.only_if, pattern=self.pattern
        )

    def decode_result(self, result: bool) -> bool:
        return result


@dataclass(frozen=True)
class CountInWindow(CacheOperation[IncrementResult]):
    """Add a cost to a counter, unless it would exceed `most`."""

    writes: ClassVar[bool] = True

    declaration: WindowCounter
    cost: int
    most: int | None
    lifetime_s: float

    kind = "INCRBY"

    def build_request(self, environment: str) -> requests.Increment:
        return requests.Increment(
            key=self._build_key(environment),
            by=self.cost,
            most=self.most,
            lifetime_s=self.lifetime_s,
            pattern=self.pattern,
        )

    def decode_result(self, result: IncrementResult) -> IncrementResult:
        return result


@dataclass(frozen=True)
class ReadWindow(CacheOperation[int]):
    """Read a counter; 0 if there is none."""

    declaration: WindowCounter

    kind = "GET"

    def build_request(self, environment: str) -> requests.GetValue:
        return requests.GetValue(key=self._build_key(environment), pattern=self.pattern)

    def decode_result(self, result: bytes | None) -> int:
        """Return the count; 0 if there is none or it is not a number."""
        return int(result) if result is not None and result.isdigit() else 0


# --- parsing a template -------------------------------------------------------------------------------------


def _parse_template(template: str) -> tuple[tuple[str, str | None], ...]:
    """Return the literal text before each field with the field's name (None after the last); raise if it is
    invalid.
    """
    try:
        read = list(Formatter().parse(template))
    except ValueError as error:
        raise DeclarationError(f"Invalid key template {template!r}: {error}.") from error
    if "{{" in template or "}}" in template or not read or not read[0][0]:
        raise DeclarationError(
            f"Invalid key template {template!r}: expected a leading word that names the content, such as "
            "'oauth:{payer_id}'."
        )
    for before, name, spec, conversion in read:
        if name is not None and (not name.isidentifier() or spec or conversion or name in _PARAMETERS):
            raise DeclarationError(
                f"Invalid field {{{name}}} in key template {template!r}: expected a plain name other than "
                f"{', '.join(sorted(_PARAMETERS))}."
            )
        if not _LITERAL.fullmatch(before) or (name is not None and _UNRESERVED.fullmatch(before)):
            raise DeclarationError(
                f"Invalid text {before!r} before {{{name}}} in key template {template!r}: expected a ':' "
                "before each field (no value contains one), and otherwise only letters, digits and '_.:/#-'."
            )
    names = [name for _, name, _, _ in read if name is not None]
    if len(set(names)) < len(names):
        raise DeclarationError(f"Duplicate field in key template {template!r}: use each field once.")
    return tuple((before, name) for before, name, _, _ in read)


def _check_lifetime(template: str, lifetime_s: float) -> None:
    """Raise `DeclarationError` unless the lifetime is above 0 and at most the cache's limit."""
    if not (math.isfinite(lifetime_s) and 0 < lifetime_s <= requests.MAX_LIFETIME_S):
        raise DeclarationError(
            f"Invalid lifetime {lifetime_s:g} s for {template!r}: expected more than 0 s and at most "
            f"{requests.MAX_LIFETIME_S:.0f} s."
        )
