"""From bytes to a resource: strict JSON, one object, of the kind that was expected, of FHIR R4. The first gate.

Nothing of the body is repeated in a refusal, neither a value nor the name of a member.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from pagw.fhir.outcomes import (
    BAD_REQUEST,
    TOO_LARGE,
    UNPROCESSABLE,
    UNSUPPORTED_TYPE,
    Code,
    FhirRefused,
    error,
)
from pagw.fhir.urls import CONTENT_TYPE

BYTES_MAX: Final = 20 * 1024 * 1024
# Each resource costs time to judge; an authorization has a few dozen.
ENTRIES_MAX: Final = 1000
# Members and items of all objects and lists: what there is to look at, whatever its bytes are. A large authorization has
# some thousands.
ELEMENTS_MAX: Final = 100_000
# The deepest resource of R4 that makes sense stays well under half of this.
DEPTH_MAX: Final = 64
MEDIA_TYPES: Final = frozenset({CONTENT_TYPE, "application/json", "text/json"})
R4: Final = ("4.0", "4.0.1")

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_PROFILE_VERSION: Final = re.compile(r"^http://hl7\.org/fhir/(\d+\.\d+)/")
# Elements by which a Claim, a ClaimResponse or a Bundle of another version is known.
_OF_R5: Final[Mapping[str, frozenset[str]]] = {
    "Bundle": frozenset({"issues"}),
    "Claim": frozenset({"traceNumber", "encounter", "diagnosisRelatedGroup", "event", "patientPaid"}),
    "ClaimResponse": frozenset({"traceNumber", "decision", "event", "encounter", "diagnosisRelatedGroup"}),
    "Coverage": frozenset({"kind", "paymentBy", "insurer", "insurancePlan"}),
    "Subscription": frozenset({"topic", "filterBy", "channelType"}),
}
_OF_STU3: Final[Mapping[str, frozenset[str]]] = {
    "Claim": frozenset({"organization", "employmentImpacted", "hospitalization", "information"}),
    "ClaimResponse": frozenset({"requestProvider", "requestOrganization", "payeeType"}),
    "Coverage": frozenset({"grouping", "sequence"}),
    "DocumentReference": frozenset({"class", "indexed", "created"}),
}


def read_bundle(body: bytes, *, bytes_max: int = BYTES_MAX) -> dict[str, Any]:
    """The Bundle that `body` is; raises `FhirRefused` for anything else."""
    bundle = read_resource(body, "Bundle", bytes_max=bytes_max)
    entries = bundle.get("entry")
    if isinstance(entries, list) and len(entries) > ENTRIES_MAX:
        raise _refused("too-long", f"The Bundle has more than {ENTRIES_MAX} entries.", TOO_LARGE)
    return bundle


def read_resource(body: bytes, kind: str, *, bytes_max: int = BYTES_MAX) -> dict[str, Any]:
    """The resource of this kind that `body` is; raises `FhirRefused` for anything else."""
    if len(body) > bytes_max:
        raise _refused("too-long", f"The body is larger than {bytes_max} bytes.", TOO_LARGE)
    resource = _parsed(body)
    if not isinstance(resource, dict):
        raise _refused("structure", "The body is not a JSON object.", BAD_REQUEST)
    _refuse_vast(resource)
    if resource.get("resourceType") != kind:
        raise _refused("invalid", f"The body is not a {kind}: its resourceType says otherwise, or nothing.")
    if (version := _other_version(resource)) is not None:
        raise _refused(
            "not-supported", f"The {kind} is of FHIR {version}. This endpoint speaks FHIR R4 (4.0.1) alone."
        )
    return resource


def check_media_type(header: str | None) -> None:
    """Refuses a Content-Type that is no JSON, or that names another version of FHIR."""
    media, *parameters = [part.strip() for part in (header or "").lower().split(";")]
    if media not in MEDIA_TYPES:
        wrong = f"The Content-Type is not {CONTENT_TYPE}. A PAS Bundle is sent as JSON."
        raise _refused("not-supported", wrong, UNSUPPORTED_TYPE)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "fhirversion" and value.strip().strip('"') not in R4:
            wrong = (
                "The Content-Type names another version of FHIR. This endpoint speaks FHIR R4 (4.0.1) alone."
            )
            raise _refused("not-supported", wrong, UNSUPPORTED_TYPE)


def _refused(code: Code, diagnostics: str, status: int = UNPROCESSABLE) -> FhirRefused:
    return FhirRefused([error(code, diagnostics)], status)


def _parsed(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
        read = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError:
        raise _refused("structure", "The body is not UTF-8.", BAD_REQUEST) from None
    except json.JSONDecodeError as broken:
        where = f"line {broken.lineno}, column {broken.colno}"
        raise _refused("structure", f"The body is not JSON: it breaks at {where}.", BAD_REQUEST) from None
    except RecursionError:
        wrong = f"The body is nested deeper than {DEPTH_MAX} levels."
        raise _refused("structure", wrong, BAD_REQUEST) from None
    except ValueError:
        # An integer of thousands of digits, which Python declines to read.
        raise _refused("value", "The body holds a number that is too long to be one.", BAD_REQUEST) from None
    if ("\\u" in text or "\\U" in text) and _has_broken_text(read):
        wrong = "The body holds a NUL or half of a surrogate pair, which is no text."
        raise _refused("value", wrong, BAD_REQUEST)
    return read


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _refused("structure", "An object of the body names a member twice.", BAD_REQUEST)
    return made


def _no_constant(_: str) -> Any:
    raise _refused("value", "The body holds NaN or Infinity, which JSON does not know.", BAD_REQUEST)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _refused("value", "The body holds a number that is too large to be kept.", BAD_REQUEST)
    return value


def _has_broken_text(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value or _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(_has_broken_text(each) for pair in value.items() for each in pair)
    return isinstance(value, list) and any(map(_has_broken_text, value))


def _refuse_vast(value: dict[str, Any]) -> None:
    """Too deep, or too much. Level by level, which takes a third of the time that going down each branch takes."""
    level: list[Any] = [value]
    elements = 0
    for _ in range(DEPTH_MAX):
        elements += sum(map(len, level))
        if elements > ELEMENTS_MAX:
            raise _refused("too-long", f"The body has more than {ELEMENTS_MAX} elements.", TOO_LARGE)
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise _refused("structure", f"The body is nested deeper than {DEPTH_MAX} levels.", BAD_REQUEST)


def _other_version(resource: Mapping[str, Any]) -> str | None:
    """The version the resource says it is of, or shows by its elements, where that is not R4."""
    entries = resource.get("entry")
    within = (
        [entry.get("resource") for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )
    for each in [resource, *within]:
        if isinstance(each, dict) and (version := _said_version(each) or _shown_version(each)) is not None:
            return version
    return None


def _said_version(resource: Mapping[str, Any]) -> str | None:
    meta = resource.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    for said in (resource.get("fhirVersion"), meta.get("fhirVersion")):
        if isinstance(said, str) and said not in R4:
            return "another version than R4"
    profiles = meta.get("profile")
    for profile in profiles if isinstance(profiles, list) else []:
        match = _PROFILE_VERSION.match(profile) if isinstance(profile, str) else None
        if match is not None and match[1] not in R4:
            return match[1]
    return None


def _shown_version(resource: Mapping[str, Any]) -> str | None:
    kind = resource.get("resourceType")
    if not isinstance(kind, str):
        return None
    if not _OF_R5.get(kind, frozenset()).isdisjoint(resource):
        return "R5"
    return "STU3" if not _OF_STU3.get(kind, frozenset()).isdisjoint(resource) else None
