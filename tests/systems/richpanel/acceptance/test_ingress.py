"""The webhook endpoint over HTTP: webhooks it accepts and refuses. It writes only a queue message."""

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
from tests.systems.richpanel.acceptance.middleware import (
    EMAIL,
    SECRET,
    SECRET_VARIABLE,
    SIGNATURE,
    STATUS,
    Middleware,
    run,
    start_middleware,
)

OLD_SECRET = "the-secret-that-is-being-replaced"


async def count_items(middleware: Middleware) -> int:
    """Return the number of items in all tables."""
    counts = [
        await middleware.stores.tables.run(Scan(middleware.stores.physical_name(each))) for each in TABLES
    ]
    return sum(page.count for page in counts)


@pytest.mark.proves("RP-38")
@pytest.mark.proves("RP-X14")
def test_copies_of_a_signed_webhook_become_one_message_and_write_no_table() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(STATUS) | {"text": STATUS, "customer": {"email": EMAIL}}
            answers = [await middleware.deliver(payload) for _ in range(3)]

            assert [each.status_code for each in answers] == [200] * 3
            assert {each.json()["event_id"] for each in answers} == {"evt:rp:c-1:m-1"}
            assert (await middleware.get_queue_report()).waiting.backlog == 1
            assert await count_items(middleware) == 0

    run(test())


@pytest.mark.proves("RP-2")
@pytest.mark.proves("RP-37")
@pytest.mark.proves("RP-38")
def test_queue_message_holds_ids_hash_and_size_but_no_text() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(STATUS)
            await middleware.deliver(
                payload | {"text": STATUS, "customer": {"email": EMAIL}, "tags": ["vip"]}
            )
            [message] = await middleware.stores.engines.get("queues").run(
                Browse(events.physical_name(""), 10)
            )
            body = json.loads(message.body)

            assert STATUS not in message.body
            assert EMAIL not in message.body
            assert body["source_message_id"] == "m-1"
            assert len(body["payload_sha256"]) == 64
            assert body["payload_bytes"] > 0

    run(test())


@pytest.mark.proves("RP-38")
def test_refuses_unsigned_and_malformed_webhooks() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            body = json.dumps(middleware.write(STATUS)).encode()
            now = middleware.clock.now()
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
                answer = await middleware.ingress.post(f"/webhooks/{sender}", content=sent, headers=headers)
                assert 400 <= answer.status_code < 500, (sender, sent, headers, answer.status_code)
            assert (await middleware.get_queue_report()).waiting.backlog == 0

    run(test())


@pytest.mark.proves("RP-38")
def test_refuses_a_signature_older_than_five_minutes() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            body = json.dumps(middleware.write(STATUS)).encode()
            headers = {SIGNATURE: sign(SECRET, body, middleware.clock.now())}
            middleware.clock.advance(299)
            assert (
                await middleware.ingress.post("/webhooks/richpanel", content=body, headers=headers)
            ).is_success
            middleware.clock.advance(2)
            answer = await middleware.ingress.post("/webhooks/richpanel", content=body, headers=headers)
            assert 400 <= answer.status_code < 500
            assert "SignatureExpired" in answer.text

    run(test())


@pytest.mark.proves("RP-38")
def test_accepts_two_secrets_during_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{SECRET_VARIABLE}_PREVIOUS", OLD_SECRET)

    async def test() -> None:
        async with start_middleware() as middleware:
            for secret in (SECRET, OLD_SECRET):
                body = json.dumps(middleware.write(STATUS)).encode()
                signed = {SIGNATURE: sign(secret, body, middleware.clock.now())}
                fixed = {SECRET_HEADER: secret}
                for headers in (signed, fixed):
                    answer = await middleware.ingress.post(
                        "/webhooks/richpanel", content=body, headers=headers
                    )
                    assert answer.status_code == 200
            assert (await middleware.get_queue_report()).waiting.backlog == 2

    run(test())


