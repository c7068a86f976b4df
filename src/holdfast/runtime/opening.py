"""From the settings to stores: which engine each store has, opened and bound to a system."""

from __future__ import annotations

from holdfast.clock import Clock, SystemClock
from holdfast.errors import SettingsError
from holdfast.model.system import System
from holdfast.runtime.stores import Stores
from holdfast.settings import Settings
from holdfast.stores.tables.port import Tables


def open_stores(
    system: System | None = None, settings: Settings | None = None, *, clock: Clock | None = None
) -> Stores:
    """The stores that the settings name (`holdfast.toml`, `HOLDFAST_…`), for a system. Close them when done."""
    settings = settings or Settings.load()
    clock = clock or SystemClock()
    tables = open_tables_engine(settings, clock)
    return Stores(
        tables,
        system=system,
        environment=settings.environment,
        clock=clock,
        close=getattr(tables, "close", None),
    )


def stores_in_memory(system: System | None = None, *, clock: Clock | None = None) -> Stores:
    """Stores that end with the process: for tests, and for trying something out."""
    return open_stores(system, Settings(tables="sqlite::memory:"), clock=clock)


def open_tables_engine(settings: Settings, clock: Clock) -> Tables:
    if not settings.tables_embedded:
        from holdfast.stores.tables.dynamodb import open_dynamodb

        return open_dynamodb(region=settings.tables_region, endpoint=settings.tables_endpoint)
    from holdfast.stores.tables.embedded import open_tables

    if settings.tables_in_memory:
        return open_tables(None, clock=clock)
    try:
        settings.tables_directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The data folder {settings.tables_directory} cannot be made ({error.strerror}): name another in the "
            "setting `tables`."
        ) from error
    return open_tables(settings.tables_file, clock=clock)
