"""Whether a resource has the shape that FHIR R4 defines, by the models of fhir.resources.

What is sound beyond doubt is seen by a quick look (`sound_shapes.py`); all else is read into the models. What they complain
of is told as issues: the path and the kind of mistake. Neither a value nor the name of an element that R4 does not know is
repeated, for both are the sender's text. The models are imported on first use, as that takes a quarter of a second. R4B's models serve, being R4's for every resource of an authorization.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from pagw.fhir.outcomes import Code, Issue, error
from pagw.fhir.sound_shapes import is_sound

_KINDS: Final[Mapping[str, tuple[Code, str]]] = {
    "missing": ("required", "a required element is missing"),
    "model_field_validation.missing": ("required", "a required element is missing"),
    "extra_forbidden": ("structure", "an element that FHIR R4 does not define stands here"),
    "list_type": ("structure", "the element repeats in FHIR R4, so it must be a list of elements"),
}
_OTHERWISE: Final[tuple[Code, str]] = ("value", "the value has not the type or form that FHIR R4 asks for")

_USUAL: Final = (
    "Bundle Claim ClaimResponse Coverage DocumentReference Organization Patient Practitioner PractitionerRole "
    "ServiceRequest Subscription"
).split()


def structure_issues(resource: Mapping[str, Any], path: str) -> list[Issue]:
    """All that is wrong with the shape of one resource; `path` is where it stands, as `Bundle.entry[2].resource`."""
    kind = resource.get("resourceType")
    model = _model(kind) if isinstance(kind, str) else None
    if model is None:
        return [
            error(
                "structure", f"{path}: this is not a resource that FHIR R4 defines.", f"{path}.resourceType"
            )
        ]
    if is_sound(model, resource):
        return list(_hollow(resource, path)) if _is_hollow(resource) else []
    return _complaints(model, resource, path)


def _complaints(model: type[BaseModel], resource: Mapping[str, Any], path: str) -> list[Issue]:
    try:
        read = model.model_validate(dict(resource))
    except ValidationError as invalid:
        told = [_issue(entry["type"], entry["loc"], path) for entry in invalid.errors(include_input=False)]
        return list(dict.fromkeys(told))
    except (LookupError, TypeError, ValueError, AttributeError):
        # The models look a contained resource up by its name, and stumble over one that is none.
        return [error("structure", f"{path}: a resource within it is none that FHIR R4 defines.", path)]
    coerced = [] if _is_as_sent(read, resource) else _coerced(read, resource, path)
    return [*coerced, *(_hollow(resource, path) if _is_hollow(resource) else ())]


def load_models() -> None:
    """Makes ready what every resource of a usual request is looked at by, so that the first request does not wait for it."""
    for kind in _USUAL:
        structure_issues({"resourceType": kind}, kind)


@cache
def _model(kind: str) -> type[BaseModel] | None:
    """The model of a resource by its name; None for a name that is no resource."""
    from fhir.resources.R4B import get_fhir_model_class
    from fhir.resources.R4B.resource import Resource

    try:
        model: type[BaseModel] = get_fhir_model_class(kind)
    except ValueError:
        return None
    return model if issubclass(model, Resource) and kind not in {"Resource", "DomainResource"} else None


def _issue(kind: str, location: tuple[int | str, ...], path: str) -> Issue:
    code, wrong = _KINDS.get(kind, _OTHERWISE)
    if kind == "extra_forbidden":
        location = location[:-1]
    where = path
    for step in location:
        where += f"[{step}]" if isinstance(step, int) else f".{step}"
    return error(code, f"{where}: {wrong}.", where)


def _is_as_sent(read: Any, raw: Any) -> bool:
    """Whether `_coerced` has nothing to tell, which is what nearly all are asked for: it makes no paths."""
    if isinstance(read, BaseModel):
        if not isinstance(raw, dict):
            return False
        names = _names(type(read))
        return all(
            _is_as_sent(value, raw[names[name]])
            for name, value in read.__dict__.items()
            if value is not None and names.get(name) in raw
        )
    if isinstance(read, list):
        return isinstance(raw, list) and all(
            _is_as_sent(value, item) for value, item in zip(read, raw, strict=False) if value is not None
        )
    return _is_alike(read, raw)


def _coerced(read: Any, raw: Any, path: str) -> Iterator[Issue]:
    """What the models took for something else: a number in quotes, an object written into a string."""
    if not _is_alike(read, raw):
        code, wrong = _OTHERWISE
        yield error(code, f"{path}: {wrong}.", path)
    elif isinstance(read, BaseModel):
        names = _names(type(read))
        for name, value in read.__dict__.items():
            if value is not None and (alias := names.get(name)) in raw:
                yield from _coerced(value, raw[alias], f"{path}.{alias}")
    elif isinstance(read, list):
        for place, (value, item) in enumerate(zip(read, raw, strict=False)):
            if value is not None:
                yield from _coerced(value, item, f"{path}[{place}]")


@cache
def _names(model: type[BaseModel]) -> dict[str, str]:
    """The fields of a model, and as what FHIR writes them."""
    return {name: each.alias or name for name, each in model.model_fields.items()}


def _is_hollow(raw: Any) -> bool:
    """Whether `_hollow` has something to tell."""
    if isinstance(raw, dict):
        return any(
            _is_hollow(value)
            if value and isinstance(value, dict | list)
            else value is None or value in ([], {}, "")
            for value in raw.values()
        )
    return any(_is_hollow(value) for value in raw if isinstance(value, dict | list))


def _hollow(raw: Any, path: str) -> Iterator[Issue]:
    """Elements that are there and say nothing, which the models pass over. A list may hold null beside a companion."""
    if isinstance(raw, dict):
        for name, value in raw.items():
            if value is None or value in ([], {}, ""):
                yield error(
                    "structure", f"{path}.{name}: an element is never null or empty.", f"{path}.{name}"
                )
            elif isinstance(value, dict | list):
                yield from _hollow(value, f"{path}.{name}")
    elif isinstance(raw, list):
        for place, value in enumerate(raw):
            if isinstance(value, dict | list):
                yield from _hollow(value, f"{path}[{place}]")


def _is_alike(read: Any, raw: Any) -> bool:
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
