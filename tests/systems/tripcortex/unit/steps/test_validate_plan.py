"""Steps ValidatePlan and ExecuteSearch: only confirmed rules of the policies in service decide."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from tests.systems.tripcortex.unit.steps.booking_bench import BEGAN, REGION_FILE, Bench, open_bench
from tripcortex.domain.policy_rules.booking_checks import build_option_trip
from tripcortex.domain.policy_rules.rules import Effect
from tripcortex.model.entities import AuditEvent, Booking, BookingStatus, Breach
from tripcortex.model.policies import patterns
from tripcortex.model.policies.rules import StoredRule
from tripcortex.policies.rule_review import Decider, SeenRule, confirm, edit, list_rules, reject
from tripcortex.policies.rule_trials import parse_trips, try_trips

DAYS = "on 14 April returning 16 April"
ADMIN = Decider("emp-1")


def check_refused(booking: Booking, code: str, file_name: str) -> Breach:
    """Check that the booking failed by one hard breach cited by this file; return the breach."""
    assert booking.status is BookingStatus.failed and booking.failure is not None
    [breach] = booking.failure.breaches
    assert (breach.code, breach.severity) == (code, "hard")
    assert breach.citation is not None and breach.citation.file_name == file_name
    return breach


async def find_rule(trip: Bench, effect: Effect, words: str) -> StoredRule:
    """Return the rule of a serving policy with this effect and these words in its quote."""
    found = [
        rule
        for policy in await trip.stores.run(patterns.policies())
        for rule in await list_rules(trip.stores, policy.id)
        if rule.origin == "document" and rule.rule["effect"] == effect and words in (rule.quote or "")
    ]
    assert len(found) == 1, found
    return found[0]


def see(rule: StoredRule) -> SeenRule:
    return SeenRule(UUID(str(rule.policy_id)), rule.rule_id, rule.version)


@pytest.mark.proves("TC-92", "TC-64")
async def test_the_stricter_of_two_policies_applies() -> None:
    async with open_bench(company="two policies") as trip:
        booking = await trip.request_options(f"Book me a Spirit flight to Las Vegas {DAYS}, window seat")
        assert booking.status is BookingStatus.options_presented and booking.booking_plan is not None
        assert booking.booking_plan.policy_constraints.max_budget_usd == 700
        assert "I did not use: “window seat”." in booking.notes
        [note] = [each for each in booking.notes if each.startswith("Spirit Airlines is prohibited (")]
        assert REGION_FILE in note
        assert len(set(booking.notes)) == len(booking.notes)
        assert all(each.carrier != "NK" for each in booking.flight_options)
        [judged] = [each for each in await trip.trail(booking) if each.event is AuditEvent.plan_validation]
        assert (judged.output["verdict"], judged.output["uncovered"]) == ("allowed", [])
        assert {each["policy"] for each in judged.output["cited"]} >= {"northwind.pdf"}
        assert (await trip.list_messages())[-1].body["notes"] == booking.notes


@pytest.mark.proves("TC-92")
async def test_refuses_a_prohibited_destination_with_its_policy() -> None:
    async with open_bench(company="two policies") as trip:
        booking = await trip.request_options(f"Book me a flight to Moscow {DAYS}")
        check_refused(booking, "destination_prohibited", REGION_FILE)


@pytest.mark.proves("TC-92")
async def test_a_proposal_decides_only_after_an_administrator_confirmed_it() -> None:
    sentence = f"Book me a first class flight to Chicago {DAYS}"
    async with open_bench(company="under review") as trip:
        rule = await find_rule(trip, Effect.cabin_outcome, "First class is never booked")
        before = await trip.request_options(sentence)
        assert before.status is BookingStatus.options_presented
        await trip.cancel(before)

        confirmed = await confirm(trip.stores, see(rule), ADMIN)
        breach = check_refused(await trip.request_options(sentence), "cabin_above_policy", REGION_FILE)
        assert breach.citation is not None and breach.citation.source_page == 7
        assert "First class is never booked" in (breach.citation.quote or "")

        await reject(trip.stores, see(confirmed), ADMIN)
        assert (await trip.request_options(sentence)).status is BookingStatus.options_presented


async def test_a_trip_without_confirmed_rules_needs_an_approval() -> None:
    async with open_bench(company="text only") as trip:
        booking = await trip.request_options(f"Book me a flight to Chicago {DAYS}")
        assert booking.status is BookingStatus.options_presented
        assert {each.verdict for each in booking.flight_options} == {"approval"}
        assert all(each.needs_approval for each in booking.flight_options)
        [judged] = [each for each in await trip.trail(booking) if each.event is AuditEvent.plan_validation]
        assert judged.output["verdict"] == "approval" and "cabin" in judged.output["uncovered"]


async def test_an_employee_of_unknown_level_gets_no_permission_of_a_level() -> None:
    async with open_bench(company="levels under review") as trip:
        rule = await find_rule(trip, Effect.max_cabin, "Business class is allowed")
        scope = {"cabin": "business", "scope": {"levels": ["Director"]}, "is_complete": True}
        await edit(trip.stores, see(rule), scope, ADMIN)
        sentence = f"Book me a business class flight to Chicago {DAYS}"
        booking = await trip.request_options(sentence)
        assert {each.verdict for each in booking.flight_options} == {"approval"}
        await trip.cancel(booking)

        async def find_level(stores: object, employee_id: object) -> str:
            return "Director"

        director = trip.with_dependencies(find_level=find_level)
        judged = await director.request_options(sentence)
        cabin_breaches = [
            breach.code
            for each in judged.flight_options
            for breach in each.breaches
            if breach.code == "cabin_above_policy" or "cabin" in breach.text
        ]
        assert judged.flight_options and cabin_breaches == []


@pytest.mark.parametrize("days", [DAYS, "on 20 March returning 22 March"])
async def test_the_dry_run_gives_the_verdict_that_the_flow_gives(days: str) -> None:
    async with open_bench(company="two policies") as trip:
        booking = await trip.request_options(f"Book me a flight to Denver {days}")
        assert booking.booking_plan is not None and booking.flight_options
        today = BEGAN.date()
        sent = [
            json.loads(build_option_trip(each, booking.booking_plan, today).model_dump_json())
            for each in booking.flight_options
        ]
        for option, tried in zip(
            booking.flight_options, await try_trips(trip.stores, parse_trips(sent, today)), strict=True
        ):
            assert tried.now.verdict == option.verdict
            assert list(tried.now.breaches) == option.breaches
            assert list(tried.now.citations) == option.citations
