"""Flows in a system's page: the diagram as the flow draws it, and for each state what leaves it, when, and what if that fails."""

from __future__ import annotations

import re
from dataclasses import replace

from holdfast import load_system, load_systems
from holdfast.flows import Wait
from holdfast.reports.docs.system_page import render_system_page
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
    told = section(render_system_page(SYSTEM))
    assert "### The flow errand" in told and "the queue errand-steps" in told
    assert f"```mermaid\n{ERRANDS.draw_diagram()}```" in told
    by_state = {row[0]: row[1:] for row in rows(told)[1:]}
    assert list(by_state) == [f"`{name}`" for name in ERRANDS.states]
    assert by_state["`asked`"] == [
        "`new`",
        "the step `Plan`",
        "`planned`, `failed`; cancelled to `cancelled`",
        "2 min at most",
        "`PartyFailed`: 3 attempts, 1 s to 1 min apart; otherwise to one of its states",
    ]
    assert by_state["`offered`"] == [
        "`asked`",
        "waits for `choose`, `refuse`",
        "by `choose` to `chosen`; by `refuse` to `cancelled`; at the deadline to `cancelled`; cancelled to `cancelled`",
        "after 30 min",
        "",
    ]
    assert by_state["`booked`"][-1] == "parked"
    assert by_state["`failed`"] == ["`failed`", "end state (failure)", "", "", ""]


def test_a_timer_and_a_deadline_that_is_given_are_told() -> None:
    timer = Wait(deadline_s=90, deadline_from_next=True, deadline_to="done", name="Rest")
    flow = flow_of((*STATES[:4], replace(STATES[4], action=timer), *STATES[5:]))
    [row] = [
        each
        for each in rows(section(render_system_page(replace(SYSTEM, flows=(flow,)))))
        if each[0] == "`booked`"
    ]
    assert row[2:5] == [
        "`Rest`: a timer",
        "at the deadline to `done`",
        "after 90 s, unless the step set another",
    ]


def test_a_system_without_flows_has_no_such_section() -> None:
    assert "## Flows" not in render_system_page(WITHOUT_FLOWS)


def test_the_flows_of_installed_systems_can_be_drawn() -> None:
    systems = [load_system(name) for name in load_systems()]
    drawn = [flow.draw_diagram() for system in systems for flow in system.flows]
    assert drawn
    assert [line for diagram in drawn for line in strange_lines(diagram, STATE_LINES)] == []
