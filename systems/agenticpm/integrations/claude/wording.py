"""Wording rules for the model: the texts it may write, the tool's input schema, and checks of its answer.

The schema (the form) is derived from the content schemas and has only the writable texts and the names of
their entries. The decision log is absent: decisions stay in people's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from agenticpm.domain.contents import SCHEMAS, ArtefactType
from holdfast.ai import Tool, strip_invisible

MAX_TEXT_CHARS: Final = 1_200
MAX_TEXTS: Final = 8
MAX_REPORTED_FAULTS: Final = 5
# The schema members that the API needs; `validate_words` checks the others.
SCHEMA_MEMBERS: Final = frozenset(
    {"type", "properties", "required", "items", "anyOf", "enum", "additionalProperties", "description"}
)
COLOURS: Final = frozenset({"green", "amber", "red"})
USER_ADDED: Final = "user_added"
_FORBIDDEN: Final = (
    ("a link", re.compile(r"\b[a-z][a-z0-9+.-]*://|\bwww\.|\b(?:javascript|data|mailto):", re.IGNORECASE)),
    ("an address", re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")),
    ("markup", re.compile(r"<\s*[/!]?\s*[a-z]|\]\s*\(|```|!\[", re.IGNORECASE)),
)


@dataclass(frozen=True)
class EntryWording:
    """The writable texts (`words`) of the entries of a list, which are identified by `keys`.

    `write_once`: the model writes only new entries.
    """

    keys: tuple[str, ...]
    words: tuple[str, ...]
    write_once: bool = False

    def get_key(self, entry: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values that identify the entry."""
        return tuple(entry.get(name) for name in self.keys)

    def is_writable(self, entry: Mapping[str, Any], name: str, previous: Mapping[str, Any] | None) -> bool:
        """Return whether the model may write this entry of the list `name`.

        It may not if a person added the entry, or if it is write-once and in the previous version.
        """
        if entry.get("source") == USER_ADDED:
            return False
        before = (previous or {}).get(name) or []
        return not (self.write_once and self.get_key(entry) in index_by_key(self, before))


@dataclass(frozen=True)
class Wording:
    """The writable texts of an artefact and of its list entries.

    `volatile` fields change with every sync and are not part of the fingerprint.
    """

    texts: tuple[str, ...] = ()
    lists: Mapping[str, EntryWording] = field(default_factory=dict)
    volatile: tuple[str, ...] = ()


WORDINGS: Final[Mapping[ArtefactType, Wording]] = {
    ArtefactType.delivery_state: Wording(
        texts=("status_summary", "next_actions"),
        lists={"milestones": EntryWording(("name",), ("notes",))},
    ),
    ArtefactType.raid_log: Wording(
        lists={"items": EntryWording(("id",), ("description", "mitigation"), write_once=True)},
    ),
    ArtefactType.backlog_summary: Wording(
        texts=("scope_notes",),
        lists={"highlights": EntryWording(("ticket_id", "flag"), ("detail", "suggested_action"))},
        volatile=("last_synced",),
    ),
}


