"""Flows in a system's page: the diagram as the flow draws it, and for each state what leaves it, when, and what if that fails."""

from __future__ import annotations

import re
from dataclasses import replace

from holdfast import installed_system, installed_systems
from holdfast.flows import Wait
from holdfast.reports.documents import documents
from tests.unit.flows.errands import ERRANDS, STATES, SYSTEM, flow_of
from tests.unit.reports.dispatch_desk import SYSTEM as WITHOUT_FLOWS
from tests.unit.reports.test_documents import rows, strange_lines

STATE_LINES = (
    r"stateDiagram-v2",
    r"    \[\*\] --> \w+",
    r"    \w+ --> \[\*\]",
    r"    \w+ --> \w+ : [^:;#]+",
    r"    \w+ : [^:;#]+",
    r"    note right of \w+ : [^:;#]+",
)


def section(page: str) -> str:
    _, _, rest = page.partition("\n## Flows\n")
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_a_flow_is_drawn_and_each_state_is_told() -> None:
    told = section(documents(SYSTEM))
    assert "### The flow errand" in told and "the queue errand-steps" in told
    assert f"```mermaid\n{ERRANDS.diagram()}```" in told
    by_state = {row[0]: row[1:] for row in rows(told)[1:]}
    assert list(by_state) == [f"`{name}`" for name in ERRANDS.states]
    assert by_state["`asked`"] == [
        "`new`",
        "the step `Plan`",
        "`planned`, `failed`; cancelled to `cancelled`",
        "2 min at most",
        "`PartyFailed`: 3 tries, 1 s to 1 min apart; otherwise to one of its states",
    ]
    assert by_state["`offered`"] == [
        "`asked`",
        "waits for `choose`, `refuse`",
        "by `choose` to `chosen`; by `refuse` to `cancelled`; at the deadline to `cancelled`; cancelled to `cancelled`",
        "after 30 min",
        "",
    ]
    assert by_state["`booked`"][-1] == "parked"
    assert by_state["`failed`"] == ["`failed`", "an end, and a failure", "", "", ""]


def test_a_timer_and_a_deadline_that_is_given_are_told() -> None:
    timer = Wait(deadline_s=90, deadline_given=True, late_to="done", name="Rest")
    flow = flow_of((*STATES[:4], replace(STATES[4], does=timer), *STATES[5:]))
    [row] = [
        each for each in rows(section(documents(replace(SYSTEM, flows=(flow,))))) if each[0] == "`booked`"
    ]
    assert row[2:5] == [
        "`Rest`: a timer",
        "at the deadline to `done`",
        "after 90 s, unless it was given another",
    ]


def test_a_system_without_flows_has_no_such_section() -> None:
    assert "## Flows" not in documents(WITHOUT_FLOWS)


def test_the_flows_of_installed_systems_can_be_drawn() -> None:
    systems = [installed_system(name) for name in installed_systems()]
    drawn = [flow.diagram() for system in systems for flow in system.flows]
    assert drawn
    assert [line for diagram in drawn for line in strange_lines(diagram, STATE_LINES)] == []
