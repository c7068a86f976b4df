"""Refusals over HTTP: the right status, one OperationOutcome, no echo, and only the audit stored."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast_demo.pagw.sample.bundles import PEOPLE, SampleAttachment, build_request_bundle
from holdfast_demo.pagw.sandbox.issuer import Flaw
from tests.postgres import build_url, connect
from tests.systems.pagw.acceptance.gateway import (
    FHIR,
    ExternalServices,
    Gateway,
    expect_outcome,
    make_unique,
    start_gateway,
)

ENDPOINTS = ("/pas/requests", "/fhir/Claim/$submit")
SECRETS = PEOPLE[0].secrets


def build_changed_bundle(change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return a new request bundle as JSON after `change` was applied to it."""
    bundle = deepcopy(build_request_bundle(reference=make_unique("X")))
    change(bundle)
    return json.dumps(bundle).encode()


def swap_entries(bundle: dict[str, Any]) -> None:
    bundle["entry"][0], bundle["entry"][1] = bundle["entry"][1], bundle["entry"][0]


def remove_patient(bundle: dict[str, Any]) -> None:
    bundle["entry"] = [each for each in bundle["entry"] if each["resource"]["resourceType"] != "Patient"]


def repeat_entry(bundle: dict[str, Any]) -> None:
    bundle["entry"].append(deepcopy(bundle["entry"][-1]))


def add_r5_element(bundle: dict[str, Any]) -> None:
    bundle["entry"][0]["resource"]["traceNumber"] = [{"value": PEOPLE[0].member_id}]


def break_birth_date(bundle: dict[str, Any]) -> None:
    bundle["entry"][4]["resource"]["birthDate"] = PEOPLE[0].family


def build_with_attachment(content: bytes) -> bytes:
    """Return a new request bundle with this attachment as JSON."""
    return json.dumps(
        build_request_bundle(reference=make_unique("X"), attachments=[SampleAttachment(content=content)])
    ).encode()


BAD_BODIES: dict[str, tuple[Callable[[], bytes], int, str]] = {
    "nothing": (lambda: b"", 400, "structure"),
    "not JSON": (lambda: b'{"resourceType": "Bundle", Quillfeather', 400, "structure"),
    "not UTF-8": (lambda: b"\xff\xfe", 400, "structure"),
    "a list": (lambda: b'["Quillfeather"]', 400, "structure"),
    "not FHIR": (lambda: b'{"member": "MZQ-4417-0001"}', 422, "invalid"),
    "nested deeply": (lambda: b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "structure"),
    "another version": (lambda: build_changed_bundle(add_r5_element), 422, "not-supported"),
    "another first entry": (lambda: build_changed_bundle(swap_entries), 422, "invariant"),
    "a reference to nothing": (lambda: build_changed_bundle(remove_patient), 422, "not-found"),
    "a resource twice": (lambda: build_changed_bundle(repeat_entry), 422, "duplicate"),
    "an element of another type": (lambda: build_changed_bundle(break_birth_date), 422, "value"),
    "an unknown payer": (
        lambda: json.dumps(build_request_bundle(reference=make_unique("X"), payer="NOBODY")).encode(),
        422,
        "not-found",
    ),
    "an unknown provider": (
        lambda: json.dumps(build_request_bundle(reference=make_unique("X"), npi="1234567893")).encode(),
        422,
        "not-found",
    ),
    "an NPI with a wrong digit": (
        lambda: json.dumps(build_request_bundle(reference=make_unique("X"), npi="1234567890")).encode(),
        422,
        "invariant",
    ),
    "a program as an attachment": (
        lambda: build_with_attachment(b"MZ\x90\x00" + b"\x00" * 100),
        422,
        "not-supported",
    ),
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("name", BAD_BODIES)
def test_refuses_bad_input_and_stores_only_the_audit(
    idle_gateway: Gateway, caplog: pytest.LogCaptureFixture, endpoint: str, name: str
) -> None:
    made, status, code = BAD_BODIES[name]
    before, refused = idle_gateway.count_stored(), len(idle_gateway.read_audit("REFUSED"))
    with caplog.at_level(logging.DEBUG):
        answer = idle_gateway.post(endpoint, made(), headers={"x-idempotency-key": make_unique("key")})
    outcome = expect_outcome(answer, status, code)
    assert idle_gateway.count_stored() == before
    (_, actor, what, details), *_ = idle_gateway.read_audit("REFUSED")[refused:]
    assert (actor, what, details["status"]) == ("acme-client", "submission", status)
    assert code in details["codes"]
    for text in (json.dumps(outcome), json.dumps(details), caplog.text):
        assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 129, "a/b", "a#b"])
