"""The operator command that checks a Bundle without sending it: `holdfast pagw check FILE [--ig VERSION]`.

It makes the checks that `$submit` and `$inquire` make before they look at the registries, and the same of
responses. Nothing is stored or sent. The outcome names unknown elements: the file is the operator's own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from holdfast.core.errors import InvalidArgument
from holdfast.model.system import Command, Explanation
from pagw.domain.attachments import AttachmentRefused, extract_attachments
from pagw.domain.fhir.outcomes import FhirRefused, Issue, build_error, build_outcome, select_errors
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.references import Graph
from pagw.domain.fhir.rules.pas_rules import check_bundle
from pagw.domain.profiles import LATEST, GuideVersion, Operation, find_declared_operation, find_version
from pagw.settings import PagwSettings

STANDARD_INPUT: Final = "-"
_WORDS: Final[Mapping[Operation, str]] = {
    "submit": "a request for $submit",
    "inquire": "an inquiry for $inquire",
    "response": "a response to $submit",
    "inquiry-response": "a response to $inquire",
}


async def check(
    file: Annotated[str, "The file with the Bundle as JSON; - reads the standard input"],
    ig: Annotated[
        GuideVersion | None, "The version of the PAS guide; default: the one in meta.profile, or 2.2.1"
    ] = None,
) -> Any:
    """Check a Bundle without sending it; exit 1 if it has an error."""
    body = _read_file(file)
    try:
        bundle = parse_bundle(body, max_bytes=PagwSettings.load().bundle_bytes_max)
    except FhirRefused as refused:
        return _build_result(refused.issues, "")
    version = ig or find_version(bundle) or LATEST
    operation = _find_operation(bundle)
    issues = check_bundle(bundle, operation, version, quotes_names=True)
    if operation == "submit" and not select_errors(issues):
        issues += _check_attachments(bundle)
    source = "" if ig else " (from meta.profile)" if find_version(bundle) else " (the default)"
    return _build_result(issues, f"Checked as {_WORDS[operation]} of PAS {version}{source}.")


def _read_file(file: str) -> bytes:
    """Return the bytes of a file. Raise `InvalidArgument` if it cannot be read."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidArgument(f"Cannot read {file}: {reason}. Give the path of a JSON file, or -.") from error


def _find_operation(bundle: Mapping[str, Any]) -> Operation:
    """Return the operation that the Bundle is for: by its profile, else by its first entry."""
    if (declared := find_declared_operation(bundle)) is not None:
        return declared
    first = Graph.from_bundle(bundle).get_first()
    return "response" if first is not None and first.kind == "ClaimResponse" else "submit"


def _check_attachments(bundle: dict[str, Any]) -> list[Issue]:
    """Return the attachment that the gateway would refuse, if any."""
    try:
        extract_attachments(bundle)
    except AttachmentRefused as refused:
        code: Any = refused.code
        return [build_error(code, refused.message, refused.expression)]
    return []


def _build_result(issues: Sequence[Issue], how: str) -> Explanation:
    """Return the outcome, and the same in lines. `how` says by what the Bundle was checked."""
    errors, warnings = len(select_errors(issues)), sum(each.severity == "warning" for each in issues)
    lines = [_format_issue(each) for each in sorted(issues, key=lambda issue: not issue.is_error)]
    lines.append(f"{_count(errors, 'error')}, {_count(warnings, 'warning')}. {how}".rstrip())
    note = [Issue("information", "informational", how)] if how else []
    return Explanation(lines, build_outcome([*issues, *note]), exit_code=1 if errors else 0)


def _format_issue(issue: Issue) -> str:
    also = f" Also: {', '.join(issue.further)}." if issue.further else ""
    return f"{issue.severity}: {issue.diagnostics}{also}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


CHECK_COMMANDS: Final = {"check": Command(check, needs_stores=False)}
