"""Declarations of buckets and of the kinds of objects in them, and the frozen operations on objects.

    archive = Bucket("rp-mw-archive", encryption="kms", legal_holds=True)
    replays = archive.objects("replay/{created_at:%Y/%m/%d}/{conversation_id}/{event_id}.json",
                              content_type="application/json", lifetime_days=30)

    @pattern("O1", "Keep an event for replay", rate=Rate(per="event"), example=…)
    def keep(event: Event, body: bytes) -> PutObject:
        return replays.put(body, created_at=event.created_at, conversation_id=event.conversation_id,
                           event_id=event.id)

Keys are built only here, from the record's own creation time and ids, so that a reader finds an object
whenever it was written. Ids are encoded so that they cannot change the structure of a key.
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

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.operations import EngineOperation
from holdfast.operations import objects as requests

__all__ = [
    "Bucket",
    "DeleteObject",
    "GetObject",
    "GetOrPutObject",
    "HeadObject",
    "ListObjects",
    "ObjectKind",
    "PutObject",
    "SetLegalHold",
]

R_co = TypeVar("R_co", covariant=True)

MAX_KEY_BYTES: Final = 1024
MAX_BUCKET_NAME: Final = 63
# Leaves characters for the environment: a bucket's physical name has at most 63.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,48}[a-z0-9]")
_PHYSICAL_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
# Digits only: month and day names would depend on the machine's locale.
_TIME_FORMAT: Final = re.compile(r"(%[YmdHMSj]|[A-Za-z0-9_./=-])+")
# These characters stay as they are in a value; all others are percent-encoded.
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*")
# Unreserved characters allowed between two fields: they are encoded in the value before, which ends at the
# first.
_DIVIDERS: Final = "_.~-"
# The placeholder for the environment in a KMS key name.
ENVIRONMENT_PLACEHOLDER: Final = "{environment}"
_PARAMETERS: Final = frozenset({"create_only", "metadata", "count", "cursor"})

FieldValue: TypeAlias = str | int | datetime


@dataclass(frozen=True, eq=False)
class Bucket:
    """A bucket, declared once for all environments.

    `encryption` is at rest: with S3's keys ("s3") or a KMS key ("kms"); a local store uses its cipher for
    both. `legal_holds` allows legal holds, which S3 requires to be enabled when the bucket is created.
    `physical` returns the bucket's name in an environment, if it is not `name-environment`; `kms_key` may
    contain `{environment}`. `versions` keeps overwritten and deleted objects for some days, on S3 only; a
    create-only put never overwrites on either.
    """

    name: str
    encryption: requests.Encryption = field(default="s3", kw_only=True)
    kms_key: str | None = field(default=None, kw_only=True)
    legal_holds: bool = field(default=False, kw_only=True)
    versions: bool = field(default=False, kw_only=True)
    physical: Callable[[str], str] | None = field(default=None, kw_only=True)
    purpose: str = field(default="", kw_only=True)
    object_kinds: list[ObjectKind] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DeclarationError(
                f"Invalid bucket name {self.name!r}: expected 3 to 50 lower-case letters, digits and hyphens "
                "(S3 allows 63, the environment needs the rest)."
            )
        if self.encryption not in ("s3", "kms"):
            raise DeclarationError(
                f'Invalid encryption {self.encryption!r} of the bucket {self.name}: expected "s3" or "kms".'
            )
        if self.kms_key is not None and self.encryption != "kms":
            raise DeclarationError(f'The bucket {self.name} has a KMS key: add encryption="kms".')

    def physical_name(self, environment: str) -> str:
        """Return the bucket's name in an environment, `rp-mw-archive-prod`; raise `DeclarationError` if S3
        would refuse it.
        """
        name = self.name if not environment else self._format_name(environment)
        if not _PHYSICAL_NAME.fullmatch(name):
            raise DeclarationError(
                f"Invalid bucket name {name!r}: choose an environment of lower-case letters, digits and "
                f"hyphens that keeps the name within {MAX_BUCKET_NAME} characters."
            )
        return name

    def _format_name(self, environment: str) -> str:
        """Return the result of `physical`, or `name-environment`."""
        return f"{self.name}-{environment}" if self.physical is None else self.physical(environment)

    def physical_kms_key(self, environment: str) -> str | None:
        """Return the KMS key in an environment, `alias/archive-prod`; None if there is none."""
        return None if self.kms_key is None else substitute_environment(self.kms_key, environment)

    def definition(self, environment: str) -> requests.BucketDefinition:
        """Return the definition that an engine creates the bucket from, with a lifecycle rule per prefix."""
        lives = {
            each.prefix: each.lifetime_days for each in self.object_kinds if each.lifetime_days is not None
        }
        # Overlapping prefixes have the same lifetime: the rule of the shorter prefix covers the longer one.
        days = {
            prefix: lives[prefix]
            for prefix in lives
            if not any(prefix != other and prefix.startswith(other) for other in lives)
        }
        return requests.BucketDefinition(
            name=self.physical_name(environment),
            encryption=self.encryption,
            kms_key=self.physical_kms_key(environment),
            lifecycle=tuple(
                requests.LifecycleRule(prefix=prefix, days=days[prefix]) for prefix in sorted(days)
            ),
            holds=self.legal_holds,
            versions=self.versions,
        )

    def objects(
        self,
        template: str,
        *,
        content_type: str,
        lifetime_days: int | None = None,
        created_field: str = "created_at",
    ) -> ObjectKind:
        """Declare one kind of object and add it to the bucket.

        `created_field` names the template field that takes the record's creation time. Raise
        `DeclarationError` if the template is invalid, or a kind with an overlapping prefix has another
        lifetime.
        """
        shelf = ObjectKind(self, template, content_type, lifetime_days, created_field)
        for other in self.object_kinds:
            _refuse_conflicting_lifetimes(shelf, other)
        self.object_kinds.append(shelf)
        return shelf


@dataclass(frozen=True, eq=False)
class ObjectKind:
    """One kind of object in a bucket: key template, content type and lifetime."""

    bucket: Bucket
    template: str
    content_type: str
    lifetime_days: int | None = None
    created_field: str = "created_at"
    parts: tuple[TemplatePart, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        if self.lifetime_days is not None and self.lifetime_days < 1:
            raise DeclarationError(
                f"Invalid lifetime_days={self.lifetime_days} of {self}: expected 1 or more, or None."
            )
        object.__setattr__(self, "parts", tuple(_add_terminators(list(_parse_template(self)))))
        _check_parts(self)

    @property
    def prefix(self) -> str:
        """The constant text that every key begins with."""
        return self.parts[0].before

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the template's fields, each once."""
        return tuple(dict.fromkeys(part.name for part in self.parts if part.name is not None))

    def build_key(self, **fields: FieldValue) -> str:
        """Return the key of one object; raise `InvalidRequest` for missing, unknown or invalid fields."""
        self._refuse_unknown_fields(fields)
        if missing := [name for name in self.fields if name not in fields]:
            raise InvalidRequest(f"Missing field for a key of {self}: {_join_names(missing)}.")
        key = "".join(part.before + self._format_field(part, fields) for part in self.parts)
        if len(key.encode()) > MAX_KEY_BYTES:
            raise InvalidRequest(
                f"Invalid key of {self}: it has {len(key.encode())} bytes, and at most {MAX_KEY_BYTES} are "
                "allowed. Shorten a field value."
            )
        return key

    def build_prefix(self, **fields: FieldValue) -> str:
        """Return the prefix of all keys with these fields, which must be the template's first fields, without
        gaps.
        """
        self._refuse_unknown_fields(fields)
        prefix = ""
        used: set[str] = set()
        for part in self.parts:
            prefix += part.before
            if part.name is None or part.name not in fields:
                break
            prefix += self._format_field(part, fields)
            used.add(part.name)
        if skipped := [name for name in fields if name not in used]:
            wanted = self.fields[: self.fields.index(skipped[0])]
            raise InvalidRequest(
                f"Invalid fields to list {self}: {_join_names(skipped)} requires {_join_names(wanted)}, "
                "which come first in the key."
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
        """Build the write of an object.

        With `create_only` it fails if the object exists, instead of overwriting it.
        """
        return PutObject(self, self.build_key(**fields), body, create_only, dict(metadata or {}))

    def get_or_put(
        self, body: bytes, /, *, metadata: Mapping[str, str] | None = None, **fields: FieldValue
    ) -> GetOrPutObject:
        """Build the write of an object if its key is free; otherwise its result holds the existing object's
        bytes.
        """
        return GetOrPutObject(self, self.build_key(**fields), body, dict(metadata or {}))

    def get(self, **fields: FieldValue) -> GetObject:
        """Build the read of an object with its body."""
        return GetObject(self, self.build_key(**fields))

    def head(self, **fields: FieldValue) -> HeadObject:
        """Build the read of an object's metadata."""
        return HeadObject(self, self.build_key(**fields))

    def delete(self, **fields: FieldValue) -> DeleteObject:
        """Build the deletion of an object."""
        return DeleteObject(self, self.build_key(**fields))

    def set_legal_hold(self, held: bool, /, **fields: FieldValue) -> SetLegalHold:
        """Build the operation that places one object under legal hold, or lifts the hold.

        Raise `DeclarationError` if the bucket does not allow holds.
        """
        if not self.bucket.legal_holds:
            raise DeclarationError(
                f"The bucket {self.bucket.name} does not allow legal holds: declare it with legal_holds=True."
            )
        return SetLegalHold(self, self.build_key(**fields), held)

    def list_objects(
        self, *, count: int = 1000, cursor: str | None = None, **fields: FieldValue
    ) -> ListObjects:
        """Build the list of up to `count` objects with these fields, in key order, after the cursor."""
        return ListObjects(self, self.build_prefix(**fields), count, cursor)

    # --- key fields -----------------------------------------------------------------------------------------

    def _refuse_unknown_fields(self, fields: Mapping[str, Any]) -> None:
        """Raise `InvalidRequest` for fields that the template does not have."""
        if unknown := [name for name in fields if name not in self.fields]:
            raise InvalidRequest(
                f"Unknown field for a key of {self}: {_join_names(unknown)}. Expected "
                f"{_join_names(self.fields) or 'none'}."
            )

    def _format_field(self, part: TemplatePart, fields: Mapping[str, FieldValue]) -> str:
        """Return the text of a part's field: the time in UTC by its format, or the value percent-encoded."""
        if part.name is None:
            return ""
        value = fields[part.name]
        if part.time_format is None:
            return _encode_component(self, part, value)
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise InvalidRequest(
                f"Invalid {part.name} {value!r} for a key of {self}: expected a datetime with a time zone, "
                "the record's own creation time."
            )
        return value.astimezone(UTC).strftime(part.time_format)

    def __str__(self) -> str:
        return f"{self.template!r} in {self.bucket.name}"


@dataclass(frozen=True)
class TemplatePart:
    """Literal text of the template and the field that follows it; None after the last."""

    before: str
    name: str | None
    time_format: str | None
    # The character that ends the field, so it is encoded inside the value.
    terminator: str = ""


@dataclass(frozen=True)
class ObjectOperation(EngineOperation[R_co]):
    """An operation on one kind of object."""

    store: ClassVar[str] = "objects"

    object_kind: ObjectKind

    @property
    def resource(self) -> str:
        return self.object_kind.bucket.name

    def decode_result(self, result: Any) -> R_co:
        typed: R_co = result
        return typed

    def _get_bucket_name(self, environment: str) -> str:
        return self.object_kind.bucket.physical_name(environment)


@dataclass(frozen=True)
class PutObject(ObjectOperation[requests.ObjectInfo]):
    """Store an object under its key."""

    writes: ClassVar[bool] = True

    key: str
    body: bytes = field(repr=False)
    create_only: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)

    kind = "PutObject"

    def build_request(self, environment: str) -> requests.PutObject:
        return requests.PutObject(
            bucket=self._get_bucket_name(environment),
            key=self.key,
            body=self.body,
            content_type=self.object_kind.content_type,
            metadata=self.metadata,
            create_only=self.create_only,
            encryption=self.object_kind.bucket.encryption,
            kms_key=self.object_kind.bucket.physical_kms_key(environment),
            pattern=self.pattern,
        )


