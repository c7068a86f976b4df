"""Checks of PAS Bundles (requests, inquiries, responses) that return all issues, not only the first.

Each check returns issues; the caller refuses if one is an error (`outcomes.refuse_errors`). First come the
checks compiled from the guide's profiles (`pagw.domain.profiles`), then the rules that the guide has only as
text. Those on content run only if the profiles are met, because they rely on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pagw.domain.fhir.outcomes import Issue, select_errors
from pagw.domain.fhir.references import Graph
from pagw.domain.fhir.rules.bundle_rules import (
    check_duplicates,
    check_envelope,
    check_full_urls,
    check_reachability,
)
from pagw.domain.fhir.rules.claim_rules import check_claim
from pagw.domain.fhir.rules.response_rules import check_claim_response, check_echo
from pagw.domain.fhir.rules.update_rules import check_update
from pagw.domain.fhir.urls import INQUIRY_BUNDLE, INQUIRY_RESPONSE_BUNDLE, REQUEST_BUNDLE, RESPONSE_BUNDLE
from pagw.domain.profiles import (
    LATEST,
    GuideVersion,
    Operation,
    check,
    find_declared_operation,
    is_resource_type,
)

# With more entries, profiles are checked only if nothing else is wrong: that check costs the most.
FULL_CHECK_ENTRIES: Final = 100
_PROFILES: Final[Mapping[Operation, str]] = {
    "submit": REQUEST_BUNDLE,
    "inquire": INQUIRY_BUNDLE,
    "response": RESPONSE_BUNDLE,
    "inquiry-response": INQUIRY_RESPONSE_BUNDLE,
}
_RESOURCE: Final = re.compile(r"\bBundle\.entry\[(\d+)\]\.resource\b(?!\.ofType)")


def check_bundle(
    bundle: Mapping[str, Any],
    operation: Operation,
    version: GuideVersion = LATEST,
    *,
    quotes_names: bool = False,
) -> list[Issue]:
    """Return the errors and warnings of a Bundle for an operation by a version of the guide.

    The Bundle is valid if no issue is an error. `quotes_names` lets issues name unknown elements, which are
    the client's text.
    """
    graph = Graph.from_bundle(bundle)
    envelope = _check_envelope(bundle, graph, operation)
    if len(graph.entries) > FULL_CHECK_ENTRIES and select_errors(envelope):
        return envelope
    issues = check(bundle, version, operation, quotes_names=quotes_names)
    issues += _select_new(envelope, issues)
    if not select_errors(issues):
        issues += _check_content(graph, operation, version)
    return [_name_type(each, graph) for each in issues]


def check_request(bundle: Mapping[str, Any], version: GuideVersion = LATEST) -> list[Issue]:
    """Return the errors and warnings of a `$submit` Bundle: a new request, an update or a cancellation."""
    return check_bundle(bundle, "submit", version)


def check_inquiry(bundle: Mapping[str, Any], version: GuideVersion = LATEST) -> list[Issue]:
    """Return the errors and warnings of an `$inquire` Bundle, whose Claim is the example of a search."""
    return check_bundle(bundle, "inquire", version)


def check_response(
    bundle: Mapping[str, Any],
    request: Mapping[str, Any] | None = None,
    version: GuideVersion = LATEST,
) -> list[Issue]:
    """Return the errors and warnings of a response Bundle. With the request's Bundle, check also that the
    response repeats it faithfully.
    """
    operation = find_declared_operation(bundle)
    issues = check_bundle(bundle, operation if operation == "inquiry-response" else "response", version)
    graph = Graph.from_bundle(bundle)
    answer = graph.get_first()
    if request is not None and answer is not None and not select_errors(issues):
        found = check_echo(graph, answer, Graph.from_bundle(request))
        issues += [_name_type(each, graph) for each in found]
    return issues


def _check_envelope(bundle: Mapping[str, Any], graph: Graph, operation: Operation) -> list[Issue]:
    """Check what the guide says of every Bundle in its text."""
    first = "Claim" if operation in {"submit", "inquire"} else "ClaimResponse"
    return [
        *check_envelope(bundle, graph, first=first, profile=_PROFILES[operation]),
        *check_full_urls(graph),
        *check_duplicates(graph),
    ]


def _check_content(graph: Graph, operation: Operation, version: GuideVersion) -> list[Issue]:
    """Check the Claim or the ClaimResponse of a Bundle that meets the profiles."""
    first = graph.get_first()
    if first is None:
        return []
    if operation in {"response", "inquiry-response"}:
        return list(check_claim_response(first))
    issues = [*check_reachability(graph), *check_claim(graph, first, inquiry=operation == "inquire")]
    return issues if operation == "inquire" else [*issues, *check_update(graph, first, version)]


def _select_new(issues: Iterable[Issue], known: Iterable[Issue]) -> list[Issue]:
    """Return the issues about elements that no known error is about."""
    paths = {str(each.expression) for each in known if each.is_error}
    return [
        each
        for each in issues
        if paths.isdisjoint({str(each.expression), str(each.expression).removesuffix("[0]")})
    ]


def _name_type(issue: Issue, graph: Graph) -> Issue:
    """Return the issue with the type of the resource in its path, as the profiles' checks have it."""
    match = _RESOURCE.match(issue.expression or "")
    entry = next((each for each in graph.entries if match and each.index == int(match[1])), None)
    if match is None or entry is None or not is_resource_type(entry.kind):
        return issue
    path = f"{match[0]}.ofType({entry.kind})"
    return replace(
        issue,
        diagnostics=_RESOURCE.sub(path, issue.diagnostics, count=1),
        expression=_RESOURCE.sub(path, str(issue.expression)),
    )
