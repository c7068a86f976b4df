"""People who work on a project while its agent watches: for `test_agenticpm_killed.py`.

What they do in a round follows from the seed, the round and what they did before, and not from what the agent did: so it is
the same in a run that is killed again and again and in one that nobody disturbs. What is done `meanwhile` may be seen by
this round or by the next; a ticket that was touched so is left alone for a while, so that both see the same in the end.
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
from agenticpm.model import artefacts, escalations, patterns
from agenticpm.model.entities import Action, Project
from agenticpm.model.snapshots import format_time
from holdfast import Stores
from holdfast.core.errors import NotPending
from holdfast.guarantees import OnceStatus
from tests.faults.agenticpm_stage import Stage

# Tickets of the sandbox's sample: some in progress, the others to do.
FLAGGED_BEFORE = [f"MCU-{number}" for number in range(122, 130)]
FLAGGED_MEANWHILE = [f"MCU-{number}" for number in range(130, 138)]
MOVED = [f"MCU-{number}" for number in range(138, 142)]
STATUSES = ("To Do", "In Progress", "In Review", "Done")
ALONE_ROUNDS = 2
# Less than would end a lease.
DEED_S = 5.0
# One in so many actions of a kind is cancelled: more of them, and the agent would rather ask.
CANCELLED_EVERY = 5


@dataclass(frozen=True)
class Deed:
    """Something that somebody does at a party."""

    party: str
    path: str
    body: dict[str, Any]


class People:
    """Ask for the rounds in their order."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._flagged: set[str] = set()
        self._touched: dict[str, int] = {}
        self._made: Counter[str] = Counter()
        self.reviewed: Counter[str] = Counter()

    # --- at the tracker and the mailbox ---------------------------------------------------------------------

    def deeds(self, number: int, at: datetime) -> list[Deed]:
        """What is done before the loop goes round."""
        random = Random(f"{self._seed}/{number}")
        return [*self._before(random, number, at)]

    def meanwhile(self, number: int) -> list[Deed]:
        """What is done while it goes round. Not in the first, in which there is no before and after yet."""
        if number == 0:
            return []
        random = Random(f"{self._seed}/{number}/meanwhile")
        free = [key for key in FLAGGED_MEANWHILE if number - self._touched.get(key, -9) > ALONE_ROUNDS]
        about = random.choice(FLAGGED_BEFORE)
        text = random.choice(["This will be delayed.", "All is well here.", "The vendor is blocked, urgent."])
        mail = {"subject": f"{about} in round {number}", "bodyPreview": text, "from": "sponsor@example.com"}
        return [*(self._flag(key, number) for key in random.sample(free, 2)), _received(mail)]

    def _before(self, random: Random, number: int, at: datetime) -> Iterator[Deed]:
        about = random.sample(FLAGGED_BEFORE, 2)
        for key in about:
            yield self._flag(key, number)
        text = f"{about[0]} is at risk, as you said in round {number}."
        yield _received({"subject": "Re: the plan", "bodyPreview": text, "from": "lead@example.com"})
        yield _edited(key=random.choice(MOVED), status=random.choice(STATUSES))
        if number % 4 == 2:
            yield _edited(
                project="MCU",
                summary=f"A wish of round {number}",
                sprint="Sprint 12",
                points=random.choice([1, 3]),
            )
        if number % 5 == 3:
            day = (at + timedelta(days=45 + number)).date().isoformat()
            yield Deed(
                "jira", "/sandbox/versions", {"project": "MCU", "name": "Beta launch", "releaseDate": day}
            )

    def _flag(self, key: str, number: int) -> Deed:
        self._flagged ^= {key}
        self._touched[key] = number
        return _edited(key=key, flagged=key in self._flagged)

    # --- at the agent ---------------------------------------------------------------------------------------

    async def raise_risk(self, stores: Stores, project: Project, number: int, at: datetime) -> None:
        """A risk that is overdue already: the agent will want to mail about it."""
        seen = await stores.run(patterns.artefact(project.id, ArtefactType.raid_log))
        assert seen is not None
        content = await artefacts.load_content(stores, seen)
        last = max((int(each["id"][1:]) for each in content["items"]), default=0)
        content["items"].append(_risk(f"R{last + 1:03}", f"Risk of round {number}", at))
        await artefacts.update(stores, project.id, ArtefactType.raid_log, content, seen.version)

    async def review(self, stores: Stores, project: Project) -> None:
        """Of those that wait, some are cancelled, some approved, some edited. Of each kind one after the other."""
        held = await stores.all(patterns.held_actions())
        for action in sorted(held, key=lambda each: (each.action_type, each.description)):
            if action.reviewed_by is not None or action.status is not OnceStatus.HELD:
                continue
            self._made[action.action_type] += 1
            await self._reviewed(stores, action, self._made[action.action_type] % CANCELLED_EVERY)

    async def _reviewed(self, stores: Stores, action: Action, turn: int) -> None:
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
        """Somebody cancels the first of what is due while it is being done: it is never both."""
        for action in due[:1]:
            try:
                await action_reviews.cancel(stores, action.project_id, action.id, by="late")
                self.reviewed["cancelled late"] += 1
            except NotPending:
                self.reviewed["too late"] += 1

    async def decide(self, stores: Stores, project: Project) -> None:
        """Every question that waits gets its first option."""
        for asked in await escalations.list_of_project(stores, project.id):
            if asked.status == "pending":
                await escalations.decide(stores, project.id, asked.id, asked.options[0].option, by="sponsor")


async def play(stage: Stage, deeds: Sequence[Deed]) -> None:
    for deed in deeds:
        stage.clock.advance(DEED_S)
        stage.ask(deed.party, deed.path, deed.body)


def _edited(**fields: Any) -> Deed:
    return Deed("jira", "/sandbox/issues", fields)


def _received(mail: dict[str, Any]) -> Deed:
    return Deed("outlook", "/sandbox/messages", mail)


def _risk(id: str, title: str, at: datetime) -> dict[str, Any]:
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
