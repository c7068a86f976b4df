"""The travel portal: how flights are found, priced and booked there, and what holds when it fails.

    ports.py        what the rest of Trip Cortex knows of a portal: offers, orders, and the five calls
    client.py       a portal with an API, over HTTP
    nova_act.py     a portal without one, worked by Nova Act on AgentCore
    circuit.py      keeps everybody from a portal that fails, in all processes at once
    booking_once.py a trip booked once, whoever dies over it
    fallback.py     the link by which an employee books alone when the portal cannot be worked

A traveller is a pointer here: the portal knows the profile behind it, and nothing of a person stands in a row, an error
or a log.
"""

from __future__ import annotations