@dataclass(frozen=True)
class GetOrPutObject(ObjectOperation[requests.AdoptedObject]):
    """Store an object, or return the one that exists under its key."""

    writes: ClassVar[bool] = True

    key: str
    body: bytes = field(repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict)

    kind = "AdoptObject"

    def build_request(self, environment: str) -> requests.AdoptObject:
        put = PutObject(self.object_kind, self.key, self.body, True, self.metadata, pattern=self.pattern)
        return requests.AdoptObject(put=put.build_request(environment), pattern=self.pattern)


@dataclass(frozen=True)
class GetObject(ObjectOperation[requests.StoredObject]):
    """Read an object with its body."""

    key: str

    kind = "GetObject"

    def build_request(self, environment: str) -> requests.GetObject:
        return requests.GetObject(
            bucket=self._get_bucket_name(environment), key=self.key, pattern=self.pattern
        )


@dataclass(frozen=True)
class HeadObject(ObjectOperation[requests.ObjectInfo]):
    """Read an object's metadata."""

    key: str

    kind = "HeadObject"

    def build_request(self, environment: str) -> requests.HeadObject:
        return requests.HeadObject(
            bucket=self._get_bucket_name(environment), key=self.key, pattern=self.pattern
        )


@dataclass(frozen=True)
class DeleteObject(ObjectOperation[None]):
    """Delete an object."""

    writes: ClassVar[bool] = True

    key: str

    kind = "DeleteObject"

    def build_request(self, environment: str) -> requests.DeleteObject:
        return requests.DeleteObject(
            bucket=self._get_bucket_name(environment), key=self.key, pattern=self.pattern
        )


