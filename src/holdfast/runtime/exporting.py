"""A table into CSV: every item as a row, in a form that an import reads back."""

from __future__ import annotations

import csv
import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.errors import SettingsError
from holdfast.model.entity import Entity, declaration_of
from holdfast.runtime.columns import LIST_SEPARATOR, NOTHING
from holdfast.runtime.stores import Stores

Progress: TypeAlias = Callable[[int], None]


async def export_csv(
    stores: Stores, entity: type[Entity], path: Path, *, progress: Progress = lambda rows: None
) -> int:
    """Writes every item of a table; gives their number. The file is whole or is not there."""
    declaration = declaration_of(entity)
    names = [attribute.stored for attribute in declaration.attributes.values()]
    beside = path.with_name(path.name + ".new")
    rows = 0
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            async for found in stores.each(entity.scan(reason="an export is everything")):
                item = found.to_item()
                writer.writerow([_cell(item.get(name)) for name in names])
                rows += 1
                progress(rows)
        beside.replace(path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror}): name another file.") from error
    finally:
        beside.unlink(missing_ok=True)
    return rows


def _cell(value: Any) -> str:
    """Text as it is, lists of plain words with semicolons, anything deeper as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, list | frozenset):
        parts = sorted(value) if isinstance(value, frozenset) else value
        plain = all(isinstance(part, str) and _is_plain(part) for part in parts)
        return LIST_SEPARATOR.join(parts) if plain and parts else json.dumps(parts, default=_deeper)
    return json.dumps(value, default=_deeper) if isinstance(value, dict) else str(value)


def _deeper(value: Any) -> Any:
    """What JSON has no form for: bytes, exact numbers, sets."""
    if isinstance(value, frozenset):
        return sorted(value)
    return _base64(value) if isinstance(value, bytes) else str(value)


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _is_plain(text: str) -> bool:
    return text not in NOTHING and text == text.strip() and LIST_SEPARATOR not in text and text[0] != "["
