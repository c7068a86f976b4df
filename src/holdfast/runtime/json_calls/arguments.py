"""The JSON arguments of a call: their schema, their example, and their validation before anything runs.

The models come from the signatures of patterns and functions: the tools of agents, and the forms of the
console. This module adds the paging arguments, and says of a wrong argument what to do.
"""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from holdfast.core.errors import DeclarationError, HoldfastError, InvalidRequest
from holdfast.model.patterns import Pattern

LIMIT_DEFAULT: Final = 50
MAX_LIMIT: Final = 200
# A cursor holds the keys of a table and of an index, at most 6 KiB, and grows by a third when encoded.
MAX_CURSOR_CHARACTERS: Final = 10_000
# Longer examples would fill an error message.
MAX_EXAMPLE_CHARACTERS: Final = 300

# A fake cursor, to find out what a pattern does with an argument; it is never run.
CURSOR_PROBE: Final = "probe"
CURSOR: Final = "cursor"

Cursor = Annotated[str, Field(max_length=MAX_CURSOR_CHARACTERS)]


class Paging(BaseModel):
    """The page of a result to return."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=LIMIT_DEFAULT, ge=1, le=MAX_LIMIT, description="The maximum number of items.")
    cursor: Cursor | None = Field(
        default=None,
        description="The `cursor` of the previous result, for the next page. Omit it for the first page.",
    )


class WholeResult(BaseModel):
    """No choice: the result is returned whole."""

    model_config = ConfigDict(extra="forbid")


class Continuation(BaseModel):
    """The part of a cut result to return."""

    model_config = ConfigDict(extra="forbid")

    cursor: Cursor | None = Field(
        default=None,
        description="The `cursor` of a result that was too large, for the rest of it. Omit it at first.",
    )


# --- models -------------------------------------------------------------------------------------------------


def build_function_model(function: Callable[..., Any], skipped: int = 1) -> type[BaseModel]:
    """Build the model of a function's arguments without the first `skipped`: that of a tool is the stores."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        each.name: (
            hints.get(each.name, Any),
            ... if each.default is inspect.Parameter.empty else each.default,
        )
        for each in list(inspect.signature(function).parameters.values())[skipped:]
    }
    made: type[BaseModel] = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    return made


def require_tool_signature(function: Callable[..., Any]) -> None:
    """Raise `DeclarationError` unless the function is async and takes the stores first."""
    if not inspect.signature(function).parameters or not inspect.iscoroutinefunction(function):
        raise DeclarationError(
            f"Invalid tool {function.__name__}: expected an async function that takes the stores first, "
            f"async def {function.__name__}(stores, …)."
        )


def build_example(pattern: Pattern[..., Any]) -> dict[str, Any]:
    """Return the declared example of a pattern as JSON arguments; empty if JSON has no form for it."""
    arguments = pattern.example_arguments
    named = (
        arguments if isinstance(arguments, Mapping) else pattern.signature.bind_partial(*arguments).arguments
    )
    try:
        dumped = pattern.arguments_model.model_validate(dict(named)).model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude_none=True
        )
        pattern.arguments_model.model_validate(dumped)
    except ValueError:  # of the validation, of the serialization, or bytes that are not text
        return {}
    return dumped


# --- schemas ------------------------------------------------------------------------------------------------


def build_schema(
    model: type[BaseModel], added: type[BaseModel], descriptions: Mapping[str, str], example: Any
) -> dict[str, Any]:
    """Return the JSON schema of the arguments, with the `added` ones that the model lacks.

    Each argument has its own description, or that of `descriptions`, and its value in the example.
    """
    schema = model.model_json_schema()
    own = schema.get("properties", {})
    more = added.model_json_schema().get("properties", {})
    schema["properties"] = {
        name: _describe_property(name, each, descriptions, example)
        for name, each in (own | {name: each for name, each in more.items() if name not in own}).items()
    }
    schema.pop("title", None)
    return schema


