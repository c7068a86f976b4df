"""Checks of PAS Bundles (requests, inquiries, responses) that return all issues, not only the first.

Each check returns issues; the caller refuses if one is an error (`outcomes.refuse_errors`). Content rules run
only if the structure is valid, because they rely on it and report paths made of its names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pagw.domain.fhir.outcomes import Issue, select_errors
from pagw.domain.fhir.references import Graph, find_references, get_objects
from pagw.domain.fhir.rules.bundle_rules import (
    check_duplicates,
    check_envelope,
    check_full_urls,
    check_reachability,
    check_references,
    check_shape,
)
from pagw.domain.fhir.rules.claim_rules import check_claim
from pagw.domain.fhir.rules.response_rules import check_claim_response, check_echo
from pagw.domain.fhir.rules.update_rules import check_update, find_prior_claim
from pagw.domain.fhir.urls import INQUIRY_BUNDLE, INQUIRY_RESPONSE_BUNDLE, REQUEST_BUNDLE, RESPONSE_BUNDLE

# With more entries, structures are checked only if nothing else is wrong: that check costs the most.
FULL_CHECK_ENTRIES: Final = 100


def check_request(bundle: Mapping[str, Any]) -> list[Issue]:
    """Return the errors and warnings of a `$submit` Bundle: a new request, an update or a cancellation.

    The Bundle is valid if no issue is an error.
    """
    return _check_claim_bundle(bundle, REQUEST_BUNDLE, inquiry=False)


def check_inquiry(bundle: Mapping[str, Any]) -> list[Issue]:
    """Return the errors and warnings of an `$inquire` Bundle, whose Claim is the example of a search.

    The rules are those of a request, but the Claim needs no items and no identifier, and `Claim.related` is
    not checked. The Bundle is valid if no issue is an error.
    """
    return _check_claim_bundle(bundle, INQUIRY_BUNDLE, inquiry=True)


def check_response(bundle: Mapping[str, Any], request: Mapping[str, Any] | None = None) -> list[Issue]:
    """Return the errors and warnings of a response Bundle. With the request's Bundle, check also that the
    response repeats it faithfully.
    """
    graph = Graph.from_bundle(bundle)
    answer = graph.get_first()
    issues = check_shape(bundle)
    is_sound = not issues
    issues += check_envelope(bundle, graph, first="ClaimResponse", profile=_get_response_profile(bundle))
    issues += check_full_urls(graph)
    issues += check_duplicates(graph)
    if not is_sound:
        return issues
    # The client has the Claim, so a response may name it without including it.
    issues += check_references(graph, excluded_paths={f"{answer.path}.request"} if answer is not None else ())
    if answer is not None and answer.kind == "ClaimResponse" and not select_errors(issues):
        issues += check_claim_response(answer)
        issues += check_echo(graph, answer, Graph.from_bundle(request)) if request is not None else []
    return issues


def _check_claim_bundle(bundle: Mapping[str, Any], profile: str, *, inquiry: bool) -> list[Issue]:
    """Check the envelope, then the structure, then references, then the Claim. Each step needs the ones
    before to have no errors.
    """
    graph = Graph.from_bundle(bundle)
    claim = graph.get_first()
    cheap = [
        *check_envelope(bundle, graph, first="Claim", profile=profile),
        *check_full_urls(graph),
        *check_duplicates(graph),
    ]
    if len(graph.entries) > FULL_CHECK_ENTRIES and select_errors(cheap):
        return cheap
    shape = check_shape(bundle)
    is_sound, issues = not shape, shape + cheap
    if not is_sound:
        return issues
    issues += check_references(graph, excluded_paths=_find_older_claims(graph))
    issues += check_reachability(graph)
    if claim is not None and claim.kind == "Claim" and not select_errors(issues):
        issues += check_claim(graph, claim, inquiry=inquiry)
        issues += check_update(graph, claim) if not inquiry else []
    return issues


def _find_older_claims(graph: Graph) -> set[str]:
    """Return the paths at which the updated claim names an older claim, which need not be included."""
    claim = graph.get_first()
    prior = find_prior_claim(graph, claim) if claim is not None else None
    if prior is None:
        return set()
    related = range(len(get_objects(prior.resource, "related")))
    starts = {f"{prior.path}.related[{place}].claim" for place in related}
    return {pointer.path for pointer in find_references(prior.resource, prior.path) if pointer.path in starts}


def _get_response_profile(bundle: Mapping[str, Any]) -> str:
    """Return the profile of an inquiry's response if the Bundle names it, else that of a response."""
    meta = bundle.get("meta")
    named = meta.get("profile") if isinstance(meta, dict) else None
    is_inquiry = isinstance(named, list) and INQUIRY_RESPONSE_BUNDLE in named
    return INQUIRY_RESPONSE_BUNDLE if is_inquiry else RESPONSE_BUNDLE
