"""What operators and agents are shown: trails, lists, registries, secrets. Pointers, and nothing of a patient."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import Explanation
from holdfast.cli.system_commands.results import to_json
from holdfast.core.errors import ComponentRefused, InvalidRequest, NotFound, SettingsError
from pagw.api import commands, explain, mcp_tools
from pagw.demo.sample.bundles import DEFAULT_PAYER, PEOPLE, PROVIDER_NPIS
from pagw.demo.sandbox.payer_rules import PENDED_APPROVED
from pagw.domain.statuses import Stage, Status
from pagw.model import files, notices
from pagw.model.registries import get_payer, get_provider
from pagw.system import SYSTEM
from tests.contract.pagw.play import Play, play

KEY = "Wilhelmina-Ztroud-1987"
OTHER_NPI = "1234567893"


def shown(answer: Any) -> Any:
    """As a program is told it."""
    return json.loads(json.dumps(to_json(answer)))


async def command(told: Play, words: str, *given: Any, **named: Any) -> Any:
    return shown(await commands.COMMANDS[words](told.operator, *given, **named))


def test_tells_the_trail_of_a_request_across_the_stores_without_a_word_of_its_patient() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted(key=KEY, items=(PENDED_APPROVED,))
        await told.settle()
        await told.stores.run(
            notices.create_delivery(
                delivery_id=f"{pagw_id}#callback", tenant="acme", pagw_id=pagw_id, subscription_id=None,
                target="https://client.example/hooks/secret-path", secret_name=None, event_number=1, at=told.now,
            )
        )  # fmt: skip
        told.change(
            "UPDATE pagw.outbox SET processed = false, dead_at = created_at WHERE id = "
            "(SELECT max(id) FROM pagw.outbox WHERE aggregate = %s)",
            pagw_id,
        )
        explained = await explain.why(told.operator, pagw_id)
        data = shown(explained)
        assert data["request"]["status"] == "PENDED"
        assert [each["of"] for each in data["keys"]] == ["submission", "payer call"]
        assert [each["event_subtype"] for each in data["audit"]][-2:] == ["PENDED", "PENDED"]
        for each in data["files"]:
            kept = await told.stores.run(explain.file_info(each["key"]))
            assert (each["sha256"], each["bytes"], each["held"]) == (kept.sha256, kept.bytes, False)
        assert data["files"][0]["key"] == f"202611/{pagw_id}/request/enriched_request.json"
        assert data["deliveries"][0]["target"] == "https://client.example"
        assert len(data["waits"]) == 1
        text = "\n".join(explained.lines) + json.dumps(data)
        assert "is due" in text and "dead" in text and "secret-path" not in text and KEY not in text
        for person in PEOPLE:
            assert person.family not in text and person.member_id not in text

        agent = told.stores.for_component("agent")
        told_agent = await mcp_tools.why(agent, pagw_id)
        assert "sha256" not in told_agent["data"]["files"][0]
        with pytest.raises(ComponentRefused):
            await agent.run(files.bundle(told.now, pagw_id))
        with pytest.raises(NotFound):
            await explain.why(told.operator, f"PAGW-{26 * '0'}")
        with pytest.raises(InvalidRequest):
            await explain.why(told.operator, "Wilhelmina")

    play(story)


def test_an_agent_is_offered_what_it_may_see_and_can_write_nothing() -> None:
    async def story(told: Play) -> None:
        agent = told.stores.for_component("agent")
        pagw_id = await told.accepted(key=KEY)
        await told.settle(until=Stage.api_connector)
        told.clock.move(days=8)
        assert (await mcp_tools.standing(agent))["stuck"] == 1
        assert (await mcp_tools.stuck(agent))["requests"][0]["stage"] == "api-connector"
        [late] = (await mcp_tools.overdue(agent))["requests"]
        assert (late["pagw_id"], late["late"], late["hours_left"]) == (pagw_id, True, -24.0)
        status = await mcp_tools.request_status(agent, pagw_id)
        assert status["status"] == "CONVERTED" and KEY not in json.dumps(status)
        assert (await mcp_tools.yearly_metrics(agent, 2026))["standard"]["decided"] == 0

    play(story)
    component = SYSTEM.get_component("agent")
    assert component.writes == () and {each.__name__ for each in SYSTEM.tools} >= {"standing", "why", "stuck"}
    assert not [each for each in component.reads if each.build_example().kind in ("GetObject", "HeadObject")]


def test_commands_list_and_show_requests() -> None:
    async def story(told: Play) -> None:
        mine = await told.accepted(key=KEY)
        await told.settle()
        other = await told.accepted("zenith")
        listed = await command(told, "requests list")
        assert [each["pagw_id"] for each in listed["items"]] in ([other, mine], [mine, other])
        assert [each["pagw_id"] for each in (await command(told, "requests list", "acme"))["items"]] == [mine]
        done = await command(told, "requests list", status=Status.COMPLETED)
        assert [each["pagw_id"] for each in done["items"]] == [mine]
        one = await command(told, "requests show", mine)
        assert one["status"] == "COMPLETED" and KEY not in json.dumps([one, listed])
        assert (await command(told, "status"))["all"] == {"COMPLETED": 1, "VALIDATED": 1}
        told.clock.move(days=6, hours=12)
        assert await command(told, "overdue", 11) == []
        [soon] = await command(told, "overdue")
        assert (soon["pagw_id"], soon["late"]) == (other, False)
        assert (await command(told, "stuck"))[0]["pagw_id"] == other
        assert "pasrequestenricher" in await command(told, "replay", other)
        metrics = await commands.COMMANDS["metrics"](told.operator, 2026)
        assert isinstance(metrics, Explanation) and metrics.data["standard"]["approved"] == 1
        assert "approved 1 (100.0 %)" in "\n".join(metrics.lines)
        assert f"Placed a legal hold on {mine} and" in await command(told, "holds place", mine, "case 1")
        assert [each["pagw_id"] for each in await command(told, "holds list")] == [mine]
        await command(told, "holds lift", mine)
        assert (await command(told, "sweep"))["files"] == 0
        assert (await command(told, "retain", dry_run=True))["requests"] == 0

    play(story)


@pytest.mark.proves("PG-X28")
@pytest.mark.proves("PG-39")
@pytest.mark.proves("PG-40")
@pytest.mark.proves("PG-56")
def test_registries_take_what_is_right_at_once_and_refuse_what_cannot_be() -> None:
    async def story(told: Play) -> None:
        assert await get_provider(told.stores, OTHER_NPI) is None  # remembered, for half a minute
        await command(
            told, "providers put", OTHER_NPI, "Clinic", endpoints={"fhir": "https://clinic.example"}
        )
        found = await get_provider(told.stores, OTHER_NPI)
        assert found is not None and found.endpoints == {"fhir": "https://clinic.example"}
        with pytest.raises(InvalidRequest, match="Invalid NPI"):
            await command(told, "providers put", "1234567894", "Clinic")
        listed = await command(told, "providers list")
        assert {each["npi"] for each in listed["items"]} == {*PROVIDER_NPIS, OTHER_NPI}

        before = await get_payer(told.stores, DEFAULT_PAYER)
        changed = await command(
            told, "payers put", DEFAULT_PAYER, "Renamed", "https://payer.example",
            credentials="pagw/payers/other", options={"callback_secret": "pagw/callbacks/other"},
        )  # fmt: skip
        after = await get_payer(told.stores, DEFAULT_PAYER)
        assert before is not None and after is not None and after.name == changed["name"] == "Renamed"
        for endpoint, options in (
            ("http://payer.example", None),
            ("https://payer.example", {"format": "fax"}),
            ("https://payer.example", {"auth_type": "telepathy"}),
            ("https://payer.example", {"callback_secret": "It's the secret itself!"}),
        ):
            with pytest.raises(SettingsError):
                await command(told, "payers put", "X", "X", endpoint, credentials="pagw/x", options=options)
        with pytest.raises(InvalidRequest, match="Unknown payer options colour: expected"):
            await command(told, "payers put", "X", "X", "https://x.example", options={"colour": "red"})
        assert [each["payer_id"] for each in (await command(told, "payers list"))["items"]] == [DEFAULT_PAYER]
        events = told.rows(
            "SELECT resource_type, resource_id FROM pagw.audit_log WHERE event_type = 'REGISTRY'"
        )
        assert events == [("provider", OTHER_NPI), ("payer", DEFAULT_PAYER)]

        named = await command(told, "secrets", "newcomer")
        states = {each["name"]: each["state"] for each in named}
        assert states == {
            "pagw/lookup-key": "set",
            "pagw/payers/other": "missing",
            "pagw/callbacks/other": "missing",
            "pagw/webhooks/newcomer": "missing",
        }
        assert "k" * 32 not in json.dumps(named)

    play(story)


def test_every_command_runs_as_the_operator_and_says_what_it_does() -> None:
    assert all(each.component == "operator" for each in commands.COMMANDS.values())
    assert all(each.function.__doc__ for each in commands.COMMANDS.values())
