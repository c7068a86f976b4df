"""Tests of the message sender on a fake gateway, of both real gateways' error mapping, and of the hub."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from holdfast import Stores, System, open_memory_stores, provision
from holdfast.core.errors import ExternalServiceFailed, HoldfastError, LimitExceeded, RateLimited
from holdfast.guarantees import OUTBOX
from holdfast.model.system import collect_patterns
from tests.cases import all_cases
from tripcortex.api.websocket.api_gateway import ApiGateway
from tripcortex.api.websocket.hub import Hub
from tripcortex.api.websocket.node_gateway import SIGNATURE_HEADER, NodeGateway
from tripcortex.api.websocket.ports import ConnectionGone
from tripcortex.model import notices, patterns
from tripcortex.model.entities import TABLES, Connection, EmployeeId
from tripcortex.model.notices import NOTICES, Notice, build_message, build_notice_writes
from tripcortex.workers.message_sender import MessageSender

NOW = 1_773_151_200.0
EMPLOYEE = EmployeeId("emp-1")
SYSTEM = System(
    "sending",
    "Message delivery",
    tables=(*TABLES, OUTBOX),
    queues=(notices.notices,),
    patterns=(*collect_patterns(patterns), *NOTICES.patterns, *notices.notices.consumer.patterns),
)


class FixedClock:
    def now(self) -> float:
        return NOW


class FakeGateway:
    """Fake gateway: a connection is open, broken (no response) or gone by the first letter of its id."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []

    async def post(self, connection: Connection, body: str) -> None:
        """Record the frame, or raise `ConnectionGone` (id "g…") or `ExternalServiceFailed` (id "b…")."""
        match connection.connection_id[0]:
            case "g":
                raise ConnectionGone("gone")
            case "b":
                raise ExternalServiceFailed("nobody answers", may_be_done=True)
        self.posted.append((connection.connection_id, json.loads(body)))


@asynccontextmanager
async def open_sender(*connections: str) -> AsyncIterator[tuple[Stores, FakeGateway, MessageSender]]:
    """Open a sender with stores in memory that hold these connections."""
    async with open_memory_stores(SYSTEM, clock=FixedClock()) as stores:
        await provision(stores, SYSTEM)
        for each in connections:
            await stores.run(patterns.put_connection(make_connection(each)))
        lines = FakeGateway()
        yield stores, lines, MessageSender(stores, lines)


def make_connection(connection_id: str, node: str | None = "http://node.test") -> Connection:
    at = datetime.fromtimestamp(NOW, UTC)
    return Connection(connection_id=connection_id, employee_id=EMPLOYEE, connected_at=at, node=node)


@pytest.mark.proves("TC-X11", "TC-54")
async def test_delivers_to_all_connections_despite_failures() -> None:
    async with open_sender("broken", "gone", "open-1", "open-2") as (stores, lines, sender):
        message = build_message(stores, EMPLOYEE, "options", {"count": 3})
        await stores.transact(*build_notice_writes(stores, message))
        notice = Notice(employee_id=EMPLOYEE, message_id=message.message_id)
        assert await sender.deliver(notice) == 2
        assert sorted(each for each, _ in lines.posted) == ["open-1", "open-2"]
        frame = lines.posted[0][1]
        assert (frame["kind"], frame["messageId"], frame["body"]) == (
            "message",
            message.message_id,
            {"count": 3},
        )
        left = {each.connection_id for each in await stores.all(patterns.all_connections())}
        # The heartbeat checks a connection that does not respond.
        assert left == {"open-1", "open-2", "broken"}
        await stores.run(patterns.acknowledge(EMPLOYEE, message.message_id))
        assert await sender.deliver(notice) == 0


@pytest.mark.proves("TC-55", "TC-56")
async def test_heartbeat_pings_every_connection_and_removes_gone_ones() -> None:
    opened = [f"open-{number}" for number in range(450)]
    async with open_sender("broken", "gone", *opened) as (stores, lines, sender):
        assert await sender.heartbeat() == 1
        assert sorted(each for each, frame in lines.posted if frame["kind"] == "ping") == sorted(opened)
        left = {each.connection_id for each in await stores.all(patterns.all_connections())}
        # A process that does not respond may still hold its connections.
        assert left == {"broken", *opened}


