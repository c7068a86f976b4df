"""The initial project of the Jira sandbox: MCU, with 47 tickets, three sprints and two versions.

All data is invented. Dates are relative to the creation, so that a demo is always in the middle of a sprint.
22 tickets are to do, 8 in progress, 12 done in this sprint and 5 blocked; the sprint has 34 points.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast_demo.agenticpm.sandbox.jira_data import JiraData

PROJECT: Final = "MCU"
FIRST_NUMBER: Final = 110
PEOPLE: Final = ("Sarah K", "Damien", "Priya N", "Tom W")
CRITERIA: Final = "Acceptance criteria:\n\nThe change is shown on the profile page, and is covered by a test."
# Number of tickets per priority.
PRIORITIES: Final = {"Highest": 2, "High": 11, "Medium": 24, "Low": 10}
DONE: Final = (
    "Profile data model",
    "Read the profile by id",
    "Write the profile",
    "Upload of a picture",
    "Cut a picture to a square",
    "Show the name of the employer",
    "Validate the phone number",
    "Translate the form",
    "Audit of profile changes",
    "Remove the old profile table",
    "Migrate pictures to the bucket",
    "Profile in the navigation",
)
DONE_POINTS: Final = (3, 2, 2, 2, 1, 1, 2, 1, 2, 1, 3, 1)
IN_PROGRESS: Final = (
    "Migrate profiles in batches",
    "Compare old and new profiles",
    "Search by name",
    "Cache of profiles",
    "Empty states of the profile",
    "Rate limit of the upload",
    "Dashboard of the migration",
    "Rollback of a batch",
)
IN_PROGRESS_POINTS: Final = (3, 2, 1, 1, 1, None, None, None)
# Number, title, points, and the kind of block: "status", "flag", or "link" to another ticket.
BLOCKED: Final = (
    (142, "Profile page redesign", 3, "flag"),
    (143, "Icons of the profile page", 1, "status"),
    (144, "Single sign-on for partners", 1, "status"),
    (145, "Export of a profile", None, "link"),
    (146, "Notify on profile change", None, "status"),
)
TO_DO: Final = {
    155: "Implement LinkedIn import",
    156: "Move from the API of vendor A to vendor B",
}
TO_DO_TITLES: Final = (
    "Merge two profiles",
    "Delete a profile",
    "Profile badges",
    "Skills of a profile",
    "Endorsements",
    "Public address of a profile",
    "Who viewed a profile",
    "Dark colours",
    "Keyboard use of the form",
    "Print a profile",
    "Import of a CV",
    "Languages of a profile",
    "Privacy settings",
    "Consent for pictures",
    "Weekly summary by mail",
    "Webhook for changes",
    "Bulk edit for administrators",
    "Load test of the search",
    "Handbook for support",
    "Retire the old form",
)


@dataclass
class _PastClock:
    """A clock set to a moment in the past, for writing the history."""

    at: datetime

    def now(self) -> float:
        return self.at.timestamp()


def add_sample(data: JiraData) -> None:
    """Add the project MCU in its current state, with its history, dated back from the clock."""
    clock, now = data.clock, datetime.fromtimestamp(data.clock.now(), UTC)
    past = _PastClock(now)
    data.clock = past
    try:
        _create_project(data, past, now)
    finally:
        data.clock = clock


def _create_project(data: JiraData, past: _PastClock, now: datetime) -> None:
    """Create the project, its sprints, versions and tickets, and the history of the work."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    data.add_project(PROJECT, "Member Centre Upgrade")
    begun, ends = today - timedelta(days=1), today + timedelta(days=10)
    data.add_sprint(
        "Sprint 11", "closed", today - timedelta(days=15), today - timedelta(days=4), "Profile basics"
    )
    data.add_sprint("Sprint 12", "active", begun, ends, "Complete user profile migration")
    data.add_sprint("Sprint 13", "future", today + timedelta(days=13), today + timedelta(days=24))
    launch, closing = (today + timedelta(days=39)).date(), (today - timedelta(days=4)).date()
    data.put_version(PROJECT, "Alpha", releaseDate=closing.isoformat(), released=True)
    about = "Dependent on the API migration"
    data.put_version(PROJECT, "Beta launch", releaseDate=launch.isoformat(), description=about)
    for number, title in _list_tickets().items():
        past.at = today - timedelta(days=30) + timedelta(hours=number - FIRST_NUMBER)
        described = None if number == min(TO_DO) else f"As a member I want this: {title}.\n\n{CRITERIA}"
        assignee = PEOPLE[number % len(PEOPLE)]
        version = "Beta launch" if number % 3 == 0 else None
        data.create(
            PROJECT, title, number=number, description=described, assignee=assignee, version=version,
            priority=_choose_priority(number),
        )  # fmt: skip
    _simulate_work(data, past, begun, now)


def _simulate_work(data: JiraData, past: _PastClock, sprint_start: datetime, now: datetime) -> None:
    """Add the history: the sprint is planned, work begins, ends and is blocked."""
    numbers = iter(range(FIRST_NUMBER, FIRST_NUMBER + len(DONE) + len(IN_PROGRESS)))
    step = (now - sprint_start) / 100
    for points, number in zip((*DONE_POINTS, *IN_PROGRESS_POINTS), numbers, strict=True):
        is_done = number < FIRST_NUMBER + len(DONE)
        past.at = sprint_start - timedelta(hours=20) + timedelta(minutes=number)
        data.edit(f"{PROJECT}-{number}", by="Damien", sprint="Sprint 12", points=points)
        past.at = sprint_start - timedelta(days=4 if is_done else 0) + step * (number - FIRST_NUMBER + 1)
        data.edit(f"{PROJECT}-{number}", by="Tom W", status="In Progress")
        if is_done:
            past.at = sprint_start + step * (40 + number - FIRST_NUMBER)
            data.edit(f"{PROJECT}-{number}", by="Tom W", status="Done")
    for number, _, points, how in BLOCKED:
        past.at = sprint_start + step * (number - 80)
        data.edit(f"{PROJECT}-{number}", by="Damien", sprint="Sprint 12", points=points, status="In Progress")
        past.at += step
        if how == "link":
            data.link(f"{PROJECT}-{FIRST_NUMBER + len(DONE)}", f"{PROJECT}-{number}", by="Sarah K")
        else:
            change = {"flagged": True} if how == "flag" else {"status": "Blocked"}
            data.edit(f"{PROJECT}-{number}", by="Sarah K", **change)


def _list_tickets() -> dict[int, str]:
    """Return the title of every ticket by number."""
    named = {number: title for number, title, *_ in BLOCKED} | TO_DO
    for number, title in enumerate((*DONE, *IN_PROGRESS), FIRST_NUMBER):
        named[number] = title
    free = (number for number in range(FIRST_NUMBER, max(TO_DO) + 1) if number not in named)
    named.update(zip(free, TO_DO_TITLES, strict=True))
    return dict(sorted(named.items()))


def _choose_priority(number: int) -> str:
    """Return the priority of a ticket by its number.

    Priorities are spread so that the shares are kept and every status has several.
    """
    spread = [name for name, share in PRIORITIES.items() for _ in range(share)]
    return spread[(number - FIRST_NUMBER) * 5 % len(spread)]
