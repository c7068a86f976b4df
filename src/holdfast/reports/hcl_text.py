"""Blocks and attributes as HCL, laid out as `terraform fmt` leaves it.

Two spaces of indent; `=` aligned in a run of one-line attributes; a blank line around what takes several lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

INDENT: Final = "  "
LINE_LENGTH_MAX: Final = 100


class Expression(str):
    """HCL as it is: a reference, a call, a text with something put into it."""

    __slots__ = ()


@dataclass(frozen=True)
class Block:
    """`type "label" { … }`. The body holds attributes, as pairs, and blocks, in order."""

    type: str
    labels: tuple[str, ...]
    body: tuple[Part, ...]


Part: TypeAlias = Block | tuple[str, Any]


def hcl_text(blocks: Iterable[Block]) -> str:
    return "\n\n".join("\n".join(_block(block)) for block in blocks) + "\n"


def quoted(text: str) -> str:
    """A text in which HCL reads nothing but the text."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _block(block: Block) -> Iterator[str]:
    yield " ".join((block.type, *map(quoted, block.labels), "{"))
    for line in _body(block.body):
        yield INDENT + line if line else ""
    yield "}"


def _body(parts: Iterable[Part]) -> Iterator[str]:
    """Runs of one-line attributes, and everything longer for itself, with a blank line between."""
    is_first = True
    for run in _runs(parts):
        if not is_first:
            yield ""
        is_first = False
        if isinstance(run, Block):
            yield from _block(run)
        else:
            yield from _assignments(run)


def _runs(parts: Iterable[Part]) -> Iterator[Block | list[tuple[str, list[str]]]]:
    run: list[tuple[str, list[str]]] = []
    for part in parts:
        spelled = part if isinstance(part, Block) else (part[0], _value(part[1]))
        if isinstance(spelled, tuple) and len(spelled[1]) == 1:
            run.append(spelled)
            continue
        if run:
            yield run
            run = []
        yield spelled if isinstance(spelled, Block) else [spelled]
    if run:
        yield run


def _assignments(run: list[tuple[str, list[str]]]) -> Iterator[str]:
    width = max(len(name) for name, _ in run)
    for name, (first, *rest) in run:
        yield f"{name:<{width}} = {first}"
        yield from rest


def _value(value: Any) -> list[str]:
    """The lines of a value."""
    if isinstance(value, Mapping):
        inside = list(_body(tuple(value.items())))
        return ["{", *(INDENT + line if line else "" for line in inside), "}"]
    if isinstance(value, list | tuple):
        return _list([_value(element)[0] for element in value])
    if isinstance(value, Expression):
        return [str(value)]
    return [quoted(value) if isinstance(value, str) else json.dumps(value)]


def _list(elements: list[str]) -> list[str]:
    on_one_line = f"[{', '.join(elements)}]"
    if len(on_one_line) <= LINE_LENGTH_MAX and len(elements) <= 1:
        return [on_one_line]
    return ["[", *(f"{INDENT}{element}," for element in elements), "]"]
