"""Over real WebSockets: who may connect, what they are told and when, and how a connection ends."""

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

from holdfast import get_declaration
from tests.acceptance.tripcortex.live_service import APPROVER, Client, Service, service
from tripcortex.model import patterns
from tripcortex.model.entities import TABLES, Connection, EmployeeId
from tripcortex.model.notices import build_message, build_notice_writes, dispatch_now


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("live")) as made:
        yield made


# --- who may connect ----------------------------------------------------------------------------------------


@pytest.mark.proves("TC-52")
@pytest.mark.proves("TC-53")
@pytest.mark.proves("TC-54")
@pytest.mark.proves("TC-57")
@pytest.mark.proves("TC-88")
@pytest.mark.proves("TC-97")
@pytest.mark.proves("TC-X3")
def test_a_connection_is_written_when_it_opens_and_removed_when_it_closes(live: Service) -> None:
    async def story() -> None:
        async with live.connected("emp-rows") as client:
            (connection_id,) = await live.connections("emp-rows")
            row = await live.stores.run(patterns.connection(connection_id))
            assert row is not None and row.employee_id == "emp-rows" and row.node == live.url
            now = int(live.clock.now())
            assert int(row.connected_at.timestamp()) == now
            # The document's example says 1741618800, a year before: it would be removed at once.
            assert get_declaration(Connection).to_item(row)["ttl"] == now + 7_200 == 1_773_158_400
            assert (await client.ask(action="ping", requestId="r-1"))["requestId"] == "r-1"
        await gone(live, "emp-rows")

    live.run(story())


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
def test_a_token_that_proves_nothing_opens_nothing(live: Service, flaw: Any, code: str) -> None:
    async def story() -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with live.connected("emp-none", flaw=flaw):
                pass
        answer = refused.value.response
        assert answer.status_code == 401 and code in problem_of(answer.body)["detail"]
        assert await live.connections("emp-none") == []

    live.run(story())


def test_a_token_is_taken_by_header_too_and_never_from_the_address(live: Service) -> None:
    async def story() -> None:
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

    live.run(story())


def test_an_employee_has_ten_connections_at_most(live: Service) -> None:
    async def story() -> None:
        opened = [live.connected("emp-many") for _ in range(10)]
        for each in opened:
            await each.__aenter__()
        with pytest.raises(InvalidStatus) as refused:
            async with live.connected("emp-many"):
                pass
        assert refused.value.response.status_code == 429
        await opened[0].__aexit__(None, None, None)
        await until_connections(live, "emp-many", 9)
        async with live.connected("emp-many"):
            pass
        for each in opened[1:]:
            await each.__aexit__(None, None, None)

    live.run(story())


# --- what they are told -------------------------------------------------------------------------------------


@pytest.mark.proves("TC-94")
@pytest.mark.proves("TC-X11")
def test_a_request_over_the_socket_is_answered_and_every_connection_is_told_of_its_options(
    live: Service,
) -> None:
    async def story() -> None:
        async with live.connected("emp-trip") as desk, live.connected("emp-trip") as phone:
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

    live.run(story())


def test_what_was_missed_comes_on_the_next_connection_in_order_until_it_is_acknowledged(
    live: Service,
) -> None:
    async def story() -> None:
        sent = [await tell(live, "emp-away", number) for number in range(3)]
        for _ in range(2):
            async with live.connected("emp-away") as client:
                assert [(await client.next())["messageId"] for _ in sent] == sent
        async with live.connected("emp-away") as client:
            assert (await client.ask(action="ack", messageId=sent[1]))["messageId"] == sent[1]
            assert (await client.ask(action="ack", messageId=sent[1]))["kind"] == "answer"
            assert (await client.ask(action="resume"))["messages"] == 2
        assert await live.waiting("emp-away") == [sent[0], sent[2]]
        async with live.connected("emp-away") as client:
            assert [(await client.next())["messageId"] for _ in range(2)] == [sent[0], sent[2]]

    live.run(story())


def test_nobody_is_told_what_is_anothers(live: Service) -> None:
    async def story() -> None:
        async with live.connected("emp-a") as a, live.connected("emp-b") as b:
            theirs = await tell(live, "emp-a", 1)
            assert (await a.next())["messageId"] == theirs
            assert (await b.ask(action="resume"))["messages"] == 0
            assert (await b.ask(action="ack", messageId=theirs))["kind"] == "answer"
        assert await live.waiting("emp-a") == [theirs]

    live.run(story())


