"""`policies judge`: a trip judged by a policy file, without any store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from tests.systems.tripcortex.unit.policy_rules.documents import POLICY
from tripcortex.api.commands import COMMANDS
from tripcortex.api.judge_command import policies_judge

TRIP: dict[str, Any] = {
    "origin": "SFO",
    "destination": "LHR",
    "depart": "2027-03-01",
    "return": "2027-03-08",
    "cabin": "economy",
    "carrier": "UA",
    "price_usd": 1700,
    "booked_on": "2027-01-04",
    "employee_level": None,
}


def write(folder: Path, trip: object) -> tuple[Path, Path]:
    """Write the policy and the trip; return their paths."""
    policy, described = folder / "policy.md", folder / "trip.json"
    policy.write_text(POLICY)
    described.write_text(trip if isinstance(trip, str) else json.dumps(trip))
    return policy, described


async def test_reports_verdict_rules_and_approvers(tmp_path: Path) -> None:
    found = (await policies_judge(*write(tmp_path, TRIP))).data
    assert (found["verdict"], found["approvers"]) == ("approval", ["Line manager", "Finance"])
    (cap,) = [rule for rule in found["rules"] if rule["quote"].startswith("US–Europe")]
    assert cap["page"] is None
    assert cap["scope"]["routes"][0]["one"] == ["US"]


async def test_explains_the_verdict_in_sentences(tmp_path: Path) -> None:
    lines = (await policies_judge(*write(tmp_path, TRIP))).lines
    assert lines[:2] == ("The trip needs an approval.", "Ask: Line manager, Finance.")
    assert any("US–Europe | $800 | Line manager + Finance" in line for line in lines)
    allowed = (await policies_judge(*write(tmp_path, TRIP | {"price_usd": 900}))).lines
    assert allowed[0] == "Allowed: the trip needs no approval."


def test_needs_no_stores() -> None:
    assert not COMMANDS["policies judge"].needs_stores


@pytest.mark.parametrize(
    ("trip", "message"),
    [
        ("{", "not readable as JSON"),
        ({**TRIP, "origin": "QQQ"}, "Invalid airport 'QQQ'"),
        ({**TRIP, "cabin": "throne"}, "Invalid trip: cabin"),
        ({**TRIP, "depart": None}, "Invalid trip: depart"),
    ],
)
async def test_refuses_an_invalid_trip(tmp_path: Path, trip: object, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        await policies_judge(*write(tmp_path, trip))


async def test_refuses_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="Could not read"):
        await policies_judge(tmp_path / "none.md", tmp_path / "none.json")
    with pytest.raises(InvalidRequest, match="--trip"):
        await policies_judge(tmp_path / "none.md")