def _describe_property(
    name: str, schema: dict[str, Any], descriptions: Mapping[str, str], example: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the schema of one argument with its description and example, without the title: it repeats the
    name.
    """
    described = {key: value for key, value in schema.items() if key != "title"}
    common = Paging.model_fields[name].description if name in Paging.model_fields else None
    if "description" not in described and (text := descriptions.get(name, common)):
        described["description"] = text
    if name in example and not isinstance(example[name], dict | list):
        described["examples"] = [example[name]]
    return described


def find_cursor_name(pattern: Pattern[..., Any]) -> str | None:
    """Return the argument that the pattern passes on as the cursor of its query under another name, or None:
    there must be one argument for it.
    """
    return next((name for name in pattern.arguments_model.model_fields if _is_cursor(pattern, name)), None)


def _is_cursor(pattern: Pattern[..., Any], name: str) -> bool:
    """Return whether the pattern passes this argument on as the cursor of its query."""
    parameter = pattern.signature.parameters[name]
    annotation = parameter.annotation
    if name in Paging.model_fields or parameter.default is not None or str not in get_args(annotation):
        return False
    example = pattern.example_arguments
    by_name = example if isinstance(example, Mapping) else pattern.signature.bind_partial(*example).arguments
    try:
        operation = pattern.call_with({**by_name, name: CURSOR_PROBE})
    except HoldfastError:
        return False
    return getattr(operation, CURSOR, None) == CURSOR_PROBE


# --- validation ---------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """What is wrong with one argument: the text begins with its name, or the path inside it."""

    name: str
    text: str


class ArgumentReader:
    """Reads the arguments of a tool: its own, and those that say which page or part of the result to return.

    `added` are the arguments that the host adds, unless the tool has them itself. `hidden` is an argument of
    its own that callers must not use.
    """

    def __init__(
        self,
        own: type[BaseModel],
        added: type[BaseModel],
        *,
        example: Mapping[str, Any],
        hidden: str | None = None,
    ) -> None:
        self._own, self._added, self._example = own, added, example
        self._added_names = [name for name in added.model_fields if name not in own.model_fields]
        self.names = [*(name for name in own.model_fields if name != hidden), *self._added_names]

    def read(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the tool's own arguments, converted, and the added ones. Raise `InvalidRequest`, which says
        of each wrong argument what to do.
        """
        read, problems = self._validate_all(given)
        if problems:
            texts = "; ".join(each.text for each in problems)
            raise InvalidRequest(f"Invalid arguments: {texts}.{self._format_example()}")
        for instance in read:
            _require_time_zones(instance)
        return (
            {name: getattr(read[0], name) for name in self._own.model_fields},
            {name: getattr(read[1], name) for name in self._added_names},
        )

    def find_problems(self, given: Mapping[str, Any]) -> list[Problem]:
        """Return what is wrong with these arguments, one by one; empty if `read` accepts them."""
        read, problems = self._validate_all(given)
        if not problems:
            problems = [each for instance in read for each in _find_missing_zones(instance)]
        return problems

    def _validate_all(self, given: Mapping[str, Any]) -> tuple[list[Any], list[Problem]]:
        """Return the arguments as instances of both models, None for an invalid one, and what is wrong."""
        problems = [Problem(name, self._describe_unknown(name)) for name in given if name not in self.names]
        own = {name: value for name, value in given.items() if name in self.names}
        added = {name: own.pop(name) for name in self._added_names if name in own}
        read = [
            self._validate(model, values, problems)
            for model, values in ((self._own, own), (self._added, added))
        ]
        return read, problems

    def _validate(self, model: type[BaseModel], values: Mapping[str, Any], problems: list[Problem]) -> Any:
        """Return the values as an instance of the model, and add what is wrong to `problems`."""
        try:
            return model.model_validate(values)
        except ValidationError as error:
            problems += [_describe_problem(each["type"], each["loc"], each["msg"]) for each in error.errors()]
            return None

    def _describe_unknown(self, name: str) -> str:
        """Return what to write instead of an argument that the tool does not have."""
        shown = json.dumps(name[:50], ensure_ascii=False)
        if near := difflib.get_close_matches(name, self.names, n=1):
            return f"{shown} is unknown (did you mean {near[0]}?)"
        known = f"the arguments are {', '.join(self.names)}" if self.names else "there are no arguments"
        return f"{shown} is unknown ({known})"

    def _format_example(self) -> str:
        """Return a sentence with the arguments of a valid call, or nothing if there is no short one."""
        text = json.dumps(self._example, ensure_ascii=False)
        return f" A valid call: {text}." if self._example and len(text) <= MAX_EXAMPLE_CHARACTERS else ""


def _describe_problem(kind: str, place: Sequence[int | str], message: str) -> Problem:
    """Return what is wrong with one argument."""
    path = ".".join(map(str, place))
    text = (
        f"{path} is missing"
        if kind == "missing"
        else f"{path}: {message.removeprefix('Value error, ').rstrip('.')}"
    )
    return Problem(str(place[0]) if place else "", text)


def _require_time_zones(arguments: BaseModel) -> None:
    """Raise `InvalidRequest` for a time without a zone, in terms of JSON: the model's own message is for
    Python code.
    """
    for each in _find_missing_zones(arguments):
        raise InvalidRequest(each.text)


def _find_missing_zones(arguments: BaseModel) -> Iterator[Problem]:
    """Yield a problem for each time without a zone."""
    for name in type(arguments).model_fields:
        value = getattr(arguments, name)
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, datetime) and each.tzinfo is None:
                yield Problem(
                    name,
                    f"{name}: {each.isoformat()} has no time zone: write it as {each.isoformat()}Z if "
                    "it is UTC, or with its offset, as +04:00.",
                )
