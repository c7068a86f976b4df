"""Authentication at a payer: signed assertions and published keys, secrets in the form, mutual TLS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from jwt.algorithms import RSAAlgorithm

from holdfast.core.errors import ExternalServiceFailed, SettingsError
from holdfast.runtime import Secret
from holdfast.web import serve_in_thread
from holdfast_demo.pagw.sandbox.pas_payer import PasPayerSandbox, build_pas_payer_app
from pagw.integrations.payers.client_assertion import build_assertion, build_key_set, parse_signing_key
from pagw.integrations.payers.connection import make_client
from pagw.integrations.payers.http_clients import open_http_clients
from pagw.integrations.payers.oauth import AccessToken, fetch_token
from pagw.integrations.payers.pas_client import PasPayerClient
from tests.systems.pagw.unit.payers.payer_harness import NOW, ManualClock, make_config

NAME = "pagw/payers/acme"


def to_pem(key: Any) -> str:
    """Return a private key in PEM."""
    form = serialization.PrivateFormat.PKCS8
    return str(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode())


RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP384R1())
RSA_JWK = json.dumps({**RSAAlgorithm.to_jwk(RSA_KEY, as_dict=True), "kid": "own-id"})


@contextmanager
def serve_payer(jwks: dict[str, Any]) -> Iterator[tuple[PasPayerSandbox, str]]:
    """Serve a PAS payer that verifies assertions with these keys."""
    sandbox = PasPayerSandbox(clock=ManualClock(), client_id="pagw-gateway", jwks=jwks)
    with serve_in_thread(build_pas_payer_app(sandbox)) as url:
        yield sandbox, url


@pytest.mark.parametrize(
    ("value", "algorithm"),
    [(to_pem(RSA_KEY), "RS384"), (RSA_JWK, "RS384"), (to_pem(EC_KEY), "ES384")],
    ids=["RSA in PEM", "RSA as JWK", "P-384 in PEM"],
)
async def test_token_is_fetched_with_a_signed_assertion(value: str, algorithm: str) -> None:
    secret = Secret(NAME, value)
    with serve_payer(build_key_set([secret])) as (sandbox, url):
        config = make_config(
            url, format="fhir-pas", client_id="pagw-gateway", token_auth="private_key_jwt", scope="system/*.*"
        )
        async with make_client() as http:
            token = await fetch_token(http, config, secret, clock=sandbox.clock)

            async def get_token() -> str:
                return token.access_token

            await PasPayerClient(http, config, get_token, clock=sandbox.clock).check()
    assert jwt.get_unverified_header(build_assertion(config, secret, NOW.timestamp()))["alg"] == algorithm


async def test_assertion_is_for_one_endpoint_and_one_use() -> None:
    secret = Secret(NAME, to_pem(EC_KEY))
    config = make_config("https://payer.example", client_id="pagw", token_auth="private_key_jwt")
    first, second = (build_assertion(config, secret, NOW.timestamp()) for _ in range(2))
    claims = jwt.decode(first, options={"verify_signature": False})
    assert (claims["iss"], claims["sub"]) == ("pagw", "pagw")
    assert claims["aud"] == "https://payer.example/oauth/token"
    assert 0 < claims["exp"] - claims["iat"] <= 300
    assert claims["jti"] != jwt.decode(second, options={"verify_signature": False})["jti"]


async def test_wrong_key_is_refused_and_never_shown() -> None:
    with serve_payer(build_key_set([Secret(NAME, to_pem(RSA_KEY))])) as (sandbox, url):
        config = make_config(url, client_id="pagw-gateway", token_auth="private_key_jwt")
        async with make_client() as http:
            with pytest.raises(ExternalServiceFailed, match=r"refused the gateway with 401") as refused:
                await fetch_token(http, config, Secret(NAME, to_pem(EC_KEY)), clock=sandbox.clock)
    assert "eyJ" not in str(refused.value)
    weak = ec.generate_private_key(ec.SECP256R1())
    for value in ("no key at all", "{}", '{"kty": "RSA"}', to_pem(weak)):
        with pytest.raises(SettingsError, match="expected a private key") as invalid:
            parse_signing_key(NAME, value)
        assert value[:20] not in str(invalid.value) or value == "{}"


def test_published_keys_are_public_and_include_the_previous_one() -> None:
    published = build_key_set([Secret(NAME, to_pem(EC_KEY), RSA_JWK), Secret("pagw/payers/broken", "no key")])
    assert [each["kty"] for each in published["keys"]] == ["EC", "RSA"]
    assert published["keys"][1]["kid"] == "own-id"
    for key in published["keys"]:
        assert not {"d", "p", "q", "dp", "dq", "qi"} & key.keys()
        assert key["use"] == "sig"
    # The id of a key without one is its thumbprint: the same in every process.
    assert parse_signing_key(NAME, to_pem(EC_KEY)).kid == published["keys"][0]["kid"]


async def test_client_secret_can_be_sent_in_the_form() -> None:
    sandbox = PasPayerSandbox(clock=ManualClock(), client_id="pagw-gateway", client_secret="s3cret")
    with serve_in_thread(build_pas_payer_app(sandbox)) as url:
        config = make_config(url, client_id="pagw-gateway", token_auth="client_secret_post")
        async with make_client() as http:
            found = await fetch_token(http, config, Secret(NAME, "s3cret"), clock=sandbox.clock)
            assert isinstance(found, AccessToken)
            with pytest.raises(ExternalServiceFailed):
                await fetch_token(http, config, Secret(NAME, "other"), clock=sandbox.clock)


# --- mutual TLS ---------------------------------------------------------------------------------------------


class Authority:
    """A certificate authority of the test."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority")])
        self.certificate = self._sign(self._name, self._key.public_key(), is_authority=True)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, name: str) -> str:
        """Return a certificate and its private key in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._sign(subject, key.public_key(), is_authority=False)
        return made.public_bytes(serialization.Encoding.PEM).decode() + to_pem(key)

    def _sign(self, subject: x509.Name, public: Any, *, is_authority: bool) -> x509.Certificate:
        now = datetime.now().astimezone()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )


class StatementHandler(BaseHTTPRequestHandler):
    """Answers every GET with a CapabilityStatement, and notes the names in clients' certificates."""

    names: list[str]

    def do_GET(self) -> None:
        peer: Any = self.connection
        subject = dict(each[0] for each in peer.getpeercert()["subject"])
        self.names.append(subject["commonName"])
        body = b'{"resourceType": "CapabilityStatement"}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def serve_with_mutual_tls(authority: Authority, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a payer that demands a certificate of the authority. Yield its address, and the names seen."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "server.pem").write_text(authority.issue("payer"))
    context.load_cert_chain(folder / "server.pem")
    context.load_verify_locations(cadata=authority.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    names: list[str] = []
    handler = type("Handler", (StatementHandler,), {"names": names})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}", names
        server.shutdown()


