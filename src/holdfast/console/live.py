"""Live updates: pages learn by server-sent events that something which they show has changed.

A topic is a name and a function that reads a fingerprint of what is shown, such as the counts of queues.
While pages follow a topic, one task of this process reads the fingerprint at the topic's interval, for all of
them together, and sends an event when it differs. A page then loads the parts again that show the topic.

    console.live.add_topic(Topic("pagw-queues", read_counts, system="pagw"))
    <section data-live="pagw-queues" hx-get="…" hx-trigger="live-pagw-queues from:body">
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.console.users import User
from holdfast.core.errors import DeclarationError, HoldfastError, NotFound

__all__ = ["LiveUpdates", "Topic"]

KEEP_ALIVE_S: Final = 15.0
EVENT_STREAM: Final = "text/event-stream"
# The page reloads itself, which leads to the sign-in.
SIGNED_OUT_EVENT: Final = "event: signed-out\ndata: -\n\n"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Topic:
    """A name, and the function that reads what a change of is an event.

    A topic of a `system` is followed only by users who may see that system.
    """

    name: str
    read: Callable[[], Awaitable[Hashable]]
    every_s: float = 2.0
    system: str | None = None


@dataclass(eq=False)
class _Follower:
    """A page that follows topics, for a session. A topic that changes again before the page has read of it is
    one event, so a slow page cannot make them pile up.
    """

    names: Sequence[str]
    account: str
    place: str
    # The page was built before it subscribed: each topic is sent once, when its changes are noticed.
    is_behind: bool = False
    pending: dict[str, None] = field(default_factory=dict)
    is_woken: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def notify(self, name: str) -> None:
        self.pending[name] = None
        self.is_woken.set()

    def end(self) -> None:
        self.is_over = True
        self.is_woken.set()

    async def wait(self) -> list[str]:
        """Return the topics that have changed; none after a while, so that the connection is kept alive."""
        try:
            await asyncio.wait_for(self.is_woken.wait(), KEEP_ALIVE_S)
        except TimeoutError:
            return []
        self.is_woken.clear()
        changed = list(self.pending)
        self.pending.clear()
        return changed


class LiveUpdates:
    """The topics of a console, and the pages that follow them."""

    def __init__(self, topics: Iterable[Topic] = ()) -> None:
        self._topics: dict[str, Topic] = {}
        self._followers: set[_Follower] = set()
        self._watchers: dict[str, asyncio.Task[None]] = {}
        # The topics that a watcher has read at least once.
        self._read: set[str] = set()
        self._is_closed = False
        for each in topics:
            self.add_topic(each)

    def add_topic(self, topic: Topic) -> None:
        """Let pages follow a topic. Raise `DeclarationError` if there is one of this name."""
        if topic.name in self._topics:
            raise DeclarationError(
                f"Two live topics are named {topic.name!r}: begin the name with that of the system."
            )
        self._topics[topic.name] = topic

    def check_topics(self, names: Iterable[str], user: User) -> list[str]:
        """Return the names, each once. Raise `NotFound` for an unknown topic, and in the same words for one
        of a system that the user may not see.
        """
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            topic = self._topics.get(name)
            if topic is None or (topic.system is not None and not user.can_see(topic.system)):
                raise NotFound(f"No topic {name!r} here. Load the page again.")
        return wanted

    async def follow(
        self, names: Sequence[str], *, account: str = "", place: str = "", is_behind: bool = False
    ) -> AsyncIterator[list[str]]:
        """Yield the names of topics whenever they change, and an empty list from time to time in between.

        With `is_behind`, each topic is also yielded once, as soon as its changes are noticed: what changed
        between the building of the page and its following would be missed.

        Ends with the session, whose sign-in has this `account` and `place`, and when the console stops.
        """
        follower = _Follower(names, account, place, is_behind)
        self._subscribe(follower)
        try:
            while self._is_open(follower):
                changed = await follower.wait()
                if self._is_open(follower):
                    yield changed
        finally:
            self._unsubscribe(follower)

    def publish(self, name: str) -> None:
        """Send an event now, for a change that this process has made."""
        for each in self._followers:
            if name in each.names:
                each.notify(name)

    def end_streams(self, account: str, place: str | None = None) -> None:
        """End the streams of one session, or of all sessions of a user."""
        for each in self._followers:
            if each.account == account and place in (None, each.place):
                each.end()

    async def close(self) -> None:
        """End every stream and stop reading."""
        self._is_closed = True
        for each in self._followers:
            each.end()
        watchers = list(self._watchers.values())
        self._watchers.clear()
        for task in watchers:
            task.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    def _is_open(self, follower: _Follower) -> bool:
        return not (self._is_closed or follower.is_over)

    def _subscribe(self, follower: _Follower) -> None:
        self._followers.add(follower)
        for name in follower.names:
            if name not in self._watchers and not self._is_closed:
                self._watchers[name] = asyncio.create_task(self._watch(self._topics[name]))
            elif name in self._read and follower.is_behind:
                follower.notify(name)

    def _unsubscribe(self, follower: _Follower) -> None:
        self._followers.discard(follower)
        followed = {name for each in self._followers for name in each.names}
        for name in follower.names:
            if name not in followed and name in self._watchers:
                self._watchers.pop(name).cancel()
                self._read.discard(name)

    def _catch_up(self, name: str) -> None:
        """Send a topic that was read for the first time to the pages that may have missed a change of it."""
        self._read.add(name)
        for each in self._followers:
            if each.is_behind and name in each.names:
                each.notify(name)

    async def _watch(self, topic: Topic) -> None:
        """Read the fingerprint again and again, and publish each change; a failure is logged."""
        last: Hashable = None
        is_first = True
        while True:
            try:
                current = await topic.read()
            except HoldfastError as error:
                log.warning("The live topic %s was not read: %s", topic.name, error)
            except Exception:
                log.exception("The live topic %s was not read.", topic.name)
            else:
                if is_first:
                    self._catch_up(topic.name)
                elif current != last:
                    self.publish(topic.name)
                last, is_first = current, False
            await asyncio.sleep(topic.every_s)
