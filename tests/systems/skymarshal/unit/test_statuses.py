"""Unit tests of the status enums: accepted spellings, risk ranks, MEL days, handling codes and positions."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymarshal.domain.statuses import (
    OTHER_SPELLINGS,
    BaggageStatus,
    BookingStatus,
    CargoSpecialHandling,
    CrewPosition,
    CrewStatus,
    DisruptionKind,
    LoadingStatus,
    MelCategory,
    NormalisedEnum,
    ReputationRisk,
    WorkOrderStatus,
    compute_repair_due,
    encode_risk_rank,
    parse_risk_rank,
)
from tests.cases import all_cases

KINDS: list[type[NormalisedEnum]] = [
    BookingStatus,
    BaggageStatus,
    CrewStatus,
    LoadingStatus,
    WorkOrderStatus,
    DisruptionKind,
    CrewPosition,
    ReputationRisk,
    MelCategory,
    CargoSpecialHandling,
]


@pytest.mark.proves("SM-X13")
@all_cases(
    ("kind", "text", "stored"),
    [
        (BookingStatus, "Confirmed", "Confirmed"),
        (BookingStatus, "CONFIRMED", "Confirmed"),
        (BookingStatus, "HK", "Confirmed"),
        (BookingStatus, "waitlisted", "Waitlisted"),
        (BookingStatus, "HL", "Waitlisted"),
        (BookingStatus, "canceled", "Cancelled"),
        (BookingStatus, "checked-in", "CheckedIn"),
        (BookingStatus, "no show", "NoShow"),
        (BaggageStatus, "CheckedIn", "CHECKED_IN"),
        (BaggageStatus, "CHECKED_IN", "CHECKED_IN"),
        (BaggageStatus, "checked-in", "CHECKED_IN"),
        (BaggageStatus, "mishandled", "MISHANDLED"),
        (LoadingStatus, "Offloaded", "OFFLOADED"),
        (LoadingStatus, "DLV", "DELIVERED"),
        (CrewStatus, "rostered", "ASSIGNED"),
        (CrewPosition, "1", "1"),
        (CrewPosition, "Captain", "1"),
        (CrewPosition, "First Officer", "2"),
        (DisruptionKind, "Cancellation", "cancel"),
        (DisruptionKind, "aircraft swap", "swap"),
        (WorkOrderStatus, "in progress", "IN_PROGRESS"),
        (CargoSpecialHandling, "avi", "AVI"),
    ],
)
def test_normalises_the_spellings_of_carriers(kind: type[NormalisedEnum], text: str, stored: str) -> None:
    assert kind(text).value == stored


@all_cases("kind", KINDS)
def test_refuses_an_unknown_spelling_and_lists_the_known_ones(kind: type[NormalisedEnum]) -> None:
    with pytest.raises(ValueError, match="expected one of") as refusal:
        kind("gone fishing")

    assert all(member.value in str(refusal.value) for member in kind)


@all_cases("kind", KINDS)
def test_no_spelling_has_two_meanings(kind: type[NormalisedEnum]) -> None:
    others = [other.lower() for entry in OTHER_SPELLINGS.get(kind, {}).values() for other in entry.split()]

    assert len(others) == len(set(others))
    assert not set(others) & {member.value.replace("_", "").lower() for member in kind}


@all_cases("kind", OTHER_SPELLINGS)
def test_every_other_spelling_belongs_to_an_existing_member(kind: type[NormalisedEnum]) -> None:
    assert set(OTHER_SPELLINGS[kind]) <= {member.value for member in kind}


@given(st.sampled_from([member for kind in KINDS for member in kind]), st.sampled_from(["-", "_", " ", ""]))
def test_case_and_separators_never_matter(word: NormalisedEnum, separator: str) -> None:
    written = word.name.replace("_", separator)

    assert type(word)(written.lower()) is word
    assert type(word)(written.upper()) is word


@pytest.mark.proves("SM-X15")
def test_risk_ranks_sort_from_high_to_low() -> None:
    assert sorted(encode_risk_rank(risk) for risk in ("LOW", "high", "Medium")) == [
        "1#HIGH",
        "2#MEDIUM",
        "3#LOW",
    ]


@given(st.sampled_from(ReputationRisk))
def test_risk_is_restored_from_its_rank(risk: ReputationRisk) -> None:
    assert parse_risk_rank(encode_risk_rank(risk)) is risk


@all_cases("rank", ["2#HIGH", "HIGH", "1#", "1#GRAVE"])
def test_refuses_a_contradictory_rank(rank: str) -> None:
    with pytest.raises(ValueError, match=r"risk_rank|expected one of"):
        parse_risk_rank(rank)


def test_bags_are_tracked_at_the_four_points_of_resolution_753() -> None:
    points = [status.tracking_point for status in BaggageStatus]

    assert [point for point in points if point] == ["acceptance", "load", "transfer", "return"]


def test_only_confirmed_checked_in_and_boarded_bookings_hold_a_seat() -> None:
    assert {status.value for status in BookingStatus if status.has_seat} == {
        "Confirmed",
        "CheckedIn",
        "Boarded",
    }


def test_organs_have_the_first_priority_and_general_cargo_the_last() -> None:
    order = sorted(CargoSpecialHandling, key=lambda code: code.priority)

    assert [code.value for code in order[:4]] == ["LHO", "HUM", "AVI", "PIL"]
    assert order[-1] is CargoSpecialHandling.GEN
    assert not CargoSpecialHandling.GEN.is_special
    assert all(code.meaning for code in CargoSpecialHandling)


@all_cases(
    ("category", "due"),
    [("A", None), ("B", date(2026, 1, 4)), ("C", date(2026, 1, 11)), ("d", date(2026, 5, 1))],
)
def test_repair_is_due_as_many_days_later_as_its_mel_category_allows(category: str, due: date | None) -> None:
    assert compute_repair_due(category, date(2026, 1, 1)) == due


def test_deferred_and_closed_work_does_not_hold_the_aircraft() -> None:
    held = [status.value for status in WorkOrderStatus if status.is_grounding]

    assert held == ["OPEN", "IN_PROGRESS", "AWAITING_PARTS"]


def test_positions_have_labels_and_know_the_flight_deck() -> None:
    assert CrewPosition("2").label == "First officer"
    assert not CrewPosition("purser").is_flight_deck
