"""Tests of the Nova Act portal on the shapes of `InvokeAgentRuntime`; no test calls the service."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from botocore.response import StreamingBody
from botocore.stub import Stubber

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast_demo.tripcortex.sandbox.portal_timetable import Timetable, TripRequest
from tests.cases import all_cases
from tests.systems.tripcortex.unit.portal.portal_bench import (
    NOON,
    REFERENCE,
    TO_CHICAGO,
    TRAVELLER,
    HandClock,
)
from tripcortex.integrations.portal.nova_act import NovaActPortal
from tripcortex.model.entities import Cabin, Preferences

ARN = "arn:aws:bedrock-agentcore:us-east-1:123456789012:runtime/travel_portal-AbCdEf1234"
ORDER = {
    "reference": REFERENCE,
    "order_id": "ORD-1",
    "offer_id": "OF-1",
    "carrier": "UA",
    "pnr": "ABC123",
    "e_ticket_number": "0162400000001",
    "price_usd": "450.00",
    "booked_at": "2026-03-10T12:00:00Z",
}
PRICE = Decimal("450.00")


class FakeAgentCore:
    """Fake client that keeps its requests and returns a recorded response."""

    def __init__(self, answer: Any, content_type: str = "application/json") -> None:
        self.asked: list[dict[str, Any]] = []
        self._answer, self._content_type = answer, content_type

    def invoke_agent_runtime(self, **request: Any) -> Mapping[str, Any]:
        self.asked.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        body = self._answer if isinstance(self._answer, bytes) else json.dumps(self._answer).encode()
        return {
            "runtimeSessionId": request["runtimeSessionId"],
            "contentType": self._content_type,
            "statusCode": 200,
            "response": io.BytesIO(body),
        }


def make_portal(client: Any) -> NovaActPortal:
    return NovaActPortal(client, ARN, clock=HandClock())


async def buy(client: Any) -> Any:
    """Book the trip with this client."""
    return await make_portal(client).book(REFERENCE, "OF-1", TRAVELLER, PRICE)


async def test_purchase_is_one_runtime_invocation_in_its_own_session() -> None:
    client = FakeAgentCore({"result": ORDER})
    assert (await buy(client)).confirmation == "UA-ABC123"
    (asked,) = client.asked
    assert asked["agentRuntimeArn"] == ARN and asked["qualifier"] == "DEFAULT"
    assert len(asked["runtimeSessionId"]) >= 33
    assert json.loads(asked["payload"]) == {
        "task": "book_offer",
        "input": {
            "reference": REFERENCE,
            "offer_id": "OF-1",
            "price_usd": "450.00",
            "traveller_id": "emp-42",
            "payment": "company-account",
        },
    }


async def test_request_and_response_match_the_sdks_service_model() -> None:
    """The SDK validates both against its model of the API; nothing leaves the machine."""
    session = botocore.session.get_session()
    client = session.create_client(
        "bedrock-agentcore",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    body = json.dumps({"result": ORDER}).encode()
    answer = {
        "contentType": "application/json",
        "statusCode": 200,
        "response": StreamingBody(io.BytesIO(body), len(body)),
    }
    with Stubber(client) as stub:
        stub.add_response("invoke_agent_runtime", answer)
        assert (await buy(client)).order_id == "ORD-1"
        stub.add_client_error("invoke_agent_runtime", "RuntimeClientError", "the agent fell over", 424)
        with pytest.raises(ExternalServiceFailed) as failed:
            await buy(client)
        assert failed.value.may_be_done


async def test_a_search_reads_the_last_event_of_a_stream() -> None:
    asked = TripRequest("HYD", "ORD", TO_CHICAGO.departure_date, TO_CHICAGO.return_date, Cabin.economy)
    offers = list(Timetable().list_offers(asked, NOON.timestamp()))
    result = json.dumps({"result": {"offers": [each.model_dump(mode="json") for each in offers]}})
    stream = f'data: {{"progress": "searching"}}\n\ndata: {result}\n\n'.encode()
    client = FakeAgentCore(stream, "text/event-stream; charset=utf-8")
    found = await make_portal(client).search(TO_CHICAGO, Preferences())
    assert found == tuple(sorted(offers, key=lambda each: (each.price_usd, each.offer_id)))
    assert json.loads(client.asked[0]["payload"])["input"]["origins"] == ["HYD"]
    priced = await make_portal(FakeAgentCore({"result": offers[0].model_dump(mode="json")})).price("OF-1")
    assert priced == offers[0]


async def test_an_order_is_looked_up_and_cancelled_by_the_reference() -> None:
    [found] = await make_portal(FakeAgentCore({"result": {"orders": [ORDER]}})).look_up(REFERENCE)
    assert found.pnr == "ABC123"
    assert await make_portal(FakeAgentCore({"result": {"orders": []}})).look_up(REFERENCE) == ()
    nonsense: list[Any] = [{}, {"orders": [ORDER | {"reference": "another"}]}, {"orders": None}, []]
    for wrong in nonsense:
        with pytest.raises(ExternalServiceFailed) as failed:
            await make_portal(FakeAgentCore({"result": wrong})).look_up(REFERENCE)
        assert not failed.value.may_be_done
    ended = {
        "reference": REFERENCE,
        "order_id": "ORD-1",
        "refund_usd": "450.00",
        "is_void": True,
        "cancelled_at": "2026-03-10T13:00:00Z",
    }
    client = FakeAgentCore({"result": ended})
    assert (await make_portal(client).cancel(found)).is_void
    payload = json.loads(client.asked[0]["payload"])
    assert payload == {"task": "cancel_order", "input": {"reference": REFERENCE, "order_id": "ORD-1"}}


async def test_refusal_keeps_the_code_but_not_the_agents_text() -> None:
    with pytest.raises(ExternalServiceRefused) as refused:
        await buy(FakeAgentCore({"error": {"code": "payment_failed", "message": "card of Grace Hopper"}}))
    assert refused.value.code == "payment_failed"
    assert "Hopper" not in str(refused.value)


@all_cases(
    ("answer", "may_be_done"),
    [
        ({"error": {"type": "ActTimeoutError", "began": True}}, True),
        ({"error": {"type": "ActTimeoutError"}}, True),
        ({"error": {"type": "ActGuardrailsError", "began": False}}, False),
        ({"error": "out of memory"}, True),
        (b"<html>", True),
        ({}, True),
        ({"result": ORDER | {"pnr": "?"}}, True),
        ({"result": ORDER | {"reference": "another"}}, True),
        (ClientError({"Error": {"Code": "ThrottlingException"}}, "InvokeAgentRuntime"), False),
        (ClientError({"Error": {"Code": "ServiceQuotaExceededException"}}, "InvokeAgentRuntime"), False),
        (ClientError({"Error": {"Code": "AccessDeniedException"}}, "InvokeAgentRuntime"), False),
        (ClientError({"Error": {"Code": "InternalServerException"}}, "InvokeAgentRuntime"), True),
        (EndpointConnectionError(endpoint_url="https://bedrock-agentcore"), False),
        (ReadTimeoutError(endpoint_url="https://bedrock-agentcore"), True),
    ],
)
async def test_failure_says_whether_a_purchase_may_have_happened(answer: Any, may_be_done: bool) -> None:
    with pytest.raises(ExternalServiceFailed) as failed:
        await buy(FakeAgentCore(answer))
    assert failed.value.may_be_done is may_be_done


def test_portal_has_at_least_five_minutes_to_complete_a_purchase() -> None:
    assert make_portal(FakeAgentCore({})).act_s >= 300
