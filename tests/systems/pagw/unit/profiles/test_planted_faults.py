"""One planted fault per check: each is found at its element, and nothing else is reported as an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Final

import pytest

from holdfast_demo.pagw.sample.bundles import (
    SampleAttachment,
    SampleItem,
    build_cancel_bundle,
    build_inquiry_bundle,
    build_request_bundle,
    build_update_bundle,
)
from pagw.domain.fhir.outcomes import select_errors
from pagw.domain.fhir.rules.pas_rules import check_bundle
from pagw.domain.profiles import GuideVersion, Operation, check
from pagw.domain.profiles.rules import Element, Library
from pagw.domain.profiles.tables import load_tables
from tests.cases import all_cases

Json = dict[str, Any]

REQUEST: Final = build_request_bundle(
    items=("99213", SampleItem("97110", quantity=6)), attachments=(SampleAttachment(),)
)
CLAIM: Final = "Bundle.entry[0].resource.ofType(Claim)"
ORGANIZATION: Final = "Bundle.entry[1].resource.ofType(Organization)"
PATIENT: Final = "Bundle.entry[4].resource.ofType(Patient)"
COVERAGE: Final = "Bundle.entry[5].resource.ofType(Coverage)"
EXTENSION: Final = "http://hl7.org/fhir/us/davinci-pas/StructureDefinition/extension-"
TEMP_CODES: Final = "http://hl7.org/fhir/us/davinci-pas/CodeSystem/PASTempCodes"


def get_errors(
    bundle: Json, operation: Operation = "submit", version: GuideVersion = "2.2.1"
) -> list[tuple[str, str | None]]:
    issues = check_bundle(bundle, operation, version, quotes_names=True)
    return [(each.code, each.expression) for each in select_errors(issues)]


def get_resource(bundle: Json, kind: str) -> Json:
    return next(each["resource"] for each in bundle["entry"] if each["resource"]["resourceType"] == kind)


def change(kind: str, **elements: Any) -> Callable[[Json], Any]:
    return lambda bundle: get_resource(bundle, kind).update(elements)


def remove(kind: str, name: str) -> Callable[[Json], Any]:
    return lambda bundle: get_resource(bundle, kind).pop(name)


def get_claim(bundle: Json) -> Json:
    return get_resource(bundle, "Claim")


def change_item(**elements: Any) -> Callable[[Json], Any]:
    return lambda bundle: get_claim(bundle)["item"][0].update(elements)


def remove_extension(name: str) -> Callable[[Json], Any]:
    def breaks(bundle: Json) -> None:
        item = get_claim(bundle)["item"][0]
        item["extension"] = [each for each in item["extension"] if not each["url"].endswith(name)]

    return breaks


def add_extension(name: str, **value: Any) -> Callable[[Json], Any]:
    extension = {"url": f"{EXTENSION}{name}", **value}
    return lambda bundle: get_claim(bundle)["item"][0]["extension"].append(extension)


def add_information(**elements: Any) -> Callable[[Json], Any]:
    category = {"coding": [{"system": TEMP_CODES, "code": "patientEvent"}]}
    information = {"sequence": 2, "category": category, **elements}
    return lambda bundle: get_claim(bundle)["supportingInfo"].append(information)


def break_npi(bundle: Json) -> None:
    get_resource(bundle, "Organization")["identifier"][0]["value"] = "1993000004"


FAULTS: Final[list[tuple[str, Callable[[Json], Any], str, str]]] = [
    # Cardinality.
    ("no timestamp", lambda bundle: bundle.pop("timestamp"), "required", "Bundle.timestamp"),
    ("no Bundle identifier", lambda bundle: bundle.pop("identifier"), "required", "Bundle.identifier"),
    ("no claim identifier", remove("Claim", "identifier"), "required", f"{CLAIM}.identifier"),
    ("no insurer", remove("Claim", "insurer"), "required", f"{CLAIM}.insurer"),
    ("no patient", remove("Claim", "patient"), "required", f"{CLAIM}.patient"),
    ("no items", remove("Claim", "item"), "required", f"{CLAIM}.item"),
    (
        "three identifiers",
        lambda bundle: get_claim(bundle)["identifier"].extend(get_claim(bundle)["identifier"] * 2),
        "structure",
        f"{CLAIM}.identifier",
    ),
    (
        "no member id",
        remove("Coverage", "identifier"),
        "required",
        f"{COVERAGE}.identifier",
    ),
    ("no gender", remove("Patient", "gender"), "required", f"{PATIENT}.gender"),
    (
        "a search of the entry",
        lambda bundle: bundle["entry"][1].update(search={"mode": "match"}),
        "structure",
        "Bundle.entry[1].search",
    ),
    # Fixed values and patterns.
    ("another use", change("Claim", use="claim"), "value", f"{CLAIM}.use"),
    ("another Bundle", lambda bundle: bundle.update(type="batch"), "value", "Bundle.type"),
    ("an inactive clinic", change("Organization", active=False), "value", f"{ORGANIZATION}.active"),
    # Types, choices and formats.
    ("a month 13", change("Patient", birthDate="1971-13-03"), "value", f"{PATIENT}.birthDate"),
    ("a 30th of February", change("Patient", birthDate="1971-02-30"), "value", f"{PATIENT}.birthDate"),
    ("a time without zone", change("Claim", created="2026-03-02T15:30:00"), "value", f"{CLAIM}.created"),
    ("an invalid id", change("Patient", id="a b"), "value", f"{PATIENT}.id"),
    ("a text for a boolean", change("Organization", active="true"), "value", f"{ORGANIZATION}.active"),
    ("a sequence of zero", change_item(sequence=0), "value", f"{CLAIM}.item[0].sequence"),
    ("a padded code", change("Claim", status=" active"), "value", f"{CLAIM}.status"),
    ("a text for a list", change("Patient", name="x"), "structure", f"{PATIENT}.name"),
    ("a list for a text", change("Patient", gender=["male"]), "structure", f"{PATIENT}.gender"),
    ("a text for an object", change("Claim", type="x"), "structure", f"{CLAIM}.type"),
    ("null", change("Patient", gender=None), "structure", f"{PATIENT}.gender"),
    (
        "another type of a choice",
        lambda bundle: (
            change_item(locationAddress={"city": "x"})(bundle)
            or get_claim(bundle)["item"][0].pop("locationCodeableConcept")
        ),
        "structure",
        f"{CLAIM}.item[0].location",
    ),
    (
        "two types of a choice",
        change_item(servicedPeriod={"start": "2026-03-02"}),
        "structure",
        f"{CLAIM}.item[0].serviced",
    ),
    ("an unknown element", change("Patient", hair="red"), "structure", f"{PATIENT}.hair"),
    ("an unknown element below", change_item(shade="red"), "structure", f"{CLAIM}.item[0].shade"),
    (
        "an unknown resource",
        change("Practitioner", resourceType="Wizard"),
        "structure",
        "Bundle.entry[3].resource.resourceType",
    ),
    # Bindings.
    ("a unicorn", change("Patient", gender="unicorn"), "code-invalid", f"{PATIENT}.gender"),
    (
        "an unknown telecom",
        change("PractitionerRole", telecom=[{"system": "owl", "value": "x"}]),
        "code-invalid",
        "Bundle.entry[6].resource.ofType(PractitionerRole).telecom[0].system",
    ),
    (
        "an unknown change",
        add_extension("infoChanged", valueCode="improved"),
        "code-invalid",
        f"{CLAIM}.item[0].extension[3].value.ofType(code)",
    ),
    # Slices.
    (
        "no request type",
        remove_extension("serviceItemRequestType"),
        "required",
        f"{CLAIM}.item[0].extension",
    ),
    (
        "two trace numbers too many",
        lambda bundle: [
            add_extension("epsdtIndicator", valueBoolean=True)(bundle),
            add_extension("epsdtIndicator", valueBoolean=True)(bundle),
        ],
        "structure",
        f"{CLAIM}.item[0].extension",
    ),
    (
        "an event with a value",
        add_information(timingDate="2026-03-01", valueString="x"),
        "structure",
        f"{CLAIM}.supportingInfo[1].value.ofType(string)",
    ),
    ("an event without a time", add_information(), "required", f"{CLAIM}.supportingInfo[1].timing"),
    (
        "an extension of another type",
        add_extension("epsdtIndicator", valueString="yes"),
        "structure",
        f"{CLAIM}.item[0].extension[3].value",
    ),
    (
        "an extension without a value",
        add_extension("infoChanged"),
        "invariant",
        f"{CLAIM}.item[0].extension[3]",
    ),
    # References.
    (
        "a patient as insurer",
        lambda bundle: get_claim(bundle).update(insurer=get_claim(bundle)["patient"]),
        "structure",
        f"{CLAIM}.insurer",
    ),
    (
        "a missing patient",
        change("Claim", patient={"reference": "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"}),
        "not-found",
        f"{CLAIM}.patient",
    ),
    (
        "a missing contained resource",
        change("Claim", provider={"reference": "#nobody"}),
        "not-found",
        f"{CLAIM}.provider",
    ),
    # Invariants.
    (
        "a partial date",
        add_information(timingDate="2026-03"),
        "invariant",
        f"{CLAIM}.supportingInfo[1].timing.ofType(date)",
    ),
    (
        "a period that ends first",
        change("Claim", billablePeriod={"start": "2026-03-02", "end": "2026-03-01"}),
        "invariant",
        f"{CLAIM}.billablePeriod",
    ),
    ("a check digit", break_npi, "invariant", f"{ORGANIZATION}.identifier[0]"),
    (
        "a name without a name",
        change("Patient", name=[{"text": "x"}]),
        "invariant",
        f"{PATIENT}.name[0]",
    ),
    (
        "a quantity with a code and no system",
        change_item(quantity={"value": 1, "code": "x"}),
        "invariant",
        f"{CLAIM}.item[0].quantity",
    ),
    (
        "an extension with both",
        lambda bundle: get_claim(bundle)["item"][0]["extension"][0].update(
            extension=[{"url": "urn:example", "valueString": "x"}]
        ),
        "structure",
        f"{CLAIM}.item[0].extension[0].extension",
    ),
    (
        "a useless contained resource",
        change("Claim", contained=[{"resourceType": "Basic", "id": "b", "code": {"text": "x"}}]),
        "invariant",
        f"{CLAIM}.contained[0]",
    ),
]


@all_cases(("name", "breaks", "code", "where"), FAULTS)
def test_finds_a_planted_fault_at_its_element_and_nothing_else(
    name: str, breaks: Callable[[Json], Any], code: str, where: str
) -> None:
    bundle = deepcopy(REQUEST)
    assert get_errors(bundle) == []
    breaks(bundle)
    assert get_errors(bundle) == [(code, where)], name


def test_missing_slice_names_the_extension() -> None:
    bundle = deepcopy(REQUEST)
    remove_extension("certificationType")(bundle)
    (issue,) = select_errors(check_bundle(bundle, "submit"))
    assert f"{EXTENSION}certificationType" in issue.diagnostics


@pytest.mark.proves("PG-X21")
def test_names_no_unknown_element_unless_asked_to() -> None:
    bundle = deepcopy(REQUEST)
    change("Patient", hair="red")(bundle)
    (issue,) = select_errors(check_bundle(bundle, "submit"))
    assert issue.expression == PATIENT and "hair" not in issue.diagnostics


def test_codes_of_a_value_set_that_cannot_be_listed_give_one_warning_that_names_each_element() -> None:
    bundle = deepcopy(REQUEST)
    for item in get_claim(bundle)["item"]:
        item["category"] = {"coding": [{"system": "https://codesystem.x12.org/005010/1365", "code": "no"}]}
    issues = check_bundle(bundle, "submit")
    assert select_errors(issues) == []
    (warning,) = [each for each in issues if "UM/1/03" in each.diagnostics]
    paths = [f"{CLAIM}.item[{place}].category" for place in range(2)]
    assert warning.to_json()["expression"] == paths and warning.severity == "warning"


BUNDLES: Final[list[tuple[Json, Operation]]] = [
    (REQUEST, "submit"),
    (build_update_bundle(REQUEST, reference="R-2", cancelled=[1]), "submit"),
    (build_cancel_bundle(REQUEST, reference="R-3"), "submit"),
    (build_inquiry_bundle(), "inquire"),
]


@all_cases(("bundle", "operation"), BUNDLES)
def test_a_removed_element_is_reported_at_its_path_or_above_it(bundle: Json, operation: Operation) -> None:
    assert get_profile_errors(bundle, operation) == []
    refused = 0
    for path, broken in iterate_removals(bundle, "Bundle"):
        errors = get_profile_errors(broken, operation)
        refused += bool(errors)
        for code, expression in errors:
            # Without its address, type or id, a resource is missing elsewhere.
            is_elsewhere = code in {"not-found", "structure"} and ".entry[" in path and path.count(".") < 4
            assert is_elsewhere or path.replace("._", ".").startswith(to_json_path(str(expression))), (
                path,
                errors,
            )
    assert refused > 40


def get_profile_errors(bundle: Json, operation: Operation) -> list[tuple[str, str | None]]:
    issues = check(bundle, "2.2.1", operation)
    return [(each.code, each.expression) for each in select_errors(issues)]


def test_a_value_of_another_form_is_reported_at_its_path() -> None:
    """Each value in turn becomes an object, null, blank, a text or an empty list."""
    tried = 0
    for path, value, replace in iterate_values(REQUEST, "Bundle"):
        for wrong in ["x", []] if isinstance(value, dict | list) else [{"x": 1}, None, " "]:
            errors = get_errors(replace(wrong))
            paths = {to_json_path(str(expression)) for _, expression in errors}
            assert path in paths, (path, wrong, errors)
            # What a reference leads to may be missing then, and the address of a resource has its id.
            others = {code for code, expression in errors if to_json_path(str(expression)) != path}
            assert others <= {"not-found"} or path.endswith(("resource.id", "resource")), (
                path,
                wrong,
                errors,
            )
            tried += 1
    assert tried > 400


def iterate_values(value: Any, path: str) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """Yield path and value of each element, and a function that returns the whole with another value."""
    places: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in places:
        if key == "resourceType":
            continue
        at = f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}"
        yield at, item, partial(put, value, key)
        if isinstance(item, dict | list):
            for below, found, replace in iterate_values(item, at):
                yield below, found, partial(_put_below, value, key, replace)


def put(value: Any, key: Any, item: Any) -> Any:
    changed = value.copy()
    changed[key] = item
    return changed


def _put_below(value: Any, key: Any, replace: Callable[[Any], Any], item: Any) -> Any:
    return put(value, key, replace(item))


def iterate_removals(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a copy of a value without each of its elements, at every depth, and the path of the element."""
    for key, item in value.items() if isinstance(value, dict) else ():
        yield f"{path}.{key}", {name: each for name, each in value.items() if name != key}
        for below, changed in iterate_removals(item, f"{path}.{key}"):
            yield below, {**value, key: changed}
    for place, item in enumerate(value) if isinstance(value, list) else ():
        for below, changed in iterate_removals(item, f"{path}[{place}]"):
            yield below, [*value[:place], changed, *value[place + 1 :]]


