"""What a payer wants to be told, and how its answer is read: one format per payer, chosen by its configuration.

The converter stage makes the payer's bytes of an enriched request, the response builder reads the decision out of the
payer's. `JsonFormat` is our own small schema (`messages.py`). X12 278 has its place here and is not built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, Protocol

from pydantic import ValidationError

from holdfast.errors import InvalidRequest, PartyFailed, SettingsError
from pagw.fhir.decisions import Decision
from pagw.payers.config import FormatName, PayerConfig
from pagw.payers.messages import SCHEMA, AnswerTold, RequestTold, faults_of

ZIP_PLUS_4: Final = re.compile(r"([0-9]{5})-([0-9]{4})")
POSTAL_CODE: Final = "postalCode"


class PayerFormat(Protocol):
    """The port: pure, so that the same request always gives the same bytes."""

    content_type: str

    def converted(self, enriched: Mapping[str, Any]) -> bytes:
        """The payer's bytes. What cannot be converted is InvalidRequest, with the member and without its value."""
        ...

    def decision(self, answer: bytes) -> Decision:
        """What the payer decided, out of its answer or its callback. Nonsense is PartyFailed."""
        ...


def format_of(config: PayerConfig) -> PayerFormat:
    return FORMATS[config.format]


def is_built(name: str) -> bool:
    """Whether a payer of this format can be asked. What cannot is refused where it comes in."""
    return any(each == name and not isinstance(made, X12Format) for each, made in FORMATS.items())


class JsonFormat:
    """An enriched request has the members of `RequestTold`; those of the claim may stand in a `claim` of its own.

    Attachments come with their hashes from the stage that kept them, and not from the claim, which only points at them.
    """

    content_type = "application/json"

    def converted(self, enriched: Mapping[str, Any]) -> bytes:
        claim = enriched.get("claim")
        members = {**(claim if isinstance(claim, Mapping) else {}), "attachments": (), **enriched}
        try:
            told = RequestTold.model_validate(members)
        except ValidationError as error:
            raise InvalidRequest(
                f"The enriched request cannot be told to a payer: {faults_of(error)}."
            ) from None
        message = {"schema": SCHEMA, **told.model_dump(mode="json", exclude_none=True, exclude={"bundle"})}
        message["bundle"] = without_zip_dashes(told.bundle)
        return json.dumps(message, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def decision(self, answer: bytes) -> Decision:
        try:
            return AnswerTold.model_validate_json(answer).decision
        except ValidationError as error:
            raise PartyFailed(f"The payer answers nonsense: {faults_of(error)}.", may_be_done=True) from None


class X12Format:
    """X12 278 (005010X217). Every call says why it is not built and what to do instead."""

    content_type = "application/edi-x12"

    def converted(self, enriched: Mapping[str, Any]) -> bytes:
        _not_built()

    def decision(self, answer: bytes) -> Decision:
        _not_built()


FORMATS: Final[Mapping[FormatName, PayerFormat]] = {
    FormatName.json: JsonFormat(),
    FormatName.x12_278: X12Format(),
}


def without_zip_dashes(value: Any) -> Any:
    """A copy in which ZIP+4 codes have no dash: X12 has none, and payers read codes as X12 does (PAS)."""
    if isinstance(value, Mapping):
        return {
            name: _zip(each) if name == POSTAL_CODE else without_zip_dashes(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_zip_dashes(each) for each in value]
    return value


def _zip(value: Any) -> Any:
    found = ZIP_PLUS_4.fullmatch(value) if isinstance(value, str) else None
    return found[1] + found[2] if found else value


def _not_built() -> NoReturn:
    raise SettingsError(
        "X12 278 is not built: its guide (005010X217) is sold by X12 and not public. Set the payer's format to "
        '"json", or put a clearing house that takes JSON or FHIR between, and name its address as api_endpoint.'
    )
