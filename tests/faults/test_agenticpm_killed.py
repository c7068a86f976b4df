"""AgenticPM's loop and executor are killed at every step and at random while people work on their project: every signal is
told once, every outward action is done once, and in the end all is as if nobody had disturbed them.

The parties' own ledgers say what was done outside. What should have been told follows from the same days played once
more, on fresh stores and without a kill. `HOLDFAST_SOAK=1` makes it two hundred kills.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Protocol

import pytest

from agenticpm.model import patterns
from agenticpm.model.entities import Action, EventType, Project
from agenticpm.model.patterns import LEASE_S
from holdfast import Stores
from holdfast.guarantees import OnceStatus
from tests.faults.agenticpm_findings import Findings, everything, findings, reference_of
from tests.faults.agenticpm_people import Deed, People, play
from tests.faults.agenticpm_process import Death, Fate, turned
from tests.faults.agenticpm_stage import ROUNDS_A_DAY, Stage, Worker

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
KILLS = 200 if SOAK else 20
# Every step of the loop, as often as it comes in a cycle that finds something.
STEPS = (
    ("tracker", 1),
    ("snapshot", 1),
    ("commit", 1),
    ("committed", 1),
    ("mail", 1),
    ("snapshot", 2),
    ("commit", 2),
    ("committed", 2),
    ("artefacts", 1),
    ("artefacts commit", 1),
    ("artefacts committed", 1),
    ("heartbeat", 1),
    ("beaten", 1),
)
# The first is another thing, and in the last nobody is killed.
ROUNDS_MIN, ROUNDS_MAX = 1 + len(STEPS), 56
# After this, a lease or a claim of a dead process is over.
OVER_S = LEASE_S + 1
HELD_OVER = timedelta(hours=1)
TRIES_MAX = 20
# About how long a turn takes, in which a random moment is drawn; and about how many moments there are in it.
TURN_S, LOOP_REQUESTS, EXECUTOR_REQUESTS, DAILY_REQUESTS = 0.25, 60, 24, 20
# A turn that finds something in the tracker and in the mail takes the lease, commits twice, writes artefacts, beats and
# gives the lease back; where all of the tracker is read anew, two more. Before and after each.
LOOP_WRITES = 16
SILENCE_S = 30.0


class Agent(Protocol):
    """How the agent's work is made to happen in a round."""

    async def loop(self, number: int, meanwhile: Sequence[Deed]) -> None: ...
    async def daily(self, number: int) -> None: ...
    async def executor(self, number: int) -> None: ...


@pytest.mark.timeout(3600 if SOAK else 280)
@pytest.mark.proves("AP-23")
def test_kills_at_every_step_and_at_random_repeat_nothing_and_skip_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    with Stage(tmp_path / "killed") as stage:
        killed = asyncio.run(_killed(stage, seed))
        ledger = stage.ledger("jira") + stage.ledger("resend")
    with Stage(tmp_path / "undisturbed") as stage, monkeypatch.context() as patch:
        for name, value in stage.variables.items():
            patch.setenv(name, value)
        undisturbed = asyncio.run(_undisturbed(stage, seed, killed.rounds))
    print(killed.told(ledger))  # noqa: T201

    _judge_outward(killed.found, ledger)
    _judge_events(killed.found, killed.rounds)
    _judge_same(killed.found, undisturbed)
    _judge_evidence(undisturbed)
    _judge_run(killed, ledger)


@pytest.mark.proves("AP-23")
def test_a_loop_that_slept_through_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        asyncio.run(_slept(stage))


async def _slept(stage: Stage) -> None:
    """At each of its steps the loop stands still, another goes round in its place, and then it goes on."""
    people = People(SystemRandom().randrange(2**32))
    async with stage.stores() as stores:
        await stage.onboarded(stores)
        for number, (name, occurrence) in enumerate(STEPS[:-1]):
            stage.clock_to(stage.begin_of(number))
            await play(stage, [*people.deeds(number, stage.begin_of(number)), *people.meanwhile(number)])
            sleeper = stage.start("loop", Death("step", occurrence, name, stops=True))
            assert await sleeper.until("stopped"), f"the step {name} did not come"
            stage.clock.advance(OVER_S)
            found = await stage.start("loop").ended()
            assert found is not None and (found["cycles"], found["errors"]) == (1, []), stage.said()
            before = await everything(stores)
            # Whoever is awake again finds the parties failing: also that is no longer his to tell.
            stage.faults(failed_before=number % 2, parties=("jira", "outlook"))
            sleeper.go_on()
            slept = await sleeper.ended()
            stage.faults(parties=("jira", "outlook"))
            assert await everything(stores) == before, f"written after {name}"
            assert slept is not None and "took over" in str(slept["why_not"]), slept


