"""Editing and deleting an item: a form, what would change, and the write; or both versions if another was
faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from holdfast.console.access import CurrentUser, check_role, require_role
from holdfast.console.audit_trail import build_audit_entry
from holdfast.console.browser.addresses import build_item_url, build_table_url
from holdfast.console.browser.edit_forms import Draft, ItemForm, build_form, read_form
from holdfast.console.browser.edit_rules import find_version_attribute
from holdfast.console.browser.edits import (
    AuditWrite,
    ItemPlace,
    SeenItem,
    compute_target,
    delete,
    describe_seen,
    read_item,
    require_item,
    save,
)
from holdfast.console.browser.entities import find_declaration
from holdfast.console.browser.values import ShownAttribute, show_attributes
from holdfast.console.browser.views import DataView, explain_no_edit, open_view
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.rendering import redirect, render
from holdfast.console.users import EDITOR, User
from holdfast.core.distribution import explain_missing
from holdfast.operations.values import Item

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.datastructures import FormData
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()

# Fields of the form that are not attributes: no attribute of them begins with a colon.
SEEN, STEP, SAVE = ":seen", ":step", "save"


@dataclass(frozen=True)
class Change:
    """One attribute, as it is in the table and as it would be; `is_foreign` says that another writer changed
    it.
    """

    name: str
    now: ShownAttribute | None
    yours: ShownAttribute | None
    is_yours: bool
    is_foreign: bool = False


@dataclass(frozen=True)
class Edit:
    """An item that the user may edit, with its form."""

    data: DataView
    place: ItemPlace
    item: Item
    form: ItemForm
    version: str | None
    token: str

    @property
    def url(self) -> str:
        return build_item_url(self.data.system.name, self.place.table.name, self.place.key)


@router.get("/data/{system}/{table}/item/edit")
async def show_form(
    request: Request, console: CurrentConsole, user: CurrentUser, system: str, table: str, key: str
) -> Response:
    """Show the form of an item."""
    edit = await _open_edit(request, console, user, system, table, key)
    return _render_form(request, edit, None, describe_seen(edit.item))


@router.post("/data/{system}/{table}/item/edit", dependencies=[require_role(EDITOR)])
async def submit_form(
    request: Request, console: CurrentConsole, user: CurrentUser, system: str, table: str, key: str
) -> Response:
    """Show what the edit would change; once confirmed, write it."""
    sent = _read_texts(await request.form())
    edit = await _open_edit(request, console, user, system, table, key)
    seen = SeenItem.parse(sent.get(SEEN, ""))
    foreign = seen.list_differences(edit.item)
    draft = read_form(edit.item, edit.form, sent, edit.place.declaration, seen)
    if foreign:
        return _render_conflict(request, edit, draft, foreign, edit.item)
    if draft.problems:
        return _render_form(request, edit, draft, sent[SEEN])
    if not draft.changed:
        return redirect(edit.url, "Nothing was changed: every field is as it was.")
    if sent.get(STEP) != SAVE:
        return _render_review(request, edit, draft, sent[SEEN])
    entry = _build_entry(console, user, edit, "edit", draft.changed)
    outcome = await save(edit.place, edit.item, draft.item, edit.version, entry)
    if not outcome.is_done:
        now = outcome.current
        late = draft if now is None else read_form(now, edit.form, sent, edit.place.declaration, seen)
        return _render_conflict(request, edit, late, seen.list_differences(now), now)
    return redirect(edit.url, f"Saved. Changed: {', '.join(draft.changed)}.")


@router.post("/data/{system}/{table}/item/delete", dependencies=[require_role(EDITOR)])
async def submit_deletion(
    request: Request, console: CurrentConsole, user: CurrentUser, system: str, table: str, key: str
) -> Response:
    """Delete an item, if it is exactly what was shown."""
    sent = _read_texts(await request.form())
    edit = await _open_edit(request, console, user, system, table, key)
    seen, nothing = SeenItem.parse(sent.get(SEEN, "")), Draft({})
    if foreign := seen.list_differences(edit.item):
        return _render_conflict(request, edit, nothing, foreign, edit.item)
    outcome = await delete(
        edit.place, edit.item, _build_entry(console, user, edit, "delete", sorted(edit.item))
    )
    if not outcome.is_done:
        now = outcome.current
        return _render_conflict(request, edit, nothing, seen.list_differences(now), now)
    return redirect(
        build_table_url(system, table), "Deleted. Its history shows what it was, if the table has one."
    )


# --- the item -----------------------------------------------------------------------------------------------


async def _open_edit(
    request: Request, console: Console, user: User, system: str, table: str, key: str
) -> Edit:
    """Return the item with its form. Raise if this user may not edit it."""
    data = open_view(request, console, user, system)
    check_role(user, EDITOR, system)
    found = data.get_table(table)
    place = data.find_place(found, key)
    item = require_item(await read_item(place), found)
    declaration = find_declaration(found, item)
    if reason := explain_no_edit(console, user, data.system, declaration, item):
        raise HTTPException(HTTPStatus.FORBIDDEN, reason)
    version = None if declaration is None else find_version_attribute(data.system, declaration.entity)
    form = build_form(found, item, declaration, data.masker, version)
    return Edit(data, data.find_place(found, key, item), item, form, version, key)


def _build_entry(console: Console, user: User, edit: Edit, action: str, names: Sequence[str]) -> AuditWrite:
    """Return the audit entry: which attributes, and no value."""
    entry = build_audit_entry(
        console,
        user,
        action,
        system=edit.data.system.name,
        target=compute_target(edit.place.table, edit.place.key),
        attributes=list(names),
    )
    return AuditWrite(console.own, entry)


def _read_texts(form: FormData) -> dict[str, str]:
    return {name: value for name, value in form.items() if isinstance(value, str)}


# --- pages --------------------------------------------------------------------------------------------------


def _describe_page(edit: Edit) -> dict[str, Any]:
    return {
        "data": edit.data,
        "system": edit.data.system,
        "table": edit.place.table,
        "key": edit.place.key,
        "token": edit.token,
        "entity": "" if edit.place.declaration is None else edit.place.declaration.entity.__name__,
        "item_url": edit.url,
        "edit_url": build_item_url(edit.data.system.name, edit.place.table.name, edit.place.key, "edit"),
    }


def _render_form(request: Request, edit: Edit, draft: Draft | None, seen: str) -> Response:
    """Show the form, with what was sent and its problems."""
    problems: Mapping[str, str] = {} if draft is None else draft.problems
    return render(
        request,
        "browser/edit.html",
        status_code=HTTPStatus.UNPROCESSABLE_ENTITY if problems else HTTPStatus.OK,
        **_describe_page(edit),
        form=edit.form,
        texts={} if draft is None else draft.texts,
        problems=problems,
        seen=seen,
        has_masked=any("masked" in each.why_fixed for each in edit.form.fields),
    )


def _render_review(request: Request, edit: Edit, draft: Draft, seen: str) -> Response:
    return render(
        request,
        "browser/review.html",
        **_describe_page(edit),
        changes=_compare(edit, draft, [], edit.item),
        texts=draft.texts,
        seen=seen,
        counted=edit.version,
    )


def _render_conflict(
    request: Request, edit: Edit, draft: Draft, foreign: Sequence[str], current: Item | None
) -> Response:
    """Show both versions, and what to do."""
    return render(
        request,
        "browser/conflict.html",
        status_code=HTTPStatus.CONFLICT,
        **_describe_page(edit),
        is_gone=current is None,
        is_deletion=not draft.item,
        changes=_compare(edit, draft, foreign, current or {}),
    )


def _compare(edit: Edit, draft: Draft, foreign: Sequence[str], current: Item) -> list[Change]:
    """Return every attribute that this edit or another writer changed."""
    now = _show(edit, current)
    yours = _show(edit, draft.item | draft.as_shown)
    typed = {*draft.changed, *draft.problems}
    names = [each for each in dict.fromkeys([*now, *yours, *foreign]) if each in foreign or each in typed]
    return [
        Change(
            (now.get(each) or yours.get(each) or _NAMELESS).name or each,
            now.get(each),
            yours.get(each),
            each in typed,
            each in foreign,
        )
        for each in names
    ]


def _show(edit: Edit, item: Item) -> dict[str, ShownAttribute]:
    shown = show_attributes(item, edit.place.declaration, edit.data.masker, edit.place.table)
    return {each.stored_name: each for each in shown}


_NAMELESS: Final = ShownAttribute("", "", "S", 0, "")
