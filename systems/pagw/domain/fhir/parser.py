"""Parser of request bodies: strict JSON, one FHIR R4 resource of the expected type, within limits.

It is the first check of a body. A refusal repeats nothing of the body, neither a value nor a name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from pagw.domain.fhir.outcomes import (
    BAD_REQUEST,
    TOO_LARGE,
    UNPROCESSABLE,
    UNSUPPORTED_TYPE,
    Code,
    FhirRefused,
    build_error,
)
from pagw.domain.fhir.urls import CONTENT_TYPE

MAX_BYTES: Final = 20 * 1024 * 1024
# Each resource takes time to check; an authorization has a few dozen.
MAX_ENTRIES: Final = 1000
# Fields and items of all objects and lists: they determine the time of a check, whatever the body's
# size. A large authorization has some thousands.
MAX_ELEMENTS: Final = 100_000
# Meaningful R4 resources need less than half of this.
MAX_DEPTH: Final = 64
MEDIA_TYPES: Final = frozenset({CONTENT_TYPE, "application/json", "text/json"})
R4_VERSIONS: Final = ("4.0", "4.0.1")

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_PROFILE_VERSION: Final = re.compile(r"^http://hl7\.org/fhir/(\d+\.\d+)/")
# Elements that show that a resource is of another version.
_R5_ELEMENTS: Final[Mapping[str, frozenset[str]]] = {
    "Bundle": frozenset({"issues"}),
    "Claim": frozenset({"traceNumber", "encounter", "diagnosisRelatedGroup", "event", "patientPaid"}),
    "ClaimResponse": frozenset({"traceNumber", "decision", "event", "encounter", "diagnosisRelatedGroup"}),
    "Coverage": frozenset({"kind", "paymentBy", "insurer", "insurancePlan"}),
    "Subscription": frozenset({"topic", "filterBy", "channelType"}),
}
_STU3_ELEMENTS: Final[Mapping[str, frozenset[str]]] = {
    "Claim": frozenset({"organization", "employmentImpacted", "hospitalization", "information"}),
    "ClaimResponse": frozenset({"requestProvider", "requestOrganization", "payeeType"}),
    "Coverage": frozenset({"grouping", "sequence"}),
    "DocumentReference": frozenset({"class", "indexed", "created"}),
}


def parse_bundle(body: bytes, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Parse a Bundle of at most `MAX_ENTRIES` entries. Raise `FhirRefused` for anything else."""
    bundle = parse_resource(body, "Bundle", max_bytes=max_bytes)
    entries = bundle.get("entry")
    if isinstance(entries, list) and len(entries) > MAX_ENTRIES:
        raise _build_refusal("too-long", f"The Bundle has more than {MAX_ENTRIES} entries.", TOO_LARGE)
    return bundle


