"""Fault tests: kill the loop and the executor at every step and at random, while people work on the project.

Every signal is reported once, every external action is executed once, and the final state equals that of an
undisturbed run. The sandboxes' own ledgers say what was done externally; the expected reports come from the
same days on fresh stores without kills. `HOLDFAST_SOAK=1` makes it two hundred kills.
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
from tests.systems.agenticpm.faults.agenticpm_environment import ROUNDS_A_DAY, Environment, Worker
from tests.systems.agenticpm.faults.agenticpm_findings import (
    Findings,
    collect_findings,
    get_reference,
    scan_table,
)
from tests.systems.agenticpm.faults.agenticpm_people import People, Work, perform
from tests.systems.agenticpm.faults.agenticpm_process import KillPoint, KillSwitch, run_turn

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
KILLS = 200 if SOAK else 20
# Every step of the loop, as often as it occurs in a cycle that finds something.
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
# The first round differs from the others, and the last has no kills.
MIN_ROUNDS, MAX_ROUNDS = 1 + len(STEPS), 56
# By then, the lease or claim of a dead process has expired.
LEASE_OVER_S = LEASE_S + 1
HOLD_OVER = timedelta(hours=1)
MAX_TRIES = 20
# Approximate duration of a turn, for random kills, and approximate numbers of requests in it.
TURN_S, LOOP_REQUESTS, EXECUTOR_REQUESTS, DAILY_REQUESTS = 0.25, 60, 24, 20
# A turn with changes in the tracker and in the mail takes the lease, commits twice, writes artefacts, a
# heartbeat and releases the lease; a full read of the tracker adds two writes. Each counts before and after.
LOOP_WRITES = 16
SILENCE_S = 30.0


class Agent(Protocol):
    """The turns of the agent in the round with the given number."""

    async def loop(self, number: int, during: Sequence[Work]) -> None: ...
    async def daily(self, number: int) -> None: ...
    async def executor(self, number: int) -> None: ...


@pytest.mark.timeout(3600 if SOAK else 280)
@pytest.mark.proves("AP-23")
async def test_killed_agent_reports_and_executes_everything_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare a run with kills to an undisturbed one with the same seed, and to the sandboxes' ledgers."""
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    with Environment(tmp_path / "killed") as environment:
        killed = await _run_with_kills(environment, seed)
        ledger = environment.read_ledger("jira") + environment.read_ledger("resend")
    with Environment(tmp_path / "undisturbed") as environment, monkeypatch.context() as patch:
        for name, value in environment.variables.items():
            patch.setenv(name, value)
        undisturbed = await _run_undisturbed(environment, seed, killed.rounds)
    print(killed.summarize(ledger))  # noqa: T201

    _check_effects(killed.found, ledger)
    _check_events(killed.found, killed.rounds)
    _check_same(killed.found, undisturbed)
    _check_evidence(undisturbed)
    _check_run(killed, ledger)


@pytest.mark.proves("AP-23")
async def test_loop_that_slept_through_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    """A loop that is stopped at a step, and resumed after another loop took over, changes no item."""
    with Environment(tmp_path) as environment:
        await _run_sleeping_loops(environment)


async def _run_sleeping_loops(environment: Environment) -> None:
    """Stop the loop at each of its steps, run another one instead, and then resume the first."""
    people = People(SystemRandom().randrange(2**32))
    async with environment.open_stores() as stores:
        await environment.onboard(stores)
        for number, (name, occurrence) in enumerate(STEPS[:-1]):
            environment.advance_clock_to(environment.get_round_start(number))
            await perform(
                environment,
                [
                    *people.plan_before(number, environment.get_round_start(number)),
                    *people.plan_during(number),
                ],
            )
            sleeper = environment.start_turn("loop", KillPoint("step", occurrence, name, waits=True))
            assert await sleeper.wait_for("waiting"), f"the loop did not reach the step {name}"
            sleeper.stop(environment.data)
            environment.clock.advance(LEASE_OVER_S)
            found = await environment.start_turn("loop").wait_until_ended()
            assert found is not None and (found["cycles"], found["errors"]) == (1, []), environment.read_log()
            before = await scan_table(stores)
            # The awakened loop finds the services failing: it must not report that either.
            environment.set_faults(failed_before=number % 2, services=("jira", "outlook"))
            sleeper.resume()
            slept = await sleeper.wait_until_ended()
            environment.set_faults(services=("jira", "outlook"))
            assert await scan_table(stores) == before, f"written after {name}"
            assert slept is not None and "took over" in str(slept["why_not"]), slept


# --- rounds -------------------------------------------------------------------------------------------------


