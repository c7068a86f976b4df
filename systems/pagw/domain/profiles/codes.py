"""Check coded values against the value sets of required bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pagw.domain.profiles.findings import At, Findings
from pagw.domain.profiles.tables import ValueSet

Binding = tuple[str, ValueSet]

# Media types and languages are public lists that R4 only refers to; a warning on each would say nothing.
_SILENT: Final = "http://hl7.org/fhir/ValueSet/"


def check_binding(value: Any, type: str, binding: Binding, at: At, findings: Findings) -> None:
    """Report a value without a code of its value set; of a concept, one coding must have one."""
    url, value_set = binding
    allowed = [value_set.allows(code, system) for code, system in _get_codes(value, type)]
    if any(allowed):
        return
    if None in allowed:
        if not url.startswith(_SILENT):
            findings.add_unchecked_code(at, url)
    elif allowed or not value_set.open:
        findings.add_error("code-invalid", at, f"expected a code of value set {url}")


def _get_codes(value: Any, type: str) -> Sequence[tuple[Any, Any]]:
    """Return code and system of each coding that has a code."""
    if type == "code":
        return [(value, None)]
    codings = value.get("coding") if type == "CodeableConcept" else [value]
    found = [each for each in codings if isinstance(each, dict)] if isinstance(codings, list) else []
    return [(each["code"], each.get("system")) for each in found if "code" in each]
