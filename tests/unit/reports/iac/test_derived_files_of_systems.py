"""Derived files of all installed systems: cfn-lint, HCL parser, format, diagrams and IAM policies."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from holdfast import System, Table
from holdfast.core.errors import DeclarationError
from holdfast.model.queues import Queue
from holdfast.model.system import load_system, load_systems
from holdfast.reports.docs.mermaid import draw_access, draw_entities
from holdfast.reports.iac.cloudformation import build_template, render_template
from holdfast.reports.iac.terraform import render_module
from holdfast.reports.iac.yaml_writer import write_yaml
from holdfast.reports.iam.policies import build_policy_files
from tests.unit.reports import dispatch_desk, post_room, surgery
from tests.unit.reports.docs.test_system_page import ENTITY_LINES, FLOW_LINES, find_unknown_lines
from tests.unit.reports.iac.iam_simulator import is_allowed, record_actions_by_pattern
from tests.unit.reports.iac.validators import find_format_errors, find_lint_errors, parse_hcl
from tests.unit.reports.post_room import Letter


@pytest.fixture(params=sorted(load_systems()))
def system(request: pytest.FixtureRequest) -> System:
    return load_system(request.param)


# The small systems have every kind of resource, with the settings that no installed system uses.
SMALL_SYSTEMS = {each.name: each for each in (dispatch_desk.SYSTEM, post_room.SYSTEM, surgery.SYSTEM)}


@pytest.mark.parametrize("name", sorted(load_systems() | SMALL_SYSTEMS))
def test_template_passes_the_linter(name: str) -> None:
    template = build_template(SMALL_SYSTEMS.get(name) or load_system(name), all_indexes=True)

    assert find_lint_errors(write_yaml(drop_repeated_alarms(template))) == []


def drop_repeated_alarms(template: dict[str, Any]) -> dict[str, Any]:
    """Keep one alarm for each metric: the others differ in names only and take most of the time."""
    kept: dict[str, str] = {}
    for id, resource in template["Resources"].items():
        metrics = re.findall(r"'MetricName': '(\w+)'", str(resource))
        kept.setdefault(metrics[0] if metrics else id, id)
    return template | {"Resources": {id: template["Resources"][id] for id in kept.values()}}


def test_linter_reports_a_broken_template() -> None:
    text = render_template(post_room.SYSTEM)
    broken = text.replace("PAY_PER_REQUEST", "PAY_LATER", 1).replace(
        "SSEAlgorithm: aws:kms", "SSEAlgorithm: rot13"
    )

    found = " ".join(find_lint_errors(broken))
    assert "PAY_LATER" in found and "rot13" in found


@pytest.mark.parametrize("name", sorted(load_systems() | SMALL_SYSTEMS))
def test_module_parses_and_is_formatted(name: str) -> None:
    system = SMALL_SYSTEMS.get(name) or load_system(name)

    for file, text in render_module(system, all_indexes=True).items():
        assert parse_hcl(text), file
        assert find_format_errors(text) == [], file


@pytest.mark.parametrize("name", sorted(SMALL_SYSTEMS))
def test_template_parses_to_what_was_built(name: str) -> None:
    system = SMALL_SYSTEMS[name]

    assert yaml.load(render_template(system), Loader=yaml.CSafeLoader) == build_template(system)


def render_files(system: System, **options: Any) -> str:
    """Return the whole Terraform module as one text."""
    return "".join(render_module(system, **options).values())


both = pytest.mark.parametrize("render", [render_template, render_files], ids=["cloudformation", "terraform"])


@both
def test_optional_index_is_included_only_with_all_indexes(render: Callable[..., str]) -> None:
    progress = "by-team-OnlineIndexPercentageProgress"

    assert progress not in render(dispatch_desk.SYSTEM)
    assert progress in render(dispatch_desk.SYSTEM, all_indexes=True)


@both
def test_environment_has_a_default_only_if_given(render: Callable[..., str]) -> None:
    default = re.compile(r'default\W+"?prod\b', re.IGNORECASE)

    assert not default.search(render(dispatch_desk.SYSTEM))
    assert default.search(render(dispatch_desk.SYSTEM, environment="prod"))


@both
@pytest.mark.parametrize(
    "system",
    [
        System("twins", "Twins.", tables=(Table("crew-roster", "id"), Table("crew_roster", "id"))),
        System("twins", "Twins.", queues=(Queue("late-mail", Letter), Queue("late_mail", Letter))),
        System("twins", "Twins.", queues=(Queue("mail", Letter), Queue("mail-dead-letters", Letter))),
    ],
    ids=["tables", "queues", "dead letters"],
)
def test_rejects_two_resources_with_the_same_name(render: Callable[..., str], system: System) -> None:
    with pytest.raises(DeclarationError, match="both become"):
        render(system)


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