@dataclass(frozen=True)
class SetLegalHold(ObjectOperation[None]):
    """Place an object under legal hold, or lift the hold."""

    writes: ClassVar[bool] = True

    key: str
    held: bool

    kind = "PutObjectLegalHold"

    def build_request(self, environment: str) -> requests.SetLegalHold:
        return requests.SetLegalHold(
            bucket=self._get_bucket_name(environment), key=self.key, held=self.held, pattern=self.pattern
        )


@dataclass(frozen=True)
class ListObjects(ObjectOperation[requests.ObjectPage]):
    """List objects by prefix, in key order."""

    prefix: str
    count: int = 1000
    cursor: str | None = None

    kind = "ListObjectsV2"

    def build_request(self, environment: str) -> requests.ListObjects:
        return requests.ListObjects(
            bucket=self._get_bucket_name(environment),
            prefix=self.prefix,
            count=self.count,
            cursor=self.cursor,
            pattern=self.pattern,
        )


def substitute_environment(text: str, environment: str) -> str:
    """Replace `{environment}` in a text; without an environment, remove it with the hyphen before it."""
    if not environment:
        text = text.replace(f"-{ENVIRONMENT_PLACEHOLDER}", "")
    return text.replace(ENVIRONMENT_PLACEHOLDER, environment)


