"""The OpenAPI description, completed once after FastAPI has built it.

FastAPI describes a refused request by a model of its own: ours have the app's error format on every route. It
does not know the bodies that a dependency reads (`bodies.py`), and would not list as required a header whose
absence is a matter of authentication. Names of schemas stay as they are declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from holdfast.core.distribution import explain_missing
from holdfast.web.bodies import RequestBody
from holdfast.web.problems import PROBLEM_JSON, ErrorFormat, get_error_format

with explain_missing(__name__, "api"):
    from fastapi import APIRouter, FastAPI
    from fastapi.dependencies.models import Dependant
    from fastapi.routing import APIRoute

SCHEMA_NAME: Final = "x-schema-name"
REQUIRED: Final[dict[str, Any]] = {"x-required": True}
"""The `json_schema_extra` of an optional parameter that OpenAPI lists as required, such as a signature."""

_FRAMEWORK_SCHEMAS: Final = ("HTTPValidationError", "ValidationError")
_INVALID: Final = "422"
_REFERENCE: Final = "#/components/schemas/{model}"
_FAULTY: Final = "Part of the request is invalid. `errors` lists each fault."
_REFUSED: Final = "The request was refused. Change it before you retry, unless the response has Retry-After."
_FAILED: Final = (
    "The service failed. Retry if the response has Retry-After; otherwise report it to the operator."
)
_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


def describe_app(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Make `app.openapi()` and /openapi.json complete. `routers` are those that the app includes."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = make()
            schemas = description.setdefault("components", {}).setdefault("schemas", {})
            _replace_errors(description, get_error_format(app))
            for router in routers:
                for route in router.routes:
                    if isinstance(route, APIRoute) and route.include_in_schema:
                        _add_body(description["paths"][route.path_format], route, schemas)
            _apply_required(description)
            _apply_schema_names(description)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


# --- errors -------------------------------------------------------------------------------------------------


def _replace_errors(description: dict[str, Any], format: ErrorFormat) -> None:
    """Describe 4XX and 5XX of every operation in the app's format, and remove the framework's schemas.

    An invalid request has an entry of its own if its status is the framework's.
    """
    reference = {"schema": {"$ref": _REFERENCE.format(model=format.schema_name)}}
    content = {format.media_type: reference}
    for operation in _list_operations(description):
        answers = operation["responses"]
        if _INVALID in answers and int(_INVALID) == format.invalid_status:
            answers[_INVALID] = {"description": _FAULTY, "content": content}
        elif _describes_framework_error(answers.get(_INVALID, {})):
            del answers[_INVALID]
        for status, words in (("4XX", _REFUSED), ("5XX", _FAILED)):
            answers.setdefault(status, {"description": words, "content": content})
        for each in answers.values():
            if PROBLEM_JSON in each.get("content", {}):
                each["content"] = content
    schemas = description["components"]["schemas"]
    for name in _FRAMEWORK_SCHEMAS:
        schemas.pop(name, None)
    schemas.update(format.schemas())


def _describes_framework_error(answer: Mapping[str, Any]) -> bool:
    """Return whether a response is described by the framework's own model of invalid requests."""
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return bool(schema.get("$ref") == _REFERENCE.format(model=_FRAMEWORK_SCHEMAS[0]))


# --- bodies and parameters ----------------------------------------------------------------------------------


def _add_body(path: dict[str, Any], route: APIRoute, schemas: dict[str, Any]) -> None:
    """Describe the body that a dependency of the route reads."""
    for body in _list_bodies(route.dependant):
        content = {media: _describe_content(each, schemas) for media, each in body.content.items()}
        if content:
            for method in route.methods or ():
                path[method.lower()]["requestBody"] = {"required": True, "content": content}


def _list_bodies(dependant: Dependant) -> Iterator[RequestBody]:
    """Yield the dependencies that read the body, those of dependencies included."""
    call: object = dependant.call
    if isinstance(call, RequestBody):
        yield call
    for each in dependant.dependencies:
        yield from _list_bodies(each)


def _describe_content(
    content: type[BaseModel] | Mapping[str, Any], schemas: dict[str, Any]
) -> Mapping[str, Any]:
    """Return a media type object; add the schema of a model to `schemas`."""
    if isinstance(content, Mapping):
        return content
    names, found = models_json_schema([(content, "validation")], ref_template=_REFERENCE)
    schemas.update(found["$defs"])
    return {"schema": names[content, "validation"]}


def _apply_required(description: dict[str, Any]) -> None:
    """List parameters with the member `REQUIRED` as required, and remove the member."""
    for operation in _list_operations(description):
        for parameter in operation.get("parameters", ()):
            for member in REQUIRED:
                parameter["required"] = parameter["schema"].pop(member, False) or parameter["required"]


# --- names --------------------------------------------------------------------------------------------------


def _apply_schema_names(description: dict[str, Any]) -> None:
    """Give each schema with the member `SCHEMA_NAME` that name, and remove the member.

    The framework puts the module of a model into the name of its schema if two models have the same name.
    A model with `SCHEMA_NAME` in its `json_schema_extra` keeps its name when its module changes.
    """
    schemas = description["components"]["schemas"]
    names = {name: schema.pop(SCHEMA_NAME, name) for name, schema in schemas.items()}
    references = {f"#/components/schemas/{old}": f"#/components/schemas/{new}" for old, new in names.items()}
    description["components"]["schemas"] = {names[old]: schema for old, schema in schemas.items()}
    _replace_references(description, references)


def _replace_references(node: Any, references: Mapping[str, str]) -> None:
    """Replace references in `$ref` and in the `mapping` of a discriminator."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        if isinstance(value, str):
            node[key] = references.get(value, value)
        else:
            _replace_references(value, references)


def _list_operations(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the description of every operation of every path."""
    for path in description["paths"].values():
        for method, operation in path.items():
            if method in _METHODS:
                yield operation
