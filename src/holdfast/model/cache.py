"""The cache, as a system declares it: what is kept under which key, and for how long.

    oauth = Cached("oauth:{payer_id}", AccessToken, lifetime_s=3600)
    requests = Windows("ratelimit:{tenant}:{window}", window_s=60)

    @pattern("C1", "The token of a payer", rate=Rate(per="call"), example=("payer-1",))
    def token_of(payer_id: str) -> GetCached[AccessToken]:
        return oauth.get(payer_id=payer_id)

Values are Pydantic documents, kept as JSON. One that cannot be read, because it was kept under another declaration, is not
there. A key is made here and nowhere else, and no value of a field can leave its place in it.
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

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.model.operations import EngineOperation
from holdfast.operations import cache as requests
from holdfast.operations.cache import Counted

V = TypeVar("V", bound=BaseModel)
V_co = TypeVar("V_co", bound=BaseModel, covariant=True)
R_co = TypeVar("R_co", covariant=True)

# Room for the environment is kept.
KEY_BYTES_MAX: Final = requests.KEY_BYTES_MAX - 64
# The field that takes the number of a window.
WINDOW: Final = "window"
# Kept in the place of a value that is known not to be there.
ABSENCE: Final = b"null"
# No key ends so: in a key, '%' is always followed by two digits of a hexadecimal number.
LOCK: Final = "%lock"
_LITERAL: Final = re.compile(r"[A-Za-z0-9_.:/#-]*")
# These are never changed in a value; anything else is percent-encoded.
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*")
# What operations and guarantees take beside the fields of a key.
_PARAMETERS: Final = frozenset({"lifetime_s", "only_if_absent", "token", "cost", "most", "limit"})

FieldValue: TypeAlias = str | int


@dataclass(frozen=True, eq=False)
class KeyTemplate:
    """`oauth:{payer_id}`: how keys of one kind are made."""

    template: str
    parts: tuple[tuple[str, str | None], ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _parts(self.template))

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.parts if name is not None)

    def key(self, **fields: FieldValue) -> str:
        """The key of one value."""
        if wrong := sorted(set(fields) ^ set(self.fields)):
            raise InvalidRequest(
                f"A key of {self.template!r} is made of {', '.join(self.fields)}: {', '.join(wrong)} is missing or unknown."
            )
        key = "".join(before + self._encoded(name, fields) for before, name in self.parts)
        if len(key) > KEY_BYTES_MAX:
            raise InvalidRequest(
                f"A key of {self.template!r} would have {len(key)} bytes, and {KEY_BYTES_MAX} is the most: shorten an id."
            )
        return key

    def _encoded(self, name: str | None, fields: Mapping[str, Any]) -> str:
        """Values are not told where they are refused: one may be the id of a session."""
        if name is None:
            return ""
        value = fields[name]
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise InvalidRequest(
                f"A key of {self.template!r} takes {name} as a text that is not empty or a whole number."
            )
        try:
            return quote(str(value), safe="")
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"A key of {self.template!r} takes {name} as text.") from error

    def __str__(self) -> str:
        return self.template


@dataclass(frozen=True)
class Known(Generic[V_co]):
    """What the cache knows: a value, or by None that there is none."""

    value: V_co | None


class Cached(Generic[V]):
    """Values of one kind. `lifetime_s` is how long one is kept, where nothing shorter is said with it."""

    def __init__(self, template: str, value: type[V], *, lifetime_s: float, purpose: str = "") -> None:
        self.keys, self.value = KeyTemplate(template), value
        self.lifetime_s, self.purpose = lifetime_s, purpose
        given: Any = value
        if not isinstance(given, type) or not issubclass(given, BaseModel):
            raise DeclarationError(f"{template!r} keeps {value!r}: give it a Pydantic model.")
        _check_lifetime(template, lifetime_s)

    @property
    def template(self) -> str:
        return self.keys.template

    def key(self, **fields: FieldValue) -> str:
        return self.keys.key(**fields)

    # --- operations -----------------------------------------------------------------------------------------

    def get(self, **fields: FieldValue) -> GetCached[V]:
        """The value, or None: not kept, not readable, or known to be absent."""
        return GetCached(self, self.key(**fields))

    def look(self, **fields: FieldValue) -> LookCached[V]:
        """What is known: `Known(value)`, `Known(None)` where an absence is kept, or None."""
        return LookCached(self, self.key(**fields))

    def put(
        self,
        value: V,
        /,
        *,
        lifetime_s: float | None = None,
        only_if_absent: bool = False,
        **fields: FieldValue,
    ) -> PutCached[V]:
        """Whether it was put; with `only_if_absent`, of several at once one is."""
        if not isinstance(value, self.value):
            raise InvalidRequest(f"{self} keeps {self.value.__name__}, and {type(value).__name__} was given.")
        body = value.model_dump_json(by_alias=True).encode()
        return PutCached(self, self.key(**fields), body, self._lifetime(lifetime_s), only_if_absent)

    def put_absence(self, *, lifetime_s: float | None = None, **fields: FieldValue) -> PutCached[V]:
        """Keeps that there is no such value."""
        return PutCached(self, self.key(**fields), ABSENCE, self._lifetime(lifetime_s))

    def extend(self, *, lifetime_s: float | None = None, **fields: FieldValue) -> ExtendCached[V]:
        """What is kept lives from now on anew; False where nothing is, which stays so."""
        return ExtendCached(self, self.key(**fields), self._lifetime(lifetime_s))

    def delete(self, **fields: FieldValue) -> DeleteCached[V]:
        """Whether there was something to delete."""
        return DeleteCached(self, self.key(**fields))

    def lock(self, *, token: str, lifetime_s: float, **fields: FieldValue) -> PutCached[V]:
        """The right to make this value anew, until it is given back by the same token or its lifetime is over."""
        return PutCached(self, self.key(**fields) + LOCK, token.encode(), lifetime_s, True)

    def unlock(self, *, token: str, **fields: FieldValue) -> DeleteCached[V]:
        """Gives the right back, if it is still this token's."""
        return DeleteCached(self, self.key(**fields) + LOCK, token.encode())

    def read(self, body: bytes | None) -> Known[V] | None:
        if body is None or body == ABSENCE:
            return None if body is None else Known(None)
        try:
            return Known(self.value.model_validate_json(body))
        except ValidationError:
            return None

    def _lifetime(self, given: float | None) -> float:
        return self.lifetime_s if given is None else given

    def __str__(self) -> str:
        return repr(self.template)


