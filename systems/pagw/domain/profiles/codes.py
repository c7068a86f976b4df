"""Check coded values against the value sets of their bindings."""

from __future__ import annotations

from typing import Any

from pagw.domain.profiles.findings import At, Findings
from pagw.domain.profiles.tables import ValueSet

Binding = tuple[str, str, ValueSet]


def check_binding(value: Any, type: str, binding: Binding, at: At, findings: Findings) -> None:
    """Report a code outside of its value set: an error if the binding is required, else a warning."""
    strength, url, value_set = binding
    if type == "CodeableConcept":
        codings = value.get("coding")
        codings = [each for each in codings if isinstance(each, dict)] if isinstance(codings, list) else []
        _check_concept(codings, binding, at, findings)
        return
    code, system = (value, None) if type == "code" else (value.get("code"), value.get("system"))
    allowed = value_set.allows(code, system)
    if code is None or allowed:
        return
    if allowed is None:
        if strength == "required":
            _report_unchecked(url, at, findings)
    else:
        _report_code(strength, url, at, findings)


def _check_concept(codings: list[Any], binding: Binding, at: At, findings: Findings) -> None:
    """Check that one coding of a concept belongs to the value set."""
    strength, url, value_set = binding
    allowed = [value_set.allows(each.get("code"), each.get("system")) for each in codings]
    if any(allowed):
        return
    if None in allowed or (value_set.open and not codings):
        if strength == "required" and codings:
            _report_unchecked(url, at, findings)
    elif codings or strength == "required":
        _report_code(strength, url, at, findings)


def _report_unchecked(url: str, at: At, findings: Findings) -> None:
    # Media types and languages are public lists that R4 only refers to; a warning on each would say nothing.
    if not url.startswith("http://hl7.org/fhir/ValueSet/"):
        findings.add_unchecked_code(at, url)


def _report_code(strength: str, url: str, at: At, findings: Findings) -> None:
    if strength == "required":
        findings.add_error("code-invalid", at, f"expected a code of value set {url}")
    else:
        findings.add_warning("code-invalid", at, f"expected a code of value set {url}, if one fits")
