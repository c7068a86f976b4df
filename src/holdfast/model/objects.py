"""Objects, as a system declares them: buckets, and in each the shelves that say what a key is made of.

    archive = Bucket("rp-mw-archive", encryption="kms", holds=True)
    replays = archive.objects("replay/{created_at:%Y/%m/%d}/{conversation_id}/{event_id}.json",
                              content_type="application/json", lifetime_days=30)

    @pattern("O1", "Keep an event for replay", rate=Rate(per="event"), example=…)
    def keep(event: Event, body: bytes) -> PutObject:
        return replays.put(body, created_at=event.created_at, conversation_id=event.conversation_id, event_id=event.id)

A key is made here and nowhere else, of the record's own creation time and ids: who reads finds what was written,
whenever that is. An id cannot leave its place in the key, whatever characters it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from string import Formatter
from typing import Any, ClassVar, Final, TypeAlias, TypeVar
from urllib.parse import quote

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.model.operations import EngineOperation
from holdfast.operations import objects as requests

R_co = TypeVar("R_co", covariant=True)

KEY_BYTES_MAX: Final = 1024
BUCKET_NAME_MAX: Final = 63
# Room for an environment is kept: a bucket's name has at most 63 characters with it.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,48}[a-z0-9]")
_PHYSICAL_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
# Digits only: names of months and days would depend on the machine's language.
_TIME_FORMAT: Final = re.compile(r"(%[YmdHMSj]|[A-Za-z0-9_./=-])+")
# These are never changed in a value; anything else is percent-encoded.
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*")
# Of these, those that may stand between two fields: the value before has them encoded, and so ends at the first.
_DIVIDERS: Final = "_.~-"
# Where the name of a key of KMS has the environment.
ENVIRONMENT: Final = "{environment}"
_PARAMETERS: Final = frozenset({"create_only", "metadata", "count", "cursor"})

FieldValue: TypeAlias = str | int | datetime


@dataclass(frozen=True, eq=False)
class Bucket:
    """Where objects are. `encryption` is at rest: by keys of the service ("s3") or by one of KMS ("kms"); a local
    store encrypts by its cipher for both. `holds` allows legal holds, which on S3 must be chosen when it is made.

    `physical` gives its name in an environment where that is another than `name-environment`; `kms_key` may have
    `{environment}` in it. `versions` keeps what is overwritten or deleted past Holdfast for some days, on S3; a local
    store has no former versions, and what is put create-only is never overwritten on either.
    """

    name: str
    encryption: requests.Encryption = field(default="s3", kw_only=True)
    kms_key: str | None = field(default=None, kw_only=True)
    holds: bool = field(default=False, kw_only=True)
    versions: bool = field(default=False, kw_only=True)
    physical: Callable[[str], str] | None = field(default=None, kw_only=True)
    purpose: str = field(default="", kw_only=True)
    shelves: list[Shelf] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DeclarationError(
                f"The bucket {self.name!r} cannot be called so: S3 takes lower-case letters, digits and hyphens, and "
                "with room for an environment a name has 3 to 50 of them."
            )
        if self.encryption not in ("s3", "kms"):
            raise DeclarationError(
                f'The bucket {self.name} has the encryption {self.encryption!r}: it is "s3" or "kms".'
            )
        if self.kms_key is not None and self.encryption != "kms":
            raise DeclarationError(f'The bucket {self.name} has a key of KMS: give it encryption="kms".')

    def physical_name(self, environment: str) -> str:
        """`rp-mw-archive-prod`, or as `physical` says."""
        name = self.name if not environment else self._named(environment)
        if not _PHYSICAL_NAME.fullmatch(name):
            raise DeclarationError(
                f"No bucket can be called {name!r}: choose an environment of lower-case letters, digits and hyphens "
                f"that leaves the name at {BUCKET_NAME_MAX} characters or fewer."
            )
        return name

    def _named(self, environment: str) -> str:
        return f"{self.name}-{environment}" if self.physical is None else self.physical(environment)

    def physical_key(self, environment: str) -> str | None:
        """`alias/archive-prod`: the key of KMS in an environment."""
        return None if self.kms_key is None else in_environment(self.kms_key, environment)

    def definition(self, environment: str) -> requests.BucketDefinition:
        """What an engine is asked to make."""
        lives = {each.prefix: each.lifetime_days for each in self.shelves if each.lifetime_days is not None}
        # Those that begin alike have the same lifetime: the rule of the shorter one is that of the longer one too.
        days = {
            prefix: lives[prefix]
            for prefix in lives
            if not any(prefix != other and prefix.startswith(other) for other in lives)
        }
        return requests.BucketDefinition(
            name=self.physical_name(environment),
            encryption=self.encryption,
            kms_key=self.physical_key(environment),
            lifecycle=tuple(
                requests.LifecycleRule(prefix=prefix, days=days[prefix]) for prefix in sorted(days)
            ),
            holds=self.holds,
            versions=self.versions,
        )

    def objects(
        self,
        template: str,
        *,
        content_type: str,
        lifetime_days: int | None = None,
        created: str = "created_at",
    ) -> Shelf:
        """Objects of one kind. `created` names the field of `template` that takes the record's creation time."""
        shelf = Shelf(self, template, content_type, lifetime_days, created)
        for other in self.shelves:
            _refuse_lifetimes_that_meet(shelf, other)
        self.shelves.append(shelf)
        return shelf


