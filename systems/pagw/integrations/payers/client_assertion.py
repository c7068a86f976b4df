"""Signed assertions of the gateway (SMART backend services, `private_key_jwt`), and its public keys.

A payer's secret holds the private key: a JWK, or PEM. RSA keys sign with RS384, P-384 keys with ES384. The
payer verifies an assertion with the key set that the gateway publishes. During a rotation the key set has the
keys of both values of a secret. The id of a key is the JWK's own `kid`, else its thumbprint (RFC 7638).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from holdfast.core.errors import SettingsError
from holdfast.core.rng import make_uuid
from holdfast.runtime import Secret
from pagw.integrations.payers.config import PayerConfig

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# SMART allows five minutes at most.
LIFETIME_S: Final = 240
MIN_RSA_BITS: Final = 2048
# The members of a key that its thumbprint covers, by the key's type.
_THUMBPRINT_MEMBERS: Final = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y")}

PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey


@dataclass(frozen=True)
class SigningKey:
    """A private key with its id and algorithm. `public` is the JWK that the gateway publishes."""

    private: PrivateKey = field(repr=False)
    algorithm: str
    kid: str
    public: dict[str, Any]


def build_assertion(config: PayerConfig, secret: Secret, now: float) -> str:
    """Return a new assertion for the payer's token endpoint. Raise `SettingsError` for an invalid key."""
    key = parse_signing_key(secret.name, secret.current)
    claims = {
        "iss": config.client_id,
        "sub": config.client_id,
        "aud": config.token_address,
        "iat": int(now),
        "exp": int(now) + LIFETIME_S,
        "jti": str(make_uuid()),
    }
    return jwt.encode(claims, key.private, algorithm=key.algorithm, headers={"kid": key.kid, "typ": "JWT"})


def build_key_set(secrets: Iterable[Secret]) -> dict[str, Any]:
    """Return the JSON Web Key Set of all live keys. An invalid key is left out; the payer's test reports
    it.
    """
    keys = dict[str, dict[str, Any]]()
    for secret in secrets:
        for value in secret.live:
            try:
                key = parse_signing_key(secret.name, value)
            except SettingsError:
                continue
            keys[key.kid] = key.public
    return {"keys": list(keys.values())}


def parse_signing_key(name: str, value: str) -> SigningKey:
    """Parse the private key in the secret `name`. Raise `SettingsError` if SMART does not allow it."""
    try:
        given: dict[str, Any] = json.loads(value) if value.lstrip().startswith("{") else {}
        private, algorithm = _check_key(
            jwt.PyJWK(given).key if given else load_pem_private_key(value.encode(), None)
        )
    except (ValueError, TypeError, jwt.PyJWTError):
        # The parser's message may quote the key.
        raise SettingsError(
            f"Invalid secret {name!r}: expected a private key, RSA of {MIN_RSA_BITS} bits or more, or P-384, "
            "as a JWK or in PEM."
        ) from None
    public = _build_public_key(private)
    kid = given.get("kid") or _compute_thumbprint(public)
    return SigningKey(private, algorithm, kid, {**public, "kid": kid, "alg": algorithm, "use": "sig"})


def _check_key(key: Any) -> tuple[PrivateKey, str]:
    """Return the key with its algorithm. Raise `ValueError` if SMART allows none."""
    if isinstance(key, RSAPrivateKey) and key.key_size >= MIN_RSA_BITS:
        return key, "RS384"
    if isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP384R1):
        return key, "ES384"
    raise ValueError("unsupported key")


def _build_public_key(private: PrivateKey) -> dict[str, Any]:
    """Return the public half of a key as a JWK, without its id."""
    if isinstance(private, RSAPrivateKey):
        members = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
    else:
        members = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    return {name: members[name] for name in _THUMBPRINT_MEMBERS[members["kty"]]}


def _compute_thumbprint(public: dict[str, Any]) -> str:
    """Return the thumbprint of a public key (RFC 7638)."""
    text = json.dumps(public, sort_keys=True, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
