"""Cache operations on every engine: put, get, expiry by the clock, extend, delete and increment."""

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
    MAX_LIFETIME_S,
    MAX_VALUE_BYTES,
    DeleteValue,
    ExtendValue,
    GetValue,
    Increment,
    IncrementResult,
    Operation,
    Ping,
    PutValue,
)

from .store import Store

TOKEN = b'{"access_token": "t-1"}'


@pytest.mark.parametrize("value", [TOKEN, b"", b"12:34\n\x00\xff", b"x" * MAX_VALUE_BYTES], ids=len)
def test_reads_back_the_exact_bytes(store: Store, value: bytes) -> None:
    key = store.key()
    assert store.run(PutValue(key=key, value=value, lifetime_s=60)) is True
    assert store.run(GetValue(key=key)) == value


def test_unknown_key_is_absent(store: Store) -> None:
    assert store.run(GetValue(key=store.key())) is None


@pytest.mark.proves("PG-1")
def test_value_expires_by_the_clock(store: Store) -> None:
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


def test_only_one_concurrent_put_if_absent_succeeds(store: Store) -> None:
    key = store.key()
    caches = [store.open_another() for _ in range(4)]

    async def all_at_once() -> list[bool]:
        puts = [
            cache.run(PutValue(key=key, value=bytes([number]), lifetime_s=60, only_if_absent=True))
            for number, cache in enumerate(caches * 5)
        ]
        return await asyncio.gather(*puts)

    done = asyncio.run(all_at_once())
    assert done.count(True) == 1
    assert store.run(GetValue(key=key)) == bytes([done.index(True)])


def test_expired_value_counts_as_absent(store: Store) -> None:
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


def test_deletes_only_the_expected_value(store: Store) -> None:
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


def test_extending_does_not_revive_a_deleted_value(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=TOKEN, lifetime_s=60))
    store.run(DeleteValue(key=key))
    assert store.run(ExtendValue(key=key, lifetime_s=60)) is False
    assert store.run(GetValue(key=key)) is None


# --- counts -------------------------------------------------------------------------------------------------


def test_count_keeps_the_lifetime_of_its_first_increment(store: Store) -> None:
    key = store.key()
    assert store.run(Increment(key=key, lifetime_s=60)) == IncrementResult(count=1, is_counted=True)
    store.clock.moment += 59
    assert store.run(Increment(key=key, lifetime_s=60, by=2)) == IncrementResult(count=3, is_counted=True)
    assert store.run(GetValue(key=key)) == b"3"
    store.clock.moment += 1
    assert store.run(Increment(key=key, lifetime_s=60)) == IncrementResult(count=1, is_counted=True)


def test_a_count_never_passes_the_most(store: Store) -> None:
    key = store.key()
    store.run(Increment(key=key, lifetime_s=60, by=4, most=5))
    assert store.run(Increment(key=key, lifetime_s=60, by=2, most=5)) == IncrementResult(
        count=4, is_counted=False
    )
    assert store.run(Increment(key=key, lifetime_s=60, by=1, most=5)) == IncrementResult(
        count=5, is_counted=True
    )
    assert store.run(Increment(key=key, lifetime_s=60, most=-1)) == IncrementResult(count=5, is_counted=False)


def test_large_counts_are_exact(store: Store) -> None:
    key = store.key()
    store.run(Increment(key=key, lifetime_s=60, by=2**52))
    assert store.run(Increment(key=key, lifetime_s=60)).count == 2**52 + 1
    assert store.run(GetValue(key=key)) == str(2**52 + 1).encode()


def test_count_replaces_a_value_that_is_not_a_number(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=b"{}", lifetime_s=60))
    assert store.run(Increment(key=key, lifetime_s=60)).count == 1


