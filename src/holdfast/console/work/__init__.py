"""The work pages: queues, outboxes, delayed actions, flows, breakers, leases, and why something happened.

`summary` reads all of it for /work; the other modules without `_routes` compute what a page shows, and know
no HTML. Everything is found by what a system declares.
"""

from __future__ import annotations

from holdfast.console.work.routes import add_topics, router

__all__ = ["add_topics", "router"]
