"""Flows: declared states and steps over an item, with waits for people, timers, deadlines and cancellation.

`item`, its `history` and `executions` are what is stored, `declaration` and `checks` what a system declares;
`flow` combines them. A step runs message → `worker` → `transition`, one transaction. `bookkeeping` records
failed attempts, `sweeper` resends what is due, `answers` handles what people do. `diagram` and
`states_language` draw the declaration.
"""

from __future__ import annotations

from holdfast.flows.declaration import Answer, Cancel, Next, Retry, State, Step, StepContext, Wait
from holdfast.flows.executions import FLOWS, Execution, ParkedFor, StepMessage
from holdfast.flows.flow import Flow
from holdfast.flows.history import Visit, parse_history
from holdfast.flows.item import FlowItem

__all__ = [
    "FLOWS",
    "Answer",
    "Cancel",
    "Execution",
    "Flow",
    "FlowItem",
    "Next",
    "ParkedFor",
    "Retry",
    "State",
    "Step",
    "StepContext",
    "StepMessage",
    "Visit",
    "Wait",
    "parse_history",
]
