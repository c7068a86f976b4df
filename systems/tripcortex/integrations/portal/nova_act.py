"""A travel portal without an API, driven in a browser by a Nova Act agent on Amazon Bedrock AgentCore.

Not verified against the service. It is tested with the request and response shapes of `InvokeAgentRuntime`
(API version 2024-02-28) and with responses written by hand. The agent, which holds the portal's login and
drives the browser, is not part of this project. It exchanges these messages with us:

    {"task": "search_flights" | "price_offer" | "book_offer" | "find_orders" | "cancel_order", "input": {…}}
    {"result": {…}}                                       as the sandbox portal answers the same call
    {"error": {"code": "sold_out"}}                       a permanent refusal, one of `ports.CODES`
    {"error": {"type": "ActTimeoutError", "began": true}} the browser stopped; if it began, it may have bought

Each call has its own runtime session. An SDK retries calls without a response: create the client with retries
off (`max_attempts=1`), or it may buy twice.

A browser takes minutes. The client blocks in a thread that cannot be cancelled: after a timeout here, the
thread and the agent continue and may still buy. The agent must therefore end its session within `ACT_S`,
after which an open purchase is looked up. Set the breaker's `lease_s` and the `timeout_s` of the step
CompleteBooking above that, or every purchase is found only by its look-up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Protocol

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.model.ulids import UlidGenerator
from holdfast.web.external_client import read_field
from tripcortex.integrations.portal import ports
from tripcortex.integrations.portal.client import (
    build_invalid_response,
    build_refusal,
    build_search,
    parse_orders,
    parse_response,
)
from tripcortex.integrations.portal.ports import Cancellation, Offer, Order, Traveller
from tripcortex.model.entities import Preferences, TripParameters

NAME: Final = "Nova Act"
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
# The agent ends its session within this time in any case.
ACT_S: Final = 300.0
# A session id needs at least 33 characters.
SESSION: Final = "tripcortex-portal-{}"
# Error codes with which the service refuses before the agent runs.
NOT_RUN_CODES: Final = frozenset(
    {
        "AccessDeniedException",
        "ResourceNotFoundException",
        "RetryableConflictException",
        "ServiceQuotaExceededException",
        "ThrottlingException",
        "ValidationException",
    }
)
# Class names of SDK errors, because the SDK is not imported here.
NOT_SENT_ERRORS: Final = frozenset({"EndpointConnectionError", "ConnectTimeoutError", "NoCredentialsError"})


class AgentClient(Protocol):
    """The part of the SDK client `bedrock-agentcore` that is used."""

    def invoke_agent_runtime(
        self,
        *,
        agentRuntimeArn: str,  # noqa: N803  the service's own names
        runtimeSessionId: str,  # noqa: N803
        payload: bytes,
        contentType: str,  # noqa: N803
        accept: str,
        qualifier: str,
    ) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class NovaActPortal:
    """A `Portal` behind an agent. `runtime_arn` and `qualifier` select the agent and its version."""

    client: AgentClient
    runtime_arn: str
    qualifier: str = "DEFAULT"
    clock: Clock = SYSTEM_CLOCK
    act_s: float = ACT_S

    async def search(self, parameters: TripParameters, preferences: Preferences) -> tuple[Offer, ...]:
        """Return the offers that the agent finds, cheapest first."""
        result = await self._run_task("search_flights", build_search(parameters, preferences))
        found = [
            parse_response(Offer, each, changes=False) for each in read_field(result, "offers", list, NAME)
        ]
        return tuple(sorted(found, key=lambda offer: (offer.price_usd, offer.offer_id)))

    async def price(self, offer_id: str) -> Offer:
        return parse_response(
            Offer, await self._run_task("price_offer", {"offer_id": offer_id}), changes=False
        )

    async def book(self, reference: str, offer_id: str, traveller: Traveller, price_usd: Decimal) -> Order:
        """Let the agent buy the offer at exactly that price.

        Raise `ExternalServiceFailed` if the answer is an order under another reference.
        """
        task_input = {
            "reference": reference,
            "offer_id": offer_id,
            "price_usd": str(price_usd),
            "traveller_id": traveller.traveller_id,
            "payment": traveller.payment,
        }
        result = await self._run_task("book_offer", task_input, changes=True)
        order = parse_response(Order, result, changes=True)
        if order.reference != reference:
            raise build_invalid_response("the order has another reference", may_be_done=True)
        return order

    async def look_up(self, reference: str) -> tuple[Order, ...]:
        return parse_orders(await self._run_task("find_orders", {"reference": reference}), reference)

    async def cancel(self, order: Order) -> Cancellation:
        task_input = {"reference": order.reference, "order_id": order.order_id}
        return parse_response(
            Cancellation, await self._run_task("cancel_order", task_input, changes=True), changes=True
        )

    async def _run_task(self, task: str, task_input: Mapping[str, Any], *, changes: bool = False) -> Any:
        """Run one task in its own session and return its result. `changes`: the task may buy or cancel.

        The client blocks, so it runs in a thread. Raise `ExternalServiceRefused` or `ExternalServiceFailed`.
        """
        payload = json.dumps({"task": task, "input": task_input}).encode()
        name = SESSION.format(UlidGenerator(self.clock).new())
        try:
            body = await asyncio.to_thread(self._invoke, name, payload)
        except Exception as error:
            raise _build_failure(error, changes) from error
        return _parse_result(body, changes)

    def _invoke(self, session: str, payload: bytes) -> bytes:
        """Invoke the agent and return the JSON body, or the last event of a stream."""
        answer = self.client.invoke_agent_runtime(
            agentRuntimeArn=self.runtime_arn,
            runtimeSessionId=session,
            payload=payload,
            contentType=JSON,
            accept=f"{JSON}, {EVENT_STREAM}",
            qualifier=self.qualifier,
        )
        content: bytes = answer["response"].read()
        return _get_last_event(content) if str(answer["contentType"]).startswith(EVENT_STREAM) else content


def _build_failure(error: Exception, changes: bool) -> ExternalServiceFailed:
    """Return our error for an SDK error, by its code only: its text may quote the request."""
    response = getattr(error, "response", None)
    error_code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    code = error_code or type(error).__name__
    is_done = changes and code not in NOT_RUN_CODES | NOT_SENT_ERRORS
    return ExternalServiceFailed(f"{NAME} did not answer ({code}).", may_be_done=is_done)


def _get_last_event(content: bytes) -> bytes:
    """Return the data of the last server-sent event, or empty."""
    lines = [
        line.removeprefix(b"data:").strip() for line in content.splitlines() if line.startswith(b"data:")
    ]
    return lines[-1] if lines else b""


def _parse_result(body: bytes, changes: bool) -> Any:
    """Return the `result` of the agent's message. Raise its error, or that of an invalid response."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise build_invalid_response("not JSON", may_be_done=changes) from None
    if not isinstance(message, dict) or not {"result", "error"} & message.keys():
        raise build_invalid_response("neither a result nor an error", may_be_done=changes)
    if "error" in message:
        raise _build_refusal(message["error"], changes)
    return message["result"]


def _build_refusal(error: Any, changes: bool) -> ExternalServiceRefused | ExternalServiceFailed:
    """Return a permanent refusal for a known code, else `ExternalServiceFailed`; the caller raises it."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code in ports.CODES:
        return build_refusal(code)
    # The purchase may have begun unless the agent says otherwise.
    began = not isinstance(error, dict) or error.get("began") is not False
    return ExternalServiceFailed(f"{NAME} stopped the browser.", may_be_done=changes and began)