# --- the days -----------------------------------------------------------------------------------------------


async def _round(
    stage: Stage, stores: Stores, project: Project, people: People, agent: Agent, number: int
) -> None:
    """A few hours of a day: people do something, the loop goes round, people review, and what is due is done."""
    begin = stage.begin_of(number)
    stage.clock_to(begin)
    if number % 3 == 1:
        await people.raise_risk(stores, project, number, begin)
    if number % 6 == 5:
        await people.decide(stores, project)
    await play(stage, people.deeds(number, begin))
    await agent.loop(number, people.meanwhile(number))
    if number % ROUNDS_A_DAY == 0:
        await agent.daily(number)
    await people.review(stores, project)
    stage.clock_to(begin + HELD_OVER)
    await agent.executor(number)


@dataclass
class Killed:
    """A run with kills: what came of it, and what was seen on the way."""

    found: Findings
    rounds: int
    kills: Counter[str]
    people: People
    steps: set[str]

    def told(self, ledger: Sequence[Any]) -> str:
        statuses = Counter(str(each.status) for each in self.found.actions)
        return (
            f"{self.rounds} rounds, {self.kills.total()} kills {dict(self.kills)}; "
            f"{sum(self.found.signals.values())} signals, {len(self.found.actions)} actions {dict(statuses)}, "
            f"{len(ledger)} effects, {self.found.asked.total()} questions; reviewed {dict(self.people.reviewed)}"
        )


async def _killed(stage: Stage, seed: int) -> Killed:
    """Rounds until everything was killed everywhere and often enough, and a last one that nobody disturbs."""
    people = People(seed)
    async with stage.stores() as stores:
        agent = Disturbed(stage, stores, people, Random(seed))
        project = await stage.onboarded(stores)
        for number in count():
            agent.is_over = number >= ROUNDS_MIN and agent.kills.total() >= KILLS
            assert number < ROUNDS_MAX, f"too few kills: {agent.kills}"
            await _round(stage, stores, project, people, agent, number)
            if agent.is_over:
                break
        found = await findings(stores, project)
    return Killed(found, number + 1, agent.kills, people, agent.steps)


async def _undisturbed(stage: Stage, seed: int, rounds: int) -> Findings:
    people = People(seed)
    async with stage.stores() as stores:
        agent = Undisturbed(stage, stores)
        project = await stage.onboarded(stores)
        for number in range(rounds):
            await _round(stage, stores, project, people, agent, number)
        return await findings(stores, project)


@dataclass
class Undisturbed:
    """Each turn once, here."""

    stage: Stage
    stores: Stores

    async def loop(self, number: int, meanwhile: Sequence[Deed]) -> None:
        await play(self.stage, meanwhile)
        found = await turned("loop", self.stores, Fate())
        assert (found["cycles"], found["errors"]) == (1, []), found

    async def daily(self, number: int) -> None:
        assert (await turned("daily", self.stores, Fate()))["digest"]

    async def executor(self, number: int) -> None:
        found = await turned("executor", self.stores, Fate())
        assert (found["later"], found["refused"]) == ([], []), found


# --- the kills ----------------------------------------------------------------------------------------------


