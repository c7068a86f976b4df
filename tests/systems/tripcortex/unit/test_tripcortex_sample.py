"""Tests of the sample data at scale 1: bookings in every status, each complete and consistent."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.flows import Wait
from holdfast_demo.tripcortex.sample.policy_document import FILE_NAME
from tests.systems.tripcortex.unit.sample_company import Company, get_item_size, load_company
from tripcortex.model.entities import CONNECTION_S, Booking, BookingStatus, CircuitState, compute_audit_expiry
from tripcortex.model.load_profile import AUDIT_ENTRIES_A_BOOKING, BOOKINGS_A_YEAR, MAX_BOOKING_BYTES
from tripcortex.workers.flow import BOOKING_FLOW

# At this scale the sample is the document's year.
YEAR = 100


@pytest.fixture(scope="module")
def sample() -> Company:
    return load_company()


def list_bookings_with_audit(sample: Company) -> list[Booking]:
    """List the bookings whose audit entries have not expired."""
    kept = [each for each in sample.bookings if compute_audit_expiry(each.created_at) > datetime.now(UTC)]
    assert len(kept) > len(sample.bookings) / 2
    return kept


def test_bookings_cover_every_status_and_flow_state(sample: Company) -> None:
    assert {each.status for each in sample.bookings} == set(BookingStatus)
    # An approved flight that became dearer is rare, and the sample has no room for one.
    assert {each.flow_state for each in sample.bookings} == BOOKING_FLOW.states.keys() - {"repriced"}
    assert all(BOOKING_FLOW.states[each.flow_state].shown_as is each.status for each in sample.bookings)


@pytest.mark.proves("TC-71")
def test_a_hundred_times_the_sample_is_the_documents_year(sample: Company) -> None:
    assert len(sample.bookings) * YEAR == BOOKINGS_A_YEAR
    assert max(map(get_item_size, sample.bookings)) < MAX_BOOKING_BYTES


@pytest.mark.proves("TC-79")
def test_ended_booking_has_about_twelve_entries_under_a_kilobyte(sample: Company) -> None:
    counts = Counter(each.booking_id for each in sample.entries)
    of_ended = [counts[each.booking_id] for each in list_bookings_with_audit(sample) if each.is_ended]
    sizes = list(map(get_item_size, sample.entries))
    assert 6 <= min(of_ended) <= max(of_ended) <= 15
    assert sum(of_ended) / len(of_ended) == pytest.approx(AUDIT_ENTRIES_A_BOOKING, abs=1)
    assert sum(sizes) / len(sizes) < 1_000


@pytest.mark.proves("TC-2")
def test_tables_share_employee_and_booking_ids_and_cite_policy_chunks(sample: Company) -> None:
    keys = {(each.employee_id, each.booking_id) for each in sample.bookings}
    cited = {cite.chunk_id for each in sample.bookings for cite in each.passages}
    assert {(each.employee_id, each.booking_id) for each in sample.entries} <= keys
    assert {(each.employee_id, each.reference) for each in sample.calls} <= keys
    assert cited
    assert cited == sample.chunk_ids


def test_only_employees_with_an_active_booking_have_a_marker(sample: Company) -> None:
    under_way = {(each.employee_id, each.booking_id) for each in sample.bookings if not each.is_ended}
    assert {(each.employee_id, each.booking_id) for each in sample.markers} == under_way
    assert len({employee for employee, _ in under_way}) == len(under_way)


def test_only_active_bookings_have_a_matching_flow_execution(sample: Company) -> None:
    bookings = {BOOKING_FLOW.key_text(each): each for each in sample.bookings if not each.is_ended}
    assert {each.key for each in sample.executions} == bookings.keys()
    for place in sample.executions:
        booking = bookings[place.key]
        assert (place.state, place.version) == (booking.flow_state, booking.version)
        if isinstance(BOOKING_FLOW.states[place.state].action, Wait):
            assert place.due == booking.flow_due


def test_every_wait_can_be_answered(sample: Company) -> None:
    assert {state: each.flow_state for state, each in sample.answers.items()} == {
        "asking": "retrieved",
        "options_presented": "user_selected",
        "approving": "user_selected",
    }


@pytest.mark.proves("TC-X22")
def test_confirmed_bookings_are_paid_and_failed_ones_have_a_reason(sample: Company) -> None:
    for each in sample.bookings:
        if each.status is BookingStatus.confirmed:
            assert each.selected_option in each.flight_options
            assert each.confirmation_number and each.e_ticket_number and each.paid_usd
        elif each.is_ended:
            assert each.failure is not None
            assert each.failure.text


def test_audit_entries_are_in_order_and_within_the_bookings_life(sample: Company) -> None:
    for booking in list_bookings_with_audit(sample):
        trail = sorted(
            (each for each in sample.entries if each.booking_id == booking.booking_id),
            key=lambda each: each.audit_id,
        )
        times = [each.timestamp for each in trail]
        assert times == sorted(times)
        assert all(booking.created_at <= each for each in times)
        if booking.is_ended:
            assert times[-1] <= booking.updated_at + timedelta(seconds=1)


def test_every_wait_has_a_message(sample: Company) -> None:
    assert sorted(each.kind for each in sample.messages) == ["approval", "options", "question"]


@pytest.mark.proves("TC-56")
def test_has_fewer_than_500_connections_of_about_200_bytes(sample: Company) -> None:
    ages = {each.connected_at for each in sample.connections}
    assert 0 < len(sample.connections) < 500
    assert max(map(get_item_size, sample.connections)) <= 200
    assert max(ages) - min(ages) < timedelta(seconds=CONNECTION_S)


def test_the_circuit_of_the_portal_is_closed(sample: Company) -> None:
    assert [each.state for each in sample.circuits] == [CircuitState.closed]


@pytest.mark.proves("TC-99")
def test_one_policy_of_50_to_200_chunks_is_active(sample: Company) -> None:
    [policy] = sample.policies
    assert (policy.file_name, policy.serves) == (FILE_NAME, True)
    assert 50 <= (policy.total_chunks or 0) <= 200


@pytest.mark.proves("TC-102")
def test_a_handbook_serves_next_to_the_main_policy(sample: Company) -> None:
    assert sample.serving_with_a_handbook == 2


def test_a_second_run_adds_nothing(sample: Company) -> None:
    assert sample.added_by_a_second_run == 0


def test_progress_only_grows_and_never_exceeds_the_total(sample: Company) -> None:
    done = [rows for _, rows, _ in sample.progress]
    assert {what for what, _, _ in sample.progress} == {"policies", "bookings", "connections", "circuit"}
    assert done == sorted(done)
    assert all(rows <= whole for _, rows, whole in sample.progress)
