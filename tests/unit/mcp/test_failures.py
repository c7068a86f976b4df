"""Failures of calls: what the agent reads, what the operator's log has, and that the server lives on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from holdfast import Stores, System
from holdfast.core import errors
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.error_audience import is_for_caller
from holdfast.core.errors import HoldfastError
from holdfast.mcp.errors import describe_failure
from holdfast.mcp.server import ERROR_META
from holdfast.web.problems import _find_mapping
from tests.cases import all_cases
from tests.unit.mcp.harbour import SYSTEM, moor
from tests.unit.mcp.mcp_client import BreakableTables, call_tool, get_refusal, open_agent

PERSON = "Ada Lovelace"
ID = "0123456789abcdef"


def harbour_with_tools(*tools: Callable[..., Awaitable[Any]]) -> System:
    """Return the harbour with these functions as its tools."""
    return replace(SYSTEM, admin=replace(SYSTEM.admin, tools=tools))


def break_tables(stores: Stores, error: Exception | None) -> None:
    assert isinstance(stores.tables, BreakableTables)
    stores.tables.error = error


async def test_store_that_is_down_is_an_error_result_and_the_server_lives_on() -> None:
    async with open_agent(is_local=False) as (agent, stores):
        await moor(stores, "B1", 1)
        break_tables(stores, errors.StoreUnreachable("No connection to 10.0.0.7."))
        result = await agent.call_tool("ship", {"ship_id": "S001"})
        with pytest.raises(MCPError, match="ship cannot reach what it needs now. Retry in a second."):
            await agent.read_resource("holdfast://harbour/ship/S001")
        break_tables(stores, None)
        found = await call_tool(agent, "ship", ship_id="S001")

    assert (result.is_error, result.structured_content) == (True, None)
    assert (result.meta or {})[ERROR_META] == "StoreUnreachable"
    assert found["count"] == 1


@all_cases(
    ("error", "remote", "local"),
    [
        (errors.NotFound("Unknown booking b-1."), "Unknown booking b-1.", ""),
        (errors.ConditionFailed(), "The conditional request failed", ""),
        (
            errors.StoreUnreachable("No connection to 10.0.0.7.", retry_after_s=2.5),
            "ship cannot reach what it needs now. Retry in 3 seconds.",
            " The reason: No connection to 10.0.0.7.",
        ),
        (
            errors.StatementTimedOut("canceling statement"),
            "ship took too long and was stopped. Ask for less, or retry later.",
            " The reason: canceling statement",
        ),
        (
            errors.OutcomeUnknown("lost", safe_to_repeat=False),
            "The outcome of ship is unknown: it may be done. Read the data before you repeat it.",
            " The reason: lost",
        ),
        (
            errors.SettingsError("Set secret_path to /etc/keys."),
            f"ship is not set up correctly. Report it to the operator: the log has the reason under {ID}.",
            " The reason: Set secret_path to /etc/keys.",
        ),
        (
            errors.ItemUnreadable("Ships", {"shipId": PERSON}, "tons"),
            f"ship is not set up correctly. Report it to the operator: the log has the reason under {ID}.",
            "",
        ),
        (
            errors.InternalError(PERSON),
            f"ship failed because of a bug. Report it to the operator: the log has the reason under {ID}.",
            "",
        ),
        (
            KeyError(PERSON),
            f"ship failed unexpectedly. Report it to the operator: the log has the reason under {ID}.",
            "",
        ),
        (
            ExceptionGroup("", [errors.NotFound("No a."), ExceptionGroup("", [errors.NotFound("No b.")])]),
            "No a. No b.",
            "",
        ),
    ],
)
def test_agent_reads_what_it_can_act_on_and_its_operator_the_rest(
    error: Exception, remote: str, local: str
) -> None:
    with bind_correlation_id(ID):
        texts = [describe_failure("ship", error, is_local=each).text for each in (False, True)]

    assert texts == [remote, remote + local]


def test_message_of_an_unexpected_error_is_neither_shown_nor_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A message such as that of a KeyError may quote a person's data. The class and the place are logged."""
    with pytest.raises(KeyError) as raised:
        dict[str, str]()[PERSON]
    failure = describe_failure("ship", raised.value, is_local=True)

    assert PERSON not in failure.text
    assert PERSON not in caplog.text
    assert "The tool ship failed: KeyError" in caplog.text
    assert "test_failures.py" in caplog.text


def test_hidden_message_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    describe_failure("ship", errors.StoreUnreachable("No connection to 10.0.0.7."), is_local=False)
    describe_failure("ship", errors.NotFound("Unknown ship."), is_local=False)

    logged = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert logged == [
        (logging.WARNING, "The tool ship: StoreUnreachable: No connection to 10.0.0.7."),
    ]


def test_http_and_mcp_show_the_same_errors_to_callers() -> None:
    for kind in _list_error_classes(HoldfastError):
        for is_for_operator in (False, True):
            error = kind.__new__(kind)
            error.is_for_operator = is_for_operator
            _, mapping = _find_mapping(error)

            assert is_for_caller(error) is (mapping.detail is None), kind


def _list_error_classes(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    """Yield the classes of the library's errors."""
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
            yield from _list_error_classes(each)


async def test_call_that_takes_too_long_is_stopped() -> None:
    stopped = asyncio.Event()

    async def dawdle(stores: Stores) -> None:
        """Take forever."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with open_agent(harbour_with_tools(dawdle), max_call_s=0.01) as (agent, _):
        message = await get_refusal(agent, "dawdle")
        found = await call_tool(agent, "ship", ship_id="S1")

    assert message.startswith("dawdle took too long and was stopped. Ask for less, or retry later.")
    assert stopped.is_set()
    assert found["count"] == 0


async def test_cancelled_call_stops_and_the_session_continues() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def dawdle(stores: Stores) -> None:
        """Take forever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with open_agent(harbour_with_tools(dawdle)) as (agent, _):
        call = asyncio.create_task(agent.call_tool("dawdle", {}))
        await started.wait()
        call.cancel()
        await stopped.wait()

        assert (await call_tool(agent, "ship", ship_id="S1"))["count"] == 0


async def test_calls_are_logged_without_their_arguments(caplog: pytest.LogCaptureFixture) -> None:
    async with open_agent() as (agent, _):
        with caplog.at_level(logging.INFO):
            await call_tool(agent, "ship", ship_id=PERSON)
            await get_refusal(agent, "ship", ship_idd=PERSON)

    assert "The tool ship answered in" in caplog.text
    assert PERSON not in caplog.text
