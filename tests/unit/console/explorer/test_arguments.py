"""The form of a pattern: controls by type, what the user wrote as JSON, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Pattern
from holdfast.console.explorer.arguments import Field, PatternForm, build_form
from holdfast.model.patterns import Rate
from holdfast.model.system import load_system
from tests.unit.console.explorer import clinic


def build(pattern: Pattern[..., Any]) -> PatternForm:
    return build_form(pattern, clinic.CLINIC.admin.arguments)


def get_field(form: PatternForm, name: str) -> Field:
    return next(each for each in form.fields if each.name == name)


def read(pattern: Pattern[..., Any], **texts: str) -> tuple[PatternForm, dict[str, Any]]:
    form = build(pattern)
    example = {each.form_name: each.text for each in form.fields}
    return form.read_form(example | {f"a.{name}": text for name, text in texts.items()})


def problems_of(pattern: Pattern[..., Any], **texts: str) -> dict[str, str]:
    form, _ = read(pattern, **texts)
    return {each.name: " ".join(each.problems) for each in form.fields if each.problems}


def test_gives_each_type_its_control() -> None:
    controls = {
        each.name: each.control
        for pattern in (clinic.visits_of, clinic.visits_of_doctor, clinic.visits_near, clinic.patients_of)
        for each in build(pattern).fields
    }
    assert controls == {
        "patient_id": "text",
        "since": "text",
        "doctor": "text",
        "day": "date",
        "urgent": "choice",
        "address": "json",
        "shares": "json",
        "ward": "choice",
    }
    assert [each.control for each in build(clinic.several_patients).fields] == ["list"]


def test_fills_in_the_example() -> None:
    texts = {each.name: each.text for each in build(clinic.visits_near).fields}
    assert texts["patient_id"] == "p-1"
    assert '"street": "Main Road"' in texts["address"]
    assert build(clinic.several_patients).fields[0].text == "p-1\np-2"


def test_describes_arguments_by_the_pattern_or_the_system() -> None:
    assert get_field(build(clinic.patient), "patient_id").hint == "The id, as p-1."
    assert get_field(build(clinic.visits_of_doctor), "doctor").hint == "Which doctor."
    assert "with its zone" in get_field(build(clinic.visits_of), "since").hint


def test_leaves_the_cursor_to_the_page() -> None:
    form = build(clinic.patients_of)
    assert [each.name for each in form.fields] == ["ward"]
    assert form.is_paged


def test_turns_texts_into_json_arguments() -> None:
    form, given = read(clinic.several_patients, patient_ids="p-1\n\n p-3 \n")
    assert form.problems == []
    assert given == {"patient_ids": ["p-1", "p-3"]}


def test_omits_what_is_optional_and_empty() -> None:
    form, given = read(clinic.visits_of_doctor, day="", urgent="")
    assert form.problems == []
    assert given == {"doctor": "d-1"}


def test_reads_a_choice_as_its_value() -> None:
    _, given = read(clinic.visits_of_doctor, urgent="true", day="2026-03-01")
    assert given == {"doctor": "d-1", "urgent": True, "day": "2026-03-01"}


@pytest.mark.parametrize(
    ("pattern", "texts", "name", "words"),
    [
        (clinic.patient, {"patient_id": ""}, "patient_id", "missing"),
        (clinic.visits_of, {"since": "yesterday"}, "since", "datetime"),
        (clinic.visits_of, {"since": "2096-03-01T09:00:00"}, "since", "no time zone"),
        (clinic.visits_near, {"address": "{"}, "address", "Invalid JSON at line 1"),
        (clinic.visits_near, {"address": '{"street": 4}'}, "address", "Street: Input should be"),
        (clinic.visits_near, {"shares": '[{"rooms": 1}]'}, "shares", "0.street is missing"),
        (clinic.patients_of, {"ward": "north"}, "ward", "expected one of east, west"),
    ],
)
def test_says_what_is_wrong_next_to_the_field(
    pattern: Pattern[..., Any], texts: dict[str, str], name: str, words: str
) -> None:
    found = problems_of(pattern, **texts)
    assert list(found) == [name]
    assert words in found[name]


def test_keeps_what_the_user_wrote() -> None:
    form, _ = read(clinic.visits_of, since="yesterday")
    assert get_field(form, "since").text == "yesterday"


def test_refuses_values_that_only_code_has() -> None:
    delete = clinic.reminders.consumer.delete
    form = build_form(delete, {})
    assert "values that only code has" in form.refused


def test_refuses_a_pattern_whose_example_fails() -> None:
    broken = Pattern(clinic.visits_of.function, "X1", "Broken", Rate(per="visit"), (1, 2, 3))
    assert "Its example fails" in build_form(broken, {}).refused


@pytest.mark.parametrize("name", ["agenticpm", "pagw", "richpanel", "skymarshal", "tripcortex"])
def test_every_example_of_the_installed_systems_is_valid(name: str) -> None:
    system = load_system(name)
    for pattern in system.patterns:
        form = build_form(pattern, system.admin.arguments)
        if form.refused:
            assert "only code has" in form.refused, pattern.id
            continue
        filled, given = form.read_form({each.form_name: each.text for each in form.fields})
        # Bytes that are not text have no form: the user must give others.
        wrong = [each for each in filled.fields if each.problems and each.type != "bytes"]
        assert wrong == [], pattern.id
        if not filled.problems:
            own, _ = filled.reader.read(given)
            assert pattern.call_with(own).kind == pattern.build_example().kind
