"""The HTTP routes: projects, artefacts, events, escalations, actions, settings, integrations, agent state.

Each router parses the request and returns the result of a function that the command line uses too. Errors are
problem+json. The routes run in the component `api`; the host authorizes callers by token.
"""

from __future__ import annotations

from fastapi import APIRouter

from agenticpm.api.routes.actions import build_action_routes
from agenticpm.api.routes.agent import build_agent_routes
from agenticpm.api.routes.artefacts import build_artefact_routes
from agenticpm.api.routes.escalations import build_escalation_routes
from agenticpm.api.routes.events import build_event_routes
from agenticpm.api.routes.projects import build_project_routes
from agenticpm.api.routes.settings import build_config_routes, build_integration_routes
from holdfast import Stores


def build_routes(stores: Stores) -> list[APIRouter]:
    """Build all routers of the API."""
    return [
        build_project_routes(stores),
        build_artefact_routes(stores),
        build_event_routes(stores),
        build_escalation_routes(stores),
        build_action_routes(stores),
        build_config_routes(stores),
        build_integration_routes(stores),
        build_agent_routes(stores),
    ]


__all__ = ["build_routes"]
