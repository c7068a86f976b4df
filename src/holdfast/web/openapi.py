"""The OpenAPI description, with errors as problem details and stable names of schemas.

FastAPI describes a refused request by a model of its own. Ours are problem details on every route, so the
description is corrected once after it is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from holdfast.core.distribution import explain_missing
from holdfast.web.problems import Problem, describe_problem

with explain_missing(__name__, "api"):
    from fastapi import FastAPI

SCHEMA_NAME: Final = "x-schema-name"

_FRAMEWORK_SCHEMAS: Final = ("HTTPValidationError", "ValidationError")
_INVALID: Final = "422"
_REFUSED: Final = "The request was refused. Change it before you retry, unless the response has Retry-After."
_FAILED: Final = (
    "The service failed. Retry if the response has Retry-After; otherwise report it to the operator."
)
_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


def describe_problems(app: FastAPI) -> None:
    """Make `app.openapi()` and /openapi.json describe errors as problem details."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = make()
            _replace_errors(description)
            _apply_schema_names(description)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _replace_errors(description: dict[str, Any]) -> None:
    """Describe 422, 4XX and 5XX of every operation as problem details, and remove the framework's schemas."""
    for operation in _list_operations(description):
        responses = operation["responses"]
        if _INVALID in responses:
            responses[_INVALID] = describe_problem(
                "Part of the request is invalid. `errors` lists each fault."
            )
        responses.setdefault("4XX", describe_problem(_REFUSED))
        responses.setdefault("5XX", describe_problem(_FAILED))
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    for name in _FRAMEWORK_SCHEMAS:
        schemas.pop(name, None)
    _, ours = models_json_schema([(Problem, "serialization")], ref_template="#/components/schemas/{model}")
    schemas.update(ours["$defs"])


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
