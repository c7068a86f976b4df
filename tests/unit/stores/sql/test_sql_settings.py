"""SQL settings: which engine they select, and invalid values that are refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError
from tests.cases import all_cases


def load(**variables: str) -> Settings:
    """Load settings from these variables alone."""
    return Settings.load(environ={f"HOLDFAST_{name.upper()}": value for name, value in variables.items()})


def test_distinguishes_folder_temporary_server_and_url() -> None:
    assert (load().has_embedded_sql, load().sql_directory) == (True, Path("data/postgres"))
    assert load(sql="postgres:elsewhere/pg").sql_directory == Path("elsewhere/pg")
    temporary = load(sql="postgres::temporary:")
    assert (temporary.has_embedded_sql, temporary.sql_directory) == (True, None)
    for url in ("postgresql://user@host/db", "postgres://user@host/db"):
        assert not load(sql=url).has_embedded_sql


@all_cases(
    "wrong",
    [
        {"sql": "mysql://user:word@host/db"},
        {"sql": "postgres:"},
        {"sql_reader": "postgresql://user@host/db"},
        {"sql": "postgresql://user@host/db", "sql_reader": "elsewhere"},
        {"sql_database": "Robert'); DROP TABLE"},
        {"sql_pool_max": "0"},
        {"sql_pool_min": "11"},
        {"sql_statement_timeout_ms": "-1"},
    ],
)
def test_rejects_invalid_engines_and_pool_sizes(wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="sql") as refused:
        load(**wrong)
    assert "word" not in str(refused.value)
