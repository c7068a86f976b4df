"""The form of a pattern, made from the types of its arguments. Pure.

A field has the control that fits its type: a choice for an enum, one line per element for a list of simple
values, JSON for documents. `read_form` turns what the user wrote into JSON arguments; the reader of the
arguments (`runtime/json_calls`) then says what is wrong with which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticUndefined, to_jsonable_python

from holdfast.core.errors import HoldfastError
from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.reports.docs.declaration_text import format_type
from holdfast.runtime.json_calls.arguments import (
    CURSOR,
    ArgumentReader,
    Continuation,
    Paging,
    WholeResult,
    build_example,
    find_cursor_name,
)
from holdfast.runtime.json_calls.results import is_paged

Control = Literal["text", "number", "date", "choice", "list", "json"]
# The arguments have this prefix in forms, so that none is taken for a field of the console's.
PREFIX: Final = "a."
LIMITS: Final = (10, 25, 50, 100, 200)
DEFAULT_LIMIT: Final = 25
# What a choice sends for "not given".
NOT_GIVEN: Final = ""
_MAX_CHOICES: Final = 200
_JSON_ROWS: Final = 10
_HINTS: Final = {
    "date-time": "A time with its zone, such as 2026-11-18T09:30:00Z.",
    "binary": "Text, stored as UTF-8.",
}


@dataclass(frozen=True)
class Field:
    """One field of the form."""

    name: str
    control: Control
    # The type as Python writes it.
    type: str
    is_required: bool
    is_nullable: bool
    # JSON values by the text of their choice.
    choices: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""
    default: str = ""
    text: str = ""
    problems: Sequence[str] = ()
    # The example leaves it blank: an empty text is a value of it.
    may_be_blank: bool = False

    @property
    def form_name(self) -> str:
        """The name in the form."""
        return f"{PREFIX}{self.name}"

    @property
    def rows(self) -> int:
        """The height of a text area."""
        return min(max(self.text.count("\n") + 1, 3), 18) if self.control == "list" else _JSON_ROWS

    @property
    def is_optional(self) -> bool:
        """Whether it may be left empty."""
        return not self.is_required or self.is_nullable or self.may_be_blank


@dataclass(frozen=True)
class PatternForm:
    """The form of a pattern, or in `refused` the reason why there is none."""

    pattern: Pattern[..., Any]
    fields: Sequence[Field] = ()
    is_paged: bool = False
    writes: bool = False
    refused: str = ""
    # The arguments that the host adds, and the argument of its own that callers must not use.
    added: type[BaseModel] = WholeResult
    hidden: str | None = None

    @cached_property
    def reader(self) -> ArgumentReader:
        """The reader of its arguments."""
        return ArgumentReader(self.pattern.arguments_model, self.added, example={}, hidden=self.hidden)

    @property
    def added_names(self) -> list[str]:
        """The names of the added arguments that the pattern does not have itself."""
        own = self.pattern.arguments_model.model_fields
        return [name for name in self.added.model_fields if name not in own]

    @property
    def takes_cursor(self) -> bool:
        """Whether a result may have more pages."""
        return self.is_paged or CURSOR in self.added.model_fields

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong with its fields."""
        return [problem for each in self.fields for problem in each.problems]

    def read_form(self, texts: Mapping[str, str]) -> tuple[PatternForm, dict[str, Any]]:
        """Return the form with what the user wrote and what is wrong with it, and the JSON arguments."""
        fields, given = [], {}
        for each in self.fields:
            filled = replace(each, text=texts.get(each.form_name, ""))
            try:
                is_given, value = _parse(filled)
            except ValueError as error:
                fields.append(replace(filled, problems=(str(error),)))
                continue
            if is_given:
                given[each.name] = value
            fields.append(filled)
        form = replace(self, fields=fields)
        return (form, given) if form.problems else (form._validate(given), given)

    def fill_texts(self, texts: Mapping[str, str]) -> PatternForm:
        """Return the form with these texts, unchecked."""
        fields = [replace(each, text=texts.get(each.form_name, each.text)) for each in self.fields]
        return replace(self, fields=fields)

    def fill(self, values: Mapping[str, Any]) -> PatternForm:
        """Return the form with these JSON values."""
        return replace(
            self,
            fields=[
                _fill_field(each, values[each.name]) if each.name in values else each for each in self.fields
            ],
        )

    def _validate(self, given: Mapping[str, Any]) -> PatternForm:
        """Return the form with the problems that the types find."""
        found: dict[str, list[str]] = {}
        for problem in self.reader.find_problems(given):
            found.setdefault(problem.name, []).append(_improve(problem.name, problem.text))
        fields = [replace(each, problems=found.pop(each.name, ())) for each in self.fields]
        return replace(self, fields=fields)


def build_form(pattern: Pattern[..., Any], descriptions: Mapping[str, str]) -> PatternForm:
    """Return the form of a pattern, filled with its example. `descriptions` are those of the system, by
    name.
    """
    try:
        operation = pattern.build_example()
        schema = pattern.arguments_model.model_json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, NameError):
        return PatternForm(pattern, refused=_explain_types(pattern))
    except HoldfastError as error:
        return PatternForm(pattern, refused=f"Its example fails, so it cannot be run here: {error.message}")
    hidden = find_cursor_name(pattern)
    added = _choose_added(operation)
    fields = [
        _build_field(pattern, name, each, schema, descriptions)
        for name, each in schema.get("properties", {}).items()
        if name != hidden and not (is_paged(operation) and name == CURSOR)
    ]
    form = PatternForm(
        pattern,
        fields,
        is_paged=is_paged(operation),
        writes=operation.writes,
        added=added,
        hidden=hidden,
    )
    return form.fill(_get_example_values(pattern))


