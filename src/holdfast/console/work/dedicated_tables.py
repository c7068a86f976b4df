"""Whether an entity has a table of its own, so that a bounded scan lists its items."""

from __future__ import annotations

from holdfast.model.entities import Entity, get_declaration

__all__ = ["has_own_table"]


def has_own_table(entity: type[Entity]) -> bool:
    """Return whether no other kind of items is in the entity's table. Subclasses are not another kind."""
    others = get_declaration(entity).table.entities
    return all(issubclass(each, entity) or issubclass(entity, each) for each in others)
