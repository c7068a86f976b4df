"""A travel portal without an API, worked in a browser by Nova Act: an agent on Amazon Bedrock AgentCore behind the same port.

**Not proved against the service.** It is tested on the request and response shapes of `InvokeAgentRuntime` (API version
2024-02-28), and on answers recorded by hand. The agent itself, which holds the portal's login and drives the browser, is not
part of this project; what passes between it and us is this:

    {"task": "search_flights" | "price_offer" | "book_offer" | "find_orders" | "cancel_order", "input": {…}}
    {"result": {…}}                                       as the sandbox portal answers the same call
    {"error": {"code": "sold_out"}}                       a refusal for good, one of `ports.CODES`
    {"error": {"type": "ActTimeoutError", "began": true}} the browser was given up; `began`: it may have pressed "buy"

One runtime session per call. An SDK repeats what got no answer: make the client with
retries off (`max_attempts=1`), or a purchase is made twice by it.

A browser takes minutes. The client blocks in a thread, which nobody can cancel: given up here, it and the agent go on, and
may buy yet. So the agent must end its own session within `ACT_S`, after which an open purchase is looked up; give the circuit
a `probe_s` and the step CompleteBooking a `limit_s` above that, or each purchase is found by its look-up only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Protocol

from holdfast import Ulids
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import PartyFailed, PartyRefused
from holdfast.web.parties import member
from tripcortex.model import Preferences, TripParameters
from tripcortex.portal import ports
from tripcortex.portal.client import nonsense, read_orders, read_told, refusal, searched
from tripcortex.portal.ports import Cancellation, Offer, Order, Traveller

NAME: Final = "Nova Act"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
# A session of the agent is over by then, whatever it was doing.
ACT_S: Final = 300.0
# A session's name has 33 characters at least.
SESSION: Final = "tripcortex-portal-{}"
# The service refused before anything ran.
NOT_RUN: Final = frozenset(
    {
        "AccessDeniedException",
        "ResourceNotFoundException",
        "RetryableConflictException",
        "ServiceQuotaExceededException",
        "ThrottlingException",
        "ValidationException",
    }
)
# By the names of the SDK's own errors, which this project does not import here.
NOT_SENT: Final = frozenset({"EndpointConnectionError", "ConnectTimeoutError", "NoCredentialsError"})


class AgentClient(Protocol):
    """What is used of the SDK's client `bedrock-agentcore`."""

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
    """The port over an agent. `runtime_arn` and `qualifier` say which, and which version of it."""

    client: AgentClient
    runtime_arn: str
    qualifier: str = "DEFAULT"
    clock: Clock = SYSTEM_CLOCK
    act_s: float = ACT_S

    async def search(self, parameters: TripParameters, preferences: Preferences) -> tuple[Offer, ...]:
        result = await self._asked("search_flights", searched(parameters, preferences))
        found = [read_told(Offer, each, changes=False) for each in member(result, "offers", list, NAME)]
        return tuple(sorted(found, key=lambda offer: (offer.price_usd, offer.offer_id)))

    async def price(self, offer_id: str) -> Offer:
        return read_told(Offer, await self._asked("price_offer", {"offer_id": offer_id}), changes=False)

    async def book(self, reference: str, offer_id: str, traveller: Traveller, price_usd: Decimal) -> Order:
        told = {
            "reference": reference,
            "offer_id": offer_id,
            "price_usd": str(price_usd),
            "traveller_id": traveller.traveller_id,
            "payment": traveller.payment,
        }
        result = await self._asked("book_offer", told, changes=True)
        order = read_told(Order, result, changes=True)
        if order.reference != reference:
            raise nonsense("the order is about another reference", may_be_done=True)
        return order

    async def look_up(self, reference: str) -> tuple[Order, ...]:
        return read_orders(await self._asked("find_orders", {"reference": reference}), reference)

    async def cancel(self, order: Order) -> Cancellation:
        told = {"reference": order.reference, "order_id": order.order_id}
        return read_told(Cancellation, await self._asked("cancel_order", told, changes=True), changes=True)

    async def _asked(self, task: str, told: Mapping[str, Any], *, changes: bool = False) -> Any:
        """The result of one task. The client blocks, so it has a thread."""
        payload = json.dumps({"task": task, "input": told}).encode()
        name = SESSION.format(Ulids(self.clock).new())
        try:
            body = await asyncio.to_thread(self._invoked, name, payload)
        except Exception as error:
            raise _failure(error, changes) from error
        return _result(body, changes)

    def _invoked(self, session: str, payload: bytes) -> bytes:
        """The whole answer: JSON as it is, or the last event of a stream."""
        answer = self.client.invoke_agent_runtime(
            agentRuntimeArn=self.runtime_arn,
            runtimeSessionId=session,
            payload=payload,
            contentType=JSON,
            accept=f"{JSON}, {EVENTS}",
            qualifier=self.qualifier,
        )
        content: bytes = answer["response"].read()
        return _last_event(content) if str(answer["contentType"]).startswith(EVENTS) else content


def _failure(error: Exception, changes: bool) -> PartyFailed:
    """An error of the SDK, by its name: its text may quote what was sent."""
    response = getattr(error, "response", None)
    told = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    code = told or type(error).__name__
    is_done = changes and code not in NOT_RUN | NOT_SENT
    return PartyFailed(f"{NAME} gave no answer ({code}).", may_be_done=is_done)


def _last_event(content: bytes) -> bytes:
    lines = [
        line.removeprefix(b"data:").strip() for line in content.splitlines() if line.startswith(b"data:")
    ]
    return lines[-1] if lines else b""


def _result(body: bytes, changes: bool) -> Any:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise nonsense("it is no JSON", may_be_done=changes) from None
    if not isinstance(told, dict) or not {"result", "error"} & told.keys():
        raise nonsense("it has neither a result nor an error", may_be_done=changes)
    if "error" in told:
        raise _refused(told["error"], changes)
    return told["result"]


def _refused(error: Any, changes: bool) -> PartyRefused | PartyFailed:
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code in ports.CODES:
        return refusal(code)
    # Only an agent that says so has not begun to buy.
    began = not isinstance(error, dict) or error.get("began") is not False
    return PartyFailed(f"{NAME} gave the browser up.", may_be_done=changes and began)
