"""Every source of secrets (environment, file, Secrets Manager at moto): values, rotation, cache, names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.security.secrets import EnvironmentSecrets, FileSecrets, Secrets, SecretSource
from holdfast.security.secrets_manager import open_secrets_manager
from tests.contract.moto import moto_endpoint

LATER_S = 60.0


@dataclass
class SecretStore:
    """A source of secrets under test."""

    source: SecretSource
    # Sets a secret to a new value; the old one becomes the previous value.
    rotate: Callable[[str, str], None]


@dataclass
class ManualClock:
    moment: float = 1_763_200_000.0

    def now(self) -> float:
        return self.moment


@pytest.fixture(params=["environment", "file", "secrets manager"])
def secret_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecretStore]:
    """Yield the source of secrets under test, once per kind."""
    if request.param == "environment":
        yield _make_environment_store()
    elif request.param == "file":
        yield _make_file_store(tmp_path / "secrets.toml")
    else:
        with moto_endpoint() as address:
            yield _make_secrets_manager_store(address)


def test_a_secret_has_its_value_and_no_previous_one(secret_store: SecretStore) -> None:
    secret_store.rotate("webhook", "value-one")
    secret = Secrets(secret_store.source).get("webhook")
    assert (secret.current, secret.previous, secret.live) == ("value-one", None, ("value-one",))


def test_a_secret_that_is_rotated_has_two_live_values(secret_store: SecretStore) -> None:
    secret_store.rotate("webhook", "value-one")
    secret_store.rotate("webhook", "value-two")
    secret = Secrets(secret_store.source).get("webhook")
    assert (secret.current, secret.previous) == ("value-two", "value-one")
    assert secret.live == ("value-two", "value-one")


def test_distinguishes_secrets_by_name(secret_store: SecretStore) -> None:
    secret_store.rotate("webhook", "value-one")
    secret_store.rotate("shop/api-token", "value-two")
    secrets = Secrets(secret_store.source)
    assert secrets.get("shop/api-token").current == "value-two"
    assert secrets.get("webhook").current == "value-one"


def test_a_missing_secret_says_where_to_put_it(secret_store: SecretStore) -> None:
    secret_store.rotate("another", "value-one")
    with pytest.raises(NotFound, match=r"'webhook': (set|add|create)"):
        Secrets(secret_store.source).get("webhook")


def test_caches_a_value_for_a_while_and_then_reads_it_again(secret_store: SecretStore) -> None:
    clock = ManualClock()
    secrets = Secrets(secret_store.source, clock=clock, cache_s=LATER_S)
    secret_store.rotate("webhook", "value-one")
    assert secrets.get("webhook").current == "value-one"
    secret_store.rotate("webhook", "value-two")
    assert secrets.get("webhook").current == "value-one"
    clock.moment += LATER_S
    assert secrets.get("webhook").current == "value-two"


def test_reads_a_value_again_that_was_read_while_the_clock_was_ahead(secret_store: SecretStore) -> None:
    clock = ManualClock()
    secrets = Secrets(secret_store.source, clock=clock, cache_s=LATER_S)
    secret_store.rotate("webhook", "value-one")
    clock.moment += 86_400
    assert secrets.get("webhook").current == "value-one"
    clock.moment -= 86_400
    secret_store.rotate("webhook", "value-two")
    assert secrets.get("webhook").current == "value-two"


def test_refresh_reads_the_value_at_once(secret_store: SecretStore) -> None:
    secrets = Secrets(secret_store.source, clock=ManualClock())
    secret_store.rotate("webhook", "value-one")
    secrets.get("webhook")
    secret_store.rotate("webhook", "value-two")
    assert secrets.refresh("webhook").current == "value-two"
    assert secrets.get("webhook").current == "value-two"


@pytest.mark.parametrize("name", ["", "Upper", "a b", "../up", "a//b", "a_", "ä"])
def test_rejects_a_name_that_not_every_source_supports(secret_store: SecretStore, name: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid secret name"):
        Secrets(secret_store.source).get(name)


def _make_environment_store() -> SecretStore:
    """Return secrets in environment variables."""
    environ: dict[str, str] = {}

    def rotate(name: str, value: str) -> None:
        variable = "HOLDFAST_SECRET_" + name.upper().replace("/", "_").replace("-", "_")
        if variable in environ:
            environ[variable + "_PREVIOUS"] = environ[variable]
        environ[variable] = value

    return SecretStore(EnvironmentSecrets(environ), rotate)


def _make_file_store(path: Path) -> SecretStore:
    """Return secrets in a TOML file."""
    values: dict[str, list[str]] = {}

    def rotate(name: str, value: str) -> None:
        values[name] = [value, *values.get(name, [])][:2]
        lines = [
            f'"{each}" = {{ current = "{held[0]}"' + (f', previous = "{held[1]}"' if held[1:] else "") + " }"
            for each, held in values.items()
        ]
        path.touch(mode=0o600)
        path.write_text("\n".join(lines))

    return SecretStore(FileSecrets(path), rotate)


def _make_secrets_manager_store(address: str) -> SecretStore:
    """Return secrets in Secrets Manager at moto."""
    # The tests of a process share one moto server, so each uses its own names.
    prefix = uuid4().hex
    source = open_secrets_manager(f"secretsmanager+http://{address}/{prefix}")
    made: set[str] = set()

    def rotate(name: str, value: str) -> None:
        if name in made:
            source._client.put_secret_value(SecretId=f"{prefix}/{name}", SecretString=value)
        else:
            source._client.create_secret(Name=f"{prefix}/{name}", SecretString=value)
        made.add(name)

    return SecretStore(source, rotate)
