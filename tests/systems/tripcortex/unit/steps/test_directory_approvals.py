"""Approvals by the directory through the flow: who is asked, races of decisions, leavers, escalation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.errors import ConditionFailed, HoldfastError, NotFound, NotWaiting, RequestRefused
from holdfast.flows.worker import StepWorker
from tests.systems.tripcortex.unit.steps.booking_bench import Bench
from tests.systems.tripcortex.unit.steps.company import (
    decide,
    list_kinds,
    list_pending,
    open_company,
    reach_approval,
)
from tripcortex.api.explain import explain_booking
from tripcortex.api.routes.schemas import build_approval_view, build_booking_view
from tripcortex.api.trips import Trips
from tripcortex.directory.approvers import find_employee_level, load_traveller, open_finder
from tripcortex.directory.changes import load_employee, replace_employee
from tripcortex.domain.policy_rules.approvals import ApprovalOver, MayNotDecide, list_people
from tripcortex.model.directory import EmployeeFields
from tripcortex.model.entities import Approval, Booking, BookingStatus, Breach, EmployeeId
from tripcortex.settings import TripCortexSettings
from tripcortex.workers.dependencies import open_dependencies
from tripcortex.workers.flow import BOOKING_FLOW

S = BookingStatus
HOUR = 3600.0


async def change_employee(trip: Bench, id: str, **changes: object) -> None:
    """Change an employee in the directory, as SCIM does."""
    row = await load_employee(trip.api, id)
    fields = {name: getattr(row, name) for name in EmployeeFields.model_fields}
    now = datetime.fromtimestamp(trip.clock.now(), UTC)
    await replace_employee(trip.api, EmployeeFields(**{**fields, **changes}), now)


async def get_approval(trip: Bench, booking: Booking) -> Approval:
    approval = (await trip.booking(booking)).approval
    assert approval is not None
    return approval


async def find_people(trip: Bench, *words: str, traveller: str = "emp-42") -> list[list[str]]:
    """Return the people of each word."""
    finder = await open_finder(trip.api, traveller, TripCortexSettings.load())
    return [(await finder.find_ask(word)).people for word in words]


async def test_directory_finds_the_people_of_a_policys_words() -> None:
    async with open_company() as trip:
        assert await find_people(trip, "L1 manager", "Skip-level", "VP (L3+)", "Director or above") == [
            ["emp-7"],
            ["emp-3"],
            ["emp-3"],
            ["emp-3"],
        ]
        assert await find_people(trip, "Finance", "Department head", "Board", "Finance or Board") == [
            ["emp-20", "emp-21"],
            ["emp-3"],
            ["emp-1"],
            ["emp-20", "emp-21", "emp-1"],
        ]
        # Nobody has these: the travel desk decides.
        assert await find_people(trip, "L7 manager", "Legal", "CFO") == [["emp-9"]] * 3
        profile = await load_traveller(trip.api, "emp-42")
        assert (profile.level, profile.manager_id) == ("L0", "emp-7")
        assert [each.id for each in profile.chain] == ["emp-7", "emp-3", "emp-1"]
        assert await find_employee_level(trip.workflow, "emp-404") is None  # type: ignore[arg-type]


async def test_directory_wins_over_the_setting_which_wins_over_the_travel_desk() -> None:
    people = "line-manager=emp-99,legal=emp-98"
    async with open_company(variables={"TRIPCORTEX_APPROVERS": people}) as trip:
        assert await find_people(trip, "line-manager", "Legal") == [["emp-7"], ["emp-98"]]
        assert await find_people(trip, "line-manager", traveller="emp-unknown") == [["emp-99"]]


async def test_words_of_the_policys_own_chain_keep_their_meaning() -> None:
    """The JSON of a policy names a chain: the first is asked, and the others stand in."""
    async with open_company() as trip:
        booking = await reach_approval(trip, "line-manager")
        [[ask]] = [each.asks for each in (await get_approval(trip, booking)).stages]
        assert (ask.word, ask.people, ask.stand_ins) == ("line-manager", ["emp-7"], [])


async def test_role_with_and_is_one_approver() -> None:
    changes = [("finance,\nemp-21", "health and safety,\nemp-21")]
    async with open_company(changes=changes) as trip:
        finder = await open_finder(trip.api, "emp-42", TripCortexSettings.load())
        stages = await finder.find_stages(["Health and Safety", "L1 and Finance"], ())
        assert [[ask.word for ask in each] for each in stages] == [["Health and Safety"], ["L1", "Finance"]]


async def test_worker_judges_by_the_level_of_the_directory() -> None:
    variables = {
        "TRIPCORTEX_PORTAL_URL": "https://portal.example",
        "HOLDFAST_SECRET_TRIPCORTEX_PORTAL_KEY": "a-secret-of-the-tests",
    }
    async with open_company(variables=variables) as trip, open_dependencies(trip.workflow) as opened:
        assert await opened.find_level(trip.workflow, EmployeeId("emp-42")) == "L0"
        assert await opened.find_level(trip.workflow, EmployeeId("emp-404")) is None


async def test_companys_words_replace_the_defaults() -> None:
    words = {"TRIPCORTEX_APPROVER_WORDS": "L1=level:C-level;Finance=employee:emp-20"}
    async with open_company(variables=words) as trip:
        assert await find_people(trip, "L1 approval", "Finance") == [["emp-1"], ["emp-20"]]


async def test_traveller_is_never_their_own_approver() -> None:
    async with open_company() as trip:
        assert await find_people(trip, "Finance", traveller="emp-20") == [["emp-21"]]
        assert await find_people(trip, "Board", traveller="emp-1") == [["emp-9"]]
        with pytest.raises(RequestRefused, match="only approver is the traveller"):
            await find_people(trip, "Travel desk", traveller="emp-9")


async def test_asks_stages_in_turn_until_the_last_has_approved() -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip, "L1 manager and Finance", "VP (L3+)")
        approval = await get_approval(trip, booking)
        assert list_people(approval) == ("emp-7", "emp-20", "emp-21")
        assert await list_kinds(trip, "emp-3") == []
        await decide(trip, booking, "emp-21")
        assert await list_pending(trip, "emp-20") == [] and await list_pending(trip, "emp-7") != []
        with pytest.raises(ApprovalOver):
            await decide(trip, booking, "emp-20")
        with pytest.raises(NotFound):
            await decide(trip, booking, "emp-9")
        with pytest.raises(MayNotDecide):
            await decide(trip, booking, "emp-3")
        await decide(trip, booking, "emp-7")
        assert await list_kinds(trip, "emp-3") == ["approval"]
        assert await list_pending(trip, "emp-3") == [booking.booking_id]
        await decide(trip, booking, "emp-3", reason="The customer pays.")
        booking = await trip.booking(booking)
        assert booking.flow_state == "user_selected"
        assert booking.approval is not None and booking.approval.decision == "approve"
        entries = [each.output for each in await trip.trail(booking) if each.step == "Approval"]
        assert [each["decisions"][0]["decided_by"] for each in entries] == ["emp-21", "emp-7", "emp-3"]
        assert [each["is_final"] for each in entries] == [False, False, True]


async def test_breach_without_approvers_goes_to_the_policys_own_first() -> None:
    async with open_company() as trip:
        named = Breach(code="fare_above_cap", severity="soft", text="", remedy="", approvers=["Finance"])
        booking = await reach_approval(trip, more=[named])
        words = [[ask.word for ask in each.asks] for each in (await get_approval(trip, booking)).stages]
        assert words == [["line-manager"], ["Finance"]]


async def test_approver_sees_the_stage_the_rule_the_price_and_the_deadline() -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip, "L1 manager", "VP (L3+) and Finance")
        await decide(trip, booking, "emp-7")
        booking = await trip.booking(booking)
        seen = build_approval_view(booking)
        assert (seen.stage, seen.stages) == (2, 2)
        assert [(each.word, each.stage, each.decided_by) for each in seen.approvers] == [
            ("L1 manager", 1, "emp-7"),
            ("VP (L3+)", 2, None),
            ("Finance", 2, None),
        ]
        assert booking.selected_option is not None and booking.approval is not None
        assert (seen.price_usd, seen.due_at) == (booking.selected_option.price_usd, booking.approval.due_at)
        [message] = await trip.list_messages(EmployeeId("emp-3"))
        assert message.body["approvers"] == ["VP (L3+)", "Finance"]
        assert message.body["breaches"] == [each.model_dump(exclude_none=True) for each in seen.breaches]
        # The wait ends earlier, for the escalation; people see the deadline.
        assert build_booking_view(booking).due_at == booking.approval.due_at != booking.flow_due
        explained = " ".join((await explain_booking(trip.stores, booking.booking_id)).lines)
        assert "approve, decided by emp-7 (L1 manager)" in explained


async def test_two_joint_decisions_at_the_same_second_both_count() -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip, "L1 manager and Finance")
        await asyncio.gather(*[decide(trip, booking, each) for each in ("emp-7", "emp-20")])
        assert (await get_approval(trip, booking)).decision == "approve"


@pytest.mark.parametrize("order", [("approve", "refuse"), ("refuse", "approve")])
async def test_of_two_holders_at_the_same_second_one_decides(order: tuple[str, str]) -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip, "Finance")
        results = await asyncio.gather(
            decide(trip, booking, "emp-20", order[0]),
            decide(trip, booking, "emp-21", order[1]),
            return_exceptions=True,
        )
        [refused] = [each for each in results if isinstance(each, BaseException)]
        assert isinstance(refused, NotWaiting | ApprovalOver | ConditionFailed)
        entries = [
            each for each in await trip.trail(booking) if each.step == "Approval" and not each.error_code
        ]
        assert len(entries) == 1


async def test_of_principal_and_delegate_one_decides() -> None:
    async with open_company(changes=[("manager,Sales,,\n", "manager,Sales,,emp-8\n")]) as trip:
        booking = await reach_approval(trip, "L1 manager and Finance")
        assert await list_kinds(trip, "emp-8") == ["approval"]
        assert await list_pending(trip, "emp-8") == [booking.booking_id]
        results = await asyncio.gather(
            decide(trip, booking, "emp-7"), decide(trip, booking, "emp-8"), return_exceptions=True
        )
        assert [isinstance(each, ApprovalOver) for each in results].count(True) == 1
        [ask, _] = (await get_approval(trip, booking)).stages[0].asks
        assert ask.decision == "approve" and ask.decided_by in ("emp-7", "emp-8")
        assert ask.on_behalf_of == (None if ask.decided_by == "emp-7" else "emp-7")


async def test_delegate_acts_only_while_the_delegation_lasts() -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip, "L1 manager")
        with pytest.raises(NotFound):
            await decide(trip, booking, "emp-8")
        until = datetime.fromtimestamp(trip.clock.now(), UTC) + timedelta(minutes=10)
        await change_employee(trip, "emp-7", delegate_id="emp-8", delegate_until=until)
        assert await list_pending(trip, "emp-8") == [booking.booking_id]
        trip.clock.move(601)
        assert await list_pending(trip, "emp-8") == []
        with pytest.raises(NotFound):
            await decide(trip, booking, "emp-8")


async def test_decision_and_deadline_at_the_same_second_have_one_outcome() -> None:
    async with open_company(variables={"TRIPCORTEX_ESCALATION_PERCENT": "0"}) as trip:
        booking = await reach_approval(trip, "Legal")  # the travel desk instead: silence refuses
        trip.clock.move(HOUR)
        decided, _ = await asyncio.gather(
            decide(trip, booking, "emp-9"), BOOKING_FLOW.sweep(trip.workflow), return_exceptions=True
        )
        await trip.work()
        booking = await trip.booking(booking)
        assert isinstance(decided, NotWaiting)
        assert (booking.status, booking.failure and booking.failure.code) == (S.failed, "not_approved")
        assert trip.sandbox.ledger == []


async def test_successor_is_asked_when_an_approver_leaves() -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip, "L1 manager", "Finance")
        await change_employee(trip, "emp-7", active=False)
        with pytest.raises(MayNotDecide, match="inactive"):
            await decide(trip, booking, "emp-7")
        assert await Trips(trip.api).reassign_approvals() == 1
        # It changes nothing more.
        assert await Trips(trip.api).reassign_approvals() == 0
        assert list_people(await get_approval(trip, booking)) == ("emp-3",)
        assert await list_kinds(trip, "emp-3") == ["approval"]
        await decide(trip, booking, "emp-3")
        assert list_people(await get_approval(trip, booking)) == ("emp-20", "emp-21")


async def test_approval_is_escalated_once_even_if_the_worker_is_killed() -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip)
        trip.clock.move(HOUR / 2)
        await BOOKING_FLOW.sweep(trip.workflow)
        [received] = await trip.workflow.run(BOOKING_FLOW.pattern_set.consumer.receive(10, 0.0))
        # The worker dies after the transaction and before it deletes the message.
        for _ in range(2):
            await StepWorker(BOOKING_FLOW, trip.workflow, trip.dependencies).handle(received)
        await trip.pass_time(60)
        approval = await get_approval(trip, booking)
        assert list_people(approval) == ("emp-7", "emp-3") and approval.escalate_at is None
        assert await list_kinds(trip, "emp-7") == ["approval", "approval_reminder"]
        assert await list_kinds(trip, "emp-3") == ["approval"]
        [entry] = [each for each in await trip.trail(booking) if "escalated" in each.output]
        assert entry.output == {"escalated": ["emp-3"]}
        await decide(trip, booking, "emp-3")
        await trip.work()
        assert (await trip.booking(booking)).status is S.confirmed


async def test_decision_at_the_time_of_the_escalation_counts() -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip, "L1 manager")
        trip.clock.move(HOUR / 2)
        await decide(trip, booking, "emp-7")
        assert (await get_approval(trip, booking)).decision == "approve"


async def test_silence_after_the_escalation_refuses_at_the_deadline() -> None:
    async with open_company() as trip:
        booking = await reach_approval(trip, "Legal")
        for _ in range(3):
            await trip.pass_time(HOUR / 2)
        booking = await trip.booking(booking)
        assert (booking.status, booking.failure and booking.failure.code) == (S.failed, "not_approved")
        assert any("travel desk decides: emp-9" in each for each in booking.notes)
        with pytest.raises(HoldfastError):
            await decide(trip, booking, "emp-9")
