"""The gateway over HTTP: the native API, Da Vinci PAS, subscriptions, sessions, and where payers call back.

`guarding` stands before every route of a client and says who calls; `refusals` makes one OperationOutcome of whatever goes
wrong, on every route; `asking` takes requests apart, `views` and `describing` say what is shown and described. Routes take the
request alone and give a response, so that nothing stands between (`holdfast.web.direct`).
"""

from __future__ import annotations

from fastapi import APIRouter

from holdfast import Stores, open_secrets
from pagw.findable import Findable
from pagw.intake import Intake
from pagw.payer_callbacks import PayerCallbacks
from pagw.routes.fhir import claim_routes, metadata_routes
from pagw.routes.guarding import Gate
from pagw.routes.native import content_routes, request_routes, submission_routes
from pagw.routes.payers import payer_routes
from pagw.routes.refusals import outcome_manners
from pagw.routes.sessions import session_routes
from pagw.routes.subscriptions import subscription_routes
from pagw.settings import PagwSettings


def api_routes(stores: Stores) -> list[APIRouter]:
    settings, secrets = PagwSettings.load(), open_secrets()
    gate = Gate(stores, settings)
    intake = Intake(stores, settings, Findable(secrets))
    return [
        submission_routes(gate, intake),
        request_routes(gate),
        content_routes(gate),
        claim_routes(gate, intake),
        metadata_routes(gate),
        *subscription_routes(gate, secrets),
        session_routes(gate),
    ]


def callback_routes(stores: Stores) -> APIRouter:
    return payer_routes(PayerCallbacks(stores, open_secrets()))


__all__ = ["api_routes", "callback_routes", "outcome_manners"]
