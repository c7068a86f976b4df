"""Masking of the attributes of an item.

The key of the table stays, because it is the item's address. A key of an index is masked like every other
attribute, and as a whole if it is built from an attribute with a personal name, such as `EMAIL#{email}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast.console.masking import Hidden, Masker
from holdfast.model.entities.declaration import Declaration
from holdfast.model.tables import Table
from holdfast.operations.values import Item, Value

__all__ = ["ItemMasker"]


@dataclass(frozen=True)
class ItemMasker:
    """Masks the attributes of one item; `declaration` is its entity."""

    masker: Masker
    table: Table
    declaration: Declaration | None

    def mask(self, name: str, value: Value) -> Any:
        """Return the value of an attribute as it may be shown."""
        if name in (self.table.partition, self.table.sort):
            return self.masker.mask(name, value, is_key=True)
        names = (name, *sorted(self._sources.get(name, ())))
        for each in names:
            if isinstance(hidden := self.masker.mask(each, value), Hidden):
                return hidden
        personal = next((each for each in names if self.masker.is_personal(each)), name)
        return self.masker.mask(personal, value)

    def mask_all(self, item: Item) -> dict[str, Any]:
        """Return the attributes as they may be shown."""
        return {name: self.mask(name, value) for name, value in item.items()}

    def is_masked(self, name: str, value: Value) -> bool:
        """Return whether a user without the role sees less than the value."""
        return bool(self.mask(name, value) != value)

    @cached_property
    def _sources(self) -> dict[str, set[str]]:
        """The names of the declared attributes in each stored one: its own, or those in a key of an index."""
        if self.declaration is None:
            return {}
        found = {name: {each.name} for name, each in self.declaration.by_stored_name.items()}
        for key in self.declaration.indexes:
            for name, template in key.templates:
                stored = {each.attribute.stored_name for each in template.slots}
                found[name] = found.get(name, set()) | template.attribute_names | stored
        return found
