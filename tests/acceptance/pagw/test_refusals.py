"""Refusals: the right status, one OperationOutcome, nothing of what was sent, and nothing stored but the audit."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import urlsplit

import pytest

from pagw.demo.sample.bundles import PEOPLE, SampleAttachment, build_request_bundle
from pagw.demo.sandbox.issuer import Flaw
from tests.acceptance.pagw.gateway import FHIR, Gateway, Parties, fresh, outcome_of
from tests.acceptance.pagw.gateway import gateway as opened_gateway
from tests.postgres import connected, url_of

ENDPOINTS = ("/pas/requests", "/fhir/Claim/$submit")
SECRETS = PEOPLE[0].secrets


def mended(change: Callable[[dict[str, Any]], None]) -> bytes:
    bundle = deepcopy(build_request_bundle(reference=fresh("X")))
    change(bundle)
    return json.dumps(bundle).encode()


def swapped(bundle: dict[str, Any]) -> None:
    bundle["entry"][0], bundle["entry"][1] = bundle["entry"][1], bundle["entry"][0]


def without_patient(bundle: dict[str, Any]) -> None:
    bundle["entry"] = [each for each in bundle["entry"] if each["resource"]["resourceType"] != "Patient"]


def twice(bundle: dict[str, Any]) -> None:
    bundle["entry"].append(deepcopy(bundle["entry"][-1]))


def of_r5(bundle: dict[str, Any]) -> None:
    bundle["entry"][0]["resource"]["traceNumber"] = [{"value": PEOPLE[0].member_id}]


def untyped(bundle: dict[str, Any]) -> None:
    bundle["entry"][4]["resource"]["birthDate"] = PEOPLE[0].family


def attached(content: bytes) -> bytes:
    return json.dumps(
        build_request_bundle(reference=fresh("X"), attachments=[SampleAttachment(content=content)])
    ).encode()


BAD: dict[str, tuple[Callable[[], bytes], int, str]] = {
    "nothing": (lambda: b"", 400, "structure"),
    "not JSON": (lambda: b'{"resourceType": "Bundle", Quillfeather', 400, "structure"),
    "not UTF-8": (lambda: b"\xff\xfe", 400, "structure"),
    "a list": (lambda: b'["Quillfeather"]', 400, "structure"),
    "not FHIR": (lambda: b'{"member": "MZQ-4417-0001"}', 422, "invalid"),
    "nested deeply": (lambda: b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "structure"),
    "another version": (lambda: mended(of_r5), 422, "not-supported"),
    "another first entry": (lambda: mended(swapped), 422, "invariant"),
    "a reference to nothing": (lambda: mended(without_patient), 422, "not-found"),
    "a resource twice": (lambda: mended(twice), 422, "duplicate"),
    "an element of another type": (lambda: mended(untyped), 422, "value"),
    "an unknown payer": (
        lambda: json.dumps(build_request_bundle(reference=fresh("X"), payer="NOBODY")).encode(),
        422,
        "not-found",
    ),
    "an unknown provider": (
        lambda: json.dumps(build_request_bundle(reference=fresh("X"), npi="1234567893")).encode(),
        422,
        "not-found",
    ),
    "an NPI with a wrong digit": (
        lambda: json.dumps(build_request_bundle(reference=fresh("X"), npi="1234567890")).encode(),
        422,
        "business-rule",
    ),
    "a program as an attachment": (lambda: attached(b"MZ\x90\x00" + b"\x00" * 100), 422, "not-supported"),
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_nothing_stored_but_the_audit(
    still: Gateway, caplog: pytest.LogCaptureFixture, endpoint: str, name: str
) -> None:
    made, status, code = BAD[name]
    before, refused = still.stored(), len(still.audit("REFUSED"))
    with caplog.at_level(logging.DEBUG):
        answer = still.post(endpoint, made(), headers={"x-idempotency-key": fresh("key")})
    told = outcome_of(answer, status, code)
    assert still.stored() == before
    (_, actor, what, details), *_ = still.audit("REFUSED")[refused:]
    assert (actor, what, details["status"]) == ("acme-client", "submission", status)
    assert code in details["codes"]
    for text in (json.dumps(told), json.dumps(details), caplog.text):
        assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 129, "a/b", "a#b"])
def test_a_key_that_is_none_is_refused(still: Gateway, endpoint: str, key: str) -> None:
    before = still.stored()
    given = {**still.headers(), "content-type": FHIR, "x-idempotency-key": key}
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    body = json.dumps(build_request_bundle(reference=fresh("X"))).encode()
    outcome_of(still.http.post(endpoint, content=body, headers=headers), 400, "value")
    assert still.stored() == before


@pytest.mark.parametrize(
    "url",
    ["ftp://client.example/", "nonsense", "http://169.254.169.254/latest", "http://a:b@client.example/"],
)
def test_a_callback_address_that_is_never_called_is_refused(still: Gateway, url: str) -> None:
    before = still.stored()
    outcome_of(still.submit(**{"x-callback-url": url}), 422, "value")
    assert still.stored() == before


# --- who calls ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", [*ENDPOINTS, "/fhir/Claim/$inquire", "/fhir/Subscription", "/sessions"])
def test_who_does_not_prove_who_it_is_is_refused_and_nothing_stored(still: Gateway, endpoint: str) -> None:
    before = still.stored()
    body = json.dumps(build_request_bundle(reference=fresh("X"))).encode()
    flaws: tuple[Flaw, ...] = (
        "expired", "early", "forged", "unknown_key", "other_issuer", "other_audience", "no_tenant",
    )  # fmt: skip
    given = [still.headers(flaw=flaw) for flaw in flaws]
    given += [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Basic abc"},
        {"authorization": "Bearer a.b.c"},
    ]
    for headers in given:
        told = {"content-type": FHIR, "x-idempotency-key": fresh("key"), **headers}
        answer = still.http.post(endpoint, content=body, headers=told)
        outcome_of(answer, 401)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        token = headers.get("authorization", "").partition(" ")[2]
        assert not token or token not in answer.text
    expired = still.http.post(endpoint, content=body, headers=still.headers(flaw="expired"))
    outcome_of(expired, 401, "expired")
    assert still.stored() == before


def test_a_scope_that_is_missing_forbids_it(still: Gateway) -> None:
    reader = still.headers(scope="system/Claim.read")
    writer = still.headers(scope="system/Claim.write")
    pagw_id, body = still.accepted(), json.dumps(build_request_bundle(reference=fresh("X"))).encode()
    for method, path, headers in (
        ("POST", "/pas/requests", reader),
        ("POST", "/fhir/Claim/$submit", reader),
        ("POST", f"/pas/requests/{pagw_id}/cancel", reader),
        ("POST", "/fhir/Claim/$inquire", writer),
        ("GET", f"/pas/requests/{pagw_id}/response", writer),
        ("GET", "/fhir/Subscription", writer),
        ("POST", "/fhir/Subscription", writer),
    ):
        told = {"content-type": FHIR, "x-idempotency-key": fresh("key"), **headers}
        answer = still.http.request(method, path, content=body, headers=told)
        outcome_of(answer, 403, "forbidden")
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


# --- how it is asked ----------------------------------------------------------------------------------------


def test_what_is_not_taken_and_not_given_is_told_as_any_refusal(still: Gateway) -> None:
    body = json.dumps(build_request_bundle(reference=fresh("X"))).encode()
    for kind in (
        "application/xml",
        "application/fhir+xml",
        "text/plain",
        "application/fhir+json; fhirVersion=5.0",
    ):
        outcome_of(
            still.post("/fhir/Claim/$submit", body, headers={"content-type": kind}), 415, "not-supported"
        )
    zipped = {"content-encoding": "gzip"}
    outcome_of(still.post("/fhir/Claim/$submit", body, headers=zipped), 415, "not-supported")
    for accept in ("application/fhir+xml", "text/html", "application/json;q=0"):
        outcome_of(still.get("/pas/requests", accept=accept), 406, "not-supported")
    outcome_of(still.get("/pas/requests?_format=xml"), 406, "not-supported")
    for accept in ("*/*", "application/json", "text/html, application/fhir+json;q=0.5"):
        assert still.get("/pas/requests", accept=accept).status_code == 200

    for path in ("/", "/fhir", "/fhir/Patient/MZQ-4417-0001", "/fhir/Claim", "/pas", "/pas/requests/%00"):
        told = outcome_of(still.get(path), 404, "not-found")
        assert PEOPLE[0].member_id not in json.dumps(told)
    put = still.http.put("/pas/requests", headers=still.headers())
    outcome_of(put, 405, "not-supported")
    assert put.headers["allow"]
    outcome_of(still.http.delete("/fhir/Claim/$submit"), 405, "not-supported")


def test_a_bundle_of_50_mb_is_refused_without_reading_it_all(still: Gateway) -> None:
    before = still.stored()
    token = still.headers()["authorization"]
    head = (
        f"POST /fhir/Claim/$submit HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\ncontent-type: {FHIR}\r\n"
    )
    # It says how large it is: refused before a byte of it is sent.
    assert b" 413 " in _answered(still, f"{head}content-length: 50000000\r\n\r\n".encode())[:20]
    # It does not say: refused where it becomes too large, long before its end.
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        while True:
            sent += 1_000_000
            yield b" " * 1_000_000

    told = _streamed(still, f"{head}transfer-encoding: chunked\r\n\r\n".encode(), chunks())
    assert b" 413 " in told[:20] and b"OperationOutcome" in told
    assert sent < 50_000_000
    whole = still.post("/fhir/Claim/$submit", b" " * 50_000_000)
    outcome_of(whole, 413, "too-long")
    assert still.stored() == before


def _connected(gateway: Gateway) -> socket.socket:
    parts = urlsplit(gateway.url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=20)


def _answered(gateway: Gateway, request: bytes) -> bytes:
    with _connected(gateway) as connection:
        connection.sendall(request)
        return connection.recv(65536)


def _streamed(gateway: Gateway, head: bytes, chunks: Iterator[bytes]) -> bytes:
    """Sends until it is answered."""
    with _connected(gateway) as connection:
        connection.sendall(head)
        for chunk in chunks:
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            connection.setblocking(False)
            try:
                return connection.recv(65536)
            except BlockingIOError:
                connection.settimeout(20)
    raise AssertionError("it was never answered")


# --- when stores are away -----------------------------------------------------------------------------------


def test_while_the_database_is_away_clients_are_told_to_come_again(
    parties: Parties, caplog: pytest.LogCaptureFixture
) -> None:
    with opened_gateway(parties, "api", PAGW_ANSWER_WAIT_S="1") as own:
        # How long the engine looks for another connection before it says that there is none.
        engine: Any = own.stores.engines.get("sql")
        engine._patience_s = 0.2
        pagw_id = own.accepted()
        name = urlsplit(own.database).path.lstrip("/")
        with connected(url_of("postgres")) as outside:
            outside.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            outside.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            bundle, key = build_request_bundle(reference=fresh("X")), fresh("key")
            refused = [own.submit(bundle, key=key), own.get(f"/pas/requests/{pagw_id}")]
            outside.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        engine._patience_s = 10.0
        for answer in refused:
            outcome_of(answer, 503, "transient")
            assert int(answer.headers["retry-after"]) >= 1
        assert not [secret for secret in SECRETS if secret in caplog.text]
        assert own.submit(bundle, key=key).status_code == 202
        assert own.get(f"/pas/requests/{pagw_id}").status_code == 200
