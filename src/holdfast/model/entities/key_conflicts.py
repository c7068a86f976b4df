"""`can_conflict`: checks if the keys of two entities of one table could be confused.

Two entities conflict if one key could belong to both, or if a query of one would find items of the other:
`"E#" + n` and `"E#X#" + x` in one partition. The check compares what the templates can produce: constants
character by character, and attribute values, which never contain the separator. It runs once, when an entity
is declared.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from holdfast.model.entities.key_templates import Template

if TYPE_CHECKING:
    from holdfast.model.entities.declaration import KeyDeclaration


class Wildcard(Enum):
    """A place in a key whose text is not known in advance."""

    attribute_value = "any text without the separator"
    anything = "any text"


Symbols: TypeAlias = tuple[str | Wildcard, ...]


def can_conflict(one: KeyDeclaration, other: KeyDeclaration) -> bool:
    """Return True if an item or a query of one entity can match the other."""
    separator = one.partition.separator
    if not _can_match_same_text(
        _expand_partition(one.partition), _expand_partition(other.partition), separator
    ):
        return False
    if one.sort is None or other.sort is None:
        return True
    return _can_match_same_text(
        _expand_query(one.sort), _expand_sort(other.sort), separator
    ) or _can_match_same_text(_expand_sort(one.sort), _expand_query(other.sort), separator)


def _expand_partition(template: Template) -> Symbols:
    """Expand a partition key.

    A single attribute counts as a value, because ids seldom contain the separator.
    """
    return _expand(template, Wildcard.attribute_value)


def _expand_sort(template: Template) -> Symbols:
    """Expand the sort keys of an entity's items. A single attribute may be any text."""
    return _expand(template, Wildcard.anything if len(template.pieces) == 1 else Wildcard.attribute_value)


def _expand_query(template: Template) -> Symbols:
    """Expand the sort keys that a query of an entity's partition finds."""
    return (*template.constant_prefix, Wildcard.anything) if template.slots else _expand_sort(template)


def _expand(template: Template, wildcard: Wildcard) -> Symbols:
    """Return the constants as characters, and each attribute as the wildcard."""
    pieces = (tuple(piece) if isinstance(piece, str) else (wildcard,) for piece in template.pieces)
    return tuple(letter for piece in pieces for letter in piece)


def _can_match_same_text(one: Symbols, other: Symbols, separator: str) -> bool:
    """Return True if some text matches both."""

    def accepts(gap: Wildcard, letter: str | Wildcard) -> bool:
        return gap is Wildcard.anything or letter != separator

    @cache
    def can_match_from(i: int, j: int) -> bool:
        if i == len(one) and j == len(other):
            return True
        left, right = (one[i] if i < len(one) else ""), (other[j] if j < len(other) else "")
        if isinstance(left, Wildcard) and (
            can_match_from(i + 1, j) or (right and accepts(left, right) and can_match_from(i, j + 1))
        ):
            return True
        if isinstance(right, Wildcard) and (
            can_match_from(i, j + 1) or (left and accepts(right, left) and can_match_from(i + 1, j))
        ):
            return True
        return bool(left) and left == right and can_match_from(i + 1, j + 1)

    return can_match_from(0, 0)
