"""Operations of employees and approvers on bookings, shared by the WebSocket and the HTTP routes.

Each call acts for the employee of the verified token and sees only that employee's bookings; any other
booking is `NotFound`. The exception are the approvers of a booking, who see what there is to decide and may
decide it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import DeadlinePassed, InvalidRequest, NotFound, NotWaiting, RetryLater
from holdfast.model.ulids import Ulid
from tripcortex.api.identity import EMPLOYEE_FORM, Employee
from tripcortex.api.sentence_answers import SentenceAnswer, answer_sentence
from tripcortex.directory.approvers import list_principals
from tripcortex.domain.intents import Intent, classify
from tripcortex.domain.policy_rules.approvals import may_decide, to_staged
from tripcortex.model import patterns
from tripcortex.model.entities import Booking, EmployeeId
from tripcortex.workers.booking_requests import (
    MAX_REQUEST_CHARS,
    REQUESTS_A_MINUTE,
    request_booking,
    validate_sentence,
)
from tripcortex.workers.flow import BOOKING_FLOW

# The names of the answers in the flow.
CHOOSE: Final = "choose"
ANSWER: Final = "answer"
DECIDE: Final = "decide"
REASSIGN: Final = "reassign"
DECISIONS: Final = ("approve", "refuse")
# The answers to a new price after an approval.
PRICE_DECISIONS: Final = ("accept", "search")
# Each attempt is overtaken by another approver of the same stage, or by its escalation.
MAX_ATTEMPTS: Final = 10
# The state of the flow in which a booking waits for an approver.
APPROVING_STATE: Final = "approving"

# Used if the booking is not waiting: the flow refuses it and reports the booking's state.
NO_WAIT_TOKEN: Final = "none"
DEFAULT_CANCEL_REASON: Final = "cancelled by the employee"
MAX_REASON_CHARS: Final = 200
ULID_FORM: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Trips:
    """The operations on bookings, for authenticated employees."""

    def __init__(
        self,
        stores: Stores,
        *,
        request_chars_max: int = MAX_REQUEST_CHARS,
        requests_a_minute: int = REQUESTS_A_MINUTE,
    ) -> None:
        self._stores, self._chars_max, self._a_minute = stores, request_chars_max, requests_a_minute

    async def request(
        self, employee: Employee, sentence: str, answer: str | None = None
    ) -> Booking | SentenceAnswer:
        """Start a booking if the sentence asks for one, else answer it.

        `answer` answers the question whether to book, which an earlier answer to this sentence asked.
        Raise `BookingUnderWay` if a booking is active, `RateLimited` if too many began within a minute.
        """
        text = validate_sentence(sentence, self._chars_max)
        # Line breaks tell a forwarded mail from the employee's own words.
        found = classify(sentence, answer)
        if found.intent is not Intent.book:
            return await answer_sentence(self._stores, employee, text, found)
        bounds = {"chars_max": self._chars_max, "a_minute": self._a_minute}
        return await request_booking(self._stores, employee.traveller, text, **bounds)

    async def get_booking(self, employee: Employee, booking_id: str) -> Booking:
        """Return the employee's booking. Raise `NotFound` if there is none with this id."""
        return await self._load_booking(employee.employee_id, booking_id)

    async def choose(
        self, employee: Employee, booking_id: str, option_id: str, token: str | None = None
    ) -> Booking:
        """Choose an offered option; with `token` only if the booking still waits under it."""
        booking = await self.get_booking(employee, booking_id)
        return await self._answer_wait(booking, CHOOSE, token, {"optionId": option_id})

    async def answer(
        self, employee: Employee, booking_id: str, text: str, token: str | None = None
    ) -> Booking:
        """Answer the planner's question; with `token` only if the booking still waits under that token."""
        booking = await self.get_booking(employee, booking_id)
        return await self._answer_wait(booking, ANSWER, token, {"text": text})

    async def cancel(self, employee: Employee, booking_id: str, reason: str = "") -> Booking:
        """Cancel the booking, unless the portal was already asked to book it."""
        booking = await self.get_booking(employee, booking_id)
        return await BOOKING_FLOW.cancel(
            self._stores, booking, reason[:MAX_REASON_CHARS] or DEFAULT_CANCEL_REASON
        )

    async def decide(
        self,
        approver: Employee,
        owner: str,
        booking_id: str,
        decision: str,
        *,
        token: str | None = None,
        reason: str = "",
    ) -> Booking:
        """Approve or refuse a breach of the policy. `owner` is the id of the employee who travels.

        Only people who are asked may decide, and delegates of those; everyone else, the owner included, gets
        `NotFound`, so that no employee approves their own breach. Of several decisions at the same time each
        counts once.
        """
        if decision not in DECISIONS:
            raise InvalidRequest(f"Invalid decision: expected {' or '.join(DECISIONS)}.")
        acting_for = await self._list_principals(approver)
        payload = {
            "decision": decision,
            "reason": reason[:MAX_REASON_CHARS],
            "decidedBy": approver.employee_id,
        }
        for _ in range(MAX_ATTEMPTS):
            booking = await self._load_booking(owner, booking_id)
            if not _was_asked(booking, approver, acting_for):
                raise _build_not_found()
            try:
                return await self._answer_wait(booking, DECIDE, token, payload)
            except (NotWaiting, DeadlinePassed) as error:
                # Another approver decided, or the stage was escalated, while this decision was on its way.
                if token is not None or error.state != APPROVING_STATE:
                    raise
        raise RetryLater("The approvers of this booking are changing. Retry the decision in a moment.")

    async def settle_price(
        self, employee: Employee, booking_id: str, decision: str, token: str | None = None
    ) -> Booking:
        """Accept the new price of an approved flight, or search the same trip again."""
        if decision not in PRICE_DECISIONS:
            raise InvalidRequest(f"Invalid decision: expected {' or '.join(PRICE_DECISIONS)}.")
        booking = await self.get_booking(employee, booking_id)
        return await self._answer_wait(booking, decision, token, {})

    async def reassign_approvals(self) -> int:
        """Ask others to approve where somebody who is asked has left; return how many bookings changed.

        Called after a change of the directory. An escalation makes up for a call that is lost.
        """
        count = 0
        for booking in await self._list_waiting():
            with suppress(InvalidRequest, NotWaiting):
                await self._answer_wait(booking, REASSIGN, None, {})
                count += 1
        return count

    async def list_approvals(self, approver: Employee) -> list[Booking]:
        """List the bookings that wait for the approver's decision, the longest waiting first.

        Read from the bookings themselves: the message to the approver is deleted when it is acknowledged, and
        an index of approvers would be a second copy to keep consistent. So this goes through all running
        executions, one per active booking, and reads the bookings that wait for an approval.
        """
        waiting = await self._list_waiting()
        acting_for = await self._list_principals(approver) if waiting else ()
        return [each for each in waiting if _is_waiting_for(each, approver, acting_for)]

    async def get_approval(self, approver: Employee, booking_id: str) -> Booking:
        """Return a booking that waits for the approver's decision.

        Raise `NotFound` if the caller is not, or no longer, asked to decide it.
        """
        for each in await self.list_approvals(approver):
            if each.booking_id == booking_id:
                return each
        raise _build_not_found()

    async def _list_waiting(self) -> list[Booking]:
        """Return the bookings that wait for an approval, the longest waiting first."""
        waiting = [
            each for each in await BOOKING_FLOW.list_executions(self._stores) if each.state == APPROVING_STATE
        ]
        found = [await self._stores.run(BOOKING_FLOW.pattern_set.item(each.key)) for each in waiting]
        return [each for each in found if each is not None and each.flow_state == APPROVING_STATE]

    async def _list_principals(self, approver: Employee) -> tuple[str, ...]:
        """Return the employees for whom the caller acts as delegate now."""
        return await list_principals(self._stores, approver.employee_id, self._stores.now())

    def get_owner_token(self, booking: Booking) -> str | None:
        """Return the token with which the owner answers the current wait, or None.

        The token of an approval is the approver's.
        """
        return None if booking.flow_state == APPROVING_STATE else _get_current_token(booking)

    async def _answer_wait(
        self, booking: Booking, answer: str, token: str | None, payload: Mapping[str, Any]
    ) -> Booking:
        """Answer the booking's wait: with a token only the wait of that token, without one the current wait.

        `answer` is the name of the answer in the flow. The caller is already authorized.
        """
        wait_token = token or _get_current_token(booking) or NO_WAIT_TOKEN
        return await BOOKING_FLOW.answer(self._stores, booking, answer, token=wait_token, given=payload)

    async def _load_booking(self, owner: str, booking_id: str) -> Booking:
        """Return the owner's booking. Raise `NotFound` if it does not exist or an id is malformed."""
        found = None
        if ULID_FORM.fullmatch(booking_id) and EMPLOYEE_FORM.fullmatch(owner):
            found = await self._stores.run(patterns.booking(EmployeeId(owner), Ulid(booking_id)))
        if found is None:
            raise _build_not_found()
        return found


