"""The MCP tools of SkyMarshal on the sample: an agent asks about disruptions and writes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client

from holdfast import Stores
from holdfast.core.errors import ComponentRefused
from holdfast.mcp import build_server
from skymarshal.api.mcp_tools import DEFAULT_LINES_SHOWN, MAX_PASSENGERS_SHOWN, TOOLS
from skymarshal.system import SYSTEM
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.small_airline import DAY, Airline
from tests.unit.mcp.mcp_client import call_tool, get_refusal

WRITES = [each for each in SYSTEM.patterns if each.writes]


@pytest.mark.proves("SM-35")
async def test_agent_can_assess_a_cancellation_with_twenty_listed_passengers(sample_stores: Stores) -> None:
    request = {"flight_number": "EY11", "day": DAY.isoformat()}
    async with Client(build_server([sample_stores])) as agent:
        report = await call_tool(agent, "who_is_hit", **request)
        known = await call_tool(agent, "who_is_hit", **request, known_at="2026-01-29T22:00:00Z")
    assert report["kind"] == "cancel"
    assert (report["passengers"]["count"], len(report["passengers"]["ranked"])) == (412, MAX_PASSENGERS_SHOWN)
    assert report["passengers"]["ranked"][0]["rank"] == 1
    assert report["bags"]["count"] == report["bags"]["to_reroute"] == 511
    assert report["options"]["proposed"]
    assert "give known_at" in report["problems"][0]
    assert (known["known_at"], known["problems"]) == ("2026-01-29T22:00:00Z", [])


async def test_agent_is_offered_every_tool_but_no_write_roster_or_optional_index(
    sample_stores: Stores,
) -> None:
    async with Client(build_server([sample_stores])) as agent:
        page = await agent.list_tools()
    assert page.next_cursor is None
    offered = {tool.name for tool in page.tools}
    assert {tool.name for tool in TOOLS} <= offered
    assert len(offered) <= 25
    assert offered.isdisjoint(pattern.name for pattern in WRITES)
    assert not {name for name in offered if "roster" in name or "v2" in name or "duties" in name}
    assert not offered & {"crew_of_flight", "crew_in_position", "passengers_of_pnr", "disrupted_on_flight"}
    refused = {
        each.name
        for each in SYSTEM.patterns
        if (at := each.build_example().index) is not None and not at.default
    }
    assert not refused & {each.name for each in SYSTEM.get_component("agent").patterns}
    assert refused <= {each.name for each in SYSTEM.get_component("api").patterns}


async def test_every_tool_answers_an_agent(sample_stores: Stores) -> None:
    delay = {"flight_number": "ey 11", "day": DAY.isoformat(), "kind": "delay", "delay_minutes": 60}
    requests: dict[str, dict[str, Any]] = {
        "who_is_hit": delay,
        "flight_manifest": {"flight_id": "1"},
        "seats": {"flight_id": "1"},
        "flight_crew": {"flight_id": "1"},
        "cargo_load": {"flight_id": "5"},
        "duplicate_bookings": {"passenger_id": "OZ69826352P"},
        "airport_baggage": {"airport": "omaa"},
        "shipment_status": {"shipment_id": "42"},
        "staffing": {"workorder_id": "WO-10193", "at": "2026-01-29T22:00:00Z"},
    }
    assert requests.keys() == {tool.name for tool in TOOLS}
    async with Client(build_server([sample_stores])) as agent:
        answers = {name: await call_tool(agent, name, **arguments) for name, arguments in requests.items()}
    assert answers["who_is_hit"]["kind"] == "delay"
    manifest = answers["flight_manifest"]
    assert (manifest["passengers"], len(manifest["lines"])) == (412, DEFAULT_LINES_SHOWN)
    assert answers["seats"]["left"] == 74
    assert answers["flight_crew"]["by_position"]["Captain"] == 1
    assert answers["cargo_load"]["assignments"] == 23
    assert answers["duplicate_bookings"]["flights"] == {}
    assert sum(answers["airport_baggage"].values()) == 847
    assert len(answers["shipment_status"]["legs"]) == 2
    assert answers["staffing"]["now"] == 2


@all_cases(
    ("tool", "arguments", "message"),
    [
        ("who_is_hit", {"flight_number": "EY999", "day": "2026-01-30"}, "No flight EY999"),
        ("who_is_hit", {"flight_number": "EY11", "day": "2026-02-30"}, "day"),
        ("who_is_hit", {"flight_number": "11", "day": "2026-01-30"}, "flight number"),
        (
            "who_is_hit",
            {"flight_number": "EY11", "day": "2026-01-30", "kind": "delay"},
            "a delay needs delay_minutes",
        ),
        ("who_is_hit", {"flight_number": "EY11"}, "day"),
        ("flight_manifest", {"flight_id": "404"}, "no flight with the id '404'"),
        ("cargo_load", {"flight_id": "404"}, "no flight with the id '404'"),
        ("airport_baggage", {"airport": "A1"}, "IATA code of 3 letters"),
        ("staffing", {"workorder_id": "WO-10193", "at": "2026-01-29T22:00:00"}, "no time zone"),
    ],
)
async def test_tool_called_wrongly_reports_the_fix(
    sample_stores: Stores, tool: str, arguments: dict[str, Any], message: str
) -> None:
    async with Client(build_server([sample_stores])) as agent:
        assert message in await get_refusal(agent, tool, **arguments)


def test_agent_cannot_run_any_write(small_stores: Stores) -> None:
    agent = small_stores.for_component("agent")
    before = Airline(small_stores).dump()

    assert len(WRITES) > 15
    for pattern in WRITES:
        with pytest.raises(ComponentRefused) as refused:
            asyncio.run(agent.run(pattern.build_example()))
        assert refused.value.pattern == pattern.id
    assert Airline(small_stores).dump() == before


def test_only_the_api_component_may_record_a_decision() -> None:
    deciding = {
        component.name
        for component in SYSTEM.components
        if any(pattern.id == "DX4" for pattern in component.patterns)
    }
    assert deciding == {"api"}