@pytest.mark.proves("PG-38")
def test_counts_of_many_threads_and_event_loops_are_exact(store: Store) -> None:
    key = store.key()

    async def some() -> list[IncrementResult]:
        increment = Increment(key=key, lifetime_s=60, most=70)
        return await asyncio.gather(*(store.cache.run(increment) for _ in range(25)))

    with ThreadPoolExecutor(4) as threads:
        done = [each for results in threads.map(lambda _: asyncio.run(some()), range(4)) for each in results]
    assert sorted(each.count for each in done if each.is_counted) == list(range(1, 71))
    assert store.run(GetValue(key=key)) == b"70"


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "session:" + "x" * 1024, "a\nb"], ids=["empty", "long", "line"])
def test_rejects_an_invalid_key_without_showing_it(store: Store, key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        store.run(GetValue(key=key))
    assert "xxxx" not in refused.value.message


@pytest.mark.parametrize("lifetime_s", [0, -1, float("inf"), float("nan"), MAX_LIFETIME_S + 1])
def test_rejects_an_invalid_lifetime(store: Store, lifetime_s: float) -> None:
    key = store.key()
    for operation in (
        PutValue(key=key, value=TOKEN, lifetime_s=lifetime_s),
        ExtendValue(key=key, lifetime_s=lifetime_s),
        Increment(key=key, lifetime_s=lifetime_s),
    ):
        with pytest.raises(InvalidRequest, match="lifetime"):
            store.run(operation)
    assert store.run(GetValue(key=key)) is None


def test_rejects_a_too_large_value_and_an_increment_by_zero(store: Store) -> None:
    key = store.key()
    with pytest.raises(InvalidRequest, match="1,048,577"):
        store.run(PutValue(key=key, value=b"x" * (MAX_VALUE_BYTES + 1), lifetime_s=60))
    with pytest.raises(InvalidRequest, match="by 0"):
        store.run(Increment(key=key, lifetime_s=60, by=0))
    assert store.run(GetValue(key=key)) is None


# --- the engine ---------------------------------------------------------------------------------------------


def test_running_cache_answers_a_ping(store: Store) -> None:
    store.run(Ping())


async def test_one_cache_serves_one_event_loop_after_another(store: Store) -> None:
    key = store.key()

    await store.cache.run(PutValue(key=key, value=TOKEN, lifetime_s=60))
    assert (await store.cache.run(GetValue(key=key))) == TOKEN


def test_lost_value_is_absent_and_may_be_put_again(store: Store) -> None:
    key = store.key()
    store.run(PutValue(key=key, value=TOKEN, lifetime_s=60))
    store.lose_everything()
    assert store.run(GetValue(key=key)) is None
    assert store.run(Increment(key=key, lifetime_s=60)).count == 1


# --- any sequence matches a plain dictionary ----------------------------------------------------------------

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
class ReferenceCache:
    """A plain reference implementation; times in whole milliseconds, as Redis counts them."""

    now: int
    kept: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    def apply(self, operation: Operation[object]) -> object:
        """Apply the operation and return the result that every engine must return."""
        key: str = operation.key  # type: ignore[attr-defined]
        if key in self.kept and self.kept[key][1] <= self.now:
            del self.kept[key]
        value, ends = self.kept.get(key, (None, 0))
        life = self.now + int(getattr(operation, "lifetime_s", 0) * 1000)
        if isinstance(operation, GetValue):
            return value
        if isinstance(operation, PutValue):
            if operation.only_if_absent and value is not None:
                return False
            self.kept[key] = (operation.value, life)
            return True
        if value is not None and isinstance(operation, ExtendValue):
            self.kept[key] = (value, life)
            return True
        if value is not None and isinstance(operation, DeleteValue) and operation.only_if in (None, value):
            del self.kept[key]
            return True
        return self._count(operation, value, ends or life) if isinstance(operation, Increment) else False

    def _count(self, operation: Increment, value: bytes | None, ends: int) -> IncrementResult:
        """Add to the count unless that exceeds `most`."""
        count = int(value) if value is not None and value.isdigit() else 0
        if operation.most is not None and count + operation.by > operation.most:
            return IncrementResult(count=count, is_counted=False)
        self.kept[operation.key] = (str(count + operation.by).encode(), ends)
        return IncrementResult(count=count + operation.by, is_counted=True)


@given(steps=st.lists(STEPS, min_size=1, max_size=25))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_sequence_matches_a_plain_dictionary(
    store: Store, steps: list[float | Operation[object]]
) -> None:
    async def sequence() -> Iterator[tuple[object, object]]:
        store.clock.moment = float(int(store.clock.moment))
        plain = ReferenceCache(int(store.clock.moment * 1000))
        for key in ("a", "b"):
            await store.cache.run(DeleteValue(key=key))
        found = []
        for step in steps:
            if isinstance(step, float):
                plain.now += int(step) * 1000
                store.clock.moment += int(step)
            else:
                found.append((await store.cache.run(step), plain.apply(step)))
        return iter(found)

    for given_back, promised in await sequence():
        assert given_back == promised
