"""Whether a Bundle is what PAS asks for: a request, an inquiry, an answer. Every rule is looked at, not the first alone.

Each gives issues; the caller refuses where one of them is an error (`outcomes.refuse_errors`). Rules of content are
looked at only where the shape is sound: they read what the shape promises, and tell paths made of its names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pagw.fhir.bundle_rules import (
    address_issues,
    envelope_issues,
    once_issues,
    reference_issues,
    shape_issues,
    unreached_issues,
)
from pagw.fhir.claim_rules import claim_issues
from pagw.fhir.outcomes import Issue, errors
from pagw.fhir.references import Graph, objects, pointers
from pagw.fhir.response_rules import echo_issues, response_issues
from pagw.fhir.update_rules import prior_claim, update_issues
from pagw.fhir.urls import INQUIRY_BUNDLE, INQUIRY_RESPONSE_BUNDLE, REQUEST_BUNDLE, RESPONSE_BUNDLE

# Where there are more, their shapes are looked at only if nothing else is wrong: that costs more than all the rest.
ENTRIES_FEW: Final = 100


def check_request(bundle: Mapping[str, Any]) -> list[Issue]:
    """The Bundle of `$submit`: a new request, an update or a cancellation."""
    return _check_asked(bundle, REQUEST_BUNDLE, inquiry=False)


def check_inquiry(bundle: Mapping[str, Any]) -> list[Issue]:
    """The Bundle of `$inquire`: a Claim by whose example others are searched."""
    return _check_asked(bundle, INQUIRY_BUNDLE, inquiry=True)


def check_response(bundle: Mapping[str, Any], request: Mapping[str, Any] | None = None) -> list[Issue]:
    """The Bundle of an answer; with the request's Bundle, also whether it echoes that."""
    graph = Graph.of(bundle)
    answer = graph.first()
    issues = shape_issues(bundle)
    is_sound = not issues
    issues += envelope_issues(bundle, graph, first="ClaimResponse", profile=_response_profile(bundle))
    issues += address_issues(graph)
    issues += once_issues(graph)
    if not is_sound:
        return issues
    # The asker has the Claim; an answer may name it without sending it back.
    issues += reference_issues(graph, outside={f"{answer.path}.request"} if answer is not None else ())
    if answer is not None and answer.kind == "ClaimResponse" and not errors(issues):
        issues += response_issues(answer)
        issues += echo_issues(graph, answer, Graph.of(request)) if request is not None else []
    return issues


def _check_asked(bundle: Mapping[str, Any], profile: str, *, inquiry: bool) -> list[Issue]:
    graph = Graph.of(bundle)
    claim = graph.first()
    cheap = [
        *envelope_issues(bundle, graph, first="Claim", profile=profile),
        *address_issues(graph),
        *once_issues(graph),
    ]
    if len(graph.entries) > ENTRIES_FEW and errors(cheap):
        return cheap
    shape = shape_issues(bundle)
    is_sound, issues = not shape, shape + cheap
    if not is_sound:
        return issues
    issues += reference_issues(graph, outside=_older_claims(graph))
    issues += unreached_issues(graph)
    if claim is not None and claim.kind == "Claim" and not errors(issues):
        issues += claim_issues(graph, claim, inquiry=inquiry)
        issues += update_issues(graph, claim) if not inquiry else []
    return issues


def _older_claims(graph: Graph) -> set[str]:
    """Paths at which the updated claim names one that it updated itself: that one is not to be included."""
    claim = graph.first()
    prior = prior_claim(graph, claim) if claim is not None else None
    if prior is None:
        return set()
    related = range(len(objects(prior.resource, "related")))
    starts = {f"{prior.path}.related[{place}].claim" for place in related}
    return {pointer.path for pointer in pointers(prior.resource, prior.path) if pointer.path in starts}


def _response_profile(bundle: Mapping[str, Any]) -> str:
    meta = bundle.get("meta")
    named = meta.get("profile") if isinstance(meta, dict) else None
    is_inquiry = isinstance(named, list) and INQUIRY_RESPONSE_BUNDLE in named
    return INQUIRY_RESPONSE_BUNDLE if is_inquiry else RESPONSE_BUNDLE
