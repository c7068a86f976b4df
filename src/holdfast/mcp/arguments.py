"""The arguments of a tool: their schema for the agent, and their check before anything runs.

A pattern checks its own. What stands beside them (which page of an answer) and the arguments of a system's
function over several patterns are models made here.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from holdfast.errors import DeclarationError, HoldfastError, InvalidRequest
from holdfast.model.patterns import Pattern
from holdfast.model.reads import Paged

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 200
# A cursor holds the keys of a table and of an index, at most 6 KiB, and grows by a third when encoded.
CURSOR_CHARACTERS_MAX: Final = 10_000


# Stands for a cursor when a pattern is asked what it does with an argument; nothing is run with it.
PROBE: Final = "probe"


class Paging(BaseModel):
    """Which page of an answer."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="The most items in one answer.")
    cursor: Annotated[str, Field(max_length=CURSOR_CHARACTERS_MAX)] | None = Field(
        default=None,
        description="The cursor of the answer before, for what follows it; left out for the first.",
    )


def paged_schema(pattern: Pattern[..., Any]) -> dict[str, Any]:
    """The schema of a pattern's arguments, with those of paging that it does not have itself.

    Where it takes the cursor under another name, that name is not offered: two for one thing would be a riddle.
    """
    schema = pattern.arguments_model.model_json_schema()
    paging = Paging.model_json_schema()["properties"]
    own = {name: told for name, told in schema.get("properties", {}).items() if not _is_cursor(pattern, name)}
    schema["properties"] = paging | own
    return schema


def _is_cursor(pattern: Pattern[..., Any], name: str) -> bool:
    """Whether the pattern hands this argument on as the cursor of its query."""
    parameter = pattern.signature.parameters[name]
    if name in Paging.model_fields or parameter.default is not None:
        return False
    example = pattern.example_arguments
    by_name = example if isinstance(example, Mapping) else pattern.signature.bind_partial(*example).arguments
    try:
        operation = pattern.called_with({**by_name, name: PROBE})
    except HoldfastError:
        return False
    return isinstance(operation, Paged) and operation.cursor == PROBE


def taken_paging(model: type[BaseModel], arguments: Mapping[str, Any]) -> tuple[Paging, dict[str, Any]]:
    """Which page is asked for, and the arguments that are the pattern's own.

    A pattern with a limit of its own is bounded by the most that there may be, not by our default.
    """
    ours = {name for name in Paging.model_fields if name not in model.model_fields}
    asked = {name: value for name, value in arguments.items() if name in ours}
    if "limit" not in ours:
        asked["limit"] = LIMIT_MAX
    return checked(Paging, asked), {name: value for name, value in arguments.items() if name not in ours}


def function_model(function: Callable[..., Awaitable[Any]]) -> type[BaseModel]:
    """The arguments of a system's function, all but the first, which is the stores."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or not inspect.iscoroutinefunction(function):
        raise DeclarationError(
            f"The tool {function.__name__} must be an async function that takes the stores first: "
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


def checked(model: type[BaseModel], arguments: Mapping[str, Any]) -> Any:
    """The arguments as the model has them; what does not fit is named."""
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise InvalidRequest(f"The arguments cannot be used: {told.rstrip('.')}.") from error


def refuse_times_without_zone(model: type[BaseModel], arguments: Mapping[str, Any]) -> None:
    """In the words of JSON: what the model says of a time without a zone is for who writes Python."""
    try:
        read = model.model_validate(arguments)
    except ValidationError:
        return  # told where the arguments are used
    for name in model.model_fields:
        value = getattr(read, name)
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, datetime) and each.tzinfo is None:
                raise InvalidRequest(
                    f"{name}: {each.isoformat()} has no time zone: write it as {each.isoformat()}Z if it is UTC, or "
                    "with its distance, as +04:00."
                )