@pytest.mark.proves("TC-X27")
def test_a_connection_whose_time_is_over_is_not_written_to_though_its_row_is_there(live: Service) -> None:
    async def story() -> None:
        stale = Connection(
            connection_id="left-behind",
            employee_id=EmployeeId("emp-stale"),
            connected_at=datetime.fromtimestamp(int(live.clock.now()) - 7_201, UTC),
            node="http://127.0.0.1:9",
        )
        await live.stores.run(patterns.put_connection(stale))
        assert await live.connections("emp-stale") == []
        assert await live.stores.run(patterns.connection("left-behind")) is None

    live.run(story())


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
def test_bad_input_is_refused_with_a_problem_and_ends_nothing(live: Service, text: str | bytes) -> None:
    async def story() -> None:
        async with live.connected("emp-bad") as client:
            await client.socket.send(text)
            frame = await client.next("problem")
            assert {"type", "title", "status", "detail"} <= frame["problem"].keys()
            assert (await client.ask(action="ping"))["kind"] == "answer"
        for employee in ("emp-bad", "emp-other"):
            assert not await live.stores.all(patterns.history(EmployeeId(employee)))

    live.run(story())


def test_a_refusal_says_to_whom_it_is_an_answer(live: Service) -> None:
    async def story() -> None:
        async with live.connected("emp-bad") as client:
            told = await client.ask(action="choose", requestId="r-7", bookingId="x")
            assert (told["action"], told["requestId"], told["problem"]["status"]) == ("choose", "r-7", 400)

    live.run(story())


def test_another_employees_booking_cannot_be_chosen_answered_or_cancelled(live: Service) -> None:
    booking_id = live.asked("emp-owner")
    token = live.booking("emp-owner", booking_id)["token"]

    async def story() -> None:
        async with live.connected("emp-thief") as client:
            for action in (
                {"action": "choose", "optionId": "opt-1", "token": token},
                {"action": "answer", "text": "Chicago", "token": token},
                {"action": "cancel"},
            ):
                told = await client.ask(**action, bookingId=booking_id)
                assert told["problem"]["status"] == 404, told

    live.run(story())
    assert live.booking("emp-owner", booking_id)["status"] == "options_presented"


def test_an_approver_decides_over_the_socket_and_nobody_else_can(live: Service) -> None:
    booking_id = live.asked("emp-asks")
    live.call("POST", f"/bookings/{booking_id}/choice", "emp-asks", json={"optionId": "opt-2"})
    decision = {"action": "decide", "bookingId": booking_id, "employeeId": "emp-asks", "decision": "approve"}

    async def story() -> None:
        for stranger in ("emp-asks", "emp-thief"):
            async with live.connected(stranger) as client:
                assert (await client.ask(**decision))["problem"]["status"] == 404
        async with live.connected(APPROVER) as boss, live.connected("emp-asks") as traveller:
            asked = await boss.next()
            assert (asked["about"], asked["bookingId"]) == ("approval", booking_id)
            assert (await boss.ask(**{**decision, "decision": "perhaps"}))["problem"]["status"] == 400
            decided = await boss.ask(**decision)
            assert (decided["kind"], decided["status"]) == ("answer", "confirmed")
            while (await traveller.next())["about"] != "confirmation":
                pass

    live.run(story())


def test_a_second_request_is_refused_while_a_booking_is_under_way(live: Service) -> None:
    booking_id = live.asked("emp-two")

    async def story() -> None:
        async with live.connected("emp-two") as client:
            told = await client.ask(action="request", text="Boston to Denver tomorrow")
            assert told["problem"]["status"] == 409 and booking_id in told["problem"]["detail"]
            assert (await client.ask(action="cancel", bookingId=booking_id))["status"] == "cancelled"
            assert (await client.ask(action="request", text="Boston to Denver tomorrow"))["kind"] == "answer"

    live.run(story())


def test_who_sends_too_much_is_closed_and_what_is_too_large_too(live: Service) -> None:
    async def story() -> None:
        async with live.connected("emp-loud") as client:
            for _ in range(120):
                await client.ask(action="ping")
            await client.socket.send('{"action": "ping"}')
            assert await code_of(client) == 1008
        async with live.connected("emp-large") as client:
            await client.socket.send(json.dumps({"action": "request", "text": "x" * 200_000}))
            assert await code_of(client) == 1009
        await gone(live, "emp-loud", "emp-large")

    live.run(story())


# --- the end ------------------------------------------------------------------------------------------------
# These move the clock, and so come last.