@dataclass
class Disturbed:
    """Each turn by processes that die, until one goes through; several of them at once."""

    stage: Stage
    stores: Stores
    people: People
    random: Random
    is_over: bool = False
    kills: Counter[str] = field(default_factory=Counter)
    steps: set[str] = field(default_factory=set)

    async def loop(self, number: int, meanwhile: Sequence[Deed]) -> None:
        """The first round is broken off at its first step, its second and so on; later ones at one that is named."""
        name, occurrence = STEPS[number % len(STEPS) - 1]
        write = Death("write", 1 + number % LOOP_WRITES)
        deaths = [Death("step", occurrence, name), write, *self._random_deaths()]
        if number == 0:
            await self._swept()
        for place, death in enumerate([] if number == 0 or self.is_over else deaths):
            worker = self.stage.start("loop", death)
            began = await worker.until("begun")
            rival = self.stage.start("loop") if began and self.random.random() < 0.5 else None
            if place == 0:
                await play(self.stage, meanwhile[:1])
            await self._died(worker, death, _told(death, "loop"))
            if rival is not None:
                found = await rival.ended()
                assert found is not None and found["cycles"] == 0, "two at work under one lease"
            self.stage.clock.advance(OVER_S)
            if place == 0:
                await play(self.stage, meanwhile[1:])
        if self.is_over or number == 0:
            await play(self.stage, meanwhile)
        await self._gone_round()

    async def _swept(self) -> None:
        for number in count(1):
            worker = self.stage.start("loop", Death("step", number))
            if (found := await worker.ended()) is not None:
                self.steps.update(found["steps"])
                return
            self.kills["loop, step after step"] += 1
            self.stage.clock.advance(OVER_S)

    async def _gone_round(self) -> None:
        """Two at once, again and again until the round has its cycle: one of them has it, and never both."""
        found: list[dict[str, Any] | None] = []
        for _ in range(TRIES_MAX):
            rivals = [self.stage.start("loop"), self.stage.start("loop")]
            found = [await each.ended() for each in rivals]
            assert sum(each["cycles"] for each in found if each) <= 1, found
            assert not any(each["errors"] for each in found if each), (found, self.stage.said())
            self.steps.update(step for each in found if each for step in each["steps"])
            if any(each and (each["cycles"] or each["why_not"] == "no project is due") for each in found):
                return
            self.stage.clock.advance(OVER_S)
        raise AssertionError(f"the loop does not go round any more: {found}; {self.stage.said()}")

    async def daily(self, number: int) -> None:
        death = Death("request", self.random.randrange(1, DAILY_REQUESTS))
        await self._died(self.stage.start("daily", death), death, _told(death, "daily"))
        rivals = [self.stage.start("daily"), self.stage.start("daily")]
        for each in rivals:
            assert await each.ended() is not None

    async def executor(self, number: int) -> None:
        """Killed before the effect, after it, in the middle of a call, at some request; then until nothing waits."""
        for death in [] if self.is_over else self._executor_deaths(number):
            if death == "silent":
                await self._killed_in_silence()
            elif death == "failing":
                await self._failed_after()
            else:
                worker = self.stage.start("executor", death)
                await self._died(worker, death, _told(death, "executor"))
            # Asked once more: what a dead process has sent has arrived before the clock is moved.
            self._effects()
            self.stage.clock.advance(OVER_S)
        await self._worked_off(with_a_late_cancel=number % 4 == 3)

    def _executor_deaths(self, number: int) -> list[Any]:
        """One of the ways after the other: before an effect and after it, at a request, in a call, at any moment."""
        request = Death("request", self.random.randrange(1, EXECUTOR_REQUESTS))
        ways = [Death("act", 1), Death("act", 2), "silent", request, "failing", Death("act", 4), None]
        return [ways[(number + each * 3) % len(ways)] for each in range(3 if SOAK else 1)]

    def _random_deaths(self) -> list[Death | None]:
        """At a random request; or at a random moment of time, which is None."""
        request = Death("request", self.random.randrange(1, LOOP_REQUESTS))
        return [request, None] if SOAK else []

    async def _died(self, worker: Worker, death: Death | None, what: str) -> None:
        if death is None:
            await worker.kill_after(self.random.uniform(0, TURN_S))
        if await worker.ended() is None:
            self.kills[what] += 1

    async def _killed_in_silence(self) -> None:
        """The party acts and says nothing: whoever waits for its answer is killed."""
        before = self._effects()
        self.stage.faults(silent_after=1.0, silence_s=SILENCE_S)
        worker = self.stage.start("executor")
        while self._effects() == before and worker.is_alive:
            await asyncio.sleep(0.01)
        self.stage.faults()
        worker.kill()
        if await worker.ended() is None:
            self.kills["executor in a call"] += 1

    async def _failed_after(self) -> None:
        """The party acts and answers with an error."""
        self.stage.faults(failed_after=1.0)
        assert await self.stage.start("executor").ended() is not None
        self.stage.faults()

    async def _worked_off(self, *, with_a_late_cancel: bool) -> None:
        """Two executors at once, until nothing waits."""
        waiting: list[Action] = []
        for _ in range(TRIES_MAX):
            waiting = list(await self.stores.all(patterns.held_actions()))
            executors = [self.stage.start("executor"), self.stage.start("executor")]
            if with_a_late_cancel:
                await self.people.cancel_late(self.stores, waiting)
            for each in executors:
                assert await each.ended() is not None
            if not list(await self.stores.all(patterns.held_actions())):
                return
            self.stage.clock.advance(OVER_S)
        raise AssertionError(f"these are never done: {waiting}; {self.stage.said()}")

    def _effects(self) -> int:
        return len(self.stage.ledger("jira")) + len(self.stage.ledger("resend"))


