"""Derived files of all installed systems: cfn-lint, HCL parser, format, diagrams and IAM policies."""

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
from tests.unit.reports.docs.test_system_page import ENTITY_LINES, FLOW_LINES, find_unknown_lines
from tests.unit.reports.iac.iam_simulator import is_allowed, record_actions_by_pattern
from tests.unit.reports.iac.test_terraform import find_format_errors


@pytest.fixture(params=sorted(load_systems()))
def system(request: pytest.FixtureRequest) -> System:
    return load_system(request.param)


def test_template_passes_the_linter(system: System) -> None:
    found = lint(render_template(system, all_indexes=True), config=ManualArgs(regions=["us-east-1"]))

    assert [f"{each.rule.id} {each.message}" for each in found] == []


def test_module_parses_and_is_formatted(system: System) -> None:
    for name, text in render_module(system, all_indexes=True).items():
        assert hcl2.loads(text), name
        assert find_format_errors(text) == [], name


def test_diagrams_can_be_drawn(system: System) -> None:
    assert find_unknown_lines(draw_entities(system), ENTITY_LINES) == []
    assert find_unknown_lines(draw_access(system), FLOW_LINES) == []


@pytest.mark.proves("SM-36")
def test_every_component_is_allowed_to_run_its_patterns(system: System) -> None:
    actions_by_pattern = asyncio.run(record_actions_by_pattern(system))
    files = build_policy_files(system)

    for component in system.components:
        start = f"{system.name}-{component.name}"
        policies = [json.loads(text) for name, text in files.items() if name.startswith(start)]
        for declared in component.patterns:
            assert actions_by_pattern[declared.id], declared.id
            assert all(is_allowed(policies, each) for each in actions_by_pattern[declared.id]), (
                component.name,
                declared.id,
            )