def test_refuses_an_invalid_key(idle_gateway: Gateway, endpoint: str, key: str) -> None:
    before = idle_gateway.count_stored()
    given = {**idle_gateway.headers(), "content-type": FHIR, "x-idempotency-key": key}
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    body = json.dumps(build_request_bundle(reference=make_unique("X"))).encode()
    expect_outcome(idle_gateway.http.post(endpoint, content=body, headers=headers), 400, "value")
    assert idle_gateway.count_stored() == before


@pytest.mark.parametrize(
    "url",
    ["ftp://client.example/", "nonsense", "http://169.254.169.254/latest", "http://a:b@client.example/"],
)
def test_refuses_a_forbidden_callback_address(idle_gateway: Gateway, url: str) -> None:
    before = idle_gateway.count_stored()
    expect_outcome(idle_gateway.submit(**{"x-callback-url": url}), 422, "value")
    assert idle_gateway.count_stored() == before


@pytest.mark.parametrize("endpoint", [*ENDPOINTS, "/fhir/Claim/$inquire", "/fhir/Subscription", "/sessions"])
def test_refuses_an_invalid_token_and_stores_nothing(idle_gateway: Gateway, endpoint: str) -> None:
    before = idle_gateway.count_stored()
    body = json.dumps(build_request_bundle(reference=make_unique("X"))).encode()
    flaws: tuple[Flaw, ...] = (
        "expired", "early", "forged", "unknown_key", "other_issuer", "other_audience", "no_tenant",
    )  # fmt: skip
    given = [idle_gateway.headers(flaw=flaw) for flaw in flaws]
    given += [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Basic abc"},
        {"authorization": "Bearer a.b.c"},
    ]
    for headers in given:
        all_headers = {"content-type": FHIR, "x-idempotency-key": make_unique("key"), **headers}
        answer = idle_gateway.http.post(endpoint, content=body, headers=all_headers)
        expect_outcome(answer, 401)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        token = headers.get("authorization", "").partition(" ")[2]
        assert not token or token not in answer.text
    expired = idle_gateway.http.post(endpoint, content=body, headers=idle_gateway.headers(flaw="expired"))
    expect_outcome(expired, 401, "expired")
    assert idle_gateway.count_stored() == before


def test_refuses_a_missing_scope(idle_gateway: Gateway) -> None:
    reader = idle_gateway.headers(scope="system/Claim.read")
    writer = idle_gateway.headers(scope="system/Claim.write")
    pagw_id, body = (
        idle_gateway.submit_accepted(),
        json.dumps(build_request_bundle(reference=make_unique("X"))).encode(),
    )
    for method, path, headers in (
        ("POST", "/pas/requests", reader),
        ("POST", "/fhir/Claim/$submit", reader),
        ("POST", f"/pas/requests/{pagw_id}/cancel", reader),
        ("POST", "/fhir/Claim/$inquire", writer),
        ("GET", f"/pas/requests/{pagw_id}/response", writer),
        ("GET", "/fhir/Subscription", writer),
        ("POST", "/fhir/Subscription", writer),
    ):
        all_headers = {"content-type": FHIR, "x-idempotency-key": make_unique("key"), **headers}
        answer = idle_gateway.http.request(method, path, content=body, headers=all_headers)
        expect_outcome(answer, 403, "forbidden")
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


# --- HTTP ---------------------------------------------------------------------------------------------------


