"""Diagrams: what they show, and that nothing overlaps or is cut off, for any system and width."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from holdfast import Attr, Component, Entity, Key, Rate, System, Table, attr, pattern
from holdfast.console.explorer.accesses import list_accesses
from holdfast.console.explorer.diagrams import Drawing, draw_access, draw_flow, draw_model
from holdfast.console.explorer.diagrams.drawing import WIDTHS, Box, measure
from holdfast.flows import Flow
from holdfast.model.entities import Get
from holdfast.model.system import load_system
from tests.unit.console.explorer.clinic import CLINIC, EMPTY
from tests.unit.flows.errands import ERRANDS

INSTALLED = ("agenticpm", "pagw", "richpanel", "skymarshal", "tripcortex")


def build_large() -> System:
    """Return a system of fifteen tables with long names."""
    tables, patterns = [], []
    for number in range(15):
        table = Table(f"VeryLongNameOfTableNumber{number}ThatDoesNotFit", partition="identifierOfTheItem")

        class Item(Entity, table=table):
            identifier_of_the_item: Attr[str] = attr()
            of = Key(identifier_of_the_item)

        entity = Item

        @pattern(f"P{number}", "Read", rate=Rate(per="day"), example=("x",))
        def read(id: str, entity: type[Item] = entity) -> Get[Item]:
            return entity.of(id).get()

        tables.append(table)
        patterns.append(read)
    components = [
        Component(f"component-with-a-long-name-{place}", uses=patterns[place::3]) for place in range(3)
    ]
    return System("large", "Has much", tables=tables, components=components)


LARGE = build_large()
SYSTEMS = [CLINIC, EMPTY, LARGE, *map(load_system, INSTALLED)]


def list_boxes(drawing: Drawing) -> list[Box]:
    return [box for group in drawing.groups for box in group.boxes]


def list_texts(drawing: Drawing) -> list[str]:
    return [text.text for box in list_boxes(drawing) for each in box.sections for text in each.texts]


def check_layout(drawing: Drawing) -> None:
    """Assert that boxes lie inside, apart, and around their texts."""
    boxes = list_boxes(drawing)
    for box in boxes:
        assert box.x >= 0 and box.x + box.width <= drawing.width + 1
        assert box.y >= 0 and box.y + box.height <= drawing.height + 1
        for section in box.sections:
            assert box.y <= section.y and section.y + section.height <= box.y + box.height + 0.01
            for text in section.texts:
                start = text.x - measure(text.text, text.kind) if text.is_end else text.x
                end = text.x if text.is_end else text.x + measure(text.text, text.kind)
                assert start >= box.x and end <= box.x + box.width, text.text
                assert section.y < text.y <= section.y + section.height
        for upper, lower in pairwise(box.sections):
            assert upper.y + upper.height <= lower.y + 0.01
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            apart = (
                one.x + one.width <= other.x
                or other.x + other.width <= one.x
                or one.y + one.height <= other.y
                or other.y + other.height <= one.y
            )
            assert apart, (one, other)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda each: each.name)
def test_model_fits_any_width(system: System, width: int) -> None:
    check_layout(draw_model(system, width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda each: each.name)
def test_access_fits_any_width(system: System, width: int) -> None:
    check_layout(draw_access(system, list_accesses(system), width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("flow", [ERRANDS, *load_system("tripcortex").flows], ids=lambda each: each.name)
def test_flow_fits_any_width(flow: Flow[Any], width: int) -> None:
    drawing = draw_flow(flow, width)
    check_layout(drawing)
    assert drawing.width <= width


def test_model_shows_keys_indexes_entities_and_lifetimes() -> None:
    texts = list_texts(draw_model(CLINIC, WIDTHS[0]))
    assert {"Patients", "Visits", "patientId (S)", "by-doctor (sparse)", "expiresAt", "Patient"} <= set(texts)
    assert "removed 90 days after at" in texts
    assert {"clinic_reminders", "clinic-scans"} <= set(texts)


def test_model_links_everything_to_its_details() -> None:
    sections = [each for box in list_boxes(draw_model(CLINIC, WIDTHS[0])) for each in box.sections]
    urls = [each.url for each in sections if each.url]
    assert "/systems/clinic/tables/Visits" in urls
    assert "/systems/clinic/tables/Visits#index-by-doctor" in urls
    assert "/systems/clinic/tables/Visits#entity-Visit" in urls
    assert "/systems/clinic#queue-clinic_reminders" in urls
    assert all(each.label for each in sections if each.url)


def test_a_narrow_model_has_one_column() -> None:
    assert {box.x for box in list_boxes(draw_model(LARGE, WIDTHS[2]))} == {0.0}
    assert len({box.x for box in list_boxes(draw_model(LARGE, WIDTHS[0]))}) == 3


def test_access_distinguishes_reads_writes_and_consumers() -> None:
    drawing = draw_access(CLINIC, list_accesses(CLINIC), WIDTHS[0])
    by_component = {group.boxes[0].sections[0].texts[0].text: group.lines for group in drawing.groups[1:]}
    assert [each.kind for each in by_component["api"]] == ["writes", "reads", "writes"]
    assert [each.kind for each in by_component["nurse"]] == ["reads", "receives"]
    assert [each.kind for each in by_component["console"]] == ["reads"]
    assert "nurse reads Patients, receives clinic_reminders" in drawing.description


def test_flow_says_where_each_state_leads() -> None:
    drawing = draw_flow(ERRANDS, WIDTHS[0])
    assert set(ERRANDS.states) <= set(list_texts(drawing))
    assert f"It begins in {ERRANDS.initial_state}." in drawing.description
    first = ERRANDS.states[ERRANDS.initial_state]
    assert f"leads to {', '.join(first.to)}" in " ".join(list_texts(drawing))


def test_flow_draws_one_way_into_each_state_that_is_not_next() -> None:
    flow = load_system("tripcortex").flows[0]
    drawing = draw_flow(flow, WIDTHS[0])
    heads = [each for each in drawing.groups[0].lines if each.kind == "lane" and " l7 " in each.head]
    names = [box.sections[0].texts[0].text for box in list_boxes(drawing)]
    ends = {each.head.split()[1] for each in heads}
    assert len(ends) == len(heads)
    assert {"failed", "cancelled"} <= set(names)
