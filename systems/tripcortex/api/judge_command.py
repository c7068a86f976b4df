"""`holdfast tripcortex policies judge FILE --trip TRIP.json`: judge a trip by a policy file, without any
store.

Every rule that is read from the file counts as confirmed. The result says what the policy's own text means
for the trip.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ValidationError

from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Explanation
from tripcortex.documents import open_parser
from tripcortex.domain.policy_rules.distances import is_airport
from tripcortex.domain.policy_rules.judgement import Judgement, judge_trip
from tripcortex.domain.policy_rules.proposals import propose_rules
from tripcortex.domain.policy_rules.rules import Outcome, PolicyRule
from tripcortex.domain.policy_rules.trips import Trip
from tripcortex.model.entities import Citation

_VERDICTS: Final = {
    Outcome.allowed: "Allowed: the trip needs no approval.",
    Outcome.approval: "The trip needs an approval.",
    Outcome.forbidden: "Forbidden: nobody can approve this trip.",
}


async def policies_judge(
    file: Annotated[Path, "The policy: a PDF or a Markdown file"],
    trip: Annotated[Path | None, "A JSON file with origin, destination, depart, cabin, price_usd …"] = None,
) -> Any:
    """Judge a trip by the rules that a policy file states, with every rule taken as confirmed."""
    if trip is None:
        raise InvalidRequest("The trip is missing. Name its JSON file with --trip TRIP.json.")
    body, described = await asyncio.gather(_read_file(file), _read_file(trip))
    asked = parse_trip(described)
    rules = await asyncio.to_thread(read_rules, file.name, body)
    judgement = judge_trip(rules, asked)
    return Explanation(tuple(list_sentences(judgement)), describe(judgement))


def read_rules(file_name: str, body: bytes) -> tuple[PolicyRule, ...]:
    """Return the rules that a policy document states."""
    return propose_rules(open_parser(file_name, body).parse(body, file_name))


def parse_trip(described: bytes) -> Trip:
    """Parse a trip. Raise `InvalidRequest` if it is invalid or names an unknown airport."""
    try:
        trip = Trip.model_validate(json.loads(described))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise InvalidRequest(f"Invalid trip: {wrong}.") from error
    except ValueError as error:
        raise InvalidRequest(f"Invalid trip: not readable as JSON: {error}.") from error
    for airport in (trip.origin, trip.destination):
        if not is_airport(airport):
            raise InvalidRequest(f"Invalid airport {airport!r}: expected an IATA code such as ORD.")
    return trip


def list_sentences(judgement: Judgement) -> Iterator[str]:
    """Yield the judgement in sentences: the verdict, whom to ask, the reasons, the policy's words."""
    yield _VERDICTS[judgement.verdict]
    if judgement.approvers:
        yield f"Ask: {', '.join(judgement.approvers)}."
    for breach in judgement.breaches:
        yield f"- {breach.text} Remedy: {breach.remedy}."
        if breach.citation is not None and breach.citation.quote:
            yield f"  {_cite(breach.citation)}"
    decided = {breach.citation.chunk_id for breach in judgement.breaches if breach.citation}
    for rule in judgement.applied:
        if rule.quote and f"rule:{rule.rule_id}" not in decided:
            yield f"- The policy says: {_cite(rule.cite())}"
    yield from judgement.notes


def _cite(citation: Citation) -> str:
    """Return the quoted words with their section and page."""
    page = None if citation.source_page is None else f"page {citation.source_page}"
    place = ", ".join(filter(None, (citation.section_title, page)))
    return f"“{citation.quote}”" + (f" ({place})" if place else "")


def describe(judgement: Judgement) -> dict[str, Any]:
    """Return the judgement for a person or a program.

    The verdict, the rules that were applied, the approvers.
    """
    return {
        "verdict": judgement.verdict.value,
        "rules": [_describe_rule(rule) for rule in judgement.applied],
        "approvers": list(judgement.approvers),
        "reasons": [f"{breach.text} ({breach.code})" for breach in judgement.breaches],
        "uncovered": list(judgement.uncovered),
    }


def _describe_rule(rule: PolicyRule) -> dict[str, Any]:
    return {
        "text": rule.text,
        "quote": rule.quote,
        "page": rule.page,
        "section": rule.section,
        "scope": rule.scope.model_dump(mode="json", exclude_defaults=True),
    }


async def _read_file(path: Path) -> bytes:
    """Return the file's bytes. Raise `InvalidRequest` if it cannot be read."""
    try:
        return await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise InvalidRequest(f"Could not read {path}: {error.strerror}.") from error
