"""Flows on a system's documentation page: their diagrams, and each state's transitions and deadlines."""

from __future__ import annotations

import re
from dataclasses import replace

from holdfast.flows import Wait
from holdfast.model.system import load_system, load_systems
from holdfast.reports.docs.system_page import render_system_page
from tests.unit.flows.errands import ERRANDS, STATES, SYSTEM, make_flow
from tests.unit.reports.dispatch_desk import SYSTEM as WITHOUT_FLOWS
from tests.unit.reports.docs.test_system_page import find_unknown_lines, parse_rows

STATE_LINES = (
    r"stateDiagram-v2",
    r"    \[\*\] --> \w+",
    r"    \w+ --> \[\*\]",
    r"    \w+ --> \w+ : [^:;#]+",
    r"    \w+ : [^:;#]+",
    r"    note right of \w+ : [^:;#]+",
)


def get_section(page: str) -> str:
    """Return the text of the section "Flows"."""
    _, _, rest = page.partition("\n## Flows\n")
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_draws_a_flow_and_describes_each_state() -> None:
    text = get_section(render_system_page(SYSTEM))
    assert "### The flow errand" in text and "the queue errand-steps" in text
    assert f"```mermaid\n{ERRANDS.draw_diagram()}```" in text
    by_state = {row[0]: row[1:] for row in parse_rows(text)[1:]}
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
        "by `choose` to `chosen`; by `refuse` to `cancelled`; at the deadline to `cancelled`; cancelled to "
        "`cancelled`",
        "after 30 min",
        "",
    ]
    assert by_state["`booked`"][-1] == "parked"
    assert by_state["`failed`"] == ["`failed`", "end state (failure)", "", "", ""]


def test_describes_a_timer_whose_deadline_a_step_may_set() -> None:
    timer = Wait(deadline_s=90, deadline_from_next=True, deadline_to="done", name="Rest")
    flow = make_flow((*STATES[:4], replace(STATES[4], action=timer), *STATES[5:]))
    [row] = [
        each
        for each in parse_rows(get_section(render_system_page(replace(SYSTEM, flows=(flow,)))))
        if each[0] == "`booked`"
    ]
    assert row[2:5] == [
        "`Rest`: a timer",
        "at the deadline to `done`",
        "after 90 s, unless the step set another",
    ]


def test_system_without_flows_has_no_flow_section() -> None:
    assert "## Flows" not in render_system_page(WITHOUT_FLOWS)


def test_flows_of_installed_systems_can_be_drawn() -> None:
    systems = [load_system(name) for name in load_systems()]
    drawn = [flow.draw_diagram() for system in systems for flow in system.flows]
    assert drawn
    assert [line for diagram in drawn for line in find_unknown_lines(diagram, STATE_LINES)] == []
