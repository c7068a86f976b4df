"""WebSocket tests over real HTTP: authentication, delivery of messages, and how a connection ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from holdfast import web
from holdfast.cli.commands.run import _serve
from holdfast.cli.processes.workload import build_workload
from holdfast.config.settings import Settings
from holdfast.model.entities import get_declaration
from tests.repo.code import open_in_memory
from tests.systems.tripcortex.acceptance.live_service import APPROVER, Client, Service, start_service
from tripcortex.model import patterns
from tripcortex.model.entities import Connection, EmployeeId
from tripcortex.model.notices import NOTICES, build_message, build_notice_writes
from tripcortex.system import SYSTEM


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with start_service(tmp_path_factory.mktemp("live")) as made:
        yield made


# --- connecting ---------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-52", "TC-53", "TC-54", "TC-57", "TC-88", "TC-97", "TC-X3")
async def test_connection_is_stored_while_it_is_open(live: Service) -> None:
    async with live.connect("emp-rows") as client:
        (connection_id,) = await live.connections("emp-rows")
        row = await live.stores.run(patterns.connection(connection_id))
        assert row is not None and row.employee_id == "emp-rows" and row.node == live.url
        now = int(live.clock.now())
        assert int(row.connected_at.timestamp()) == now
        # The document's example says 1741618800, a year before: it would be removed at once.
        assert get_declaration(Connection).to_item(row)["ttl"] == now + 7_200 == 1_773_158_400
        assert (await client.ask(action="ping", requestId="r-1"))["requestId"] == "r-1"
    await wait_until_gone(live, "emp-rows")


@pytest.mark.parametrize(
    ("flaw", "code"),
    [
        ("expired", "TokenExpired"),
        ("early", "TokenEarly"),
        ("forged", "TokenForged"),
        ("unknown_key", "TokenForged"),
        ("other_issuer", "IssuerWrong"),
        ("other_audience", "AudienceWrong"),
        ("other_party", "PartyWrong"),
        ("other_organisation", "OrganisationWrong"),
        ("no_employee", "ClaimMissing"),
    ],
)
async def test_rejects_an_invalid_token(live: Service, flaw: Any, code: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with live.connect("emp-none", flaw=flaw):
            pass
    answer = refused.value.response
    assert answer.status_code == 401 and code in parse_problem(answer.body)["detail"]
    assert await live.connections("emp-none") == []


async def test_accepts_a_token_in_the_header_but_not_in_the_url(live: Service) -> None:
    """A handshake without any token is refused too."""
    place, headers = live.url.replace("http://", "ws://") + "/ws", live.headers("emp-header")
    async with connect(place, additional_headers=headers) as socket:
        assert socket.subprotocol is None
        assert (await Client(socket).ask(action="ping"))["kind"] == "answer"
    token = headers["authorization"].removeprefix("Bearer ")
    for without in (f"{place}?token={token}", place):
        with pytest.raises(InvalidStatus) as refused:
            await connect(without)
        assert refused.value.response.status_code == 401
        assert token not in str(refused.value.response.body)


async def test_pages_of_other_origins_cannot_connect(live: Service) -> None:
    """A page that got hold of a token may still not use it from elsewhere."""
    place, headers = live.url.replace("http://", "ws://") + "/ws", live.headers("emp-page")
    async with connect(place, additional_headers=headers, origin=Origin(live.url)):
        pass
    for origin in ("https://evil.example", "null"):
        with pytest.raises(InvalidStatus) as refused:
            await connect(place, additional_headers=headers, origin=Origin(origin))
        assert refused.value.response.status_code == 403


def test_pages_whose_tokens_are_accepted_may_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPCORTEX_AUTHORIZED_PARTIES", "https://trips.example.com, https://m.example.com")
    served: dict[str, Any] = {}
    monkeypatch.setattr(web, "serve", lambda app, **options: served.update(options))
    with open_in_memory(SYSTEM) as stores:
        _serve(SYSTEM, stores, build_workload(SYSTEM, "sender"), Settings(), None, 0, shares_port=False)
    assert served["allowed_origins"] == ("https://trips.example.com", "https://m.example.com")


async def test_limits_an_employee_to_ten_connections(live: Service) -> None:
    opened = [live.connect("emp-many") for _ in range(10)]
    for each in opened:
        await each.__aenter__()
    with pytest.raises(InvalidStatus) as refused:
        async with live.connect("emp-many"):
            pass
    assert refused.value.response.status_code == 429
    await opened[0].__aexit__(None, None, None)
    await wait_for_connections(live, "emp-many", 9)
    async with live.connect("emp-many"):
        pass
    for each in opened[1:]:
        await each.__aexit__(None, None, None)


# --- messages -----------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-94", "TC-X11")
async def test_request_is_answered_and_options_reach_every_connection(live: Service) -> None:
    async with live.connect("emp-trip") as desk, live.connect("emp-trip") as phone:
        begun = await desk.ask(action="request", text="Boston to Chicago next Tuesday")
        assert begun["kind"] == "answer" and begun["status"] == "initiated"
        at_desk, at_phone = await desk.next(), await phone.next()
        assert at_desk == at_phone and at_desk["about"] == "options"
        assert [each["option_id"] for each in at_desk["body"]["options"]] == ["opt-1", "opt-2"]
        chosen = await phone.ask(action="choose", bookingId=begun["bookingId"], optionId="opt-1")
        assert chosen["status"] == "confirmed"
        assert (await desk.next())["body"] == {"number": "QX7T2M"}
        again = await desk.ask(action="choose", bookingId=begun["bookingId"], optionId="opt-1")
        assert again["problem"]["status"] == 409


async def test_a_sentence_that_is_no_request_is_answered_and_books_nothing(live: Service) -> None:
    unsure = "Are there any flights to Chicago on Friday?"
    async with live.connect("emp-asks-only") as client:
        status = await client.ask(action="request", text="Is my flight on time?")
        assert (status["kind"], status["intent"], status["bookingIds"]) == ("answer", "status", [])
        asked = await client.ask(action="request", text=unsure)
        assert asked["question"] and "bookingId" not in asked
        assert "question" not in await client.ask(action="request", text=unsure, answer="No.")
        assert "bookingId" in await client.ask(action="request", text=unsure, answer="Yes!")


async def test_redelivers_missed_messages_in_order_until_acknowledged(live: Service) -> None:
    sent = [await send_message(live, "emp-away", number) for number in range(3)]
    for _ in range(2):
        async with live.connect("emp-away") as client:
            assert [(await client.next())["messageId"] for _ in sent] == sent
    async with live.connect("emp-away") as client:
        assert (await client.ask(action="ack", messageId=sent[1]))["messageId"] == sent[1]
        assert (await client.ask(action="ack", messageId=sent[1]))["kind"] == "answer"
        assert (await client.ask(action="resume"))["messages"] == 2
    assert await live.list_unacknowledged("emp-away") == [sent[0], sent[2]]
    async with live.connect("emp-away") as client:
        assert [(await client.next())["messageId"] for _ in range(2)] == [sent[0], sent[2]]


async def test_messages_reach_their_own_employee_only(live: Service) -> None:
    async with live.connect("emp-a") as a, live.connect("emp-b") as b:
        theirs = await send_message(live, "emp-a", 1)
        assert (await a.next())["messageId"] == theirs
        assert (await b.ask(action="resume"))["messages"] == 0
        assert (await b.ask(action="ack", messageId=theirs))["kind"] == "answer"
    assert await live.list_unacknowledged("emp-a") == [theirs]


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-57")
@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        "{}",
        '{"action": "fly"}',
        '{"action": "request"}',
        '{"action": "request", "text": ""}',
        '{"action": "request", "text": "to Chicago", "employeeId": "emp-other"}',
        '{"action": "ack", "messageId": "no ulid"}',
        '{"action": "cancel", "bookingId": "01KKBW6R00EXAMPLE000000000"}',
        '{"action": "renew", "token": "not.a.token"}',
        '{"action": "ping", "requestId": "\\ud800"}',
        '{"action": "\\udfff", "requestId": "r-1"}',
        "[" * 5_000,
        b"\x00\x01",
    ],
)
async def test_bad_input_gets_a_problem_and_keeps_the_connection(live: Service, text: str | bytes) -> None:
    async with live.connect("emp-bad") as client:
        await client.socket.send(text)
        frame = await client.next("problem")
        assert {"type", "title", "status", "detail"} <= frame["problem"].keys()
        assert (await client.ask(action="ping"))["kind"] == "answer"
    for employee in ("emp-bad", "emp-other"):
        assert not await live.stores.all(patterns.history(EmployeeId(employee)))


async def test_problem_names_the_request_it_answers(live: Service) -> None:
    async with live.connect("emp-bad") as client:
        reply = await client.ask(action="choose", requestId="r-7", bookingId="x")
        assert (reply["action"], reply["requestId"], reply["problem"]["status"]) == ("choose", "r-7", 400)


async def test_rejects_actions_on_another_employees_booking(live: Service) -> None:
    booking_id = live.request_trip("emp-owner")
    token = live.booking("emp-owner", booking_id)["token"]
    async with live.connect("emp-thief") as client:
        for action in (
            {"action": "choose", "optionId": "opt-1", "token": token},
            {"action": "answer", "text": "Chicago", "token": token},
            {"action": "cancel"},
        ):
            reply = await client.ask(**action, bookingId=booking_id)
            assert reply["problem"]["status"] == 404, reply
    assert live.booking("emp-owner", booking_id)["status"] == "options_presented"


async def test_only_the_approver_may_decide_over_the_socket(live: Service) -> None:
    booking_id = live.request_trip("emp-asks")
    live.call("POST", f"/bookings/{booking_id}/choice", "emp-asks", json={"optionId": "opt-2"})
    decision = {"action": "decide", "bookingId": booking_id, "employeeId": "emp-asks", "decision": "approve"}
    for stranger in ("emp-asks", "emp-thief"):
        async with live.connect(stranger) as client:
            assert (await client.ask(**decision))["problem"]["status"] == 404
    async with live.connect(APPROVER) as boss, live.connect("emp-asks") as traveller:
        asked = await boss.next()
        assert (asked["about"], asked["bookingId"]) == ("approval", booking_id)
        assert (await boss.ask(**{**decision, "decision": "perhaps"}))["problem"]["status"] == 400
        decided = await boss.ask(**decision)
        assert (decided["kind"], decided["status"]) == ("answer", "confirmed")
        while (await traveller.next())["about"] != "confirmation":
            pass


async def test_refuses_a_second_request_while_a_booking_is_active(live: Service) -> None:
    booking_id = live.request_trip("emp-two")
    async with live.connect("emp-two") as client:
        reply = await client.ask(action="request", text="Boston to Denver tomorrow")
        assert reply["problem"]["status"] == 409 and booking_id in reply["problem"]["detail"]
        assert (await client.ask(action="cancel", bookingId=booking_id))["status"] == "cancelled"
        assert (await client.ask(action="request", text="Boston to Denver tomorrow"))["kind"] == "answer"


async def test_closes_on_too_many_or_too_large_frames(live: Service) -> None:
    async with live.connect("emp-loud") as client:
        for _ in range(120):
            await client.ask(action="ping")
        await client.socket.send('{"action": "ping"}')
        assert await get_close_code(client) == 1008
    async with live.connect("emp-large") as client:
        await client.socket.send(json.dumps({"action": "request", "text": "x" * 200_000}))
        assert await get_close_code(client) == 1009
    await wait_until_gone(live, "emp-loud", "emp-large")


# --- ending -------------------------------------------------------------------------------------------------
# These tests move the clock, and so come last.


async def test_a_connection_ends_with_its_token_unless_it_is_renewed(live: Service) -> None:
    async with (
        live.connect("emp-short", lifetime_s=60) as left,
        live.connect("emp-short", lifetime_s=60) as renewed,
    ):
        other = live.issuer.mint_token("emp-other", lifetime_s=600)
        assert (await renewed.ask(action="renew", token=other))["problem"]["status"] == 400
        fresh = live.issuer.mint_token("emp-short", lifetime_s=600)
        ends = await renewed.ask(action="renew", token=fresh)
        assert ends["expiresAt"] == int(live.clock.now()) + 600
        live.clock.advance(91)
        assert await get_close_code(left) == 4401
        assert (await renewed.ask(action="ping"))["kind"] == "answer"


@pytest.mark.proves("TC-55")
async def test_heartbeat_pings_open_connections_and_removes_closed_ones(live: Service) -> None:
    now = datetime.fromtimestamp(int(live.clock.now()), UTC)
    for connection_id, node in [("dead-process", "http://127.0.0.1:9"), ("dead-socket", live.url)]:
        employee = EmployeeId(f"emp-{connection_id}")
        row = Connection(connection_id=connection_id, employee_id=employee, connected_at=now, node=node)
        await live.stores.run(patterns.put_connection(row))
    async with live.connect("emp-beat") as client:
        live.clock.advance(301)
        assert "at" in await client.next("ping")
        await wait_until_gone(live, "emp-dead-socket")
        # An unreachable node may still hold its connection; the row expires with its TTL.
        assert await live.connections("emp-dead-process") == ["dead-process"]
        assert len(await live.connections("emp-beat")) == 1


async def test_restores_a_deleted_row_and_sends_the_missed_message(live: Service) -> None:
    async with live.connect("emp-back") as client:
        await client.ask(action="ping")
        (connection_id,) = await live.connections("emp-back")
        await live.stores.run(patterns.delete_connection(connection_id))
        missed = await send_message(live, "emp-back", 1)
        live.clock.advance(6)
        assert (await client.next())["messageId"] == missed
        assert await live.connections("emp-back") == [connection_id]


async def test_a_connection_ends_after_two_hours(live: Service) -> None:
    async with live.connect("emp-long", lifetime_s=20_000) as client:
        live.clock.advance(7_200)
        assert await get_close_code(client) == 1001
    await wait_until_gone(live, "emp-long")


async def test_shutdown_closes_and_removes_connections(tmp_path: Path) -> None:
    stack = ExitStack()
    ending = await asyncio.to_thread(stack.enter_context, start_service(tmp_path))
    async with ending.connect() as client:
        assert len(await ending.connections()) == 1
        await asyncio.to_thread(stack.close)
        assert await get_close_code(client) == 1012
    assert ending.remaining == []


# --- helpers ------------------------------------------------------------------------------------------------


async def send_message(live: Service, employee: str, number: int) -> str:
    """Store a message with its notice, relay it at once, and return its id."""
    message = build_message(live.stores, EmployeeId(employee), "note", {"number": number})
    await live.stores.transact(*build_notice_writes(live.stores, message))
    await NOTICES.send_unsent(live.stores, message.message_id)
    return message.message_id


async def wait_until_gone(live: Service, *employees: str) -> None:
    """Wait until these employees have no stored connection."""
    for employee in employees:
        await wait_for_connections(live, employee, 0)


async def wait_for_connections(live: Service, employee: str, count: int) -> None:
    """Wait until the employee has this many stored connections; fail after 20 seconds."""
    async with asyncio.timeout(20):
        while len(await live.connections(employee)) != count:
            await asyncio.sleep(0.02)


async def get_close_code(client: Client) -> int | None:
    """Read until the server closes the socket; return its close code."""
    try:
        async with asyncio.timeout(20):
            while True:
                await client.socket.recv()
    except ConnectionClosed:
        return client.socket.close_code


def parse_problem(body: bytes | bytearray | None) -> dict[str, Any]:
    """Return the problem object of a response's body."""
    problem: dict[str, Any] = json.loads(body or b"{}")
    assert problem["title"]
    return problem
