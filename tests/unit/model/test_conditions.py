"""Conditions in typed Python, run as filters in memory: which items they select, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import pytest
from pydantic import Field

from holdfast import Attr, Document, Entity, Key, Table, attr
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.entities import Condition
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores


class Size(StrEnum):
    small = "small"
    large = "large"


class Owner(Document):
    name: str
    phones: list[str] = Field(default_factory=list)
    since: int = Field(default=0, alias="memberSince")


boxes = Table("Boxes", partition="shelf", sort="n", sort_type="N")


class Box(Entity, table=boxes):
    shelf: Attr[str] = attr()
    n: Attr[int] = attr()
    size: Attr[Size] = attr(default=Size.small)
    label: Attr[str | None] = attr(default=None)
    tags: Attr[frozenset[str]] = attr(default=frozenset())
    parts: Attr[list[int]] = attr(default_factory=list)
    owner: Attr[Owner | None] = attr(default=None)
    extra: Attr[dict[str, int]] = attr(default_factory=dict)

    of = Key(shelf, n)


BOXES = [
    Box(shelf="s", n=1, label="alpha", tags=frozenset({"x"}), parts=[1, 2]),
    Box(
        shelf="s",
        n=2,
        size=Size.large,
        label="alps",
        owner=Owner(name="Ada", phones=["1", "2"], memberSince=3),
    ),
    Box(shelf="s", n=3, size=Size.large, extra={"k": 7}),
]


@pytest.fixture(scope="module")
def stores() -> Iterator[BlockingStores]:
    """Open stores with three boxes."""
    with open_blocking_stores(boxes) as opened:
        for box in BOXES:
            opened.run(Box.put(box))
        yield opened


HOLDS: list[tuple[Condition[Box], set[int]]] = [
    (Box.size == Size.large, {2, 3}),
    (Box.size != Size.large, {1}),
    (Box.label < "alpi", {1}),
    (Box.label <= "alps", {1, 2}),
    (Box.label > "alpha", {2}),
    (Box.label >= "alpha", {1, 2}),
    (Box.label.between("alpi", "b"), {2}),
    (Box.size.in_([Size.small]), {1}),
    (Box.size.not_in([Size.small]), {2, 3}),
    (Box.label.begins_with("alp"), {1, 2}),
    (Box.label.contains("ph"), {1}),
    (Box.tags.contains("x"), {1}),
    (Box.parts.contains(2), {1}),
    (Box.label.exists(), {1, 2}),
    (Box.label.not_exists(), {3}),
    (Box.owner.at(lambda owner: owner.name) == "Ada", {2}),
    (Box.owner.at(lambda owner: owner.phones[1]) == "2", {2}),
    (Box.owner.at(lambda owner: owner.phones).contains("2"), {2}),
    (Box.owner.at(lambda owner: owner.since) > 2, {2}),
    (Box.extra.at(lambda extra: extra["k"]) == 7, {3}),
    ((Box.size == Size.large) & Box.label.exists(), {2}),
    ((Box.size == Size.small) | Box.label.not_exists(), {1, 3}),
    (~(Box.size == Size.small), {2, 3}),
    ((Box.size == Size.large) & (Box.label.not_exists() | Box.tags.contains("x")), {3}),
]


@pytest.mark.parametrize(("condition", "found"), HOLDS, ids=range(len(HOLDS)))
def test_condition_finds_matching_items(
    stores: BlockingStores, condition: Condition[Box], found: set[int]
) -> None:
    assert {box.n for box in stores.run(Box.of("s").query().where(condition))} == found


def test_several_conditions_and_several_wheres_must_all_hold(stores: BlockingStores) -> None:
    query = Box.of("s").query().where(Box.size == Size.large, Box.label.exists())
    again = Box.of("s").query().where(Box.size == Size.large).where(Box.label.exists())

    assert {box.n for box in stores.run(query)} == {2}
    assert query == again


TRUTHS: list[Callable[[Any, Any], object]] = [
    lambda one, other: one and other,
    lambda one, other: one or other,
    lambda one, other: not one,
    lambda one, other: "a" < Box.label < "b",
    lambda one, other: Box.size in (Size.small, Size.large),
]


@pytest.mark.parametrize("use", TRUTHS, ids=["and", "or", "not", "chained", "in"])
def test_a_condition_has_no_truth_value(use: Callable[[Any, Any], object]) -> None:
    with pytest.raises(TypeError, match="A condition has no truth value"):
        use(Box.size == Size.small, Box.label.exists())


def test_rejects_what_is_not_a_condition() -> None:
    for wrong in (True, Box.size, "size = small"):
        anything: Any = wrong
        with pytest.raises(TypeError, match="Invalid condition"):
            Box.of("s").query().where(anything)


def test_rejects_a_comparison_without_values() -> None:
    with pytest.raises(InvalidRequest, match=r"Invalid condition on Box\.size: expected at least one value"):
        Box.size.in_([])


def test_a_comparison_with_more_values_than_fit_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"Too many values for Box\.n: 101"):
        Box.n.in_(range(101))


def test_a_comparison_with_another_attribute_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a value, not another attribute"):
        assert Box.label == Box.shelf


def test_a_comparison_with_a_value_the_attribute_cannot_have_is_refused() -> None:
    wrong: Any = "huge"
    with pytest.raises(InvalidRequest, match="Invalid size 'huge'"):
        assert Box.size == wrong


def test_a_member_that_a_document_does_not_have_is_refused() -> None:
    with pytest.raises(DeclarationError, match="Owner has no member 'nmae': expected name, phones and since"):
        Box.owner.at(lambda owner: owner.nmae)  # type: ignore[attr-defined]


def test_attribute_has_a_readable_repr() -> None:
    assert repr(Box.owner.at(lambda owner: owner.phones[0])) == "Box.owner.phones[0]"