def index_by_key(
    entries: EntryWording, found: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Return the entries by the values of their keys."""
    return {entries.get_key(each): each for each in found}


@cache
def build_tool(type: ArtefactType) -> Tool:
    """Build the tool with which the model submits the texts of an artefact."""
    described = (
        f"Submit the texts of the {type.replace('_', ' ')}: only those that should replace the draft's own. "
        "Name an entry exactly as the draft names it."
    )
    return Tool(f"write_{type}", described, _simplify_schema(build_form(type).model_json_schema()))


def validate_words(
    type: ArtefactType, given: Any, skeleton: Mapping[str, Any], previous: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the model's texts, validated against the form, the draft's entries and the text rules.

    Raise ValueError with the reason if anything is invalid.
    """
    try:
        found = build_form(type).model_validate(given, strict=True).model_dump(exclude_none=True)
    except ValidationError as error:
        raise ValueError(_format_errors(error)) from None
    for name, entries in WORDINGS[type].lists.items():
        _check_entries(name, entries, found.get(name) or [], skeleton, previous)
    cleaned = _clean_texts(WORDINGS[type], found)
    _check_colour(cleaned.get("status_summary", ""), skeleton.get("overall_status"))
    return cleaned


# --- the form -----------------------------------------------------------------------------------------------


@cache
def build_form(artefact_type: ArtefactType) -> type[BaseModel]:
    """Build the Pydantic model of the tool's input: all texts optional, the keys of entries required."""
    schema, words = SCHEMAS[artefact_type], WORDINGS[artefact_type]
    members: dict[str, Any] = {name: _make_optional(schema.model_fields[name]) for name in words.texts}
    for name, entries in words.lists.items():
        (entry,) = get_args(schema.model_fields[name].annotation)
        fields: dict[str, Any] = {
            key: (_copy_annotation(entry.model_fields[key]), ...) for key in entries.keys
        }
        fields |= {word: _make_optional(entry.model_fields[word]) for word in entries.words}
        row = create_model(f"{name}_words", __config__=ConfigDict(extra="forbid"), **fields)
        members[name] = (list[row] | None, None)  # type: ignore[valid-type]
    return create_model(f"{artefact_type}_words", __config__=ConfigDict(extra="forbid"), **members)


def _copy_annotation(field: FieldInfo) -> Any:
    return Annotated[field.annotation, Field(), *field.metadata]


def _make_optional(field: FieldInfo) -> Any:
    """Return the field as an optional member with the default None."""
    return (_copy_annotation(field) | None, None)


def _simplify_schema(schema: Mapping[str, Any], defs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Resolve references and drop the schema members that the API does not need."""
    defs = schema.get("$defs", {}) if defs is None else defs
    if "$ref" in schema:
        return _simplify_schema(defs[schema["$ref"].rpartition("/")[2]], defs)
    lean: dict[str, Any] = {}
    for member, value in schema.items():
        if member == "properties":
            lean[member] = {name: _simplify_schema(each, defs) for name, each in value.items()}
        elif member == "anyOf":
            lean |= _merge_choices(
                [_simplify_schema(each, defs) for each in value if each.get("type") != "null"]
            )
        elif member == "items":
            lean[member] = _simplify_schema(value, defs)
        elif member in SCHEMA_MEMBERS:
            lean[member] = value
    return lean


def _merge_choices(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Reduce a nullable member to its other type: models handle an optional member better than null."""
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


# --- checks of the texts ----------------------------------------------------------------------------------


def _check_entries(
    name: str,
    entries: EntryWording,
    given: list[dict[str, Any]],
    skeleton: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
) -> None:
    """Raise ValueError if an entry is unknown, not writable or given twice. `name` is the list."""
    there = index_by_key(entries, skeleton[name])
    keys = [entries.get_key(each) for each in given]
    for key in keys:
        written = " ".join(str(part) for part in key)
        if key not in there:
            raise ValueError(f"{name}: the draft has no entry {written}: write only entries of the draft")
        if not entries.is_writable(there[key], name, previous):
            raise ValueError(f"{name}: {written} is already written: leave it out")
        if keys.count(key) > 1:
            raise ValueError(f"{name}: {written} occurs twice: give it once")


def _clean_texts(words: Wording, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts without invisible characters. Raise ValueError if one is more than plain words.

    The keys of entries stay as they are.
    """
    cleaned: dict[str, Any] = {name: _clean_text(found[name], name) for name in words.texts if name in found}
    for name, entries in words.lists.items():
        cleaned[name] = [
            each | {word: _clean_text(each[word], f"{name}.{word}") for word in entries.words if word in each}
            for each in found.get(name, ())
        ]
    return cleaned


def _clean_text(value: Any, path: str) -> Any:
    """Clean one text, or each of a list.

    Raise ValueError if it is too long, empty, or has a link or markup.
    """
    if isinstance(value, list):
        if len(value) > MAX_TEXTS:
            raise ValueError(f"{path} has {len(value)} entries: give at most {MAX_TEXTS}")
        return [_clean_text(each, path) for each in value]
    text = strip_invisible(value).strip()
    if not text or len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"{path} has {len(text)} characters: give 1 to {MAX_TEXT_CHARS}")
    for what in _find_forbidden(text):
        raise ValueError(f"{path} contains {what}: write plain sentences only")
    return text


def is_plain(text: str) -> bool:
    """Return whether the text has no link, address or markup."""
    return not any(_find_forbidden(text))


def _find_forbidden(text: str) -> Iterator[str]:
    """Yield what the text contains that it must not: a link, an address, markup."""
    return (what for what, looks in _FORBIDDEN if looks.search(text))


def _check_colour(summary: str, status: str | None) -> None:
    """Raise ValueError if the summary names another colour than the status, as a prompt injection may do."""
    called = COLOURS & set(re.findall(r"[a-z]+", summary.casefold()))
    if status is not None and called - {status}:
        raise ValueError(f"status_summary says {min(called - {status})}, but the status is {status}")


def _format_errors(error: ValidationError) -> str:
    """Format the first five validation errors with their paths."""
    faults = [
        f"{'.'.join(str(part) for part in each['loc']) or 'the input'}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)
    ]
    return "; ".join(faults[:MAX_REPORTED_FAULTS])
