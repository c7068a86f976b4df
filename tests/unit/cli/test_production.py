"""Production settings: every host refuses to start while one is missing, and names all that are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.commands.up import _build_children
from holdfast.cli.processes.production import (
    list_component_problems,
    list_system_problems,
    require_production_settings,
)
from holdfast.cli.processes.workload import build_workload
from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError
from holdfast.model.demo import find_demo
from holdfast.model.system import RequiredSetting, System, list_system_names, load_system
from tests.cases import all_cases

PROD = Settings(
    environment="prod",
    api_host="0.0.0.0",
    api_token="a-token",
    allowed_hosts="api.example.com",
    keys="kms://us-east-1/alias/holdfast",
    cache="rediss://cache.example.com:6379/0",
)
EXAMPLES = {"text": "value-1", "address": "https://service.example.com", "secret": "0123456789abcdef"}
ALL = [
    (system, required)
    for system in list_system_names()
    for required in load_system(system).deployment.production
]


def get_variable(required: RequiredSetting) -> str:
    """Return the environment variable of a setting or secret."""
    if required.kind != "secret":
        return required.name
    return "HOLDFAST_SECRET_" + re.sub("[/-]", "_", required.name).upper()


@contextmanager
def complete_settings(system: System) -> Iterator[pytest.MonkeyPatch]:
    """Set everything that the system needs in production; yield a patch to change it."""
    with pytest.MonkeyPatch.context() as patch:
        for required in system.deployment.production:
            if required.kind != "unset" and required.name != "HOLDFAST_KEYS":
                patch.setenv(get_variable(required), EXAMPLES[required.kind])
        yield patch


def list_problems(system: System, settings: Settings) -> list[str]:
    workload = build_workload(system)
    return list(list_system_problems(settings, system, workload, host=settings.api_host))


# --- which environments -------------------------------------------------------------------------------------


@all_cases("name", ["prod", "production", "PROD", "live", "prod-eu", "production.2", "live_1"])
def test_environment_is_production_by_its_name(name: str) -> None:
    assert Settings(environment=name).is_production


@all_cases("name", ["", "dev", "test", "staging", "preprod", "product", "delivery", "nonprod", "alive"])
def test_other_environments_are_not(name: str) -> None:
    assert not Settings(environment=name).is_production
    require_production_settings(Settings(environment=name), ["anything"])


# --- what each system needs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list_system_names())
def test_complete_settings_have_no_problems(name: str) -> None:
    system = load_system(name)
    with complete_settings(system):
        assert list_problems(system, PROD) == []


@pytest.mark.parametrize(("name", "required"), ALL, ids=[f"{name} {each.name}" for name, each in ALL])
def test_each_missing_setting_is_refused_by_its_name(name: str, required: RequiredSetting) -> None:
    system, settings = load_system(name), PROD
    with complete_settings(system) as patch:
        if required.name == "HOLDFAST_KEYS":
            settings = replace(settings, keys=Settings().keys)
        elif required.kind == "unset":
            patch.setenv(required.name, "https://service.example.com")
        else:
            patch.delenv(get_variable(required))
        problems = list_problems(system, settings)
    assert all(required.name in each for each in problems) and problems
    assert required.purpose in "".join(problems) or required.name == "HOLDFAST_KEYS"


@pytest.mark.parametrize(
    ("name", "required"),
    [(name, each) for name, each in ALL if each.kind in ("address", "secret")],
    ids=[f"{name} {each.name}" for name, each in ALL if each.kind in ("address", "secret")],
)
def test_values_of_sandboxes_are_refused(name: str, required: RequiredSetting) -> None:
    system = load_system(name)
    values = (
        ("sandbox-secret", "a-Sandbox-key")
        if required.kind == "secret"
        else ("http://127.0.0.1:8081", "https://localhost", "https://portal.invalid", "http://a.example.com")
    )
    with complete_settings(system) as patch:
        for value in values:
            patch.setenv(get_variable(required), value)
            (problem, *_) = list_problems(system, PROD)
            assert required.name in problem
            assert value not in problem


@pytest.mark.parametrize("name", list_system_names())
def test_every_value_of_the_demo_is_refused(name: str) -> None:
    """What `holdfast up` sets for its sandboxes must never pass for production."""
    system = load_system(name)
    demo = find_demo(system)
    urls = {each: f"http://127.0.0.1:{8081 + number}" for number, each in enumerate(demo.sandboxes)}
    made = {} if demo.sandbox_variables is None else demo.sandbox_variables(urls, "http://127.0.0.1:8080")
    needed = {get_variable(each): each.name for each in system.deployment.production}
    for variable in made.keys() & needed.keys():
        with complete_settings(system) as patch:
            patch.setenv(variable, made[variable])
            assert any(needed[variable] in each for each in list_problems(system, PROD)), variable


@all_cases(
    ("system", "variable", "value"),
    [
        ("tripcortex", "TRIPCORTEX_AUTHORIZED_PARTIES", "https://trips.sandbox.invalid"),
        ("tripcortex", "TRIPCORTEX_ISSUER_URL", "http://127.0.0.1:8082"),
        ("pagw", "PAGW_TOKEN_AUDIENCE", "https://pagw.sandbox.invalid"),
        ("pagw", "PAGW_CLIENT_URL", "http://localhost:8083"),
    ],
)
def test_sandboxes_in_other_variables_are_refused_too(system: str, variable: str, value: str) -> None:
    loaded = load_system(system)
    with complete_settings(loaded) as patch:
        patch.setenv(variable, value)
        (problem,) = list_problems(loaded, PROD)
    assert problem.startswith(variable)


def test_components_need_only_their_own_settings() -> None:
    system = load_system("tripcortex")
    with complete_settings(system) as patch:
        for name in ("TRIPCORTEX_JWKS_URL", "HOLDFAST_SECRET_TRIPCORTEX_FLOW_TOKEN"):
            patch.delenv(name)
        assert list(list_system_problems(PROD, system, build_workload(system, "sender"))) == []
        assert len(list(list_system_problems(PROD, system, build_workload(system, "workflow")))) == 1
        assert list(list_component_problems(PROD, system, "agent")) == []


# --- what Holdfast needs ------------------------------------------------------------------------------------


@all_cases(
    ("system", "changes", "named"),
    [
        ("skymarshal", {"api_token": ""}, "HOLDFAST_API_TOKEN"),
        ("skymarshal", {"allowed_hosts": ""}, "HOLDFAST_ALLOWED_HOSTS"),
        ("skymarshal", {"run_clock": "now.txt"}, "HOLDFAST_RUN_CLOCK"),
        ("skymarshal", {"tables": "sqlite::memory:"}, "HOLDFAST_TABLES"),
        ("richpanel", {"queues": "sqlite::memory:"}, "HOLDFAST_QUEUES"),
        ("tripcortex", {"objects": "memory:"}, "HOLDFAST_OBJECTS"),
        ("tripcortex", {"sql": "postgres::temporary:"}, "HOLDFAST_SQL"),
        ("tripcortex", {"keys": "file:data/keys.json"}, "HOLDFAST_KEYS"),
        ("pagw", {"cache": "redis://cache.example.com:6379/0"}, "HOLDFAST_CACHE"),
        ("pagw", {"cache": "memory:"}, "HOLDFAST_CACHE=memory:"),
        ("agenticpm", {"reasoner": "claude"}, "HOLDFAST_SECRET_ANTHROPIC"),
    ],
)
def test_each_unsafe_setting_of_holdfast_is_refused(system: str, changes: dict[str, str], named: str) -> None:
    loaded = load_system(system)
    with complete_settings(loaded):
        (problem,) = list_problems(loaded, replace(PROD, **changes))  # type: ignore[arg-type]
    assert named in problem


@pytest.mark.parametrize("components", [(), ("api",), ("pasnotifier",)])
def test_no_process_of_several_has_a_cache_of_its_own(components: tuple[str, ...]) -> None:
    system, settings = load_system("pagw"), replace(PROD, cache="memory:")
    with complete_settings(system):
        workload = build_workload(system, *components)
        (problem,) = list_system_problems(settings, system, workload, host=settings.api_host)
        (same,) = list_component_problems(settings, system, "agent")
    assert problem == same
    assert problem.startswith("HOLDFAST_CACHE=memory: is a cache of each process") and "Redis" in problem


@pytest.mark.parametrize("name", ["skymarshal", "tripcortex"])
def test_systems_without_a_cache_need_no_redis(name: str) -> None:
    system = load_system(name)
    with complete_settings(system):
        assert list_problems(system, replace(PROD, cache="memory:")) == []


def test_apis_whose_callers_sign_need_no_token_and_local_ones_no_host_names() -> None:
    system = load_system("tripcortex")
    with complete_settings(system):
        local = replace(PROD, api_token="", allowed_hosts="", api_host="127.0.0.1")
        assert list_problems(system, local) == []


# --- the hosts ----------------------------------------------------------------------------------------------


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail with exit code 1; return what it prints on standard error."""
    with pytest.raises(SystemExit) as exited:
        main(words)
    assert exited.value.code == 1
    return capsys.readouterr().err


