"""Which tools a system has for an agent, and what each says of itself.

The agent is the component `agent`: its patterns are tools, its writes only if they are declared as writes, and so
are the system's functions over several patterns. All of it runs through `stores.for_component("agent")`, so that
nothing here could widen what the component may do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.errors import DeclarationError, NotFound
from holdfast.mcp.answers import ANSWER_SCHEMA, answer_of, bounded
from holdfast.mcp.arguments import (
    Paging,
    checked,
    function_model,
    paged_schema,
    refuse_times_without_zone,
    taken_paging,
)
from holdfast.model.cache import DeleteCached, PutCached
from holdfast.model.objects import AdoptObject, PutObject
from holdfast.model.operations import EngineOperation, Operation
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Send, SendAll
from holdfast.model.reads import Paged
from holdfast.model.sql import SqlOperation, SqlTransact, SqlWrite
from holdfast.model.system import System
from holdfast.model.writes import BatchPut, Delete, Put, Transact, Update
from holdfast.operations.expressions import nodes
from holdfast.reports.statements import words_of
from holdfast.runtime.stores import Stores

AGENT: Final = "agent"

Call = Callable[[Mapping[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


@dataclass(frozen=True)
class Effects:
    """What calling a tool may do, as the protocol's hints have it."""

    reads_only: bool = True
    destroys: bool = False
    repeatable: bool = True


@dataclass(frozen=True)
class AgentTool:
    """One tool: its name, what it is for, the schema of its arguments and answer, and the call itself."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    effects: Effects
    call: Call


def agent_tools(stores: Stores, *, prefix: str = "") -> list[AgentTool]:
    """The tools of the stores' system. `prefix` tells systems apart where several are served."""
    if stores.system is None:
        raise DeclarationError(
            "These stores belong to no system, and so have no tools: give Stores a system."
        )
    system = stores.system
    agent = _agents_view(stores, system)
    component = system.component(AGENT)
    offered = component.reads if component.offers is None else component.offers
    reads = [_pattern_tool(each, agent, prefix, may_write=False) for each in offered]
    writes = [_pattern_tool(each, agent, prefix, may_write=True) for each in component.writes]
    # A function can do no more than the component: without writes it only reads, whatever it calls.
    effects = Effects() if not component.writes else Effects(False, True, False)
    functions = [_function_tool(each, agent, prefix, effects) for each in system.tools]
    tools = [*reads, *writes, *functions]
    _refuse_twins(system, [tool.name for tool in tools])
    return tools


def _agents_view(stores: Stores, system: System) -> Stores:
    try:
        return stores.for_component(AGENT)
    except NotFound as error:
        known = ", ".join(component.name for component in system.components) or "none"
        raise NotFound(
            f"{system.name} declares no component {AGENT!r} (it has {known}), and so has nothing for agents: add "
            f"Component({AGENT!r}, reads=(…)) to the system, with the patterns that an agent may run."
        ) from error


def _refuse_twins(system: System, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(f"{system.name} has two tools named {', '.join(twice)}: rename one.")


# --- patterns -----------------------------------------------------------------------------------------------


def _pattern_tool(pattern: Pattern[..., Any], agent: Stores, prefix: str, *, may_write: bool) -> AgentTool:
    arguments = pattern.example_arguments
    example: Operation[Any] = pattern.called_with(arguments)
    if example.writes and not may_write:
        raise DeclarationError(
            f"The component {AGENT} declares {pattern.id} ({pattern.name}) as a read, and it writes: declare it in "
            "`writes`, if agents may run it."
        )
    model, is_paged = pattern.arguments_model, isinstance(example, Paged)

    async def call(given: Mapping[str, Any]) -> dict[str, Any]:
        paging, own = taken_paging(model, given) if is_paged else (Paging(), given)
        refuse_times_without_zone(model, own)
        return await answer_of(agent, pattern.called_with_plain(own), paging)

    return AgentTool(
        name=prefix + pattern.name,
        title=pattern.purpose,
        description=_description(pattern, example),
        input_schema=paged_schema(pattern) if is_paged else model.model_json_schema(),
        output_schema=ANSWER_SCHEMA,
        effects=_effects(example, is_same=example == pattern.called_with(arguments)),
        call=call,
    )


def _description(pattern: Pattern[..., Any], example: Operation[Any]) -> str:
    sentences = [
        f"{pattern.purpose.rstrip('.')}.",
        f"Access pattern {pattern.id}: {example.kind} {_where(example)}; expected {pattern.rate}.",
    ]
    if isinstance(example, Paged):
        sentences.append(
            "Answers in pages: while `cursor` is not null there is more, also after a page with few items or none."
        )
    return " ".join(sentences)


def _where(example: Operation[Any]) -> str:
    """By which key the operation finds what it is about."""
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


def _effects(example: Operation[Any], *, is_same: bool) -> Effects:
    """`is_same` says that calling with the same arguments makes the same operation, without a new id or time."""
    if not example.writes:
        return Effects()
    return Effects(False, _destroys(example), is_same and _is_repeatable(example))


def _destroys(operation: Operation[Any]) -> bool:
    """Whether something that was there may be gone afterwards."""
    match operation:
        case Put():
            return operation.condition != replace(operation, condition=None).if_absent().condition
        case Transact():
            return any(_destroys(action) for action in operation.actions if action.writes)
        case PutObject():
            return not operation.create_only
        case SqlOperation():
            return operation.kind != "INSERT" or "update" in words_of(operation.text)
        case SqlTransact():
            return any(_destroys(action) for action in operation.actions)
        case AdoptObject() | Send() | SendAll():
            return False
    return True


def _is_repeatable(operation: Operation[Any]) -> bool:
    """Whether doing it twice leaves what doing it once does."""
    match operation:
        case Put() | Delete() | BatchPut() | AdoptObject() | PutCached() | DeleteCached():
            return True
        case SqlWrite():
            return operation.is_repeatable
        case Update():
            return not any(_grows(action) for action in operation.actions)
        case Transact():
            return all(_is_repeatable(action) for action in operation.actions if action.writes)
    return False


def _grows(action: nodes.Action) -> bool:
    """Whether it computes from what is there, and so does more each time. A set has each element only once."""
    if isinstance(action, nodes.AddAction):
        return not isinstance(action.value, frozenset)
    return isinstance(action, nodes.SetAction) and not isinstance(
        action.operand, nodes.Literal | nodes.IfNotExists
    )


# --- functions ----------------------------------------------------------------------------------------------


def _function_tool(
    function: Callable[..., Awaitable[Any]], agent: Stores, prefix: str, effects: Effects
) -> AgentTool:
    model = function_model(function)
    text = " ".join((function.__doc__ or "").split())
    if not text:
        raise DeclarationError(f"The tool {function.__name__} has no docstring: an agent reads it to choose.")

    async def call(given: Mapping[str, Any]) -> dict[str, Any]:
        refuse_times_without_zone(model, given)
        own = checked(model, given)
        result = bounded(await function(agent, **{name: getattr(own, name) for name in model.model_fields}))
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
