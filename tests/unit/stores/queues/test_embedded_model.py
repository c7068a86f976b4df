"""Property test: random operations on an embedded FIFO queue get the same answers as a plain model."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import ReceiptLost
from holdfast.operations.queues import (
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    DescribeQueue,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.embedded import open_queues

from .fake_clock import FakeClock

LIVE, DEAD = "live.fifo", "dead.fifo"
VISIBILITY_S, MAX_RECEIVES, WINDOW_S = 30, 2, 300


@dataclass
class Message:
    """A message of the model; `due` is when it may be received."""

    body: str
    group: str
    due: float
    receives: int = 0
    receipt: str | None = None


@dataclass
class Model:
    """Two lists of messages in order. A message may be received when it is due and the first of its group."""

    live: list[Message] = field(default_factory=list)
    dead: list[Message] = field(default_factory=list)
    seen: dict[str, float] = field(default_factory=dict)

    def send(self, body: str, group: str, now: float) -> None:
        """Add the message, unless its body was sent within the deduplication window."""
        if self.seen.get(body, -WINDOW_S) <= now - WINDOW_S:
            self.seen[body] = now
            self.live.append(Message(body, group, now))

    def receivable(self, now: float) -> list[Message]:
        """Return the receivable messages after moving dead heads of groups to the dead letters."""
        while True:
            ready = [each for each in self.heads() if each.due <= now]
            over = [each for each in ready if each.receives >= MAX_RECEIVES]
            if not over:
                return ready
            for each in over:
                self.live.remove(each)
                self.dead.append(Message(each.body, each.group, now))

    def heads(self) -> list[Message]:
        """Return the first message of each group."""
        first: dict[str, Message] = {}
        for each in self.live:
            first.setdefault(each.group, each)
        return list(first.values())

    def redrive(self, now: float) -> int:
        """Move all dead letters to the end of the live queue and return how many."""
        moved, self.dead = self.dead, []
        self.live += [Message(each.body, each.group, now) for each in moved]
        return len(moved)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 9), st.sampled_from("abc")),
        st.tuples(st.just("receive"), st.just(0), st.just("")),
        st.tuples(st.just("delete"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("release"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("hold"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("move"), st.sampled_from([1, 29, 31, 299, 301]), st.just("")),
        st.tuples(st.just("redrive"), st.just(0), st.just("")),
    ),
    max_size=60,
)


@given(STEPS)
def test_fifo_queue_matches_the_model(steps: list[tuple[str, int, str]]) -> None:
    clock, model = FakeClock(), Model()
    receipts: list[tuple[str, str]] = []
    with open_queues(clock=clock) as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name=DEAD, fifo=True)))
        queues.run_blocking(
            CreateQueue(
                QueueDefinition(
                    name=LIVE,
                    fifo=True,
                    visibility_s=VISIBILITY_S,
                    dead_letters=DEAD,
                    max_receives=MAX_RECEIVES,
                )
            )
        )
        for step, number, group in steps:
            now = clock.now()
            if step == "send":
                model.send(f"m{number}", group, now)
                message = OutgoingMessage(body=f"m{number}", group=group, deduplication=f"m{number}")
                queues.run_blocking(SendMessages(LIVE, (message,)))
            elif step == "receive":
                expected = model.receivable(now)
                received = queues.run_blocking(ReceiveMessages(LIVE, 10))
                assert sorted(each.body for each in received) == sorted(each.body for each in expected)
                for each in received:
                    twin = next(one for one in expected if one.body == each.body and one.group == each.group)
                    twin.due, twin.receipt = now + VISIBILITY_S, each.receipt
                    twin.receives += 1
                    assert twin.receives == each.receives
                    receipts.append((each.receipt, each.body))
            elif step in ("delete", "release", "hold") and receipts:
                receipt, _ = receipts[number % len(receipts)]
                seconds = 0 if step == "release" else 100
                holder = next((one for one in model.live if one.receipt == receipt), None)
                try:
                    if step == "delete":
                        queues.run_blocking(DeleteMessages(LIVE, (receipt,)))
                    else:
                        queues.run_blocking(ChangeVisibility(LIVE, (receipt,), seconds))
                except ReceiptLost:
                    assert holder is None or (step != "delete" and holder.due <= now)
                    continue
                assert holder is not None
                if step == "delete":
                    model.live.remove(holder)
                else:
                    holder.due = now + seconds
            elif step == "move":
                clock.advance(number)
            elif step == "redrive":
                assert queues.run_blocking(Redrive(DEAD, LIVE)) == model.redrive(now)
            described = queues.run_blocking(DescribeQueue(LIVE))
            assert described.backlog == len(model.live)
            assert described.in_flight == sum(
                one.receipt is not None and one.due > clock.now() for one in model.live
            )
            assert queues.run_blocking(DescribeQueue(DEAD)).backlog == len(model.dead)
