"""The tools of a system for an agent, and their descriptions.

The agent is the component `agent`. Its patterns are tools (writes only if they are declared as writes), and
so are the system's functions over several patterns. All of them run through `stores.for_component("agent")`,
so that nothing here extends the component's permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import BaseModel

from holdfast.core.errors import ConditionFailed, DeclarationError, InvalidRequest, NotFound, error_label
from holdfast.mcp.output_schemas import build_output_schema, may_have_lists
from holdfast.model.agents import ToolFunction
from holdfast.model.cache import DeleteCached, PutCached
from holdfast.model.entities.reads import CountQuery, Get
from holdfast.model.entities.writes import BatchPut, Delete, Put, Transact, Update
from holdfast.model.objects import GetOrPutObject, PutObject
from holdfast.model.operations import EngineOperation, Operation
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Send, SendBatch
from holdfast.model.sql import SqlOperation, SqlTransact, SqlWrite
from holdfast.model.system import System
from holdfast.operations.expressions import nodes
from holdfast.reports.sql_statements import split_words
from holdfast.runtime.json_calls.arguments import (
    CURSOR,
    ArgumentReader,
    Continuation,
    Paging,
    WholeResult,
    build_example,
    build_function_model,
    build_schema,
    find_cursor_name,
    require_tool_signature,
)
from holdfast.runtime.json_calls.results import RESULT_SCHEMA, is_paged, run_paged, run_unpaged, to_json
from holdfast.runtime.json_calls.truncation import cut_result, hash_call
from holdfast.runtime.stores import Stores

AGENT: Final = "agent"
"""The name of the component whose patterns are the tools of agents."""
_WRITE_ERRORS: Final = (error_label(InvalidRequest), error_label(ConditionFailed))

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

    `example` are the arguments of a valid call, and `errors` the labels of the errors that one may get.
    """

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    effects: Effects
    call: Call
    system: str = ""
    example: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    # Set if the tool reads one item by its key.
    item_key: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _Offer:
    """What all tools of a system share: its agent's stores, and the prefix of their names."""

    system: System
    agent: Stores
    prefix: str


def build_agent_tools(stores: Stores, *, prefix: str = "") -> list[AgentTool]:
    """Build the tools of the stores' system. `prefix` distinguishes systems where several are served.

    Raise `DeclarationError` for stores without a system, two tools of one name, or an exposed read that
    writes; `NotFound` for a system without the component `agent`.
    """
    if stores.system is None:
        raise DeclarationError("These stores have no system, and so no tools. Pass a system to Stores.")
    system = stores.system
    offer = _Offer(system, _get_agent_stores(stores, system), prefix)
    component = system.get_component(AGENT)
    exposed = component.reads if component.exposed_tools is None else component.exposed_tools
    reads = [_build_pattern_tool(each, offer, may_write=False) for each in exposed]
    writes = [_build_pattern_tool(each, offer, may_write=True) for each in component.writes]
    # A function has the component's permissions: without writes it only reads.
    effects = Effects() if not component.writes else Effects(False, True, False)
    functions = [
        _build_function_tool(each if isinstance(each, ToolFunction) else ToolFunction(each), offer, effects)
        for each in system.admin.tools
    ]
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


def _build_pattern_tool(pattern: Pattern[..., Any], offer: _Offer, *, may_write: bool) -> AgentTool:
    """Build the tool of one pattern. Raise `DeclarationError` if it writes although `may_write` is False."""
    arguments = pattern.example_arguments
    operation: Operation[Any] = pattern.call_with(arguments)
    if operation.writes and not may_write:
        raise DeclarationError(
            f"The component {AGENT} exposes {pattern.id} ({pattern.name}) as a read, but it writes. "
            "Remove it from `exposed_tools`: the writes in `uses` are always tools."
        )
    added = _choose_added(operation)
    example, model, hidden = build_example(pattern), pattern.arguments_model, find_cursor_name(pattern)
    reader = ArgumentReader(model, added, example=example, hidden=hidden)
    schema = build_schema(model, added, offer.system.admin.arguments, example)
    schema["properties"].pop(hidden, None)
    return AgentTool(
        name=offer.prefix + pattern.name,
        title=pattern.purpose,
        description=_describe_pattern(pattern, operation),
        input_schema=schema,
        output_schema=RESULT_SCHEMA,
        effects=_get_effects(operation, is_deterministic=operation == pattern.call_with(arguments)),
        call=_build_pattern_call(pattern, offer.agent, reader),
        system=offer.system.name,
        example=example,
        errors=(error_label(InvalidRequest),) if not operation.writes else _WRITE_ERRORS,
        item_key=tuple(model.model_fields) if isinstance(operation, Get) else None,
    )


def _choose_added(operation: Operation[Any]) -> type[BaseModel]:
    """Return the arguments that say which part of the result to return: a page, or the rest of a cut one."""
    if is_paged(operation):
        return Paging
    return WholeResult if operation.writes or isinstance(operation, Get | CountQuery) else Continuation


def _build_pattern_call(pattern: Pattern[..., Any], agent: Stores, reader: ArgumentReader) -> Call:
    async def call(given: Mapping[str, Any]) -> dict[str, Any]:
        own, added = reader.read(given)
        operation = pattern.call_with(own)
        if is_paged(operation):
            return await run_paged(agent, operation, **added)
        return await run_unpaged(agent, operation, hash_call(pattern.name, given), added.get(CURSOR))

    return call


def _describe_pattern(pattern: Pattern[..., Any], example: Operation[Any]) -> str:
    """Return the pattern's purpose, its kind, key or index, and rate, as an agent reads them."""
    sentences = [
        f"{pattern.purpose.rstrip('.')}.",
        f"Access pattern {pattern.id}: {example.kind} {_describe_key(example)}; expected {pattern.rate}.",
    ]
    if is_paged(example):
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


def _build_function_tool(tool: ToolFunction, offer: _Offer, effects: Effects) -> AgentTool:
    """Build the tool of a system's function. Raise `DeclarationError` if it has no docstring."""
    require_tool_signature(tool.function)
    model, output_schema = build_function_model(tool.function), build_output_schema(tool.function)
    added = Continuation if may_have_lists(output_schema) else WholeResult
    reader = ArgumentReader(model, added, example=tool.example)
    return AgentTool(
        name=offer.prefix + tool.name,
        title=tool.name.replace("_", " ").capitalize(),
        description=_describe_function(tool),
        input_schema=build_schema(model, added, offer.system.admin.arguments, tool.example),
        output_schema=output_schema,
        effects=effects,
        call=_build_function_call(tool, offer.agent, reader),
        system=offer.system.name,
        example=tool.example,
        errors=(error_label(InvalidRequest), *map(error_label, tool.errors)),
    )


def _describe_function(tool: ToolFunction) -> str:
    """Return the docstring and the declared errors, as an agent reads them."""
    text = " ".join((tool.function.__doc__ or "").split())
    if not text:
        raise DeclarationError(
            f"The tool {tool.name} has no docstring. Add one: agents read it to choose a tool."
        )
    return " ".join([text, *(f"Fails if {when.rstrip('.')}." for when in tool.errors.values())])


def _build_function_call(tool: ToolFunction, agent: Stores, reader: ArgumentReader) -> Call:
    async def call(given: Mapping[str, Any]) -> dict[str, Any]:
        own, added = reader.read(given)
        result = to_json(await tool.function(agent, **own))
        whole = result if isinstance(result, dict) else {"result": result}
        # A function that pages its results itself has a cursor of its own.
        return cut_result(whole, hash_call(tool.name, given), added.get(CURSOR), lambda _: CURSOR in added)

    return call
