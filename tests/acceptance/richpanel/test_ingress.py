"""The door: what it lets in, what it turns away, and that it writes nothing but a message."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from holdfast.cli.commands.run import build_system_app
from holdfast.core.errors import ComponentRefused
from holdfast.operations.queues import Browse
from holdfast.operations.tables import Scan
from holdfast.web import serve_in_thread, sign
from richpanel.api.ingress import SECRET_HEADER
from richpanel.integrations.clients import HelpDeskClient
from richpanel.model import patterns
from richpanel.model.entities import TABLES, events
from richpanel.system import SYSTEM
from tests.acceptance.richpanel.stage import (
    EMAIL,
    SECRET,
    SECRET_VARIABLE,
    SIGNATURE,
    STATUS,
    Stage,
    run,
    staged,
)

OLD_SECRET = "the-secret-that-is-being-replaced"


async def items_written(stage: Stage) -> int:
    counts = [await stage.stores.tables.run(Scan(stage.stores.physical_name(each))) for each in TABLES]
    return sum(page.count for page in counts)


@pytest.mark.proves("RP-38")
@pytest.mark.proves("RP-X14")
def test_a_signed_webhook_becomes_one_message_and_no_table_is_written() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(STATUS) | {"text": STATUS, "customer": {"email": EMAIL}}
            answers = [await stage.deliver(payload) for _ in range(3)]

            assert [each.status_code for each in answers] == [200] * 3
            assert {each.json()["event_id"] for each in answers} == {"evt:rp:c-1:m-1"}
            assert (await stage.queue()).waiting.backlog == 1
            assert await items_written(stage) == 0

    run(test())


@pytest.mark.proves("RP-2")
@pytest.mark.proves("RP-37")
@pytest.mark.proves("RP-38")
def test_a_message_in_the_queue_has_ids_a_hash_and_a_size_and_no_word_of_the_customer() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(STATUS)
            await stage.deliver(payload | {"text": STATUS, "customer": {"email": EMAIL}, "tags": ["vip"]})
            [message] = await stage.stores.engines.get("queues").run(Browse(events.physical_name(""), 10))
            body = json.loads(message.body)

            assert STATUS not in message.body
            assert EMAIL not in message.body
            assert body["source_message_id"] == "m-1"
            assert len(body["payload_sha256"]) == 64
            assert body["payload_bytes"] > 0

    run(test())


@pytest.mark.proves("RP-38")
def test_what_is_unsigned_wrongly_signed_or_malformed_is_refused_for_good_and_nothing_is_enqueued() -> None:
    async def test() -> None:
        async with staged() as stage:
            body = json.dumps(stage.write(STATUS)).encode()
            now = stage.clock.now()
            right = sign(SECRET, body, now)
            calls = [
                ("richpanel", body, {}),
                ("richpanel", body, {SIGNATURE: sign("somebody-else's-secret", body, now)}),
                ("richpanel", body + b" ", {SIGNATURE: right}),
                ("richpanel", body, {SIGNATURE: "t=1,v1="}),
                ("richpanel", body, {SECRET_HEADER: "somebody-else's-secret"}),
                ("nobody", body, {SIGNATURE: right}),
                ("richpanel", b"not json", {SIGNATURE: sign(SECRET, b"not json", now)}),
                ("richpanel", b"[]", {SIGNATURE: sign(SECRET, b"[]", now)}),
                ("richpanel", b"{}", {SIGNATURE: sign(SECRET, b"{}", now)}),
            ]
            for sender, sent, headers in calls:
                answer = await stage.door.post(f"/webhooks/{sender}", content=sent, headers=headers)
                assert 400 <= answer.status_code < 500, (sender, sent, headers, answer.status_code)
            assert (await stage.queue()).waiting.backlog == 0

    run(test())


@pytest.mark.proves("RP-38")
def test_a_call_that_is_sent_again_after_the_window_is_refused_though_its_signature_is_right() -> None:
    async def test() -> None:
        async with staged() as stage:
            body = json.dumps(stage.write(STATUS)).encode()
            headers = {SIGNATURE: sign(SECRET, body, stage.clock.now())}
            stage.clock.advance(299)
            assert (await stage.door.post("/webhooks/richpanel", content=body, headers=headers)).is_success
            stage.clock.advance(2)
            answer = await stage.door.post("/webhooks/richpanel", content=body, headers=headers)
            assert 400 <= answer.status_code < 500
            assert "SignatureExpired" in answer.text

    run(test())


@pytest.mark.proves("RP-38")
def test_two_secrets_are_live_while_one_replaces_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{SECRET_VARIABLE}_PREVIOUS", OLD_SECRET)

    async def test() -> None:
        async with staged() as stage:
            for secret in (SECRET, OLD_SECRET):
                body = json.dumps(stage.write(STATUS)).encode()
                signed = {SIGNATURE: sign(secret, body, stage.clock.now())}
                fixed = {SECRET_HEADER: secret}
                for headers in (signed, fixed):
                    answer = await stage.door.post("/webhooks/richpanel", content=body, headers=headers)
                    assert answer.status_code == 200
            assert (await stage.queue()).waiting.backlog == 2

    run(test())


@pytest.mark.proves("RP-38")
def test_while_the_queue_cannot_take_it_the_sender_is_told_to_come_again() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(STATUS)
            stage.stores.engines.get("queues").close()
            answer = await stage.deliver(payload)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0

    run(test())


@pytest.mark.proves("RP-38")
def test_without_a_secret_nobody_is_let_in_and_the_sender_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SECRET_VARIABLE)

    async def test() -> None:
        async with staged() as stage:
            assert (await stage.deliver(stage.write(STATUS))).status_code == 503
            assert (await stage.queue()).waiting.backlog == 0

    run(test())


@pytest.mark.proves("RP-38")
def test_the_door_may_enqueue_and_nothing_else() -> None:
    async def test() -> None:
        async with staged() as stage:
            door = stage.stores.for_component("ingress")
            with pytest.raises(ComponentRefused):
                await door.run(patterns.record("evt:rp:c-1:m-1"))
            with pytest.raises(ComponentRefused):
                await door.run(patterns.receive(1, 0.0))

    assert SYSTEM.get_component("ingress").patterns == (patterns.enqueue,)
    run(test())


@pytest.mark.proves("RP-38")
def test_the_least_that_a_help_desk_sends_is_enough() -> None:
    async def test() -> None:
        async with staged() as stage:
            stage.write("Nobody answers, I want to talk to a human")
            least = {"ticket_id": "c-1", "ticket_url": "https://desk.example/c-1", "trigger": "new message"}
            assert (await stage.deliver(least)).status_code == 200
            await stage.work_off()
            assert ("assign", "care") in stage.effects

    run(test())


@pytest.mark.proves("RP-31")
def test_the_senders_own_id_of_the_call_is_found_in_the_audit() -> None:
    async def test() -> None:
        async with staged() as stage:
            answer = await stage.deliver(stage.write(STATUS), **{"x-correlation-id": "call-4711"})
            assert answer.status_code == 200
            await stage.work_off()
            assert {each.correlation for each in await stage.audit()} == {"call-4711"}

    run(test())


@pytest.mark.proves("RP-3")
def test_no_address_comes_into_the_queue_or_the_audit_by_a_trigger_an_id_or_a_header() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(STATUS) | {
                "trigger": f"from {EMAIL}",
                "channel": f"mail to {EMAIL}",
                "message_id": f"<1.{EMAIL}>",
            }
            answer = await stage.deliver(payload, **{"x-correlation-id": EMAIL})
            assert answer.status_code == 200
            [message] = await stage.stores.engines.get("queues").run(Browse(events.physical_name(""), 10))
            assert EMAIL not in str(message)
            await stage.deliver(stage.write(STATUS), **{"x-correlation-id": EMAIL})
            await stage.work_off()
            correlations = {each.correlation for each in await stage.audit()}
            assert all(each and each.startswith("h-") for each in correlations) and len(correlations) == 1

    run(test())


@pytest.mark.proves("RP-38")
@pytest.mark.parametrize(
    "change",
    [
        {"created_at": "0001-01-01T00:00:00+14:00"},
        {"created_at": "0001-01-01T00:00:00Z", "message_id": None, "text": STATUS},
        {"created_at": "9999-12-31T23:59:59-14:00", "message_id": None, "text": STATUS},
        {"ticket_id": "..", "conversation_id": ".."},
        {"message_id": "."},
        {"ticket_id": EMAIL, "conversation_id": EMAIL},
    ],
)
def test_a_time_out_of_all_reckoning_and_what_is_no_id_are_refused_for_good(change: dict[str, Any]) -> None:
    async def test() -> None:
        async with staged() as stage:
            answer = await stage.deliver(stage.write(STATUS) | change)
            assert 400 <= answer.status_code < 500
            assert EMAIL not in answer.text
            assert (await stage.queue()).waiting.backlog == 0

    run(test())


@pytest.mark.proves("RP-31")
def test_a_conversation_whose_id_has_a_slash_is_explained_over_http() -> None:
    class Slashed(HelpDeskClient):
        """The sandbox takes no slash: there it is a hyphen."""

        async def _get(self, path: str) -> Any:
            return await super()._get(path.replace("%2F", "-"))

        async def _change(self, ticket_id: str, what: str, body: dict[str, str]) -> dict[str, Any]:
            return await super()._change(ticket_id.replace("/", "-"), what, body)

    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(STATUS, "shop-7")
            await stage.deliver(payload | {"ticket_id": "shop/7", "conversation_id": "shop/7"})
            await stage.work_off(stage.worker(Slashed(stage.desk_http)))
            with serve_in_thread(build_system_app(SYSTEM, stage.stores, component="api")) as url:
                async with httpx2.AsyncClient(base_url=url) as client:
                    for path in ("/conversations/shop%2F7/why", "/conversations/shop%2F7"):
                        answer = await client.get(path)
                        assert answer.status_code == 200, (path, answer.text)

    run(test())
