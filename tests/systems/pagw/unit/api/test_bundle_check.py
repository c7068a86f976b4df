"""`holdfast pagw check`: the OperationOutcome of a Bundle that is not sent, and the exit code."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.app import main
from holdfast_demo.pagw.sample.bundles import (
    SampleAttachment,
    build_inquiry_bundle,
    build_request_bundle,
)
from tests.cases import all_cases

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def run_check(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run the command, assert its exit code, and return what it printed."""
    with pytest.raises(SystemExit) as ended:
        main(["pagw", "check", *arguments])
    printed = capsys.readouterr()
    assert ended.value.code == code, printed
    return printed.out + printed.err


def save(tmp_path: Path, bundle: Json) -> str:
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps(bundle))
    return str(path)


def test_prints_the_outcome_of_a_valid_bundle_and_exits_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_folder: Path
) -> None:
    outcome = json.loads(run_check(capsys, save(tmp_path, build_request_bundle()), "--json"))
    assert outcome["resourceType"] == "OperationOutcome"
    assert {each["severity"] for each in outcome["issue"]} == {"warning", "information"}
    how = "Checked as a request for $submit of PAS 2.2.1 (the default)."
    assert outcome["issue"][-1]["diagnostics"] == how
    assert list(empty_folder.iterdir()) == []


def test_names_the_element_of_an_error_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = build_request_bundle()
    patient = next(each for each in bundle["entry"] if each["resource"]["resourceType"] == "Patient")
    patient["resource"] |= {"gender": "unicorn", "hair": "red"}
    shown = run_check(capsys, save(tmp_path, bundle), code=1)
    path = "Bundle.entry[4].resource.ofType(Patient)"
    assert shown.startswith(f"error: {path}.gender: expected a code of value set")
    assert f"error: {path}.hair: FHIR R4 does not define this element." in shown
    assert "2 errors, " in shown
    outcome = json.loads(run_check(capsys, save(tmp_path, bundle), "--json", code=1))
    assert outcome["issue"][0]["expression"] == [f"{path}.gender"]


def test_reads_the_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps(build_inquiry_bundle()).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    assert "Checked as an inquiry for $inquire of PAS 2.2.1" in run_check(capsys, "-")


def test_takes_the_version_from_the_option_else_from_the_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = build_request_bundle()
    for item in bundle["entry"][0]["resource"]["item"]:
        # Only PAS 2.2.1 demands a location.
        del item["locationCodeableConcept"]
    assert "item[0].location: a required" in run_check(capsys, save(tmp_path, bundle), code=1)
    assert "PAS 2.0.1." in run_check(capsys, save(tmp_path, bundle), "--ig", "2.0.1")
    bundle["meta"]["profile"][0] += "|2.0.1"
    assert "PAS 2.0.1 (from meta.profile)." in run_check(capsys, save(tmp_path, bundle))
    assert "PAS 2.2.1." in run_check(capsys, save(tmp_path, bundle), "--ig", "2.2.1", code=1)


@all_cases("body", [b"{", b"[]", b'{"resourceType": "Claim"}', b"\xff"])
def test_reports_a_body_that_is_no_bundle_as_an_outcome(
    body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bundle.json"
    path.write_bytes(body)
    outcome = json.loads(run_check(capsys, str(path), "--json", code=1))
    assert outcome["resourceType"] == "OperationOutcome" and len(outcome["issue"]) == 1


def test_checks_attachments_as_the_gateway_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = build_request_bundle(attachments=(SampleAttachment(b"MZ\x90\x00" + b"\x00" * 100),))
    assert "error: Attachment at " in run_check(capsys, save(tmp_path, bundle), code=1)


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_exits_with_2_for_a_file_that_cannot_be_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"Cannot read {name}: " in run_check(capsys, name, "--json", code=2)


def test_exits_with_2_for_an_unknown_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "2.0.1" in run_check(capsys, save(tmp_path, build_request_bundle()), "--ig", "3.0", code=2)
