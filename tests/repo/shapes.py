"""Describe JSON values and JSON schemas as lines: one line per key path, with the types found there.

`items[].id: string` is the member `id` of each element of the list `items`. `{}` is any key of a map. A
star after a name marks a member that the schema requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

REFERENCE: Final = "$ref"
# The keywords under which a schema lists alternatives.
ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
REQUIRED: Final = "*"

# A key path and a type found there.
Place = tuple[str, str]


def describe_values(values: Iterable[Any]) -> list[str]:
    """Return the key paths of JSON values of one kind, each with every type found there."""
    return _join_types(place for value in values for place in _walk_value(value, ""))


def describe_schema(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> list[str]:
    """Return the key paths of a JSON schema, each with its types.

    `definitions` resolves its references; the default is its own `$defs`.
    """
    known = schema.get("$defs", {}) if definitions is None else definitions
    return _join_types(_walk_schema(schema, "", known, ()))


def _join_types(places: Iterable[Place]) -> list[str]:
    """Return a sorted line for each path, with all its types."""
    types: dict[str, set[str]] = {}
    for path, type_name in places:
        types.setdefault(path, set()).add(type_name)
    return sorted(f"{path or '.'}: {' | '.join(sorted(names))}" for path, names in types.items())


def _walk_value(value: Any, path: str) -> Iterator[Place]:
    """Yield the members of a list or map instead of the list or map itself, unless it is empty."""
    if not isinstance(value, dict | list) or not value:
        yield path, _name_type(value)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk_value(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _walk_value(inner, f"{path}[]")


def _name_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _walk_schema(
    schema: Mapping[str, Any], path: str, definitions: Mapping[str, Any], within: tuple[str, ...]
) -> Iterator[Place]:
    """Yield each key path and type of a schema.

    `within` names the references that led here, so that a recursive schema ends.
    """
    if REFERENCE in schema:
        name = str(schema[REFERENCE]).rpartition("/")[2]
        if name in within:
            yield path, "recursive"
        else:
            yield from _walk_schema(definitions[name], path, definitions, (*within, name))
        return
    alternatives = [each for keyword in ALTERNATIVES for each in schema.get(keyword, ())]
    for each in alternatives:
        yield from _walk_schema(each, path, definitions, within)
    if not alternatives or "properties" in schema:
        yield path, _name_schema_type(schema)
    for inner_path, inner in _list_members(schema, path.removesuffix(REQUIRED)):
        yield from _walk_schema(inner, inner_path, definitions, within)


def _list_members(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and schema of each property, map value and list element."""
    for name, inner in schema.get("properties", {}).items():
        mark = REQUIRED if name in schema.get("required", ()) else ""
        yield (f"{path}.{name}{mark}" if path else f"{name}{mark}"), inner
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield f"{path}.{{}}", schema["additionalProperties"]
    if isinstance(schema.get("items"), Mapping):
        yield f"{path}[]", schema["items"]
    for inner in schema.get("prefixItems", ()):
        yield f"{path}[]", inner


def _name_schema_type(schema: Mapping[str, Any]) -> str:
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if values is not None:
        return f"one of {', '.join(sorted(map(str, values)))}"
    named = schema.get("type", "any")
    joined = " | ".join(named) if isinstance(named, list) else str(named)
    return f"{joined} ({schema['format']})" if "format" in schema else joined
