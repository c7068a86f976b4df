"""Issues, and the one OperationOutcome that tells them: how everything FHIR is refused here.

An issue says where and what is wrong, never what was there: the text of a request is a patient's, and an outcome is
logged, stored and answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from holdfast.errors import RequestError

Severity = Literal["fatal", "error", "warning", "information"]
Code = Literal[
    "invalid",
    "structure",
    "required",
    "value",
    "invariant",
    "security",
    "login",
    "unknown",
    "expired",
    "forbidden",
    "processing",
    "not-supported",
    "duplicate",
    "not-found",
    "too-long",
    "business-rule",
    "conflict",
    "transient",
    "throttled",
    "timeout",
    "exception",
    "informational",
    "suppressed",
]
# One mistake made in each of a thousand items is told so many times.
ISSUES_MAX: Final = 50

BAD_REQUEST: Final = 400
TOO_LARGE: Final = 413
UNSUPPORTED_TYPE: Final = 415
UNPROCESSABLE: Final = 422


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong: `code` is of FHIR's list, `expression` the path of the element."""

    severity: Severity
    code: Code
    diagnostics: str
    expression: str | None = None

    @property
    def is_error(self) -> bool:
        return self.severity in {"fatal", "error"}

    def resource(self) -> dict[str, Any]:
        told: dict[str, Any] = {"severity": self.severity, "code": self.code, "diagnostics": self.diagnostics}
        if self.expression is not None:
            told["expression"] = [self.expression]
        return told


class FhirRefused(RequestError, label="FhirRefused"):
    """A body that cannot be processed. `issues` says why, `status` is the HTTP status that fits."""

    def __init__(self, issues: Sequence[Issue], status: int = UNPROCESSABLE) -> None:
        first = next((issue for issue in issues if issue.is_error), None)
        super().__init__(first.diagnostics if first is not None else "The resource was refused.")
        self.issues, self.status = tuple(issues), status

    def outcome(self) -> dict[str, Any]:
        return outcome(self.issues)


def error(code: Code, diagnostics: str, expression: str | None = None) -> Issue:
    return Issue("error", code, diagnostics, expression)


def warning(code: Code, diagnostics: str, expression: str | None = None) -> Issue:
    return Issue("warning", code, diagnostics, expression)


def errors(issues: Iterable[Issue]) -> list[Issue]:
    return [issue for issue in issues if issue.is_error]


def refuse_errors(issues: Sequence[Issue], status: int = UNPROCESSABLE) -> None:
    """Raises `FhirRefused` with all issues where at least one of them is an error."""
    if errors(issues):
        raise FhirRefused(issues, status)


def outcome(issues: Sequence[Issue]) -> dict[str, Any]:
    """One OperationOutcome, the errors first; a very long list is cut and says so."""
    if not issues:
        issues = [Issue("information", "informational", "There is nothing to report.")]
    ordered = sorted(issues, key=lambda issue: not issue.is_error)
    shown = ordered[:ISSUES_MAX]
    if len(ordered) > ISSUES_MAX:
        more = f"{len(ordered) - ISSUES_MAX} more issues are not shown. Mend these first."
        shown.append(Issue("information", "informational", more))
    return {"resourceType": "OperationOutcome", "issue": [issue.resource() for issue in shown]}
