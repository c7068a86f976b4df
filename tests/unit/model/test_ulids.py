"""ULIDs: unique, in order of creation whatever the clock and the threads do, and parsed from text."""

from __future__ import annotations

import threading

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.core.errors import InvalidRequest
from holdfast.model.ulids import Ulid, UlidGenerator, parse_ulid


class FakeClock:
    """A clock that returns the given moments one after the other, and the last one for ever."""

    def __init__(self, *moments: float) -> None:
        self.moments = list(moments)

    def now(self) -> float:
        return self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]


def test_an_id_begins_with_its_time() -> None:
    # 0x018F00000000 milliseconds in Crockford's base 32.
    assert UlidGenerator(FakeClock(0x018F00000000 / 1000)).new().startswith("01HW000000")
    assert len(UlidGenerator().new()) == 26


@pytest.mark.parametrize(
    "moments",
    [(1000.0,), (1000.0, 999.0, 500.0, 1000.0), (1000.0, 1000.0005, 1000.0009), (1000.0, 2000.0, 1000.0)],
    ids=["stands still", "goes back", "within a tick", "jumps back"],
)
def test_ids_sort_in_the_order_they_were_made(moments: tuple[float, ...]) -> None:
    source = UlidGenerator(FakeClock(*moments))
    made = [source.new() for _ in range(1000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_two_sources_do_not_make_the_same_ids() -> None:
    still = FakeClock(1000.0)

    assert UlidGenerator(still).new() != UlidGenerator(still).new()


def test_threads_share_a_source_without_making_one_id_twice() -> None:
    source, made = UlidGenerator(FakeClock(1000.0)), list[list[Ulid]]()

    def work() -> None:
        made.append([source.new() for _ in range(2000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({one for several in made for one in several}) == 8000
    assert all(several == sorted(several) for several in made)


def test_a_text_becomes_a_ulid_in_capitals_or_is_refused() -> None:
    assert parse_ulid("01jcqz8y3m0000000000000000") == "01JCQZ8Y3M0000000000000000"
    for wrong in (
        "",
        "81JCQZ8Y3M0000000000000000",
        "01JCQZ8Y3M000000000000000U",
        "01JCQZ8Y3M00000000000000000",
    ):
        with pytest.raises(InvalidRequest, match="Invalid ULID"):
            parse_ulid(wrong)


def test_ulid_attribute_rejects_other_texts() -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Ulid).validate_python("x")
