"""The strict type check rejects every wrong use in `bad.py` and accepts `good.py`.

One run of the checker covers both. The tests below cover the wrong uses that no checker can see: each raises
when it runs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Attr, Component, Entity, Rate, System, attr, pattern
from holdfast.core.errors import DeclarationError, InvalidRequest
from tests.types.good import EMPLOYEE, Booking, booking, bookings, pm

ROOT = Path(__file__).parents[2]
GOOD, BAD = ROOT / "tests/types/good.py", ROOT / "tests/types/bad.py"
MARKED = {
    number: line.partition("# BAD ")[2]
    for number, line in enumerate(BAD.read_text(encoding="utf-8").splitlines(), 1)
    if "# BAD " in line
}
MIN_WRONG_USES = 60


@pytest.fixture(scope="module")
def complaints() -> dict[Path, dict[int, str]]:
    """Return the checker's errors, by file and line."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", GOOD, BAD],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    found: dict[Path, dict[int, str]] = {}
    for path, line, text in re.findall(r"^(\S+?):(\d+): error: (.*)$", done.stdout, flags=re.MULTILINE):
        found.setdefault(ROOT / path, {})[int(line)] = text
    return found


def test_set_of_wrong_uses_is_large_enough() -> None:
    assert len(MARKED) >= MIN_WRONG_USES


def test_checker_accepts_the_good_uses(complaints: dict[Path, dict[int, str]]) -> None:
    assert complaints.get(GOOD, {}) == {}


def test_checker_rejects_every_wrong_use(complaints: dict[Path, dict[int, str]]) -> None:
    assert [why for line, why in MARKED.items() if line not in complaints[BAD]] == []


def test_checker_rejects_no_unmarked_line(complaints: dict[Path, dict[int, str]]) -> None:
    assert {line: text for line, text in complaints[BAD].items() if line not in MARKED} == {}


def _and_instead_of_ampersand() -> object:
    return Booking.of(EMPLOYEE).query().where((Booking.version == 1) and (Booking.version == 2))


def _or_instead_of_bar() -> object:
    return Booking.of(EMPLOYEE).query().where((Booking.version == 1) or (Booking.version == 2))


def _chained_comparison() -> object:
    return Booking.of(EMPLOYEE).query().where(1 < Booking.version < 3)


def _condition_as_if_it_were_true_or_false() -> object:
    return 1 if Booking.version == 1 else 2


def _misspelt_class_keyword() -> object:
    class Misspelt(Entity, tabel=pm):
        id: Attr[str] = attr()

    return Misspelt


def _table_by_its_name() -> object:
    class Elsewhere(Entity, table="Projects"):
        id: Attr[str] = attr()

    return Elsewhere


def _example_with_too_few_arguments() -> object:
    wrong = pattern("X", "An example that does not fit", rate=Rate(per="request"), example=())(
        booking.function
    )
    return wrong.build_example()


def _two_patterns_of_one_id() -> object:
    other = pattern(booking.id, "Another", rate=Rate(per="request"), example=())(booking.function)
    return System("travel", "Books travel", tables=(bookings,), patterns=(booking, other))


def _pattern_by_its_id() -> object:
    return Component("reader", uses=("B1",)).patterns  # type: ignore[arg-type]


UNSEEN: list[tuple[Callable[[], object], type[Exception], str]] = [
    (_and_instead_of_ampersand, TypeError, "no truth value"),
    (_or_instead_of_bar, TypeError, "no truth value"),
    (_chained_comparison, TypeError, "no truth value"),
    (_condition_as_if_it_were_true_or_false, TypeError, "no truth value"),
    (_misspelt_class_keyword, DeclarationError, "Unknown class argument of .*: tabel"),
    (_table_by_its_name, DeclarationError, "expected a Table"),
    (_example_with_too_few_arguments, InvalidRequest, "Expected booking"),
    (_two_patterns_of_one_id, DeclarationError, "two patterns named B1"),
    (_pattern_by_its_id, DeclarationError, "Invalid element 'B1' in `uses`"),
]


@pytest.mark.parametrize(("use", "error", "expected"), UNSEEN, ids=[use.__name__[1:] for use, _, _ in UNSEEN])
def test_unchecked_wrong_use_raises_when_it_runs(
    use: Callable[[], object], error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        use()
