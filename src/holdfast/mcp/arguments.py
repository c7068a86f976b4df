"""The arguments of an agent's tool: their schema, and their validation before anything runs.

A pattern validates its own arguments. This module builds the models of the paging arguments and of the
arguments of a system's functions over several patterns.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from holdfast.core.errors import DeclarationError, HoldfastError, InvalidRequest
from holdfast.model.entities.reads import PagedRead
from holdfast.model.patterns import Pattern

LIMIT_DEFAULT: Final = 50
MAX_LIMIT: Final = 200
# A cursor holds the keys of a table and of an index, at most 6 KiB, and grows by a third when encoded.
MAX_CURSOR_CHARACTERS: Final = 10_000


# A fake cursor, to find out what a pattern does with an argument; it is never run.
CURSOR_PROBE: Final = "probe"


class Paging(BaseModel):
    """The page of a result to return."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=LIMIT_DEFAULT, ge=1, le=MAX_LIMIT, description="The maximum number of items.")
    cursor: Annotated[str, Field(max_length=MAX_CURSOR_CHARACTERS)] | None = Field(
        default=None,
        description="The `cursor` of the previous result, for the next page. Omit it for the first page.",
    )


def build_paged_schema(pattern: Pattern[..., Any]) -> dict[str, Any]:
    """Return the schema of a pattern's arguments, plus the paging arguments that it lacks.

    If the pattern takes the cursor under another name, that name is left out: there must be one argument for
    it.
    """
    schema = pattern.arguments_model.model_json_schema()
    paging = Paging.model_json_schema()["properties"]
    properties = schema.get("properties", {}).items()
    own = {name: value for name, value in properties if not _is_cursor(pattern, name)}
    schema["properties"] = paging | own
    return schema


def _is_cursor(pattern: Pattern[..., Any], name: str) -> bool:
    """Return whether the pattern passes this argument on as the cursor of its query."""
    parameter = pattern.signature.parameters[name]
    if name in Paging.model_fields or parameter.default is not None:
        return False
    example = pattern.example_arguments
    by_name = example if isinstance(example, Mapping) else pattern.signature.bind_partial(*example).arguments
    try:
        operation = pattern.call_with({**by_name, name: CURSOR_PROBE})
    except HoldfastError:
        return False
    return isinstance(operation, PagedRead) and operation.cursor == CURSOR_PROBE


def split_paging(model: type[BaseModel], arguments: Mapping[str, Any]) -> tuple[Paging, dict[str, Any]]:
    """Split the arguments into the requested page and the pattern's own arguments.

    A pattern with its own limit is bounded by the maximum, not by the default.
    """
    ours = {name for name in Paging.model_fields if name not in model.model_fields}
    requested = {name: value for name, value in arguments.items() if name in ours}
    if "limit" not in ours:
        requested["limit"] = MAX_LIMIT
    return validate_arguments(Paging, requested), {
        name: value for name, value in arguments.items() if name not in ours
    }


def build_function_model(function: Callable[..., Awaitable[Any]]) -> type[BaseModel]:
    """Build the model of a system function's arguments, without the first one, which is the stores.

    Raise `DeclarationError` unless the function is async and takes the stores first.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or not inspect.iscoroutinefunction(function):
        raise DeclarationError(
            f"Invalid tool {function.__name__}: expected an async function that takes the stores first, "
            f"async def {function.__name__}(stores, …)."
        )
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        each.name: (
            hints.get(each.name, Any),
            ... if each.default is inspect.Parameter.empty else each.default,
        )
        for each in parameters[1:]
    }
    made: type[BaseModel] = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    return made


def validate_arguments(model: type[BaseModel], arguments: Mapping[str, Any]) -> Any:
    """Return the arguments as an instance of the model. Raise `InvalidRequest` with each argument that does
    not fit.
    """
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise InvalidRequest(f"Invalid arguments: {problems.rstrip('.')}.") from error


def require_time_zones(model: type[BaseModel], arguments: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` for a time without a zone, in terms of JSON: the model's own message is for
    Python code.
    """
    try:
        read = model.model_validate(arguments)
    except ValidationError:
        return  # reported where the arguments are validated
    for name in model.model_fields:
        value = getattr(read, name)
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, datetime) and each.tzinfo is None:
                raise InvalidRequest(
                    f"{name}: {each.isoformat()} has no time zone: write it as {each.isoformat()}Z if "
                    "it is UTC, or with its offset, as +04:00."
                )
