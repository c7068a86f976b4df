"""AgenticPM over HTTP: projects, artefacts, events, escalations, actions, settings, integrations, and how the agent is.

Each router takes a request apart and gives the answer of a function that the command line calls as well. Errors are
problem+json. It runs as the component `api`; who may call it is decided by the host, with its token.
"""

from __future__ import annotations

from fastapi import APIRouter

from agenticpm.routes.actions import action_routes
from agenticpm.routes.agent import agent_routes
from agenticpm.routes.artefacts import artefact_routes
from agenticpm.routes.escalations import escalation_routes
from agenticpm.routes.events import event_routes
from agenticpm.routes.projects import project_routes
from agenticpm.routes.settings import config_routes, integration_routes
from holdfast import Stores


def routes(stores: Stores) -> list[APIRouter]:
    return [
        project_routes(stores),
        artefact_routes(stores),
        event_routes(stores),
        escalation_routes(stores),
        action_routes(stores),
        config_routes(stores),
        integration_routes(stores),
        agent_routes(stores),
    ]


__all__ = ["routes"]
