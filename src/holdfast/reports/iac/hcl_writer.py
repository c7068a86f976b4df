"""Write blocks and attributes as HCL in the layout of `terraform fmt`.

Two spaces of indent; `=` aligned in a run of one-line attributes; a blank line around multi-line values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

INDENT: Final = "  "
MAX_LINE_LENGTH: Final = 100


class Expression(str):
    """HCL that is written unquoted: a reference, a call, an interpolated string."""

    __slots__ = ()


@dataclass(frozen=True)
class Block:
    """`type "label" { … }`. The body holds attributes (as pairs) and blocks, in order."""

    type: str
    labels: tuple[str, ...]
    body: tuple[Part, ...]


Part: TypeAlias = Block | tuple[str, Any]


def write_hcl(blocks: Iterable[Block]) -> str:
    """Return the blocks as HCL text."""
    return "\n\n".join("\n".join(_format_block(block)) for block in blocks) + "\n"


def quote(text: str) -> str:
    """Quote a text so that HCL interpolates nothing in it."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _format_block(block: Block) -> Iterator[str]:
    """Yield the lines of a block, with its body indented."""
    yield " ".join((block.type, *map(quote, block.labels), "{"))
    for line in _format_body(block.body):
        yield INDENT + line if line else ""
    yield "}"


def _format_body(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the lines of a body, with a blank line around everything but runs of one-line attributes."""
    is_first = True
    for run in _group_parts(parts):
        if not is_first:
            yield ""
        is_first = False
        if isinstance(run, Block):
            yield from _format_block(run)
        else:
            yield from _format_assignments(run)


def _group_parts(parts: Iterable[Part]) -> Iterator[Block | list[tuple[str, list[str]]]]:
    """Yield each block, each run of one-line attributes, and each multi-line attribute; attributes with their
    lines.
    """
    run: list[tuple[str, list[str]]] = []
    for part in parts:
        spelled = part if isinstance(part, Block) else (part[0], _format_value(part[1]))
        if isinstance(spelled, tuple) and len(spelled[1]) == 1:
            run.append(spelled)
            continue
        if run:
            yield run
            run = []
        yield spelled if isinstance(spelled, Block) else [spelled]
    if run:
        yield run


def _format_assignments(run: list[tuple[str, list[str]]]) -> Iterator[str]:
    """Yield the lines of attributes, with the `=` aligned. Each attribute is a name and the lines of its
    value.
    """
    width = max(len(name) for name, _ in run)
    for name, (first, *rest) in run:
        yield f"{name:<{width}} = {first}"
        yield from rest


def _format_value(value: Any) -> list[str]:
    """Return the lines of a value."""
    if isinstance(value, Mapping):
        inside = list(_format_body(tuple(value.items())))
        return ["{", *(INDENT + line if line else "" for line in inside), "}"]
    if isinstance(value, list | tuple):
        return _format_list([_format_value(element)[0] for element in value])
    if isinstance(value, Expression):
        return [str(value)]
    return [quote(value) if isinstance(value, str) else json.dumps(value)]


def _format_list(elements: list[str]) -> list[str]:
    """Return the lines of a list: one line if it has at most one element and fits, otherwise a line per
    element.
    """
    on_one_line = f"[{', '.join(elements)}]"
    if len(on_one_line) <= MAX_LINE_LENGTH and len(elements) <= 1:
        return [on_one_line]
    return ["[", *(f"{INDENT}{element}," for element in elements), "]"]
