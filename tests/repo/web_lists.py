"""Lists of what programs reach over HTTP and MCP: APIs, errors, DynamoDB's protocol, tools for agents."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.routing import WebSocketRoute

from holdfast.cli.commands.run import build_system_app
from holdfast.core.errors import HoldfastError
from holdfast.flows.transition import format_error
from holdfast.guarantees.idempotency.execution import get_reason
from holdfast.mcp.prompts import build_agent_prompts
from holdfast.mcp.resources import build_agent_resources
from holdfast.mcp.tools import AgentTool, build_agent_tools
from holdfast.model.system import System
from holdfast.runtime import Stores
from holdfast.runtime.json_calls.results import RESULT_SCHEMA
from holdfast.web.problems import (
    INVALID_BODY,
    INVALID_PARAMETERS,
    PROBLEM_FORMAT,
    ErrorFormat,
    build_report,
    set_error_format,
)
from holdfast.wire.operations import CODECS, NOT_SERVED
from pagw.api.routes.errors import OUTCOMES, build_issues
from tests.repo.code import find_subclasses, load_systems, open_in_memory
from tests.repo.shapes import describe_schema
from tripcortex.api.websocket.actions import AnyAction

Json = Mapping[str, Any]


# --- APIs ---------------------------------------------------------------------------------------------------


def list_openapi() -> Iterator[str]:
    """List every operation with its security, parameters, bodies and responses.

    A body that an earlier operation of the same API has is listed as a reference to that operation.
    """
    for name, description in _describe_apis().items():
        bodies: dict[tuple[str, ...], str] = {}
        for path, method, operation in _list_operations(description):
            start = f"{name} {method} {path}"
            yield f"{start}: security {_describe_security(description, operation)}"
            yield from (f"{start}: {line}" for line in _describe_parameters(description, operation))
            for body, schema in _list_bodies(operation):
                lines = tuple(_describe(description, schema))
                if lines in bodies:
                    yield f"{start}: {body} as {bodies[lines]}"
                    continue
                bodies[lines] = f"{method} {path} {body}"
                yield f"{start}: {body}"
                yield from (f"{start}: {body} {line}" for line in lines)
    yield from _list_websockets()


def list_openapi_names() -> Iterator[str]:
    """List the names that client generators use: operation ids, tags, schemas with their properties."""
    for name, description in _describe_apis().items():
        for path, method, operation in _list_operations(description):
            yield f"{name} {method} {path}: operationId {operation.get('operationId')}"
            yield f"{name} {method} {path}: tags {', '.join(operation.get('tags', ()))}"
        for schema_name, schema in description["components"]["schemas"].items():
            members = schema.get("properties", schema.get("enum", ()))
            yield f"{name} schema {schema_name}: {', '.join(sorted(members))}"


@cache
def _describe_apis() -> dict[str, Json]:
    """Return the OpenAPI description of each system, with every component and with an API token set."""
    found: dict[str, Json] = {}
    for name, system in load_systems().items():
        with open_in_memory(system) as stores:
            found[name] = build_system_app(system, stores, token="token").openapi()
    return found


def _list_operations(description: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in sorted(description["paths"].items()):
        for method, operation in sorted(methods.items()):
            yield path, method.upper(), operation


def _describe_security(description: Json, operation: Json) -> str:
    """Return the security alternatives of an operation with their schemes, or "none"."""
    schemes = description["components"].get("securitySchemes", {})
    alternatives = [
        " and ".join(f"{name} ({_describe_scheme(schemes.get(name))})" for name in names)
        for names in operation.get("security", description.get("security", []))
    ]
    return " or ".join(each or "none" for each in alternatives) or "none"


def _describe_scheme(scheme: Json | None) -> str:
    if scheme is None:
        return "not described"
    parts = (scheme["type"], scheme.get("scheme"), scheme.get("in"), scheme.get("name"))
    return " ".join(str(each) for each in parts if each)


def _describe_parameters(description: Json, operation: Json) -> Iterator[str]:
    for each in operation.get("parameters", ()):
        required = ", required" if each.get("required") else ""
        for line in _describe(description, each["schema"]):
            yield f"{each['in']} parameter {each['name']}{required} {line}"


def _list_bodies(operation: Json) -> Iterator[tuple[str, Json]]:
    """Yield the schema of each request and response body, by `takes MEDIA` or `answers STATUS MEDIA`."""
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"takes {media}", content.get("schema", {})
    for status, response in operation["responses"].items():
        for media, content in response.get("content", {"nothing": {}}).items():
            yield f"answers {status} {media}", content.get("schema", {})


def _describe(description: Json, schema: Json) -> list[str]:
    return describe_schema(schema, description["components"]["schemas"])


def _list_websockets() -> Iterator[str]:
    """List the WebSocket routes, and the messages that Trip Cortex takes on its own."""
    for name, system in load_systems().items():
        with open_in_memory(system) as stores:
            for router in _make_routers(system, stores):
                routes = [route for route in router.routes if isinstance(route, WebSocketRoute)]
                yield from (f"{name} WEBSOCKET {route.path}" for route in routes)
    actions = TypeAdapter(AnyAction).json_schema()
    for each in actions["anyOf"]:
        lines = describe_schema(each, actions["$defs"])
        (action,) = (line for line in lines if line.startswith("action*: "))
        yield from (f"tripcortex WEBSOCKET takes {action}; {line}" for line in lines if line != action)


def _make_routers(system: System, stores: Stores) -> Iterator[APIRouter]:
    """Yield the routers of each component that has routes."""
    for component in system.components:
        if component.routes is not None:
            made = component.routes(stores.for_component(component.name))
            yield from [made] if isinstance(made, APIRouter) else made


# --- errors -------------------------------------------------------------------------------------------------


def list_errors() -> Iterator[str]:
    """List each error by its label: code, problem, what records keep of it, and PAGW's refusal."""
    with _disable_logs():
        kinds: list[type[HoldfastError]] = [HoldfastError, *find_subclasses(HoldfastError)]
        for kind in kinds:
            yield _describe_error(kind)
    yield f"invalid parameters: problem {INVALID_PARAMETERS}"
    yield f"invalid body: problem {INVALID_BODY}"


