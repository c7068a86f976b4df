"""Simulated people who work on a project while its agent watches, for `test_agenticpm_killed.py`.

Their work in a round depends on the seed, the round and their earlier work, but not on the agent: it is the
same with and without kills. Work during a round may be seen by this round or the next; a ticket touched that
way is then left alone for a while, so that both runs end with the same state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from agenticpm.api import action_reviews
from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, patterns
from agenticpm.model.entities import Action, Project
from agenticpm.model.snapshots import format_time
from agenticpm.workers import escalations
from holdfast import Stores
from holdfast.core.errors import NotPending
from holdfast.guarantees import OnceStatus
from tests.systems.agenticpm.faults.agenticpm_environment import Environment

# Tickets of the sandbox's sample: some in progress, the others to do.
FLAGGED_BEFORE = [f"MCU-{number}" for number in range(122, 130)]
FLAGGED_DURING = [f"MCU-{number}" for number in range(130, 138)]
MOVED = [f"MCU-{number}" for number in range(138, 142)]
STATUSES = ("To Do", "In Progress", "In Review", "Done")
REST_ROUNDS = 2
# Shorter than a lease.
WORK_S = 5.0
# Every fifth action of a kind is cancelled: with more, the agent would ask first.
CANCELLED_EVERY = 5


@dataclass(frozen=True)
class Work:
    """A request of a person to the sandbox of a service."""

    service: str
    path: str
    body: dict[str, Any]


class People:
    """The people. Plan their work round by round, in order; `reviewed` counts their reviews of actions."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._flagged: set[str] = set()
        self._touched: dict[str, int] = {}
        self._made: Counter[str] = Counter()
        self.reviewed: Counter[str] = Counter()

    # --- at the tracker and the mailbox ---------------------------------------------------------------------

    def plan_before(self, number: int, at: datetime) -> list[Work]:
        """Return the requests before the loop runs in the round with this number."""
        random = Random(f"{self._seed}/{number}")
        return [*self._plan_before(random, number, at)]

    def plan_during(self, number: int) -> list[Work]:
        """Return the requests while the loop runs.

        The first round has none, since it has no earlier state.
        """
        if number == 0:
            return []
        random = Random(f"{self._seed}/{number}/meanwhile")
        free = [key for key in FLAGGED_DURING if number - self._touched.get(key, -9) > REST_ROUNDS]
        about = random.choice(FLAGGED_BEFORE)
        text = random.choice(["This will be delayed.", "All is well here.", "The vendor is blocked, urgent."])
        mail = {"subject": f"{about} in round {number}", "bodyPreview": text, "from": "sponsor@example.com"}
        return [*(self._flag(key, number) for key in random.sample(free, 2)), _receive(mail)]

    def _plan_before(self, random: Random, number: int, at: datetime) -> Iterator[Work]:
        """Yield the requests of a round: flags, a mail, a move; sometimes a new ticket or release date."""
        about = random.sample(FLAGGED_BEFORE, 2)
        for key in about:
            yield self._flag(key, number)
        text = f"{about[0]} is at risk, as you said in round {number}."
        yield _receive({"subject": "Re: the plan", "bodyPreview": text, "from": "lead@example.com"})
        yield _edit(key=random.choice(MOVED), status=random.choice(STATUSES))
        if number % 4 == 2:
            yield _edit(
                project="MCU",
                summary=f"A wish of round {number}",
                sprint="Sprint 12",
                points=random.choice([1, 3]),
            )
        if number % 5 == 3:
            day = (at + timedelta(days=45 + number)).date().isoformat()
            yield Work(
                "jira", "/sandbox/versions", {"project": "MCU", "name": "Beta launch", "releaseDate": day}
            )

    def _flag(self, key: str, number: int) -> Work:
        """Toggle the flag of a ticket and remember the round."""
        self._flagged ^= {key}
        self._touched[key] = number
        return _edit(key=key, flagged=key in self._flagged)

    # --- at the agent ---------------------------------------------------------------------------------------

    async def raise_risk(self, stores: Stores, project: Project, number: int, at: datetime) -> None:
        """Add a risk that is already overdue: the agent will want to send a mail about it."""
        seen = await stores.run(patterns.artefact(project.id, ArtefactType.raid_log))
        assert seen is not None
        content = await artefacts.load_content(stores, seen)
        last = max((int(each["id"][1:]) for each in content["items"]), default=0)
        content["items"].append(_make_risk(f"R{last + 1:03}", f"Risk of round {number}", at))
        await artefacts.update(stores, project.id, ArtefactType.raid_log, content, seen.version)

    async def review(self, stores: Stores, project: Project) -> None:
        """Review the held actions of each kind in order: some are cancelled, some approved, some edited."""
        held = await stores.all(patterns.held_actions())
        for action in sorted(held, key=lambda each: (each.action_type, each.description)):
            if action.reviewed_by is not None or action.status is not OnceStatus.HELD:
                continue
            self._made[action.action_type] += 1
            await self._review_action(stores, action, self._made[action.action_type] % CANCELLED_EVERY)

    async def _review_action(self, stores: Stores, action: Action, turn: int) -> None:
        """Cancel, approve, edit or leave an action, by its turn from 0 to 4 among the actions of its type."""
        scope, id = action.project_id, action.id
        if turn == CANCELLED_EVERY - 1:
            await action_reviews.cancel(stores, scope, id, by="lead", reason="Not this one")
            self.reviewed["cancelled"] += 1
        elif turn == 1:
            await action_reviews.approve(stores, scope, id, by="lead")
            self.reviewed["approved"] += 1
        elif turn == 2:
            text = f"{(action.detail or {})['text']} (seen by the lead)"
            await action_reviews.edit(stores, scope, id, by="lead", detail={"text": text})
            self.reviewed["edited"] += 1

    async def cancel_late(self, stores: Stores, due: Sequence[Action]) -> None:
        """Try to cancel the first due action while it may be executed: never both happen."""
        for action in due[:1]:
            try:
                await action_reviews.cancel(stores, action.project_id, action.id, by="late")
                self.reviewed["cancelled late"] += 1
            except NotPending:
                self.reviewed["too late"] += 1

    async def decide(self, stores: Stores, project: Project) -> None:
        """Decide every pending question with its first option."""
        for question in await escalations.list_of_project(stores, project.id):
            if question.status == "pending":
                await escalations.decide(
                    stores, project.id, question.id, question.options[0].option, by="sponsor"
                )


async def perform(stage: Environment, work: Sequence[Work]) -> None:
    """Send the requests to the sandboxes, five seconds apart by the clock."""
    for each in work:
        stage.clock.advance(WORK_S)
        stage.post(each.service, each.path, each.body)


def _edit(**fields: Any) -> Work:
    """Return the request that creates or edits a ticket in the Jira sandbox."""
    return Work("jira", "/sandbox/issues", fields)


def _receive(mail: dict[str, Any]) -> Work:
    """Return the request that puts a mail into the mailbox."""
    return Work("outlook", "/sandbox/messages", mail)


def _make_risk(id: str, title: str, at: datetime) -> dict[str, Any]:
    """Make an open risk that was due a day ago."""
    return {
        "id": id,
        "type": "risk",
        "title": title,
        "description": "Somebody has promised something",
        "severity": "high",
        "status": "open",
        "owner": "Ada",
        "raised_date": format_time(at - timedelta(days=9)),
        "due_date": format_time(at - timedelta(days=1)),
        "mitigation": "Ask weekly",
        "resolution": None,
        "resolved_date": None,
        "source": "user_added",
        "source_reference": None,
        "last_reviewed": format_time(at),
    }