@dataclass(frozen=True, eq=False)
class Shelf:
    """Objects of one kind in one bucket: how their keys are made, what they hold, how long they stay."""

    bucket: Bucket
    template: str
    content_type: str
    lifetime_days: int | None = None
    created: str = "created_at"
    parts: tuple[Part, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        if self.lifetime_days is not None and self.lifetime_days < 1:
            raise DeclarationError(f"{self} lives {self.lifetime_days} days: give it 1 or more, or none.")
        object.__setattr__(self, "parts", tuple(_ended(list(_parts(self)))))
        _check_parts(self)

    @property
    def prefix(self) -> str:
        """What every key of this shelf begins with."""
        return self.parts[0].before

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.name for part in self.parts if part.name is not None))

    def key(self, **fields: FieldValue) -> str:
        """The key of one object."""
        self._refuse_unknown(fields)
        if missing := [name for name in self.fields if name not in fields]:
            raise InvalidRequest(f"A key of {self} also needs {_listed(missing)}.")
        key = "".join(part.before + self._shown(part, fields) for part in self.parts)
        if len(key.encode()) > KEY_BYTES_MAX:
            raise InvalidRequest(
                f"A key of {self} would have {len(key.encode())} bytes, and {KEY_BYTES_MAX} is the most: shorten an id."
            )
        return key

    def prefix_of(self, **fields: FieldValue) -> str:
        """What the keys begin with that have these fields: the template's first ones, with none left out between."""
        self._refuse_unknown(fields)
        prefix = ""
        used: set[str] = set()
        for part in self.parts:
            prefix += part.before
            if part.name is None or part.name not in fields:
                break
            prefix += self._shown(part, fields)
            used.add(part.name)
        if skipped := [name for name in fields if name not in used]:
            wanted = self.fields[: self.fields.index(skipped[0])]
            raise InvalidRequest(
                f"{self} is listed from the left: {_listed(skipped)} can only follow {_listed(wanted)}."
            )
        return prefix

    # --- operations -----------------------------------------------------------------------------------------

    def put(
        self,
        body: bytes,
        /,
        *,
        create_only: bool = True,
        metadata: Mapping[str, str] | None = None,
        **fields: FieldValue,
    ) -> PutObject:
        return PutObject(self, self.key(**fields), body, create_only, dict(metadata or {}))

    def adopt(
        self, body: bytes, /, *, metadata: Mapping[str, str] | None = None, **fields: FieldValue
    ) -> AdoptObject:
        """Puts it if nothing is there under its key; what is there stays, and its bytes are given in place of these."""
        return AdoptObject(self, self.key(**fields), body, dict(metadata or {}))

    def get(self, **fields: FieldValue) -> GetObject:
        return GetObject(self, self.key(**fields))

    def head(self, **fields: FieldValue) -> HeadObject:
        return HeadObject(self, self.key(**fields))

    def delete(self, **fields: FieldValue) -> DeleteObject:
        return DeleteObject(self, self.key(**fields))

    def hold(self, held: bool, /, **fields: FieldValue) -> HoldObject:
        """Puts one object under a legal hold, or lifts it."""
        if not self.bucket.holds:
            raise DeclarationError(f"The bucket {self.bucket.name} has no legal holds: give it holds=True.")
        return HoldObject(self, self.key(**fields), held)

    def listing(self, *, count: int = 1000, cursor: str | None = None, **fields: FieldValue) -> ListObjects:
        """Those with these fields, in the order of their keys, a page at a time."""
        return ListObjects(self, self.prefix_of(**fields), count, cursor)

    # --- values of a key ------------------------------------------------------------------------------------

    def _refuse_unknown(self, fields: Mapping[str, Any]) -> None:
        if unknown := [name for name in fields if name not in self.fields]:
            raise InvalidRequest(
                f"A key of {self} has no {_listed(unknown)}: it is made of {_listed(self.fields) or 'nothing'}."
            )

    def _shown(self, part: Part, fields: Mapping[str, FieldValue]) -> str:
        if part.name is None:
            return ""
        value = fields[part.name]
        if part.time_format is None:
            return _one_component(self, part, value)
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise InvalidRequest(
                f"A key of {self} takes {part.name} as a datetime with its time zone, not {value!r}: give the "
                "record's own creation time."
            )
        return value.astimezone(UTC).strftime(part.time_format)

    def __str__(self) -> str:
        return f"{self.template!r} in {self.bucket.name}"


