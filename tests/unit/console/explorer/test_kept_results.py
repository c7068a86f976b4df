"""Results that a redirect leads to."""

from __future__ import annotations

from holdfast.console.explorer.kept_results import KEPT_S, MAX_RESULTS, KeptResults


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_the_user_who_got_a_result_finds_it() -> None:
    results = KeptResults[str]()
    id = results.keep("ada", "done")
    assert results.find("ada", id) == "done"
    assert results.find("bob", id) is None
    assert results.find("ada", "guessed") is None


def test_a_result_is_kept_for_some_minutes() -> None:
    clock = Clock()
    results = KeptResults[str](clock)
    id = results.keep("ada", "done")
    clock.now = KEPT_S
    assert results.find("ada", id) == "done"
    clock.now = KEPT_S + 1
    assert results.find("ada", id) is None


def test_the_oldest_result_makes_room() -> None:
    results = KeptResults[int]()
    ids = [results.keep("ada", number) for number in range(MAX_RESULTS + 1)]
    assert results.find("ada", ids[0]) is None
    assert results.find("ada", ids[1]) == 1
