"""Trip Cortex over HTTP and WebSocket, for employees and admins. Every call has a token (`guarding`), and sees what is its
caller's; routes take the request alone and give a response (`holdfast.web.direct`).

    sockets    the WebSocket of an employee            nodes      what other processes hand over to it
    bookings   begun, followed, answered, approved      audits     by booking and by time, as CSV too
    policies   for admins                               exporting  CSV that no spreadsheet takes for a formula
"""

from __future__ import annotations

from fastapi import APIRouter

from holdfast import Stores
from tripcortex.live.hub import Hub
from tripcortex.routes.audits import audit_routes
from tripcortex.routes.bookings import approval_routes, booking_routes, deciding_routes
from tripcortex.routes.describing import described_schemes
from tripcortex.routes.guarding import Gate
from tripcortex.routes.nodes import node_routes
from tripcortex.routes.policies import managing_routes, policy_routes
from tripcortex.routes.sockets import socket_routes
from tripcortex.settings import TripCortexSettings


def api_routes(stores: Stores) -> list[APIRouter]:
    gate, hub = Gate(stores, TripCortexSettings.load()), Hub()
    return [
        socket_routes(gate, hub),
        node_routes(gate, hub),
        booking_routes(gate),
        deciding_routes(gate),
        approval_routes(gate),
        audit_routes(gate),
        policy_routes(gate),
        managing_routes(gate),
    ]


__all__ = ["api_routes", "described_schemes"]
