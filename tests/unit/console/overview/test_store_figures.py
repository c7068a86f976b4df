"""Figures of queues, outboxes, flows and breakers: merged, described, and read from real stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast import Stores, open_stores
from holdfast.config.settings import Settings
from holdfast.console.overview.samples import ActionState, FlowState, OutboxState, QueueState
from holdfast.console.overview.store_figures import (
    StoreFigures,
    describe_actions,
    describe_flows,
    describe_outboxes,
    describe_queues,
    list_known_sources,
    list_unread_sources,
    merge_figures,
)
from holdfast.flows import State, Wait
from holdfast.flows.declaration import Answer
from holdfast.model.system import System
from holdfast.operations.queues import ReceiveMessages
from holdfast.runtime import provision
from holdfast.runtime.telemetry.figures import (
    DELAYED_ACTIONS,
    DELAYED_ACTIONS_OVERDUE,
    FLOW_EXECUTIONS,
    FLOW_OVERDUE,
    QUEUE_MESSAGES,
    SOURCE_UP,
    Figure,
)
from tests.unit.console.overview.depot import DEPOT, Parcel, carriers, outbox, parcels


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    settings = replace(Settings().in_folder(tmp_path), environment="dev")
    async with open_stores(DEPOT, settings) as opened:
        await provision(opened, DEPOT)
        yield opened


def test_figure_that_several_processes_report_counts_once() -> None:
    low, high = (Figure(QUEUE_MESSAGES, value, {"queue": "q", "state": "visible"}) for value in (3, 5))
    other = Figure(QUEUE_MESSAGES, 1, {"queue": "q", "state": "delayed"})

    assert merge_figures([[low, other], [high]]) == [high, other]


def test_source_is_unread_if_no_process_could_read_it() -> None:
    figures = [
        Figure(SOURCE_UP, up, {"source": name}) for name, up in (("a", 1), ("b", 0), ("c", 0), ("c", 1))
    ]

    assert list_known_sources(figures) == {"a", "c"}
    assert list_unread_sources(figures) == ["b"]


async def test_reads_queues_and_outboxes_from_the_stores(stores: Stores, tmp_path: Path) -> None:
    await stores.run(parcels.send(Parcel(order_id="o-1")))
    await stores.run(parcels.send(Parcel(order_id="o-2")))
    await stores.run(outbox.enqueue(stores, "o-3", Parcel(order_id="o-3"), sequence=1))
    reader = StoreFigures(stores, Settings().in_folder(tmp_path))

    figures = await reader.read(())

    queue = describe_queues(DEPOT, "dev", figures)["parcels"]
    assert (queue.visible, queue.in_flight, queue.dead) == (2, 0, 0)
    assert queue.oldest_s is not None
    assert describe_outboxes(figures)["parcels"].pending == 1
    assert list_unread_sources(figures) == []


async def test_does_not_read_what_a_process_reports(stores: Stores, tmp_path: Path) -> None:
    reader = StoreFigures(stores, Settings().in_folder(tmp_path))

    figures = await reader.read({"queue parcels"})

    assert describe_queues(DEPOT, "dev", figures) == {}
    assert "parcels" in describe_outboxes(figures)


async def test_dead_letters_are_counted(stores: Stores, tmp_path: Path) -> None:
    await stores.run(parcels.send(Parcel(order_id="o-1")))
    physical = parcels.physical_name("dev")
    for _ in range(2):
        await stores.engines.get("queues").run(ReceiveMessages(physical, 1, visibility_s=0))
    reader = StoreFigures(stores, Settings().in_folder(tmp_path))

    queue = describe_queues(DEPOT, "dev", await reader.read(()))["parcels"]

    assert (queue.visible, queue.dead) == (0, 1)


async def test_stores_of_a_system_that_was_never_set_up_are_not_ready(tmp_path: Path) -> None:
    settings = replace(Settings().in_folder(tmp_path), environment="dev")
    async with open_stores(DEPOT, settings) as stores:
        reader = StoreFigures(stores, settings)

        assert await reader.check_stores() == {"tables": "NotFound", "queues": "NotFound"}
        assert await reader.list_open_breakers() == []
        assert describe_queues(DEPOT, "dev", await reader.read(())) == {}


async def test_stores_that_answer_have_no_reason(stores: Stores, tmp_path: Path) -> None:
    assert await StoreFigures(stores, Settings().in_folder(tmp_path)).check_stores() == {
        "tables": "",
        "queues": "",
    }


async def test_lists_the_services_that_are_not_called(stores: Stores, tmp_path: Path) -> None:
    reader = StoreFigures(stores, Settings().in_folder(tmp_path))
    assert await reader.list_open_breakers() == []

    async def fail() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await carriers.call(stores, "the carrier", fail)

    assert await reader.list_open_breakers() == ["the carrier"]


def test_queue_without_dead_letters_has_none() -> None:
    figures = [Figure(QUEUE_MESSAGES, 4, {"queue": "dev-parcels", "state": "in_flight"})]

    assert describe_queues(DEPOT, "dev", figures)["dev-parcels"] == QueueState(in_flight=4)


def test_actions_and_outboxes_have_their_oldest() -> None:
    actions = [
        Figure(DELAYED_ACTIONS, 3, {"actions": "Held", "state": "waiting"}),
        Figure(DELAYED_ACTIONS, 1, {"actions": "Held", "state": "due"}),
        Figure(DELAYED_ACTIONS_OVERDUE, 12.5, {"actions": "Held"}),
    ]

    assert describe_actions(actions) == {"Held": ActionState(waiting=3, due=1, overdue_s=12.5)}
    assert describe_outboxes(actions) == {}
    assert describe_outboxes([]) == {}
    assert OutboxState() == OutboxState(pending=0)


def test_executions_in_a_wait_with_answers_wait_for_a_person() -> None:
    answered = State("asked", Wait({"yes": Answer(cast(Any, None), to=("done",))}))
    states = {"asked": answered, "paused": State("paused", Wait(deadline_s=5, deadline_to="done"))}
    flow = SimpleNamespace(name="booking", find_state=states.get)
    system = cast(System, SimpleNamespace(flows=[flow]))
    figures = [
        Figure(FLOW_EXECUTIONS, 2, {"flow": "booking", "state": "asked", "parked": "false"}),
        Figure(FLOW_EXECUTIONS, 3, {"flow": "booking", "state": "paused", "parked": "false"}),
        Figure(FLOW_EXECUTIONS, 4, {"flow": "booking", "state": "asked", "parked": "true"}),
        Figure(FLOW_OVERDUE, 1, {"flow": "booking"}),
    ]

    assert describe_flows(system, figures) == {
        "booking": FlowState(running=5, for_person=2, parked=4, overdue=1)
    }
