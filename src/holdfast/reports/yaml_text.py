"""Maps, lists and scalars as YAML that a person can read: as much of the language as a template needs.

Text is left bare only where no reader of YAML could take it for something else; otherwise it stands in double
quotes, as in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

INDENT: Final = "  "
# Starts with a letter or `$`, has no `: ` and no ` #` in it, does not end in `:` or a space.
_BARE: Final = re.compile(r"[A-Za-z$](?:[\w$./{}(),%+*-]|:(?=[^\s])| (?=[\w(]))*", re.ASCII)
# What YAML 1.1 takes for a truth value or for nothing.
_NOT_TEXT: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def yaml_text(value: dict[str, Any]) -> str:
    """A document: block style, keys in the order they are given."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _member(f"{_scalar(name)}:", inner)
    else:
        for inner in value:
            yield from _element(inner)


def _member(start: str, inner: Any) -> Iterator[str]:
    if not _is_nested(inner):
        yield f"{start} {_scalar(inner)}"
        return
    yield start
    for line in _lines(inner):
        yield INDENT + line


def _element(inner: Any) -> Iterator[str]:
    if not _is_nested(inner):
        yield f"- {_scalar(inner)}"
        return
    for number, line in enumerate(_lines(inner)):
        yield f"{'- ' if number == 0 else INDENT}{line}"


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value, ensure_ascii=False)