async def _run_round(
    environment: Environment, stores: Stores, project: Project, people: People, agent: Agent, number: int
) -> None:
    """Run a few hours of a day: people work, the loop runs, people review, and due actions are executed."""
    begin = environment.get_round_start(number)
    environment.advance_clock_to(begin)
    if number % 3 == 1:
        await people.raise_risk(stores, project, number, begin)
    if number % 6 == 5:
        await people.decide(stores, project)
    await perform(environment, people.plan_before(number, begin))
    await agent.loop(number, people.plan_during(number))
    if number % ROUNDS_A_DAY == 0:
        await agent.daily(number)
    await people.review(stores, project)
    environment.advance_clock_to(begin + HOLD_OVER)
    await agent.executor(number)


@dataclass
class KilledRun:
    """Result of a run with kills."""

    found: Findings
    rounds: int
    kills: Counter[str]
    people: People
    steps: set[str]

    def summarize(self, ledger: Sequence[Any]) -> str:
        """Describe the run in one line: rounds, kills, signals, actions, effects, questions and reviews."""
        statuses = Counter(str(each.status) for each in self.found.actions)
        return (
            f"{self.rounds} rounds, {self.kills.total()} kills {dict(self.kills)}; "
            f"{sum(self.found.signals.values())} signals, {len(self.found.actions)} actions "
            f"{dict(statuses)}, "
            f"{len(ledger)} effects, {self.found.questions.total()} questions; reviewed "
            f"{dict(self.people.reviewed)}"
        )


async def _run_with_kills(environment: Environment, seed: int) -> KilledRun:
    """Run rounds until everything was killed often enough, and a last one without kills."""
    people = People(seed)
    async with environment.open_stores() as stores:
        agent = DisturbedAgent(environment, stores, people, Random(seed))
        project = await environment.onboard(stores)
        for number in count():
            agent.is_over = number >= MIN_ROUNDS and agent.kills.total() >= KILLS
            assert number < MAX_ROUNDS, f"too few kills: {agent.kills}"
            await _run_round(environment, stores, project, people, agent, number)
            if agent.is_over:
                break
        found = await collect_findings(stores, project)
    return KilledRun(found, number + 1, agent.kills, people, agent.steps)


async def _run_undisturbed(environment: Environment, seed: int, rounds: int) -> Findings:
    """Run the same rounds without kills and return the results."""
    people = People(seed)
    async with environment.open_stores() as stores:
        agent = UndisturbedAgent(environment, stores)
        project = await environment.onboard(stores)
        for number in range(rounds):
            await _run_round(environment, stores, project, people, agent, number)
        return await collect_findings(stores, project)


@dataclass
class UndisturbedAgent:
    """Agent that runs each turn once, in this process."""

    environment: Environment
    stores: Stores

    async def loop(self, number: int, during: Sequence[Work]) -> None:
        """Perform the work, then run one turn of the loop, which must have one cycle without errors."""
        await perform(self.environment, during)
        found = await run_turn("loop", self.stores, KillSwitch())
        assert (found["cycles"], found["errors"]) == (1, []), found

    async def daily(self, number: int) -> None:
        """Make the digest of the day, which must not exist yet."""
        assert (await run_turn("daily", self.stores, KillSwitch()))["digest"]

    async def executor(self, number: int) -> None:
        """Execute the due actions, all of which must succeed."""
        found = await run_turn("executor", self.stores, KillSwitch())
        assert (found["later"], found["refused"]) == ([], []), found


# --- kills --------------------------------------------------------------------------------------------------


