"""Accounts: who may sign in, and which roles they have now.

Users are in a file (`console_users`), at an identity provider (`console_oidc_issuer`), or both. Without
either, the console is a demo: it answers only this machine, and one click signs in as a user with every role.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.config.settings import Settings
from holdfast.console.model import SignIn
from holdfast.console.sign_in.user_file import LocalUser, UserFile
from holdfast.console.users import ROLES, User
from holdfast.core.errors import RetryLater, SettingsError

if TYPE_CHECKING:
    # Only a console with a provider needs the dependencies of tokens.
    from holdfast.console.sign_in.oidc import Provider

__all__ = [
    "DEMO_METHOD",
    "DEMO_USER",
    "Accounts",
    "ConfiguredAccounts",
    "DemoAccounts",
    "open_accounts",
    "read_users",
]

DEMO_METHOD: Final = "demo"
LOCAL_METHOD: Final = "local"
OIDC_METHOD: Final = "oidc"
DEMO_USER: Final = User("demo", frozenset(ROLES))

log = logging.getLogger(__name__)


class Accounts(Protocol):
    """The users of a console."""

    # Whether one click signs in, because no users are configured.
    is_demo: bool
    # The users of a file, and the identity provider; None without them.
    local: UserFile | None
    provider: Provider | None

    def find_user(self, sign_in: SignIn) -> User | None:
        """Return the user of a session with their current roles; None if they may not use the console any
        more.
        """


class DemoAccounts:
    """The one user of a demo."""

    is_demo = True
    local: UserFile | None = None
    provider: Provider | None = None

    def find_user(self, sign_in: SignIn) -> User | None:
        """Return the demo's user for a session that began with its click."""
        return DEMO_USER if sign_in.method == DEMO_METHOD else None


class ConfiguredAccounts:
    """Users of a file, of an identity provider, or of both."""

    is_demo = False

    def __init__(self, local: UserFile | None, provider: Provider | None) -> None:
        self.local, self.provider = local, provider

    def find_user(self, sign_in: SignIn) -> User | None:
        """Return the user of a session, unless their password, or the provider, is another one now.

        Raise `RetryLater` while the file of the users is not valid: nobody is let in meanwhile.
        """
        if sign_in.method == LOCAL_METHOD and self.local is not None:
            found = read_users(self.local).get(sign_in.subject)
            return found.to_user() if found is not None and found.stamp == sign_in.stamp else None
        if sign_in.method == OIDC_METHOD and self.provider is not None:
            is_current = sign_in.stamp == self.provider.stamp
            return User(sign_in.user, frozenset(sign_in.roles or ())) if is_current else None
        return None


def read_users(file: UserFile) -> Mapping[str, LocalUser]:
    """Return the users of the file. Raise `RetryLater`, and log the reason, if it is not valid any more."""
    try:
        return file.load()
    except SettingsError as error:
        log.error("Nobody can sign in: %s", error)
        raise RetryLater(
            "The users of the console cannot be read at the moment. Its log says why; an administrator can "
            "fix it."
        ) from error


def open_accounts(settings: Settings) -> Accounts:
    """Return the accounts that the settings name. Raise `SettingsError` if they cannot be used."""
    if settings.has_console_demo:
        return DemoAccounts()
    local = None
    if settings.console_users_file is not None:
        local = UserFile(settings.console_users_file)
        local.load()
    return ConfiguredAccounts(local, _open_provider(settings) if settings.console_oidc_issuer else None)


def _open_provider(settings: Settings) -> Provider:
    """Return the identity provider of the settings. Raise `SettingsError` without its secret."""
    from holdfast.console.sign_in.oidc import Provider
    from holdfast.runtime import open_secrets

    name = settings.console_oidc_secret
    secrets = open_secrets(settings)
    if name:
        secrets.get(name)
    return Provider(
        settings.console_oidc_issuer,
        settings.console_oidc_client_id,
        roles_claim=settings.console_oidc_roles,
        clock=settings.clock,
        get_secret=(lambda: secrets.get(name)) if name else None,
    )
