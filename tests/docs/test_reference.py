"""The reference pages are complete: commands, options, settings, variables, errors and declarations."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from holdfast import Bucket, Component, Consumer, Queue, Schedule, System, guarantees
from holdfast.config.settings import Settings, get_variable_name, list_setting_names
from holdfast.core import errors, limits
from holdfast.core.http import content_coding
from holdfast.guarantees.table_migration import Pace
from holdfast.model.agents import Prompt, ToolFunction
from holdfast.model.demo import Demo
from holdfast.model.objects import ObjectKind
from holdfast.model.system import Admin, Explanation, RequiredSetting, list_system_names, load_systems
from holdfast.web import bodies, server
from holdfast.wire.http.server import Bounds
from tests.cases import all_cases
from tests.docs import pages
from tests.docs.commands import list_command_names, list_options

COMMANDS = pages.DOCS / "reference" / "commands.md"
SETTINGS = pages.DOCS / "reference" / "settings.md"
HTTP = pages.DOCS / "reference" / "http.md"
ERRORS = pages.DOCS / "reference" / "errors.md"
MODEL = pages.DOCS / "reference" / "model.md"
GUARANTEE_PAGES = pages.DOCS / "reference" / "guarantees"
INSTALLATION = pages.DOCS / "reference" / "installation.md"

WITH_A_CODE_OF_THEIR_OWN = (errors.AccessRefused, errors.CallerRefused, errors.ExternalServiceRefused)
ERROR_CLASSES = {
    name: found
    for name, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, errors.HoldfastError)
}


def test_every_command_has_its_section_and_every_section_its_command() -> None:
    documented = {
        heading.strip("`").removeprefix("holdfast ")
        for heading in pages.split_sections(COMMANDS, 2)
        if heading.startswith("`holdfast ")
    }

    assert documented == list_command_names()


@all_cases("command", ["", *sorted(list_command_names())])
def test_every_option_is_in_its_commands_section(command: str) -> None:
    heading = f"`holdfast {command}`" if command else "For every command"
    section = pages.split_sections(COMMANDS, 2).get(heading, "")
    named = [span.split()[0] for row in pages.parse_rows(section) for span in pages.find_code_spans(row[0])]

    assert sorted(named) == sorted(list_options(command) - {"--help"})


def test_every_setting_is_documented_with_its_variable_and_default() -> None:
    section = pages.split_sections(SETTINGS, 2)["The settings"]
    documented = {tuple(cell.strip("`") for cell in row[:3]) for row in pages.parse_rows(section)}

    defaults = Settings()
    assert documented == {
        (name, get_variable_name(name), str(getattr(defaults, name)) or "none")
        for name in list_setting_names()
    }


def test_every_variable_the_code_reads_is_documented() -> None:
    read = {get_variable_name(name) for name in list_setting_names()}
    for module in (pages.ROOT / "src").rglob("*.py"):
        read |= set(re.findall(r"\bHOLDFAST_[A-Z][A-Z_]*[A-Z]\b", module.read_text(encoding="utf-8")))
    named = {
        span for span in pages.find_code_spans(pages.read_prose(SETTINGS)) if span.startswith("HOLDFAST_")
    }

    assert named == read


def test_the_settings_of_each_system_in_production_are_documented() -> None:
    section = pages.split_sections(SETTINGS, 2)["Production"]
    named = set(pages.find_code_spans(section))
    declared = {each.name for system in load_systems().values() for each in system.deployment.production} - {
        "HOLDFAST_KEYS"
    }
    prefixes = tuple(name.upper() + "_" for name in load_systems())
    assert declared <= named
    assert {each for each in named if each.startswith(prefixes)} <= declared


def test_the_limits_of_requests_are_those_of_the_code() -> None:
    rows = {row[0]: row[1] for row in pages.parse_rows(pages.split_sections(HTTP, 2)["Limits"])}
    kib, endpoint = limits.KIB, Bounds()
    assert rows["request target (path and query)"] == f"{endpoint.max_target_bytes // kib} KiB"
    assert rows["headers, also trailers: together"] == f"{endpoint.max_head_bytes // kib} KiB"
    assert rows["headers, also trailers: number"] == str(endpoint.max_headers)
    assert rows["time until a head is complete"] == f"{endpoint.head_timeout_s:g} s"
    body = rows["time until a body is complete"]
    assert body.startswith(f"{endpoint.body_timeout_s:g} s at the endpoint") and bodies.MAX_BODY_S == 30
    assert f"{server.BOUNDS.body_timeout_s / 60:g} minutes for uploads" in body
    assert (
        rows["body at the endpoint, before and after decoding"]
        == f"{endpoint.max_body_bytes // limits.MIB} MiB"
    )
    assert (
        rows["all large bodies at the endpoint together"]
        == f"{endpoint.max_total_body_bytes // limits.MIB} MiB"
    )
    assert rows["a response that the client does not read"] == f"{endpoint.write_timeout_s:g} s"
    assert rows["an idle connection"] == f"{endpoint.keep_alive_s:g} s"
    assert rows["connections"] == str(endpoint.max_connections)
    assert rows["a message over a WebSocket"] == f"{server.MAX_WEBSOCKET_BYTES // kib} KiB"
    assert f"at most {content_coding.MAX_MEMBERS:,} members" in HTTP.read_text(encoding="utf-8")
    assert content_coding.MAX_CODINGS == 2


def test_every_error_is_documented_with_its_code() -> None:
    documented = {row[0].strip("`"): row[1].strip("`") for row in pages.parse_rows(pages.read_prose(ERRORS))}

    assert documented == {name: _read_code(found) for name, found in ERROR_CLASSES.items()}


def test_every_error_says_what_it_means_and_what_to_do() -> None:
    for row in pages.parse_rows(pages.read_prose(ERRORS)):
        assert len(row) == 4, row
        assert row[2], row
        assert row[3], row


def _read_code(found: type[errors.HoldfastError]) -> str:
    """Return the error's code, or "varies" if each error has its own."""
    return "varies" if found in WITH_A_CODE_OF_THEIR_OWN else found.code


