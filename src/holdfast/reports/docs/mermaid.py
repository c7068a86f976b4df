"""Draw a system as Mermaid diagrams: tables with their entities, and the access of components to stores.

Pure: a `System` in, the text of a diagram out. Names can contain any text. Nodes have generated ids and show
the name as an escaped label, so that no name can end a label or begin a keyword.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.model.entities.declaration import Attribute, Declaration
from holdfast.model.entities.entity import get_declaration
from holdfast.model.objects import Bucket
from holdfast.model.operations import Operation
from holdfast.model.queues import Queue, Receive
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.reports.docs.declaration_text import format_type
from holdfast.reports.iac.infrastructure import build_example_operation
from holdfast.reports.resources import (
    CacheKeys,
    ResourcePath,
    SqlTable,
    format_path,
    list_declared,
    list_touched,
)

# Characters with a meaning in Mermaid or in the HTML that it renders.
_SPECIAL: Final = re.compile(r"[\"#;<>&`\\]")

# Label suffixes of cylinders that are not DynamoDB tables.
_STORE_SUFFIXES: Final = {Bucket: " (bucket)", SqlTable: " (SQL)", CacheKeys: " (cache)"}

# Mermaid reads an attribute of this name as a key mark.
_KEY_MARKS: Final = frozenset({"PK", "FK", "UK"})


def draw_entities(system: System) -> str:
    """Return an `erDiagram` of the tables with their keys and the entities with their attributes."""
    lines = ["erDiagram"]
    for number, table in enumerate(system.tables):
        lines += _draw_box(f"t{number}", f"{table.name} (table)", _build_table_rows(table))
        for place, entity in enumerate(table.entities):
            box = f"t{number}e{place}"
            lines += _draw_box(box, entity.__name__, _build_entity_rows(get_declaration(entity)))
            lines.append(f"    t{number} ||--o{{ {box} : holds")
    return "\n".join(lines) + "\n"


def draw_access(system: System) -> str:
    """Return a `flowchart` of the components, the patterns that each may run, and their resources.

    A pattern that receives points the other way: from the queue to the consumer.
    """
    operations = [build_example_operation(pattern) for pattern in system.patterns]
    places = dict.fromkeys([*list_declared(system), *_list_undeclared(operations)])
    stores = {place: f"s{number}" for number, place in enumerate(places)}
    receiving = {number for number, each in enumerate(operations) if isinstance(each, Receive)}
    lines = ["flowchart LR"]
    lines += [
        f'    c{number}(["{escape_label(component.name)}"])'
        for number, component in enumerate(system.components)
    ]
    lines += [
        f'    p{number}["{escape_label(f"{pattern.id} {pattern.name}")}"]'
        for number, pattern in enumerate(system.patterns)
    ]
    lines += [f"    {node}{_draw_shape(place)}" for place, node in stores.items()]
    for number, component in enumerate(system.components):
        for place in map(system.patterns.index, component.patterns):
            lines.append(_draw_arrow(f"c{number}", f"p{place}", place in receiving))
    for number, operation in enumerate(operations):
        touched = [place for place in dict.fromkeys(list_touched(operation)) if place in stores]
        lines += [_draw_arrow(f"p{number}", stores[place], number in receiving) for place in touched]
    return "\n".join(lines) + "\n"


def _list_undeclared(operations: Iterable[Operation[Any]]) -> list[ResourcePath]:
    """Return the SQL tables and cache keys that the operations touch: only patterns name them, not the
    system.
    """
    touched = [place for operation in operations for place in list_touched(operation)]
    return [place for place in touched if isinstance(place[0], SqlTable | CacheKeys)]


def escape_label(text: str) -> str:
    """Escape a text for use inside double quotes."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", " ".join(text.split()))


def _draw_box(id: str, title: str, rows: Iterator[str]) -> list[str]:
    """Return the lines of an entity box with this id, title and rows."""
    return [f'    {id}["{escape_label(title)}"] {{', *(f"        {row}" for row in rows), "    }"]


def _build_table_rows(table: Table) -> Iterator[str]:
    """Yield the rows of a table's box: its keys, the keys of its indexes, and the TTL attribute."""
    yield _format_row(table.partition_type, table.partition, "PK", "partition key")
    if table.sort is not None:
        yield _format_row(table.sort_type, table.sort, "PK", "sort key")
    for index in table.indexes:
        if index.scope == "global":
            yield _format_row(index.partition_type, index.partition, "", f"partition key of {index.name}")
        if index.sort is not None:
            yield _format_row(index.sort_type, index.sort, "", f"sort key of {index.name}")
    if table.ttl is not None:
        yield _format_row("N", table.ttl, "", "end of life")


def _build_entity_rows(declaration: Declaration) -> Iterator[str]:
    """Yield a row for each attribute of an entity: type, stored name and marks."""
    keyed = declaration.primary.attribute_names
    for attribute in declaration.attributes.values():
        yield _format_row(
            format_type(attribute.annotation), attribute.stored_name, *_get_marks(attribute, keyed)
        )


def _get_marks(attribute: Attribute, key_attributes: frozenset[str]) -> tuple[str, str]:
    """Return the key mark ("PK" or "") and the comment ("optional" or "") of an attribute."""
    return "PK" if attribute.name in key_attributes else "", "optional" if attribute.is_optional else ""


def _format_row(type: str, name: str, key: str, comment: str) -> str:
    """Format a row of a box. Types and names are reduced to words; a comment may be any text."""
    quoted = f'"{escape_label(comment)}"' if comment else ""
    return " ".join(filter(None, (_to_word(type), _to_word(name), key, quoted)))


def _to_word(text: str) -> str:
    """Replace what is not a letter, digit or underscore, so that Mermaid reads the text as a name."""
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    if word.upper() in _KEY_MARKS:
        return f"{word}_"
    return word if word[:1].isalpha() else f"_{word}"


def _draw_shape(path: ResourcePath) -> str:
    """Return the node shape: a subroutine box for a queue, a cylinder for everything else."""
    text = escape_label(format_path(path) + _STORE_SUFFIXES.get(type(path[0]), ""))
    return f'[["{text}"]]' if isinstance(path[0], Queue) else f'[("{text}")]'


def _draw_arrow(left: str, right: str, reverse: bool) -> str:
    """Return an arrow from left to right, or from right to left if `reverse`."""
    return f"    {right} --> {left}" if reverse else f"    {left} --> {right}"