# --- parsing a template -------------------------------------------------------------------------------------


def _parse_template(object_kind: ObjectKind) -> Iterator[TemplatePart]:
    """Yield the template's parts; raise `DeclarationError` for invalid fields or braces."""
    try:
        read = list(Formatter().parse(object_kind.template))
    except ValueError as error:
        raise DeclarationError(f"Invalid key template {object_kind}: {error}.") from error
    if "{{" in object_kind.template or "}}" in object_kind.template:
        raise DeclarationError(f"Invalid key template {object_kind}: literal braces are not allowed.")
    for before, name, spec, conversion in read:
        if name is None:
            yield TemplatePart(before, None, None)
            continue
        if not name.isidentifier() or conversion or name in _PARAMETERS:
            raise DeclarationError(
                f"Invalid field {{{name}}} in key template {object_kind}: expected a plain name other than "
                f"{_join_names(sorted(_PARAMETERS))}."
            )
        _check_time_format(object_kind, name, spec or "")
        yield TemplatePart(before, name, spec or None)


def _add_terminators(parts: Sequence[TemplatePart]) -> Iterator[TemplatePart]:
    """Yield each part with its terminator, if values can contain that character."""
    for part, following in pairwise(parts):
        is_divided = following.name is not None and _UNRESERVED.fullmatch(following.before)
        yield replace(part, terminator=following.before[:1]) if is_divided else part
    yield from parts[-1:]


