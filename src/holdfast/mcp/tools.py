"""The tools of a system for an agent, and their descriptions.

The agent is the component `agent`. Its patterns are tools (writes only if they are declared as writes), and
so are the system's functions over several patterns. All of them run through `stores.for_component("agent")`,
so that nothing here extends the component's permissions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.core.errors import DeclarationError, NotFound
from holdfast.mcp.arguments import (
    Paging,
    build_function_model,
    build_paged_schema,
    require_time_zones,
    split_paging,
    validate_arguments,
)
from holdfast.mcp.results import RESULT_SCHEMA, run_operation, to_bounded_json
from holdfast.model.cache import DeleteCached, PutCached
from holdfast.model.entities.reads import PagedRead
from holdfast.model.entities.writes import BatchPut, Delete, Put, Transact, Update
from holdfast.model.objects import GetOrPutObject, PutObject
from holdfast.model.operations import EngineOperation, Operation
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Send, SendBatch
from holdfast.model.sql import SqlOperation, SqlTransact, SqlWrite
from holdfast.model.system import System
from holdfast.operations.expressions import nodes
from holdfast.reports.sql_statements import split_words
from holdfast.runtime.stores import Stores

AGENT: Final = "agent"
"""The name of the component whose patterns are the tools of agents."""

Call = Callable[[Mapping[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


@dataclass(frozen=True)
class Effects:
    """The effects of a tool call, as the protocol's hints."""

    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True


@dataclass(frozen=True)
class AgentTool:
    """One tool: its name, title and description, the schemas of its arguments and result, its effects, and
    the call.
    """

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    effects: Effects
    call: Call


def build_agent_tools(stores: Stores, *, prefix: str = "") -> list[AgentTool]:
    """Build the tools of the stores' system. `prefix` distinguishes systems where several are served.

    Raise `DeclarationError` for stores without a system, two tools of one name, or an exposed read that
    writes; `NotFound` for a system without the component `agent`.
    """
    if stores.system is None:
        raise DeclarationError("These stores have no system, and so no tools. Pass a system to Stores.")
    system = stores.system
    agent = _get_agent_stores(stores, system)
    component = system.get_component(AGENT)
    offered = component.reads if component.exposed_tools is None else component.exposed_tools
    reads = [_build_pattern_tool(each, agent, prefix, may_write=False) for each in offered]
    writes = [_build_pattern_tool(each, agent, prefix, may_write=True) for each in component.writes]
    # A function has the component's permissions: without writes it only reads.
    effects = Effects() if not component.writes else Effects(False, True, False)
    functions = [_build_function_tool(each, agent, prefix, effects) for each in system.admin.tools]
    tools = [*reads, *writes, *functions]
    _check_unique_names(system, [tool.name for tool in tools])
    return tools


def _get_agent_stores(stores: Stores, system: System) -> Stores:
    """Return the stores with the permissions of the component `agent`. Raise `NotFound` if there is none."""
    try:
        return stores.for_component(AGENT)
    except NotFound as error:
        known = ", ".join(component.name for component in system.components) or "none"
        raise NotFound(
            f"{system.name} declares no component {AGENT!r} (it has {known}), and so has no tools for "
            f"agents. Add Component({AGENT!r}, uses=(…), read_only=True) to the system, with the patterns "
            "that an agent may run."
        ) from error


def _check_unique_names(system: System, names: list[str]) -> None:
    """Raise `DeclarationError` if two tools have the same name."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(f"{system.name} has two tools named {', '.join(twice)}: rename one.")


# --- patterns -----------------------------------------------------------------------------------------------


def _build_pattern_tool(
    pattern: Pattern[..., Any], agent: Stores, prefix: str, *, may_write: bool
) -> AgentTool:
    """Build the tool of one pattern. Raise `DeclarationError` if it writes although `may_write` is False."""
    arguments = pattern.example_arguments
    example: Operation[Any] = pattern.call_with(arguments)
    if example.writes and not may_write:
        raise DeclarationError(
            f"The component {AGENT} exposes {pattern.id} ({pattern.name}) as a read, but it writes. "
            "Remove it from `exposed_tools`: the writes in `uses` are always tools."
        )
    model, is_paged = pattern.arguments_model, isinstance(example, PagedRead)

    async def call(given: Mapping[str, Any]) -> dict[str, Any]:
        paging, own = split_paging(model, given) if is_paged else (Paging(), given)
        require_time_zones(model, own)
        return await run_operation(agent, pattern.call_with_json(own), paging)

    return AgentTool(
        name=prefix + pattern.name,
        title=pattern.purpose,
        description=_describe_pattern(pattern, example),
        input_schema=build_paged_schema(pattern) if is_paged else model.model_json_schema(),
        output_schema=RESULT_SCHEMA,
        effects=_get_effects(example, is_deterministic=example == pattern.call_with(arguments)),
        call=call,
    )


def _describe_pattern(pattern: Pattern[..., Any], example: Operation[Any]) -> str:
    """Return the pattern's purpose, its kind, key or index, and rate, as an agent reads them."""
    sentences = [
        f"{pattern.purpose.rstrip('.')}.",
        f"Access pattern {pattern.id}: {example.kind} {_describe_key(example)}; expected {pattern.rate}.",
    ]
    if isinstance(example, PagedRead):
        sentences.append(
            "Returns pages: while `cursor` is not null there are more items, even if a page has few or none."
        )
    return " ".join(sentences)


