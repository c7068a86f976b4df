"""Every source of secrets: the current value, the previous one while it is live, and where to put what is missing."""

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
class Place:
    source: SecretSource
    # Sets a secret to a value; what it was before is the previous one.
    rotate: Callable[[str, str], None]


@dataclass
class Hands:
    moment: float = 1_763_200_000.0

    def now(self) -> float:
        return self.moment


@pytest.fixture(params=["environment", "file", "secrets manager"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "environment":
        yield _in_environment()
    elif request.param == "file":
        yield _in_file(tmp_path / "secrets.toml")
    else:
        with moto_endpoint() as address:
            yield _at_moto(address)


def test_a_secret_has_its_value_and_no_previous_one(place: Place) -> None:
    place.rotate("webhook", "value-one")
    secret = Secrets(place.source).get("webhook")
    assert (secret.current, secret.previous, secret.live) == ("value-one", None, ("value-one",))


def test_a_secret_that_is_rotated_has_two_live_values(place: Place) -> None:
    place.rotate("webhook", "value-one")
    place.rotate("webhook", "value-two")
    secret = Secrets(place.source).get("webhook")
    assert (secret.current, secret.previous) == ("value-two", "value-one")
    assert secret.live == ("value-two", "value-one")


def test_secrets_are_told_apart_by_name(place: Place) -> None:
    place.rotate("webhook", "value-one")
    place.rotate("shop/api-token", "value-two")
    secrets = Secrets(place.source)
    assert secrets.get("shop/api-token").current == "value-two"
    assert secrets.get("webhook").current == "value-one"


def test_a_missing_secret_says_where_to_put_it(place: Place) -> None:
    place.rotate("another", "value-one")
    with pytest.raises(NotFound, match=r"'webhook': (set|add|create)"):
        Secrets(place.source).get("webhook")


def test_a_value_is_kept_for_a_while_and_then_looked_at_again(place: Place) -> None:
    clock = Hands()
    secrets = Secrets(place.source, clock=clock, cache_s=LATER_S)
    place.rotate("webhook", "value-one")
    assert secrets.get("webhook").current == "value-one"
    place.rotate("webhook", "value-two")
    assert secrets.get("webhook").current == "value-one"
    clock.moment += LATER_S
    assert secrets.get("webhook").current == "value-two"


def test_a_refresh_looks_again_at_once(place: Place) -> None:
    secrets = Secrets(place.source, clock=Hands())
    place.rotate("webhook", "value-one")
    secrets.get("webhook")
    place.rotate("webhook", "value-two")
    assert secrets.refresh("webhook").current == "value-two"
    assert secrets.get("webhook").current == "value-two"


@pytest.mark.parametrize("name", ["", "Upper", "a b", "../up", "a//b", "a_", "ä"])
def test_a_name_that_not_every_source_can_have_is_refused(place: Place, name: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid secret name"):
        Secrets(place.source).get(name)


def _in_environment() -> Place:
    environ: dict[str, str] = {}

    def rotate(name: str, value: str) -> None:
        variable = "HOLDFAST_SECRET_" + name.upper().replace("/", "_").replace("-", "_")
        if variable in environ:
            environ[variable + "_PREVIOUS"] = environ[variable]
        environ[variable] = value

    return Place(EnvironmentSecrets(environ), rotate)


def _in_file(path: Path) -> Place:
    values: dict[str, list[str]] = {}

    def rotate(name: str, value: str) -> None:
        values[name] = [value, *values.get(name, [])][:2]
        lines = [
            f'"{each}" = {{ current = "{held[0]}"' + (f', previous = "{held[1]}"' if held[1:] else "") + " }"
            for each, held in values.items()
        ]
        path.touch(mode=0o600)
        path.write_text("\n".join(lines))

    return Place(FileSecrets(path), rotate)


def _at_moto(address: str) -> Place:
    # What moto has is shared by the tests of a process: each has names of its own.
    prefix = uuid4().hex
    source = open_secrets_manager(f"secretsmanager+http://{address}/{prefix}")
    made: set[str] = set()

    def rotate(name: str, value: str) -> None:
        if name in made:
            source._client.put_secret_value(SecretId=f"{prefix}/{name}", SecretString=value)
        else:
            source._client.create_secret(Name=f"{prefix}/{name}", SecretString=value)
        made.add(name)

    return Place(source, rotate)