def parse_resource(body: bytes, kind: str, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Parse a resource of type `kind` within the limits of size, depth and elements. Raise `FhirRefused` for
    anything else.
    """
    if len(body) > max_bytes:
        raise _build_refusal("too-long", f"The body is larger than {max_bytes} bytes.", TOO_LARGE)
    resource = _parse_json(body)
    if not isinstance(resource, dict):
        raise _build_refusal("structure", "The body is not a JSON object.", BAD_REQUEST)
    _refuse_oversized(resource)
    if resource.get("resourceType") != kind:
        raise _build_refusal("invalid", f"Invalid resourceType: expected {kind}.")
    if (version := _find_other_version(resource)) is not None:
        raise _build_refusal(
            "not-supported", f"The {kind} is FHIR {version}. This endpoint supports only FHIR R4 (4.0.1)."
        )
    return resource


def check_media_type(header: str | None) -> None:
    """Raise `FhirRefused` (415) for a Content-Type that is not JSON or that names another version of FHIR."""
    media, *parameters = [part.strip() for part in (header or "").lower().split(";")]
    if media not in MEDIA_TYPES:
        wrong = f"Invalid Content-Type: expected {CONTENT_TYPE}. Send the resource as JSON."
        raise _build_refusal("not-supported", wrong, UNSUPPORTED_TYPE)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "fhirversion" and value.strip().strip('"') not in R4_VERSIONS:
            wrong = (
                "The Content-Type names another version of FHIR. This endpoint supports only FHIR R4 (4.0.1)."
            )
            raise _build_refusal("not-supported", wrong, UNSUPPORTED_TYPE)


def _build_refusal(code: Code, diagnostics: str, status: int = UNPROCESSABLE) -> FhirRefused:
    return FhirRefused([build_error(code, diagnostics)], status)


def _parse_json(body: bytes) -> Any:
    """Parse strict JSON: UTF-8, no duplicate fields, no NaN, no unpaired surrogates. Raise `FhirRefused`."""
    try:
        text = body.decode("utf-8")
        read = json.loads(
            text,
            object_pairs_hook=_refuse_duplicate_names,
            parse_constant=_refuse_constant,
            parse_float=_parse_finite_float,
        )
    except UnicodeDecodeError:
        raise _build_refusal("structure", "The body is not UTF-8.", BAD_REQUEST) from None
    except json.JSONDecodeError as broken:
        where = f"line {broken.lineno}, column {broken.colno}"
        raise _build_refusal(
            "structure", f"The body is not JSON: syntax error at {where}.", BAD_REQUEST
        ) from None
    except RecursionError:
        wrong = f"The body is nested deeper than {MAX_DEPTH} levels."
        raise _build_refusal("structure", wrong, BAD_REQUEST) from None
    except ValueError:
        # Python refuses to parse integers with thousands of digits.
        raise _build_refusal(
            "value", "The body contains a number with too many digits.", BAD_REQUEST
        ) from None
    if ("\\u" in text or "\\U" in text) and _has_invalid_text(read):
        wrong = "The body contains a NUL character or an unpaired surrogate. Send valid Unicode text."
        raise _build_refusal("value", wrong, BAD_REQUEST)
    return read


def _refuse_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields as a dict. Raise `FhirRefused` if a name occurs twice."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _build_refusal("structure", "An object in the body has the same field twice.", BAD_REQUEST)
    return fields


def _refuse_constant(_: str) -> Any:
    """Raise `FhirRefused` for NaN and Infinity."""
    raise _build_refusal(
        "value", "The body contains NaN or Infinity, which JSON does not allow.", BAD_REQUEST
    )


def _parse_finite_float(text: str) -> float:
    """Parse a number. Raise `FhirRefused` if it is too large for a float."""
    value = float(text)
    if math.isinf(value):
        raise _build_refusal("value", "The body contains a number that is too large.", BAD_REQUEST)
    return value


def _has_invalid_text(value: Any) -> bool:
    """Return whether a text anywhere in the value has a NUL character or an unpaired surrogate."""
    if isinstance(value, str):
        return "\x00" in value or _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(_has_invalid_text(each) for pair in value.items() for each in pair)
    return isinstance(value, list) and any(map(_has_invalid_text, value))


def _refuse_oversized(value: dict[str, Any]) -> None:
    """Raise `FhirRefused` for a body that is too deep or has too many elements.

    Going level by level takes a third of the time of going down each branch.
    """
    level: list[Any] = [value]
    elements = 0
    for _ in range(MAX_DEPTH):
        elements += sum(map(len, level))
        if elements > MAX_ELEMENTS:
            raise _build_refusal("too-long", f"The body has more than {MAX_ELEMENTS} elements.", TOO_LARGE)
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise _build_refusal("structure", f"The body is nested deeper than {MAX_DEPTH} levels.", BAD_REQUEST)


def _find_other_version(resource: Mapping[str, Any]) -> str | None:
    """Return the FHIR version that a resource declares or shows by its elements, or None for R4."""
    entries = resource.get("entry")
    within = (
        [entry.get("resource") for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )
    for each in [resource, *within]:
        if (
            isinstance(each, dict)
            and (version := _get_declared_version(each) or _detect_version(each)) is not None
        ):
            return version
    return None


def _get_declared_version(resource: Mapping[str, Any]) -> str | None:
    """Return the version that a resource declares if that is not R4, or None."""
    meta = resource.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    for version in (resource.get("fhirVersion"), meta.get("fhirVersion")):
        if isinstance(version, str) and version not in R4_VERSIONS:
            return "in another version than R4"
    profiles = meta.get("profile")
    for profile in profiles if isinstance(profiles, list) else []:
        match = _PROFILE_VERSION.match(profile) if isinstance(profile, str) else None
        if match is not None and match[1] not in R4_VERSIONS:
            return match[1]
    return None


def _detect_version(resource: Mapping[str, Any]) -> str | None:
    """Return R5 or STU3 if the resource has an element that only this version defines, or None."""
    kind = resource.get("resourceType")
    if not isinstance(kind, str):
        return None
    if not _R5_ELEMENTS.get(kind, frozenset()).isdisjoint(resource):
        return "R5"
    return "STU3" if not _STU3_ELEMENTS.get(kind, frozenset()).isdisjoint(resource) else None