def _told(death: Death | None, who: str) -> str:
    if death is None:
        return f"{who} at random"
    return f"{who} at {death.name}" if death.name else f"{who}, {death.moment}"


# --- the judgement ------------------------------------------------------------------------------------------


def _judge_outward(found: Findings, ledger: Sequence[dict[str, Any]]) -> None:
    """By the parties' own records: each action once, as it was last edited, and none that was cancelled."""
    entries: dict[str, list[dict[str, Any]]] = {}
    for entry in ledger:
        entries.setdefault(str(entry["reference"]), []).append(entry)
    taken = Counter((each.detail or {})["action"] for each in found.of_type(EventType.action_taken))
    for action in found.actions:
        done = entries.pop(reference_of(action), [])
        if action.status is OnceStatus.CANCELLED:
            assert (done, taken[action.id], action.executed) == ([], 0, False), action
            continue
        assert (action.status, action.executed, action.queue) == (OnceStatus.PROCESSED, True, None), action
        assert (len(done), taken[action.id]) == (1, 1), (action, done)
        assert _text_of(done[0]) == (action.detail or {})["text"]
    assert entries == {}, "something was done that no action wanted"
    assert set(taken) <= {each.id for each in found.actions}


def _text_of(entry: dict[str, Any]) -> str:
    if entry["what"] == "mail":
        return str(entry["text"])
    return "\n".join(part["text"] for block in entry["body"]["content"] for part in block["content"])


def _judge_events(found: Findings, rounds: int) -> None:
    """Each event stands once in its project, once in the feed of all, and once in the index of its day."""
    own = [each for each in found.events if each.project_id is not None]
    assert Counter(each.id for each in own) == Counter(each.id for each in found.references)
    assert Counter(each.id for each in found.by_day) == Counter(each.id for each in found.events)
    assert max(Counter(each.id for each in found.events).values()) == 1
    beats = found.of_type(EventType.heartbeat)
    tokens = [(each.detail or {})["token"] for each in sorted(beats, key=lambda each: each.created_at)]
    assert (len(beats), tokens) == (rounds, sorted(set(tokens)))
    assert found.of_type(EventType.error) == []


def _judge_same(killed: Findings, undisturbed: Findings) -> None:
    """What was told, held, asked and written is what a run without a kill tells, holds, asks and writes."""
    assert killed.signals == undisturbed.signals
    assert killed.held == undisturbed.held
    assert killed.asked == undisturbed.asked
    assert killed.tickets == undisturbed.tickets
    assert killed.flags == undisturbed.flags
    assert killed.artefacts == undisturbed.artefacts


def _judge_evidence(undisturbed: Findings) -> None:
    """After the first look at a project, the changelog says how a ticket came to be blocked: no reading passes it over."""
    told = [
        (each.detail or {})
        for each in undisturbed.of_type(EventType.signal_detected)
        if each.created_at >= Stage.begin_of(1)
    ]
    fields = Counter(
        each["evidence"][0]["field"] for each in told if each["signal"] in ("blocked", "unblocked")
    )
    assert set(fields) == {"Flagged"}, fields


def _judge_run(killed: Killed, ledger: Sequence[dict[str, Any]]) -> None:
    """That there was something to judge."""
    assert killed.kills.total() >= KILLS
    assert {f"loop at {name}" for name, _ in STEPS} <= set(killed.kills), killed.kills
    assert killed.steps == {name for name, _ in STEPS}, "the loop has steps that this does not know"
    assert {"comment", "mail"} == {each["what"] for each in ledger}
    assert killed.kills["executor, act"] and killed.people.reviewed["cancelled"]