def _choose_added(operation: Operation[Any]) -> type[BaseModel]:
    """Return the arguments that say which part of the result to return."""
    if is_paged(operation):
        return Paging
    return WholeResult if operation.writes else Continuation


def _explain_types(pattern: Pattern[..., Any]) -> str:
    """Return why a pattern has no form."""
    types = ", ".join(
        f"{name} ({format_type(each.annotation)})" for name, each in pattern.signature.parameters.items()
    )
    return f"It cannot be run from a form: it takes values that only code has, such as {types}."


def _get_example_values(pattern: Pattern[..., Any]) -> dict[str, Any]:
    """Return the values of the declared example as JSON; those that have a form in JSON, if not all do."""
    if whole := build_example(pattern):
        return whole
    example = pattern.example_arguments
    named = example if isinstance(example, Mapping) else pattern.signature.bind_partial(*example).arguments
    found = {}
    for name, value in named.items():
        try:
            found[name] = to_jsonable_python(value, by_alias=True)
        except ValueError:  # it has no form in JSON, such as bytes that are not text
            continue
    return found


# --- fields -------------------------------------------------------------------------------------------------


def _build_field(
    pattern: Pattern[..., Any],
    name: str,
    schema: Mapping[str, Any],
    whole: Mapping[str, Any],
    descriptions: Mapping[str, str],
) -> Field:
    """Return the field of one argument."""
    parameter = pattern.signature.parameters[name]
    info = pattern.arguments_model.model_fields[name]
    kinds = [each for each in _list_alternatives(schema, whole) if each.get("type") != "null"]
    is_nullable = len(kinds) < len(_list_alternatives(schema, whole))
    control, choices = _choose_control(kinds, whole)
    default = "" if info.default in (None, PydanticUndefined) else _format_default(info.default)
    hint = schema.get("description") or descriptions.get(name, "")
    formats = [_HINTS[each["format"]] for each in kinds if each.get("format") in _HINTS]
    return Field(
        name,
        control,
        format_type(parameter.annotation, with_none=True),
        info.is_required(),
        is_nullable,
        choices,
        " ".join(_end_sentence(each) for each in (hint, *formats) if each),
        default,
    )


def _list_alternatives(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a schema, with its references resolved."""
    schema = _resolve(schema, whole)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return [inner for each in schema[keyword] for inner in _list_alternatives(each, whole)]
    return [schema]


def _resolve(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a reference names, or the schema itself."""
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return _resolve(schema["allOf"][0], whole)
    reference = schema.get("$ref")
    if reference is None:
        return schema
    return _resolve(whole.get("$defs", {}).get(str(reference).rpartition("/")[2], {}), whole)


def _choose_control(
    kinds: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]
) -> tuple[Control, dict[str, Any]]:
    """Return the control that fits the type, and its choices."""
    if len(kinds) == 1:
        [kind] = kinds
        if choices := _list_choices(kind):
            return "choice", choices
        if kind.get("type") == "array":
            items = [_resolve(each, whole) for each in _list_alternatives(kind.get("items", {}), whole)]
            return ("list" if all(map(_is_simple, items)) else "json"), {}
        if kind.get("type") in ("integer", "number"):
            return "number", {}
        if kind.get("format") == "date":
            return "date", {}
    return ("text" if kinds and all(map(_is_simple, kinds)) else "json"), {}


def _list_choices(kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an enum, a literal or a boolean, by their texts."""
    if kind.get("type") == "boolean":
        return {"true": True, "false": False}
    values = [kind["const"]] if "const" in kind else kind.get("enum", [])
    return {_format_scalar(each): each for each in values[:_MAX_CHOICES]}


def _is_simple(kind: Mapping[str, Any]) -> bool:
    return kind.get("type") in ("string", "integer", "number")


# --- values -------------------------------------------------------------------------------------------------


def _parse(filled: Field) -> tuple[bool, Any]:
    """Return whether the field is given, and its JSON value. Raise `ValueError` with what is wrong."""
    text = filled.text if filled.control == "json" else filled.text.strip()
    if not text.strip():
        if not filled.is_required:
            return False, None
        if filled.is_nullable:
            return True, None
        if filled.control == "list":
            return True, []
        if filled.may_be_blank:
            return True, ""
        raise ValueError("It is missing: give a value.")
    if filled.control == "choice":
        if text not in filled.choices:
            raise ValueError(f"Invalid choice {text!r}: expected one of {', '.join(filled.choices)}.")
        return True, filled.choices[text]
    if filled.control == "list":
        return True, [line.strip() for line in text.splitlines() if line.strip()]
    if filled.control == "json":
        return True, _parse_json(text)
    return True, text


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"Invalid JSON at line {error.lineno}, column {error.colno}: {error.msg.lower()}."
        ) from None


def _fill_field(field: Field, value: Any) -> Field:
    """Return the field with a JSON value."""
    return replace(field, text=_format(field, value), may_be_blank=field.may_be_blank or value == "")


def _format(field: Field, value: Any) -> str:
    """Return a JSON value as the text of its field."""
    if value is None:
        return ""
    if field.control == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if field.control == "list" and isinstance(value, list):
        return "\n".join(map(_format_scalar, value))
    return _format_scalar(value)


def _format_scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _format_default(value: Any) -> str:
    """Return a default for a hint."""
    return _format_scalar(to_jsonable_python(value, by_alias=True, fallback=str))


def _improve(name: str, text: str) -> str:
    """Return a problem without the field's own name at its start: it is shown next to the field."""
    own = text.removeprefix(f"{name}: ").removeprefix(f"{name}.").removeprefix(f"{name} ")
    return _end_sentence(own[:1].upper() + own[1:])


def _end_sentence(text: str) -> str:
    """Return the text with a full stop."""
    return text if text.endswith(".") else f"{text}."
