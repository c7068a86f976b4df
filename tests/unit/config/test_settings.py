"""Settings from the file and the environment; a wrong name or value is refused with a correction."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError


def load_settings(tmp_path: Path, text: str, **environ: str) -> Settings:
    """Write a settings file with this text and load it with these variables."""
    file = tmp_path / "holdfast.toml"
    file.write_text(text, encoding="utf-8")
    return Settings.load(file, environ)


def test_uses_defaults_without_file_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert Settings.load(environ={}) == Settings()


def test_the_file_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holdfast.toml").write_text("serve_port = 9000\n", encoding="utf-8")

    assert Settings.load(environ={}).serve_port == 9000


def test_a_variable_names_another_file(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("serve_port = 9001\n", encoding="utf-8")

    assert Settings.load(environ={"HOLDFAST_SETTINGS": str(tmp_path / "other.toml")}).serve_port == 9001


def test_a_variable_wins_over_the_file(tmp_path: Path) -> None:
    assert load_settings(tmp_path, "serve_port = 9000", HOLDFAST_SERVE_PORT="9002").serve_port == 9002


def test_paths_are_relative_to_the_settings_file(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, 'tables = "sqlite:shop/tables.db"\ncredentials = "who.txt"')

    assert settings.tables_file == tmp_path / "shop" / "tables.db"
    assert settings.tables_directory == tmp_path / "shop"
    assert settings.credentials_file == tmp_path / "who.txt"


def test_an_absolute_path_stays_as_it_is(tmp_path: Path) -> None:
    assert load_settings(tmp_path, 'tables = "sqlite:/srv/tables.db"').tables_file == Path("/srv/tables.db")


def test_tables_can_live_in_memory(tmp_path: Path) -> None:
    assert load_settings(tmp_path, 'tables = "sqlite::memory:"').has_memory_tables


def test_hosts_and_origins_are_lists_with_commas(tmp_path: Path) -> None:
    settings = load_settings(
        tmp_path,
        'allowed_hosts = "API.example.com, *,"',
        HOLDFAST_ALLOWED_ORIGINS="https://a.example , http://localhost:3000",
    )
    assert settings.host_names == ("api.example.com", "*")
    assert settings.origins == ("https://a.example", "http://localhost:3000")
    assert Settings().host_names == Settings().origins == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("serve_prot = 1", "serve_prot in .* did you mean serve_port"),
        ("base = 'x'", "base in .* is not a setting"),
        ("serve_port = '8000'", "serve_port in .* must be a whole number"),
        ("serve_port = true", "serve_port in .* must be a whole number"),
        ("serve_host = 1", "serve_host in .* must be a text in quotes"),
        ("serve_port = 70000", "Invalid serve_port=70000"),
        ("serve_port = -1", "Invalid serve_port=-1"),
        ("health_timeout_ms = 0", "Invalid health_timeout_ms=0: expected 1 to 60000"),
        ("tables = 'mongo:x'", "Invalid tables="),
        ("tables = 'sqlite:'", "Invalid tables="),
        ("tables = 'sqlite:shop.db'", "that ends in 'tables.db'"),
        ("tables = ", "is not TOML"),
        ("allowed_hosts = 'https://api.example.com'", "Invalid allowed_hosts=.* is not a host name"),
        ("allowed_hosts = 'api.example.com:443'", "Invalid allowed_hosts=.* is not a host name"),
        ("allowed_hosts = 'api.example.com, a b'", "Invalid allowed_hosts=.*'a b' is not a host name"),
        ("allowed_origins = 'app.example.com'", "Invalid allowed_origins=.* is not an origin"),
        ("allowed_origins = 'https://app.example.com/path'", "Invalid allowed_origins=.* is not an origin"),
        ("mcp_port = 70000", "Invalid mcp_port=70000"),
        ("mcp_url = 'http://agents.test/mcp'", "Invalid mcp_url="),
        ("mcp_url = 'https://agents.test/mcp?x=1'", "Invalid mcp_url="),
        ("mcp_token_issuer = 'https://i.test'", "needs mcp_url and mcp_token_keys"),
        ("mcp_token_keys = 'jwks.json'", "needs mcp_token_issuer"),
    ],
)
def test_invalid_setting_is_refused_with_the_allowed_values(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        load_settings(tmp_path, text)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        Settings.load(tmp_path / "nowhere.toml", {})


def test_a_variable_of_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_SERVE_PORT must be a whole number, not 'eight'"):
        load_settings(tmp_path, "", HOLDFAST_SERVE_PORT="eight")


def test_a_misspelt_variable_is_refused_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_TABELS is not a setting: did you mean HOLDFAST_TABLES"):
        load_settings(tmp_path, "", HOLDFAST_TABELS="sqlite::memory:")


def test_ignores_unrelated_variables(tmp_path: Path) -> None:
    assert load_settings(tmp_path, "", HOLDFAST_SOAK="1").serve_port == 8000