class FakeSecrets:
    """Secrets by name."""

    def __init__(self, **values: str) -> None:
        self._values = values

    def get(self, name: str) -> Secret:
        return Secret(name, self._values[name.replace("/", "_")])


@pytest.mark.proves("PG-56")
async def test_client_certificate_comes_from_the_secret_store(tmp_path: Path) -> None:
    authority = Authority()
    secrets: Any = FakeSecrets(
        pagw_certificate=authority.issue("pagw"), pagw_ca=authority.pem, pagw_broken="no certificate"
    )
    with serve_with_mutual_tls(authority, tmp_path) as (url, names):
        options = {"client_certificate": "pagw/certificate", "server_ca": "pagw/ca"}
        config = make_config(url, format="fhir-pas", auth_type="mtls", credentials_arn=None, **options)

        async def get_token() -> str:
            raise AssertionError("the certificate is the only credential")

        async with open_http_clients() as clients:
            http = clients.get(config, secrets)
            assert clients.get(config, secrets) is http, "connections are kept"
            await PasPayerClient(http, config, get_token).check()
            assert names == ["pagw"]
            # Without a certificate, the payer ends the connection.
            bare = make_config(url, format="fhir-pas", auth_type="none", server_ca="pagw/ca")
            with pytest.raises(ExternalServiceFailed):
                await PasPayerClient(clients.get(bare, secrets), bare, get_token).check()
            broken = make_config(
                url, auth_type="mtls", credentials_arn=None, client_certificate="pagw/broken"
            )
            with pytest.raises(SettingsError, match="expected certificates in PEM"):
                clients.get(broken, secrets)


def test_incomplete_authentication_is_refused() -> None:
    with pytest.raises(SettingsError, match="mtls needs a certificate"):
        make_config("https://payer.example", auth_type="mtls")
    with pytest.raises(SettingsError, match="private_key_jwt needs client_id"):
        make_config("https://payer.example", token_auth="private_key_jwt")
    with pytest.raises(SettingsError, match="unknown options surprise"):
        make_config("https://payer.example", options={"surprise": 1})
