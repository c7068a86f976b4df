"""The sample policy: its PDF and its machine-readable rules agree; the command that prints its entities."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast_demo.tripcortex.sample.policy_document import FILE_NAME, build_policy_pdf, build_policy_rules
from tests.systems.tripcortex.unit.documents.documents import filter_by_type, read
from tripcortex.documents import ContentType, ParsedEntity
from tripcortex.documents.__main__ import main


@pytest.fixture(scope="module")
def entities() -> list[ParsedEntity]:
    return read(build_policy_pdf())


def split_cells(table: ParsedEntity) -> list[list[str]]:
    """Return the cells of a Markdown table by row, without the divider."""
    rows = [line for line in table.text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in (rows[0], *rows[2:])]


def test_bytes_are_equal_in_every_process() -> None:
    program = (
        "import hashlib, holdfast_demo.tripcortex.sample.policy_document as sample;"
        "print(hashlib.sha256(sample.build_policy_pdf()).hexdigest())"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == hashlib.sha256(build_policy_pdf()).hexdigest()


def test_fare_caps_in_the_table_equal_those_in_the_rules(entities: list[ParsedEntity]) -> None:
    table = next(
        entity for entity in filter_by_type(entities, ContentType.table) if "Fare caps" in entity.text
    )
    assert (table.section_title, table.page) == ("4 Fare caps", 3)
    header, *rows = split_cells(table)
    assert header == ["Route", "14 days or more", "7 to 13 days", "0 to 6 days"]
    said = {int(cell.replace(",", "").removesuffix(" USD")) for row in rows for cell in row[1:]}
    assert said == {cap["max_usd"] for cap in build_policy_rules()["caps"]} and len(rows) == 3


def test_cabins_in_the_table_equal_those_in_the_rules(entities: list[ParsedEntity]) -> None:
    table = next(
        entity for entity in filter_by_type(entities, ContentType.table) if "Highest cabin" in entity.text
    )
    assert [row[1].lower().replace(" ", "_") for row in split_cells(table)[1:]] == [
        rule["cabin"] for rule in build_policy_rules()["cabins"]
    ]


def test_the_pdf_has_text_tables_and_a_chart_under_their_headings(entities: list[ParsedEntity]) -> None:
    (figure,) = filter_by_type(entities, ContentType.figure)
    assert (figure.section_title, figure.subtype) == ("15 What we spend", "CHART")
    assert figure.text.startswith("Figure 1: Air travel spend in 2025") and "412" in figure.text
    assert len(filter_by_type(entities, ContentType.table)) == 4
    assert {"2.2 Advance purchase", "5 Preferred carriers", "7 Approvals and deadlines"} <= {
        entity.section_title for entity in entities if entity.subtype == "PARAGRAPH"
    }
    assert max(entity.page or 0 for entity in entities) == 8


def test_omits_headers_and_footers(entities: list[ParsedEntity]) -> None:
    assert not [entity for entity in entities if "Northwind Systems · Travel Policy" in entity.text]
    assert not [entity for entity in entities if entity.text.startswith("Page ")]


def test_the_command_shows_entities_as_a_table_or_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entities: list[ParsedEntity]
) -> None:
    file = tmp_path / FILE_NAME
    file.write_bytes(build_policy_pdf())
    assert main([str(file)]) == 0
    assert "Fare caps" in capsys.readouterr().out
    assert main([str(file), "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["text"] for each in shown] == [entity.text for entity in entities]
    assert [each["page"] for each in shown if each["crop_bytes"]] == [7]


def test_the_command_says_why_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.pdf"
    assert main([str(file)]) == 1
    file.write_bytes(b"no PDF")
    assert main([str(file)]) == 1
    assert "named as a PDF" in capsys.readouterr().err
