"""The OpenAPI description, with failures as they really are.

FastAPI describes a refused request by a model of its own, as plain JSON. Ours are problems, on every route,
so the description is corrected once, after it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from holdfast.web.problems import Problem, problem_response

_OF_THE_FRAMEWORK: Final = ("HTTPValidationError", "ValidationError")
_INVALID: Final = "422"
_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


def describe_problems(app: FastAPI) -> None:
    """`app.openapi()` and /openapi.json tell of problems from here on."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _correct(make())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _correct(description: dict[str, Any]) -> None:
    for operation in _operations(description):
        responses = operation["responses"]
        if _INVALID in responses:
            responses[_INVALID] = problem_response(
                "A part of the request cannot be used: `errors` says which."
            )
        responses.setdefault("4XX", problem_response("The request cannot be done as it is."))
        responses.setdefault("5XX", problem_response("The service cannot do it, now or at all."))
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    for name in _OF_THE_FRAMEWORK:
        schemas.pop(name, None)
    _, ours = models_json_schema([(Problem, "serialization")], ref_template="#/components/schemas/{model}")
    schemas.update(ours["$defs"])


def _operations(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in description["paths"].values():
        for method, operation in path.items():
            if method in _METHODS:
                yield operation
