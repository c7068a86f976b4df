"""The actions that clients send over a WebSocket: their schemas, `parse_action`, and the `ActionHandler`.

    {"action": "request", "text": "Boston to Chicago next Tuesday"}
                        with `answer`: to the question whether to book
    {"action": "choose", "bookingId": "…", "optionId": "…"}     with `token`: only the wait of that token
    {"action": "answer", "bookingId": "…", "text": "…"}         likewise
    {"action": "price", "bookingId": "…", "decision": "accept"}  or "search"; likewise
    {"action": "cancel", "bookingId": "…"}
    {"action": "decide", "bookingId": "…", "employeeId": "…", "decision": "approve"}
                        or "refuse"; by an approver who is asked
    {"action": "ack", "messageId": "…"}
    {"action": "resume"}                    send all unacknowledged messages again
    {"action": "renew", "token": "…"}       a new token of the same employee, before the old one expires
    {"action": "ping"}

Each may have a `requestId`, which the answer repeats. No action names the calling employee: the token does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from holdfast import Stores
from holdfast.core.errors import InvalidRequest
from holdfast.model.ulids import Ulid
from tripcortex.api.answer_view import build_answer_view
from tripcortex.api.identity import Authenticator, Employee
from tripcortex.api.sentence_answers import SentenceAnswer
from tripcortex.api.trips import ULID_FORM, Trips
from tripcortex.model import patterns
from tripcortex.model.entities import Booking

MAX_TEXT_CHARS: Final = 20_000
MAX_ID_CHARS: Final = 64
MAX_EMPLOYEE_CHARS: Final = 128
MAX_ANSWER_CHARS: Final = 500
MAX_TOKEN_CHARS: Final = 16_384

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
Token = Annotated[str, Field(min_length=1, max_length=MAX_TOKEN_CHARS)]


class Action(BaseModel):
    """An action of a client. Unknown fields are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", hide_input_in_errors=True
    )

    action: str
    request_id: Id | None = None


class RequestTrip(Action):
    """A sentence; `answer` answers the question whether to book, which was asked about the same sentence."""

    action: Literal["request"]
    text: Text
    answer: Annotated[str, Field(min_length=1, max_length=MAX_ANSWER_CHARS)] | None = None


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


class SettlePrice(Action):
    """The answer to a new price of an approved flight."""

    action: Literal["price"]
    booking_id: Id
    decision: Literal["accept", "search"]
    token: Token | None = None


class CancelBooking(Action):
    action: Literal["cancel"]
    booking_id: Id
    reason: str = Field(default="", max_length=200)


class DecideBooking(Action):
    """The approver's decision; `employee_id` is the booking's owner."""

    action: Literal["decide"]
    booking_id: Id
    employee_id: Annotated[str, Field(min_length=1, max_length=MAX_EMPLOYEE_CHARS)]
    decision: Literal["approve", "refuse"]
    reason: str = Field(default="", max_length=200)
    token: Token | None = None


class Acknowledge(Action):
    action: Literal["ack"]
    message_id: Id


class Resume(Action):
    """A request to send all unacknowledged messages again."""

    action: Literal["resume"]


class Renew(Action):
    """A new token of the same employee, which replaces the connection's."""

    action: Literal["renew"]
    token: Token


class Ping(Action):
    action: Literal["ping"]


AnyAction = (
    RequestTrip
    | ChooseOption
    | AnswerQuestion
    | SettlePrice
    | CancelBooking
    | DecideBooking
    | Acknowledge
    | Resume
    | Renew
    | Ping
)
_ACTIONS: Final[TypeAdapter[AnyAction]] = TypeAdapter(Annotated[AnyAction, Field(discriminator="action")])


def parse_action(text: str) -> AnyAction:
    """Parse the JSON text of an action. Raise pydantic's `ValidationError` if it is invalid."""
    return _ACTIONS.validate_json(text)


class Client:
    """The client at the other end of a socket; `resume` resends its unacknowledged messages.

    Renewing the token replaces `employee` with the same employee's new claims.
    """

    def __init__(self, employee: Employee, resume: Callable[[], Awaitable[int]]) -> None:
        self.employee, self.resume = employee, resume


class ActionHandler:
    """Handles the actions that clients send over a WebSocket."""

    def __init__(self, stores: Stores, trips: Trips, authenticator: Authenticator) -> None:
        self._stores, self._trips, self._authenticator = stores, trips, authenticator

    async def handle(self, client: Client, action: AnyAction) -> Mapping[str, Any]:
        """Handle an action and return the fields of its answer.

        Raise the error that refused it; then nothing has changed.
        """
        employee = client.employee
        match action:
            case RequestTrip():
                return _to_answer(await self._trips.request(employee, action.text, action.answer))
            case ChooseOption():
                chosen = (action.booking_id, action.option_id, action.token)
                return _to_answer(await self._trips.choose(employee, *chosen))
            case AnswerQuestion():
                answered = (action.booking_id, action.text, action.token)
                return _to_answer(await self._trips.answer(employee, *answered))
            case SettlePrice():
                settled = (action.booking_id, action.decision, action.token)
                return _to_answer(await self._trips.settle_price(employee, *settled))
            case CancelBooking():
                return _to_answer(await self._trips.cancel(employee, action.booking_id, action.reason))
            case DecideBooking():
                return _to_answer(await self._decide(employee, action))
            case Acknowledge():
                return await self._acknowledge(employee, action.message_id)
            case Resume():
                return {"messages": await client.resume()}
            case Renew():
                return await self._renew_token(client, action.token)
            case Ping():
                return {}

    async def _decide(self, approver: Employee, action: DecideBooking) -> Booking:
        owner, booking_id = action.employee_id, action.booking_id
        return await self._trips.decide(
            approver, owner, booking_id, action.decision, token=action.token, reason=action.reason
        )

    async def _acknowledge(self, employee: Employee, message_id: str) -> Mapping[str, Any]:
        """Delete a message that the client received. Raise `InvalidRequest` if the id is not a ULID.

        Idempotent: a client that missed the answer sends the action again.
        """
        if not ULID_FORM.fullmatch(message_id):
            raise InvalidRequest("Invalid messageId: expected the messageId of a message that you received.")
        await self._stores.run(patterns.acknowledge(employee.employee_id, Ulid(message_id)))
        return {"messageId": message_id}

    async def _renew_token(self, client: Client, token: str) -> Mapping[str, Any]:
        """Verify a new token of the same employee and use it from now on; return when it expires."""
        fresh = await self._authenticator.authenticate(token)
        if fresh.employee_id != client.employee.employee_id:
            raise InvalidRequest("The token belongs to another employee: open a new connection with it.")
        client.employee = fresh
        return {"expiresAt": int(fresh.expires_at)}


def _to_answer(booking: Booking | SentenceAnswer) -> Mapping[str, Any]:
    """Return the fields of an answer about a booking: its id and status; or of a sentence's answer."""
    if isinstance(booking, SentenceAnswer):
        return build_answer_view(booking).model_dump(mode="json", by_alias=True)
    return {"bookingId": booking.booking_id, "status": booking.status.value}
