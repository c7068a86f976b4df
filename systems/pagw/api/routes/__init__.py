"""The gateway's HTTP API: native requests, Da Vinci PAS, subscriptions, sessions and payers' callbacks.

`auth` authenticates the caller of every client route; `refusal_audit` records refused calls; `errors` turns
every failure into an OperationOutcome; `parameters` and `views` define the requests and responses, from which
the OpenAPI description follows. The modules of routes have no deferred annotations, because FastAPI could not
resolve those that name a local dependency.
"""

from __future__ import annotations

from fastapi import APIRouter

from holdfast import Stores
from holdfast.runtime import open_secrets
from pagw.api.routes.auth import Gate
from pagw.api.routes.errors import configure_outcomes
from pagw.api.routes.fhir import build_claim_routes, build_metadata_routes
from pagw.api.routes.native import build_content_routes, build_request_routes, build_submission_routes
from pagw.api.routes.payers import build_key_set_routes, build_notification_routes, build_payer_routes
from pagw.api.routes.sessions import build_session_routes
from pagw.api.routes.subscriptions import build_subscription_routes
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.workers.intake import Intake
from pagw.workers.payer_callbacks import PayerCallbacks
from pagw.workers.payer_notifications import PayerNotifications


def build_api_routes(stores: Stores) -> list[APIRouter]:
    """Return the routers of the clients' API."""
    settings, secrets = PagwSettings.load(), open_secrets()
    gate = Gate(stores, settings)
    intake = Intake(stores, settings, RequestLookup(secrets))
    return [
        build_submission_routes(gate, intake),
        build_request_routes(gate),
        build_content_routes(gate),
        build_claim_routes(gate, intake),
        build_metadata_routes(gate),
        *build_subscription_routes(gate, secrets),
        build_session_routes(gate),
    ]


def build_callback_routes(stores: Stores) -> list[APIRouter]:
    """Return the routers of payers' callbacks and notifications, and of the keys that payers verify."""
    secrets = open_secrets()
    return [
        build_payer_routes(PayerCallbacks(stores, secrets)),
        build_notification_routes(PayerNotifications(stores, secrets, RequestLookup(secrets))),
        build_key_set_routes(stores, secrets),
    ]


__all__ = ["build_api_routes", "build_callback_routes", "configure_outcomes"]
