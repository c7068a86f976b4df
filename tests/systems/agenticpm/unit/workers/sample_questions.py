"""A function that creates a sample escalation with two options, for tests."""

from __future__ import annotations

from typing import Any

from agenticpm.model.entities import Escalation, Option, ProjectId
from agenticpm.workers.escalations import build_escalation
from holdfast import Stores
from tests.systems.agenticpm.unit.writers.sample_contents import PROJECT

OPTIONS = (
    Option(option="Delay", pros=["Lower risk"], cons=["Four weeks later"]),
    Option(option="Rush", pros=["On time"], cons=["Quality"]),
)


async def create_escalation(stores: Stores, project_id: ProjectId = PROJECT, **changes: Any) -> Escalation:
    """Create the sample escalation and return it; `changes` override its fields."""
    question: dict[str, Any] = {
        "title": "Beta launch is at risk",
        "context": {"milestone": "Beta launch", "days_late": 21},
        "options": OPTIONS,
        "recommendation": "Delay",
        "rationale": "The vendor migration takes three weeks",
    }
    writes = await build_escalation(stores, project_id, **question | changes)
    await stores.transact(*writes)
    put: Any = writes[0]
    asked: Escalation = put.entity
    return asked