def _check_time_format(object_kind: ObjectKind, name: str, spec: str) -> None:
    """Raise `DeclarationError` unless exactly the creation time has a format, of numbers only."""
    if (name == object_kind.created_field) != bool(spec):
        raise DeclarationError(
            f"Invalid field {{{name}{':' + spec if spec else ''}}} in key template {object_kind}: the "
            "creation "
            f"time {object_kind.created_field} needs a format, such as "
            f"{{{object_kind.created_field}:%Y/%m/%d}}, and no other field "
            "has one (created_field=… names it)."
        )
    if spec and not _TIME_FORMAT.fullmatch(spec):
        raise DeclarationError(
            f"Invalid time format {spec!r} in key template {object_kind}: use %Y, %m, %d, %H, %M, %S and %j, "
            "which do not depend on the locale."
        )


def _check_parts(object_kind: ObjectKind) -> None:
    """Raise DeclarationError if two objects could get the same key, or a key could leave its prefix."""
    names = [part for part in object_kind.parts if part.name is not None]
    for following in names[1:]:
        if _UNRESERVED.fullmatch(following.before) and following.before[:1] not in tuple(_DIVIDERS):
            raise DeclarationError(
                f"Ambiguous key template {object_kind}: expected a separator before {{{following.name}}}. "
                "Use '/', which no value contains, or one of _ . ~ -, which is encoded in the value before."
            )
    literal = "".join(part.before + (part.time_format or part.name or "") for part in object_kind.parts)
    if (
        not literal
        or any(step in ("", ".", "..") for step in literal.split("/"))
        or not literal.isprintable()
    ):
        raise DeclarationError(
            f"Invalid key template {object_kind}: it must not begin or end with '/', nor contain an empty "
            "segment, '.' or '..'."
        )


def _refuse_conflicting_lifetimes(object_kind: ObjectKind, other: ObjectKind) -> None:
    """Raise `DeclarationError` if the prefixes of two kinds overlap and their lifetimes differ."""
    meet = object_kind.prefix.startswith(other.prefix) or other.prefix.startswith(object_kind.prefix)
    if meet and object_kind.lifetime_days != other.lifetime_days:
        raise DeclarationError(
            f"Conflicting lifetimes of {object_kind} and {other}: their prefixes overlap, and a lifetime "
            "applies to a prefix. Give both the same lifetime, or begin one with another word."
        )


def _encode_component(object_kind: ObjectKind, part: TemplatePart, value: FieldValue) -> str:
    """Return a field's value percent-encoded, so that it cannot contain its terminator or be `.` or `..`."""
    name = part.name
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InvalidRequest(
            f"Invalid {name} {value!r} for a key of {object_kind}: expected a non-empty string or an integer."
        )
    text = str(value)
    try:
        encoded = quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"Invalid {name} {text!r} for a key of {object_kind}: expected valid Unicode text."
        ) from error
    if part.terminator:
        encoded = encoded.replace(part.terminator, f"%{ord(part.terminator):02X}")
    return encoded.replace(".", "%2E") if not encoded.strip(".") else encoded


def _join_names(names: Any) -> str:
    return ", ".join(names)
