"""Flows: declared states and steps over an item, with waits for people, timers, deadlines and cancellation.

`item` and `places` are what is kept, `declaration` and `checks` what a system says; `flow` puts them together. A step goes
message → `driving` → `transition`, one transaction; `noting` is what is written when it did not come to that, `sweeping`
what is due, `answering` what people do. `diagram` and `states_language` draw the declaration.
"""

from __future__ import annotations

from holdfast.flows.declaration import Answer, Cancel, Next, Retry, Run, State, Step, Wait
from holdfast.flows.flow import Flow
from holdfast.flows.item import FlowItem
from holdfast.flows.places import FLOWS, ParkedFor, Place, StepMessage

__all__ = [
    "FLOWS",
    "Answer",
    "Cancel",
    "Flow",
    "FlowItem",
    "Next",
    "ParkedFor",
    "Place",
    "Retry",
    "Run",
    "State",
    "Step",
    "StepMessage",
    "Wait",
]
