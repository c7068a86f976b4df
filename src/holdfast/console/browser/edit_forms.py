"""The form that edits an item: a field for each attribute, and what its text means.

The fields of a declared entity take texts as its types read them; those of other items take DynamoDB's JSON.
A field that comes back as it was shown is unchanged, so what is masked stays as it is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum
from types import UnionType
from typing import Any, Final, Literal, NewType, Union, get_args, get_origin

from pydantic import ValidationError

from holdfast.console.browser.edits import SeenItem
from holdfast.console.browser.item_masker import ItemMasker
from holdfast.console.browser.values import to_text
from holdfast.console.masking import Masker
from holdfast.core.errors import HoldfastError, InvalidRequest, ItemUnreadable, format_message
from holdfast.model.entities.annotations import is_datetime
from holdfast.model.entities.declaration import Attribute, Declaration
from holdfast.model.tables import Table
from holdfast.operations.values import Item, Value, are_equal
from holdfast.wire.values import check_types, encode_value, parse_attribute_value

__all__ = ["Draft", "FormField", "ItemForm", "build_form", "read_form"]

REMOVED: Final = "remove"
SHORT_CHARS: Final = 80
Control = Literal["text", "area", "choice", "json"]


@dataclass(frozen=True)
class FormField:
    """One attribute in the form. `why_fixed` says why it cannot be changed; empty if it can."""

    name: str
    stored_name: str
    control: Control
    text: str
    hint: str = ""
    why_fixed: str = ""
    is_present: bool = True
    may_be_removed: bool = False
    choices: Sequence[str] = ()
    problem: str = ""


@dataclass(frozen=True)
class ItemForm:
    """The fields of an item; with an entity, its types read them."""

    fields: Sequence[FormField]
    declaration: Declaration | None


@dataclass
class Draft:
    """An item as it would be written, or the problems of its fields. `texts` are the fields as they were
    sent.
    """

    item: Item
    changed: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    # Values that the page showed, and that another writer has changed since.
    as_shown: Item = field(default_factory=dict)


@dataclass(frozen=True)
class _Context:
    """What the fields of a form have in common."""

    table: Table
    item: Item
    declaration: Declaration | None
    masker: ItemMasker
    version: str | None

    def is_masked(self, name: str) -> bool:
        """Return whether the page masks the attribute's value."""
        return name in self.item and self.masker.is_masked(name, self.item[name])


def build_form(
    table: Table, item: Item, declaration: Declaration | None, masker: Masker, version: str | None
) -> ItemForm:
    """Return the form of an item. An item that its entity cannot read gets the fields of any item."""
    usable = declaration if declaration is not None and _is_readable(declaration, item) else None
    context = _Context(table, item, usable, ItemMasker(masker, table, declaration), version)
    if usable is None:
        return ItemForm([_build_raw_field(context, name) for name in sorted(item)], None)
    declared = [_build_field(context, each) for each in usable.attributes.values()]
    others = [name for name in sorted(item) if name not in usable.by_stored_name]
    return ItemForm([*declared, *(_build_raw_field(context, name) for name in others)], usable)


def read_form(
    item: Item,
    form: ItemForm,
    sent: Mapping[str, str],
    original: Declaration | None,
    seen: SeenItem | None = None,
) -> Draft:
    """Return what the sent fields make of an item, checked by its entity.

    `sent` has the texts by stored name, and `remove` under `remove:NAME` for attributes to leave out. A field
    that came back as the page showed it (`seen`) leaves what another writer made of it meanwhile.
    """
    draft = Draft(dict(item), texts=dict(sent))
    for each in form.fields:
        if not each.why_fixed:
            _read_field(draft, each, form.declaration, seen)
    _read_new_attribute(draft, form, sent)
    if not draft.problems:
        _check_whole(draft, form.declaration or original)
    draft.changed = sorted(
        name
        for name in item.keys() | draft.item.keys()
        if name not in item or name not in draft.item or not are_equal(item[name], draft.item[name])
    )
    return draft