# --- declarations -------------------------------------------------------------------------------------------

DECLARATIONS = (
    *(Demo, Queue, Bucket, ObjectKind, Component, Consumer, Schedule, Explanation, RequiredSetting, System),
    *(Admin, ToolFunction, Prompt),
)


@all_cases("declaration", DECLARATIONS)
def test_the_reference_documents_every_parameter_of_a_declaration(declaration: type) -> None:
    reference = pages.split_sections(MODEL, 2)["Reference"]
    # Of `System(name, …)` the arguments, of `a`, `b` in the first column of a table both.
    named = {word for span in pages.find_code_spans(reference) for word in re.findall(r"\w+", span)}

    taken = {each.name for each in fields(declaration) if each.init}
    assert taken - named == set()


# --- guarantees ---------------------------------------------------------------------------------------------

GUARANTEES: dict[str, tuple[Callable[..., Any], ...]] = {
    "audit": (guarantees.Audit,),
    "breaker": (guarantees.Breaker,),
    "cache": (guarantees.ReadThrough,),
    "delayed_actions": (guarantees.DelayedActions,),
    "idempotency": (guarantees.Once,),
    "inbox": (guarantees.SqlInbox,),
    "lease": (guarantees.Lease,),
    "outbox": (guarantees.Outbox, guarantees.SqlOutbox),
    "rate_limits": (guarantees.RateLimit, guarantees.WindowLimit),
    "redaction": (guarantees.Redactor,),
    "retention": (guarantees.erase,),
    "sessions": (guarantees.Sessions,),
    "table_migration": (guarantees.Migration, Pace),
}
HEADINGS = ["Promise", "Declare", "Use", "Parameters", "Limits", "Failures", "Cost"]


def test_every_guarantee_has_a_page_with_the_same_headings() -> None:
    found = {page.stem: list(pages.split_sections(page, 2)) for page in GUARANTEE_PAGES.glob("*.md")}

    assert found == dict.fromkeys(GUARANTEES, HEADINGS)


@pytest.mark.parametrize("name", GUARANTEES)
def test_the_page_of_a_guarantee_lists_its_parameters(name: str) -> None:
    page = pages.split_sections(GUARANTEE_PAGES / f"{name}.md", 2)["Parameters"]
    named = {word for row in pages.parse_rows(page) for word in re.findall(r"\w+", row[0])}

    taken = {each for declared in GUARANTEES[name] for each in inspect.signature(declared).parameters}
    assert taken - named == set()


# --- installation -------------------------------------------------------------------------------------------


def test_the_installation_page_describes_every_extra() -> None:
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = pages.parse_rows(pages.split_sections(INSTALLATION, 2)["The library"])

    assert {row[0].strip("`") for row in rows} == set(project["optional-dependencies"])


@pytest.mark.parametrize("page", [pages.ROOT / "README.md", INSTALLATION], ids=pages.format_path)
def test_the_page_names_the_python_versions_of_the_metadata(page: Path) -> None:
    metadata = (pages.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = re.findall(r"Python :: (3\.\d+)", metadata)

    assert f"Python {versions[0]} to {versions[-1]}" in page.read_text(encoding="utf-8")


def test_the_installation_page_names_the_distribution_of_every_system() -> None:
    rows = pages.parse_rows(pages.split_sections(INSTALLATION, 2)["The systems"])

    assert sorted(row[0] for row in rows) == sorted(
        f"`pip install 'holdfast-{name}[demo]'`" for name in list_system_names()
    )


def list_stored_deadlines() -> set[str]:
    """Return the names of attributes and columns that are deadlines, in Python's spelling."""
    golden = pages.ROOT / "tests" / "repo" / "golden"
    attributes = [
        name.split("(")[-1].strip(" )")
        for line in json.loads((golden / "documents.json").read_text())
        for name in line.split(",")
    ]
    columns = re.findall(
        r"^\w+\.\w+\.(\w+): timestamp",
        "\n".join(json.loads((golden / "sql_schemas.json").read_text())),
        re.MULTILINE,
    )
    is_deadline = re.compile(
        r"(\w+_)?(until|expires_at|attempt_at)|(flow_)?due|not_before|retry_at|inquire_at|due_at|ends_at"
    )
    return {name for name in (*attributes, *columns) if is_deadline.fullmatch(name)}


def test_every_stored_deadline_is_in_the_list_of_clocks() -> None:
    listed = set(pages.find_code_spans((pages.DOCS / "reference" / "clocks.md").read_text()))
    found = list_stored_deadlines()
    assert {"until", "act_until", "due", "claimed_until"} <= found
    assert found - listed == set()
