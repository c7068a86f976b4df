"""Cache settings: which engine they select, and the addresses that are refused without their password."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import SecretMissing, SettingsError
from holdfast.runtime.factory import open_cache_engine
from holdfast.stores.cache.memory import MemoryCache
from holdfast.stores.cache.redis import RedisCache


def load_settings(tmp_path: Path, **values: str) -> Settings:
    """Load settings from a file with these values, without environment variables."""
    file = tmp_path / "holdfast.toml"
    file.write_text("".join(f'{name} = "{value}"\n' for name, value in values.items()))
    return Settings.load(file, environ={})


@pytest.mark.proves("PG-41")
@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("redis://cache.example:6379/0", ("cache.example", 6379, 0, False)),
        ("rediss://cache.example:6380/12", ("cache.example", 6380, 12, True)),
        ("redis://127.0.0.1", ("127.0.0.1", 6379, 0, False)),
        ("rediss://[::1]:6379", ("::1", 6379, 0, True)),
    ],
)
def test_an_address_names_host_port_and_tls(
    tmp_path: Path, address: str, place: tuple[str, int, int, bool]
) -> None:
    engine = open_cache_engine(load_settings(tmp_path, cache=address), SYSTEM_CLOCK)
    assert isinstance(engine, RedisCache)
    connection = engine._client.connection_pool.make_connection()
    is_tls = "SSL" in type(connection).__name__
    assert (connection.host, connection.port, connection.db, is_tls) == place
    engine.close()


def test_without_a_setting_the_cache_is_in_memory(tmp_path: Path) -> None:
    assert isinstance(open_cache_engine(load_settings(tmp_path), SYSTEM_CLOCK), MemoryCache)


@pytest.mark.parametrize(
    "address",
    [
        "memory",
        "memory:x",
        "redis:",
        "redis://",
        "http://cache",
        "redis://:pa55word@cache",
        "redis://u:pa55word@cache",
        "redis://cache/name",
        "redis://cache?ssl=1",
        "redis://cache:port",
        "redis://cache:65536",
        "",
    ],
)
def test_rejects_an_invalid_address_without_showing_its_password(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError, match="cache") as refused:
        load_settings(tmp_path, cache=address)
    assert "pa55word" not in refused.value.message


def test_a_user_needs_a_password_and_the_password_must_be_set(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cache_secret"):
        load_settings(tmp_path, cache="redis://holdfast@cache")
    settings = load_settings(tmp_path, cache="redis://holdfast@cache", cache_secret="cache")
    with pytest.raises(SecretMissing, match="HOLDFAST_SECRET_CACHE"):
        open_cache_engine(settings, SYSTEM_CLOCK)