async def test_notice_is_written_together_with_its_message() -> None:
    """A cancelled transaction leaves no notice to send."""
    async with open_sender() as (stores, _, _):
        message = build_message(stores, EMPLOYEE, "options", {})
        taken = patterns.put_message(message)
        with pytest.raises(HoldfastError):
            await stores.transact(*build_notice_writes(stores, message), taken)
        assert await NOTICES.list_unsent(stores) == []
        await stores.transact(*build_notice_writes(stores, message))
        assert (await NOTICES.send_unsent(stores)).sent == 1


async def test_messages_of_one_moment_keep_their_creation_order() -> None:
    async with open_sender() as (stores, _, _):
        ids = [build_message(stores, EMPLOYEE, "note", {}).message_id for _ in range(50)]
        assert ids == sorted(ids)


@all_cases(
    ("status", "outcome"),
    [
        (200, None),
        (410, ConnectionGone),
        (401, ExternalServiceFailed),
        (500, ExternalServiceFailed),
        (302, ExternalServiceFailed),
    ],
)
async def test_node_gateway_maps_the_nodes_status(status: int, outcome: type[Exception] | None) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(status)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        gateway = NodeGateway(http, "a secret of sixteen or more", FixedClock())
        with pytest.raises(outcome) if outcome else nullcontext():
            await gateway.post(make_connection("a/b c"), "{}")
    assert str(asked[0].url) == "http://node.test/@connections/a%2Fb%20c"
    assert asked[0].headers[SIGNATURE_HEADER].startswith(f"t={int(NOW)},v1=")


async def test_connection_without_a_node_is_gone() -> None:
    async with httpx2.AsyncClient() as http:
        gateway = NodeGateway(http, "a secret of sixteen or more", FixedClock())
        with pytest.raises(ConnectionGone):
            await gateway.post(make_connection("a", None), "{}")


class ServiceError(Exception):
    """An error in the shape of the AWS SDK's `ClientError`."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


@all_cases(
    ("error", "outcome", "may_be_done"),
    [
        (ServiceError("GoneException", 410), ConnectionGone, None),
        (ServiceError("410", 410), ConnectionGone, None),
        (ServiceError("LimitExceededException", 429), ExternalServiceFailed, True),
        (ServiceError("PayloadTooLargeException", 413), ExternalServiceFailed, False),
        (ServiceError("ForbiddenException", 403), ExternalServiceFailed, False),
        (TimeoutError(), ExternalServiceFailed, True),
    ],
)
async def test_maps_api_gateway_errors(error: Exception, outcome: Any, may_be_done: bool | None) -> None:
    class Fails:
        def post_to_connection(self, *, ConnectionId: str, Data: bytes) -> Any:  # noqa: N803
            assert (ConnectionId, Data) == ("c-1", b'{"kind":"ping"}')
            raise error

    with pytest.raises(outcome) as raised:
        await ApiGateway(Fails()).post(make_connection("c-1"), '{"kind":"ping"}')
    assert getattr(raised.value, "may_be_done", None) == may_be_done


def test_hub_limits_connections_in_all_and_per_employee() -> None:
    hub = Hub(connections_max=3, per_employee_max=2)
    hub.admit("a", EmployeeId("emp-1"))
    hub.admit("b", EmployeeId("emp-1"))
    with pytest.raises(RateLimited):
        hub.admit("c", EmployeeId("emp-1"))
    hub.admit("c", EmployeeId("emp-2"))
    with pytest.raises(LimitExceeded):
        hub.admit("d", EmployeeId("emp-3"))
    hub.remove("a")
    hub.remove("a")
    assert len(hub) == 2
    hub.admit("d", EmployeeId("emp-1"))


async def test_posting_to_a_stuck_or_closed_socket_raises_connection_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stuck:
        async def send_text(self, data: str) -> None:
            await asyncio.Event().wait()

    class Closed:
        async def send_text(self, data: str) -> None:
            raise RuntimeError("closed")

    monkeypatch.setattr("tripcortex.api.websocket.hub.MAX_SEND_S", 0.01)

    hub = Hub()
    for name, socket in (("stuck", Stuck()), ("closed", Closed())):
        hub.attach(name, socket)
        for _ in range(2):
            with pytest.raises(ConnectionGone):
                await hub.post(name, "{}")
