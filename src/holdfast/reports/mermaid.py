"""A system as Mermaid diagrams: its tables with their entities, and the ways between components and stores.

Pure: a `System` in, the text of a diagram out. A name may hold anything; nodes have ids of our own and show it as
an escaped label, so that no name can end a label or begin a keyword.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.model.declaration import Attribute, Declaration
from holdfast.model.entity import declaration_of
from holdfast.model.objects import Bucket
from holdfast.model.operations import Operation
from holdfast.model.queues import Queue, Receive
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.reports.infrastructure import operation_of
from holdfast.reports.places import CacheKeys, Place, SqlTable, place_name, places_in, places_of
from holdfast.reports.spelling import type_name

# What means something to Mermaid, or to the HTML it makes.
_SPECIAL: Final = re.compile(r"[\"#;<>&`\\]")

# What is said of a drum that is no table.
_STORES: Final = {Bucket: " (bucket)", SqlTable: " (SQL)", CacheKeys: " (cache)"}

# Mermaid takes an attribute of this name for the mark of a key.
_KEY_MARKS: Final = frozenset({"PK", "FK", "UK"})


def entity_diagram(system: System) -> str:
    """An `erDiagram`: a box per table with its keys, a box per entity with its attributes."""
    lines = ["erDiagram"]
    for number, table in enumerate(system.tables):
        lines += _box(f"t{number}", f"{table.name} (table)", _table_rows(table))
        for place, entity in enumerate(table.entities):
            box = f"t{number}e{place}"
            lines += _box(box, entity.__name__, _entity_rows(declaration_of(entity)))
            lines.append(f"    t{number} ||--o{{ {box} : holds")
    return "\n".join(lines) + "\n"


def flow_diagram(system: System) -> str:
    """A `flowchart`: components, the patterns each may run, and what of the stores those touch.

    A pattern that receives points the other way: from the queue to who works it off.
    """
    operations = [operation_of(pattern) for pattern in system.patterns]
    places = dict.fromkeys([*places_in(system), *_known_by_patterns(operations)])
    stores = {place: f"s{number}" for number, place in enumerate(places)}
    receiving = {number for number, each in enumerate(operations) if isinstance(each, Receive)}
    lines = ["flowchart LR"]
    lines += [
        f'    c{number}(["{label(component.name)}"])' for number, component in enumerate(system.components)
    ]
    lines += [
        f'    p{number}["{label(f"{pattern.id} {pattern.name}")}"]'
        for number, pattern in enumerate(system.patterns)
    ]
    lines += [f"    {node}{_shape(place)}" for place, node in stores.items()]
    for number, component in enumerate(system.components):
        for place in map(system.patterns.index, component.patterns):
            lines.append(_arrow(f"c{number}", f"p{place}", place in receiving))
    for number, operation in enumerate(operations):
        touched = [place for place in dict.fromkeys(places_of(operation)) if place in stores]
        lines += [_arrow(f"p{number}", stores[place], number in receiving) for place in touched]
    return "\n".join(lines) + "\n"


def _known_by_patterns(operations: Iterable[Operation[Any]]) -> list[Place]:
    touched = [place for operation in operations for place in places_of(operation)]
    return [place for place in touched if isinstance(place[0], SqlTable | CacheKeys)]


def label(text: str) -> str:
    """A text to stand in double quotes."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", " ".join(text.split()))


def _box(id: str, title: str, rows: Iterator[str]) -> list[str]:
    return [f'    {id}["{label(title)}"] {{', *(f"        {row}" for row in rows), "    }"]


def _table_rows(table: Table) -> Iterator[str]:
    yield _row(table.partition_type, table.partition, "PK", "partition key")
    if table.sort is not None:
        yield _row(table.sort_type, table.sort, "PK", "sort key")
    for index in table.indexes:
        if index.scope == "global":
            yield _row(index.partition_type, index.partition, "", f"partition key of {index.name}")
        if index.sort is not None:
            yield _row(index.sort_type, index.sort, "", f"sort key of {index.name}")
    if table.ttl is not None:
        yield _row("N", table.ttl, "", "end of life")


def _entity_rows(declaration: Declaration) -> Iterator[str]:
    keyed = declaration.primary.uses_of_key
    for attribute in declaration.attributes.values():
        yield _row(type_name(attribute.annotation), attribute.stored, *_marks(attribute, keyed))


def _marks(attribute: Attribute, keyed: frozenset[str]) -> tuple[str, str]:
    return "PK" if attribute.name in keyed else "", "optional" if attribute.is_optional else ""


def _row(type: str, name: str, key: str, comment: str) -> str:
    """A row of a box. Types and names are words here; a comment may be any text without quotes."""
    quoted = f'"{label(comment)}"' if comment else ""
    return " ".join(filter(None, (_word(type), _word(name), key, quoted)))


def _word(text: str) -> str:
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    if word.upper() in _KEY_MARKS:
        return f"{word}_"
    return word if word[:1].isalpha() else f"_{word}"


def _shape(place: Place) -> str:
    """A queue has double sides, everything else is a drum."""
    text = label(place_name(place) + _STORES.get(type(place[0]), ""))
    return f'[["{text}"]]' if isinstance(place[0], Queue) else f'[("{text}")]'


def _arrow(left: str, right: str, is_back: bool) -> str:
    return f"    {right} --> {left}" if is_back else f"    {left} --> {right}"
