"""Live updates: who learns of which change, one reader for all, and how streams end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.console import live as live_module
from holdfast.console.live import LiveUpdates, Topic
from holdfast.console.users import User
from holdfast.core.errors import DeclarationError, NotFound, RetryLater

OTTO = User("otto", frozenset({"operator"}))
PIA = User("pia", frozenset({"pagw:viewer"}))


class Source:
    """Something that pages show. `change` changes it, and returns when a reader has seen that."""

    def __init__(self) -> None:
        self.value, self.reads, self.failure = 0, 0, False
        self._was_read = asyncio.Condition()

    async def read(self) -> int:
        async with self._was_read:
            self.reads += 1
            self._was_read.notify_all()
        if self.failure:
            raise RetryLater("The store does not answer.")
        return self.value

    async def change(self) -> None:
        self.value += 1
        await self.wait_for_reads(2)

    async def wait_for_reads(self, count: int) -> None:
        """Wait for further reads: after the second, the first has been compared."""
        async with self._was_read:
            wanted = self.reads + count
            await self._was_read.wait_for(lambda: self.reads >= wanted)


class Page:
    """A page that follows topics and collects what it learns."""

    def __init__(
        self, live: LiveUpdates, *names: str, account: str = "", place: str = "", is_behind: bool = False
    ) -> None:
        self.events: list[str] = []
        self._stream = live.follow(names, account=account, place=place, is_behind=is_behind)
        self._changed = asyncio.Condition()
        self.task = asyncio.create_task(self._collect())

    async def _collect(self) -> None:
        async for changed in self._stream:
            async with self._changed:
                self.events += changed
                self._changed.notify_all()

    async def wait_for(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.events) >= count)


@pytest.fixture
async def source() -> Source:
    return Source()


@pytest.fixture
async def live(source: Source) -> AsyncIterator[LiveUpdates]:
    updates = LiveUpdates([Topic("work", source.read, every_s=0.001)])
    yield updates
    await updates.close()


async def test_a_page_learns_of_a_change_and_of_nothing_else(live: LiveUpdates, source: Source) -> None:
    page = Page(live, "work")
    await source.wait_for_reads(5)
    assert page.events == []
    await source.change()
    await page.wait_for(1)

    assert page.events == ["work"]


async def test_many_pages_have_one_reader_which_stops_with_the_last(
    live: LiveUpdates, source: Source
) -> None:
    pages = [Page(live, "work") for _ in range(50)]
    await source.wait_for_reads(1)
    assert len(live._watchers) == 1
    await source.change()
    for page in pages:
        await page.wait_for(1)
    for page in pages:
        page.task.cancel()
    await asyncio.gather(*(page.task for page in pages), return_exceptions=True)

    assert live._watchers == {} and live._followers == set()


async def test_a_page_follows_only_its_own_topics() -> None:
    first, second = Source(), Source()
    live = LiveUpdates([Topic("first", first.read, 0.001), Topic("second", second.read, 0.001)])
    page, both = Page(live, "first"), Page(live, "first", "second")
    await asyncio.gather(first.wait_for_reads(1), second.wait_for_reads(1))
    await second.change()
    await both.wait_for(1)
    await first.change()
    await asyncio.gather(page.wait_for(1), both.wait_for(2))

    assert page.events == ["first"]
    assert sorted(both.events) == ["first", "second"]
    await live.close()


async def test_a_page_that_was_built_before_it_followed_loads_its_parts_once(
    live: LiveUpdates, source: Source
) -> None:
    first = Page(live, "work", is_behind=True)
    await first.wait_for(1)
    second = Page(live, "work", is_behind=True)  # its topic is read already
    await second.wait_for(1)
    await source.wait_for_reads(5)

    assert (first.events, second.events) == (["work"], ["work"])


async def test_changes_of_this_process_are_published_at_once(live: LiveUpdates, source: Source) -> None:
    page = Page(live, "work")
    await source.wait_for_reads(1)
    live.publish("work")
    live.publish("other")
    await page.wait_for(1)

    assert page.events == ["work"]


async def test_a_slow_page_gets_one_event_for_many_changes_and_loses_no_topic(live: LiveUpdates) -> None:
    live.add_topic(Topic("more", Source().read, every_s=60))
    stream = live.follow(["work", "more"])
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    for _ in range(1000):
        live.publish("work")
    live.publish("more")

    assert await first == ["work", "more"]
    [follower] = live._followers
    assert follower.pending == {}
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_reader_that_fails_is_tried_again(
    live: LiveUpdates, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.failure = True
    page = Page(live, "work")
    await source.wait_for_reads(3)
    source.failure = False
    await source.wait_for_reads(2)
    await source.change()
    await page.wait_for(1)

    assert page.events == ["work"]
    assert "The live topic work was not read" in caplog.text


async def test_a_quiet_stream_is_kept_alive(live: LiveUpdates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "KEEP_ALIVE_S", 0.001)
    stream = live.follow(["work"])

    assert await anext(stream) == []
    await stream.aclose()  # type: ignore[attr-defined]


async def test_the_end_of_a_session_ends_its_streams_only(live: LiveUpdates, source: Source) -> None:
    ended = Page(live, "work", account="local:otto", place="1")
    same_user = Page(live, "work", account="local:otto", place="2")
    other = Page(live, "work", account="local:ada", place="1")
    await source.wait_for_reads(1)
    live.end_streams("local:otto", "1")
    await ended.task
    await source.change()
    await asyncio.gather(same_user.wait_for(1), other.wait_for(1))
    live.end_streams("local:otto")
    await same_user.task

    assert not other.task.done()


async def test_close_ends_every_stream_and_reader(live: LiveUpdates, source: Source) -> None:
    pages = [Page(live, "work") for _ in range(3)]
    await source.wait_for_reads(1)
    await live.close()
    await asyncio.gather(*(each.task for each in pages))

    assert live._watchers == {}
    late = Page(live, "work")
    await late.task
    assert live._watchers == {}


def test_a_topic_of_an_unseen_system_does_not_exist_for_the_user() -> None:
    source = _read_nothing
    live = LiveUpdates([Topic("queues", source, system="pagw"), Topic("inbox", source, system="agenticpm")])

    assert live.check_topics(["queues", "inbox", "queues"], OTTO) == ["queues", "inbox"]
    assert live.check_topics(["queues"], PIA) == ["queues"]
    with pytest.raises(NotFound) as hidden:
        live.check_topics(["queues", "inbox"], PIA)
    with pytest.raises(NotFound) as unknown:
        live.check_topics(["nothing"], PIA)
    assert str(hidden.value).replace("inbox", "nothing") == str(unknown.value)


def test_two_topics_of_one_name_are_refused() -> None:
    with pytest.raises(DeclarationError, match="Two live topics are named 'work'"):
        LiveUpdates([Topic("work", _read_nothing), Topic("work", _read_nothing)])


async def _read_nothing() -> None:
    return None
