"""Checks compiled from the profiles of FHIR R4 and of the PAS guide, versions 2.0.1 and 2.2.1. Pure.

`check` is the entry. `tools/pas_profiles` compiles the guides into `tables/`; `rules` builds from these what
a check needs, `checker` walks over a resource, and `bundles` decides which profiles apply to each entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pagw.domain.fhir.outcomes import Issue
from pagw.domain.profiles.bundles import BundleChecker
from pagw.domain.profiles.findings import Findings
from pagw.domain.profiles.rules import Library
from pagw.domain.profiles.tables import LATEST, VERSIONS, GuideVersion

Operation = Literal["submit", "inquire", "response", "inquiry-response"]

_PROFILE: Final = "http://hl7.org/fhir/us/davinci-pas/StructureDefinition/profile-pas-"
_PROFILES: Final[Mapping[Operation, str]] = {
    "submit": f"{_PROFILE}request-bundle",
    "inquire": f"{_PROFILE}inquiry-request-bundle",
    "response": f"{_PROFILE}response-bundle",
    "inquiry-response": f"{_PROFILE}inquiry-response-bundle",
}

_COMMON_RESOURCES: Final = (
    "Claim Coverage DocumentReference Organization Patient Practitioner PractitionerRole ServiceRequest"
).split()


def check(
    bundle: Mapping[str, Any], version: GuideVersion, operation: Operation, *, quotes_names: bool = False
) -> list[Issue]:
    """Return the errors and warnings of a parsed Bundle by the profiles of a version.

    `quotes_names` lets issues name unknown elements, which are the client's text.
    """
    library = Library.load(version)
    profile = library.find(_PROFILES[operation])
    if profile is None:
        raise LookupError(f"The tables of {version} have no profile for {operation}. Compile them again.")
    findings = Findings()
    BundleChecker(library, bundle, findings, quotes_names=quotes_names).check(profile)
    return [
        Issue(each.severity, each.code, f"{first}: {each.text}.", first, tuple(further))
        for each in findings
        for first, *further in [each.expressions]
    ]


def find_version(bundle: Mapping[str, Any]) -> GuideVersion | None:
    """Return the version of the guide that the Bundle's `meta.profile` names after `|`, or None."""
    named = [each.rpartition("|")[2] for each in _get_profiles(bundle) if each.startswith(_PROFILE)]
    return next((version for version in VERSIONS if version in named), None)


def find_declared_operation(bundle: Mapping[str, Any]) -> Operation | None:
    """Return the operation whose Bundle `meta.profile` names, or None."""
    named = {each.partition("|")[0] for each in _get_profiles(bundle)}
    return next((operation for operation, profile in _PROFILES.items() if profile in named), None)


def _get_profiles(bundle: Mapping[str, Any]) -> list[str]:
    meta = bundle.get("meta")
    profiles = meta.get("profile") if isinstance(meta, dict) else None
    return [each for each in profiles if isinstance(each, str)] if isinstance(profiles, list) else []


def load_profiles() -> None:
    """Load the tables and the rules of common resources, so that the first request does not wait for them."""
    entries = [{"resource": {"resourceType": kind}} for kind in _COMMON_RESOURCES]
    for version in VERSIONS:
        check({"resourceType": "Bundle", "type": "collection", "entry": entries}, version, "submit")


def is_resource_type(name: str) -> bool:
    """Return whether R4 defines a resource type of this name."""
    return name in Library.load(LATEST).resource_types


__all__ = [
    "LATEST",
    "VERSIONS",
    "GuideVersion",
    "Operation",
    "check",
    "find_declared_operation",
    "find_version",
    "is_resource_type",
    "load_profiles",
]