class Windows:
    """Counts per stretch of time: `{window}` in the template is the number of the window, and grows with time."""

    def __init__(self, template: str, *, window_s: float, purpose: str = "") -> None:
        self.keys, self.window_s, self.purpose = KeyTemplate(template), window_s, purpose
        if WINDOW not in self.keys.fields:
            raise DeclarationError(
                f"{template!r} does not say which window is counted: put {{{WINDOW}}} in it."
            )
        _check_lifetime(template, window_s)

    @property
    def template(self) -> str:
        return self.keys.template

    def at(self, now: float) -> int:
        """The number of the window that a moment falls into."""
        return int(now // self.window_s)

    def count(
        self,
        *,
        cost: int = 1,
        most: int | None = None,
        lifetime_s: float | None = None,
        **fields: FieldValue,
    ) -> CountInWindow:
        """Counts, unless there would be more than `most`; it is kept for as long as a window, where nothing else is said."""
        kept_s = self.window_s if lifetime_s is None else lifetime_s
        return CountInWindow(self, self.keys.key(**fields), cost, most, kept_s)

    def read(self, **fields: FieldValue) -> ReadWindow:
        """How much was counted."""
        return ReadWindow(self, self.keys.key(**fields))

    def __str__(self) -> str:
        return repr(self.template)


# --- operations ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CacheOperation(EngineOperation[R_co]):
    """What is common: the declaration it is about, and one key. `kind` is what Redis calls it."""

    store: ClassVar[str] = "cache"

    of: Cached[Any] | Windows
    key: str = field(repr=False)

    @property
    def resource(self) -> str:
        return self.of.template

    def _key(self, environment: str) -> str:
        """Environments may share a server: `prod:oauth:payer-1`."""
        return f"{environment}:{self.key}" if environment else self.key


@dataclass(frozen=True)
class LookCached(CacheOperation["Known[V] | None"], Generic[V]):
    of: Cached[V]

    kind = "GET"

    def request(self, environment: str) -> requests.GetValue:
        return requests.GetValue(key=self._key(environment), pattern=self.pattern)

    def answer(self, result: bytes | None) -> Known[V] | None:
        return self.of.read(result)


@dataclass(frozen=True)
class GetCached(CacheOperation["V | None"], Generic[V]):
    of: Cached[V]

    kind = "GET"

    def request(self, environment: str) -> requests.GetValue:
        return requests.GetValue(key=self._key(environment), pattern=self.pattern)

    def answer(self, result: bytes | None) -> V | None:
        known = self.of.read(result)
        return None if known is None else known.value


@dataclass(frozen=True)
class PutCached(CacheOperation[bool], Generic[V]):
    writes: ClassVar[bool] = True

    of: Cached[V]
    body: bytes = field(repr=False)
    lifetime_s: float
    only_if_absent: bool = False

    kind = "SET"

    def request(self, environment: str) -> requests.PutValue:
        return requests.PutValue(
            key=self._key(environment),
            value=self.body,
            lifetime_s=self.lifetime_s,
            only_if_absent=self.only_if_absent,
            pattern=self.pattern,
        )

    def answer(self, result: bool) -> bool:
        return result


@dataclass(frozen=True)
class ExtendCached(CacheOperation[bool], Generic[V]):
    writes: ClassVar[bool] = True

    of: Cached[V]
    lifetime_s: float

    kind = "PEXPIRE"

    def request(self, environment: str) -> requests.ExtendValue:
        return requests.ExtendValue(
            key=self._key(environment), lifetime_s=self.lifetime_s, pattern=self.pattern
        )

    def answer(self, result: bool) -> bool:
        return result


@dataclass(frozen=True)
class DeleteCached(CacheOperation[bool], Generic[V]):
    writes: ClassVar[bool] = True

    of: Cached[V]
    only_if: bytes | None = field(default=None, repr=False)

    kind = "DEL"

    def request(self, environment: str) -> requests.DeleteValue:
        return requests.DeleteValue(key=self._key(environment), only_if=self.only_if, pattern=self.pattern)

    def answer(self, result: bool) -> bool:
        return result


@dataclass(frozen=True)
class CountInWindow(CacheOperation[Counted]):
    writes: ClassVar[bool] = True

    of: Windows
    cost: int
    most: int | None
    lifetime_s: float

    kind = "INCRBY"

    def request(self, environment: str) -> requests.Increment:
        return requests.Increment(
            key=self._key(environment),
            by=self.cost,
            most=self.most,
            lifetime_s=self.lifetime_s,
            pattern=self.pattern,
        )

    def answer(self, result: Counted) -> Counted:
        return result


@dataclass(frozen=True)
class ReadWindow(CacheOperation[int]):
    of: Windows

    kind = "GET"

    def request(self, environment: str) -> requests.GetValue:
        return requests.GetValue(key=self._key(environment), pattern=self.pattern)

    def answer(self, result: bytes | None) -> int:
        return int(result) if result is not None and result.isdigit() else 0


# --- reading a template -------------------------------------------------------------------------------------


def _parts(template: str) -> tuple[tuple[str, str | None], ...]:
    """The text before each field, and the field; None at the end."""
    try:
        read = list(Formatter().parse(template))
    except ValueError as error:
        raise DeclarationError(f"{template!r} is no template of a key: {error}.") from error
    if "{{" in template or "}}" in template or not read or not read[0][0]:
        raise DeclarationError(
            f"{template!r} is no template of a key: begin it with a word that says what is kept, as in 'oauth:{{payer_id}}'."
        )
    for before, name, spec, conversion in read:
        if name is not None and (not name.isidentifier() or spec or conversion or name in _PARAMETERS):
            raise DeclarationError(
                f"{template!r} has the field {{{name}}}: a field is a plain name, and none of "
                f"{', '.join(sorted(_PARAMETERS))}."
            )
        if not _LITERAL.fullmatch(before) or (name is not None and _UNRESERVED.fullmatch(before)):
            raise DeclarationError(
                f"{template!r} has {before!r} before {{{name}}}: put a ':' before each field, which no value contains, and "
                "only letters, digits and '_.:/#-' beside it."
            )
    names = [name for _, name, _, _ in read if name is not None]
    if len(set(names)) < len(names):
        raise DeclarationError(f"{template!r} has a field twice: name each once.")
    return tuple((before, name) for before, name, _, _ in read)


def _check_lifetime(template: str, lifetime_s: float) -> None:
    if not (math.isfinite(lifetime_s) and 0 < lifetime_s <= requests.LIFETIME_S_MAX):
        raise DeclarationError(
            f"{template!r} would be kept for {lifetime_s:g} s: give it a lifetime above 0 s and up to "
            f"{requests.LIFETIME_S_MAX:.0f} s."
        )