def _describe_error(kind: type[HoldfastError]) -> str:
    """Return a line with the error's label, code, status, problem, stored names and PAGW's refusal."""
    error = _make_error(kind)
    problem = build_report(_make_request(), error).problem
    return (
        f"{_get_label(kind)}: code {kind.code}, status {kind.http_status}; problem {problem.status} "
        f"{problem.type} ({problem.title}); kept as {get_reason(error)!r} and {format_error(error)!r}; "
        f"pagw {_describe_pagw_refusal(error)}"
    )


def _get_label(kind: type[HoldfastError]) -> str:
    """Return the name under which records and responses name an error."""
    return kind.label


def _make_error(kind: type[HoldfastError]) -> HoldfastError:
    """Make an error without its constructor: only the class matters here."""
    error = kind.__new__(kind)
    error.message = "text"
    return error


def _describe_pagw_refusal(error: HoldfastError) -> str:
    """Return the status and codes of PAGW's response, or a note if they depend on the error's fields."""
    try:
        report = build_report(_make_request(OUTCOMES), error)
        codes = ", ".join(each.code for each in build_issues(report))
    except AttributeError:
        return "depends on its fields"
    return f"{report.problem.status} {codes}"


def _make_request(format: ErrorFormat = PROBLEM_FORMAT) -> Request:
    """Make a request to an app with this format of errors."""
    app = FastAPI()
    set_error_format(app, format)
    return Request({"type": "http", "method": "GET", "path": "/", "headers": [], "app": app})


@contextmanager
def _disable_logs() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


# --- DynamoDB's protocol and MCP ----------------------------------------------------------------------------


def list_wire_operations() -> Iterator[str]:
    """List DynamoDB's operations by the header X-Amz-Target, with the request members that each reads."""
    for target, codec in CODECS.items():
        yield f"{target} takes {', '.join(sorted(codec.SHAPE.members))}"
    yield from (f"{name} is not served" for name in NOT_SERVED)


def list_mcp_tools() -> Iterator[str]:
    """List what agents get from each system: tools with their arguments, results, errors and hints about
    effects; resources; prompts with their arguments.
    """
    for name, system in load_systems().items():
        with open_in_memory(system) as stores:
            tools = build_agent_tools(stores)
        for tool in tools:
            yield from (f"{name} {tool.name}: {line}" for line in _describe_tool(tool))
        yield from (f"{name} resource {each.uri}" for each in build_agent_resources(system, tools))
        for prompt in build_agent_prompts(system):
            arguments = (f"{each}{'*' * required}" for each, (_, required) in prompt.arguments.items())
            yield f"{name} prompt {prompt.name}: takes {', '.join(arguments) or 'nothing'}"


def _describe_tool(tool: AgentTool) -> Iterator[str]:
    effects = tool.effects
    yield (
        f"reads only {effects.read_only}, destroys {effects.destructive}, repeatable {effects.idempotent}, "
        f"fails with {', '.join(tool.errors)}"
    )
    yield from (f"takes {line}" for line in describe_schema(tool.input_schema))
    if tool.output_schema is RESULT_SCHEMA:
        yield "has the common output schema"
    elif tool.output_schema is not None:
        yield from (f"returns {line}" for line in describe_schema(tool.output_schema))
