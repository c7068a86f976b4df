"""Fast structure check: it accepts nothing that fhir.resources rejects, and nearly everything usual."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

from holdfast_demo.pagw.sample.bundles import build_cancel_bundle, build_request_bundle, build_update_bundle
from pagw.domain.fhir.rules.fast_structure import is_certainly_valid
from pagw.domain.fhir.rules.structure import _find_empty_elements, _get_model, _validate
from tests.cases import all_cases
from tests.systems.pagw.unit.fhir.corruption import corrupt_copy

Json = dict[str, Any]

# Each value is valid in some elements and invalid in others.
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


def iterate_resources() -> Iterator[Json]:
    """Yield all resources of a sample request, its update and its cancellation."""
    first = build_request_bundle(items=("99213", "99214"))
    for made in (
        first,
        build_update_bundle(first, reference="R-2", cancelled=[1]),
        build_cancel_bundle(first, reference="R-3"),
    ):
        yield from (entry["resource"] for entry in made["entry"])


def accepts_correctly(resource: Json) -> bool:
    """Return whether the fast check accepts the resource. If so, assert that the models accept it too."""
    model = _get_model(resource["resourceType"])
    assert model is not None
    taken = is_certainly_valid(model, resource)
    if taken:
        assert _validate(model, resource, "here") == list(_find_empty_elements(resource, "here")), resource
    return taken


def test_accepts_every_resource_of_the_samples() -> None:
    assert all(accepts_correctly(each) for each in iterate_resources())


def test_accepts_nothing_that_the_models_reject() -> None:
    random = Random(7)
    every = list(iterate_resources())
    taken = [
        accepts_correctly(changed)
        for _ in range(3000)
        if (changed := change_one_value(random.choice(every), random)).get("resourceType")
    ]
    assert 50 < sum(taken) < len(taken) - 50


def test_accepts_no_corrupted_resource_that_the_models_reject() -> None:
    """A corrupted resource may still be valid; then the models must accept it too."""
    random = Random(8)
    every = list(iterate_resources())
    for _ in range(500):
        changed = corrupt_copy(random.choice(every), random, "Quince")
        if isinstance(changed.get("resourceType"), str) and _get_model(changed["resourceType"]) is not None:
            accepts_correctly(changed)


@all_cases(
    "added",
    [
        {"_birthDate": {"extension": [{"url": "u", "valueCode": "unknown"}]}},
        {"contained": [{"resourceType": "Organization", "id": "o"}]},
        {"birthDate": "1960"},
        {"photo": [{"data": "AAAA"}]},
    ],
)
def test_leaves_rare_but_valid_elements_to_the_models(added: Json) -> None:
    patient = next(each for each in iterate_resources() if each["resourceType"] == "Patient") | added
    model = _get_model("Patient")
    assert model is not None
    assert not is_certainly_valid(model, patient)
    assert _validate(model, patient, "here") == []


@all_cases(
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
def test_rejects_double_choices_missing_elements_and_wrong_types(wrong: Json) -> None:
    patient = next(each for each in iterate_resources() if each["resourceType"] == "Patient") | wrong
    model = _get_model("Patient")
    assert model is not None
    assert not is_certainly_valid(model, patient)


def change_one_value(resource: Json, random: Random) -> Json:
    """Return a copy with one random value replaced by one of `VALUES`."""
    changed = deepcopy(resource)
    at: Any = changed
    while True:
        place = random.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        if isinstance(at[place], dict | list) and at[place] and random.random() < 0.9:
            at = at[place]
        elif place != "resourceType":
            at[place] = deepcopy(random.choice(VALUES))
            return changed
