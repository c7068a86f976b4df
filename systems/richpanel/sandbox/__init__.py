"""The stand-ins for the outside parties: a help desk and a shop, spoken to over real HTTP.

    desk.py        tickets, messages, tags, assignees, and the ledger of every effect
    shop.py        orders
    deliveries.py  webhooks to the middleware: signed, sent several times, late, out of order
    app.py         the HTTP of all this, and what goes wrong there (`holdfast.web.sandboxes`)

Neither party knows idempotency: asked twice, it does it twice. What it did, its ledger shows, and a caller can look up
the reference that it gave with a call.
"""

from __future__ import annotations

from holdfast.web.sandboxes import Faults
from richpanel.sandbox.app import Sandbox, sandbox_app
from richpanel.sandbox.deliveries import DeliveryFaults
from richpanel.sandbox.desk import LedgerEntry

__all__ = ["DeliveryFaults", "Faults", "LedgerEntry", "Sandbox", "sandbox_app"]