# --- fields -------------------------------------------------------------------------------------------------


def _build_field(context: _Context, attribute: Attribute) -> FormField:
    """Return the field of a declared attribute, present in the item or not."""
    name, is_present = attribute.stored_name, attribute.stored_name in context.item
    value = context.item.get(name)
    control, choices = _choose_control(attribute, value)
    return FormField(
        attribute.name,
        name,
        control,
        _format(attribute, value) if is_present else "",
        _describe(attribute),
        _explain_fixed(context, name, attribute),
        is_present,
        attribute.is_optional,
        choices,
    )


def _build_raw_field(context: _Context, name: str) -> FormField:
    """Return the field of any attribute, in DynamoDB's JSON."""
    value = context.item[name]
    text = json.dumps(encode_value(value), ensure_ascii=False)
    return FormField(
        name, name, "json", text, "DynamoDB's JSON", _explain_fixed(context, name, None), True, True
    )


def _explain_fixed(context: _Context, name: str, attribute: Attribute | None) -> str:
    """Return why a field cannot be changed; empty if it can."""
    table, declaration = context.table, context.declaration
    if name in (table.partition, table.sort):
        return "It is the key. To change it, create another item and delete this one."
    if declaration is not None:
        if attribute is not None and attribute.name in declaration.primary.attribute_names:
            return "It is a part of the key. To change it, create another item and delete this one."
        if attribute is None and name in declaration.computed_names:
            masked = "It is masked, and computed from other attributes."
            return masked if context.is_masked(name) else "It is computed from other attributes."
    if name == context.version:
        return "It counts the writes, and goes up with yours."
    return "It is masked. Reveal the item to edit it." if context.is_masked(name) else ""


def _choose_control(attribute: Attribute, value: Value) -> tuple[Control, Sequence[str]]:
    """Return the control for a type, and its choices."""
    kinds = [each for each in _list_kinds(attribute.annotation) if each is not type(None)]
    if len(kinds) == 1 and isinstance(kinds[0], type):
        kind = kinds[0]
        if issubclass(kind, Enum):
            return "choice", [str(each.value) for each in kind]
        if issubclass(kind, bool):
            return "choice", ["true", "false"]
        if issubclass(kind, str):
            is_long = isinstance(value, str) and (len(value) > SHORT_CHARS or "\n" in value)
            return ("area" if is_long else "text"), ()
        if issubclass(kind, int | float | Decimal | datetime):
            return "text", ()
    return ("text", ()) if is_datetime(attribute.annotation) else ("json", ())


def _list_kinds(annotation: Any) -> list[Any]:
    """Return the classes of a type: of a union all, of an annotated or new type the one below."""
    while isinstance(annotation, NewType):
        annotation = annotation.__supertype__
    if hasattr(annotation, "__metadata__"):
        return _list_kinds(get_args(annotation)[0])
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType):
        return [kind for each in get_args(annotation) for kind in _list_kinds(each)]
    return [annotation]


def _format(attribute: Attribute, value: Value) -> str:
    """Return a stored value as the field shows it: a time in ISO form, a list or a map as JSON."""
    if is_datetime(attribute.annotation):
        moment = attribute.decode(value)
        return moment.isoformat() if isinstance(moment, datetime) else to_text(value)
    return to_text(value)


def _describe(attribute: Attribute) -> str:
    """Return the attribute's type in words."""
    names = [getattr(each, "__name__", str(each)) for each in _list_kinds(attribute.annotation)]
    shown = " or ".join("absent" if each == "NoneType" else each for each in dict.fromkeys(names))
    return f"{shown}, in UTC" if is_datetime(attribute.annotation) else shown


# --- what was sent ------------------------------------------------------------------------------------------


