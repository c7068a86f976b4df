"""The review of a project: each signal with what looks like it and is none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.review.findings import ReviewKind
from agenticpm.domain.review.forecast import Completion, back_test, forecast_chance, list_weeks
from agenticpm.domain.review.names import is_waiting_status, judge_priority
from agenticpm.domain.review.records import (
    Blocker,
    Change,
    Comment,
    Mail,
    Person,
    ProjectRecord,
    Version,
    WorkItem,
)
from agenticpm.domain.review.review import Review, review
from agenticpm.domain.tickets import Priority, Sprint, TicketStage

NOW = datetime(2026, 3, 10, 10, tzinfo=UTC)
DAY = timedelta(days=1)
ANN, BEN, BOT = Person("a", "Ann"), Person("b", "Ben"), Person("c", "Build Bot", is_bot=True)
DOING, TO_DO, DONE = TicketStage.in_progress, TicketStage.to_do, TicketStage.done
STAGES = {"to do": TO_DO, "in progress": DOING, "done": DONE}
SPRINT = Sprint(id="9", name="Sprint 9", starts_at=NOW - 5 * DAY, ends_at=NOW + 5 * DAY)


def build_item(key: str = "ABC-1", **values: Any) -> WorkItem:
    base = WorkItem(
        key, "Sort the list", "Task", "In Progress", DOING, NOW - 30 * DAY, NOW - DAY, assignee=ANN
    )
    return replace(base, **values)


def run(
    *items: WorkItem, sprints: tuple[Sprint, ...] = (), mails: tuple[Mail, ...] = (), **options: Any
) -> Review:
    return review(ProjectRecord(items, sprints, mails, STAGES), NOW, **options)


def list_kinds(*items: WorkItem, **options: Any) -> list[str]:
    return [each.kind.value for each in run(*items, **options).signals]


def comment(text: str, *, days: int = 1, by: Person = ANN) -> Comment:
    return Comment(NOW - days * DAY, by, text)


def done_item(number: int, days: float, **values: Any) -> WorkItem:
    at = NOW - timedelta(days=days)
    return build_item(f"ABC-{number}", status="Done", stage=DONE, resolved_at=at, updated_at=at, **values)


def move(before: str, after: str, days: float) -> Change:
    return Change(NOW - timedelta(days=days), ANN, "status", before, after)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ({"due": date(2026, 3, 9)}, ["overdue"]),
        ({"due": date(2026, 3, 12)}, ["due_soon"]),
        ({"due": date(2026, 3, 14)}, []),
        ({"due": date(2026, 3, 9), "status": "Done", "stage": DONE}, []),
        ({"assignee": None, "priority": "High"}, ["unassigned"]),
        ({"assignee": None, "priority": "Medium"}, []),
        ({"status": "Waiting for vendor"}, ["on_hold"]),
        ({"status": "Parked"}, ["on_hold"]),
        ({"status": "Zurückgestellt"}, ["on_hold"]),
        ({"status": "Waiting for review"}, []),
        ({"updated_at": NOW - 9 * DAY}, ["stale"]),
        ({"updated_at": NOW - 90 * DAY, "status": "To Do", "stage": TO_DO}, []),
        ({"updated_at": NOW - 90 * DAY, "is_epic": True}, []),
        ({"is_flagged": True}, ["blocked"]),
        ({"labels": ("blocked",)}, ["blocked"]),
        ({"labels": ("unblocked",)}, []),
        ({"blockers": (Blocker("ABC-2", False),)}, ["blocked"]),
        ({"blockers": (Blocker("ABC-2", True),)}, []),
        ({"comments": (comment("Blocked by the firewall."),)}, ["blocked"]),
        ({"comments": (comment("No longer blocked by the firewall."),)}, []),
        ({"type": "Incident"}, ["incident"]),
        ({"type": "Bug", "title": "Orders fail in production"}, ["incident"]),
        ({"type": "Bug", "title": "Orders fail on staging, not in production"}, []),
        ({"type": "Story", "title": "List of production incidents"}, []),
        ({"changes": (move("In Progress", "Done", 9), move("Done", "In Progress", 2))}, ["reopened"]),
        ({"changes": (move("In Progress", "Done", 2.001), move("Done", "In Progress", 2))}, []),
    ],
)
def test_finds_what_a_ticket_needs_and_nothing_else(values: dict[str, Any], kinds: list[str]) -> None:
    assert list_kinds(build_item(**values)) == kinds


def test_a_program_does_not_make_a_stale_ticket_fresh() -> None:
    news = (comment("Looking at it.", days=12), comment("Build passed.", by=BOT))
    assert list_kinds(build_item(comments=news)) == ["stale"]
    assert list_kinds(build_item(comments=(*news, comment("Half done.")))) == []


def test_a_later_comment_ends_a_block() -> None:
    said = comment("We are blocked by the bank.", days=3)
    assert list_kinds(build_item(comments=(said,))) == ["blocked"]
    assert list_kinds(build_item(comments=(said, comment("The bank has confirmed.")))) == []


def test_asks_only_stories_of_the_sprint_for_criteria() -> None:
    story = build_item(type="Story", sprints=("9",))
    assert list_kinds(story, sprints=(SPRINT,)) == ["no_acceptance_criteria"]
    assert list_kinds(replace(story, description="AC: sorted"), sprints=(SPRINT,)) == []
    assert list_kinds(replace(story, has_checklist=True), sprints=(SPRINT,)) == []
    assert list_kinds(replace(story, sprints=()), sprints=(SPRINT,)) == []


def test_finds_one_person_with_far_more_than_the_others() -> None:
    many = [build_item(f"ABC-{number}") for number in range(10, 16)]
    assert list_kinds(*many, build_item("ABC-1", assignee=BEN)) == ["overloaded"]
    assert list_kinds(*many, *[replace(each, key=f"X-{each.key}", assignee=BEN) for each in many]) == []


def test_finds_a_sprint_that_should_have_ended() -> None:
    ended = SPRINT.model_copy(update={"ends_at": NOW - DAY})
    assert list_kinds(build_item(sprints=("9",)), sprints=(ended,)) == ["sprint_ended"]
    assert list_kinds(done_item(1, 2, sprints=("9",)), sprints=(ended,)) == []


def build_past() -> tuple[tuple[Sprint, ...], list[WorkItem]]:
    """Return three closed sprints with ten points each."""
    sprints, items = [], []
    for number in range(3):
        start = NOW - timedelta(days=19 + 14 * number)
        ends = start + 11 * DAY
        sprints.append(
            Sprint(
                id=str(number),
                name=f"Past {number}",
                state="closed",
                starts_at=start,
                ends_at=ends,
                completed_at=ends,
            )
        )
        items += [
            done_item(100 + 2 * number + each, 12 + 14 * number, sprints=(str(number),), points=Decimal(5))
            for each in range(2)
        ]
    return (*sprints, SPRINT), items


@pytest.mark.parametrize(("points", "kinds"), [(20, ["sprint_at_risk"]), (5, [])])
def test_compares_a_sprint_with_what_past_ones_did(points: int, kinds: list[str]) -> None:
    sprints, past = build_past()
    now = build_item(sprints=("9",), points=Decimal(points), created_at=NOW - 20 * DAY)
    entered = Change(NOW - 6 * DAY, ANN, "sprint", "", "Sprint 9")
    assert list_kinds(replace(now, changes=(entered,)), *past, sprints=sprints) == kinds


def test_finds_scope_added_after_the_start_unless_as_much_was_removed() -> None:
    planned = build_item(
        "ABC-1", sprints=("9",), changes=(Change(NOW - 6 * DAY, ANN, "sprint", "", "Sprint 9"),)
    )
    added = build_item(
        "ABC-2", sprints=("9",), changes=(Change(NOW - 2 * DAY, ANN, "sprint", "", "Sprint 9"),)
    )
    removed = build_item("ABC-3", changes=(Change(NOW - 2 * DAY, ANN, "sprint", "Sprint 9", ""),))
    assert list_kinds(planned, added, sprints=(SPRINT,)) == ["scope_added"]
    assert list_kinds(planned, added, removed, sprints=(SPRINT,)) == []


@pytest.mark.parametrize(("due", "health"), [(date(2026, 3, 20), "red"), (date(2026, 9, 20), "green")])
def test_a_release_out_of_reach_is_critical_and_turns_health_red(due: date, health: str) -> None:
    past = [done_item(100 + number, 3.5 * number) for number in range(12)]
    version = Version("2.0", due)
    left = [
        build_item(f"ABC-{number}", versions=(version,), stage=TO_DO, status="To Do")
        for number in range(1, 20)
    ]
    found = run(*past, *left)
    assert found.health == health
    assert [each.kind for each in found.signals] == [ReviewKind.milestone_at_risk] * (health == "red")


def test_a_dismissed_signal_stays_away_and_does_not_count_for_health() -> None:
    item = build_item(due=date(2026, 3, 9))
    assert run(item).health == "amber"
    found = run(item, dismissed=("overdue:ABC-1",))
    assert (found.health, found.signals) == ("green", ())


# --- forecast -----------------------------------------------------------------------------------------------


def test_a_forecast_repeats_and_grows_with_time() -> None:
    weekly = [1.0, 2.0, 3.0, 2.0]
    chances = [forecast_chance(weekly, 8, weeks * 7 * DAY) for weeks in (1, 3, 4, 9)]
    assert chances == [forecast_chance(weekly, 8, weeks * 7 * DAY) for weeks in (1, 3, 4, 9)]
    assert chances[0] == 0 and chances[-1] == 1
    assert chances == sorted(chances, key=lambda each: each or 0)


def test_no_forecast_without_history() -> None:
    assert forecast_chance([2.0, 1.0], 3, 7 * DAY) is None


def test_back_tests_forecasts_on_finished_periods() -> None:
    done = [Completion(NOW - timedelta(days=3.5 * each), 1.0) for each in range(40)]
    steady = back_test(done, [(NOW - 28 * DAY, NOW - 14 * DAY), (NOW - 14 * DAY, NOW)])
    assert (steady.periods, steady.hits) == (2, 2)
    burst = [*done, *(Completion(NOW - 2 * DAY, 1.0) for _ in range(50))]
    assert back_test(burst, [(NOW - 14 * DAY, NOW)]).hits == 0
    assert list_weeks(done, NOW)[0] == 2.0


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "scheme", "expected"),
    [
        ("P2 High", (), Priority.high),
        ("P2", ("P1", "P2", "P3"), Priority.high),
        ("P2", ("P0", "P1", "P2"), Priority.medium),
        ("Major", ("Blocker", "Major", "Minor"), Priority.medium),
        ("2 - High", (), Priority.high),
        ("Haute", (), Priority.high),
        ("Höchste", (), Priority.critical),
    ],
)
def test_judges_priorities_by_their_scheme(name: str, scheme: tuple[str, ...], expected: Priority) -> None:
    assert judge_priority(name, scheme) is expected


@pytest.mark.parametrize("name", ["In Review", "Ready for Release", "En recette", "Clinical Safety Check"])
def test_usual_steps_of_work_are_no_waiting(name: str) -> None:
    assert not is_waiting_status(name, DOING)


# --- proposals ----------------------------------------------------------------------------------------------


def list_proposals(*items: WorkItem, mails: tuple[Mail, ...] = ()) -> list[tuple[str, str | None, str]]:
    return [(each.kind.value, each.ticket, each.quote) for each in run(*items, mails=mails).proposals]


def test_proposes_from_open_tickets_only() -> None:
    risk = comment("There is a risk that the port stays closed.")
    assert list_proposals(build_item(comments=(risk,))) == [("risk", "ABC-1", risk.text)]
    assert list_proposals(build_item(comments=(risk,), status="Done", stage=DONE)) == []
    assert list_proposals(build_item(comments=(replace(risk, by=BOT),))) == []


def test_a_waiting_ticket_names_its_dependency_and_blocker() -> None:
    said = comment("We are waiting for the bank.")
    item = build_item(status="Waiting for bank", comments=(said,), blockers=(Blocker("BNK-7", False),))
    (found,) = run(item).proposals
    assert (found.kind.value, found.blocked_by, found.owner) == ("dependency", ("BNK-7",), "Ann")


def test_a_mail_that_a_later_one_settles_proposes_nothing() -> None:
    text = "There is a risk that the hall is closed."
    asked = Mail("1", "Hall", "ann@example.com", NOW - 2 * DAY, text)
    answer = Mail("2", "Re: Hall", "ben@example.com", NOW - DAY, "The hall is confirmed.", quoted=text)
    assert list_proposals(mails=(asked,)) == [("risk", None, text)]
    assert list_proposals(mails=(asked, answer)) == []
