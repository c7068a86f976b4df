"""Webhook targets: which addresses are allowed, which address is called, and the outcomes of a delivery."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.core.errors import TargetRefused
from holdfast.web.webhook_targets import DeliveryAttempt, Resolver, check_target, deliver, open_target_client

BODY = b'{"pagwId": "PAGW-1"}'
NAME = "hooks.example.org"
OK = b"HTTP/1.1 204 No Content\r\n\r\n"


# --- allowed addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org/pagw?x=1",
        "https://hooks.example.org:443/",
        "https://8.8.8.8/x",
        "https://[2606:4700::1111]/",
        "https://HOOKS.example.org./",
        "https://müller.example/x",
        "https://a-b.c_d.example.co.uk/",
    ],
)
def test_a_public_https_address_may_be_called(url: str) -> None:
    assert check_target(url, allow_private=False).port == 443


NEVER = [
    "https://169.254.169.254/latest/meta-data",
    "https://[fd00:ec2::254]/latest/meta-data",
    "https://100.100.100.200/latest/meta-data",
    "https://168.63.129.16/machine",
    "https://0.0.0.0/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://240.0.0.1/",
    "https://192.0.2.7/",
    "https://198.18.0.1/",
    "https://[::]/",
    "https://[fe80::1]/",
    "https://[ff02::1]/",
    "https://[fec0::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001:0:7f00:1::]/",
    "https://[2001:db8::1]/",
    "https://2130706433/",
    "https://127.1/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://user@hooks.example.org/",
    "https://user:password@hooks.example.org/",
    "https://@hooks.example.org/",
    "https://hooks.example.org#@evil.test/",
    "https://hooks.example.org\\@evil.test/",
    "https://hooks example.org/",
    "https://hooks.example.org/\r\nX-Evil: 1",
    "https://hooks..example.org/",
    "https:///path",
    "https://",
    "//hooks.example.org/",
    "hooks.example.org",
    "",
    "ftp://hooks.example.org/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_",
    "javascript:alert(1)",
    "https://hooks.example.org:99999/",
    "https://hooks.example.org:0/",
    "https://[::1/",
    "https://[fe80::1%25eth0]/",
    "https://hooks.example.org/" + "a" * 2048,
]
PRIVATE = [
    "http://hooks.example.org/",
    "https://hooks.example.org:8443/",
    "https://hooks.example.org:22/",
    "https://localhost/",
    "https://api.localhost/",
    "https://printer.local/",
    "https://metadata.google.internal/",
    "https://intranet/",
    "https://127.0.0.1/",
    "https://127.8.9.1/",
    "https://10.1.2.3/",
    "https://172.31.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://[::1]/",
    "https://[fd00::1]/",
]


@pytest.mark.parametrize("url", NEVER)
@pytest.mark.parametrize("allow_private", [False, True])
def test_never_calls_a_forbidden_address(url: str, allow_private: bool) -> None:
    with pytest.raises(TargetRefused) as raised:
        check_target(url, allow_private=allow_private)

    assert raised.value.reason
    assert "evil" not in raised.value.message and "password@" not in raised.value.message


@pytest.mark.parametrize("url", PRIVATE)
def test_calls_a_private_address_only_if_allowed(url: str) -> None:
    with pytest.raises(TargetRefused):
        check_target(url, allow_private=False)
    assert check_target(url, allow_private=True).url.startswith("http")


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://hooks.example.org/", True),
        ("https://a.clinic.test/", True),
        ("https://a.b.clinic.test/", True),
        ("https://ports.example.org:8443/", True),
        ("https://clinic.test/", False),
        ("https://evilclinic.test/", False),
        ("https://hooks.example.org.evil.test/", False),
        ("https://hooks.example.org:8443/", False),
        ("https://ports.example.org/", False),
        ("https://ports.example.org:9443/", False),
        ("https://10.0.0.1/", False),
    ],
)
def test_calls_only_listed_hosts(url: str, is_allowed: bool) -> None:
    allowed = ("hooks.example.org", "*.clinic.test", "ports.example.org:8443", "10.0.0.1")
    if is_allowed:
        assert check_target(url, allow_private=False, allowed_hosts=allowed).url == url
    else:
        with pytest.raises(TargetRefused):
            check_target(url, allow_private=False, allowed_hosts=allowed)


# --- calls --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def start_server(
    answer: bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    heard: list[bytes] | None = None,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Start a server that gives one answer to every request and records them in `heard`. Yield its port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if heard is not None:
                heard.append(head + await reader.readexactly(len(BODY)))
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(talk, host, 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


def make_resolver(*addresses: str) -> Resolver:
    """Build a resolver that returns the next answer for each query, and then the last one."""
    answers = iter(addresses)
    latest = [addresses[0]]

    async def resolve(_: str, __: int) -> Sequence[str]:
        latest[0] = next(answers, latest[0])
        return latest[0].split()

    return resolve


def run_delivery(
    answer: bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    heard: list[bytes] | None = None,
    *,
    patience_s: float = 10.0,
) -> DeliveryAttempt:
    """Deliver the body once to a local server with this answer and return the outcome."""

    async def run() -> DeliveryAttempt:
        async with start_server(answer, heard) as port, open_target_client(allow_private=True) as client:
            target = check_target(f"http://127.0.0.1:{port}/hook?a=1", allow_private=True)
            return await deliver(client, target, BODY, {"X-Id": "d-1"}, timeout_s=patience_s)

    return asyncio.run(run())


def test_sends_the_body_and_its_headers() -> None:
    heard: list[bytes] = []

    assert run_delivery(OK, heard) == DeliveryAttempt("delivered", 204, "delivered")
    assert heard[0].startswith(b"POST /hook?a=1 HTTP/1.1\r\n")
    assert heard[0].endswith(b"\r\n\r\n" + BODY)
    assert b"x-id: d-1" in heard[0].lower()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "delivered"),
        (202, "delivered"),
        (301, "retry"),
        (308, "retry"),
        (400, "retry"),
        (401, "retry"),
        (404, "retry"),
        (410, "gone"),
        (429, "retry"),
        (500, "retry"),
        (503, "retry"),
    ],
)
def test_status_decides_the_result(status: int, outcome: str) -> None:
    head = (
        f"HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:1/\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    )
    found = run_delivery(head.encode())

    assert (found.outcome, found.status) == (outcome, status)
    assert found.retry_after_s == (7.0 if outcome == "retry" else None)


def test_ignores_a_pause_that_is_a_date() -> None:
    answer = b"HTTP/1.1 503 X\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\nContent-Length: 0\r\n\r\n"

    assert run_delivery(answer).retry_after_s is None


@pytest.mark.parametrize("headers", [{"x y": "z"}, {"x": "a\r\nb: c"}, {"x": "\ud800"}, {"\u6f22": "a"}])
def test_reports_invalid_headers_without_showing_them(headers: dict[str, str]) -> None:
    heard: list[bytes] = []

    async def run() -> DeliveryAttempt:
        async with start_server(OK, heard) as port, open_target_client(allow_private=True) as client:
            target = check_target(f"http://127.0.0.1:{port}/", allow_private=True)
            return await deliver(client, target, BODY, headers)

    assert asyncio.run(run()).detail == "not called: a header has an invalid value"
    assert heard == []


def test_does_not_read_an_endless_response() -> None:
    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    assert run_delivery(endless).outcome == "delivered"


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X-Long: y\r\n" * 100_000]
)
def test_retries_an_invalid_response(answer: bytes) -> None:
    found = run_delivery(answer)

    assert (found.outcome, found.status) == ("retry", None)


def test_gives_up_a_missing_response_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    found = run_delivery(silent, patience_s=0.05)
    assert (found.outcome, found.detail) == ("retry", "no response within 0.05 s")


def test_slow_name_servers_block_no_thread_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        goes_on.wait(60)
        raise socket.gaierror("no such name")

    async def run() -> list[DeliveryAttempt]:
        async with open_target_client(allow_private=False) as client:
            targets = [
                check_target(f"https://slow-{number}.example.org/", allow_private=False)
                for number in range(60)
            ]
            calls = [asyncio.create_task(deliver(client, each, BODY, {})) for each in targets]
            await asyncio.sleep(0)
            # More names than the loop has threads, and it has one to spare.
            await asyncio.to_thread(goes_on.is_set)
            assert not any(each.done() for each in calls)
            goes_on.set()
            return await asyncio.gather(*calls)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert {each.outcome for each in asyncio.run(run())} == {"retry"}


def test_does_not_call_a_name_that_resolves_to_a_private_address() -> None:
    heard: list[bytes] = []

    async def run(addresses: str) -> DeliveryAttempt:
        async with (
            start_server(OK, heard) as port,
            open_target_client(allow_private=False, resolve=make_resolver(addresses)) as client,
        ):
            allowed = (f"{NAME}:{port}",)
            target = check_target(f"https://{NAME}:{port}/", allow_private=False, allowed_hosts=allowed)
            return await deliver(client, target, BODY, {})

    for addresses in (
        "127.0.0.1",
        "8.8.8.8 127.0.0.1",
        "::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
    ):
        found = asyncio.run(run(addresses))
        assert found.outcome == "retry"
        assert found.detail.startswith("not called"), addresses
    assert asyncio.run(run("")).detail == "no response (ConnectError)"
    assert heard == []


def test_calls_the_checked_address_even_if_the_name_changes() -> None:
    # The resolver answers 127.0.0.1 once, which is allowed here, and then a forbidden address.
    heard: list[bytes] = []

    async def run() -> list[DeliveryAttempt]:
        resolve = make_resolver("127.0.0.1", "169.254.169.254")
        async with (
            start_server(OK, heard) as port,
            open_target_client(allow_private=True, resolve=resolve) as client,
        ):
            target = check_target(f"http://{NAME}:{port}/", allow_private=True)
            return [await deliver(client, target, BODY, {}) for _ in range(2)]

    first, second = asyncio.run(run())
    assert first.outcome == "delivered"
    assert f"host: {NAME}:".encode() in heard[0].lower()
    # The first connection is not kept, so the name is resolved and checked again.
    assert second.detail.startswith("not called")
    assert len(heard) == 1


def test_calls_the_next_address_if_one_does_not_answer() -> None:
    async def run() -> DeliveryAttempt:
        resolve = make_resolver("127.0.0.2 127.0.0.1")
        async with (
            start_server(OK) as port,
            open_target_client(allow_private=True, resolve=resolve) as client,
        ):
            target = check_target(f"http://{NAME}:{port}/", allow_private=True)
            return await deliver(client, target, BODY, {})

    assert asyncio.run(run()).outcome == "delivered"


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="needs IPv6 on this machine's own interface (::1)")
def test_calls_an_ipv6_address() -> None:
    async def run() -> DeliveryAttempt:
        async with start_server(OK, host="::1") as port, open_target_client(allow_private=True) as client:
            target = check_target(f"http://[::1]:{port}/", allow_private=True)
            return await deliver(client, target, BODY, {})

    assert asyncio.run(run()).outcome == "delivered"


def test_ignores_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    assert run_delivery(OK).outcome == "delivered"


# --- TLS uses the host name ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("certified", "outcome"), [(NAME, "delivered"), ("other.example.org", "retry")])
def test_certificate_must_match_the_name_and_not_the_address(
    tmp_path: Path, certified: str, outcome: str
) -> None:
    here, there = _make_tls_contexts(tmp_path, certified)
    heard: list[bytes] = []
    names: list[str | None] = []
    there.sni_callback = lambda _, name, __: names.append(name)

    async def run() -> DeliveryAttempt:
        client = open_target_client(allow_private=True, resolve=make_resolver("127.0.0.1"), tls=here)
        async with start_server(OK, heard, tls=there) as port, client:
            target = check_target(f"https://{NAME}:{port}/", allow_private=True)
            return await deliver(client, target, BODY, {})

    assert asyncio.run(run()).outcome == outcome
    assert names == [NAME]
    assert len(heard) == (outcome == "delivered")


def _make_tls_contexts(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Build the client's context, which trusts the certificate, and the server's, which has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    began = datetime(2020, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(began)
        .not_valid_after(began + timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    (folder / "cert.pem").write_bytes(pem)
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    here = ssl.create_default_context(cadata=pem.decode())
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return here, there
