"""The page of one escalation: why the agent asks, the options with their consequences, and the decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import Response

from agenticpm.api import escalation_views
from agenticpm.domain.autonomy import DO_IT
from agenticpm.model import projects
from agenticpm.model.entities import Escalation, EscalationStatus
from agenticpm.pages.access import OPERATOR_ONLY, SYSTEM, CurrentReader, Reader
from agenticpm.pages.evidence import read_evidence
from holdfast import Stores
from holdfast.console import CurrentConsole, CurrentUser, audit_effect, redirect, render
from holdfast.core.errors import Conflict

MAX_NOTES_CHARS = 5000


def build_escalation_pages(stores: Stores) -> APIRouter:
    """Build the page of an escalation and its decision."""
    router = APIRouter(prefix="/projects/{project_id}/escalations/{id}")

    @router.get("")
    async def show_escalation(request: Request, reader: CurrentReader, project_id: str, id: str) -> Response:
        escalation = await escalation_views.get_escalation(stores, project_id, id)
        project = await projects.get(stores, escalation.project_id)
        return render(
            request,
            "agenticpm/escalation.html",
            escalation=escalation,
            project=project,
            title=reader.mask(escalation.title),
            rationale=reader.mask(escalation.agent_rationale or ""),
            notes=reader.mask(escalation.user_notes or ""),
            evidence=read_evidence(reader.mask(escalation.context)),
            options=[_describe_option(escalation, name, reader) for name in escalation.options],
            is_open=escalation.status is EscalationStatus.pending,
            reader=reader,
        )

    @router.post("/decide", dependencies=[OPERATOR_ONLY])
    async def decide(
        console: CurrentConsole,
        user: CurrentUser,
        project_id: str,
        id: str,
        decision: Annotated[str, Form()],
        notes: Annotated[str, Form(max_length=MAX_NOTES_CHARS)] = "",
    ) -> Response:
        page = f"/apps/{SYSTEM}/projects/{project_id}/escalations/{id}"
        target = f"escalation {id}"
        try:
            async with audit_effect(console, user, "decide", system=SYSTEM, target=target, decision=decision):
                decided = await escalation_views.decide(
                    stores, project_id, id, decision, notes=notes, by=user.name
                )
        except Conflict as error:
            return redirect(page, error.message, "problem")
        return redirect(
            f"/apps/{SYSTEM}/inbox",
            f"Decided: {decided.title}: {decided.user_decision}. It is in the decision log.",
        )

    return router


def _describe_option(escalation: Escalation, option: Any, reader: Reader) -> dict[str, Any]:
    """Return an option with its consequence: what follows at once if it is chosen."""
    return {
        "name": option.option,
        "pros": reader.mask(option.pros),
        "cons": reader.mask(option.cons),
        "is_recommended": option.option == escalation.agent_recommendation,
        "is_chosen": option.option == escalation.user_decision,
        "consequence": _describe_consequence(escalation, option.option, reader),
    }


def _describe_consequence(escalation: Escalation, option: str, reader: Reader) -> str:
    """Say what the agent does when this option is chosen."""
    proposal = escalation.context.get("proposal")
    if not isinstance(proposal, Mapping):
        return "The agent records the decision. It does nothing outside."
    if option == DO_IT:
        return f"The agent does it as soon as it is due: {reader.mask(str(proposal.get('description', '')))}"
    return "The agent does not do it."
