"""Routes for admins to review the rules of a policy: list, confirm, edit, reject, and try them on trips.

Each decision names the version of the rule that the admin saw; a rule that changed meanwhile is answered with
409. Confirming several rules reports the outcome of each.
"""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field, model_validator

from holdfast.web import JsonBody
from tripcortex.api.identity import Employee
from tripcortex.api.routes.auth import Gate
from tripcortex.api.routes.parameters import PolicyId
from tripcortex.api.routes.policies import parse_policy_id
from tripcortex.api.routes.schemas import RequestBody, View
from tripcortex.domain.policy_rules.judgement import Judgement
from tripcortex.model.entities import Breach, Citation
from tripcortex.model.policies import rules_patterns as rule_patterns
from tripcortex.model.policies.rules import (
    MAX_REASON_CHARS,
    MAX_RULE_ID_CHARS,
    RuleAction,
    RuleChange,
    RuleOrigin,
    RuleStatus,
    StoredRule,
)
from tripcortex.policies.rule_proposals import propose_again
from tripcortex.policies.rule_review import (
    BulkResult,
    Decider,
    SeenRule,
    confirm,
    confirm_complete,
    confirm_several,
    edit,
    list_rules,
    load_rule,
    reject,
)
from tripcortex.policies.rule_trials import MAX_TRIPS, Trial, parse_trips, try_trips
from tripcortex.policies.uploads import get_now, load_policy

MAX_BULK: Final = 1_000
MAX_TRIPS_BYTES: Final = 512 * 1024

RuleId = Annotated[str, Path(description="The id of a rule, from the list of the policy's rules.")]
Version = Annotated[int, Field(ge=1, le=2**31 - 1, description="The version of the rule that you saw.")]
Why = Annotated[str, Field(max_length=MAX_REASON_CHARS, description="The reason, for the log.")]


# --- responses ----------------------------------------------------------------------------------------------


class RuleView(View):
    """A rule of a policy, with the words that it was read from and the decision about it."""

    rule_id: str
    policy_id: UUID
    origin: RuleOrigin
    status: RuleStatus
    version: int = Field(description="Send it with the decision about the rule.")
    rule: dict[str, Any] = Field(description="The rule that decides once it is confirmed.")
    proposed: dict[str, Any] | None = Field(
        default=None, description="The rule as it was read, if an admin edited it."
    )
    quote: str | None
    page: int | None
    section: str | None
    is_complete: bool = Field(
        description="False if a condition of the sentence was not understood: it may restrict, never permit."
    )
    decided_by: str | None
    decided_at: datetime | None


class RuleChangeView(View):
    """One entry of a rule's log."""

    version: int
    action: RuleAction
    status: RuleStatus
    rule: dict[str, Any]
    changed_by: str | None
    changed_at: datetime
    reason: str | None


class RuleDetail(RuleView):
    changes: list[RuleChangeView] = Field(description="Every decision about the rule, oldest first.")


class Rules(View):
    """The rules of an edition. Only confirmed rules of an edition that serves decide."""

    policy_id: UUID
    file_name: str
    edition: int
    serves: bool
    items: list[RuleView]


class ConfirmedView(View):
    """The outcome for one rule: its new version, or why it was not confirmed."""

    rule_id: str
    confirmed: bool
    version: int | None = None
    problem: str | None = None


class Confirmed(View):
    items: list[ConfirmedView]


class VerdictView(View):
    """The judgement of a trip: allowed, approval with the approvers, or forbidden."""

    verdict: str
    approvers: list[str]
    breaches: list[Breach]
    uncovered: list[str] = Field(description="What no rule covers: cabin, fare, notice.")
    citations: list[Citation] = Field(description="The rules that were applied.")
    notes: list[str]


class TrialView(View):
    """A sample trip, judged by the confirmed rules, and as if every proposal were confirmed too."""

    trip: dict[str, Any]
    now: VerdictView
    with_proposals: VerdictView
    changes: bool = Field(description="Whether confirming every proposal changes the verdict or approvers.")


class Trials(View):
    items: list[TrialView]


# --- request bodies -----------------------------------------------------------------------------------------


class RuleDecision(RequestBody):
    version: Version
    reason: Why = ""


