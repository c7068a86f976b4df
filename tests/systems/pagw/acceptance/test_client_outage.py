"""A client whose server is down loses no notification: events are held, listed and delivered later."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from holdfast.core.errors import NotFound, RetryLater
from holdfast.runtime import open_secrets
from holdfast.web.demo_env import patch_environ
from pagw.api.subscriptions import MAX_EVENTS, Subscriptions
from pagw.domain.fhir.outcomes import FhirRefused
from pagw.domain.fhir.responses.notifications import check_notification
from pagw.domain.fhir.subscriptions import (
    SubscriptionRequest,
    build_subscription_resource,
    parse_event_range,
)
from pagw.domain.fhir.urls import TOPIC
from pagw.model.audit import Actor
from pagw.model.entities import MAX_DELIVERY_ATTEMPTS, notifications
from pagw.model.patterns import OUTBOX
from pagw.settings import PagwSettings
from pagw.workers.client_recovery import ClientRecovery
from pagw.workers.stages.notifier import Notifier
from pagw.workers.webhook_sender import WebhookSender
from tests.systems.pagw.acceptance.test_exceptional_flows import request_callback
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario

ANN = Actor("user", "ann")
ENDPOINT = "https://client.example/notifications"
ORGANIZATION = "1993000003"
SECRETS = {"HOLDFAST_SECRET_PAGW_WEBHOOKS_ACME": "w" * 32}
SETTINGS = PagwSettings(event_days=30)


@dataclass
class ClientServer:
    """A client's server that may be down. `received` are the accepted calls: delivery id and body."""

    is_down: bool = False
    status: int = 200
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if self.is_down:
            return httpx2.Response(503)
        if self.status == 200:
            self.received.append((request.headers["x-pagw-delivery-id"], json.loads(request.content)))
        return httpx2.Response(self.status)

    def list_event_numbers(self) -> list[int]:
        """Return the numbers of the received events, in order of arrival."""
        numbers = []
        for _, body in self.received:
            if body.get("resourceType") == "Bundle":
                parameters = body["entry"][0]["resource"]["parameter"]
                events = [each for each in parameters if each["name"] == "notification-event"]
                numbers += [int(each["part"][0]["valueString"]) for each in events]
        return numbers


@dataclass
class Client:
    """A client with a subscription, and the gateway's parts that serve it."""

    pipeline: Pipeline
    server: ClientServer
    http: httpx2.AsyncClient

    def build_sender(self, component: str) -> WebhookSender:
        return WebhookSender(
            self.pipeline.stores.for_component(component), self.http, open_secrets(), SETTINGS
        )

    @property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.build_sender("api"))

    async def subscribe(self) -> str:
        """Create the client's subscription and return its id."""
        created = await self.subscriptions.subscribe("acme", self.build_resource(), ANN)
        return str(created["id"])

    def build_resource(self, status: str = "requested") -> dict[str, Any]:
        wanted = SubscriptionRequest(topic=TOPIC, organization=ORGANIZATION, endpoint=ENDPOINT)
        return build_subscription_resource(wanted, id="s", status=status)

    async def deliver(self, attempts: int = MAX_DELIVERY_ATTEMPTS) -> int:
        """Publish the outbox and attempt all deliveries, as if it were this attempt. Return how many."""
        count = 0
        while (await OUTBOX.send_unsent(self.pipeline.stores.for_component("outboxpublisher"))).sent:
            pass
        notifier = Notifier(self.build_sender("pasnotifier"))
        while received := await self.pipeline.stores.run(notifications.consumer.receive(10, 0.0)):
            for each in received:
                message = SimpleNamespace(message=each.message, receive_count=attempts)
                try:
                    await notifier.handle(message)  # type: ignore[arg-type]
                    await self.pipeline.stores.run(notifications.consumer.delete(each))
                except RetryLater:
                    pass
                count += 1
        return count

    async def recover(self) -> int:
        """Run the schedule that tries clients out of reach."""
        return await ClientRecovery(self.build_sender("pasnotifier")).run()

    def count_deliveries(self) -> dict[str, int]:
        """Count the deliveries by status."""
        return dict(self.pipeline.rows("SELECT status, count(*) FROM pagw.deliveries GROUP BY status"))

    def get_status(self) -> str:
        [(status,)] = self.pipeline.rows("SELECT status FROM pagw.subscriptions")
        return str(status)


@asynccontextmanager
async def open_client(pipeline: Pipeline) -> AsyncIterator[Client]:
    """Open a client, its server up."""
    server = ClientServer()
    with patch_environ(SECRETS):
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(server.answer)) as http:
            yield Client(pipeline, server, http)


