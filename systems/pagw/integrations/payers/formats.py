"""Message formats of payers: a request to the payer's bytes, and the payer's answer to a decision.

Each payer's configuration chooses its format. The converter stage builds the payer's bytes from an enriched
request; the response builder parses the decision from the payer's answer. `JsonFormat` is our own small
schema (`messages.py`), `PasFormat` is Da Vinci PAS (`pas_messages.py`). X12 278 is declared and not
supported: `PayerFormat` is the interface that it would implement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NoReturn, Protocol

from pydantic import ValidationError

from holdfast.core.errors import ExternalServiceFailed, InvalidRequest, SettingsError
from pagw.domain.fhir.claim_participants import iterate_identifiers
from pagw.domain.fhir.decisions import Decision
from pagw.domain.fhir.exact_json import dump_exact, parse_exact
from pagw.integrations.payers import pas_messages
from pagw.integrations.payers.client import PayerStatus
from pagw.integrations.payers.config import FormatName, PayerConfig
from pagw.integrations.payers.messages import SCHEMA, PayerAnswerBody, PayerRequestBody, format_faults

ZIP_PLUS_4: Final = re.compile(r"([0-9]{5})-([0-9]{4})")
POSTAL_CODE: Final = "postalCode"


@dataclass(frozen=True)
class PayerAnswer:
    """A payer's answer about one request, parsed.

    It has a decision or, if the payer could not process the request, the codes of its errors. `reference` is
    the pagwId that it names, None if it names none.
    """

    status: PayerStatus
    payer_reference: str
    reference: str | None
    decision: Decision | None
    error_codes: tuple[str, ...] = ()


class PayerFormat(Protocol):
    """A payer's format. Pure: the same request always gives the same bytes."""

    content_type: str
    # Whether the payer's answer is a PAS response Bundle, which the provider receives as it is.
    is_answer_passed_on: bool

    def convert(self, enriched: Mapping[str, Any]) -> bytes:
        """Return the payer's bytes. Raise `InvalidRequest` with the field, without its value, if that is
        impossible.
        """
        ...

    def parse_answer(self, answer: bytes) -> PayerAnswer:
        """Parse an answer or a callback. Raise `ExternalServiceFailed` if it is invalid."""
        ...

    def is_same_answer(self, answer: bytes, other: bytes) -> bool:
        """Return whether two valid answers say the same, whenever they were created."""
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
    is_answer_passed_on = False

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
        return json.dumps(
            message, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_to_float
        ).encode()

    def parse_answer(self, answer: bytes) -> PayerAnswer:
        """Parse an answer or a callback. Raise `ExternalServiceFailed` if it is invalid."""
        try:
            found = PayerAnswerBody.model_validate_json(answer)
        except ValidationError as error:
            raise ExternalServiceFailed(
                f"Invalid response from the payer: {format_faults(error)}.", may_be_done=True
            ) from None
        return PayerAnswer(found.status, found.payer_reference, found.reference, found.decision)

    def is_same_answer(self, answer: bytes, other: bytes) -> bool:
        """Return whether two answers have the same decision."""
        return _drop_time(self.parse_answer(answer)) == _drop_time(self.parse_answer(other))


class PasFormat:
    """Da Vinci PAS. The payer receives the provider's whole Bundle, and the provider the payer's."""

    content_type = "application/fhir+json"
    is_answer_passed_on = True

    def convert(self, enriched: Mapping[str, Any]) -> bytes:
        """Return the provider's Bundle with the gateway's trace number on each item, and nothing lost.

        ZIP+4 codes keep their dash: only X12 has none.
        """
        try:
            return dump_exact(pas_messages.build_pas_request(enriched["bundle"], enriched["reference"]))
        except (KeyError, IndexError, TypeError, ValueError):
            raise InvalidRequest("Invalid enriched request: its Bundle has no Claim.") from None

    def parse_answer(self, answer: bytes) -> PayerAnswer:
        """Parse a response Bundle. Raise `ExternalServiceFailed` if it is invalid."""
        try:
            bundle = parse_exact(answer)
            response = pas_messages.get_claim_response(bundle)
            is_error = response.get("outcome") == pas_messages.ERROR
            decision = None if is_error else pas_messages.parse_pas_decision(response)
            references = pas_messages.list_trace_references(bundle)
        except ValidationError as error:
            reason = format_faults(error)
            raise ExternalServiceFailed(f"Invalid PAS response: {reason}.", may_be_done=True) from None
        except (ValueError, AttributeError, TypeError) as error:
            reason = str(error) if type(error) is ValueError else "it is not a PAS response Bundle"
            raise ExternalServiceFailed(f"Invalid PAS response: {reason}.", may_be_done=True) from None
        return PayerAnswer(
            "pended" if decision is not None and not decision.outcome.is_final else "final",
            next((value for _, value in iterate_identifiers(response)), ""),
            references[0] if len(references) == 1 else None,
            decision,
            tuple(pas_messages.list_error_codes(response)) if is_error else (),
        )

    def is_same_answer(self, answer: bytes, other: bytes) -> bool:
        """Return whether two Bundles are equal, except for their own ids and times."""
        return _drop_envelope(parse_exact(answer)) == _drop_envelope(parse_exact(other))


class X12Format:
    """X12 278 (005010X217). Every call raises an error that says why it is not supported and what to do."""

    content_type = "application/edi-x12"
    is_answer_passed_on = False

    def convert(self, enriched: Mapping[str, Any]) -> bytes:
        _raise_unsupported()

    def parse_answer(self, answer: bytes) -> PayerAnswer:
        _raise_unsupported()

    def is_same_answer(self, answer: bytes, other: bytes) -> bool:
        _raise_unsupported()


FORMATS: Final[Mapping[FormatName, PayerFormat]] = {
    FormatName.json: JsonFormat(),
    FormatName.fhir_pas: PasFormat(),
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


def _drop_time(answer: PayerAnswer) -> Decision | None:
    """Return the decision of an answer without its time."""
    return None if answer.decision is None else answer.decision.model_copy(update={"decided_at": None})


def _drop_envelope(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return a response Bundle without its id, its times and those of its ClaimResponse."""
    first, *others = bundle["entry"]
    names = ("id", "meta", "created")
    response = {name: each for name, each in first["resource"].items() if name not in names}
    own = ("id", "meta", "timestamp", "identifier")
    kept = {name: each for name, each in bundle.items() if name not in own}
    return {**kept, "entry": [response, *others]}


def _to_float(value: Any) -> float:
    """Return a decimal as a number of JSON, for `json.dumps`."""
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _raise_unsupported() -> NoReturn:
    """Raise the `SettingsError` that says why X12 is not supported."""
    raise SettingsError(
        "X12 278 is not supported, because X12 sells its guide (005010X217) and does not publish it. Set the "
        'payer\'s format to "fhir-pas" or "json", or set api_endpoint to a clearing house that accepts one.'
    )