class RuleEdit(RequestBody):
    version: Version
    changes: dict[str, Any] = Field(
        description="The members to replace, as in `rule`; null restores a default."
    )
    reason: Why = ""


class SeenRuleBody(RequestBody):
    rule_id: str = Field(min_length=1, max_length=MAX_RULE_ID_CHARS)
    version: Version


class RulesConfirmed(RequestBody):
    """The rules to confirm, or all that are complete."""

    rules: list[SeenRuleBody] = Field(default=[], max_length=MAX_BULK)
    all_complete: bool = Field(
        default=False, description="Confirm every undecided rule that is complete and was understood."
    )
    reason: Why = ""

    @model_validator(mode="after")
    def _check_choice(self) -> "RulesConfirmed":
        """Raise `ValueError` unless exactly one of `rules` and `allComplete` is given."""
        if bool(self.rules) == self.all_complete:
            raise ValueError("send either rules or allComplete")
        return self


class TripsTried(RequestBody):
    trips: list[dict[str, Any]] = Field(min_length=1, max_length=MAX_TRIPS)


# --- routes -------------------------------------------------------------------------------------------------


def build_rule_routes(gate: Gate) -> APIRouter:
    """Return the routes that list, confirm, edit and reject the rules of an edition."""
    router = APIRouter(tags=["policies"])
    stores = gate.stores

    @router.get(
        "/policies/{policy_id}/rules", operation_id="listRules", summary="List the rules of an edition"
    )
    async def list_policy_rules(
        employee: Annotated[Employee, Depends(gate.admin)],
        policy_id: PolicyId,
        status: Annotated[RuleStatus | None, Query(description="Only rules with this status.")] = None,
    ) -> Rules:
        return await _build_rules(gate, parse_policy_id(policy_id), status)

    @router.get(
        "/policies/{policy_id}/rules/{rule_id}", operation_id="getRule", summary="Get a rule and its log"
    )
    async def get_rule(
        employee: Annotated[Employee, Depends(gate.admin)], policy_id: PolicyId, rule_id: RuleId
    ) -> RuleDetail:
        rule = await load_rule(stores, parse_policy_id(policy_id), rule_id)
        changes = await stores.run(rule_patterns.rule_changes(rule.policy_id, rule.rule_id))
        shown = build_rule_view(rule).model_dump()
        return RuleDetail(**shown, changes=[_build_change_view(each) for each in changes])

    @router.post(
        "/policies/{policy_id}/rules/confirm",
        operation_id="confirmRules",
        summary="Confirm several rules, or all that are complete; returns the outcome of each",
    )
    async def confirm_rules(
        employee: Annotated[Employee, Depends(gate.admin)],
        policy_id: PolicyId,
        body: Annotated[RulesConfirmed, Depends(JsonBody(RulesConfirmed))],
    ) -> Confirmed:
        policy = await load_policy(stores, parse_policy_id(policy_id))
        by = Decider(employee.employee_id, body.reason)
        seen = [SeenRule(policy.id, each.rule_id, each.version) for each in body.rules]
        done = (
            confirm_complete(stores, policy.id, by)
            if body.all_complete
            else confirm_several(stores, seen, by)
        )
        return Confirmed(items=[_build_confirmed_view(each) for each in await done])

    return router


