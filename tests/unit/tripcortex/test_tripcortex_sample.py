"""The sample: bookings in every status, each with all that belongs to it, and nothing that does not."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.flows import Wait
from tests.unit.tripcortex.sampled_company import Company, company, size_of
from tripcortex.demo.sample.policy_document import FILE_NAME
from tripcortex.model.entities import CONNECTION_S, Booking, BookingStatus, CircuitState, compute_audit_expiry
from tripcortex.model.load_profile import AUDIT_ENTRIES_A_BOOKING, BOOKING_BYTES_MAX, BOOKINGS_A_YEAR
from tripcortex.workers.flow import BOOKING_FLOW

# At this scale it is the document's year.
YEAR = 100


@pytest.fixture(scope="module")
def found() -> Company:
    return company()


def _with_audit(found: Company) -> list[Booking]:
    """All but those of the document's day, once their audit is over."""
    kept = [each for each in found.bookings if compute_audit_expiry(each.created_at) > datetime.now(UTC)]
    assert len(kept) > len(found.bookings) / 2
    return kept


def test_there_are_bookings_in_every_status_and_in_every_state_of_the_flow(found: Company) -> None:
    assert {each.status for each in found.bookings} == set(BookingStatus)
    assert {each.flow_state for each in found.bookings} == BOOKING_FLOW.states.keys()
    assert all(BOOKING_FLOW.states[each.flow_state].shown_as is each.status for each in found.bookings)


@pytest.mark.proves("TC-71")
def test_a_hundred_times_the_sample_is_the_documents_year(found: Company) -> None:
    assert len(found.bookings) * YEAR == BOOKINGS_A_YEAR
    assert max(map(size_of, found.bookings)) < BOOKING_BYTES_MAX


@pytest.mark.proves("TC-79")
def test_a_booking_that_is_over_has_about_twelve_entries_of_under_a_kilobyte(found: Company) -> None:
    counts = Counter(each.booking_id for each in found.entries)
    of_ended = [counts[each.booking_id] for each in _with_audit(found) if each.is_ended]
    sizes = list(map(size_of, found.entries))

    assert 6 <= min(of_ended) <= max(of_ended) <= 15
    assert sum(of_ended) / len(of_ended) == pytest.approx(AUDIT_ENTRIES_A_BOOKING, abs=1)
    assert sum(sizes) / len(sizes) < 1_000


@pytest.mark.proves("TC-2")
def test_tables_are_joined_by_the_ids_of_employee_and_booking_and_to_policies_by_pointers(
    found: Company,
) -> None:
    keys = {(each.employee_id, each.booking_id) for each in found.bookings}
    cited = {cite.chunk_id for each in found.bookings for cite in each.passages}

    assert {(each.employee_id, each.booking_id) for each in found.entries} <= keys
    assert {(each.employee_id, each.reference) for each in found.calls} <= keys
    assert cited
    assert cited == found.chunk_ids


def test_exactly_the_employees_with_a_booking_under_way_have_a_marker(found: Company) -> None:
    under_way = {(each.employee_id, each.booking_id) for each in found.bookings if not each.is_ended}

    assert {(each.employee_id, each.booking_id) for each in found.markers} == under_way
    assert len({employee for employee, _ in under_way}) == len(under_way)


def test_exactly_the_bookings_under_way_have_a_place_in_the_flow_as_the_booking_says(found: Company) -> None:
    bookings = {BOOKING_FLOW.key_text(each): each for each in found.bookings if not each.is_ended}

    assert {each.key for each in found.places} == bookings.keys()
    for place in found.places:
        booking = bookings[place.key]
        assert (place.state, place.version) == (booking.flow_state, booking.version)
        if isinstance(BOOKING_FLOW.states[place.state].action, Wait):
            assert place.due == booking.flow_due


def test_who_is_waited_for_can_answer(found: Company) -> None:
    assert {state: each.flow_state for state, each in found.answered.items()} == {
        "asking": "retrieved",
        "options_presented": "user_selected",
        "approving": "user_selected",
    }


@pytest.mark.proves("TC-X22")
def test_what_is_confirmed_was_chosen_and_paid_and_what_failed_says_why(found: Company) -> None:
    for each in found.bookings:
        if each.status is BookingStatus.confirmed:
            assert each.selected_option in each.flight_options
            assert each.confirmation_number and each.e_ticket_number and each.paid_usd
        elif each.is_ended:
            assert each.failure is not None
            assert each.failure.text


def test_what_happened_of_a_booking_is_in_order_and_within_its_life(found: Company) -> None:
    for booking in _with_audit(found):
        trail = sorted(
            (each for each in found.entries if each.booking_id == booking.booking_id),
            key=lambda each: each.audit_id,
        )
        times = [each.timestamp for each in trail]
        assert times == sorted(times)
        assert all(booking.created_at <= each for each in times)
        if booking.is_ended:
            assert times[-1] <= booking.updated_at + timedelta(seconds=1)


def test_those_waited_for_have_a_message_that_says_so(found: Company) -> None:
    assert sorted(each.kind for each in found.messages) == ["approval", "options", "question"]


@pytest.mark.proves("TC-56")
def test_fewer_than_500_are_connected_each_a_row_of_about_200_bytes(found: Company) -> None:
    ages = {each.connected_at for each in found.connections}

    assert 0 < len(found.connections) < 500
    assert max(map(size_of, found.connections)) <= 200
    assert max(ages) - min(ages) < timedelta(seconds=CONNECTION_S)


def test_the_circuit_of_the_portal_is_closed(found: Company) -> None:
    assert [each.state for each in found.circuits] == [CircuitState.closed]


@pytest.mark.proves("TC-99")
def test_one_policy_of_50_to_200_chunks_serves(found: Company) -> None:
    [policy] = found.policies

    assert (policy.file_name, policy.serves) == (FILE_NAME, True)
    assert 50 <= (policy.total_chunks or 0) <= 200


@pytest.mark.proves("TC-102")
def test_another_policy_serves_beside_it_without_any_change_of_keys(found: Company) -> None:
    assert found.serving_with_a_handbook == 2


def test_a_second_run_adds_nothing(found: Company) -> None:
    assert found.added_by_a_second_run == 0


def test_progress_is_told_up_to_the_end(found: Company) -> None:
    done = [rows for _, rows, _ in found.told]

    assert {what for what, _, _ in found.told} == {"policies", "bookings", "connections", "circuit"}
    assert done == sorted(done)
    assert all(rows <= whole for _, rows, whole in found.told)
