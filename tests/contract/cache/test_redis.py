"""The Redis cache engine against a real server: failures, passwords, TLS, failover and Redis's expiry."""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

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
from tests.contract.redis_server import RedisServer, run_redis

R = TypeVar("R")

VALUE = PutValue(key="oauth:payer-1", value=b"token", lifetime_s=3600)


async def run(cache: Cache, operation: Operation[R]) -> R:
    return await cache.run(operation)


# --- processes ----------------------------------------------------------------------------------------------


def test_forked_child_may_not_use_the_cache_of_its_parent(shared_redis: RedisServer) -> None:
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
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", story, shared_redis.address]
    assert subprocess.run(command, timeout=60, check=False).returncode == 7


# --- lifetimes ----------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-37")
@pytest.mark.proves("PG-38")
async def test_redis_expires_unread_values(shared_redis: RedisServer) -> None:
    """Every write gives Redis the lifetime too (PTTL), and a later increment does not extend it."""
    with closing(open_redis(shared_redis.address)) as cache:
        await run(cache, VALUE)
        assert 3_590_000 < shared_redis.execute("PTTL", "oauth:payer-1") <= 3_600_000
        await run(cache, ExtendValue(key="oauth:payer-1", lifetime_s=60))
        assert 50_000 < shared_redis.execute("PTTL", "oauth:payer-1") <= 60_000
        await run(cache, Increment(key="ratelimit:clinic:1", lifetime_s=60))
        assert 50_000 < shared_redis.execute("PTTL", "ratelimit:clinic:1") <= 60_000
        shared_redis.execute("PEXPIRE", "ratelimit:clinic:1", 30_000)  # as if half of the window had passed
        await run(cache, Increment(key="ratelimit:clinic:1", lifetime_s=60))
        assert 20_000 < shared_redis.execute("PTTL", "ratelimit:clinic:1") <= 30_000
        await run(cache, DeleteValue(key="ratelimit:clinic:1"))


async def test_ignores_foreign_values_under_a_key(shared_redis: RedisServer) -> None:
    with closing(open_redis(shared_redis.address)) as cache:
        for foreign in ("plain", "12", ":", "-1:x"):
            shared_redis.execute("SET", "provider:1", foreign)
            assert await run(cache, GetValue(key="provider:1")) is None
            put = PutValue(key="provider:1", value=b"ours", lifetime_s=60, only_if_absent=True)
            assert await run(cache, put) is True
        shared_redis.execute("DEL", "provider:1")
        shared_redis.execute("LPUSH", "provider:1", "a list")
        with pytest.raises(CacheUnavailable):
            await run(cache, GetValue(key="provider:1"))
        shared_redis.execute("DEL", "provider:1")


# --- failures -----------------------------------------------------------------------------------------------


def test_maps_every_client_error() -> None:
    from redis import exceptions

    from holdfast.stores.cache.redis.errors import map_error

    kinds = [
        kind
        for _, kind in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(kind, exceptions.RedisError)
    ]
    assert len(kinds) > 20
    for kind in kinds:
        # A redirection carries a slot and an address.
        found = map_error(kind("12 session-of-ada:6379"), "redis://here")
        assert isinstance(found, CacheUnavailable), kind
        assert "ada" not in found.message
    assert isinstance(map_error(OSError("gone"), "redis://here"), CacheUnavailable)
    assert isinstance(map_error(KeyError("x"), "redis://here"), InternalError)
    assert map_error(refusal := InvalidRequest("no"), "redis://here") is refusal


async def test_keeps_the_code_of_redis_and_a_sentence_that_names_no_key() -> None:
    with run_redis() as server, closing(open_redis(server.address)) as cache:
        server.execute("LPUSH", "session-of-ada", "a list")
        wrong_type = await refusal_of(cache, GetValue(key="session-of-ada"))
        server.execute("CONFIG", "SET", "maxmemory", "1")
        full = await refusal_of(cache, PutValue(key="session-of-ada", value=b"x", lifetime_s=60))
        server.execute("CONFIG", "SET", "maxmemory", "0")
        server.execute("REPLICAOF", "127.0.0.1", "1")
        replica = await refusal_of(cache, VALUE)

    assert [each.code for each in (wrong_type, full, replica)] == ["WRONGTYPE", "OOM", "READONLY"]
    assert "Redis says: OOM command not allowed when used memory > 'maxmemory'." in full.message
    assert "Redis says: READONLY You can't write against a read only replica." in replica.message
    assert "failed (ResponseError WRONGTYPE)" in wrong_type.message
    assert "ada" not in "".join(each.message for each in (wrong_type, full, replica))
    assert full.__cause__ is not None


async def refusal_of(cache: Cache, operation: Operation[Any]) -> CacheUnavailable:
    """Run the operation and return the error, which it must raise."""
    with pytest.raises(CacheUnavailable) as raised:
        await run(cache, operation)
    return raised.value


@pytest.mark.proves("PG-42")
async def test_reports_a_dead_server_and_reconnects() -> None:
    with run_redis() as server, closing(open_redis(server.address, pause_s=0)) as cache:
        await run(cache, VALUE)
        server.kill()
        for operation in (GetValue(key="oauth:payer-1"), VALUE, Ping()):
            with pytest.raises(CacheUnavailable, match="check that it runs"):
                await run(cache, operation)
        server.start()
        assert await run(cache, GetValue(key="oauth:payer-1")) is None
        # Its scripts are lost too.
        assert (await run(cache, Increment(key="ratelimit:clinic:1", lifetime_s=60))).count == 1