@dataclass(frozen=True)
class Part:
    """Text of the template, and the field that follows it; None at the end."""

    before: str
    name: str | None
    time_format: str | None
    # What its value must not contain as it is, since that ends it.
    ended_by: str = ""


@dataclass(frozen=True)
class ShelfOperation(EngineOperation[R_co]):
    """What is common: the shelf it is about."""

    store: ClassVar[str] = "objects"

    shelf: Shelf

    @property
    def resource(self) -> str:
        return self.shelf.bucket.name

    def answer(self, result: Any) -> R_co:
        given: R_co = result
        return given

    def _bucket(self, environment: str) -> str:
        return self.shelf.bucket.physical_name(environment)


@dataclass(frozen=True)
class PutObject(ShelfOperation[requests.ObjectInfo]):
    writes: ClassVar[bool] = True

    key: str
    body: bytes = field(repr=False)
    create_only: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)

    kind = "PutObject"

    def request(self, environment: str) -> requests.PutObject:
        return requests.PutObject(
            bucket=self._bucket(environment),
            key=self.key,
            body=self.body,
            content_type=self.shelf.content_type,
            metadata=self.metadata,
            create_only=self.create_only,
            encryption=self.shelf.bucket.encryption,
            kms_key=self.shelf.bucket.physical_key(environment),
            pattern=self.pattern,
        )


@dataclass(frozen=True)
class AdoptObject(ShelfOperation[requests.AdoptedObject]):
    writes: ClassVar[bool] = True

    key: str
    body: bytes = field(repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict)

    kind = "AdoptObject"

    def request(self, environment: str) -> requests.AdoptObject:
        put = PutObject(self.shelf, self.key, self.body, True, self.metadata, pattern=self.pattern)
        return requests.AdoptObject(put=put.request(environment), pattern=self.pattern)


@dataclass(frozen=True)
class GetObject(ShelfOperation[requests.StoredObject]):
    key: str

    kind = "GetObject"

    def request(self, environment: str) -> requests.GetObject:
        return requests.GetObject(bucket=self._bucket(environment), key=self.key, pattern=self.pattern)


@dataclass(frozen=True)
class HeadObject(ShelfOperation[requests.ObjectInfo]):
    key: str

    kind = "HeadObject"

    def request(self, environment: str) -> requests.HeadObject:
        return requests.HeadObject(bucket=self._bucket(environment), key=self.key, pattern=self.pattern)


@dataclass(frozen=True)
class DeleteObject(ShelfOperation[None]):
    writes: ClassVar[bool] = True

    key: str

    kind = "DeleteObject"

    def request(self, environment: str) -> requests.DeleteObject:
        return requests.DeleteObject(bucket=self._bucket(environment), key=self.key, pattern=self.pattern)


@dataclass(frozen=True)
class HoldObject(ShelfOperation[None]):
    writes: ClassVar[bool] = True

    key: str
    held: bool

    kind = "PutObjectLegalHold"

    def request(self, environment: str) -> requests.SetLegalHold:
        return requests.SetLegalHold(
            bucket=self._bucket(environment), key=self.key, held=self.held, pattern=self.pattern
        )