def test_refuses_unsupported_types_paths_and_methods_with_an_outcome(idle_gateway: Gateway) -> None:
    body = json.dumps(build_request_bundle(reference=make_unique("X"))).encode()
    for kind in (
        "application/xml",
        "application/fhir+xml",
        "text/plain",
        "application/fhir+json; fhirVersion=5.0",
    ):
        expect_outcome(
            idle_gateway.post("/fhir/Claim/$submit", body, headers={"content-type": kind}),
            415,
            "not-supported",
        )
    for encoding, status, code in (("br", 415, "not-supported"), ("gzip", 400, "invalid")):
        encoded = {"content-encoding": encoding}
        expect_outcome(idle_gateway.post("/fhir/Claim/$submit", body, headers=encoded), status, code)
    for accept in ("application/fhir+xml", "text/html", "application/json;q=0"):
        expect_outcome(idle_gateway.get("/pas/requests", accept=accept), 406, "not-supported")
    expect_outcome(idle_gateway.get("/pas/requests?_format=xml"), 406, "not-supported")
    for accept in ("*/*", "application/json", "text/html, application/fhir+json;q=0.5"):
        assert idle_gateway.get("/pas/requests", accept=accept).status_code == 200

    for path in ("/", "/fhir", "/fhir/Patient/MZQ-4417-0001", "/fhir/Claim", "/pas", "/pas/requests/%00"):
        outcome = expect_outcome(idle_gateway.get(path), 404, "not-found")
        assert PEOPLE[0].member_id not in json.dumps(outcome)
    put = idle_gateway.http.put("/pas/requests", headers=idle_gateway.headers())
    expect_outcome(put, 405, "not-supported")
    assert put.headers["allow"]
    expect_outcome(idle_gateway.http.delete("/fhir/Claim/$submit"), 405, "not-supported")


def test_refuses_a_50_mb_bundle_without_reading_it_all(idle_gateway: Gateway) -> None:
    before = idle_gateway.count_stored()
    token = idle_gateway.headers()["authorization"]
    head = (
        "POST /fhir/Claim/$submit HTTP/1.1\r\nhost: localhost\r\n"
        f"authorization: {token}\r\ncontent-type: {FHIR}\r\n"
    )
    # With a content length: refused before a byte of the body is sent.
    assert b" 413 " in _request(idle_gateway, f"{head}content-length: 50000000\r\n\r\n".encode())[:20]
    # Without a content length: refused once it becomes too large, long before its end.
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        while True:
            sent += 1_000_000
            yield b" " * 1_000_000

    reply = _stream(idle_gateway, f"{head}transfer-encoding: chunked\r\n\r\n".encode(), chunks())
    assert b" 413 " in reply[:20] and b"OperationOutcome" in reply
    assert sent < 50_000_000
    whole = idle_gateway.post("/fhir/Claim/$submit", b" " * 50_000_000)
    expect_outcome(whole, 413, "too-long")
    assert idle_gateway.count_stored() == before


def _connect(gateway: Gateway) -> socket.socket:
    parts = urlsplit(gateway.url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=20)


def _request(gateway: Gateway, request: bytes) -> bytes:
    """Send bytes to the gateway and return the beginning of its answer."""
    with _connect(gateway) as connection:
        connection.sendall(request)
        return connection.recv(65536)


def _stream(gateway: Gateway, head: bytes, chunks: Iterator[bytes]) -> bytes:
    """Send chunks until the server answers, and return its answer."""
    with _connect(gateway) as connection:
        connection.sendall(head)
        for chunk in chunks:
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            connection.setblocking(False)
            try:
                return connection.recv(65536)
            except BlockingIOError:
                connection.settimeout(20)
    raise AssertionError("the server never answered")


def test_without_a_database_clients_get_503_and_may_retry(
    external_services: ExternalServices, caplog: pytest.LogCaptureFixture
) -> None:
    with start_gateway(external_services, "api", PAGW_ANSWER_WAIT_S="1") as own:
        pagw_id = own.submit_accepted()
        # The engine retries for this long.
        engine: Any = own.stores.engines.get("sql")
        retry_s, engine._max_retry_s = engine._max_retry_s, 0.2
        name = urlsplit(own.database).path.lstrip("/")
        with connect(build_url("postgres")) as outside:
            outside.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            outside.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            bundle, key = build_request_bundle(reference=make_unique("X")), make_unique("key")
            refused = [own.submit(bundle, key=key), own.get(f"/pas/requests/{pagw_id}")]
            outside.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        engine._max_retry_s = retry_s
        for answer in refused:
            expect_outcome(answer, 503, "transient")
            assert int(answer.headers["retry-after"]) >= 1
        assert not [secret for secret in SECRETS if secret in caplog.text]
        assert own.submit(bundle, key=key).status_code == 202
        assert own.get(f"/pas/requests/{pagw_id}").status_code == 200
