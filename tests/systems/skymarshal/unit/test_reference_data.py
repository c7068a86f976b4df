"""Tests of the package's reference data files: each names its source and date; no unknown fields."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from skymarshal.domain.reference_data import Record, Source
from tests.cases import all_cases

DATA = files("skymarshal") / "data"
NAMES = sorted(entry.name for entry in DATA.iterdir())


@all_cases("name", [name for name in NAMES if name.endswith(".json")])
def test_every_json_file_names_its_source_and_date(name: str) -> None:
    sources = list(_iterate_sources(json.loads((DATA / name).read_text(encoding="utf-8"))))

    assert sources
    for source in sources:
        assert Source.model_validate(source).reference


@all_cases("name", [name for name in NAMES if name.endswith(".csv")])
def test_every_csv_file_has_comments_with_its_source_and_date(name: str) -> None:
    comments = [
        line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if line.startswith("#")
    ]

    assert "Source:" in "".join(comments)
    assert "Read 20" in "".join(comments)


def test_record_refuses_an_unknown_field() -> None:
    class StrictColour(Record):
        name: str

    with pytest.raises(ValidationError, match="hue"):
        StrictColour.model_validate({"name": "red", "hue": 3})


def _iterate_sources(value: Any) -> Any:
    """Yield every `source` entry of a JSON document, at any depth of its objects."""
    if isinstance(value, dict):
        if "source" in value:
            yield value["source"]
        for entry in value.values():
            yield from _iterate_sources(entry)
