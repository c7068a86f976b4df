"""The quick look takes nothing that the models of fhir.resources would complain of, and nearly all that is usual."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from pagw.demo.sample.bundles import build_cancel_bundle, build_request_bundle, build_update_bundle
from pagw.domain.fhir.rules.fast_structure import is_certainly_valid
from pagw.domain.fhir.rules.structure import _find_empty_elements, _get_model, _validate
from tests.unit.pagw.nonsense import spoiled

Json = dict[str, Any]

# Each is right somewhere and wrong elsewhere.
VALUES: tuple[Any, ...] = (
    *(
        "2026",
        "2026-02",
        "2026-02-30",
        "2026-02-28",
        "0000-01-01",
        "2026-02-28T10:00:00",
        "2026-02-28T24:00:00Z",
    ),
    *(
        "2026-02-28T10:00:00Z",
        "2026-02-28T10:00:60Z",
        "2026-02-28T10:00:00.1234567Z",
        "2026-02-28T10:00:00+14:30",
    ),
    *(
        "2026-02-28\n",
        "1772272800",
        " a",
        "a b",
        "a  b",
        "a\n",
        "\x0b",
        "http://x y",
        "urn:oid:9.1",
        "\u00e4\u2028",
    ),
    *(
        0,
        1,
        -1,
        2**31,
        2**63,
        10**30,
        1.0,
        1e-7,
        1e300,
        True,
        False,
        None,
        "",
        [],
        {},
        "1",
        "true",
        [1],
        ["a", None],
    ),
    *({"reference": "a"}, {"extension": []}, {"value": 1}, {"id": "x"}, [{}], [{"id": "x"}], "x" * 70),
)


def resources() -> Iterator[Json]:
    first = build_request_bundle(items=("99213", "99214"))
    for made in (
        first,
        build_update_bundle(first, reference="R-2", cancelled=[1]),
        build_cancel_bundle(first, reference="R-3"),
    ):
        yield from (entry["resource"] for entry in made["entry"])


def is_taken_rightly(resource: Json) -> bool:
    """Whether the quick look took it; that it may is asserted."""
    model = _get_model(resource["resourceType"])
    assert model is not None
    taken = is_certainly_valid(model, resource)
    if taken:
        assert _validate(model, resource, "here") == list(_find_empty_elements(resource, "here")), resource
    return taken


def test_takes_every_resource_of_the_samples() -> None:
    assert all(is_taken_rightly(each) for each in resources())


def test_takes_nothing_that_the_models_complain_of_wherever_a_value_is_changed() -> None:
    random = Random(7)
    every = list(resources())
    taken = [
        is_taken_rightly(changed)
        for _ in range(3000)
        if (changed := with_a_value_changed(random.choice(every), random)).get("resourceType")
    ]
    assert 50 < sum(taken) < len(taken) - 50


def test_takes_no_nonsense() -> None:
    random = Random(8)
    every = list(resources())
    for _ in range(500):
        changed = spoiled(random.choice(every), random, "Quince")
        if isinstance(changed.get("resourceType"), str) and _get_model(changed["resourceType"]) is not None:
            is_taken_rightly(changed)


@pytest.mark.parametrize(
    "added",
    [
        {"_birthDate": {"extension": [{"url": "u", "valueCode": "unknown"}]}},
        {"contained": [{"resourceType": "Organization", "id": "o"}]},
        {"birthDate": "1960"},
        {"photo": [{"data": "AAAA"}]},
    ],
)
def test_leaves_what_is_rare_to_the_models_which_take_it(added: Json) -> None:
    patient = next(each for each in resources() if each["resourceType"] == "Patient") | added
    model = _get_model("Patient")
    assert model is not None
    assert not is_certainly_valid(model, patient)
    assert _validate(model, patient, "here") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"deceasedBoolean": True, "deceasedDateTime": "2026-02-28"},
        {"communication": [{"preferred": True}]},
        {"active": "true"},
        {"multipleBirthInteger": True},
        {"multipleBirthInteger": 2.0},
        {"resource_type": "Patient"},
        {"gender__ext": None},
    ],
)
def test_takes_neither_two_of_a_choice_nor_what_lacks_an_element_nor_another_type(wrong: Json) -> None:
    patient = next(each for each in resources() if each["resourceType"] == "Patient") | wrong
    model = _get_model("Patient")
    assert model is not None
    assert not is_certainly_valid(model, patient)


def with_a_value_changed(resource: Json, random: Random) -> Json:
    changed = deepcopy(resource)
    at: Any = changed
    while True:
        place = random.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        if isinstance(at[place], dict | list) and at[place] and random.random() < 0.9:
            at = at[place]
        elif place != "resourceType":
            at[place] = deepcopy(random.choice(VALUES))
            return changed
