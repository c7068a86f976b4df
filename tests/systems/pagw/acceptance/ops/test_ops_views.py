"""Operators' commands and agents' tools, on the step-by-step pipeline: no patient data is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.cli.system_commands.results import to_json
from holdfast.core.errors import ComponentRefused, InvalidRequest, NotFound, SettingsError
from holdfast.model.system import Explanation
from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER, PEOPLE, PROVIDER_NPIS
from holdfast_demo.pagw.sandbox.payer_rules import PENDED_APPROVED
from pagw.api import commands, explain, mcp_tools
from pagw.domain.statuses import Stage, Status
from pagw.model import delivery_patterns, files
from pagw.model.registries import get_payer, get_provider
from pagw.system import SYSTEM
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario

KEY = "Wilhelmina-Ztroud-1987"
OTHER_NPI = "1234567893"


def to_plain_json(value: Any) -> Any:
    """Convert a value to plain JSON, as a program receives it."""
    return json.loads(json.dumps(to_json(value)))


async def run_command(pipeline: Pipeline, name: str, *args: Any, **options: Any) -> Any:
    """Run an operator's command and return its result as plain JSON."""
    return to_plain_json(await commands.COMMANDS[name](pipeline.operator, *args, **options))


async def test_why_shows_the_trail_across_stores_without_patient_data() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit(key=KEY, items=(PENDED_APPROVED,))
        await pipeline.settle()
        await pipeline.stores.run(
            delivery_patterns.create_delivery(
                delivery_id=f"{pagw_id}#callback", tenant="acme", pagw_id=pagw_id, subscription_id=None,
                target="https://client.example/hooks/secret-path", event_number=1,
                at=pipeline.now,
            )
        )  # fmt: skip
        pipeline.execute(
            "UPDATE pagw.outbox SET processed = false, dead_at = created_at WHERE id = "
            "(SELECT max(id) FROM pagw.outbox WHERE aggregate = %s)",
            pagw_id,
        )
        explained = await explain.why(pipeline.operator, pagw_id)
        data = to_plain_json(explained)
        assert data["request"]["status"] == "PENDED"
        assert [each["of"] for each in data["keys"]] == ["submission", "payer call"]
        assert [each["event_subtype"] for each in data["audit"]][-2:] == ["PENDED", "PENDED"]
        for each in data["files"]:
            kept = await pipeline.stores.run(explain.file_info(each["key"]))
            assert (each["sha256"], each["bytes"], each["held"]) == (kept.sha256, kept.bytes, False)
        assert data["files"][0]["key"] == f"202611/{pagw_id}/request/enriched_request.json"
        assert data["deliveries"][0]["target"] == "https://client.example"
        assert len(data["waits"]) == 1
        text = "\n".join(explained.lines) + json.dumps(data)
        assert "is due" in text and "dead" in text and "secret-path" not in text and KEY not in text
        for person in PEOPLE:
            assert person.family not in text and person.member_id not in text

        agent = pipeline.stores.for_component("agent")
        told_agent = await mcp_tools.why(agent, pagw_id)
        assert "sha256" not in told_agent.data["files"][0]
        with pytest.raises(ComponentRefused):
            await agent.run(files.bundle(pipeline.now, pagw_id))
        with pytest.raises(NotFound):
            await explain.why(pipeline.operator, f"PAGW-{26 * '0'}")
        with pytest.raises(InvalidRequest):
            await explain.why(pipeline.operator, "Wilhelmina")

    await run_scenario(scenario)


async def test_agent_sees_status_and_late_requests_and_writes_nothing() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        agent = pipeline.stores.for_component("agent")
        pagw_id = await pipeline.submit(key=KEY)
        await pipeline.settle(until=Stage.api_connector)
        pipeline.clock.advance(days=8)
        assert (await mcp_tools.standing(agent)).stuck == 1
        assert (await mcp_tools.stuck(agent)).requests[0]["stage"] == "api-connector"
        [late] = (await mcp_tools.overdue(agent)).requests
        assert (late["pagw_id"], late["late"], late["hours_left"]) == (pagw_id, True, -24.0)
        status = await mcp_tools.request_status(agent, pagw_id)
        assert status["status"] == "CONVERTED" and KEY not in json.dumps(status)
        assert (await mcp_tools.yearly_metrics(agent, 2026)).standard.decided == 0

    await run_scenario(scenario)
    component = SYSTEM.get_component("agent")
    assert component.writes == ()
    assert {each.name for each in mcp_tools.TOOLS} >= {"standing", "why", "stuck"}
    assert not [each for each in component.reads if each.build_example().kind in ("GetObject", "HeadObject")]


