"""The project that the Jira sandbox begins with: MCU, with forty-seven tickets, three sprints and two versions.

All of it is made up. Dates stand around the moment of making, so that a demo is always in the middle of a sprint. There are
22 tickets to do, 8 in progress, 12 done in this sprint and 5 blocked; the sprint has 34 points.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from agenticpm.sandbox.jira_desk import JiraDesk

PROJECT: Final = "MCU"
FIRST_NUMBER: Final = 110
PEOPLE: Final = ("Sarah K", "Damien", "Priya N", "Tom W")
CRITERIA: Final = "Acceptance criteria:\n\nThe change is shown on the profile page, and is covered by a test."
# How many of the tickets have which priority.
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
DOING: Final = (
    "Migrate profiles in batches",
    "Compare old and new profiles",
    "Search by name",
    "Cache of profiles",
    "Empty states of the profile",
    "Rate limit of the upload",
    "Dashboard of the migration",
    "Rollback of a batch",
)
DOING_POINTS: Final = (3, 2, 1, 1, 1, None, None, None)
# Title, points, and what blocks it: "status", "flag", or another ticket.
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
TO_DO_PLAIN: Final = (
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
class _Past:
    """A clock that stands at a moment of the past, while the past is written down."""

    at: datetime

    def now(self) -> float:
        return self.at.timestamp()


def add_sample(desk: JiraDesk) -> None:
    """The project as it is now, with how it came to be."""
    clock, now = desk.clock, datetime.fromtimestamp(desk.clock.now(), UTC)
    past = _Past(now)
    desk.clock = past
    try:
        _write(desk, past, now)
    finally:
        desk.clock = clock


def _write(desk: JiraDesk, past: _Past, now: datetime) -> None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    desk.add_project(PROJECT, "Member Centre Upgrade")
    begun, ends = today - timedelta(days=1), today + timedelta(days=10)
    desk.add_sprint(
        "Sprint 11", "closed", today - timedelta(days=15), today - timedelta(days=4), "Profile basics"
    )
    desk.add_sprint("Sprint 12", "active", begun, ends, "Complete user profile migration")
    desk.add_sprint("Sprint 13", "future", today + timedelta(days=13), today + timedelta(days=24))
    launch, closing = (today + timedelta(days=39)).date(), (today - timedelta(days=4)).date()
    desk.put_version(PROJECT, "Alpha", releaseDate=closing.isoformat(), released=True)
    about = "Dependent on the API migration"
    desk.put_version(PROJECT, "Beta launch", releaseDate=launch.isoformat(), description=about)
    for number, title in _tickets().items():
        past.at = today - timedelta(days=30) + timedelta(hours=number - FIRST_NUMBER)
        described = None if number == min(TO_DO) else f"As a member I want this: {title}.\n\n{CRITERIA}"
        assignee = PEOPLE[number % len(PEOPLE)]
        version = "Beta launch" if number % 3 == 0 else None
        desk.create(
            PROJECT, title, number=number, description=described, assignee=assignee, version=version,
            priority=_priority(number),
        )  # fmt: skip
    _lived(desk, past, begun, now)


def _lived(desk: JiraDesk, past: _Past, begun: datetime, now: datetime) -> None:
    """What happened since: the sprint was planned, work was begun, done and blocked."""
    numbers = iter(range(FIRST_NUMBER, FIRST_NUMBER + len(DONE) + len(DOING)))
    step = (now - begun) / 100
    for points, number in zip((*DONE_POINTS, *DOING_POINTS), numbers, strict=True):
        is_done = number < FIRST_NUMBER + len(DONE)
        past.at = begun - timedelta(hours=20) + timedelta(minutes=number)
        desk.edit(f"{PROJECT}-{number}", by="Damien", sprint="Sprint 12", points=points)
        past.at = begun - timedelta(days=4 if is_done else 0) + step * (number - FIRST_NUMBER + 1)
        desk.edit(f"{PROJECT}-{number}", by="Tom W", status="In Progress")
        if is_done:
            past.at = begun + step * (40 + number - FIRST_NUMBER)
            desk.edit(f"{PROJECT}-{number}", by="Tom W", status="Done")
    for number, _, points, how in BLOCKED:
        past.at = begun + step * (number - 80)
        desk.edit(f"{PROJECT}-{number}", by="Damien", sprint="Sprint 12", points=points, status="In Progress")
        past.at += step
        if how == "link":
            desk.link(f"{PROJECT}-{FIRST_NUMBER + len(DONE)}", f"{PROJECT}-{number}", by="Sarah K")
        else:
            change = {"flagged": True} if how == "flag" else {"status": "Blocked"}
            desk.edit(f"{PROJECT}-{number}", by="Sarah K", **change)


def _tickets() -> dict[int, str]:
    """Every ticket by its number."""
    named = {number: title for number, title, *_ in BLOCKED} | TO_DO
    for number, title in enumerate((*DONE, *DOING), FIRST_NUMBER):
        named[number] = title
    free = (number for number in range(FIRST_NUMBER, max(TO_DO) + 1) if number not in named)
    named.update(zip(free, TO_DO_PLAIN, strict=True))
    return dict(sorted(named.items()))


def _priority(number: int) -> str:
    """Spread over all the tickets: the shares are kept, and no status has only one of them."""
    spread = [name for name, share in PRIORITIES.items() for _ in range(share)]
    return spread[(number - FIRST_NUMBER) * 5 % len(spread)]
