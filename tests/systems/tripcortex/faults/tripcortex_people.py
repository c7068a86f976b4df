"""Simulated employees and approvers of the fault test: they request over HTTP and answer over WebSockets.

They retry every request until it is answered. A phone reconnects whenever its API dies, acknowledges its
messages, and sometimes disconnects before it has done so. `silent` are the bookings that will get no more
answers: the clock may skip their waits.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final, Literal

import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from .tripcortex_stage import START, Stage

# As declared in the sandbox.
APPROVERS: Final = ("emp-7", "emp-9")
DECLINED: Final = "-declined"
ANSWER_S: Final = 30.0
AGAIN_S: Final = 0.2
GOES_AWAY: Final = 0.03
LEAVES_ON: Final = START.date() + timedelta(days=42)
SUBPROTOCOL: Final = "tripcortex.v1"
# A dependency is temporarily unavailable.
AWAY: Final = 503
ENDS: Final = ("confirmation", "failed", "cancelled")
# From Boston: inside the policy, and above what a domestic fare may be.
NEAR: Final = ("Chicago", "Detroit", "Philadelphia", "Charlotte")
FAR: Final = ("Denver", "Seattle", "San Francisco")

Kind = Literal[
    "books",
    "approval",
    "question",
    "out of policy",
    "not understood",
    "cancels at once",
    "cancels when asked",
    "cancels after choosing",
    "says nothing",
    "answers nothing",
]
# Trips of each kind, out of a hundred.
SHARES: Final[dict[Kind, int]] = {
    "books": 50,
    "approval": 14,
    "question": 10,
    "out of policy": 4,
    "not understood": 3,
    "cancels at once": 4,
    "cancels when asked": 4,
    "cancels after choosing": 5,
    "says nothing": 4,
    "answers nothing": 2,
}
# The approver's action, drawn for each: on silence the policy decides.
DECISIONS: Final = (*["approve"] * 8, "refuse", "silence")


def make_sentence(kind: Kind, random: Random) -> str:
    """Return a request sentence that leads to this kind of trip, with random city and days."""
    day = LEAVES_ON + timedelta(days=random.randrange(10))
    back = day + timedelta(days=random.randrange(1, 5))
    when = f"on {day:%B} {day.day} returning {back:%B} {back.day}"
    if kind == "approval":
        return f"Book me a flight to {random.choice(FAR)} {when}"
    if kind in ("question", "answers nothing"):
        return f"I need to be in Portland {when}"
    if kind == "out of policy":
        return f"Book me a flight to Chicago {when} in business class"
    if kind == "not understood":
        return "Ich brauche dringend einen Flug nach München, morgen früh bitte"
    shape = random.choice(("Book me a flight to {to} {when}", "Please get me to {to} {when}, prefer United"))
    return shape.format(to=random.choice(NEAR), when=when)


@dataclass
class Inbox:
    """All messages of one employee by their id, and how often each came."""

    frames: dict[str, dict[str, Any]] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    has_new: asyncio.Condition = field(default_factory=asyncio.Condition)

    def list_for_booking(self, booking_id: str) -> list[dict[str, Any]]:
        return [each for each in self.frames.values() if each.get("bookingId") == booking_id]


class People:
    """All employees and approvers of a run, with their inboxes; `seen` counts responses and errors."""

    def __init__(self, stage: Stage, random: Random) -> None:
        self._stage, self._random = stage, random
        self._http = httpx2.AsyncClient(timeout=ANSWER_S)
        self._tokens: dict[str, str] = {}
        self._known: dict[str, set[str]] = defaultdict(set)
        self.inboxes: dict[str, Inbox] = defaultdict(Inbox)
        self.silent: set[str] = set()
        self.ended = 0
        self.seen: Counter[str] = Counter()

    async def __aenter__(self) -> People:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    # --- one trip -------------------------------------------------------------------------------------------

    async def travel(self, employee: str, kind: Kind) -> None:
        """Make one trip of this kind, from the request to its outcome."""
        booking = await self._request(employee, make_sentence(kind, self._random))
        if kind == "cancels at once":
            await self._cancel(employee, booking)
        answered: set[str] = set()
        while not (end := await self._next(employee, booking, answered)):
            for frame in self.inboxes[employee].list_for_booking(booking):
                if frame["messageId"] not in answered:
                    answered.add(frame["messageId"])
                    await self._respond(employee, kind, frame)
        self.seen[f"told {end['about']}"] += 1
        self.ended += 1

    async def _next(self, employee: str, booking: str, answered: set[str]) -> dict[str, Any] | None:
        """Return the booking's final message, or None if another new one is there to be answered."""
        inbox = self.inboxes[employee]
        async with inbox.has_new:
            while True:
                frames = inbox.list_for_booking(booking)
                if end := next((each for each in frames if each["about"] in ENDS), None):
                    return end
                if {each["messageId"] for each in frames} - answered:
                    return None
                await inbox.has_new.wait()

    async def _respond(self, employee: str, kind: Kind, frame: dict[str, Any]) -> None:
        """Answer a question or choose an option, as this kind of trip does."""
        booking = frame["bookingId"]
        if frame["about"] == "question":
            if kind == "answers nothing":
                self.silent.add(booking)
            else:
                choices = frame["body"].get("choices") or ["PDX"]
                await self._post(employee, f"/bookings/{booking}/answer", {"text": choices[0]}, (200, 409))
        elif frame["about"] == "price_changed":
            await self._post(employee, f"/bookings/{booking}/price", {"decision": "accept"}, (200, 409))
        elif frame["about"] == "options":
            await self._choose(employee, kind, booking, frame["body"]["options"])

    async def _choose(self, employee: str, kind: Kind, booking: str, options: list[dict[str, Any]]) -> None:
        """Choose an option, cancel or stay silent; sometimes first check that a second request is refused."""
        if self._random.random() < 0.2:
            await self._post(employee, "/bookings", {"text": make_sentence("books", self._random)}, (409,))
        if kind == "says nothing":
            self.silent.add(booking)
        elif kind == "cancels when asked":
            await self._cancel(employee, booking)
        else:
            chosen = {"optionId": self._random.choice(options)["option_id"]}
            await self._post(employee, f"/bookings/{booking}/choice", chosen, (200, 409))
            if kind == "cancels after choosing":
                await self._cancel(employee, booking)

    async def _cancel(self, employee: str, booking: str) -> None:
        """Cancel the booking; a refusal means that it is too late."""
        await self._post(employee, f"/bookings/{booking}/cancel", {}, (200, 409))

    async def _request(self, employee: str, sentence: str) -> str:
        """Request a trip and return its booking's id.

        If the response was lost, look for the booking before a retry.
        """
        while True:
            answer = await self._send(employee, "POST", "/bookings", {"text": sentence})
            if answer is not None and answer.status_code == 202:
                booking = str(answer.json()["bookingId"])
                self._known[employee].add(booking)
                return booking
            assert answer is None or answer.status_code in (409, AWAY), (answer.status_code, answer.text)
            if adopted := await self._unknown(employee):
                return adopted
            is_taken = answer is not None and answer.status_code == 409
            assert not is_taken, f"{employee} has no active booking, but was refused one"
            await asyncio.sleep(AGAIN_S)

    async def _unknown(self, employee: str) -> str | None:
        """Return a booking that the employee does not know of yet, or None."""
        while (answer := await self._send(employee, "GET", "/bookings")) is None or answer.status_code != 200:
            await asyncio.sleep(AGAIN_S)
        for each in answer.json()["items"]:
            if each["bookingId"] not in self._known[employee]:
                self._known[employee].add(each["bookingId"])
                return str(each["bookingId"])
        return None

    # --- approvers ------------------------------------------------------------------------------------------

    async def _decide(self, approver: str, frame: dict[str, Any]) -> None:
        """Approve, refuse or ignore the request, at random."""
        decision = self._random.choice(DECISIONS)
        self.seen[f"approver: {decision}"] += 1
        if decision == "silence":
            self.silent.add(frame["bookingId"])
            return
        given = {"employeeId": frame["body"]["employeeId"], "decision": decision, "reason": "as it is"}
        await self._post(approver, f"/bookings/{frame['bookingId']}/approval", given, (200, 409))

    # --- over WebSockets ------------------------------------------------------------------------------------

    async def listen(self, employee: str) -> None:
        """Receive messages into `inboxes` until cancelled; reconnect to any API after an error."""
        offered: Any = [SUBPROTOCOL, f"bearer.{self._token(employee)}"]
        while True:
            address = self._random.choice(self._stage.servers).replace("http://", "ws://") + "/ws"
            with suppress(OSError, WebSocketException, TimeoutError, EOFError):
                async with connect(address, subprotocols=offered, proxy=None, ping_interval=None) as line:
                    async for text in line:
                        frame = json.loads(text)
                        if frame["kind"] != "message":
                            continue
                        if await self._receive(employee, frame) and frame["about"] == "approval":
                            await self._decide(employee, frame)
                        if self._random.random() < GOES_AWAY:
                            break
                        await line.send(json.dumps({"action": "ack", "messageId": frame["messageId"]}))
            await asyncio.sleep(AGAIN_S)

    async def _receive(self, employee: str, frame: dict[str, Any]) -> bool:
        """Record a message; return whether it is new. A redelivery must be identical."""
        inbox, id = self.inboxes[employee], frame["messageId"]
        known = inbox.frames.setdefault(id, frame)
        assert known == frame, f"{id} came twice with different content"
        inbox.times[id] += 1
        async with inbox.has_new:
            inbox.has_new.notify_all()
        return inbox.times[id] == 1

    # --- over HTTP ------------------------------------------------------------------------------------------

    async def _post(self, employee: str, path: str, body: Any, wanted: Sequence[int]) -> httpx2.Response:
        """Post until the service answers; check that the status is one of `wanted`."""
        while True:
            answer = await self._send(employee, "POST", path, body)
            if answer is not None and answer.status_code != AWAY:
                assert answer.status_code in wanted, (path, answer.status_code, answer.text)
                return answer
            await asyncio.sleep(AGAIN_S)

    async def _send(self, employee: str, method: str, path: str, body: Any = None) -> httpx2.Response | None:
        """Send a request to a random API; return None if there is no response."""
        api, headers = (
            self._random.choice(self._stage.servers),
            {"authorization": f"Bearer {self._token(employee)}"},
        )
        try:
            answer = await self._http.request(method, api + path, json=body, headers=headers)
        except httpx2.HTTPError as error:
            self.seen[type(error).__name__] += 1
            return None
        self.seen[f"{method} {path.rpartition('/')[2]} {answer.status_code}"] += 1
        return answer

    def _token(self, employee: str) -> str:
        """Return the employee's token, created once."""
        return self._tokens.setdefault(employee, self._stage.get_token(employee))


def make_trip_kinds(random: Random, count: int) -> list[Kind]:
    """Return `count` kinds of trips in random order: each kind at least once, the others by their shares."""
    kinds: list[Kind] = list(SHARES)
    drawn = random.choices(kinds, [SHARES[each] for each in kinds], k=max(0, count - len(kinds)))
    found = [*kinds, *drawn]
    random.shuffle(found)
    return found
