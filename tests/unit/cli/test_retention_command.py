"""`holdfast retention`: the retention period of every place, and exit 1 for places without a known end."""

from __future__ import annotations

import json

import pytest

from holdfast.cli import main


def retention(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    """Run `holdfast retention`, check its exit code, and return standard output."""
    with pytest.raises(SystemExit) as exited:
        main(["retention", *arguments])
    assert exited.value.code == code
    return capsys.readouterr().out


def test_json_has_every_key_and_recovery_of_35_days(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(retention(capsys, "skymarshal", "--json"))

    recovery = [row for row in rows if row["what"].startswith("recovery")]
    assert recovery
    assert {row["seconds"] for row in recovery} == {35 * 86400}
    assert set(rows[0]) == {"system", "store", "name", "what", "seconds", "until", "why", "problem"}


def test_prints_a_table_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    output = retention(capsys, "skymarshal")

    assert "35 days after the change" in output
    assert "without a known end" in output


def test_exits_1_if_a_place_has_no_known_end_and_0_otherwise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "It has no lifetime" in retention(capsys, "skymarshal", code=1)

    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "dev")
    assert "nothing without a known end" in retention(capsys, "richpanel", code=0)
