"""Values in a cache: put, read, ended by the clock, extended, deleted, counted; of several at once, one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations.cache import (
    LIFETIME_S_MAX,
    VALUE_BYTES_MAX,
    Counted,
    DeleteValue,
    ExtendValue,
    GetValue,
    Increment,
    Operation,
    Ping,
    PutValue,
)

from .store import Store

TOKEN = b'{"access_token": "t-1"}'


@pytest.mark.parametrize("value", [TOKEN, b"", b"12:34\n\x00\xff", b"x" * VALUE_BYTES_MAX], ids=len)
def test_what_was_put_is_read_byte_for_byte(store: Store, value: bytes) -> None:
    key = store.key()
    assert store.run(PutValue(key=key, value=value, lifetime_s=60)) is True
    assert store.run(GetValue(key=key)) == value


def test_what_was_never_put_is_not_there(store: Store) -> None:
    assert store.run(GetValue(key=store.key())) is None


@pytest.mark.proves("PG-1")
def test_a_value_ends_with_its_lifetime_by_the_clock(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=TOKEN, lifetime_s=3600))
    store.clock.moment += 3599.9
    assert store.run(GetValue(key=key)) == TOKEN
    store.clock.moment += 0.1
    assert store.run(GetValue(key=key)) is None


def test_a_later_put_replaces_value_and_lifetime(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=b"long", lifetime_s=3600))
    store.run(PutValue(key=key, value=b"short", lifetime_s=60))
    assert store.run(GetValue(key=key)) == b"short"
    store.clock.moment += 60
    assert store.run(GetValue(key=key)) is None


def test_only_one_of_many_at_once_puts_what_is_absent(store: Store) -> None:
    key = store.key()
    caches = [store.beside() for _ in range(4)]

    async def all_at_once() -> list[bool]:
        puts = [
            cache.run(PutValue(key=key, value=bytes([number]), lifetime_s=60, only_if_absent=True))
            for number, cache in enumerate(caches * 5)
        ]
        return await asyncio.gather(*puts)

    done = asyncio.run(all_at_once())
    assert done.count(True) == 1
    assert store.run(GetValue(key=key)) == bytes([done.index(True)])


def test_what_is_past_its_lifetime_is_absent_for_the_next(store: Store) -> None:
    key = store.key()
    first = PutValue(key=key, value=b"1", lifetime_s=10, only_if_absent=True)
    assert store.run(first) is True
    store.clock.moment += 9
    assert store.run(PutValue(key=key, value=b"2", lifetime_s=10, only_if_absent=True)) is False
    store.clock.moment += 1
    assert store.run(PutValue(key=key, value=b"3", lifetime_s=10, only_if_absent=True)) is True
    assert store.run(GetValue(key=key)) == b"3"


def test_a_value_is_deleted_once(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=TOKEN, lifetime_s=60))
    assert store.run(DeleteValue(key=key)) is True
    assert store.run(DeleteValue(key=key)) is False
    assert store.run(GetValue(key=key)) is None


def test_only_the_value_that_is_named_is_deleted(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=b"holder-2", lifetime_s=60))
    assert store.run(DeleteValue(key=key, only_if=b"holder-1")) is False
    assert store.run(DeleteValue(key=key, only_if=b"")) is False
    assert store.run(GetValue(key=key)) == b"holder-2"
    assert store.run(DeleteValue(key=key, only_if=b"holder-2")) is True


def test_a_lifetime_is_extended_from_now(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=TOKEN, lifetime_s=60))
    store.clock.moment += 59
    assert store.run(ExtendValue(key=key, lifetime_s=60)) is True
    store.clock.moment += 59
    assert store.run(GetValue(key=key)) == TOKEN
    store.clock.moment += 1
    assert store.run(ExtendValue(key=key, lifetime_s=60)) is False
    assert store.run(GetValue(key=key)) is None


def test_extending_brings_nothing_back(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=TOKEN, lifetime_s=60))
    store.run(DeleteValue(key=key))
    assert store.run(ExtendValue(key=key, lifetime_s=60)) is False
    assert store.run(GetValue(key=key)) is None


# --- counts -------------------------------------------------------------------------------------------------


def test_a_count_ends_with_the_lifetime_of_its_first(store: Store) -> None:
    key = store.key()
    assert store.run(Increment(key=key, lifetime_s=60)) == Counted(count=1, is_counted=True)
    store.clock.moment += 59
    assert store.run(Increment(key=key, lifetime_s=60, by=2)) == Counted(count=3, is_counted=True)
    assert store.run(GetValue(key=key)) == b"3"
    store.clock.moment += 1
    assert store.run(Increment(key=key, lifetime_s=60)) == Counted(count=1, is_counted=True)


def test_a_count_never_passes_the_most(store: Store) -> None:
    key = store.key()
    store.run(Increment(key=key, lifetime_s=60, by=4, most=5))
    assert store.run(Increment(key=key, lifetime_s=60, by=2, most=5)) == Counted(count=4, is_counted=False)
    assert store.run(Increment(key=key, lifetime_s=60, by=1, most=5)) == Counted(count=5, is_counted=True)
    assert store.run(Increment(key=key, lifetime_s=60, most=-1)) == Counted(count=5, is_counted=False)


def test_large_counts_are_exact(store: Store) -> None:
    key = store.key()
    store.run(Increment(key=key, lifetime_s=60, by=2**52))
    assert store.run(Increment(key=key, lifetime_s=60)).count == 2**52 + 1
    assert store.run(GetValue(key=key)) == str(2**52 + 1).encode()


def test_what_is_no_count_does_not_stand_in_the_way_of_one(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=b"{}", lifetime_s=60))
    assert store.run(Increment(key=key, lifetime_s=60)).count == 1


@pytest.mark.proves("PG-38")
def test_counts_of_many_threads_and_event_loops_are_exact(store: Store) -> None:
    key = store.key()

    async def some() -> list[Counted]:
        asked = Increment(key=key, lifetime_s=60, most=70)
        return await asyncio.gather(*(store.cache.run(asked) for _ in range(25)))

    with ThreadPoolExecutor(4) as threads:
        done = [each for told in threads.map(lambda _: asyncio.run(some()), range(4)) for each in told]
    assert sorted(each.count for each in done if each.is_counted) == list(range(1, 71))
    assert store.run(GetValue(key=key)) == b"70"


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "session:" + "x" * 1024, "a\nb"], ids=["empty", "long", "line"])
def test_a_key_that_is_none_is_refused_and_not_told(store: Store, key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        store.run(GetValue(key=key))
    assert "xxxx" not in refused.value.message


@pytest.mark.parametrize("lifetime_s", [0, -1, float("inf"), float("nan"), LIFETIME_S_MAX + 1])
def test_a_lifetime_that_is_none_is_refused(store: Store, lifetime_s: float) -> None:
    key = store.key()
    for asked in (
        PutValue(key=key, value=TOKEN, lifetime_s=lifetime_s),
        ExtendValue(key=key, lifetime_s=lifetime_s),
        Increment(key=key, lifetime_s=lifetime_s),
    ):
        with pytest.raises(InvalidRequest, match="lifetime"):
            store.run(asked)
    assert store.run(GetValue(key=key)) is None


def test_a_value_too_large_and_a_count_downwards_are_refused(store: Store) -> None:
    key = store.key()
    with pytest.raises(InvalidRequest, match="1,048,577"):
        store.run(PutValue(key=key, value=b"x" * (VALUE_BYTES_MAX + 1), lifetime_s=60))
    with pytest.raises(InvalidRequest, match="by 0"):
        store.run(Increment(key=key, lifetime_s=60, by=0))
    assert store.run(GetValue(key=key)) is None


# --- the engine ---------------------------------------------------------------------------------------------


def test_a_cache_that_runs_answers(store: Store) -> None:
    store.run(Ping())


def test_one_cache_serves_one_event_loop_after_another(store: Store) -> None:
    key = store.key()

    async def put() -> None:
        await store.cache.run(PutValue(key=key, value=TOKEN, lifetime_s=60))

    async def read() -> bytes | None:
        return await store.cache.run(GetValue(key=key))

    asyncio.run(put())
    assert asyncio.run(read()) == TOKEN


def test_what_is_lost_is_not_there_and_may_be_put_again(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=TOKEN, lifetime_s=60))
    store.lose()
    assert store.run(GetValue(key=key)) is None
    assert store.run(Increment(key=key, lifetime_s=60)).count == 1


# --- any sequence does what a plain dictionary does ---------------------------------------------------------

KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from([b"", b"1", b"7", b"x:y"])
LIFETIMES = st.sampled_from([60.0, 90.0, 600.0])
STEPS = st.one_of(
    st.floats(0, 100),
    st.builds(lambda key: GetValue(key=key), KEYS),
    st.builds(
        lambda key, value, lifetime_s, absent: PutValue(
            key=key, value=value, lifetime_s=lifetime_s, only_if_absent=absent
        ),
        KEYS,
        VALUES,
        LIFETIMES,
        st.booleans(),
    ),
    st.builds(lambda key, lifetime_s: ExtendValue(key=key, lifetime_s=lifetime_s), KEYS, LIFETIMES),
    st.builds(lambda key, only_if: DeleteValue(key=key, only_if=only_if), KEYS, st.none() | VALUES),
    st.builds(
        lambda key, lifetime_s, by, most: Increment(key=key, lifetime_s=lifetime_s, by=by, most=most),
        KEYS,
        LIFETIMES,
        st.integers(1, 5),
        st.none() | st.integers(-1, 12),
    ),
)


@dataclass
class Plain:
    """What is promised, as plainly as it can be said; times in whole milliseconds, as Redis counts them."""

    now: int
    kept: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    def do(self, asked: Operation[object]) -> object:
        key: str = asked.key  # type: ignore[attr-defined]
        if key in self.kept and self.kept[key][1] <= self.now:
            del self.kept[key]
        value, ends = self.kept.get(key, (None, 0))
        life = self.now + int(getattr(asked, "lifetime_s", 0) * 1000)
        if isinstance(asked, GetValue):
            return value
        if isinstance(asked, PutValue):
            if asked.only_if_absent and value is not None:
                return False
            self.kept[key] = (asked.value, life)
            return True
        if value is not None and isinstance(asked, ExtendValue):
            self.kept[key] = (value, life)
            return True
        if value is not None and isinstance(asked, DeleteValue) and asked.only_if in (None, value):
            del self.kept[key]
            return True
        return self._counted(asked, value, ends or life) if isinstance(asked, Increment) else False

    def _counted(self, asked: Increment, value: bytes | None, ends: int) -> Counted:
        count = int(value) if value is not None and value.isdigit() else 0
        if asked.most is not None and count + asked.by > asked.most:
            return Counted(count=count, is_counted=False)
        self.kept[asked.key] = (str(count + asked.by).encode(), ends)
        return Counted(count=count + asked.by, is_counted=True)


@given(steps=st.lists(STEPS, min_size=1, max_size=25))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_does_what_a_plain_dictionary_does(
    store: Store, steps: list[float | Operation[object]]
) -> None:
    async def sequence() -> Iterator[tuple[object, object]]:
        store.clock.moment = float(int(store.clock.moment))
        plain = Plain(int(store.clock.moment * 1000))
        for key in ("a", "b"):
            await store.cache.run(DeleteValue(key=key))
        found = []
        for step in steps:
            if isinstance(step, float):
                plain.now += int(step) * 1000
                store.clock.moment += int(step)
            else:
                found.append((await store.cache.run(step), plain.do(step)))
        return iter(found)

    for given_back, promised in asyncio.run(sequence()):
        assert given_back == promised
