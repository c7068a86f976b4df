"""Tables of cases that run as one test, where a case costs less than a test of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., Any]
_PARAM = type(pytest.param())


def all_cases(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run the test with every case and report each case that fails, as one test.

    The arguments are those of `pytest.mark.parametrize`. The cases share the fixtures of the test.
    """
    parameters = (names,) if isinstance(names, str) else names
    arguments = [dict(zip(parameters, _get_values(case, names), strict=True)) for case in cases]
    assert arguments, f"no case of {names}"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            with collect_failures() as failures:
                for each in arguments:
                    with failures.of(each):
                        test(**fixtures, **each)

        @functools.wraps(test)
        async def run_async(**fixtures: Any) -> None:
            with collect_failures() as failures:
                for each in arguments:
                    with failures.of(each):
                        await test(**fixtures, **each)

        runner: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        fixtures = [each for each in signature.parameters.values() if each.name not in parameters]
        runner.__signature__ = signature.replace(parameters=fixtures)
        return runner  # type: ignore[no-any-return]

    return decorate


def _get_values(case: Any, names: str | tuple[str, ...]) -> Iterable[Any]:
    if isinstance(case, _PARAM):
        return case.values
    return (case,) if isinstance(names, str) else case


class Failures:
    """The failures of several cases."""

    def __init__(self) -> None:
        self.found: list[BaseException] = []

    @contextmanager
    def of(self, case: object) -> Iterator[None]:
        """Keep a failure of this block with the name of its case."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"The case: {case}")
            self.found.append(error)


@contextmanager
def collect_failures() -> Iterator[Failures]:
    """Raise the failures of all cases together at the end of the block."""
    failures = Failures()
    yield failures
    if failures.found:
        raise BaseExceptionGroup(f"{len(failures.found)} cases failed", failures.found)