def _describe_key(example: Operation[Any]) -> str:
    """Describe the key or index by which the operation finds its items."""
    if isinstance(example, Transact):
        tables = dict.fromkeys(action.table.name for action in example.actions)
        return f"on {', '.join(tables)} by their keys, all or nothing"
    if isinstance(example, EngineOperation):
        return f"on {example.resource} of {example.store}"
    if example.table is None:
        return "on tables"
    if example.kind == "Scan":
        return f"over all of {example.table.name}"
    if example.index is None:
        keys = filter(None, (example.table.partition, example.table.sort))
        return f"on {example.table.name} by its key ({', '.join(keys)})"
    keys = filter(None, (example.index.partition, example.index.sort))
    return f"on {example.table.name} by index {example.index.name} ({', '.join(keys)})"


def _get_effects(example: Operation[Any], *, is_deterministic: bool) -> Effects:
    """Return the effects of a pattern. `is_deterministic`: the same arguments give the same operation,
    without a new id or time.
    """
    if not example.writes:
        return Effects()
    return Effects(False, _is_destructive(example), is_deterministic and _is_idempotent(example))


def _is_destructive(operation: Operation[Any]) -> bool:
    """Return whether the operation may overwrite or delete existing data."""
    match operation:
        case Put():
            return operation.condition != replace(operation, condition=None).if_absent().condition
        case Transact():
            return any(_is_destructive(action) for action in operation.actions if action.writes)
        case PutObject():
            return not operation.create_only
        case SqlOperation():
            return operation.kind != "INSERT" or "update" in split_words(operation.text)
        case SqlTransact():
            return any(_is_destructive(action) for action in operation.actions)
        case GetOrPutObject() | Send() | SendBatch():
            return False
    return True


def _is_idempotent(operation: Operation[Any]) -> bool:
    """Return whether running the operation twice has the same effect as running it once."""
    match operation:
        case Put() | Delete() | BatchPut() | GetOrPutObject() | PutCached() | DeleteCached():
            return True
        case SqlWrite():
            return operation.is_idempotent
        case Update():
            return not any(_is_cumulative(action) for action in operation.actions)
        case Transact():
            return all(_is_idempotent(action) for action in operation.actions if action.writes)
    return False


def _is_cumulative(action: nodes.UpdateAction) -> bool:
    """Return whether the action computes from the current value, and so changes more each time. A set keeps
    each element once.
    """
    if isinstance(action, nodes.AddAction):
        return not isinstance(action.value, frozenset)
    return isinstance(action, nodes.SetAction) and not isinstance(
        action.operand, nodes.Literal | nodes.IfNotExists
    )


# --- functions ----------------------------------------------------------------------------------------------


def _build_function_tool(
    function: Callable[..., Awaitable[Any]], agent: Stores, prefix: str, effects: Effects
) -> AgentTool:
    """Build the tool of a system's function. Raise `DeclarationError` if it has no docstring."""
    model = build_function_model(function)
    text = " ".join((function.__doc__ or "").split())
    if not text:
        raise DeclarationError(
            f"The tool {function.__name__} has no docstring. Add one: agents read it to choose a tool."
        )

    async def call(given: Mapping[str, Any]) -> dict[str, Any]:
        require_time_zones(model, given)
        own = validate_arguments(model, given)
        result = to_bounded_json(
            await function(agent, **{name: getattr(own, name) for name in model.model_fields})
        )
        return result if isinstance(result, dict) else {"result": result}

    return AgentTool(
        name=prefix + function.__name__,
        title=function.__name__.replace("_", " ").capitalize(),
        description=text,
        input_schema=model.model_json_schema(),
        output_schema=None,
        effects=effects,
        call=call,
    )