@pytest.fixture
def production(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name the environment production in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "prod")
    return tmp_path


@pytest.mark.parametrize("words", [("run", "tripcortex"), ("up", "tripcortex")])
def test_trip_cortex_without_an_issuer_does_not_start(
    production: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    printed = run_command(capsys, *words)
    for required in load_system("tripcortex").deployment.production:
        assert required.name in printed
    assert printed.count("\n") == 1 and printed.endswith("Nothing was started.\n")
    assert os.listdir(production) == []


def test_endpoint_without_credentials_does_not_start(
    production: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "HOLDFAST_CREDENTIALS" in run_command(capsys, "serve")
    printed = run_command(capsys, "serve", "--memory")
    assert "in memory" in printed and "HOLDFAST_CREDENTIALS" in printed
    assert os.listdir(production) == []


def test_mcp_with_a_clock_of_a_demo_does_not_start(
    production: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_RUN_CLOCK", "now.txt")
    assert "HOLDFAST_RUN_CLOCK" in run_command(capsys, "mcp", "skymarshal")


@all_cases("words", [("--sandbox", "issuer"), ("--sample",)])
def test_options_for_demos_are_refused_in_production(words: tuple[str, ...]) -> None:
    with complete_settings(load_system("tripcortex")) as patch:
        patch.setenv("HOLDFAST_ENVIRONMENT", "prod")
        patch.setenv("HOLDFAST_KEYS", "kms://us-east-1/alias/holdfast")
        with pytest.raises(SettingsError, match=f"{words[0]} is for demos"):
            main_raising("run", "tripcortex", *words)


def main_raising(*words: str) -> None:
    """Run a command and raise its error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_DEBUG", "1")
        main(words)


def test_up_starts_no_sandbox_in_production() -> None:
    system = load_system("tripcortex")
    names = [each.name for each in _build_children(replace(PROD, environment="dev"), [system])]
    assert any("sandbox" in each for each in names)
    assert not any("sandbox" in each.name for each in _build_children(PROD, [system]))
