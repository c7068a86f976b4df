"""Which words of an artefact a model may write, the form in which it is asked for them, and what they must not be.

The form is made from the schemas of the contents, less everything but these words and the names of what they belong to.
The decision log is not here: what people decided is in their words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from agenticpm.contents import SCHEMAS, ArtefactType
from holdfast.ai import Tool, seen

TEXT_CHARS_MAX: Final = 1_200
TEXTS_MAX: Final = 8
FAULTS_TOLD_MAX: Final = 5
# What the API needs of a schema. The rest is for us: `checked_words` looks at it.
SCHEMA_MEMBERS: Final = frozenset(
    {"type", "properties", "required", "items", "anyOf", "enum", "additionalProperties", "description"}
)
COLOURS: Final = frozenset({"green", "amber", "red"})
PEOPLES: Final = "user_added"
_FOREIGN: Final = (
    ("a link", re.compile(r"\b[a-z][a-z0-9+.-]*://|\bwww\.|\b(?:javascript|data|mailto):", re.IGNORECASE)),
    ("an address", re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")),
    ("markup", re.compile(r"<\s*[/!]?\s*[a-z]|\]\s*\(|```|!\[", re.IGNORECASE)),
)


@dataclass(frozen=True)
class Entries:
    """Entries of a list, found by `keys`; of each, `words` may be written. With `once`, only while it is new."""

    keys: tuple[str, ...]
    words: tuple[str, ...]
    once: bool = False

    def key_of(self, entry: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(entry.get(name) for name in self.keys)

    def is_open(self, entry: Mapping[str, Any], name: str, previous: Mapping[str, Any] | None) -> bool:
        """What people added, and where it is kept what was written before, is no model's to change."""
        if entry.get("source") == PEOPLES:
            return False
        before = (previous or {}).get(name) or []
        return not (self.once and self.key_of(entry) in entries_by_key(self, before))


@dataclass(frozen=True)
class Words:
    """Texts of the artefact itself, and of entries in its lists. `passing` changes with every sync and says nothing."""

    texts: tuple[str, ...] = ()
    lists: Mapping[str, Entries] = field(default_factory=dict)
    passing: tuple[str, ...] = ()


WORDS: Final[Mapping[ArtefactType, Words]] = {
    ArtefactType.delivery_state: Words(
        texts=("status_summary", "next_actions"),
        lists={"milestones": Entries(("name",), ("notes",))},
    ),
    ArtefactType.raid_log: Words(
        lists={"items": Entries(("id",), ("description", "mitigation"), once=True)},
    ),
    ArtefactType.backlog_summary: Words(
        texts=("scope_notes",),
        lists={"highlights": Entries(("ticket_id", "flag"), ("detail", "suggested_action"))},
        passing=("last_synced",),
    ),
}


