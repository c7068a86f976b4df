"""What is derived from the systems that are installed passes the judges: linter, parser, formatter, policies."""

from __future__ import annotations

import asyncio
import json

import hcl2
import pytest
from cfnlint.api import ManualArgs, lint

from holdfast import System, load_system, load_systems
from holdfast.reports.docs.mermaid import draw_access, draw_entities
from holdfast.reports.iac.cloudformation import render_template
from holdfast.reports.iac.terraform import render_module
from holdfast.reports.iam.policies import build_policy_files
from tests.unit.reports.iam_simulator import allows, asked_by_pattern
from tests.unit.reports.test_documents import ENTITY_LINES, FLOW_LINES, strange_lines
from tests.unit.reports.test_terraform import misplaced


@pytest.fixture(params=sorted(load_systems()))
def system(request: pytest.FixtureRequest) -> System:
    return load_system(request.param)


def test_the_template_passes_the_linter(system: System) -> None:
    found = lint(render_template(system, all_indexes=True), config=ManualArgs(regions=["us-east-1"]))

    assert [f"{each.rule.id} {each.message}" for each in found] == []


def test_the_module_parses_and_is_formatted(system: System) -> None:
    for name, text in render_module(system, all_indexes=True).items():
        assert hcl2.loads(text), name
        assert misplaced(text) == [], name


def test_the_diagrams_can_be_drawn(system: System) -> None:
    assert strange_lines(draw_entities(system), ENTITY_LINES) == []
    assert strange_lines(draw_access(system), FLOW_LINES) == []


@pytest.mark.proves("SM-36")
def test_every_component_may_do_what_its_patterns_do(system: System) -> None:
    asked = asyncio.run(asked_by_pattern(system))
    files = build_policy_files(system)

    for component in system.components:
        start = f"{system.name}-{component.name}"
        policies = [json.loads(text) for name, text in files.items() if name.startswith(start)]
        for declared in component.patterns:
            assert asked[declared.id], declared.id
            assert all(allows(policies, each) for each in asked[declared.id]), (component.name, declared.id)
