"""Build the Typer callback of a system command: it calls the function on the stores and prints the result."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ValidationError

from holdfast.cli.extras import describe_missing_extras, get_all_extras
from holdfast.cli.processes.workload import API_COMPONENT
from holdfast.cli.system_commands.parameters import (
    AS_JSON,
    PROGRESS,
    build_parameters,
    has_progress_parameter,
)
from holdfast.config.settings import Settings
from holdfast.core.errors import InvalidRequest, SettingsError
from holdfast.model.entities.declaration import format_error
from holdfast.model.system import Command, Explanation

if TYPE_CHECKING:
    from holdfast.model.system import System

Function = Callable[..., Awaitable[Any]]


def build_callback(system: System, name: str, declared: Function) -> tuple[Callable[..., None], str]:
    """Return the callback for Typer, with the signature that Typer reads, and the command's help text.

    The help text is the first line of the function's docstring.
    """
    function = declared.function if isinstance(declared, Command) else declared
    needs_stores = not isinstance(declared, Command) or declared.needs_stores

    def callback(**arguments: Any) -> None:
        from holdfast.cli.output.console import progress_bar
        from holdfast.cli.system_commands.results import print_result

        as_json = arguments.pop(AS_JSON)
        with progress_bar(enabled=has_progress_parameter(function) and not as_json) as progress:
            if has_progress_parameter(function):
                arguments[PROGRESS] = progress
            if needs_stores:
                call = _call_with_stores(system, function, _select_component(system, declared), arguments)
            else:
                call = _call_alone(system, function, arguments)
            result = asyncio.run(call)
        print_result(result, as_json=as_json)
        if isinstance(result, Explanation) and result.exit_code:
            raise typer.Exit(result.exit_code)

    parameters = build_parameters(f"{system.name} {name}", function, needs_stores=needs_stores)
    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    callback.__annotations__ = {}
    about = (inspect.getdoc(function) or "").strip().split("\n", 1)[0]
    return callback, about


def _select_component(system: System, declared: Function) -> str | None:
    """Return the component that the command names, else `api` if the system declares it, else None (all)."""
    if isinstance(declared, Command) and declared.component is not None:
        return declared.component
    return API_COMPONENT if API_COMPONENT in [each.name for each in system.components] else None


async def _call_with_stores(
    system: System, function: Function, component: str | None, arguments: dict[str, Any]
) -> Any:
    """Call the function on the configured stores of a started system, as `holdfast run` does."""
    from holdfast.runtime import open_stores, start_system

    settings = Settings.load()
    _check_extras(system, settings)
    async with open_stores(system, settings) as stores:
        await start_system(system, stores)
        view = stores if component is None else stores.for_component(component)
        return await _call(function, view, **arguments)


async def _call_alone(system: System, function: Function, arguments: dict[str, Any]) -> Any:
    """Call a function that needs no stores."""
    _check_extras(system, Settings.load())
    return await _call(function, **arguments)


def _check_extras(system: System, settings: Settings) -> None:
    """Raise `SettingsError` if an extra that the system needs is not installed."""
    if missing := describe_missing_extras(system, get_all_extras(settings, system)):
        raise SettingsError(f"The system {system.name} {missing}")


async def _call(function: Function, *positional: Any, **arguments: Any) -> Any:
    """Call the function. Raise `InvalidRequest` for a value that a model refuses."""
    try:
        return await function(*positional, **arguments)
    except ValidationError as error:
        raise InvalidRequest(f"Invalid {error.title}: {format_error(error)}.") from error