@pytest.mark.proves("RP-38")
def test_answers_503_with_retry_after_while_the_queue_is_unavailable() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(STATUS)
            middleware.stores.engines.get("queues").close()
            answer = await middleware.deliver(payload)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0

    run(test())


@pytest.mark.proves("RP-38")
def test_answers_503_while_no_webhook_secret_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SECRET_VARIABLE)

    async def test() -> None:
        async with start_middleware() as middleware:
            assert (await middleware.deliver(middleware.write(STATUS))).status_code == 503
            assert (await middleware.get_queue_report()).waiting.backlog == 0

    run(test())


@pytest.mark.proves("RP-38")
def test_ingress_may_only_enqueue() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            door = middleware.stores.for_component("ingress")
            with pytest.raises(ComponentRefused):
                await door.run(patterns.record("evt:rp:c-1:m-1"))
            with pytest.raises(ComponentRefused):
                await door.run(events.consumer.receive(1, 0.0))

    assert SYSTEM.get_component("ingress").patterns == (patterns.enqueue,)
    run(test())


@pytest.mark.proves("RP-38")
def test_routes_the_message_of_a_minimal_webhook_that_names_none() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            middleware.write("Nobody answers, I want to talk to a human")
            least = {"ticket_id": "c-1", "ticket_url": "https://desk.example/c-1", "trigger": "new message"}
            assert (await middleware.deliver(least)).status_code == 200
            await middleware.drain_queue()
            assert ("assign", "care") in middleware.effects

    run(test())


@pytest.mark.proves("RP-31")
def test_audit_holds_the_senders_correlation_id() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            answer = await middleware.deliver(middleware.write(STATUS), **{"x-correlation-id": "call-4711"})
            assert answer.status_code == 200
            await middleware.drain_queue()
            assert {each.correlation for each in await middleware.list_audit()} == {"call-4711"}

    run(test())


@pytest.mark.proves("RP-3")
def test_no_address_reaches_the_queue_or_audit_from_metadata() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(STATUS) | {
                "trigger": f"from {EMAIL}",
                "channel": f"mail to {EMAIL}",
                "message_id": f"<1.{EMAIL}>",
            }
            answer = await middleware.deliver(payload, **{"x-correlation-id": EMAIL})
            assert answer.status_code == 200
            [message] = await middleware.stores.engines.get("queues").run(
                Browse(events.physical_name(""), 10)
            )
            assert EMAIL not in str(message)
            await middleware.deliver(middleware.write(STATUS), **{"x-correlation-id": EMAIL})
            await middleware.drain_queue()
            correlations = {each.correlation for each in await middleware.list_audit()}
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
def test_refuses_impossible_times_and_ids(change: dict[str, Any]) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            answer = await middleware.deliver(middleware.write(STATUS) | change)
            assert 400 <= answer.status_code < 500
            assert EMAIL not in answer.text
            assert (await middleware.get_queue_report()).waiting.backlog == 0

    run(test())


@pytest.mark.proves("RP-31")
def test_explains_a_conversation_with_a_slash_in_its_id() -> None:
    class HyphenClient(HelpDeskClient):
        """Client that replaces slashes in ids with hyphens, because the sandbox accepts none."""

        async def _get(self, path: str) -> Any:
            return await super()._get(path.replace("%2F", "-"))

        async def _change(self, ticket_id: str, what: str, body: dict[str, str]) -> dict[str, Any]:
            return await super()._change(ticket_id.replace("/", "-"), what, body)

    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(STATUS, "shop-7")
            await middleware.deliver(payload | {"ticket_id": "shop/7", "conversation_id": "shop/7"})
            await middleware.drain_queue(middleware.build_worker(HyphenClient(middleware.desk_http)))
            with serve_in_thread(build_system_app(SYSTEM, middleware.stores, component="api")) as url:
                async with httpx2.AsyncClient(base_url=url) as client:
                    for path in ("/conversations/shop%2F7/why", "/conversations/shop%2F7"):
                        answer = await client.get(path)
                        assert answer.status_code == 200, (path, answer.text)

    run(test())
