"""What an employee may do with bookings: the same over a WebSocket and over HTTP.

Each call names its employee by the token that was proved, and sees that employee's bookings alone; another's is not there,
as one that nobody has. An approver is the one exception: whom a booking was put before sees what there is to decide about it, and
may decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast import Stores, Ulid
from holdfast.errors import InvalidRequest, NotFound
from tripcortex import patterns
from tripcortex.flow import BOOKING
from tripcortex.live.identity import EMPLOYEE_FORM, Employee
from tripcortex.model import Booking, EmployeeId
from tripcortex.requesting import REQUEST_CHARS_MAX, REQUESTS_A_MINUTE, request_booking

# What waits are answered with, by these names in the flow.
CHOOSE: Final = "choose"
ANSWER: Final = "answer"
DECIDE: Final = "decide"
DECISIONS: Final = ("approve", "refuse")
# The state of the flow in which a booking waits for an approver.
APPROVING: Final = "approving"

# Of a booking that waits for nobody: the flow refuses it, and says where the booking stands.
NO_TOKEN: Final = "none"
BY_EMPLOYEE: Final = "cancelled by the employee"
REASON_CHARS_MAX: Final = 200
ULID_FORM: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Trips:
    def __init__(
        self,
        stores: Stores,
        *,
        request_chars_max: int = REQUEST_CHARS_MAX,
        requests_a_minute: int = REQUESTS_A_MINUTE,
    ) -> None:
        self._stores, self._chars_max, self._a_minute = stores, request_chars_max, requests_a_minute

    async def request(self, employee: Employee, sentence: str) -> Booking:
        """A booking begins. `BookingUnderWay` where one has not ended, `RateLimited` where too many began."""
        bounds = {"chars_max": self._chars_max, "a_minute": self._a_minute}
        return await request_booking(self._stores, employee.traveller, sentence, **bounds)

    async def found(self, employee: Employee, booking_id: str) -> Booking:
        return await self._of(employee.employee_id, booking_id)

    async def choose(
        self, employee: Employee, booking_id: str, option_id: str, token: str | None = None
    ) -> Booking:
        booking = await self.found(employee, booking_id)
        return await self._answered(booking, CHOOSE, token, {"optionId": option_id})

    async def answer(
        self, employee: Employee, booking_id: str, text: str, token: str | None = None
    ) -> Booking:
        """What the planner asked is answered."""
        booking = await self.found(employee, booking_id)
        return await self._answered(booking, ANSWER, token, {"text": text})

    async def cancel(self, employee: Employee, booking_id: str, reason: str = "") -> Booking:
        booking = await self.found(employee, booking_id)
        return await BOOKING.cancel(self._stores, booking, reason[:REASON_CHARS_MAX] or BY_EMPLOYEE)

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
        """By whom it was put before. To anybody else there is no such booking, also to whom it belongs: that one could
        otherwise let their own breach pass."""
        if decision not in DECISIONS:
            raise InvalidRequest(f"A decision is {' or '.join(DECISIONS)}.")
        booking = await self._of(owner, booking_id)
        if not _is_asked(booking, approver):
            raise _no_booking()
        given = {"decision": decision, "reason": reason[:REASON_CHARS_MAX], "decidedBy": approver.employee_id}
        return await self._answered(booking, DECIDE, token, given)

    async def approvals(self, approver: Employee) -> list[Booking]:
        """What waits for an approver's decision, the longest first.

        The bookings themselves say it: the message that told the approver goes when it is acknowledged, and an index of approvers
        would be one more truth to keep. So the places of all running flows are gone through, which are as many as there are
        bookings under way, and of those that wait for an approval the bookings are read.
        """
        waiting = [each for each in await BOOKING.standing(self._stores) if each.state == APPROVING]
        found = [await self._stores.run(BOOKING.use.one(each.key)) for each in waiting]
        return [each for each in found if each is not None and _waits_for(each, approver)]

    async def approval(self, approver: Employee, booking_id: str) -> Booking:
        """One of these. To who is not asked, or not any more, there is none."""
        for each in await self.approvals(approver):
            if each.booking_id == booking_id:
                return each
        raise _no_booking()

    def token_of(self, booking: Booking) -> str | None:
        """By which whose booking it is answers the wait that it stands in; None where it does not wait for them. An approval is
        another's to answer, and so is its token."""
        return None if booking.flow_state == APPROVING else _token_now(booking)

    async def _answered(
        self, booking: Booking, answer: str, token: str | None, given: Mapping[str, Any]
    ) -> Booking:
        """With a token, that very wait is answered and no later one. Without, the one that it stands in now: whose it is has
        been proved."""
        meant = token or _token_now(booking) or NO_TOKEN
        return await BOOKING.answer(self._stores, booking, answer, token=meant, given=given)

    async def _of(self, owner: str, booking_id: str) -> Booking:
        found = None
        if ULID_FORM.fullmatch(booking_id) and EMPLOYEE_FORM.fullmatch(owner):
            found = await self._stores.run(patterns.booking(EmployeeId(owner), Ulid(booking_id)))
        if found is None:
            raise _no_booking()
        return found


def _token_now(booking: Booking) -> str | None:
    return None if booking.flow_token is None or booking.is_ended else BOOKING.token(booking)


def _is_asked(booking: Booking, approver: Employee) -> bool:
    """Nobody is asked about a trip of their own."""
    asked = booking.approval is not None and booking.approval.asked_of == approver.employee_id
    return asked and booking.employee_id != approver.employee_id


def _waits_for(booking: Booking, approver: Employee) -> bool:
    """A place may be a moment older than its booking."""
    return booking.flow_state == APPROVING and _is_asked(booking, approver)


def _no_booking() -> NotFound:
    return NotFound("You have no booking of this id.")
