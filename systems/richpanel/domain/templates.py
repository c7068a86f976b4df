"""Texts to send or suggest, from `templates.json`. A reply goes to the customer, a note to the agent only."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, Final, Literal, cast

from holdfast.core.errors import DeclarationError, NotFound

FILE: Final = "templates.json"
TemplateKind = Literal["reply", "note"]


@dataclass(frozen=True)
class MessageTemplate:
    """A template with `$fields`."""

    name: str
    kind: TemplateKind
    text: str

    @property
    def fields(self) -> frozenset[str]:
        """The names of the fields."""
        return frozenset(Template(self.text).get_identifiers())

    def matches(self, text: str) -> bool:
        """Return whether a text is this template with any values."""
        anything = Template(re.escape(self.text).replace(r"\$", "$")).substitute(
            dict.fromkeys(self.fields, ".*")
        )
        return (
            re.fullmatch(r"\s+".join(anything.replace(r"\ ", " ").split()), text.strip(), re.DOTALL)
            is not None
        )

    def fill(self, **values: str) -> str:
        """Return the text with its fields filled in. Raise `DeclarationError` if a field is missing or
        unknown.
        """
        if values.keys() != self.fields:
            raise DeclarationError(
                f"Invalid values for the template {self.name}: expected {sorted(self.fields)}, got "
                f"{sorted(values)}."
            )
        return Template(self.text).substitute(values).strip()


def is_own_reply(text: str) -> bool:
    """Return whether a text is one of the middleware's replies, with any values."""
    return any(each.kind == "reply" and each.matches(text) for each in load_templates().values())


def get_template(name: str) -> MessageTemplate:
    """Return a template by its name. Raise `NotFound` if there is none."""
    if name not in load_templates():
        raise NotFound(f"Unknown template {name!r}: {FILE} has {', '.join(sorted(load_templates()))}.")
    return load_templates()[name]


@cache
def load_templates() -> dict[str, MessageTemplate]:
    """Load all templates, by name."""
    found: dict[str, dict[str, Any]] = json.loads(files("richpanel").joinpath(FILE).read_text("utf-8"))
    return {
        name: MessageTemplate(name, cast(TemplateKind, each["kind"]), each["text"])
        for name, each in found.items()
    }
