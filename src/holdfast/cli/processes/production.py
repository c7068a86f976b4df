"""Check at the start of every host that the settings are complete and safe for production.

An environment is production if its name says so (`Settings.is_production`). Each system declares what it
needs there (`Deployment(production=…)`); Holdfast's own settings are checked here. The check collects
everything that is missing, so that an operator learns it from the first attempt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from holdfast.cli.processes.workload import Workload, get_address_variable, plan_processes
from holdfast.config.settings import (
    CLAUDE,
    DEFAULT_KEYS,
    FILE_SCHEME,
    IN_MEMORY,
    MEMORY_CACHE,
    MEMORY_OBJECTS,
    REDIS_SCHEMES,
    TEMPORARY_SQL,
    Settings,
    get_variable_name,
)
from holdfast.core.errors import SecretMissing, SettingsError
from holdfast.core.http.addresses import is_loopback

if TYPE_CHECKING:
    from holdfast.model.system import RequiredSetting, System

KEYS_PURPOSE: Final = "the encryption keys: a KMS key, or a file outside the data folder"
# In the names and values of every demo; RFC 2606 reserves the domain, so that no service has it.
_SANDBOX: Final = "sandbox"
_INVALID_DOMAIN: Final = ".invalid"
_OFF: Final = ("0", "false", "off")


def require_production_settings(settings: Settings, problems: Iterable[str]) -> None:
    """Raise `SettingsError` with all problems, if the environment is production and there are any."""
    if not settings.is_production:
        return
    found = list(dict.fromkeys(problems))
    if found:
        listed = " ".join(f"({number}) {each}" for number, each in enumerate(found, 1))
        raise SettingsError(
            f"The environment {settings.environment} is production, and its settings are not ready for it. "
            f"{listed} Nothing was started."
        )


def list_system_problems(
    settings: Settings, system: System, workload: Workload, *, host: str | None = None
) -> Iterator[str]:
    """Yield what a process of this system lacks for production. `host` is the address that it serves, if it
    serves HTTP.
    """
    yield from _list_store_problems(settings, system)
    if host is not None:
        yield from _list_api_problems(settings, workload, host)
    for required in system.deployment.production:
        if _is_needed(required, workload) and (problem := _find_problem(settings, required)):
            yield problem
    yield from _list_sandbox_problems(system)


def list_component_problems(settings: Settings, system: System, component: str) -> Iterator[str]:
    """Yield what a component that serves no HTTP lacks for production, such as `agent`."""
    workers = tuple(each for each in system.components if each.name == component)
    yield from list_system_problems(settings, system, Workload(workers=workers))


def list_endpoint_problems(settings: Settings, *, has_credentials: bool, in_memory: bool) -> Iterator[str]:
    """Yield what the DynamoDB endpoint lacks for production."""
    if in_memory:
        yield "The tables are in memory and end with the process: name a folder with --data."
    if not has_credentials:
        yield (
            "The endpoint has no credentials, so every program on this machine may call it: set "
            f"{get_variable_name('credentials')} to a file of them."
        )
    yield from _list_clock_problems(settings)


def list_console_problems(settings: Settings, systems: Sequence[System]) -> Iterator[str]:
    """Yield what the console over these systems lacks for production."""
    if settings.has_console_demo:
        yield (
            "The console has no users, and signs everybody in with one click: set "
            f"{get_variable_name('console_users')} to a file of users, or "
            f"{get_variable_name('console_oidc_issuer')} to an identity provider."
        )
    if not settings.console_url.startswith("https://"):
        yield _format_missing(
            get_variable_name("console_url"),
            "the https address of the console, so that sign-ins are encrypted",
        )
    if _is_of_sandbox(settings.console_oidc_issuer) or is_loopback(_get_host(settings.console_oidc_issuer)):
        yield f"{get_variable_name('console_oidc_issuer')} is not a real identity provider: set another."
    for system in systems:
        yield from _list_store_problems(settings, system)


def list_demo_problems(option: str) -> Iterator[str]:
    """Yield the problem of an option that is for demos only."""
    yield f"{option} is for demos: leave it out."


# --- Holdfast's own settings --------------------------------------------------------------------------------


def _list_store_problems(settings: Settings, system: System) -> Iterator[str]:
    """Yield the stores that lose data, are not encrypted, or are protected by a key that lies next to
    them.
    """
    yield from _list_clock_problems(settings)
    for name, lost, is_used in (
        ("tables", IN_MEMORY, bool(system.tables)),
        ("queues", IN_MEMORY, bool(system.queues)),
        ("objects", MEMORY_OBJECTS, bool(system.buckets)),
        ("sql", TEMPORARY_SQL, bool(system.schemas)),
    ):
        if is_used and getattr(settings, name) == lost:
            yield f"{get_variable_name(name)}={lost} ends with the process: name a store that lasts."
    if system.buckets and settings.objects.startswith(FILE_SCHEME) and settings.keys == DEFAULT_KEYS:
        yield _format_missing(get_variable_name("keys"), KEYS_PURPOSE)
    if settings.cache == MEMORY_CACHE and _shares_a_cache(system):
        yield (
            f"{get_variable_name('cache')}={MEMORY_CACHE} is a cache of each process, and {system.name} "
            "runs in several: name a Redis that they share."
        )
    redis = urlsplit(settings.cache)
    if settings.cache.startswith(REDIS_SCHEMES[0]) and not is_loopback(redis.hostname or ""):
        yield f"{get_variable_name('cache')} is not encrypted: use rediss://."
    if settings.reasoner == CLAUDE:
        problem = _find_secret_problem(settings, settings.reasoner_secret, "the API key of the model")
        yield from [] if problem is None else [problem]


def _shares_a_cache(system: System) -> bool:
    """Return whether several processes of the system use the cache."""
    from holdfast.reports.used_stores import find_used_stores

    return len(plan_processes(system)) > 1 and find_used_stores(system, [None]).has_cache


def _list_clock_problems(settings: Settings) -> Iterator[str]:
    if settings.run_clock:
        yield f"{get_variable_name('run_clock')} moves the time by hand: unset it."


def _list_api_problems(settings: Settings, workload: Workload, host: str) -> Iterator[str]:
    """Yield what protects the routes of a process and is missing."""
    if not settings.api_token and not all(each.has_own_authentication for each in workload.routes):
        yield _format_missing(get_variable_name("api_token"), "the token of every caller of the API")
    if workload.routes and not is_loopback(host) and not settings.host_names:
        yield _format_missing(
            get_variable_name("allowed_hosts"), "the host names under which clients call the API"
        )


# --- what a system declares ---------------------------------------------------------------------------------


def _is_needed(required: RequiredSetting, workload: Workload) -> bool:
    """Return whether a process with this workload needs the setting."""
    if not required.components or None in workload.components:
        return True
    return not set(required.components).isdisjoint(workload.components)


def _find_problem(settings: Settings, required: RequiredSetting) -> str | None:
    """Return what is wrong with a setting, or None."""
    if required.kind == "secret":
        return _find_secret_problem(settings, required.name, required.purpose)
    value = _get_value(settings, required.name)
    if required.kind == "unset":
        return f"{required.name} is set: unset it, because {required.purpose}." if _is_on(value) else None
    if not value:
        return _format_missing(required.name, required.purpose)
    if _is_of_sandbox(value):
        return f"{required.name} has a value of the demo's sandboxes: set {required.purpose}."
    if required.kind == "address" and not _is_secure_address(value):
        return f"{required.name} is not an https address of another machine: set {required.purpose}."
    return None


def _get_value(settings: Settings, variable: str) -> str:
    """Return the value of a variable; empty if it is not set, or is the default location of the keys."""
    if variable == get_variable_name("keys"):
        return "" if settings.keys == DEFAULT_KEYS else settings.keys
    return os.environ.get(variable, "")


def _find_secret_problem(settings: Settings, name: str, purpose: str) -> str | None:
    """Return what is wrong with a secret, or None. Its value is not shown."""
    from holdfast.runtime import open_secrets

    try:
        secret = open_secrets(settings).get(name)
    except SecretMissing as missing:
        return f"{missing.message.removesuffix('.')}: {purpose}."
    if any(_is_of_sandbox(each) for each in secret.live):
        return f"The secret {name!r} has a value of the demo's sandboxes: set {purpose}."
    return None


def _list_sandbox_problems(system: System) -> Iterator[str]:
    """Yield the variables that point at sandboxes: the address of a service on this machine, or a value of
    the demo.
    """
    from holdfast.model.demo import find_working_demo

    addresses = [get_address_variable(system, name) for name in find_working_demo(system).sandboxes]
    checked = {each.name for each in system.deployment.production}
    for variable, value in os.environ.items():
        is_of_system = variable.startswith(f"{system.name.upper()}_") and variable not in checked
        is_local = variable in addresses and is_loopback(_get_host(value))
        if is_of_system and (is_local or _is_of_sandbox(value)):
            yield f"{variable} has a value of the demo's sandboxes: set another, or unset it."


def _is_on(value: str) -> bool:
    """Return whether a variable that must be unset has a value other than off."""
    return bool(value) and value.lower() not in _OFF


def _is_of_sandbox(value: str) -> bool:
    return _SANDBOX in value.lower() or _get_host(value).endswith(_INVALID_DOMAIN)


def _is_secure_address(value: str) -> bool:
    host = _get_host(value)
    return value.startswith("https://") and bool(host) and not is_loopback(host)


def _get_host(address: str) -> str:
    """Return the host of a URL in lower case; empty if it has none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _format_missing(name: str, purpose: str) -> str:
    return f"{name} is missing: set {purpose}."
