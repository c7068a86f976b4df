"""Export of a table to CSV: every item as a row, in a form that an import reads back."""

from __future__ import annotations

import csv
import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.core.disk import open_private
from holdfast.core.errors import SettingsError
from holdfast.model.entities.entity import Entity, get_declaration
from holdfast.runtime.csv_io.columns import EMPTY_CELLS, LIST_SEPARATOR
from holdfast.runtime.stores import Stores

Progress: TypeAlias = Callable[[int], None]


async def export_csv(
    stores: Stores, entity: type[Entity], path: Path, *, progress: Progress = lambda rows: None
) -> int:
    """Write every item of the entity's table to `path` and return their number.

    The file is complete or not created. `progress` is called with the number of rows so far. Raises
    `SettingsError` if the file cannot be written.
    """
    declaration = get_declaration(entity)
    names = [attribute.stored_name for attribute in declaration.attributes.values()]
    temporary = path.with_name(path.name + ".new")
    rows = 0
    try:
        with open(temporary, "w", encoding="utf-8", newline="", opener=open_private) as file:
            writer = csv.writer(file)
            writer.writerow(names)
            async for found in stores.each(entity.scan(reason="an export reads everything")):
                item = found.to_item()
                writer.writerow([_format_cell(item.get(name)) for name in names])
                rows += 1
                progress(rows)
        temporary.replace(path)
    except OSError as error:
        raise SettingsError(f"Writing {path} failed ({error.strerror}): choose another file.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def _format_cell(value: Any) -> str:
    """Return text unchanged, lists of plain words joined by semicolons, and anything deeper as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _encode_base64(value)
    if isinstance(value, list | frozenset):
        parts = sorted(value) if isinstance(value, frozenset) else value
        plain = all(isinstance(part, str) and _is_plain_text(part) for part in parts)
        return LIST_SEPARATOR.join(parts) if plain and parts else json.dumps(parts, default=_to_json_value)
    return json.dumps(value, default=_to_json_value) if isinstance(value, dict) else str(value)


def _to_json_value(value: Any) -> Any:
    """Return a JSON form of bytes, exact numbers and sets."""
    if isinstance(value, frozenset):
        return sorted(value)
    return _encode_base64(value) if isinstance(value, bytes) else str(value)


def _encode_base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _is_plain_text(text: str) -> bool:
    """Return True if an import would read the text back as one element of a list."""
    return text not in EMPTY_CELLS and text == text.strip() and LIST_SEPARATOR not in text and text[0] != "["