async def run_client_scenario(scenario: Callable[[Client], Any]) -> None:
    """Run a scenario on a pipeline with a client."""

    async def run(pipeline: Pipeline) -> None:
        async with open_client(pipeline) as client:
            await scenario(client)

    await run_scenario(run)


async def submit(client: Client, count: int) -> list[str]:
    """Submit requests of the client's organization, and run all stages."""
    ids = [await client.pipeline.submit() for _ in range(count)]
    await client.pipeline.settle()
    return ids


@pytest.mark.proves("PG-47")
async def test_events_of_an_outage_are_held_and_delivered_when_the_client_answers_again() -> None:
    async def scenario(client: Client) -> None:
        await client.subscribe()
        await submit(client, 2)
        assert await client.deliver() == 2
        client.server.is_down = True
        await submit(client, 3)
        await client.deliver()
        assert client.get_status() == "error"
        # While it is in error, nothing is attempted, and nothing is lost.
        await submit(client, 4)
        assert await client.deliver() == 0
        assert client.count_deliveries() == {"delivered": 2, "held": 7}
        assert await client.recover() == 0, "the first try is not due"
        client.pipeline.clock.advance(minutes=6)
        assert await client.recover() == 0, "the client is still down"
        assert client.count_deliveries()["held"] == 7
        client.server.is_down = False
        client.pipeline.clock.advance(days=2)
        assert await client.recover() == 7
        assert client.get_status() == "active"
        assert await client.deliver() == 7
        assert client.count_deliveries() == {"delivered": 9}
        assert sorted(client.server.list_event_numbers()) == list(range(1, 10))
        ids = [id for id, _ in client.server.received if not id.startswith("handshake")]
        assert len(set(ids)) == 9, "each delivery keeps its id"
        events = client.pipeline.rows(
            "SELECT details ->> 'released' FROM pagw.audit_log WHERE event_subtype = 'reactivated'"
        )
        assert events == [("7",)]

    await run_client_scenario(scenario)


async def test_client_that_requests_its_subscription_again_gets_the_held_events() -> None:
    async def scenario(client: Client) -> None:
        id = await client.subscribe()
        client.server.is_down = True
        await submit(client, 3)
        await client.deliver()
        client.server.is_down = False
        changed = await client.subscriptions.change("acme", id, client.build_resource(), ANN)
        assert changed["status"] == "active" and "error" not in changed
        assert await client.deliver() == 3
        assert sorted(client.server.list_event_numbers()) == [1, 2, 3]
        # A second request releases nothing again.
        await client.subscriptions.change("acme", id, client.build_resource(), ANN)
        assert await client.deliver() == 0

    await run_client_scenario(scenario)


async def test_second_outage_holds_the_events_again() -> None:
    async def scenario(client: Client) -> None:
        await client.subscribe()
        client.server.is_down = True
        await submit(client, 2)
        await client.deliver()
        for _ in range(2):
            client.server.is_down = False
            client.pipeline.clock.advance(hours=2)
            assert await client.recover() == 2
            client.server.is_down = True
            await client.deliver()
            assert client.count_deliveries() == {"held": 2}
        client.server.is_down = False
        client.pipeline.clock.advance(hours=2)
        assert await client.recover() == 2
        await client.deliver()
        assert client.count_deliveries() == {"delivered": 2}

    await run_client_scenario(scenario)


async def test_events_expire_and_then_only_the_client_reactivates() -> None:
    async def scenario(client: Client) -> None:
        id = await client.subscribe()
        client.server.is_down = True
        await submit(client, 2)
        await client.deliver()
        client.pipeline.clock.advance(days=31)
        assert await client.recover() == 0
        assert client.count_deliveries() == {"expired": 2}
        assert client.pipeline.rows("SELECT retry_at FROM pagw.subscriptions") == [(None,)]
        client.server.is_down = False
        client.pipeline.clock.advance(days=1)
        assert await client.recover() == 0 and client.get_status() == "error"
        await client.subscriptions.change("acme", id, client.build_resource(), ANN)
        assert client.get_status() == "active" and await client.deliver() == 0
        bundle = await client.subscriptions.list_events("acme", id, ANN, first=1, last=None)
        assert len(bundle["entry"]) == 1, "expired events are not listed"

    await run_client_scenario(scenario)