def build_rule_decision_routes(gate: Gate) -> APIRouter:
    """Return the routes that decide about one rule, read the rules again, and try them on trips."""
    router = APIRouter(tags=["policies"])
    stores = gate.stores

    @router.post(
        "/policies/{policy_id}/rules/{rule_id}/confirm",
        operation_id="confirmRule",
        summary="Confirm a rule: it decides if its edition serves",
    )
    async def confirm_rule(
        employee: Annotated[Employee, Depends(gate.admin)],
        policy_id: PolicyId,
        rule_id: RuleId,
        body: Annotated[RuleDecision, Depends(JsonBody(RuleDecision))],
    ) -> RuleView:
        seen = SeenRule(parse_policy_id(policy_id), rule_id, body.version)
        return build_rule_view(await confirm(stores, seen, Decider(employee.employee_id, body.reason)))

    @router.post(
        "/policies/{policy_id}/rules/{rule_id}/edit",
        operation_id="editRule",
        summary="Replace members of a rule and confirm the result; its quote remains",
    )
    async def edit_rule(
        employee: Annotated[Employee, Depends(gate.admin)],
        policy_id: PolicyId,
        rule_id: RuleId,
        body: Annotated[RuleEdit, Depends(JsonBody(RuleEdit))],
    ) -> RuleView:
        seen = SeenRule(parse_policy_id(policy_id), rule_id, body.version)
        by = Decider(employee.employee_id, body.reason)
        return build_rule_view(await edit(stores, seen, body.changes, by))

    @router.post(
        "/policies/{policy_id}/rules/{rule_id}/reject",
        operation_id="rejectRule",
        summary="Reject a rule: it never decides",
    )
    async def reject_rule(
        employee: Annotated[Employee, Depends(gate.admin)],
        policy_id: PolicyId,
        rule_id: RuleId,
        body: Annotated[RuleDecision, Depends(JsonBody(RuleDecision))],
    ) -> RuleView:
        seen = SeenRule(parse_policy_id(policy_id), rule_id, body.version)
        return build_rule_view(await reject(stores, seen, Decider(employee.employee_id, body.reason)))

    @router.post(
        "/policies/{policy_id}/rules/propose",
        operation_id="proposeRules",
        summary="Read the rules of an ingested edition again; decisions remain",
    )
    async def propose_rules(employee: Annotated[Employee, Depends(gate.admin)], policy_id: PolicyId) -> Rules:
        policy = await propose_again(stores, parse_policy_id(policy_id))
        return await _build_rules(gate, policy.id)

    @router.post(
        "/policies/rules/try",
        operation_id="tryRules",
        summary="Judge sample trips by the confirmed rules, and with the proposals as well",
    )
    async def try_rules(
        employee: Annotated[Employee, Depends(gate.admin)],
        body: Annotated[TripsTried, Depends(JsonBody(TripsTried, MAX_TRIPS_BYTES))],
    ) -> Trials:
        trips = parse_trips(body.trips, get_now(stores).date())
        return Trials(items=[build_trial_view(each) for each in await try_trips(stores, trips)])

    return router


# --- from rows ----------------------------------------------------------------------------------------------


def build_rule_view(rule: StoredRule) -> RuleView:
    """Return a rule as the API and the commands show it."""
    shown = {name: getattr(rule, name) for name in RuleView.model_fields}
    return RuleView.model_validate({**shown, "proposed": None if rule.decided is None else rule.proposed})


def build_trial_view(trial: Trial) -> TrialView:
    """Return a dry run as the API and the commands show it."""
    return TrialView(
        trip=trial.trip.model_dump(mode="json", exclude_none=True),
        now=_build_verdict_view(trial.now),
        with_proposals=_build_verdict_view(trial.with_proposals),
        changes=trial.changes,
    )


async def _build_rules(gate: Gate, policy_id: UUID, status: RuleStatus | None = None) -> Rules:
    """Return the rules of an edition. Raise `NotFound` for an unknown policy."""
    policy = await load_policy(gate.stores, policy_id)
    return Rules(
        policy_id=policy.id,
        file_name=policy.file_name,
        edition=policy.edition,
        serves=policy.serves,
        items=[build_rule_view(each) for each in await list_rules(gate.stores, policy.id, status)],
    )


def _build_verdict_view(judgement: Judgement) -> VerdictView:
    return VerdictView(
        verdict=judgement.verdict.value,
        approvers=list(judgement.approvers),
        breaches=list(judgement.breaches),
        uncovered=list(judgement.uncovered),
        citations=list(judgement.citations),
        notes=list(judgement.notes),
    )


def _build_change_view(change: RuleChange) -> RuleChangeView:
    return RuleChangeView.model_validate(change)


def _build_confirmed_view(result: BulkResult) -> ConfirmedView:
    """Return the outcome for one of several rules."""
    return ConfirmedView(
        rule_id=result.rule_id,
        confirmed=result.rule is not None,
        version=None if result.rule is None else result.rule.version,
        problem=None if result.error is None else result.error.message,
    )