def entries_by_key(
    entries: Entries, found: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    return {entries.key_of(each): each for each in found}


@cache
def tool_for(type: ArtefactType) -> Tool:
    described = (
        f"Hands in the words of the {type.replace('_', ' ')}: only those that the draft should have in place of its own. "
        "An entry is named exactly as the draft names it."
    )
    return Tool(f"write_{type}", described, _lean(form_of(type).model_json_schema()))


def checked_words(
    type: ArtefactType, given: Any, skeleton: Mapping[str, Any], previous: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The words in the form, for entries that are there and open, all of them plain; or ValueError with what is wrong."""
    try:
        found = form_of(type).model_validate(given, strict=True).model_dump(exclude_none=True)
    except ValidationError as error:
        raise ValueError(_told(error)) from None
    for name, entries in WORDS[type].lists.items():
        _check_entries(name, entries, found.get(name) or [], skeleton, previous)
    taken = _plain(WORDS[type], found)
    _check_colour(taken.get("status_summary", ""), skeleton.get("overall_status"))
    return taken


# --- the form ----------------------------------------------------------------------------------------------------


@cache
def form_of(type: ArtefactType) -> type[BaseModel]:
    schema, words = SCHEMAS[type], WORDS[type]
    members: dict[str, Any] = {name: _optional(schema.model_fields[name]) for name in words.texts}
    for name, entries in words.lists.items():
        (entry,) = get_args(schema.model_fields[name].annotation)
        fields: dict[str, Any] = {key: (_as_there(entry.model_fields[key]), ...) for key in entries.keys}
        fields |= {word: _optional(entry.model_fields[word]) for word in entries.words}
        row = create_model(f"{name}_words", __config__=ConfigDict(extra="forbid"), **fields)
        members[name] = (list[row] | None, None)  # type: ignore[valid-type]
    return create_model(f"{type}_words", __config__=ConfigDict(extra="forbid"), **members)


def _as_there(field: FieldInfo) -> Any:
    return Annotated[field.annotation, Field(), *field.metadata]


def _optional(field: FieldInfo) -> Any:
    return (_as_there(field) | None, None)


def _lean(schema: Mapping[str, Any], defs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """With references resolved, and without members that the API need not know."""
    defs = schema.get("$defs", {}) if defs is None else defs
    if "$ref" in schema:
        return _lean(defs[schema["$ref"].rpartition("/")[2]], defs)
    lean: dict[str, Any] = {}
    for member, value in schema.items():
        if member == "properties":
            lean[member] = {name: _lean(each, defs) for name, each in value.items()}
        elif member == "anyOf":
            lean |= _one_of([_lean(each, defs) for each in value if each.get("type") != "null"])
        elif member == "items":
            lean[member] = _lean(value, defs)
        elif member in SCHEMA_MEMBERS:
            lean[member] = value
    return lean


def _one_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """A member that may be null may as well be left out, which a model understands better."""
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


# --- what the words must not be ----------------------------------------------------------------------------------


def _check_entries(
    name: str,
    entries: Entries,
    given: list[dict[str, Any]],
    skeleton: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
) -> None:
    there = entries_by_key(entries, skeleton[name])
    keys = [entries.key_of(each) for each in given]
    for key in keys:
        written = " ".join(str(part) for part in key)
        if key not in there:
            raise ValueError(f"{name}: the draft has no {written}: write only of what it has")
        if not entries.is_open(there[key], name, previous):
            raise ValueError(f"{name}: {written} has its words already: leave it out")
        if keys.count(key) > 1:
            raise ValueError(f"{name}: {written} is there twice: once is enough")


def _plain(words: Words, found: Mapping[str, Any]) -> dict[str, Any]:
    """Every text as a reader sees it, or ValueError where it is more than words. Names of entries stay as they are."""
    taken: dict[str, Any] = {name: _text(found[name], name) for name in words.texts if name in found}
    for name, entries in words.lists.items():
        taken[name] = [
            each | {word: _text(each[word], f"{name}.{word}") for word in entries.words if word in each}
            for each in found.get(name, ())
        ]
    return taken


def _text(value: Any, path: str) -> Any:
    if isinstance(value, list):
        if len(value) > TEXTS_MAX:
            raise ValueError(f"{path} has {len(value)} entries: {TEXTS_MAX} are enough")
        return [_text(each, path) for each in value]
    text = seen(value).strip()
    if not text or len(text) > TEXT_CHARS_MAX:
        raise ValueError(f"{path} has {len(text)} characters: give from 1 to {TEXT_CHARS_MAX}")
    for what in _foreign_in(text):
        raise ValueError(f"{path} has {what}: plain sentences only")
    return text


def is_plain(text: str) -> bool:
    return not any(_foreign_in(text))


def _foreign_in(text: str) -> Iterator[str]:
    return (what for what, looks in _FOREIGN if looks.search(text))


def _check_colour(summary: str, status: str | None) -> None:
    """A summary that calls another colour than the status is what somebody who wants the status changed would write."""
    called = COLOURS & set(re.findall(r"[a-z]+", summary.casefold()))
    if status is not None and called - {status}:
        raise ValueError(f"status_summary says {min(called - {status})}, and the status is {status}")


def _told(error: ValidationError) -> str:
    faults = [
        f"{'.'.join(str(part) for part in each['loc']) or 'the input'}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)
    ]
    return "; ".join(faults[:FAULTS_TOLD_MAX])
