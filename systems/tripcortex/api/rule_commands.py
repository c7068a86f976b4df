"""Operator commands that review the rules of a policy, and try them on sample trips.

`holdfast tripcortex policies rules list POLICY`, `… show`, `… confirm`, `… edit`, `… reject`, `… try`. POLICY
is the id of an edition, or the name of a file that serves; RULE is the id of a rule or the start of one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

from holdfast import Page, Stores
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.system import Command, Explanation, Listing
from tripcortex.domain.policy_rules.judgement import Judgement
from tripcortex.domain.policy_rules.rules import PolicyRule
from tripcortex.model.policies import patterns as policies
from tripcortex.model.policies import rules_patterns as rule_patterns
from tripcortex.model.policies.rules import RuleStatus, StoredRule
from tripcortex.model.policies.schema import Policy
from tripcortex.policies.rule_proposals import propose_again
from tripcortex.policies.rule_review import (
    BulkResult,
    Decider,
    SeenRule,
    confirm_complete,
    confirm_several,
    edit,
    list_rules,
    reject,
)
from tripcortex.policies.rule_trials import Trial, parse_trips, try_trips
from tripcortex.policies.uploads import get_now, load_policy

OPERATOR: Final = "operator"
COLUMNS: Final = ("rule_id", "status", "version", "complete", "page", "effect", "quote")
RESULT_COLUMNS: Final = ("rule_id", "status", "version", "problem")
MAX_SHOWN_QUOTE_CHARS: Final = 100

PolicyName = Annotated[str, "The id of an edition, or the name of a file in service"]
RuleName = Annotated[str, "The id of a rule, or the start of it"]
RuleNames = Annotated[list[str], "The ids of rules, or the starts of them"]
SeenVersion = Annotated[int | None, "The version that you saw; refuse if the rule has changed since"]
By = Annotated[str, "Who decides, for the log"]
Reason = Annotated[str, "The reason, for the log"]


async def rules_list(
    stores: Stores, policy: PolicyName, status: Annotated[RuleStatus | None, "Only this status"] = None
) -> Any:
    """List the rules of a policy with their status; only confirmed ones decide."""
    found = await _find_policy(stores, policy)
    rows = [_summarize(each) for each in await list_rules(stores, found.id, status)]
    return Listing(Page(tuple(rows)), COLUMNS)


async def rules_show(stores: Stores, policy: PolicyName, rule: RuleName) -> Any:
    """Show a rule with its quote, page and section, and every decision about it."""
    found = await _find_rule(stores, await _find_policy(stores, policy), rule)
    changes = await stores.run(rule_patterns.rule_changes(found.policy_id, found.rule_id))
    shown = _summarize(found) | {
        "quote": found.quote,
        "section": found.section,
        "origin": found.origin.value,
        "rule": _leave_out_defaults(found.rule),
        "proposed": None if found.decided is None else _leave_out_defaults(found.proposed),
        "decided_by": found.decided_by,
        "decided_at": None if found.decided_at is None else found.decided_at.isoformat(),
    }
    log = [each.model_dump(mode="json", exclude={"policy_id", "rule_id", "rule"}) for each in changes]
    return shown | {"changes": log}


async def rules_confirm(
    stores: Stores,
    policy: PolicyName,
    rules: RuleNames,
    version: SeenVersion = None,
    by: By = OPERATOR,
    reason: Reason = "",
) -> Any:
    """Confirm rules, so that they decide about bookings while their edition serves."""
    found = await _find_policy(stores, policy)
    seen = await _see_rules(stores, found, rules, version)
    return _list_results(await confirm_several(stores, seen, Decider(by, reason)))


async def rules_confirm_complete(
    stores: Stores, policy: PolicyName, by: By = OPERATOR, reason: Reason = ""
) -> Any:
    """Confirm every undecided rule that is complete and was understood."""
    found = await _find_policy(stores, policy)
    return _list_results(await confirm_complete(stores, found.id, Decider(by, reason)))


async def rules_edit(
    stores: Stores,
    policy: PolicyName,
    rule: RuleName,
    changes: Annotated[Path, "A JSON file with the members to replace; null restores a default"],
    version: SeenVersion = None,
    by: By = OPERATOR,
    reason: Reason = "",
) -> Any:
    """Replace members of a rule and confirm the result; its quote remains."""
    found = await _find_policy(stores, policy)
    (seen,) = await _see_rules(stores, found, [rule], version)
    edited = await edit(stores, seen, await _read_object(changes), Decider(by, reason))
    return _summarize(edited) | {"rule": _leave_out_defaults(edited.rule)}


async def rules_reject(
    stores: Stores,
    policy: PolicyName,
    rule: RuleName,
    version: SeenVersion = None,
    by: By = OPERATOR,
    reason: Reason = "",
) -> Any:
    """Reject a rule, so that it never decides."""
    found = await _find_policy(stores, policy)
    (seen,) = await _see_rules(stores, found, [rule], version)
    return _summarize(await reject(stores, seen, Decider(by, reason)))


async def rules_propose(stores: Stores, policy: PolicyName) -> Any:
    """Read the rules of an ingested policy again, for one that an older version ingested."""
    found = await propose_again(stores, (await _find_policy(stores, policy)).id)
    rows = [_summarize(each) for each in await list_rules(stores, found.id)]
    return Listing(Page(tuple(rows)), COLUMNS)


async def rules_try(
    stores: Stores, *, trip: Annotated[Path, "A JSON file with one trip or a list of trips"]
) -> Any:
    """Judge sample trips by the confirmed rules, and as if every proposal were confirmed too."""
    trips = parse_trips(await _read_json(trip), get_now(stores).date())
    trials = await try_trips(stores, trips)
    data = [_build_trial(each) for each in trials]
    return Explanation([line for each in trials for line in _format_trial(each)], data)


# --- policies and rules by name ---------------------------------------------------------------------------


async def _find_policy(stores: Stores, name: str) -> Policy:
    """Return the edition with this id, or the serving one with this file name. Raise `NotFound`."""
    try:
        return await load_policy(stores, UUID(name))
    except ValueError:
        pass
    found = await stores.run(policies.policies())
    serving = [each for each in found if each.serves and each.file_name == name]
    if len(serving) == 1:
        return serving[0]
    if not serving:
        raise NotFound(f"No policy in service is named {name!r:.80}. `policies list` shows names and ids.")
    ids = ", ".join(str(each.id) for each in serving)
    raise InvalidRequest(f"Several policies in service are named {name!r:.80}: give one of the ids {ids}.")


async def _find_rule(stores: Stores, policy: Policy, name: str) -> StoredRule:
    """Return the rule with this id, or the only one whose id starts like this. Raise `NotFound`."""
    found = [each for each in await list_rules(stores, policy.id) if each.rule_id.startswith(name)]
    exact = [each for each in found if each.rule_id == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise NotFound(
            f"No rule of {policy.file_name} has the id {name!r:.60}. `policies rules list` shows them."
        )
    ids = ", ".join(each.rule_id for each in found[:5])
    raise InvalidRequest(f"Several rules start with {name!r:.60}: {ids}. Give more of the id.")


async def _see_rules(
    stores: Stores, policy: Policy, names: Sequence[str], version: int | None
) -> list[SeenRule]:
    """Return the rules with the version that the user saw, by default the current one.

    Raise `InvalidRequest` for a version with several rules.
    """
    if version is not None and len(names) != 1:
        raise InvalidRequest("--version is for one rule: confirm the rules one by one, or leave it out.")
    found = [await _find_rule(stores, policy, each) for each in names]
    return [SeenRule(policy.id, each.rule_id, version or each.version) for each in found]


# --- results ------------------------------------------------------------------------------------------------


def _summarize(rule: StoredRule) -> dict[str, Any]:
    """Return a rule as one row of a list."""
    quote = " ".join((rule.quote or "").split())
    shown = quote if len(quote) <= MAX_SHOWN_QUOTE_CHARS else f"{quote[: MAX_SHOWN_QUOTE_CHARS - 1]}…"
    return {
        "rule_id": rule.rule_id,
        "status": rule.status.value,
        "version": rule.version,
        "complete": rule.is_complete,
        "page": rule.page,
        "effect": rule.rule.get("effect"),
        "quote": shown,
    }


def _leave_out_defaults(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a stored rule that say something."""
    return PolicyRule.model_validate(rule).model_dump(
        mode="json", exclude_defaults=True, exclude={"rule_id", "policy_id", "file_name"}
    )