def _get_current_token(booking: Booking) -> str | None:
    """Return the token of the booking's current wait; None if it does not wait or has ended."""
    return None if booking.flow_token is None or booking.is_ended else BOOKING_FLOW.make_token(booking)


def _was_asked(booking: Booking, approver: Employee, acting_for: Collection[str]) -> bool:
    """Return whether the caller, or a person for whom they act, is or was asked to approve the booking.

    Employees never approve their own trips. Who may decide now is for the flow to say.
    """
    if booking.approval is None or booking.employee_id == approver.employee_id:
        return False
    asked = {
        each
        for stage in to_staged(booking.approval).stages
        for ask in stage.asks
        for each in (*ask.people, *ask.stand_ins)
    }
    return bool(asked & {approver.employee_id, *acting_for})


def _is_waiting_for(booking: Booking, approver: Employee, acting_for: Collection[str]) -> bool:
    """Return whether the booking waits for this approver now. Its execution may be slightly stale."""
    if booking.flow_state != APPROVING_STATE or booking.employee_id == approver.employee_id:
        return False
    return booking.approval is not None and may_decide(booking.approval, approver.employee_id, acting_for)


def _build_not_found() -> NotFound:
    """Return the same error for an unknown booking and for another employee's; the caller raises it."""
    return NotFound("You have no booking with this id.")
