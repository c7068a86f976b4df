"""Checks of a resource's structure against FHIR R4, with the models of fhir.resources.

`fast_structure` accepts resources that are certainly valid; the models validate all others, and their errors
become issues with the path and the kind of mistake. An issue repeats neither a value nor the name of an
unknown element, because both are the client's text. The models are imported on first use, which takes a
quarter of a second. R4B models serve, because they equal R4 for every resource of an authorization.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from pagw.domain.fhir.outcomes import Code, Issue, build_error
from pagw.domain.fhir.rules.fast_structure import is_certainly_valid

_ERROR_KINDS: Final[Mapping[str, tuple[Code, str]]] = {
    "missing": ("required", "a required element is missing"),
    "model_field_validation.missing": ("required", "a required element is missing"),
    "extra_forbidden": ("structure", "FHIR R4 does not define one of the elements"),
    "list_type": ("structure", "expected a list, because the element repeats in FHIR R4"),
}
_DEFAULT_ERROR: Final[tuple[Code, str]] = (
    "value",
    "invalid value: its type or format does not match FHIR R4",
)


def check_structure(resource: Mapping[str, Any], path: str) -> list[Issue]:
    """Return every structure error of one resource. `path` is its location, for example
    `Bundle.entry[2].resource`.
    """
    kind = resource.get("resourceType")
    model = _get_model(kind) if isinstance(kind, str) else None
    if model is None:
        return [
            build_error(
                "structure", f"{path}: FHIR R4 does not define this resource type.", f"{path}.resourceType"
            )
        ]
    if is_certainly_valid(model, resource):
        return list(_find_empty_elements(resource, path)) if _has_empty_elements(resource) else []
    return _validate(model, resource, path)


def _validate(model: type[BaseModel], resource: Mapping[str, Any], path: str) -> list[Issue]:
    """Return the issues that the model finds, or else the coerced and empty elements that it lets pass."""
    try:
        read = model.model_validate(dict(resource))
    except ValidationError as invalid:
        issues = [
            _build_issue(entry["type"], entry["loc"], path) for entry in invalid.errors(include_input=False)
        ]
        return list(dict.fromkeys(issues))
    except (LookupError, TypeError, ValueError, AttributeError):
        # The models look up a contained resource by its type, and raise for an unknown one.
        return [
            build_error(
                "structure", f"{path}: FHIR R4 does not define the type of a contained resource.", path
            )
        ]
    coerced = [] if _is_unchanged(read, resource) else _find_coerced(read, resource, path)
    return [*coerced, *(_find_empty_elements(resource, path) if _has_empty_elements(resource) else ())]


@cache
def _get_model(kind: str) -> type[BaseModel] | None:
    """Return the model of a resource type, or None for an unknown type."""
    from fhir.resources.R4B import get_fhir_model_class
    from fhir.resources.R4B.resource import Resource

    try:
        model: type[BaseModel] = get_fhir_model_class(kind)
    except ValueError:
        return None
    return model if issubclass(model, Resource) and kind not in {"Resource", "DomainResource"} else None


def _build_issue(kind: str, location: tuple[int | str, ...], path: str) -> Issue:
    """Build the issue of a pydantic error. `kind` is its type, `location` its path below `path`."""
    code, wrong = _ERROR_KINDS.get(kind, _DEFAULT_ERROR)
    if kind == "extra_forbidden":
        location = location[:-1]
    where = path
    for step in location:
        where += f"[{step}]" if isinstance(step, int) else f".{step}"
    return build_error(code, f"{where}: {wrong}.", where)


def _is_unchanged(read: Any, raw: Any) -> bool:
    """Return whether `_find_coerced` would find nothing. Faster, because it builds no paths."""
    if isinstance(read, BaseModel):
        if not isinstance(raw, dict):
            return False
        names = _get_field_names(type(read))
        return all(
            _is_unchanged(value, raw[names[name]])
            for name, value in read.__dict__.items()
            if value is not None and names.get(name) in raw
        )
    if isinstance(read, list):
        return isinstance(raw, list) and all(
            _is_unchanged(value, item) for value, item in zip(read, raw, strict=False) if value is not None
        )
    return _has_same_type(read, raw)


def _find_coerced(read: Any, raw: Any, path: str) -> Iterator[Issue]:
    """Yield elements whose type the models changed: a number in quotes, an object written into a string."""
    if not _has_same_type(read, raw):
        code, wrong = _DEFAULT_ERROR
        yield build_error(code, f"{path}: {wrong}.", path)
    elif isinstance(read, BaseModel):
        names = _get_field_names(type(read))
        for name, value in read.__dict__.items():
            if value is not None and (alias := names.get(name)) in raw:
                yield from _find_coerced(value, raw[alias], f"{path}.{alias}")
    elif isinstance(read, list):
        for place, (value, item) in enumerate(zip(read, raw, strict=False)):
            if value is not None:
                yield from _find_coerced(value, item, f"{path}[{place}]")


@cache
def _get_field_names(model: type[BaseModel]) -> dict[str, str]:
    """Return a model's fields with their FHIR names."""
    return {name: each.alias or name for name, each in model.model_fields.items()}


def _has_empty_elements(raw: Any) -> bool:
    """Return whether `_find_empty_elements` would find something."""
    if isinstance(raw, dict):
        return any(
            _has_empty_elements(value)
            if value and isinstance(value, dict | list)
            else value is None or value in ([], {}, "")
            for value in raw.values()
        )
    return any(_has_empty_elements(value) for value in raw if isinstance(value, dict | list))


def _find_empty_elements(raw: Any, path: str) -> Iterator[Issue]:
    """Yield null and empty elements, which the models ignore. A list may contain null next to a companion
    element.
    """
    if isinstance(raw, dict):
        for name, value in raw.items():
            if value is None or value in ([], {}, ""):
                yield build_error(
                    "structure", f"{path}.{name}: an element must not be null or empty.", f"{path}.{name}"
                )
            elif isinstance(value, dict | list):
                yield from _find_empty_elements(value, f"{path}.{name}")
    elif isinstance(raw, list):
        for place, value in enumerate(raw):
            if isinstance(value, dict | list):
                yield from _find_empty_elements(value, f"{path}[{place}]")


def _has_same_type(read: Any, raw: Any) -> bool:
    """Return whether the model's value has the JSON type that the client sent."""
    if isinstance(read, BaseModel):
        return isinstance(raw, dict)
    if isinstance(read, list):
        return isinstance(raw, list)
    if isinstance(read, bool) or isinstance(raw, bool):
        return isinstance(read, bool) and isinstance(raw, bool)
    if isinstance(read, int):
        return isinstance(raw, int)
    if isinstance(read, Decimal | float):
        return isinstance(raw, int | float)
    return isinstance(raw, str)