def _read_field(
    draft: Draft, shown: FormField, declaration: Declaration | None, seen: SeenItem | None
) -> None:
    """Change the draft by one field, or add its problem."""
    name = shown.stored_name
    if draft.texts.get(f"{REMOVED}:{name}"):
        draft.item.pop(name, None)
        return
    text = _unify_lines(draft.texts.get(name, shown.text))
    was_absent = not shown.is_present if seen is None else name not in seen.marks
    if text == _unify_lines(shown.text) or (text == "" and was_absent):
        return
    attribute = None if declaration is None else declaration.by_stored_name.get(name)
    try:
        value = parse_raw(text) if attribute is None else _parse(attribute, shown.control, text)
    except (HoldfastError, ValueError, RecursionError) as error:
        draft.problems[name] = _format_problem(error)
        return
    if seen is not None and seen.has_shown(name, value):
        draft.as_shown[name] = value
    else:
        draft.item[name] = value


def _read_new_attribute(draft: Draft, form: ItemForm, sent: Mapping[str, str]) -> None:
    """Add the attribute of the last row of the form, if its name is given."""
    name, text = sent.get("new:name", "").strip(), sent.get("new:value", "")
    if not name:
        return
    if name in draft.item or any(each.stored_name == name for each in form.fields):
        draft.problems["new:name"] = f"The item has an attribute {name} already: change that."
        return
    try:
        draft.item[name] = parse_raw(text)
    except (HoldfastError, ValueError, RecursionError) as error:
        draft.problems["new:value"] = _format_problem(error)


def _parse(attribute: Attribute, control: Control, text: str) -> Value:
    """Return the stored value of a text, by the attribute's type."""
    if control != "json":
        return attribute.encode(text)
    try:
        value = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise InvalidRequest(f"Invalid JSON: {error}.") from error
    # As the store holds it: members of documents under their stored names.
    return attribute.encode(attribute.decode(value))


def parse_raw(text: str) -> Value:
    """Return the value of a text in DynamoDB's JSON, such as `{"S": "new"}`."""
    try:
        tagged = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(
            f'Invalid JSON: {error}. Write a value with its type, such as {{"S": "text"}} or {{"N": "12"}}.'
        ) from error
    if not isinstance(tagged, dict) or len(tagged) != 1:
        raise InvalidRequest('Invalid value: expected its type and content, such as {"S": "text"}.')
    check_types(tagged)
    return parse_attribute_value(tagged)


def _check_whole(draft: Draft, declaration: Declaration | None) -> None:
    """Let the entity read the draft, and compute its keys again; add the problems under their fields."""
    if declaration is None:
        return
    known = {name: draft.item[name] for name in draft.item if name in declaration.by_stored_name}
    try:
        declaration.entity.model_validate(known, by_alias=True, by_name=False)
        entity = declaration.from_item(draft.item)
        written = declaration.to_item(entity)
    except ValidationError as error:
        for each in error.errors():
            place = str(each["loc"][0]) if each["loc"] else ""
            draft.problems[place if place in declaration.by_stored_name else ""] = each["msg"]
        return
    except ItemUnreadable as error:
        draft.problems[""] = error.reason
        return
    except HoldfastError as error:
        draft.problems[""] = format_message(error)
        return
    draft.item = _keep_equal(draft.item, written, declaration)


def _keep_equal(draft: Item, written: Item, declaration: Declaration) -> Item:
    """Return the draft with the keys and the expiry that its entity computes; all else stays as stored."""
    computed = declaration.computed_names
    kept = {name: value for name, value in draft.items() if name not in computed}
    return kept | {name: value for name, value in written.items() if name in computed}


def _is_readable(declaration: Declaration, item: Item) -> bool:
    try:
        declaration.from_item(item)
    except HoldfastError:
        return False
    return True


def _format_problem(error: Exception) -> str:
    return format_message(error) if isinstance(error, HoldfastError) else str(error)


def _unify_lines(text: str) -> str:
    """Return a text with the line ends that it had before a browser sent it."""
    return text.replace("\r\n", "\n")
