"""Message formats of payers: a request to the payer's bytes, and the payer's answer to a decision.

Each payer's configuration chooses its format. The converter stage builds the payer's bytes from an enriched
request; the response builder parses the decision from the payer's answer. `JsonFormat` is our own small
schema (`messages.py`). X12 278 is declared and not supported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, Protocol

from pydantic import ValidationError

from holdfast.core.errors import ExternalServiceFailed, InvalidRequest, SettingsError
from pagw.domain.fhir.decisions import Decision
from pagw.integrations.payers.config import FormatName, PayerConfig
from pagw.integrations.payers.messages import SCHEMA, PayerAnswerBody, PayerRequestBody, format_faults

ZIP_PLUS_4: Final = re.compile(r"([0-9]{5})-([0-9]{4})")
POSTAL_CODE: Final = "postalCode"


class PayerFormat(Protocol):
    """A payer's format. Pure: the same request always gives the same bytes."""

    content_type: str

    def convert(self, enriched: Mapping[str, Any]) -> bytes:
        """Return the payer's bytes. Raise `InvalidRequest` with the field, without its value, if that is
        impossible.
        """
        ...

    def parse_decision(self, answer: bytes) -> Decision:
        """Parse the decision from an answer or a callback. Raise `ExternalServiceFailed` if it is invalid."""
        ...


def get_format(config: PayerConfig) -> PayerFormat:
    """Return the payer's format."""
    return FORMATS[config.format]


def is_supported(name: str) -> bool:
    """Return whether the gateway supports a format. Intake refuses requests for other payers."""
    return any(each == name and not isinstance(format, X12Format) for each, format in FORMATS.items())


class JsonFormat:
    """Our JSON schema. An enriched request has the fields of `PayerRequestBody`; the claim's may be in a
    `claim` object.

    Attachments come with their hashes from the attachment handler, not from the claim, which only points at
    them.
    """

    content_type = "application/json"

    def convert(self, enriched: Mapping[str, Any]) -> bytes:
        """Return the request as JSON, with ZIP+4 codes without dashes. Raise `InvalidRequest` for a missing
        field.
        """
        claim = enriched.get("claim")
        members = {**(claim if isinstance(claim, Mapping) else {}), "attachments": (), **enriched}
        try:
            request = PayerRequestBody.model_validate(members)
        except ValidationError as error:
            raise InvalidRequest(f"Invalid enriched request: {format_faults(error)}.") from None
        message = {"schema": SCHEMA, **request.model_dump(mode="json", exclude_none=True, exclude={"bundle"})}
        message["bundle"] = remove_zip_dashes(request.bundle)
        return json.dumps(message, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def parse_decision(self, answer: bytes) -> Decision:
        """Return the decision of an answer or a callback. Raise `ExternalServiceFailed` if it is invalid."""
        try:
            return PayerAnswerBody.model_validate_json(answer).decision
        except ValidationError as error:
            raise ExternalServiceFailed(
                f"Invalid response from the payer: {format_faults(error)}.", may_be_done=True
            ) from None


class X12Format:
    """X12 278 (005010X217). Every call raises an error that says why it is not supported and what to do."""

    content_type = "application/edi-x12"

    def convert(self, enriched: Mapping[str, Any]) -> bytes:
        _raise_unsupported()

    def parse_decision(self, answer: bytes) -> Decision:
        _raise_unsupported()


FORMATS: Final[Mapping[FormatName, PayerFormat]] = {
    FormatName.json: JsonFormat(),
    FormatName.x12_278: X12Format(),
}


def remove_zip_dashes(value: Any) -> Any:
    """Return a copy in which ZIP+4 codes have no dash, because payers read codes as in X12 (PAS)."""
    if isinstance(value, Mapping):
        return {
            name: _format_zip_code(each) if name == POSTAL_CODE else remove_zip_dashes(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [remove_zip_dashes(each) for each in value]
    return value


def _format_zip_code(value: Any) -> Any:
    """Return a ZIP+4 without its dash, and any other value unchanged."""
    found = ZIP_PLUS_4.fullmatch(value) if isinstance(value, str) else None
    return found[1] + found[2] if found else value


def _raise_unsupported() -> NoReturn:
    """Raise the `SettingsError` that says why X12 is not supported."""
    raise SettingsError(
        "X12 278 is not supported, because X12 sells its guide (005010X217) and does not publish it. Set the "
        'payer\'s format to "json", or set api_endpoint to a clearing house that accepts JSON or FHIR.'
    )
