"""Objects of buckets, read-only: listed by prefix, with their properties, and their content in bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, cast

from holdfast.model.objects import Bucket, ObjectKind
from holdfast.operations.objects import GetObject, HeadObject, ListObjects, ObjectInfo, ObjectPage
from holdfast.runtime.stores import Stores
from holdfast.stores.objects.port import Objects

__all__ = ["ObjectContent", "ObjectDetails", "list_objects", "load_content", "load_object"]

PAGE_OBJECTS: Final = 50
# A larger object is not read at all, because a store returns whole objects.
MAX_READ_BYTES: Final = 8 * 2**20
MAX_SHOWN_BYTES: Final = 64 * 1024
HEX_ROW_BYTES: Final = 16
MAX_HEX_BYTES: Final = 4096


@dataclass(frozen=True)
class ObjectDetails:
    """An object's properties, its declared kind, and the end of its life; None if it has none."""

    info: ObjectInfo
    kind: ObjectKind | None
    expires_at: datetime | None

    @property
    def is_readable(self) -> bool:
        """Whether the object is small enough to show its content."""
        return self.info.bytes <= MAX_READ_BYTES


@dataclass(frozen=True)
class ObjectContent:
    """The start of an object's content, as a text."""

    form: Literal["json", "text", "hex"]
    text: str
    is_whole: bool


async def list_objects(stores: Stores, bucket: Bucket, prefix: str, cursor: str) -> ObjectPage:
    """Return one page of a bucket's objects whose key begins with the prefix."""
    request = ListObjects(
        bucket=bucket.physical_name(stores.environment),
        prefix=prefix,
        count=PAGE_OBJECTS,
        cursor=cursor or None,
    )
    return await _get_engine(stores).run(request)


async def load_object(stores: Stores, bucket: Bucket, key: str) -> ObjectDetails:
    """Return an object's properties. Raise `NotFound` if there is none."""
    info = await _get_engine(stores).run(HeadObject(bucket=bucket.physical_name(stores.environment), key=key))
    kind = _find_kind(bucket.object_kinds, key)
    days = None if kind is None else kind.lifetime_days
    put_at = datetime.fromtimestamp(info.put_at, UTC)
    return ObjectDetails(info, kind, None if days is None else put_at + timedelta(days=days))


async def load_content(stores: Stores, bucket: Bucket, key: str) -> ObjectContent:
    """Return the start of an object's content: as JSON, as text, or in hexadecimal."""
    found = await _get_engine(stores).run(GetObject(bucket=bucket.physical_name(stores.environment), key=key))
    return format_content(found.body)


def format_content(body: bytes) -> ObjectContent:
    """Return bytes as a text, cut to what a page shows."""
    start = body[:MAX_SHOWN_BYTES]
    is_whole = len(start) == len(body)
    try:
        # A character may be cut in two at the end of the start.
        text = start.decode() if is_whole else start.decode(errors="ignore")
        is_text = is_whole or len(text.encode()) >= len(start) - 4
    except UnicodeDecodeError:
        text, is_text = "", False
    if not is_text or "\0" in text:
        return ObjectContent("hex", format_hex(body[:MAX_HEX_BYTES]), len(body) <= MAX_HEX_BYTES)
    if is_whole and text.lstrip()[:1] in ("{", "["):
        try:
            return ObjectContent("json", json.dumps(json.loads(text), indent=2, ensure_ascii=False), True)
        except (ValueError, RecursionError):
            pass
    return ObjectContent("text", text, is_whole)


def format_hex(body: bytes) -> str:
    """Return bytes in rows of sixteen, with their places and the printable characters."""
    rows = []
    for start in range(0, len(body), HEX_ROW_BYTES):
        part = body[start : start + HEX_ROW_BYTES]
        printable = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        rows.append(f"{start:08x}  {part.hex(' '):<{3 * HEX_ROW_BYTES}} {printable}")
    return "\n".join(rows)


def _find_kind(kinds: Sequence[ObjectKind], key: str) -> ObjectKind | None:
    """Return the declared kind with the longest prefix of the key."""
    found = [each for each in kinds if key.startswith(each.prefix)]
    return max(found, key=lambda each: len(each.prefix), default=None)


def _get_engine(stores: Stores) -> Objects:
    engine: Any = stores.engines.get("objects")
    return cast(Objects, engine)
