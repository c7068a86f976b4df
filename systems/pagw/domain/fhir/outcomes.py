"""Issues and the OperationOutcome that reports them.

An issue says where and what is wrong. It never repeats the request, which holds patient data: outcomes are
logged, stored and sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from holdfast.core.errors import RequestError

Severity = Literal["fatal", "error", "warning", "information"]
Code = Literal[
    "invalid",
    "structure",
    "required",
    "value",
    "code-invalid",
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
CODES: Final[frozenset[str]] = frozenset(get_args(Code))
# A mistake repeated in a thousand items would fill the response.
MAX_ISSUES: Final = 50

BAD_REQUEST: Final = 400
TOO_LARGE: Final = 413
UNSUPPORTED_TYPE: Final = 415
UNPROCESSABLE: Final = 422


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem: `code` is from FHIR's issue types, `expression` is the path of the element.

    `further` are the paths of other elements with the same problem.
    """

    severity: Severity
    code: Code
    diagnostics: str
    expression: str | None = None
    further: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        """Return whether the issue is an error or fatal."""
        return self.severity in {"fatal", "error"}

    def to_json(self) -> dict[str, Any]:
        """Return the issue as an element of an OperationOutcome."""
        issue: dict[str, Any] = {
            "severity": self.severity,
            "code": self.code,
            "diagnostics": self.diagnostics,
        }
        if self.expression is not None:
            issue["expression"] = [self.expression, *self.further]
        return issue


class FhirRefused(RequestError, label="FhirRefused"):
    """A body that the gateway refuses. `issues` says why, `status` is the HTTP status."""

    def __init__(self, issues: Sequence[Issue], status: int = UNPROCESSABLE) -> None:
        first = next((issue for issue in issues if issue.is_error), None)
        super().__init__(first.diagnostics if first is not None else "The resource was refused.")
        self.issues, self.status = tuple(issues), status

    def to_outcome(self) -> dict[str, Any]:
        """Return the OperationOutcome of the issues."""
        return build_outcome(self.issues)


def build_error(code: Code, diagnostics: str, expression: str | None = None) -> Issue:
    """Build an issue of severity `error`."""
    return Issue("error", code, diagnostics, expression)


def build_warning(code: Code, diagnostics: str, expression: str | None = None) -> Issue:
    """Build an issue of severity `warning`."""
    return Issue("warning", code, diagnostics, expression)


def select_errors(issues: Iterable[Issue]) -> list[Issue]:
    """Return the issues that are errors."""
    return [issue for issue in issues if issue.is_error]


def refuse_errors(issues: Sequence[Issue], status: int = UNPROCESSABLE) -> None:
    """Raise `FhirRefused` with all issues if at least one is an error."""
    if select_errors(issues):
        raise FhirRefused(issues, status)


def build_outcome(issues: Sequence[Issue]) -> dict[str, Any]:
    """Build an OperationOutcome, errors first. More than `MAX_ISSUES` issues are cut, and the outcome says
    so.
    """
    if not issues:
        issues = [Issue("information", "informational", "No issues found.")]
    ordered = sorted(issues, key=lambda issue: not issue.is_error)
    shown = ordered[:MAX_ISSUES]
    if len(ordered) > MAX_ISSUES:
        more = f"{len(ordered) - MAX_ISSUES} more issues are not shown. Fix these first."
        shown.append(Issue("information", "informational", more))
    return {"resourceType": "OperationOutcome", "issue": [issue.to_json() for issue in shown]}
