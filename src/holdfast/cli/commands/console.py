"""`holdfast console`: serve the web console over the installed systems, or keep its users.

holdfast console                                   serve
holdfast console users                             list the users
holdfast console users add NAME --role ROLE        add one; the password is asked for, or read from stdin
holdfast console users password NAME               set another password, which ends the sign-ins
holdfast console users remove NAME                 remove one, which ends the sign-ins
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from holdfast.cli.arguments.system_names import load_installed
from holdfast.cli.commands.serve import parse_port
from holdfast.cli.extras import get_all_extras, require_extras
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings
from holdfast.core.errors import InvalidRequest, NotFound, SettingsError
from holdfast.core.logs import setup_logs

if TYPE_CHECKING:
    from holdfast.console.sign_in.user_file import LocalUser, UserFile
    from holdfast.model.system import System
    from holdfast.runtime import Stores

# For systems that need an environment, if the settings have none: `holdfast up` runs them in it.
DEFAULT_ENVIRONMENT: Final = "dev"
REMOTE_NEEDS: Final = "Add users with `holdfast console users add`, and name their file in `console_users`"


class Part(StrEnum):
    USERS = "users"


class UserAction(StrEnum):
    LIST = "list"
    ADD = "add"
    PASSWORD = "password"
    REMOVE = "remove"


def console(
    part: Annotated[
        Part | None, typer.Argument(metavar="users", help="Keep the users instead of serving.")
    ] = None,
    action: Annotated[
        UserAction | None, typer.Argument(metavar="ACTION", help="What to do with users. Default: list.")
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The user.")] = None,
    role: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="ROLE", help="A role of the new user; repeatable."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", parser=parse_port, metavar="PORT", help="The port to listen on; 0 for a free one."
        ),
    ] = None,
) -> None:
    """Serve the web console over the installed systems, or keep its users."""
    settings = Settings.load()
    if part is None:
        if role:
            raise UsageError("--role is of `holdfast console users add`.")
        _serve(settings, host, port)
        return
    if host is not None or port is not None:
        raise UsageError("--host and --port are of `holdfast console`, which serves.")
    _keep_users(settings, action or UserAction.LIST, name, role or [])


# --- serve --------------------------------------------------------------------------------------------------


def _serve(settings: Settings, host: str | None, port: int | None) -> None:
    """Check the settings and serve the console until a signal."""
    from holdfast.cli.processes.production import list_console_problems, require_production_settings

    require_extras("console", "console", *(("tokens",) if settings.console_oidc_issuer else ()))
    if settings.has_memory_tables:
        raise SettingsError(
            "The setting `tables` keeps the tables in memory, where this process cannot see those of others: "
            "set a file or an endpoint."
        )
    systems, broken = load_installed(functools.partial(get_all_extras, settings))
    for name, reason in broken.items():
        typer.echo(f"{name} is shown with its error only: {reason}", err=True)
    listens_on = settings.console_host if host is None else host
    require_production_settings(settings, list_console_problems(settings, systems))
    redactions = [each.privacy.redact_logs for each in systems if each.privacy.redact_logs is not None]
    setup_logs(
        sys.stderr,
        redact=lambda text: functools.reduce(lambda said, redact: redact(said), redactions, text),
        component="console",
        clock=settings.clock,
    )
    _serve_systems(systems, broken, settings, listens_on, settings.console_port if port is None else port)


def _serve_systems(
    systems: Sequence[System], broken: Mapping[str, str], settings: Settings, host: str, port: int
) -> None:
    from holdfast.console.accounts import open_accounts
    from holdfast.console.app import build_console_app
    from holdfast.console.model import CONSOLE
    from holdfast.runtime import open_stores
    from holdfast.web import serve

    accounts = open_accounts(settings)
    stores = open_stores(settings=settings)
    try:
        views = [_open_view(stores, each) for each in systems]
        app = build_console_app(settings, stores.for_system(CONSOLE), views, accounts, broken)
        serve(
            app,
            host=host,
            port=port,
            on_ready=lambda url: typer.echo(_format_ready(settings, url)),
            on_stopping=app.state.console.live.close,
            may_be_remote=not accounts.is_demo,
            remote_needs=REMOTE_NEEDS,
            allowed_hosts=(*settings.host_names, *_list_own_hosts(settings)),
            allowed_origins=(*settings.origins, *([settings.console_url] if settings.console_url else [])),
        )
    finally:
        asyncio.run(stores.close())


def _format_ready(settings: Settings, url: str) -> str:
    """Return the line that says where the console is: here, and under the address that its users know."""
    known = settings.console_url
    return f"The console is at {url}" + (f", for its users at {known}" if known not in ("", url) else "")


def _open_view(stores: Stores, system: System) -> Stores:
    """Return the stores of a system. One that needs an environment has that of `holdfast up`, unless the
    settings name one.
    """
    needs_one = system.deployment.needs_environment and not stores.environment
    return stores.for_system(system, environment=DEFAULT_ENVIRONMENT if needs_one else None)


def _list_own_hosts(settings: Settings) -> list[str]:
    """Return the host name in the console's address."""
    host = urlsplit(settings.console_url).hostname
    return [host] if host else []