def _list_results(results: Sequence[BulkResult]) -> Listing:
    """Return the outcome for each rule, and the problem of those that were not confirmed."""
    rows = [
        {
            "rule_id": each.rule_id,
            "status": None if each.rule is None else each.rule.status.value,
            "version": None if each.rule is None else each.rule.version,
            "problem": None if each.error is None else each.error.message,
        }
        for each in results
    ]
    return Listing(Page(tuple(rows)), RESULT_COLUMNS)


def _build_trial(trial: Trial) -> dict[str, Any]:
    """Return a dry run as JSON."""
    return {
        "trip": trial.trip.model_dump(mode="json", exclude_none=True),
        "now": _build_verdict(trial.now),
        "with_proposals": _build_verdict(trial.with_proposals),
        "changes": trial.changes,
    }


def _build_verdict(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as JSON, with citations in place of the rules that were applied."""
    shown = judgement.model_dump(mode="json", exclude={"applied"}, exclude_none=True)
    return shown | {"citations": [each.model_dump(mode="json") for each in judgement.citations]}


def _format_trial(trial: Trial) -> list[str]:
    """Return the lines about a trip: the verdict now, and with the proposals if that differs."""
    trip = trial.trip
    price = "" if trip.price_usd is None else f", ${trip.price_usd}"
    title = f"{trip.origin} → {trip.destination} on {trip.depart}, {trip.cabin.value}{price}"
    lines = [title, *_format_verdict("now", trial.now)]
    if trial.changes:
        return [*lines, *_format_verdict("with the proposals", trial.with_proposals)]
    return [*lines, "  with the proposals: the same"]


def _format_verdict(label: str, judgement: Judgement) -> list[str]:
    """Return the verdict with its approvers, and a line for each breach with its source."""
    by = f" by {', '.join(judgement.approvers)}" if judgement.approvers else ""
    lines = [f"  {label}: {judgement.verdict.value}{by}"]
    for breach in judgement.breaches:
        cited = breach.citation
        page = f", page {cited.source_page}" if cited and cited.source_page is not None else ""
        lines.append(f"    {breach.text}{f' ({cited.file_name}{page})' if cited else ''}")
    return lines


# --- files --------------------------------------------------------------------------------------------------


async def _read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raise `InvalidRequest` if it is not one."""
    value = await _read_json(path)
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid {path}: expected a JSON object with the members of a rule to replace.")
    return value


async def _read_json(path: Path) -> Any:
    """Return the JSON of a file. Raise `InvalidRequest` if it cannot be read."""
    try:
        return json.loads(await asyncio.to_thread(path.read_bytes))
    except OSError as error:
        raise InvalidRequest(f"Could not read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidRequest(f"Invalid {path}: expected JSON: {error}.") from error


RULE_COMMANDS: Final = {
    "policies rules list": Command(rules_list, "support"),
    "policies rules show": Command(rules_show, "support"),
    "policies rules confirm": Command(rules_confirm, "api"),
    "policies rules confirm-complete": Command(rules_confirm_complete, "api"),
    "policies rules edit": Command(rules_edit, "api"),
    "policies rules reject": Command(rules_reject, "api"),
    "policies rules propose": Command(rules_propose, "ingester"),
    "policies rules try": Command(rules_try, "support"),
}
