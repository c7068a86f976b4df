"""What is Redis's own: its failures and passwords, TLS, a failover, and that it forgets by itself."""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import CacheUnavailable, InternalError, InvalidRequest, SecretMissing, StoreClosed
from holdfast.operations.cache import (
    DeleteValue,
    ExtendValue,
    GetValue,
    Increment,
    Operation,
    Ping,
    PutValue,
)
from holdfast.security.secrets import EnvironmentSecrets, Secrets
from holdfast.stores.cache.port import Cache
from holdfast.stores.cache.redis import open_redis
from tests.contract.redis_server import RedisServer, redis_server

R = TypeVar("R")

VALUE = PutValue(key="oauth:payer-1", value=b"token", lifetime_s=3600)


def run(cache: Cache, operation: Operation[R]) -> R:
    async def asked() -> R:
        return await cache.run(operation)

    return asyncio.run(asked())


# --- processes ---------------------------------------------------------------------------------------------


def test_a_cache_that_was_opened_before_a_fork_is_refused_in_the_child(redis_of_the_run: RedisServer) -> None:
    story = """
import asyncio, os, sys
from holdfast.core.errors import SettingsError
from holdfast.operations.cache import GetValue
from holdfast.stores.cache.redis import open_redis

cache = open_redis(sys.argv[1])
asyncio.run(cache.run(GetValue(key="a")))
child = os.fork()
if child == 0:
    try:
        asyncio.run(cache.run(GetValue(key="a")))
    except SettingsError as error:
        cache.close()
        os._exit(7 if "after the fork" in error.message else 8)
    os._exit(9)
_, status = os.waitpid(child, 0)
asyncio.run(cache.run(GetValue(key="a")))
cache.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", story, redis_of_the_run.address]
    assert subprocess.run(command, timeout=60, check=False).returncode == 7


# --- lifetimes ----------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-37")
@pytest.mark.proves("PG-38")
def test_redis_itself_forgets_what_nobody_reads_any_more(redis_of_the_run: RedisServer) -> None:
    with closing(open_redis(redis_of_the_run.address)) as cache:
        run(cache, VALUE)
        assert 3_590_000 < redis_of_the_run.ask("PTTL", "oauth:payer-1") <= 3_600_000
        run(cache, ExtendValue(key="oauth:payer-1", lifetime_s=60))
        assert 50_000 < redis_of_the_run.ask("PTTL", "oauth:payer-1") <= 60_000
        run(cache, Increment(key="ratelimit:clinic:1", lifetime_s=60))
        assert 50_000 < redis_of_the_run.ask("PTTL", "ratelimit:clinic:1") <= 60_000
        redis_of_the_run.ask("PEXPIRE", "ratelimit:clinic:1", 30_000)  # as if half of it were over
        run(cache, Increment(key="ratelimit:clinic:1", lifetime_s=60))
        assert 20_000 < redis_of_the_run.ask("PTTL", "ratelimit:clinic:1") <= 30_000
        run(cache, DeleteValue(key="ratelimit:clinic:1"))


def test_what_others_put_under_a_key_is_not_taken_for_ours(redis_of_the_run: RedisServer) -> None:
    with closing(open_redis(redis_of_the_run.address)) as cache:
        for foreign in ("plain", "12", ":", "-1:x"):
            redis_of_the_run.ask("SET", "provider:1", foreign)
            assert run(cache, GetValue(key="provider:1")) is None
            put = PutValue(key="provider:1", value=b"ours", lifetime_s=60, only_if_absent=True)
            assert run(cache, put) is True
        redis_of_the_run.ask("DEL", "provider:1")
        redis_of_the_run.ask("LPUSH", "provider:1", "a list")
        with pytest.raises(CacheUnavailable):
            run(cache, GetValue(key="provider:1"))
        redis_of_the_run.ask("DEL", "provider:1")


# --- failures -----------------------------------------------------------------------------------------------


def test_every_error_of_the_client_becomes_one_of_ours() -> None:
    from redis import exceptions

    from holdfast.stores.cache.redis.failures import failure_of

    kinds = [
        kind
        for _, kind in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(kind, exceptions.RedisError)
    ]
    assert len(kinds) > 20
    for kind in kinds:
        # A redirection is told with a slot and a place.
        found = failure_of(kind("12 session-of-ada:6379"), "redis://here")
        assert isinstance(found, CacheUnavailable), kind
        assert "ada" not in found.message
    assert isinstance(failure_of(OSError("gone"), "redis://here"), CacheUnavailable)
    assert isinstance(failure_of(KeyError("x"), "redis://here"), InternalError)
    assert failure_of(refusal := InvalidRequest("no"), "redis://here") is refusal


@pytest.mark.proves("PG-42")
def test_a_server_that_dies_is_told_and_found_again_when_it_is_back() -> None:
    with redis_server() as server, closing(open_redis(server.address, pause_s=0)) as cache:
        run(cache, VALUE)
        server.kill()
        for operation in (GetValue(key="oauth:payer-1"), VALUE, Ping()):
            with pytest.raises(CacheUnavailable, match="check that it runs"):
                run(cache, operation)
        server.start()
        assert run(cache, GetValue(key="oauth:payer-1")) is None
        # Its scripts are gone with it, too.
        assert run(cache, Increment(key="ratelimit:clinic:1", lifetime_s=60)).count == 1


def test_after_an_answer_that_did_not_come_the_next_are_refused_at_once() -> None:
    with closing(open_redis("redis://127.0.0.1:1", pause_s=60)) as cache:
        with pytest.raises(CacheUnavailable, match="check that it runs"):
            run(cache, Ping())
        with pytest.raises(CacheUnavailable, match="asked again in") as refused:
            run(cache, Ping())
        assert 0 < (refused.value.retry_after_s or 0) <= 60


def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as silent,
        closing(open_redis(f"redis://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.05)) as cache,
        pytest.raises(CacheUnavailable, match="Timeout"),
    ):
        run(cache, Ping())


def test_a_closed_cache_says_so_to_those_who_come_and_to_those_who_wait(
    redis_of_the_run: RedisServer,
) -> None:
    cache = open_redis(redis_of_the_run.address)

    async def many() -> list[BaseException | None]:
        asked = [asyncio.ensure_future(cache.run(Ping())) for _ in range(500)]
        await asked[0]
        cache.close()
        return await asyncio.gather(*asked, return_exceptions=True)

    assert {type(each) for each in asyncio.run(many())} <= {type(None), StoreClosed}
    with pytest.raises(StoreClosed):
        run(cache, Ping())


@pytest.mark.proves("PG-X22")
def test_a_primary_that_became_a_replica_is_asked_anew_and_a_lock_that_it_forgot_is_anothers() -> None:
    with redis_server() as server, closing(open_redis(server.address)) as cache:
        first = PutValue(key="lock", value=b"first", lifetime_s=60, only_if_absent=True)
        assert run(cache, first) is True
        server.ask("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(CacheUnavailable, match="replica now"):
            run(cache, VALUE)
        # What the old primary acknowledged and the new one never heard of: the lock is nobody's.
        server.ask("REPLICAOF", "NO", "ONE")
        server.ask("FLUSHALL")
        second = PutValue(key="lock", value=b"second", lifetime_s=60, only_if_absent=True)
        assert run(cache, second) is True
        assert run(cache, DeleteValue(key="lock", only_if=b"first")) is False
        assert run(cache, GetValue(key="lock")) == b"second"


# --- passwords ----------------------------------------------------------------------------------------------


def test_the_password_is_a_secret_by_reference_and_may_be_rotated() -> None:
    environ = {"HOLDFAST_SECRET_CACHE": "old"}
    secrets = Secrets(EnvironmentSecrets(environ))
    with redis_server("--requirepass", "old") as server:
        with closing(open_redis(server.address, secrets=secrets, secret="cache", pause_s=0)) as cache:
            run(cache, VALUE)
            server.ask("CONFIG", "SET", "requirepass", "new", password="old")
            server.ask("CLIENT", "KILL", "TYPE", "normal", password="new")
            with pytest.raises(CacheUnavailable, match="cache_secret") as refused:
                run(cache, Ping())
            assert "old" not in refused.value.message
            environ["HOLDFAST_SECRET_CACHE"] = "new"
            assert run(cache, GetValue(key="oauth:payer-1")) == b"token"
        with closing(open_redis(server.address)) as without, pytest.raises(CacheUnavailable):
            run(without, Ping())


def test_a_user_logs_in_with_its_own_password() -> None:
    secrets = Secrets(EnvironmentSecrets({"HOLDFAST_SECRET_CACHE": "p@ss"}))
    rights = ("~oauth:*", "+get", "+set", "+del", "+evalsha", "+script|load", "+ping")
    with redis_server("--user", "holdfast", "on", ">p@ss", *rights) as server:
        address = server.address.replace("//", "//holdfast@")
        with closing(open_redis(address, secrets=secrets, secret="cache")) as cache:
            run(cache, VALUE)
            assert run(cache, DeleteValue(key="oauth:payer-1")) is True
            with pytest.raises(CacheUnavailable, match="does not permit"):
                run(cache, GetValue(key="session:clinic:1"))


def test_a_password_that_nobody_has_set_is_told_when_the_cache_is_opened() -> None:
    with pytest.raises(SecretMissing, match="HOLDFAST_SECRET_CACHE"):
        open_redis("redis://127.0.0.1:1", secrets=Secrets(EnvironmentSecrets({})), secret="cache")


# --- TLS ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-41")
def test_over_tls_the_server_must_prove_its_name(
    redis_of_the_run: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _tls_in_front_of(redis_of_the_run.port, tmp_path) as port:
        address = f"rediss://localhost:{port}/0"
        with closing(open_redis(address)) as strict, pytest.raises(CacheUnavailable):
            run(strict, Ping())
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        with closing(open_redis(address)) as cache:
            run(cache, VALUE)
            assert run(cache, GetValue(key="oauth:payer-1")) == b"token"
        with (
            closing(open_redis(f"rediss://127.0.0.1:{port}/0")) as another,
            pytest.raises(CacheUnavailable),
        ):
            run(another, Ping())


@contextmanager
def _tls_in_front_of(port: int, folder: Path) -> Iterator[int]:
    """The Redis of the wheel has no TLS: this speaks it for `localhost`, and passes bytes on to `port`."""
    _make_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    started, loop = threading.Event(), asyncio.new_event_loop()
    found: list[int] = []

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pump(reader, behind_writer), _pump(behind_reader, writer))

    async def serve() -> None:
        server = await asyncio.start_server(passed_on, "127.0.0.1", 0, ssl=context)
        found.append(server.sockets[0].getsockname()[1])
        started.set()
        stop = asyncio.Event()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        stopping.set()
        await stop.wait()
        server.close()

    stops: list[object] = []
    stopping = threading.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(10) and stopping.wait(10)
    try:
        yield found[0]
    finally:
        stops[0]()  # type: ignore[operator]
        thread.join(10)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


def _make_certificate(folder: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    today = datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