async def test_operators_commands_list_show_replay_and_hold_requests() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        mine = await pipeline.submit(key=KEY)
        await pipeline.settle()
        other = await pipeline.submit("zenith")
        listed = await run_command(pipeline, "requests list")
        assert [each["pagw_id"] for each in listed["items"]] in ([other, mine], [mine, other])
        assert [
            each["pagw_id"] for each in (await run_command(pipeline, "requests list", "acme"))["items"]
        ] == [mine]
        done = await run_command(pipeline, "requests list", status=Status.COMPLETED)
        assert [each["pagw_id"] for each in done["items"]] == [mine]
        one = await run_command(pipeline, "requests show", mine)
        assert one["status"] == "COMPLETED" and KEY not in json.dumps([one, listed])
        assert (await run_command(pipeline, "status"))["all"] == {"COMPLETED": 1, "VALIDATED": 1}
        pipeline.clock.advance(days=6, hours=12)
        assert await run_command(pipeline, "overdue", 11) == []
        [soon] = await run_command(pipeline, "overdue")
        assert (soon["pagw_id"], soon["late"]) == (other, False)
        assert (await run_command(pipeline, "stuck"))[0]["pagw_id"] == other
        assert "pasrequestenricher" in await run_command(pipeline, "replay", other)
        metrics = await commands.COMMANDS["metrics"](pipeline.operator, 2026)
        assert isinstance(metrics, Explanation) and metrics.data["standard"]["approved"] == 1
        assert "approved 1 (100.0 %)" in "\n".join(metrics.lines)
        assert f"Placed a legal hold on {mine} and" in await run_command(
            pipeline, "holds place", mine, "case 1"
        )
        assert [each["pagw_id"] for each in await run_command(pipeline, "holds list")] == [mine]
        await run_command(pipeline, "holds lift", mine)
        assert (await run_command(pipeline, "sweep"))["files"] == 0
        assert (await run_command(pipeline, "retain", dry_run=True))["requests"] == 0

    await run_scenario(scenario)


@pytest.mark.proves("PG-X28", "PG-39", "PG-40", "PG-56")
async def test_registries_accept_valid_entries_and_refuse_invalid_ones() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        assert await get_provider(pipeline.stores, OTHER_NPI) is None  # cached for half a minute
        await run_command(
            pipeline, "providers put", OTHER_NPI, "Clinic", endpoints={"fhir": "https://clinic.example"}
        )
        found = await get_provider(pipeline.stores, OTHER_NPI)
        assert found is not None and found.endpoints == {"fhir": "https://clinic.example"}
        with pytest.raises(InvalidRequest, match="Invalid NPI"):
            await run_command(pipeline, "providers put", "1234567894", "Clinic")
        listed = await run_command(pipeline, "providers list")
        assert {each["npi"] for each in listed["items"]} == {*PROVIDER_NPIS, OTHER_NPI}

        before = await get_payer(pipeline.stores, DEFAULT_PAYER)
        changed = await run_command(
            pipeline, "payers put", DEFAULT_PAYER, "Renamed", "https://payer.example",
            credentials="pagw/payers/other", options={"callback_secret": "pagw/callbacks/other"},
        )  # fmt: skip
        after = await get_payer(pipeline.stores, DEFAULT_PAYER)
        assert before is not None and after is not None and after.name == changed["name"] == "Renamed"
        for endpoint, options in (
            ("http://payer.example", None),
            ("https://payer.example", {"format": "fax"}),
            ("https://payer.example", {"auth_type": "telepathy"}),
            ("https://payer.example", {"callback_secret": "It's the secret itself!"}),
        ):
            with pytest.raises(SettingsError):
                await run_command(
                    pipeline, "payers put", "X", "X", endpoint, credentials="pagw/x", options=options
                )
        with pytest.raises(InvalidRequest, match="Unknown payer options colour: expected"):
            await run_command(
                pipeline, "payers put", "X", "X", "https://x.example", options={"colour": "red"}
            )
        assert [each["payer_id"] for each in (await run_command(pipeline, "payers list"))["items"]] == [
            DEFAULT_PAYER
        ]
        events = pipeline.rows(
            "SELECT resource_type, resource_id FROM pagw.audit_log WHERE event_type = 'REGISTRY'"
        )
        assert events == [("provider", OTHER_NPI), ("payer", DEFAULT_PAYER)]

        named = await run_command(pipeline, "secrets", "newcomer")
        states = {each["name"]: each["state"] for each in named}
        assert states == {
            "pagw/lookup-key": "set",
            "pagw/payers/other": "missing",
            "pagw/callbacks/other": "missing",
            "pagw/webhooks/newcomer": "missing",
        }
        assert "k" * 32 not in json.dumps(named)

    await run_scenario(scenario)


def test_every_command_runs_as_the_operator_and_is_documented() -> None:
    with_stores = [each for each in commands.COMMANDS.values() if each.needs_stores]
    assert with_stores and all(each.component == "operator" for each in with_stores)
    assert all(each.function.__doc__ for each in commands.COMMANDS.values())
