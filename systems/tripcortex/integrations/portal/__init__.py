"""Integration of the travel portal: search, price and book flights there, and behave well when it fails.

    ports.py          the port: offers, orders, and the five calls
    client.py         a portal with an API, over HTTP
    nova_act.py       a portal without an API, driven by Nova Act on AgentCore
    circuit.py        the circuit breaker that all processes share
    purchases.py      a trip is bought once, even if a process dies
    fallback_link.py  the link with which an employee books on the portal's own pages

A traveller is only an id here: the portal has the profile, and no personal data is in a row, an error or a
log.
"""

from __future__ import annotations
