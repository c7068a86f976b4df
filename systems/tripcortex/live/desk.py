"""What a client's messages over a socket ask for, and what comes of it.

    {"action": "request", "text": "Boston to Chicago next Tuesday"}
    {"action": "choose", "bookingId": "…", "optionId": "…"}     with a `token`, that wait and no later one
    {"action": "answer", "bookingId": "…", "text": "…"}         likewise
    {"action": "cancel", "bookingId": "…"}
    {"action": "decide", "bookingId": "…", "employeeId": "…", "decision": "approve"}    or refuse, by whom it was put before
    {"action": "ack", "messageId": "…"}
    {"action": "resume"}                    all that is not acknowledged, once more
    {"action": "renew", "token": "…"}       a fresh token of the same employee, before the former ends
    {"action": "ping"}

Each may have a `requestId`, which its answer repeats. None may say who asks: that is the token's to say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from holdfast import Stores, Ulid
from holdfast.errors import InvalidRequest
from tripcortex import patterns
from tripcortex.live.identity import Employee, Identities
from tripcortex.live.trips import ULID_FORM, Trips
from tripcortex.model import Booking

TEXT_CHARS_MAX: Final = 20_000
ID_CHARS_MAX: Final = 64
EMPLOYEE_CHARS_MAX: Final = 128
TOKEN_CHARS_MAX: Final = 16_384

Id = Annotated[str, Field(min_length=1, max_length=ID_CHARS_MAX)]
Text = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]
Token = Annotated[str, Field(min_length=1, max_length=TOKEN_CHARS_MAX)]


class Action(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", hide_input_in_errors=True
    )

    action: str
    request_id: Id | None = None


class RequestTrip(Action):
    action: Literal["request"]
    text: Text


class ChooseOption(Action):
    action: Literal["choose"]
    booking_id: Id
    option_id: Id
    token: Token | None = None


class AnswerQuestion(Action):
    action: Literal["answer"]
    booking_id: Id
    text: Text
    token: Token | None = None


class CancelBooking(Action):
    action: Literal["cancel"]
    booking_id: Id
    reason: str = Field(default="", max_length=200)


class DecideBooking(Action):
    action: Literal["decide"]
    booking_id: Id
    employee_id: Annotated[str, Field(min_length=1, max_length=EMPLOYEE_CHARS_MAX)]
    decision: Literal["approve", "refuse"]
    reason: str = Field(default="", max_length=200)
    token: Token | None = None


class Acknowledge(Action):
    action: Literal["ack"]
    message_id: Id


class Resume(Action):
    action: Literal["resume"]


class Renew(Action):
    action: Literal["renew"]
    token: Token


class Ping(Action):
    action: Literal["ping"]


AnyAction = (
    RequestTrip
    | ChooseOption
    | AnswerQuestion
    | CancelBooking
    | DecideBooking
    | Acknowledge
    | Resume
    | Renew
    | Ping
)
_ACTIONS: Final[TypeAdapter[AnyAction]] = TypeAdapter(Annotated[AnyAction, Field(discriminator="action")])


def read_action(text: str) -> AnyAction:
    """Raises pydantic's `ValidationError`."""
    return _ACTIONS.validate_json(text)


class Visitor:
    """Who sits at the other end of a socket; a token that is renewed is another one of the same employee."""

    def __init__(self, employee: Employee, resume: Callable[[], Awaitable[int]]) -> None:
        self.employee, self.resume = employee, resume


class Desk:
    def __init__(self, stores: Stores, trips: Trips, identities: Identities) -> None:
        self._stores, self._trips, self._identities = stores, trips, identities

    async def served(self, visitor: Visitor, action: AnyAction) -> Mapping[str, Any]:
        """What its answer tells. Raises what refuses it; nothing is then changed."""
        employee = visitor.employee
        match action:
            case RequestTrip():
                return _shown(await self._trips.request(employee, action.text))
            case ChooseOption():
                chosen = (action.booking_id, action.option_id, action.token)
                return _shown(await self._trips.choose(employee, *chosen))
            case AnswerQuestion():
                answered = (action.booking_id, action.text, action.token)
                return _shown(await self._trips.answer(employee, *answered))
            case CancelBooking():
                return _shown(await self._trips.cancel(employee, action.booking_id, action.reason))
            case DecideBooking():
                return _shown(await self._decided(employee, action))
            case Acknowledge():
                return await self._acknowledged(employee, action.message_id)
            case Resume():
                return {"messages": await visitor.resume()}
            case Renew():
                return await self._renewed(visitor, action.token)
            case Ping():
                return {}

    async def _decided(self, approver: Employee, action: DecideBooking) -> Booking:
        owner, booking_id = action.employee_id, action.booking_id
        return await self._trips.decide(
            approver, owner, booking_id, action.decision, token=action.token, reason=action.reason
        )

    async def _acknowledged(self, employee: Employee, message_id: str) -> Mapping[str, Any]:
        """Also what was acknowledged before: a client that did not hear the answer says it again."""
        if not ULID_FORM.fullmatch(message_id):
            raise InvalidRequest(
                "This is no id of a message: acknowledge with the messageId that came with it."
            )
        await self._stores.run(patterns.acknowledge(employee.employee_id, Ulid(message_id)))
        return {"messageId": message_id}

    async def _renewed(self, visitor: Visitor, token: str) -> Mapping[str, Any]:
        fresh = await self._identities.employee(token)
        if fresh.employee_id != visitor.employee.employee_id:
            raise InvalidRequest("The token is another employee's: open a connection of their own with it.")
        visitor.employee = fresh
        return {"expiresAt": int(fresh.expires_at)}


def _shown(booking: Booking) -> Mapping[str, Any]:
    return {"bookingId": booking.booking_id, "status": booking.status.value}