@dataclass
class DisturbedAgent:
    """An agent whose turns run in processes, some concurrently, that are killed until one succeeds."""

    environment: Environment
    stores: Stores
    people: People
    random: Random
    is_over: bool = False
    kills: Counter[str] = field(default_factory=Counter)
    steps: set[str] = field(default_factory=set)

    async def loop(self, number: int, during: Sequence[Work]) -> None:
        """Kill the first round at each step in turn, later ones at a step and a write; then run a cycle."""
        name, occurrence = STEPS[number % len(STEPS) - 1]
        write = KillPoint("write", 1 + number % LOOP_WRITES)
        kill_points = [KillPoint("step", occurrence, name), write, *self._choose_random_kills()]
        if number == 0:
            await self._kill_at_every_step()
        for place, kill_point in enumerate([] if number == 0 or self.is_over else kill_points):
            worker = self.environment.start_turn("loop", kill_point)
            began = await worker.wait_for("begun")
            rival = self.environment.start_turn("loop") if began and self.random.random() < 0.5 else None
            if place == 0:
                await perform(self.environment, during[:1])
            await self._await_kill(worker, kill_point, _describe(kill_point, "loop"))
            if rival is not None:
                found = await rival.wait_until_ended()
                assert found is not None and found["cycles"] == 0, "two loops ran under one lease"
            self.environment.clock.advance(LEASE_OVER_S)
            if place == 0:
                await perform(self.environment, during[1:])
        if self.is_over or number == 0:
            await perform(self.environment, during)
        await self._run_until_cycle()

    async def _kill_at_every_step(self) -> None:
        """Kill the loop at step 1, then 2, and so on, until it completes."""
        for number in count(1):
            worker = self.environment.start_turn("loop", KillPoint("step", number))
            if (found := await worker.wait_until_ended()) is not None:
                self.steps.update(found["steps"])
                return
            self.kills["loop, step after step"] += 1
            self.environment.clock.advance(LEASE_OVER_S)

    async def _run_until_cycle(self) -> None:
        """Run two loops at once until the round has its cycle: one of them runs it, never both.

        Raise AssertionError after `MAX_TRIES` attempts.
        """
        found: list[dict[str, Any] | None] = []
        for _ in range(MAX_TRIES):
            rivals = [self.environment.start_turn("loop"), self.environment.start_turn("loop")]
            found = [await each.wait_until_ended() for each in rivals]
            assert sum(each["cycles"] for each in found if each) <= 1, found
            assert not any(each["errors"] for each in found if each), (found, self.environment.read_log())
            self.steps.update(step for each in found if each for step in each["steps"])
            if any(each and (each["cycles"] or each["why_not"] == "no project is due") for each in found):
                return
            self.environment.clock.advance(LEASE_OVER_S)
        raise AssertionError(f"the loop no longer runs a cycle: {found}; {self.environment.read_log()}")

    async def daily(self, number: int) -> None:
        """Kill the daily work at a random request, then run it twice at once."""
        kill_point = KillPoint("request", self.random.randrange(1, DAILY_REQUESTS))
        await self._await_kill(
            self.environment.start_turn("daily", kill_point), kill_point, _describe(kill_point, "daily")
        )
        rivals = [self.environment.start_turn("daily"), self.environment.start_turn("daily")]
        for each in rivals:
            assert await each.wait_until_ended() is not None

    async def executor(self, number: int) -> None:
        """Kill the executor in one of the ways, then run it until nothing waits."""
        for kill_point in [] if self.is_over else self._choose_executor_kills(number):
            if kill_point == "silent":
                await self._kill_during_silence()
            elif kill_point == "failing":
                await self._fail_after_effect()
            else:
                worker = self.environment.start_turn("executor", kill_point)
                await self._await_kill(worker, kill_point, _describe(kill_point, "executor"))
            # Ask again: requests of a dead process have arrived before the clock moves.
            self._count_effects()
            self.environment.clock.advance(LEASE_OVER_S)
        await self._run_until_nothing_waits(with_a_late_cancel=number % 4 == 3)

    def _choose_executor_kills(self, number: int) -> list[Any]:
        """Rotate through the ways to disturb the executor.

        Kill it before or after an effect, at a request, during a call, or at any time; or let the service
        fail.
        """
        request = KillPoint("request", self.random.randrange(1, EXECUTOR_REQUESTS))
        ways = [
            KillPoint("act", 1),
            KillPoint("act", 2),
            "silent",
            request,
            "failing",
            KillPoint("act", 4),
            None,
        ]
        return [ways[(number + each * 3) % len(ways)] for each in range(3 if SOAK else 1)]

    def _choose_random_kills(self) -> list[KillPoint | None]:
        """Choose a random request, and a random time, which is None; nothing unless this is a soak test."""
        request = KillPoint("request", self.random.randrange(1, LOOP_REQUESTS))
        return [request, None] if SOAK else []

    async def _await_kill(self, worker: Worker, kill_point: KillPoint | None, what: str) -> None:
        """Wait until the process ends, and count it if it was killed. Without a point, kill it at random."""
        if kill_point is None:
            await worker.kill_after(self.random.uniform(0, TURN_S))
        if await worker.wait_until_ended() is None:
            self.kills[what] += 1

    async def _kill_during_silence(self) -> None:
        """Let the service act without answering, and kill the executor that waits for the answer."""
        before = self._count_effects()
        self.environment.set_faults(silent_after=1.0, silence_s=SILENCE_S)
        worker = self.environment.start_turn("executor")
        while self._count_effects() == before and worker.is_alive:
            await asyncio.sleep(0.01)
        self.environment.set_faults()
        worker.kill()
        if await worker.wait_until_ended() is None:
            self.kills["executor in a call"] += 1

    async def _fail_after_effect(self) -> None:
        """Run the executor while the services act and then answer with an error."""
        self.environment.set_faults(failed_after=1.0)
        assert await self.environment.start_turn("executor").wait_until_ended() is not None
        self.environment.set_faults()

    async def _run_until_nothing_waits(self, *, with_a_late_cancel: bool) -> None:
        """Run two executors at once until nothing waits; optionally cancel an action meanwhile."""
        waiting: list[Action] = []
        for _ in range(MAX_TRIES):
            waiting = list(await self.stores.all(patterns.held_actions()))
            executors = [self.environment.start_turn("executor"), self.environment.start_turn("executor")]
            if with_a_late_cancel:
                await self.people.cancel_late(self.stores, waiting)
            for each in executors:
                assert await each.wait_until_ended() is not None
            if not list(await self.stores.all(patterns.held_actions())):
                return
            self.environment.clock.advance(LEASE_OVER_S)
        raise AssertionError(f"these actions are never executed: {waiting}; {self.environment.read_log()}")

    def _count_effects(self) -> int:
        """Count the comments and mails in the sandboxes' ledgers."""
        return len(self.environment.read_ledger("jira")) + len(self.environment.read_ledger("resend"))