def test_a_connection_ends_with_its_token_unless_it_is_renewed(live: Service) -> None:
    async def story() -> None:
        async with (
            live.connected("emp-short", lifetime_s=60) as left,
            live.connected("emp-short", lifetime_s=60) as renewed,
        ):
            other = live.issuer.mint_token("emp-other", lifetime_s=600)
            assert (await renewed.ask(action="renew", token=other))["problem"]["status"] == 400
            fresh = live.issuer.mint_token("emp-short", lifetime_s=600)
            ends = await renewed.ask(action="renew", token=fresh)
            assert ends["expiresAt"] == int(live.clock.now()) + 600
            live.clock.advance(91)
            assert await code_of(left) == 4401
            assert (await renewed.ask(action="ping"))["kind"] == "answer"

    live.run(story())


@pytest.mark.proves("TC-55")
def test_the_heartbeat_pings_who_is_there_and_forgets_who_is_not(live: Service) -> None:
    async def story() -> None:
        now = datetime.fromtimestamp(int(live.clock.now()), UTC)
        for connection_id, node in [("dead-process", "http://127.0.0.1:9"), ("dead-socket", live.url)]:
            employee = EmployeeId(f"emp-{connection_id}")
            row = Connection(connection_id=connection_id, employee_id=employee, connected_at=now, node=node)
            await live.stores.run(patterns.put_connection(row))
        async with live.connected("emp-beat") as client:
            live.clock.advance(301)
            assert "at" in await client.next("ping")
            await gone(live, "emp-dead-socket")
            # Who cannot be asked may be there still; the row goes with its time.
            assert await live.connections("emp-dead-process") == ["dead-process"]
            assert len(await live.connections("emp-beat")) == 1

    live.run(story())


def test_a_row_that_others_took_for_gone_is_put_back(live: Service) -> None:
    async def story() -> None:
        async with live.connected("emp-back") as client:
            await client.ask(action="ping")
            (connection_id,) = await live.connections("emp-back")
            await live.stores.run(patterns.delete_connection(connection_id))
            missed = await tell(live, "emp-back", 1)
            live.clock.advance(6)
            assert (await client.next())["messageId"] == missed
            assert await live.connections("emp-back") == [connection_id]

    live.run(story())


def test_a_connection_ends_after_two_hours(live: Service) -> None:
    async def story() -> None:
        async with live.connected("emp-long", lifetime_s=20_000) as client:
            live.clock.advance(7_200)
            assert await code_of(client) == 1001
        await gone(live, "emp-long")

    live.run(story())


@pytest.mark.proves("TC-X25")
def test_each_table_names_the_attribute_of_its_lifetime() -> None:
    assert {table.name: table.ttl for table in TABLES} == {
        "TripCortexConnections": "ttl",
        "TripCortexBookings": None,
        "TripCortexAuditLog": "expiresAt",
        "TripCortexCircuitBreaker": "ttl",
        "TripCortexActiveBookings": None,
        "TripCortexMessages": "ttl",
        "TripCortexPortalCalls": "expiresAt",
    }


def test_a_service_that_ends_closes_its_connections_and_forgets_them(tmp_path: Path) -> None:
    async def story() -> None:
        stack = ExitStack()
        ending = await asyncio.to_thread(stack.enter_context, service(tmp_path))
        async with ending.connected() as client:
            assert len(await ending.connections()) == 1
            await asyncio.to_thread(stack.close)
            assert await code_of(client) == 1012
        assert ending.left == []

    asyncio.run(story())


# --- what they do -------------------------------------------------------------------------------------------


async def tell(live: Service, employee: str, number: int) -> str:
    message = build_message(live.stores, EmployeeId(employee), "note", {"number": number})
    await live.stores.transact(*build_notice_writes(live.stores, message))
    await dispatch_now(live.stores, message)
    return message.message_id


async def gone(live: Service, *employees: str) -> None:
    for employee in employees:
        await until_connections(live, employee, 0)


async def until_connections(live: Service, employee: str, count: int) -> None:
    async with asyncio.timeout(20):
        while len(await live.connections(employee)) != count:
            await asyncio.sleep(0.02)


async def code_of(client: Client) -> int | None:
    try:
        async with asyncio.timeout(20):
            while True:
                await client.socket.recv()
    except ConnectionClosed:
        return client.socket.close_code


def problem_of(body: bytes | bytearray | None) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(body or b"{}")
    assert told["title"]
    return told
