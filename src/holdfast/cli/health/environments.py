"""Find the environments that have data in a store, from the names of its tables, queues or buckets.

An embedded store keeps the data of all environments in one file or folder. The environment is part of each
name: `Bookings-dev` and `Bookings-staging` are one declared table in two environments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from holdfast.config.settings import ENVIRONMENT_NAME

if TYPE_CHECKING:
    from holdfast.model.system import System

# Returns the name of a declared resource in an environment.
GetName: TypeAlias = Callable[[str], str]
# The environments in which a system has data, by the system's name.
EnvironmentsBySystem: TypeAlias = Mapping[str, Collection[str]]

# Shows where a name has its environment.
PROBE: Final = "zzzz"


def list_table_names(system: System) -> list[GetName]:
    """Return the functions that name the system's tables."""
    return [table.physical_name for table in system.tables]


def list_queue_names(system: System) -> list[GetName]:
    """Return the functions that name the system's queues and dead-letter queues."""
    return [
        partial(queue.physical_name, dead_letter=dead) for queue in system.queues for dead in (False, True)
    ]


def list_bucket_names(system: System) -> list[GetName]:
    """Return the functions that name the system's buckets."""
    return [bucket.physical_name for bucket in system.buckets]


def find_environments(
    names: Iterable[str], systems: Sequence[System], list_names: Callable[[System], list[GetName]]
) -> EnvironmentsBySystem:
    """Return the environments in which each system has one of these names; `""` is data without one.

    If a name fits several declared resources, the shortest environment is right: `events-dead-prod` is the
    dead-letter queue of `events` in `prod`, not the queue `events` in `dead-prod`.
    """
    found: dict[str, set[str]] = {}
    for name in names:
        matches = [
            (len(environment), environment, system.name)
            for system in systems
            for get_name in list_names(system)
            if (environment := _match_name(name, get_name, system.deployment.environments)) is not None
        ]
        if matches:
            _, environment, owner = min(matches)
            found.setdefault(owner, set()).add(environment)
    return found


def select_environments(found: EnvironmentsBySystem, system: System, configured: str) -> list[str]:
    """Return the environments of the system to check: those with data, and the configured one.

    Without data and without a configured environment, that is `""`.
    """
    own = found.get(system.name, ())
    return sorted({*own, configured} if configured or not own else own)


def format_environments(found: EnvironmentsBySystem) -> str:
    """Return `; environments: dev, staging`; empty if no environment has data."""
    every = {environment for environments in found.values() for environment in environments}
    named = sorted(every - {""})
    if not named:
        return ""
    return f"; environments: {', '.join(named)}{' and data without one' if '' in every else ''}"


def _match_name(name: str, get_name: GetName, known: Collection[str]) -> str | None:
    """Return the environment in which the resource has this name; None if there is none, or if any does.

    `known` are the environments that the system declares: its names may be defined for no other.
    """
    in_probe = _try_name(get_name, PROBE)
    if in_probe == name:
        return None
    for environment in ("", *known, *_guess_environment(name, in_probe)):
        if _try_name(get_name, environment) == name:
            return environment
    return None


def _try_name(get_name: GetName, environment: str) -> str:
    """Return the name in the environment; empty if the system refuses that environment."""
    # A system may name its buckets by a function of its own.
    with suppress(Exception):
        return get_name(environment)
    return ""


def _guess_environment(name: str, in_probe: str) -> list[str]:
    """Return the part of the name at the place of the environment, if the name may have one."""
    before, probe, after = in_probe.partition(PROBE)
    if not probe or not name.startswith(before) or not name.endswith(after):
        return []
    guess = name[len(before) : len(name) - len(after)]
    return [guess] if guess and ENVIRONMENT_NAME.fullmatch(guess) else []