def _describe(kill_point: KillPoint | None, role: str) -> str:
    """Return the name under which a kill is counted."""
    if kill_point is None:
        return f"{role} at random"
    return f"{role} at {kill_point.name}" if kill_point.name else f"{role}, {kill_point.kind}"


# --- checks -------------------------------------------------------------------------------------------------


def _check_effects(found: Findings, ledger: Sequence[dict[str, Any]]) -> None:
    """Check by the services' ledgers that each action was executed once, as last edited, unless cancelled."""
    entries: dict[str, list[dict[str, Any]]] = {}
    for entry in ledger:
        entries.setdefault(str(entry["reference"]), []).append(entry)
    taken = Counter((each.detail or {})["action"] for each in found.list_of_type(EventType.action_taken))
    for action in found.actions:
        done = entries.pop(get_reference(action), [])
        if action.status is OnceStatus.CANCELLED:
            assert (done, taken[action.id], action.executed) == ([], 0, False), action
            continue
        assert (action.status, action.executed, action.queue) == (OnceStatus.PROCESSED, True, None), action
        assert (len(done), taken[action.id]) == (1, 1), (action, done)
        assert _get_text(done[0]) == (action.detail or {})["text"]
    assert entries == {}, "an effect belongs to no action"
    assert set(taken) <= {each.id for each in found.actions}


def _get_text(entry: dict[str, Any]) -> str:
    """Return the text of a mail or comment in the ledger."""
    if entry["what"] == "mail":
        return str(entry["text"])
    return "\n".join(part["text"] for block in entry["body"]["content"] for part in block["content"])


def _check_events(found: Findings, rounds: int) -> None:
    """Check that each event is once in its project, once in the global feed and once in the index of its day.

    Also check that each round has one heartbeat, with growing lease tokens, and that there is no error event.
    """
    own = [each for each in found.events if each.project_id is not None]
    assert Counter(each.id for each in own) == Counter(each.id for each in found.references)
    assert Counter(each.id for each in found.by_day) == Counter(each.id for each in found.events)
    assert max(Counter(each.id for each in found.events).values()) == 1
    beats = found.list_of_type(EventType.heartbeat)
    tokens = [(each.detail or {})["token"] for each in sorted(beats, key=lambda each: each.created_at)]
    assert (len(beats), tokens) == (rounds, sorted(set(tokens)))
    assert found.list_of_type(EventType.error) == []


def _check_same(killed: Findings, undisturbed: Findings) -> None:
    """Check that signals, actions, questions and artefacts equal those of the undisturbed run."""
    assert killed.signals == undisturbed.signals
    assert killed.held == undisturbed.held
    assert killed.questions == undisturbed.questions
    assert killed.tickets == undisturbed.tickets
    assert killed.flags == undisturbed.flags
    assert killed.artefacts == undisturbed.artefacts


def _check_evidence(undisturbed: Findings) -> None:
    """Check that after the first read the changelog is the evidence of every block: no read skips it."""
    details = [
        (each.detail or {})
        for each in undisturbed.list_of_type(EventType.signal_detected)
        if each.created_at >= Environment.get_round_start(1)
    ]
    fields = Counter(
        each["evidence"][0]["field"] for each in details if each["signal"] in ("blocked", "unblocked")
    )
    assert set(fields) == {"Flagged"}, fields


def _check_run(killed: KilledRun, ledger: Sequence[dict[str, Any]]) -> None:
    """Check that the run had enough kills, steps and effects to prove anything."""
    assert killed.kills.total() >= KILLS
    assert {f"loop at {name}" for name, _ in STEPS} <= set(killed.kills), killed.kills
    assert killed.steps == {name for name, _ in STEPS}, "the loop has steps that STEPS does not list"
    assert {"comment", "mail"} == {each["what"] for each in ledger}
    assert killed.kills["executor, act"] and killed.people.reviewed["cancelled"]
