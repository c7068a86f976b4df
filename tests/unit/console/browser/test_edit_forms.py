"""The fields of an edit: what they show, what comes back, and the problems of each."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.console.browser.edit_forms import Draft, ItemForm, build_form, read_form
from holdfast.console.browser.entities import find_declaration
from holdfast.console.masking import Masker
from holdfast.operations.values import Item

from .warehouse import build_customer, build_order, stock

LINES = [{"article": "a-1", "count": 2}]


def open_form(item: Item, *, is_revealed: bool = False) -> ItemForm:
    declaration = find_declaration(stock, item)
    return build_form(stock, item, declaration, Masker(is_revealed=is_revealed), "version")


def send(item: Item, **fields: str) -> Draft:
    """Return what the form makes of these fields, with every other as it was shown."""
    form = open_form(item)
    shown = {each.stored_name: each.text for each in form.fields if not each.why_fixed}
    return read_form(item, form, {**shown, **fields}, find_declaration(stock, item))


def test_a_form_that_comes_back_as_it_was_shown_changes_nothing() -> None:
    undeclared: Item = {"PK": "x", "SK": "y", "n": 1}
    items: list[Item] = [build_order(1, lines=LINES, note="a\nb"), build_customer(1), undeclared]
    for item in items:
        draft = send(item)
        assert (draft.changed, draft.problems, draft.item) == ([], {}, item)


@pytest.mark.parametrize(
    ("field", "text", "stored"),
    [
        ("count", "7", 7),
        ("state", "packed", "packed"),
        ("note", "a\r\nb", "a\nb"),
        ("lines", '[{"article": "b", "count": 1}]', [{"article": "b", "count": 1}]),
    ],
)
def test_reads_a_text_as_the_attributes_type(field: str, text: str, stored: Any) -> None:
    draft = send(build_order(1, lines=LINES, note="old"), **{field: text})

    assert draft.problems == {}
    assert draft.changed == [field]
    assert draft.item[field] == stored


def test_index_keys_follow_the_attributes_that_they_are_computed_from() -> None:
    draft = send(build_order(1), placedAt="2026-11-19T10:00:00+00:00")

    assert draft.changed == ["placedAt"]
    assert str(draft.item["placedAt"]).startswith("2026-11-19T10:00:00")


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("count", "many"),
        ("state", "lost"),
        ("lines", "[{"),
        ("lines", '[{"article": 1}]'),
        ("placedAt", "soon"),
    ],
)
def test_names_the_field_with_the_problem_and_keeps_the_text(field: str, text: str) -> None:
    draft = send(build_order(1), **{field: text})

    assert list(draft.problems) == [field]
    assert draft.texts[field] == text


def test_removes_optional_attributes_and_adds_new_ones() -> None:
    item = build_order(1, note="old")

    draft = send(item, **{"remove:note": "1", "new:name": "extra", "new:value": '{"N": "3"}'})

    assert draft.changed == ["extra", "note"]
    assert "note" not in draft.item
    assert draft.item["extra"] == 3


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [("note", '{"S": "a"}', "new:name"), ("extra", "a", "new:value"), ("extra", '{"N": "a"}', "new:value")],
)
def test_refuses_an_invalid_new_attribute(name: str, value: str, problem: str) -> None:
    draft = send(build_order(1, note="old"), **{"new:name": name, "new:value": value})

    assert list(draft.problems) == [problem]


def test_keys_versions_and_masked_values_are_fixed() -> None:
    fixed = {
        each.stored_name: each.why_fixed for each in open_form(build_customer(1)).fields if each.why_fixed
    }
    assert "key" in fixed["customerId"]
    assert "masked" in fixed["email"]
    assert not any(
        "masked" in each.why_fixed for each in open_form(build_customer(1), is_revealed=True).fields
    )
    version = next(each for each in open_form(build_order(1)).fields if each.name == "version")
    assert "counts" in version.why_fixed

    draft = send(build_customer(1), email="***", PK="CUSTOMER#c-2", customerId="c-2")
    assert draft.changed == []


def test_an_item_of_no_entity_is_edited_as_dynamodb_json() -> None:
    item: Item = {"PK": "x", "SK": "y", "tags": frozenset({"a"}), "size": 3}

    draft = send(item, tags='{"SS": ["a", "b"]}', size='{"S": "three"}')

    assert draft.item == {"PK": "x", "SK": "y", "tags": frozenset({"a", "b"}), "size": "three"}
    assert list(send(item, size="three").problems) == ["size"]


def test_a_stored_item_that_does_not_fit_is_repaired_and_must_fit() -> None:
    item = build_order(1) | {"count": "many"}
    assert open_form(item).declaration is None

    assert send(item, count='{"N": "3"}').problems == {}
    assert list(send(item, count='{"S": "more"}').problems) == ["count"]
