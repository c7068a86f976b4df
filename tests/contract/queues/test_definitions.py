"""Queue definitions on every queues engine: create, change, list, describe, purge and delete."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.errors import AlreadyExists, InvalidRequest, NotFound
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    DeleteQueue,
    DescribeQueue,
    ListQueues,
    Operation,
    PurgeQueue,
    QueueDefinition,
    ReceiveMessages,
    Redrive,
    SendMessages,
    UpdateQueue,
)

from .store import Store, fifo_message, plain_message


def test_a_queue_is_described_as_it_was_defined(store: Store) -> None:
    dead = store.create(fifo=True, retention_s=14 * 86400)
    definition = QueueDefinition(
        name=store.name(fifo=True),
        fifo=True,
        visibility_s=45,
        delay_s=7,
        retention_s=3600,
        content_deduplication=True,
        dead_letters=dead,
        max_receives=3,
    )
    store.run(CreateQueue(definition))

    assert store.describe(definition.name).definition == definition
    assert store.describe(definition.name).backlog == 0


def test_recreating_a_queue_with_the_same_definition_changes_nothing(store: Store) -> None:
    queue = store.create(visibility_s=45)
    store.send(queue, plain_message("kept"))

    store.run(CreateQueue(QueueDefinition(name=queue, visibility_s=45)))

    assert store.describe(queue).visible == 1


def test_receive_limit_is_ignored_without_dead_letters(store: Store) -> None:
    queue = store.create(max_receives=1)

    store.run(CreateQueue(QueueDefinition(name=queue, max_receives=9)))


@pytest.mark.parametrize("part", ["visibility_s", "delay_s", "retention_s"])
def test_rejects_recreating_a_queue_with_another_definition(store: Store, part: str) -> None:
    queue = store.create()

    with pytest.raises(AlreadyExists):
        store.run(CreateQueue(replace(QueueDefinition(name=queue), **{part: 300})))

    assert store.describe(queue).definition == QueueDefinition(name=queue)


def test_rejects_recreating_a_queue_without_its_dead_letters(store: Store) -> None:
    queue, _ = store.create_with_dead()

    with pytest.raises(AlreadyExists):
        store.run(CreateQueue(QueueDefinition(name=queue)))


def test_a_definition_can_be_changed_and_the_messages_stay(store: Store) -> None:
    queue, dead = store.create_with_dead()
    store.send(queue, plain_message("kept"))
    changed = QueueDefinition(name=queue, visibility_s=77, retention_s=7200)
    store.run(UpdateQueue(changed))

    assert store.describe(queue).definition == changed
    assert store.drain(queue) == ["kept"]

    with_dead = replace(changed, dead_letters=dead, max_receives=4)
    store.run(UpdateQueue(with_dead))
    assert store.describe(queue).definition == with_dead


def test_requires_an_existing_dead_letter_queue(store: Store) -> None:
    with pytest.raises(NotFound):
        store.create(dead_letters=store.name())


def test_lists_queues_by_name_prefix(store: Store) -> None:
    first = store.name()
    for ending in ("b", "a", "c"):
        store.run(CreateQueue(QueueDefinition(name=f"{first}_{ending}")))

    assert store.run(ListQueues(f"{first}_")) == (f"{first}_a", f"{first}_b", f"{first}_c")
    assert set(store.run(ListQueues())) >= {f"{first}_a", f"{first}_b", f"{first}_c"}
    assert store.run(ListQueues(f"{first}_z")) == ()


def test_a_deleted_queue_is_gone_with_its_messages(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("gone"))
    store.run(DeleteQueue(queue))

    with pytest.raises(NotFound):
        store.describe(queue)
    store.run(CreateQueue(QueueDefinition(name=queue)))
    assert store.receive(queue) == ()


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_a_purged_queue_is_empty_and_takes_messages(store: Store, fifo: bool) -> None:
    queue = store.create(fifo=fifo)
    message = fifo_message if fifo else plain_message
    for _ in range(12):
        store.send(queue, *(message(f"old {number}") for number in range(10)))
    held = store.receive(queue, 1)
    store.run(PurgeQueue(queue))

    described = store.describe(queue)
    assert (described.visible, described.in_flight, described.delayed) == (0, 0, 0)
    assert held
    store.send(queue, message("new"))
    assert store.drain(queue) == ["new"]


NOWHERE = "nowhere-at-all"


@pytest.mark.parametrize(
    "operation",
    [
        UpdateQueue(QueueDefinition(name=NOWHERE)),
        DeleteQueue(NOWHERE),
        PurgeQueue(NOWHERE),
        DescribeQueue(NOWHERE),
        SendMessages(NOWHERE, (plain_message("x"),)),
        ReceiveMessages(NOWHERE),
        DeleteMessages(NOWHERE, ("1-x",)),
        ChangeVisibility(NOWHERE, ("1-x",), 1),
        Browse(NOWHERE),
        Redrive(NOWHERE, "also-nowhere"),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_missing_queue_is_not_found(store: Store, operation: Operation[object]) -> None:
    with pytest.raises(NotFound):
        store.run(operation)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "has space"},
        {"name": "dots.in.it"},
        {"name": ""},
        {"name": "x" * 81},
        {"name": "x" * 76 + ".fifo", "fifo": True},
        {"name": "notfifo", "fifo": True},
        {"name": "fifo.fifo"},
        {"visibility_s": 43201},
        {"visibility_s": -1},
        {"delay_s": 901},
        {"retention_s": 59},
        {"retention_s": 14 * 86400 + 1},
        {"max_receives": 0},
        {"max_receives": 1001},
        {"content_deduplication": True},
        {"dead_letters": "plainly"},
        {"dead_letters": "other.fifo"},
        {"visibility_s": 1.5},
    ],
    ids=str,
)
def test_rejects_a_definition_that_sqs_refuses(store: Store, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        store.run(CreateQueue(QueueDefinition(**{"name": "plainly", **wrong})))  # type: ignore[arg-type]


def test_accepts_the_longest_names(store: Store) -> None:
    for name, fifo in (("n" * 80, False), ("n" * 75 + ".fifo", True)):
        store.run(CreateQueue(QueueDefinition(name=name, fifo=fifo)))
        assert store.describe(name).definition.name == name
