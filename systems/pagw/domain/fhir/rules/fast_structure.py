"""A fast structure check for resources that are certainly valid, as nearly all are.

The models of fhir.resources check each element in Python, which costs more than all other checks of a
request. This module compiles their declarations (elements, types, cardinality, choices) into one
pydantic-core validator. It is stricter than the models: it rejects rare elements (an extension of a
primitive, a contained resource, a year without a day). `structure.py` passes everything rejected here to the
models, which report the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic_core import CoreConfig, SchemaValidator, core_schema

# No coercion: a number in quotes is a string.
_STRICT: Final = CoreConfig(strict=True)
_DATE: Final = r"[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])"
# Types that their own declaration checks completely, by patterns and bounds.
_SIMPLE_TYPES: Final = frozenset(
    "string code id uri canonical markdown oid xhtml integer unsignedInt positiveInt".split()
)
# Extensions of primitives, and an element that FHIR dropped after its second version.
_SKIPPED_FIELDS: Final = ("__ext", "fhir_comments")


def is_certainly_valid(model: type[BaseModel], resource: Mapping[str, Any]) -> bool:
    """Return True if the model would accept the resource. False means nothing."""
    return _build_validator(model).isinstance_python(resource)


@cache
def _build_validator(model: type[BaseModel]) -> SchemaValidator:
    """Build the validator of a resource and of all its element types."""
    schemas: dict[str, core_schema.CoreSchema] = {}
    waiting = [model]
    while waiting:
        each = waiting.pop()
        if _get_name(each) not in schemas:
            schemas[_get_name(each)], within = _build_object_schema(each, is_resource=each is model)
            waiting += within
    root = core_schema.definition_reference_schema(_get_name(model))
    return SchemaValidator(core_schema.definitions_schema(root, list(schemas.values())))


def _build_object_schema(
    model: type[BaseModel], *, is_resource: bool
) -> tuple[core_schema.CoreSchema, list[type[BaseModel]]]:
    """Return the schema of one model's objects, and the models of its elements."""
    fields: dict[str, core_schema.TypedDictField] = {}
    within: list[type[BaseModel]] = []
    if is_resource:
        its_own = core_schema.literal_schema([model.__name__])
        fields["resourceType"] = core_schema.typed_dict_field(its_own, required=True)
    for name, field in model.model_fields.items():
        kinds = None if name.endswith(_SKIPPED_FIELDS) else _get_element_type(field.annotation)
        if kinds is None:
            continue
        kind, element, repeats = kinds
        within += [] if element is None else [element]
        schema = core_schema.list_schema(kind, min_length=1) if repeats else kind
        is_needed = field.is_required() or bool(_get_extra(field).get("element_required"))
        fields[field.alias or name] = core_schema.typed_dict_field(schema, required=is_needed)
    object_schema = core_schema.typed_dict_schema(fields, extra_behavior="forbid", config=_STRICT)
    if choices := dict(_iterate_choices(model)):
        needed = frozenset(choice for choice, is_needed in choices.values() if is_needed)
        chosen = {name: choice for name, (choice, _) in choices.items()}
        return core_schema.no_info_after_validator_function(
            _build_choice_check(chosen, needed), object_schema, ref=_get_name(model)
        ), within
    return {**object_schema, "ref": _get_name(model)}, within


def _get_element_type(annotation: Any) -> tuple[core_schema.CoreSchema, type[BaseModel] | None, bool] | None:
    """Return an element's schema, its model if it is an object, and whether it repeats. None leaves it to the
    models.
    """
    from fhir_core.types import FhirBase, FhirElementOrResourceBase

    plain, repeats = _unwrap_optional(annotation), False
    if get_origin(plain) is list:
        plain, repeats = _unwrap_optional(get_args(plain)[0]), True
    if isinstance(plain, type) and issubclass(plain, FhirBase):
        if issubclass(plain, FhirElementOrResourceBase):
            return None
        model = plain.get_model_klass()
        return core_schema.definition_reference_schema(_get_name(model)), model, repeats
    primitive = _build_primitive_schema(plain)
    return None if primitive is None else (primitive, None, repeats)


@cache
def _build_primitive_schema(kind: Any) -> core_schema.CoreSchema | None:
    """Build the schema of a primitive type, or None if the models must check it."""
    if kind is bool:
        return core_schema.bool_schema()
    declared = getattr(next(iter(getattr(kind, "__metadata__", ())), None), "__visit_name__", "")
    if declared in _SIMPLE_TYPES:
        return TypeAdapter(kind).core_schema
    match declared:
        case "date":
            return _build_date_schema(_DATE, core_schema.date_schema(strict=False))
        case "instant":
            return _build_date_schema(f"{_DATE}T{_TIME}", core_schema.datetime_schema(strict=False))
        case "dateTime":
            return _build_date_schema(f"{_DATE}(T{_TIME})?", core_schema.datetime_schema(strict=False))
        case "decimal":
            number = core_schema.float_schema(allow_inf_nan=False)
            return core_schema.union_schema([core_schema.int_schema(), number])
    return None


def _build_date_schema(pattern: str, kind: core_schema.CoreSchema) -> core_schema.CoreSchema:
    """Build the schema of a text of this form that is a valid date."""
    return core_schema.chain_schema([core_schema.str_schema(pattern=f"^{pattern}$"), kind])


def _build_choice_check(
    choices: Mapping[str, str], needed: frozenset[str]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Build a validator that accepts one type per choice element, and requires the choices in `needed`."""

    def check_choices(value: dict[str, Any]) -> dict[str, Any]:
        chosen = [choices[name] for name in value if name in choices]
        if len(set(chosen)) < len(chosen) or not needed.issubset(chosen):
            raise ValueError("a choice element is missing or has two types")
        return value

    return check_choices


def _iterate_choices(model: type[BaseModel]) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Yield the alternatives of choice elements such as value[x]: field, choice, and if it is required."""
    for name, field in model.model_fields.items():
        if choice := _get_extra(field).get("one_of_many"):
            yield field.alias or name, (choice, bool(_get_extra(field).get("one_of_many_required")))


def _get_extra(field: Any) -> Mapping[str, Any]:
    """Return the metadata that fhir.resources attaches to a field."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def _unwrap_optional(annotation: Any) -> Any:
    """Return X for the annotation `X | None`, and any other annotation unchanged."""
    kinds = [each for each in get_args(annotation) if each is not type(None)]
    is_optional = len(kinds) == 1 and len(get_args(annotation)) == 2 and type(None) in get_args(annotation)
    return kinds[0] if is_optional else annotation


def _get_name(model: type[BaseModel]) -> str:
    return f"{model.__module__}.{model.__qualname__}"
