"""The local users of the console: a TOML file that only its owner may read.

    [users."ada"]
    password = "$argon2id$v=19$…"
    roles = ["operator", "pagw:personal"]

`holdfast console users` writes it. It is read again when it changes, so that new roles, a new password and a
removed user take effect with the next request.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.console.sign_in.passwords import is_password_hash
from holdfast.console.users import User, is_role
from holdfast.core.disk import lock, open_private, sync, sync_path
from holdfast.core.errors import SettingsError
from holdfast.security.ciphers import require_owner_only

__all__ = ["LocalUser", "UserFile", "is_user_name"]

HEADER: Final = (
    "# The users of the console. `holdfast console users` adds and removes them; roles may be edited here.\n"
)
STAMP_CHARS: Final = 32
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._@-]{0,62}[a-z0-9])?")


def is_user_name(text: str) -> bool:
    """Return whether the text can be the name of a local user."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class LocalUser:
    """A user of the file."""

    name: str
    password: str
    roles: frozenset[str]

    @property
    def stamp(self) -> str:
        """A value that changes with the password, which ends the sessions that it began."""
        return hashlib.sha256(self.password.encode()).hexdigest()[:STAMP_CHARS]

    def to_user(self) -> User:
        """Return the user with the current roles."""
        return User(self.name, self.roles)


class UserFile:
    """The users in a file, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None
        self._users: Mapping[str, LocalUser] = {}

    def load(self) -> Mapping[str, LocalUser]:
        """Return the users as the file has them now. Raise `SettingsError` if it is missing or invalid."""
        try:
            found = self.path.stat()
            version = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)
            if version != self._seen:
                require_owner_only(self.path, "password hashes")
                self._users = _parse(self.path, self.path.read_text(encoding="utf-8"))
                self._seen = version
        except FileNotFoundError:
            raise SettingsError(
                f"Missing file of the console's users, {self.path}: add the first user with "
                "`holdfast console users add NAME --role admin`, or unset `console_users`."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"Failed to read the console's users in {self.path}: {error}.") from error
        return self._users

    @contextmanager
    def edit(self) -> Iterator[dict[str, LocalUser]]:
        """Yield the users to change, and write them at the end; another process that edits them waits.

        The file is created if it is missing, and replaced as a whole.
        """
        # The file behind a link is replaced, and not the link.
        path = Path(os.path.realpath(self.path))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            lock(folder)
            users = dict(self.load()) if path.exists() else {}
            yield users
            _write(path, users)
        finally:
            os.close(folder)


def _parse(path: Path, text: str) -> dict[str, LocalUser]:
    """Return the users of a file. Raise `SettingsError` that names the user who is wrong."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        # Drop the parser's message: it may quote a line with a hash.
        raise SettingsError(f"{path} is not TOML: check its quotes and brackets.") from None
    if unknown := sorted(values.keys() - {"users"}):
        raise SettingsError(f'Unknown {unknown[0]!r} in {path}: expected tables such as [users."ada"].')
    users = values.get("users", {})
    if not isinstance(users, dict):
        raise SettingsError(f'Invalid `users` in {path}: expected tables such as [users."ada"].')
    return {name: _parse_user(path, name, value) for name, value in users.items()}


def _parse_user(path: Path, name: str, value: Any) -> LocalUser:
    if not is_user_name(name):
        raise SettingsError(
            f"Invalid user name {name!r} in {path}: expected up to 64 lower-case letters, digits and "
            ". _ @ -, with a letter or a digit at both ends."
        )
    if not isinstance(value, dict) or value.keys() != {"password", "roles"}:
        raise SettingsError(
            f"Invalid user {name!r} in {path}: expected `password` and `roles`, nothing else."
        )
    if not isinstance(value["password"], str) or not is_password_hash(value["password"]):
        raise SettingsError(
            f"Invalid password of {name!r} in {path}: expected an argon2id hash. Set one with "
            f"`holdfast console users password {name}`."
        )
    roles = value["roles"]
    if not isinstance(roles, list) or not all(isinstance(each, str) and is_role(each) for each in roles):
        raise SettingsError(
            f"Invalid roles of {name!r} in {path}: expected a list of texts such as 'operator' or "
            "'pagw:operator'."
        )
    return LocalUser(name, value["password"], frozenset(roles))


def _write(path: Path, users: Mapping[str, LocalUser]) -> None:
    """Replace the file: readers see the old or the new one, also after a crash."""
    # A JSON text is a TOML text too.
    tables = [
        f"[users.{json.dumps(each.name)}]\n"
        f"password = {json.dumps(each.password)}\n"
        f"roles = {json.dumps(sorted(each.roles))}\n"
        for each in users.values()
    ]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = open_private(temporary, os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join([HEADER, *tables]))
            file.flush()
            sync(file.fileno())
        temporary.replace(path)
        sync_path(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
