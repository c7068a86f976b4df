"""Texts that are sent or suggested, as data: `templates.json`. A reply goes to the customer, a note to the agent alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, Final, Literal, cast

from holdfast.errors import DeclarationError, NotFound

FILE: Final = "templates.json"
Addressee = Literal["reply", "note"]


@dataclass(frozen=True)
class Text:
    name: str
    kind: Addressee
    text: str

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(Template(self.text).get_identifiers())

    def could_say(self, text: str) -> bool:
        anything = Template(re.escape(self.text).replace(r"\$", "$")).substitute(
            dict.fromkeys(self.fields, ".*")
        )
        return (
            re.fullmatch(r"\s+".join(anything.replace(r"\ ", " ").split()), text.strip(), re.DOTALL)
            is not None
        )

    def filled(self, **values: str) -> str:
        """With its fields filled in; one too few or too many is a mistake of ours."""
        if values.keys() != self.fields:
            raise DeclarationError(
                f"The template {self.name} has the fields {sorted(self.fields)}, and was given {sorted(values)}: "
                "give each of them and no other."
            )
        return Template(self.text).substitute(values).strip()


def is_ours(text: str) -> bool:
    """Whether it is one of our replies, whatever its fields were filled with."""
    return any(each.kind == "reply" and each.could_say(text) for each in templates().values())


def template(name: str) -> Text:
    if name not in templates():
        raise NotFound(f"There is no template {name!r}: {', '.join(sorted(templates()))} are in {FILE}.")
    return templates()[name]


@cache
def templates() -> dict[str, Text]:
    found: dict[str, dict[str, Any]] = json.loads(files("richpanel").joinpath(FILE).read_text("utf-8"))
    return {name: Text(name, cast(Addressee, each["kind"]), each["text"]) for name, each in found.items()}