@dataclass(frozen=True)
class ListObjects(ShelfOperation[requests.ObjectPage]):
    prefix: str
    count: int = 1000
    cursor: str | None = None

    kind = "ListObjectsV2"

    def request(self, environment: str) -> requests.ListObjects:
        return requests.ListObjects(
            bucket=self._bucket(environment),
            prefix=self.prefix,
            count=self.count,
            cursor=self.cursor,
            pattern=self.pattern,
        )


def in_environment(text: str, environment: str) -> str:
    """A text with the environment put in where it says so; without one, it is left out with its hyphen."""
    if not environment:
        text = text.replace(f"-{ENVIRONMENT}", "")
    return text.replace(ENVIRONMENT, environment)


# --- reading a template -------------------------------------------------------------------------------------


def _parts(shelf: Shelf) -> Iterator[Part]:
    try:
        read = list(Formatter().parse(shelf.template))
    except ValueError as error:
        raise DeclarationError(f"{shelf} is no template: {error}.") from error
    if "{{" in shelf.template or "}}" in shelf.template:
        raise DeclarationError(f"{shelf} has a brace in its text: keys are made without.")
    for before, name, spec, conversion in read:
        if name is None:
            yield Part(before, None, None)
            continue
        if not name.isidentifier() or conversion or name in _PARAMETERS:
            raise DeclarationError(
                f"{shelf} has the field {{{name}}}: a field is a plain name, and none of {_listed(sorted(_PARAMETERS))}."
            )
        _check_time_format(shelf, name, spec or "")
        yield Part(before, name, spec or None)


def _ended(parts: Sequence[Part]) -> Iterator[Part]:
    """Each field with what ends its value, where that is a character that values have."""
    for part, following in pairwise(parts):
        is_divided = following.name is not None and _UNRESERVED.fullmatch(following.before)
        yield replace(part, ended_by=following.before[:1]) if is_divided else part
    yield from parts[-1:]


def _check_time_format(shelf: Shelf, name: str, spec: str) -> None:
    if (name == shelf.created) != bool(spec):
        raise DeclarationError(
            f"{shelf} writes {{{name}{':' + spec if spec else ''}}}: the creation time {shelf.created} has a format, "
            f"such as {{{shelf.created}:%Y/%m/%d}}, and no other field has one (created=… names it)."
        )
    if spec and not _TIME_FORMAT.fullmatch(spec):
        raise DeclarationError(
            f"{shelf} has the time format {spec!r}: use %Y, %m, %d, %H, %M, %S and %j, which are the same everywhere."
        )


def _check_parts(shelf: Shelf) -> None:
    """No key can be another's, nor lead out of its place."""
    names = [part for part in shelf.parts if part.name is not None]
    for following in names[1:]:
        if _UNRESERVED.fullmatch(following.before) and following.before[:1] not in tuple(_DIVIDERS):
            raise DeclarationError(
                f"{shelf} has nothing before {{{following.name}}} by which two keys could be told apart: put a '/' "
                "between the fields, which no value contains, or one of _ . ~ -, which is encoded in the value before."
            )
    literal = "".join(part.before + (part.time_format or part.name or "") for part in shelf.parts)
    if (
        not literal
        or any(step in ("", ".", "..") for step in literal.split("/"))
        or not literal.isprintable()
    ):
        raise DeclarationError(
            f"{shelf} is no key: it must not begin or end with '/', and has no empty step, '.' or '..' in it."
        )


def _refuse_lifetimes_that_meet(shelf: Shelf, other: Shelf) -> None:
    meet = shelf.prefix.startswith(other.prefix) or other.prefix.startswith(shelf.prefix)
    if meet and shelf.lifetime_days != other.lifetime_days:
        raise DeclarationError(
            f"{shelf} and {other} may have the same beginning, and a lifetime goes by the beginning of a key: give both "
            "the same lifetime, or begin one with another word."
        )


def _one_component(shelf: Shelf, part: Part, value: FieldValue) -> str:
    name = part.name
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InvalidRequest(
            f"A key of {shelf} takes {name} as a text that is not empty or a whole number, not {value!r}."
        )
    text = str(value)
    try:
        encoded = quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"A key of {shelf} takes {name} as text, and {text!r} is none.") from error
    if part.ended_by:
        encoded = encoded.replace(part.ended_by, f"%{ord(part.ended_by):02X}")
    return encoded.replace(".", "%2E") if not encoded.strip(".") else encoded


def _listed(names: Any) -> str:
    return ", ".join(names)