def to_json_path(expression: str) -> str:
    """Return a FHIRPath as the names of JSON: `value.ofType(string)` is `valueString`."""
    text = re.sub(r"\.resource\.ofType\(\w+\)", ".resource", expression)
    return re.sub(r"\.ofType\((\w)(\w*)\)", lambda match: match[1].upper() + match[2], text)


def test_every_profile_of_both_versions_can_be_built() -> None:
    """Each rule of the tables is used, so that a table that lacks an invariant or value set fails here."""
    for version in ("2.0.1", "2.2.1"):
        library = Library.load(version)
        for kind, name in load_tables(version).lines:
            rules = library.find(name) if kind == "S" else None
            if rules is not None:
                assert len(rules.invariants) + len(rules.fields) > 0 or rules.type
                for element in rules.elements:
                    use_rules(element, 0)


def use_rules(element: Element, depth: int) -> None:
    """Build everything that a check of the element may need."""
    assert all(each.human for each in element.invariants) and all(each.type for each in element.targets)
    assert element.binding is None or element.binding[1].codes or element.binding[1].open
    for each in element.slices:
        assert each.matchers
        use_rules(each, depth)
    for code, *_ in element.types if depth < 4 else ():
        rules = element.get_object(code)
        for below in rules.elements if rules is not None and code in {"BackboneElement", "Element"} else ():
            use_rules(below, depth + 1)
