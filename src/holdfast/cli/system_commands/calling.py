"""A function of a system as a command: called with the stores of its component, and what it gives is shown."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from holdfast.cli.extras import all_extras, lack_of
from holdfast.cli.parts import API_COMPONENT
from holdfast.cli.system_commands.parameters import AS_JSON, PROGRESS, parameters_of, wants_progress
from holdfast.errors import InvalidRequest, SettingsError
from holdfast.model.declaration import told
from holdfast.model.system import Command
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.reports.scratch import Progress

Function = Callable[..., Awaitable[Any]]


def command_of(system: System, name: str, declared: Function) -> tuple[Callable[..., None], str]:
    """What the command line calls, with the signature that it reads, and the first line of what it is for."""
    function = declared.function if isinstance(declared, Command) else declared

    def called(**given: Any) -> None:
        from holdfast.cli.showing import progress_bar
        from holdfast.cli.system_commands.answers import show

        as_json = given.pop(AS_JSON)
        component = _component(system, declared)
        with progress_bar(shown=wants_progress(function) and not as_json) as progress:
            answer = asyncio.run(_answered(system, function, component, given, progress))
        show(answer, as_json=as_json)

    called.__signature__ = inspect.Signature(parameters_of(f"{system.name} {name}", function))  # type: ignore[attr-defined]
    called.__annotations__ = {}
    about = (inspect.getdoc(function) or "").strip().split("\n", 1)[0]
    return called, about


def _component(system: System, declared: Function) -> str | None:
    """The one that the command names, else `api` where there is one, else the whole system."""
    if isinstance(declared, Command) and declared.component is not None:
        return declared.component
    return API_COMPONENT if API_COMPONENT in [each.name for each in system.components] else None


async def _answered(
    system: System, function: Function, component: str | None, given: dict[str, Any], progress: Progress
) -> Any:
    """On the stores that the settings name; what is not there yet is made, as `holdfast run` does."""
    from holdfast.runtime import open_stores, prepare

    settings = Settings.load()
    if lack := lack_of(system, all_extras(settings, system)):
        raise SettingsError(f"The system {system.name} {lack}")
    if wants_progress(function):
        given = {**given, PROGRESS: progress}
    async with open_stores(system, settings) as stores:
        await prepare(stores, system)
        view = stores if component is None else stores.for_component(component)
        try:
            return await function(view, **given)
        except ValidationError as error:
            raise InvalidRequest(f"{error.title} cannot be: {told(error)}.") from error