# --- users --------------------------------------------------------------------------------------------------


def _keep_users(settings: Settings, action: UserAction, name: str | None, roles: Sequence[str]) -> None:
    """List or change the users in the file of the settings."""
    require_extras("console users", "console")
    from holdfast.console.sign_in.user_file import UserFile

    if settings.console_users_file is None:
        raise SettingsError(
            'No file of users: set `console_users` in holdfast.toml, such as console_users = "users.toml".'
        )
    file = UserFile(settings.console_users_file)
    if action is not UserAction.ADD and roles:
        raise UsageError("--role is of `holdfast console users add`. Edit the roles of a user in the file.")
    if action is UserAction.LIST:
        _list_users(file)
    elif name is None:
        raise UsageError(f"`holdfast console users {action.value}` needs NAME.")
    elif action is UserAction.ADD:
        _add_user(file, name, roles)
    elif action is UserAction.PASSWORD:
        _set_password(file, name)
    else:
        _remove_user(file, name)


def _list_users(file: UserFile) -> None:
    users = file.load()
    for each in users.values():
        typer.echo(f"{each.name}: {', '.join(sorted(each.roles)) or 'no role'}")
    if not users:
        typer.echo("No users. Add one: holdfast console users add NAME --role admin")


def _add_user(file: UserFile, name: str, roles: Sequence[str]) -> None:
    """Add a user with a new password."""
    from holdfast.console.sign_in.passwords import hash_password
    from holdfast.console.sign_in.user_file import LocalUser, is_user_name

    if not is_user_name(name):
        raise InvalidRequest(
            f"Invalid user name {name!r}: expected up to 64 lower-case letters, digits and . _ @ -, with a "
            "letter or a digit at both ends."
        )
    if not roles:
        raise UsageError("A user needs a role: --role viewer, or --role SYSTEM:viewer for one system.")
    for each in roles:
        _check_role(each)
    if file.path.exists():
        _refuse_known(file.load(), name)
    user = LocalUser(name, hash_password(_read_password()), frozenset(roles))
    with file.edit() as users:
        _refuse_known(users, name)
        users[name] = user
    typer.echo(f"{name} is added to {file.path}. They can sign in now, if the console runs with this file.")


def _set_password(file: UserFile, name: str) -> None:
    """Set another password of a user, which ends the sign-ins that the old one began."""
    from dataclasses import replace

    from holdfast.console.sign_in.passwords import hash_password

    _get_user(file.load(), name)
    hash = hash_password(_read_password())
    with file.edit() as users:
        users[name] = replace(_get_user(users, name), password=hash)
    typer.echo(f"{name} has another password. Sign-ins with the old one are over.")


def _remove_user(file: UserFile, name: str) -> None:
    with file.edit() as users:
        del users[_get_user(users, name).name]
    typer.echo(f"{name} is removed. Their sign-ins are over.")


def _read_password() -> str:
    """Return the password: asked for twice at a terminal, else the first line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")


def _check_role(role: str) -> None:
    """Raise `InvalidRequest` for a text that is not a role. Warn of a role that the console does not know,
    which may be one of a system's own pages, and of a system that is not installed here.
    """
    from holdfast.console.users import ROLES, is_role
    from holdfast.model.system import list_system_names

    system, _, word = role.rpartition(":")
    near = difflib.get_close_matches(word, ROLES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(ROLES)}."
    if not is_role(role):
        raise InvalidRequest(
            f"Invalid role {role!r}: expected one of the console's, or SYSTEM:operator for one system; {hint}"
        )
    if word not in ROLES:
        typer.echo(f"Note: the console itself has no role {word!r}: {hint}", err=True)
    if system and system not in (installed := list_system_names()):
        typer.echo(
            f"Note: no system {system!r} is installed here; there are {', '.join(sorted(installed))}.",
            err=True,
        )


def _get_user(users: Mapping[str, LocalUser], name: str) -> LocalUser:
    if name not in users:
        raise NotFound(f"No user {name!r} in the file. `holdfast console users` lists them.")
    return users[name]


def _refuse_known(users: Mapping[str, LocalUser], name: str) -> None:
    if name in users:
        raise InvalidRequest(
            f"The user {name!r} exists. Edit the roles in the file, or set another password with "
            f"`holdfast console users password {name}`."
        )
