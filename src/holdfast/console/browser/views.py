"""What the pages of tables and items have in common: the system's table, the masker, and whether edits are
on.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.config.settings import ON
from holdfast.console.access import require_sight
from holdfast.console.browser.addresses import decode_key
from holdfast.console.browser.edit_rules import ALL_REFUSED, explain_refusal
from holdfast.console.browser.edits import ItemPlace
from holdfast.console.browser.entities import find_declaration
from holdfast.console.context import Console
from holdfast.console.masking import Masker
from holdfast.console.reveal import is_revealed
from holdfast.console.users import EDITOR, PERSONAL, User
from holdfast.core.distribution import explain_missing
from holdfast.model.entities.declaration import Declaration
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations.values import Item
from holdfast.runtime.stores import Stores

with explain_missing(__name__, "console"):
    from starlette.requests import Request

__all__ = ["DataView", "explain_no_edit", "open_view"]


@dataclass(frozen=True)
class DataView:
    """The data of one system, as one request of one user sees it."""

    stores: Stores
    system: System
    masker: Masker
    # Whether the user may reveal personal data, and whether this request does.
    can_reveal: bool
    is_revealed: bool

    def get_table(self, name: str) -> Table:
        """Return a table of the system. Raise `NotFound` if it has none of that name."""
        return self.system.get_table(name)

    def find_place(self, table: Table, key: str, item: Item | None = None) -> ItemPlace:
        """Return the place of an item, by the token of its key."""
        declaration = None if item is None else find_declaration(table, item)
        return ItemPlace(self.stores, table, decode_key(table.name, key), declaration)


def open_view(request: Request, console: Console, user: User, system: str) -> DataView:
    """Return the data of a system. Raise `NotFound` if the user does not see it."""
    require_sight(user, system)
    stores = console.get_stores(system)
    revealed = is_revealed(request, user, system)
    found = console.get_system(system)
    return DataView(
        stores,
        found,
        Masker.for_system(found, is_revealed=revealed),
        user.has_role(PERSONAL, system),
        revealed,
    )


def explain_no_edit(
    console: Console, user: User, system: System, declaration: Declaration | None, item: Item
) -> str:
    """Return why this user may not edit the item; empty if they may."""
    if not user.has_role(EDITOR, system.name):
        return "Editing needs the role editor, which you do not have."
    if console.settings.console_edits != ON:
        return ALL_REFUSED
    return explain_refusal(system, declaration, item)