async def test_callbacks_of_the_native_api_are_tried_again_every_hour() -> None:
    async def scenario(client: Client) -> None:
        pagw_id = await client.pipeline.submit()
        request_callback(client.pipeline, pagw_id, "https://client.example/callback")
        await client.pipeline.settle()
        client.server.is_down = True
        await client.deliver()
        assert client.count_deliveries() == {"held": 1}
        assert await client.recover() == 0, "an hour has not passed"
        for _ in range(3):
            client.pipeline.clock.advance(hours=1)
            assert await client.recover() == 1
            await client.deliver()
        client.server.is_down = False
        client.pipeline.clock.advance(hours=1)
        await client.recover()
        await client.deliver()
        assert client.count_deliveries() == {"delivered": 1}
        assert [body["pagwId"] for _, body in client.server.received] == [pagw_id]

    await run_client_scenario(scenario)


async def test_client_that_is_gone_or_ended_its_subscription_gets_nothing_more() -> None:
    async def scenario(client: Client) -> None:
        id = await client.subscribe()
        client.server.is_down = True
        await submit(client, 1)
        await client.deliver()
        await client.subscriptions.end("acme", id, ANN)
        client.server.is_down = False
        client.pipeline.clock.advance(days=1)
        assert await client.recover() == 0
        await submit(client, 1)
        assert client.count_deliveries() == {"held": 1}
        assert client.server.list_event_numbers() == []

    await run_client_scenario(scenario)


async def test_events_are_listed_by_number_with_their_responses() -> None:
    async def scenario(client: Client) -> None:
        id = await client.subscribe()
        await submit(client, 1)
        await client.deliver()
        client.server.is_down = True
        ids = await submit(client, 2)
        await client.deliver()
        bundle = await client.subscriptions.list_events("acme", id, ANN, first=2, last=None)
        assert check_notification(bundle) == []
        parameters = bundle["entry"][0]["resource"]["parameter"]
        named = {each["name"]: each for each in parameters}
        assert named["type"]["valueCode"] == "query-event"
        assert named["status"]["valueCode"] == "error"
        assert named["events-since-subscription-start"]["valueString"] == "3"
        events = [each for each in parameters if each["name"] == "notification-event"]
        assert [each["part"][0]["valueString"] for each in events] == ["2", "3"]
        told = [each["resource"]["entry"][0]["resource"]["identifier"] for each in bundle["entry"][1:]]
        assert sorted(each[0]["value"] for each in told) == sorted(ids)
        assert "link" not in bundle
        reads = client.pipeline.rows(
            "SELECT count(*) FROM pagw.audit_log WHERE event_type = 'PHI_READ' AND actor_id = 'ann'"
        )
        assert reads == [(2,)]
        with pytest.raises(NotFound):
            await client.subscriptions.list_events("zenith", id, ANN, first=1, last=None)

    await run_client_scenario(scenario)


async def test_many_events_are_listed_in_pages() -> None:
    async def scenario(client: Client) -> None:
        id = await client.subscribe()
        await submit(client, MAX_EVENTS + 3)
        first = await client.subscriptions.list_events("acme", id, ANN, first=1, last=None)
        assert len(first["entry"]) == MAX_EVENTS + 1
        [link] = first["link"]
        assert link["url"].endswith(f"/{id}/$events?eventsSinceNumber={MAX_EVENTS + 1}")
        rest = await client.subscriptions.list_events("acme", id, ANN, first=MAX_EVENTS + 1, last=None)
        assert len(rest["entry"]) == 4 and "link" not in rest
        one = await client.subscriptions.list_events("acme", id, ANN, first=2, last=2)
        assert len(one["entry"]) == 2

    await run_client_scenario(scenario)


def test_range_of_events_is_read_from_parameters() -> None:
    def build(**values: Any) -> dict[str, Any]:
        given = [{"name": name, **value} for name, value in values.items()]
        return {"resourceType": "Parameters", "parameter": given}

    assert parse_event_range({"resourceType": "Parameters"}) == (1, None)
    asked = build(eventsSinceNumber={"valueString": "2"}, eventsUntilNumber={"valueInteger": 5})
    assert parse_event_range(asked) == (2, 5)
    for wrong in ("0", "-1", "x", "9" * 30, ""):
        with pytest.raises(FhirRefused):
            parse_event_range(build(eventsSinceNumber={"valueString": wrong}))
    with pytest.raises(FhirRefused):
        parse_event_range(build(content={"valueCode": "id-only"}))


def test_pauses_double_up_to_an_hour() -> None:
    from pagw.workers.client_recovery import compute_first_try, compute_next_try
    from tests.systems.pagw.contract.pipeline import START

    assert compute_first_try(START) == START + timedelta(minutes=5)
    assert compute_next_try(START + timedelta(minutes=20), START, SETTINGS) == START + timedelta(minutes=40)
    late = START + timedelta(days=3)
    assert compute_next_try(late, START, SETTINGS) == late + timedelta(hours=1)
    assert compute_next_try(START + timedelta(days=31), START, SETTINGS) is None
