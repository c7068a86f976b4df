"""A quick look at a resource: whether its shape is sound beyond doubt. Nearly all that is sent is.

The models of fhir.resources look at each element in Python, which costs more than all else that a request is checked for.
What they declare (elements, types, how often, choices) is put here into one validator of pydantic's that runs without
Python. It is stricter than they are: what is rare (an extension of a primitive, a contained resource, a year without a
day) or wrong is not taken, and is then left to the models, which tell what is wrong with it (`structure.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic_core import CoreConfig, SchemaValidator, core_schema

# A number in quotes is no number: nothing is taken for something else.
_STRICT: Final = CoreConfig(strict=True)
_DAY: Final = r"[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])"
# As their own types declare them, by patterns and bounds alone.
_DECLARED: Final = frozenset(
    "string code id uri canonical markdown oid xhtml integer unsignedInt positiveInt".split()
)
# Beside each primitive, for its extension; and what FHIR has had no more since its second version.
_LEFT_OUT: Final = ("__ext", "fhir_comments")


def is_sound(model: type[BaseModel], resource: Mapping[str, Any]) -> bool:
    """True where the model would have no complaint; False says nothing."""
    return _validator(model).isinstance_python(resource)


@cache
def _validator(model: type[BaseModel]) -> SchemaValidator:
    """Of a resource, with all that may stand in it."""
    made: dict[str, core_schema.CoreSchema] = {}
    waiting = [model]
    while waiting:
        each = waiting.pop()
        if _name(each) not in made:
            made[_name(each)], within = _object(each, is_resource=each is model)
            waiting += within
    root = core_schema.definition_reference_schema(_name(model))
    return SchemaValidator(core_schema.definitions_schema(root, list(made.values())))


def _object(
    model: type[BaseModel], *, is_resource: bool
) -> tuple[core_schema.CoreSchema, list[type[BaseModel]]]:
    """The schema of one model's objects, and the models of its elements."""
    fields: dict[str, core_schema.TypedDictField] = {}
    within: list[type[BaseModel]] = []
    if is_resource:
        its_own = core_schema.literal_schema([model.__name__])
        fields["resourceType"] = core_schema.typed_dict_field(its_own, required=True)
    for name, field in model.model_fields.items():
        kinds = None if name.endswith(_LEFT_OUT) else _kinds(field.annotation)
        if kinds is None:
            continue
        kind, element, repeats = kinds
        within += [] if element is None else [element]
        told = core_schema.list_schema(kind, min_length=1) if repeats else kind
        is_needed = field.is_required() or bool(_said(field).get("element_required"))
        fields[field.alias or name] = core_schema.typed_dict_field(told, required=is_needed)
    made = core_schema.typed_dict_schema(fields, extra_behavior="forbid", config=_STRICT)
    if choices := dict(_choices(model)):
        needed = frozenset(choice for choice, is_needed in choices.values() if is_needed)
        chosen = {name: choice for name, (choice, _) in choices.items()}
        return core_schema.no_info_after_validator_function(
            _one_of_each(chosen, needed), made, ref=_name(model)
        ), within
    return {**made, "ref": _name(model)}, within


def _kinds(annotation: Any) -> tuple[core_schema.CoreSchema, type[BaseModel] | None, bool] | None:
    """What an element is of, its model where it is an object, and whether it repeats; None for what is left to the models."""
    from fhir_core.types import FhirBase, FhirElementOrResourceBase

    plain, repeats = _without_none(annotation), False
    if get_origin(plain) is list:
        plain, repeats = _without_none(get_args(plain)[0]), True
    if isinstance(plain, type) and issubclass(plain, FhirBase):
        if issubclass(plain, FhirElementOrResourceBase):
            return None
        model = plain.get_model_klass()
        return core_schema.definition_reference_schema(_name(model)), model, repeats
    primitive = _primitive(plain)
    return None if primitive is None else (primitive, None, repeats)


@cache
def _primitive(kind: Any) -> core_schema.CoreSchema | None:
    if kind is bool:
        return core_schema.bool_schema()
    declared = getattr(next(iter(getattr(kind, "__metadata__", ())), None), "__visit_name__", "")
    if declared in _DECLARED:
        return TypeAdapter(kind).core_schema
    match declared:
        case "date":
            return _moment(_DAY, core_schema.date_schema(strict=False))
        case "instant":
            return _moment(f"{_DAY}T{_TIME}", core_schema.datetime_schema(strict=False))
        case "dateTime":
            return _moment(f"{_DAY}(T{_TIME})?", core_schema.datetime_schema(strict=False))
        case "decimal":
            number = core_schema.float_schema(allow_inf_nan=False)
            return core_schema.union_schema([core_schema.int_schema(), number])
    return None


def _moment(pattern: str, kind: core_schema.CoreSchema) -> core_schema.CoreSchema:
    """A text of this form that is in the calendar too."""
    return core_schema.chain_schema([core_schema.str_schema(pattern=f"^{pattern}$"), kind])


def _one_of_each(
    choices: Mapping[str, str], needed: frozenset[str]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def one_of_each(value: dict[str, Any]) -> dict[str, Any]:
        chosen = [choices[name] for name in value if name in choices]
        if len(set(chosen)) < len(chosen) or not needed.issubset(chosen):
            raise ValueError("an element of several types stands here in none of them, or in two")
        return value

    return one_of_each


def _choices(model: type[BaseModel]) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Elements that stand for one, such as value[x]: which, and whether one of them must be there."""
    for name, field in model.model_fields.items():
        if choice := _said(field).get("one_of_many"):
            yield field.alias or name, (choice, bool(_said(field).get("one_of_many_required")))


def _said(field: Any) -> Mapping[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def _without_none(annotation: Any) -> Any:
    kinds = [each for each in get_args(annotation) if each is not type(None)]
    is_optional = len(kinds) == 1 and len(get_args(annotation)) == 2 and type(None) in get_args(annotation)
    return kinds[0] if is_optional else annotation


def _name(model: type[BaseModel]) -> str:
    return f"{model.__module__}.{model.__qualname__}"
