"""Sandbox of the external services: a help desk and a shop, called over real HTTP.

    help_desk.py           tickets, messages, tags, assignees, and the ledger of every effect
    shop.py                orders
    webhook_deliveries.py  webhooks to the middleware: signed, sent several times, late, out of order
    app.py                 the HTTP API of both, with injected faults (`holdfast.web.sandbox_faults`)

Neither service supports idempotency: a repeated call has a repeated effect. The ledger lists every effect,
and a caller can look up the reference it gave with a call.
"""

from __future__ import annotations

from holdfast.web.sandbox_faults import Faults
from holdfast_demo.richpanel.sandbox.app import Sandbox, build_sandbox_app
from holdfast_demo.richpanel.sandbox.help_desk import LedgerEntry
from holdfast_demo.richpanel.sandbox.webhook_deliveries import DeliveryFaults

__all__ = ["DeliveryFaults", "Faults", "LedgerEntry", "Sandbox", "build_sandbox_app"]