async def test_fails_fast_after_a_failed_connection() -> None:
    with closing(open_redis("redis://127.0.0.1:1", pause_s=60)) as cache:
        with pytest.raises(CacheUnavailable, match="check that it runs"):
            await run(cache, Ping())
        with pytest.raises(CacheUnavailable, match="next request is sent in") as refused:
            await run(cache, Ping())
        assert 0 < (refused.value.retry_after_s or 0) <= 60


async def test_times_out_on_an_unresponsive_server() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as silent,
        closing(open_redis(f"redis://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.05)) as cache,
        pytest.raises(CacheUnavailable, match="Timeout"),
    ):
        await run(cache, Ping())


async def test_closed_cache_fails_new_and_waiting_callers(
    shared_redis: RedisServer,
) -> None:
    cache = open_redis(shared_redis.address)

    async def many() -> list[BaseException | None]:
        requests = [asyncio.ensure_future(cache.run(Ping())) for _ in range(500)]
        await requests[0]
        cache.close()
        return await asyncio.gather(*requests, return_exceptions=True)

    assert {type(each) for each in await many()} <= {type(None), StoreClosed}
    with pytest.raises(StoreClosed):
        await run(cache, Ping())


@pytest.mark.proves("PG-X22")
async def test_reconnects_after_failover_and_loses_unreplicated_locks() -> None:
    with run_redis() as server, closing(open_redis(server.address)) as cache:
        first = PutValue(key="lock", value=b"first", lifetime_s=60, only_if_absent=True)
        assert await run(cache, first) is True
        server.execute("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(CacheUnavailable, match="now a replica"):
            await run(cache, VALUE)
        # The old primary acknowledged the lock, but the new one never received it: the lock is free.
        server.execute("REPLICAOF", "NO", "ONE")
        server.execute("FLUSHALL")
        second = PutValue(key="lock", value=b"second", lifetime_s=60, only_if_absent=True)
        assert await run(cache, second) is True
        assert await run(cache, DeleteValue(key="lock", only_if=b"first")) is False
        assert await run(cache, GetValue(key="lock")) == b"second"


# --- passwords ----------------------------------------------------------------------------------------------


async def test_password_comes_from_a_secret_and_may_be_rotated() -> None:
    environ = {"HOLDFAST_SECRET_CACHE": "old"}
    secrets = Secrets(EnvironmentSecrets(environ))
    with run_redis("--requirepass", "old") as server:
        with closing(open_redis(server.address, secrets=secrets, secret="cache", pause_s=0)) as cache:
            await run(cache, VALUE)
            server.execute("CONFIG", "SET", "requirepass", "new", password="old")
            server.execute("CLIENT", "KILL", "TYPE", "normal", password="new")
            with pytest.raises(CacheUnavailable, match="cache_secret") as refused:
                await run(cache, Ping())
            assert "old" not in refused.value.message
            environ["HOLDFAST_SECRET_CACHE"] = "new"
            assert await run(cache, GetValue(key="oauth:payer-1")) == b"token"
        with closing(open_redis(server.address)) as without, pytest.raises(CacheUnavailable):
            await run(without, Ping())


async def test_a_user_logs_in_with_its_own_password() -> None:
    secrets = Secrets(EnvironmentSecrets({"HOLDFAST_SECRET_CACHE": "p@ss"}))
    rights = ("~oauth:*", "+get", "+set", "+del", "+evalsha", "+script|load", "+ping")
    with run_redis("--user", "holdfast", "on", ">p@ss", *rights) as server:
        address = server.address.replace("//", "//holdfast@")
        with closing(open_redis(address, secrets=secrets, secret="cache")) as cache:
            await run(cache, VALUE)
            assert await run(cache, DeleteValue(key="oauth:payer-1")) is True
            with pytest.raises(CacheUnavailable, match="refused the command"):
                await run(cache, GetValue(key="session:clinic:1"))


def test_missing_password_is_reported_on_open() -> None:
    with pytest.raises(SecretMissing, match="HOLDFAST_SECRET_CACHE"):
        open_redis("redis://127.0.0.1:1", secrets=Secrets(EnvironmentSecrets({})), secret="cache")


# --- TLS ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-41")
async def test_over_tls_the_server_must_prove_its_name(
    shared_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _run_tls_proxy(shared_redis.port, tmp_path) as port:
        address = f"rediss://localhost:{port}/0"
        with closing(open_redis(address)) as strict, pytest.raises(CacheUnavailable):
            await run(strict, Ping())
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        with closing(open_redis(address)) as cache:
            await run(cache, VALUE)
            assert await run(cache, GetValue(key="oauth:payer-1")) == b"token"
        with (
            closing(open_redis(f"rediss://127.0.0.1:{port}/0")) as another,
            pytest.raises(CacheUnavailable),
        ):
            await run(another, Ping())


@asynccontextmanager
async def _run_tls_proxy(port: int, folder: Path) -> AsyncIterator[int]:
    """Run a TLS proxy for `localhost` in front of `port`: the Redis of the wheel has no TLS."""
    _make_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pump(reader, behind_writer), _pump(behind_reader, writer))

    server = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes from the reader to the writer until either side closes."""
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


def _make_certificate(folder: Path) -> None:
    """Write a self-signed certificate for `localhost` and its key into the folder."""
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
