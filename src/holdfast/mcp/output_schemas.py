"""The output schema of a system's function, from its return annotation.

It is shallow: the members of the result with their JSON types, and not what is inside them. Every tool
repeats its schema in the list that an agent reads, and the result itself shows the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

from pydantic import PydanticUserError, TypeAdapter

# Members of a result that was cut.
_CUT_MEMBERS: Final[dict[str, Any]] = {
    "cursor": {"type": ["string", "null"]},
    "truncated": {"type": "object"},
}
_SCALARS: Final = frozenset({"boolean", "integer", "null", "number", "string"})


def build_output_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the schema of the function's result; None if its annotation says nothing about it."""
    annotation = get_type_hints(function, include_extras=True).get("return", Any)
    try:
        schema = TypeAdapter(annotation).json_schema(mode="serialization")
    except PydanticUserError:
        return None
    definitions = schema.get("$defs", {})
    schema = _resolve(schema, definitions)
    if schema.get("type") != "object":
        # A result that is not an object is returned as its member `result`.
        return (
            None if not schema else _build_object({"result": _make_shallow(schema, definitions)}, ["result"])
        )
    members = {name: _make_shallow(each, definitions) for name, each in schema.get("properties", {}).items()}
    return _build_object(members, schema.get("required", []))


def may_have_lists(schema: Mapping[str, Any] | None) -> bool:
    """Return whether a result with this output schema may have lists, which can be cut."""
    return schema is None or "truncated" in schema["properties"]


def _build_object(members: dict[str, Any], required: list[str]) -> dict[str, Any]:
    has_scalars_only = members and all(_SCALARS.issuperset(_get_types(each)) for each in members.values())
    schema: dict[str, Any] = {
        "type": "object",
        "properties": members if has_scalars_only else _CUT_MEMBERS | members,
    }
    return schema | {"required": required} if required else schema


def _get_types(shallow: Mapping[str, Any]) -> list[str]:
    """Return the JSON types of a member, or `any`."""
    types = shallow.get("type", "any")
    return [types] if isinstance(types, str) else list(types)


def _make_shallow(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON types and the description of one member."""
    shallow: dict[str, Any] = {}
    if types := sorted(_list_types(schema, definitions)):
        shallow["type"] = types[0] if len(types) == 1 else types
    if "description" in schema:
        shallow["description"] = schema["description"]
    return shallow


def _list_types(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> set[str]:
    """Return the JSON types that a value may have; none if it may have any."""
    resolved = _resolve(schema, definitions)
    found = [_list_types(each, definitions) for each in resolved.get("anyOf", resolved.get("oneOf", ()))]
    if found:
        return set().union(*found) if all(found) else set()
    named = resolved.get("type", ())
    return {named} if isinstance(named, str) else set(named)


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition that a schema refers to, or the schema itself."""
    if "$ref" not in schema:
        return dict(schema)
    return _resolve(definitions[schema["$ref"].rpartition("/")[2]], definitions)
