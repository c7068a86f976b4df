"""Whether a resource has the shape that FHIR R4 defines, by the models of fhir.resources.

What the models complain of is told as issues: the path and the kind of mistake. Neither a value nor the name of an
element that R4 does not know is repeated, for both are the sender's text. The models are imported on first use, as
that takes a quarter of a second. R4B's models serve, being R4's for every resource of an authorization.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from pagw.fhir.outcomes import Code, Issue, error

_KINDS: Final[Mapping[str, tuple[Code, str]]] = {
    "missing": ("required", "a required element is missing"),
    "extra_forbidden": ("structure", "an element that FHIR R4 does not define stands here"),
    "list_type": ("structure", "the element repeats in FHIR R4, so it must be a list"),
    "model_type": ("structure", "the element must be an object"),
    "dict_type": ("structure", "the element must be an object"),
}
_OTHERWISE: Final[tuple[Code, str]] = ("value", "the value has not the type or form that FHIR R4 asks for")


def structure_issues(resource: Mapping[str, Any], path: str) -> list[Issue]:
    """All that is wrong with the shape of one resource; `path` is where it stands, as `Bundle.entry[2].resource`."""
    kind = resource.get("resourceType")
    model = model_of(kind) if isinstance(kind, str) else None
    if model is None:
        return [error("structure", f"{path}: this is not a resource that FHIR R4 defines.", f"{path}.resourceType")]
    try:
        model.model_validate(resource)
    except ValidationError as invalid:
        told = [_issue(entry["type"], entry["loc"], path) for entry in invalid.errors(include_input=False)]
        return list(dict.fromkeys(told))
    return []


@cache
def model_of(kind: str) -> type[BaseModel] | None:
    """The model of a resource by its name; None for a name that is no resource."""
    from fhir.resources.R4B import get_fhir_model_class

    try:
        model: type[BaseModel] = get_fhir_model_class(kind)
    except (ValueError, KeyError, LookupError, ImportError):
        return None
    return model if "resource_type" in model.model_fields or hasattr(model, "get_resource_type") else None


def _issue(kind: str, location: tuple[int | str, ...], path: str) -> Issue:
    code, wrong = _KINDS.get(kind, _OTHERWISE)
    if kind == "extra_forbidden":
        location = location[:-1]
    where = path
    for step in location:
        where += f"[{step}]" if isinstance(step, int) else f".{step}"
    return error(code, f"{where}: {wrong}.", where)
