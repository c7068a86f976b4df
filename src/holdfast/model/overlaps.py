"""Whether two entities of one table can get in each other's way.

They do where one key could be that of both, or where a query of one would find items of the other: `"E#" + n` beside
`"E#X#" + x` in one partition. Templates are compared as what they can make: constants letter by letter, and values, in
which the separator never stands. Used once, when an entity is declared.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from holdfast.model.templates import Template

if TYPE_CHECKING:
    from holdfast.model.declaration import KeyDeclaration


class Gap(Enum):
    """A place in a key whose text is not known beforehand."""

    value_of_attribute = "any text without the separator"
    anything = "any text"


Text: TypeAlias = tuple[str | Gap, ...]


def get_in_each_others_way(one: KeyDeclaration, other: KeyDeclaration) -> bool:
    """Whether a query or an item of one can be that of the other."""
    separator = one.partition.separator
    if not _meet(_partition(one.partition), _partition(other.partition), separator):
        return False
    if one.sort is None or other.sort is None:
        return True
    return _meet(_asked(one.sort), _made(other.sort), separator) or _meet(
        _made(one.sort), _asked(other.sort), separator
    )


def _partition(template: Template) -> Text:
    """A partition key that is one attribute as it is counts as a value: ids seldom have the separator in them."""
    return _spelled(template, Gap.value_of_attribute)


def _made(template: Template) -> Text:
    """The sort keys of an entity's items. One attribute as it is may be whatever it likes."""
    return _spelled(template, Gap.anything if len(template.pieces) == 1 else Gap.value_of_attribute)


def _asked(template: Template) -> Text:
    """The sort keys that a query of an entity's partition finds."""
    return (*template.start, Gap.anything) if template.slots else _made(template)


def _spelled(template: Template, gap: Gap) -> Text:
    pieces = (tuple(piece) if isinstance(piece, str) else (gap,) for piece in template.pieces)
    return tuple(letter for piece in pieces for letter in piece)


def _meet(one: Text, other: Text, separator: str) -> bool:
    """Whether there is a text that both can be."""

    def takes(gap: Gap, letter: str | Gap) -> bool:
        return gap is Gap.anything or letter != separator

    @cache
    def from_here(i: int, j: int) -> bool:
        if i == len(one) and j == len(other):
            return True
        left, right = (one[i] if i < len(one) else ""), (other[j] if j < len(other) else "")
        if isinstance(left, Gap) and (
            from_here(i + 1, j) or (right and takes(left, right) and from_here(i, j + 1))
        ):
            return True
        if isinstance(right, Gap) and (
            from_here(i, j + 1) or (left and takes(right, left) and from_here(i + 1, j))
        ):
            return True
        return bool(left) and left == right and from_here(i + 1, j + 1)

    return from_here(0, 0)
