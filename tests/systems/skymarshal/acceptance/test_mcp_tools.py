"""The MCP tools of SkyMarshal on the sample in memory: an agent asks about disruptions and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from mcp import Client

from holdfast import Stores
from holdfast.core.errors import ComponentRefused
from holdfast.mcp import build_server
from skymarshal.api.mcp_tools import DEFAULT_LINES_SHOWN, MAX_PASSENGERS_SHOWN, TOOLS
from skymarshal.system import SYSTEM
from tests.systems.skymarshal.acceptance.small_airline import DAY, Airline
from tests.unit.mcp.mcp_client import call_tool, get_refusal

WRITES = [each for each in SYSTEM.patterns if each.writes]

R = TypeVar("R")


async def run_as_agent(stores: Stores, scenario: Callable[[Client], Awaitable[R]]) -> R:
    """Run a scenario with an MCP client that is connected to a server over these stores."""

    async with Client(build_server([stores])) as client:
        return await scenario(client)


@pytest.mark.proves("SM-35")
async def test_agent_can_assess_a_cancellation_with_twenty_listed_passengers(sample_stores: Stores) -> None:
    async def scenario(agent: Client) -> dict[str, Any]:
        return await call_tool(agent, "who_is_hit", flight_number="EY11", day=DAY.isoformat())

    report = await run_as_agent(sample_stores, scenario)
    assert report["kind"] == "cancel"
    assert (report["passengers"]["count"], len(report["passengers"]["ranked"])) == (412, MAX_PASSENGERS_SHOWN)
    assert report["passengers"]["ranked"][0]["rank"] == 1
    assert report["bags"]["count"] == report["bags"]["to_reroute"] == 511
    assert report["options"]["proposed"]


async def test_agent_is_not_offered_rosters_or_patterns_on_optional_indexes(
    sample_stores: Stores,
) -> None:
    async def scenario(agent: Client) -> set[str]:
        return {tool.name for tool in (await agent.list_tools()).tools}

    offered = await run_as_agent(sample_stores, scenario)
    assert {tool.__name__ for tool in TOOLS} <= offered
    assert len(offered) <= 25
    assert not {name for name in offered if "roster" in name or "v2" in name or "duties" in name}
    assert not offered & {"crew_of_flight", "crew_in_position", "passengers_of_pnr", "disrupted_on_flight"}
    refused = {
        each.name
        for each in SYSTEM.patterns
        if (at := each.build_example().index) is not None and not at.default
    }
    assert not refused & {each.name for each in SYSTEM.get_component("agent").patterns}
    assert refused <= {each.name for each in SYSTEM.get_component("api").patterns}


async def test_agent_can_state_when_a_disruption_became_known(sample_stores: Stores) -> None:
    async def scenario(agent: Client) -> tuple[dict[str, Any], dict[str, Any]]:
        request = {"flight_number": "EY11", "day": DAY.isoformat()}
        known = await call_tool(agent, "who_is_hit", **request, known_at="2026-01-29T22:00:00Z")
        return known, await call_tool(agent, "who_is_hit", **request)

    known, now = await run_as_agent(sample_stores, scenario)
    assert (known["known_at"], known["problems"]) == ("2026-01-29T22:00:00Z", [])
    assert "give known_at" in now["problems"][0]


async def test_every_tool_answers_an_agent(sample_stores: Stores) -> None:
    async def scenario(agent: Client) -> dict[str, dict[str, Any]]:
        request: dict[str, dict[str, Any]] = {
            "who_is_hit": {
                "flight_number": "ey 11",
                "day": DAY.isoformat(),
                "kind": "delay",
                "delay_minutes": 60,
            },
            "flight_manifest": {"flight_id": "1"},
            "seats": {"flight_id": "1"},
            "flight_crew": {"flight_id": "1"},
            "cargo_load": {"flight_id": "5"},
            "duplicate_bookings": {"passenger_id": "OZ69826352P"},
            "airport_baggage": {"airport": "omaa"},
            "shipment_status": {"shipment_id": "42"},
            "staffing": {"workorder_id": "WO-10193", "at": "2026-01-29T22:00:00Z"},
        }
        return {name: await call_tool(agent, name, **arguments) for name, arguments in request.items()}

    answers = await run_as_agent(sample_stores, scenario)
    assert answers.keys() == {tool.__name__ for tool in TOOLS}
    assert answers["who_is_hit"]["kind"] == "delay"
    assert (answers["flight_manifest"]["passengers"], len(answers["flight_manifest"]["lines"])) == (
        412,
        DEFAULT_LINES_SHOWN,
    )
    assert answers["seats"]["left"] == 74
    assert answers["flight_crew"]["by_position"]["Captain"] == 1
    assert answers["cargo_load"]["assignments"] == 23
    assert answers["duplicate_bookings"]["flights"] == {}
    assert sum(answers["airport_baggage"].values()) == 847
    assert len(answers["shipment_status"]["legs"]) == 2
    assert answers["staffing"]["now"] == 2


@pytest.mark.parametrize(
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
    async def scenario(agent: Client) -> str:
        return await get_refusal(agent, tool, **arguments)

    assert message in await run_as_agent(sample_stores, scenario)


async def test_agent_is_offered_every_tool_and_no_write(sample_stores: Stores) -> None:
    async def scenario(agent: Client) -> set[str]:
        names, cursor = set(), None
        while True:
            page = await agent.list_tools(cursor=cursor)
            names |= {tool.name for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                return names

    offered = await run_as_agent(sample_stores, scenario)
    assert {tool.__name__ for tool in TOOLS} <= offered
    assert offered.isdisjoint(pattern.name for pattern in WRITES)


def test_agent_cannot_run_any_write(sample_stores: Stores) -> None:
    agent = sample_stores.for_component("agent")
    before = Airline(sample_stores).dump()

    async def run_every_write() -> None:
        for pattern in WRITES:
            with pytest.raises(ComponentRefused) as refused:
                await agent.run(pattern.build_example())
            assert refused.value.pattern == pattern.id

    assert len(WRITES) > 15
    asyncio.run(run_every_write())
    assert Airline(sample_stores).dump() == before


def test_only_the_api_component_may_record_a_decision() -> None:
    deciding = {
        component.name
        for component in SYSTEM.components
        if any(pattern.id == "DX4" for pattern in component.patterns)
    }
    assert deciding == {"api"}
