"""HTTP and WebSocket routes for employees and admins, gathered by `build_api_routes`.

Every call carries a token (`auth`) and sees only its caller's data; the exception is `connections`, where
processes of the service sign their calls. The modules of routes have no deferred annotations, because FastAPI
could not resolve those that name a local dependency.

    sockets    the handshake of an employee's WebSocket  connections  frames posted by other processes
    bookings   request, follow, answer, approve, audit   audits       by time, and CSV exports
    policies   for admins                                csv_export   CSV that a spreadsheet does not execute
    directory  for admins: SCIM users, and the CSV import
    rules      the review of a policy's rules
"""

from __future__ import annotations

from fastapi import APIRouter

from holdfast import Stores
from tripcortex.api.routes.audits import build_audit_routes
from tripcortex.api.routes.auth import Gate, configure_errors
from tripcortex.api.routes.bookings import build_approval_routes, build_booking_routes, build_decision_routes
from tripcortex.api.routes.connections import build_connection_routes
from tripcortex.api.routes.directory import (
    build_directory_routes,
    build_scim_description_routes,
    build_scim_routes,
)
from tripcortex.api.routes.policies import build_policy_admin_routes, build_policy_routes
from tripcortex.api.routes.rules import build_rule_decision_routes, build_rule_routes
from tripcortex.api.routes.sockets import build_socket_routes
from tripcortex.api.websocket.hub import Hub
from tripcortex.settings import TripCortexSettings


def build_api_routes(stores: Stores) -> list[APIRouter]:
    """Return all routers of the API. `sockets` and `connections` share one hub of open sockets."""
    gate, hub = Gate(stores, TripCortexSettings.load()), Hub()
    return [
        build_socket_routes(gate, hub),
        build_connection_routes(gate, hub),
        build_booking_routes(gate),
        build_decision_routes(gate),
        build_approval_routes(gate),
        build_audit_routes(gate),
        build_policy_routes(gate),
        build_policy_admin_routes(gate),
        build_scim_routes(gate),
        build_scim_description_routes(gate),
        build_directory_routes(gate),
        build_rule_routes(gate),
        build_rule_decision_routes(gate),
    ]


__all__ = ["build_api_routes", "configure_errors"]
