"""How hosts open stores and start a system: one factory for all, engines on first use, start-up functions."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import Stores, open_stores
from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError, StoreClosed
from holdfast.model.demo import Demo
from holdfast.model.system import Deployment
from holdfast.runtime import open_systems, start_system
from tests.unit.runtime import post_office as office
from tests.unit.runtime.post_office import SYSTEM, Letter

SOURCE = Path(__file__).parents[3] / "src" / "holdfast"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the default settings, in a folder of the test's own."""
    return Settings(base=tmp_path)


async def test_opens_no_engine_that_is_not_used(settings: Settings) -> None:
    async with open_stores(SYSTEM, settings) as stores:
        stores.for_component("desk")

        assert list(settings.base.iterdir()) == []


async def test_several_systems_share_engines_until_the_context_ends(settings: Settings) -> None:
    other = replace(SYSTEM, name="branch")
    async with open_systems([SYSTEM, other], settings) as (main, branch):
        await start_system(SYSTEM, main)
        await branch.close()  # a view leaves the engines open
        await main.run(office.post(Letter(id="A1")))

        assert (main.tables, main.engines) == (branch.tables, branch.engines)
        assert (main.system, branch.system) == (SYSTEM, other)
    with pytest.raises(StoreClosed):
        await main.run(office.post(Letter(id="A2")))


async def test_every_opened_system_needs_its_environment(settings: Settings) -> None:
    strict = replace(SYSTEM, deployment=Deployment(needs_environment=True))

    with pytest.raises(SettingsError, match="Missing environment"):
        async with open_systems([SYSTEM, strict], settings):
            pytest.fail("it opened the stores")


async def test_start_up_functions_run_on_created_stores_first_the_systems_own(settings: Settings) -> None:
    ran = []

    async def greet(stores: Stores) -> None:
        await stores.run(office.post(Letter(id="A1")))
        ran.append("system")

    async def rehearse(_: Stores) -> None:
        ran.append("demo")

    system = replace(SYSTEM, deployment=Deployment(on_startup=greet), demo=Demo(on_startup=rehearse))
    async with open_stores(system, settings) as stores:
        await start_system(system, stores)

    assert ran == ["system", "demo"]


def test_hosts_do_not_build_stores_themselves() -> None:
    """Only the runtime binds a system to engines: a host that did it would lack a store, as MCP once did."""
    building = re.compile(r"(?<!\w)Stores\([^)]")
    builders = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if building.search(re.sub(r'".*?"', "", file.read_text(encoding="utf-8")))
    }

    assert builders == {"runtime/factory.py", "runtime/stores.py"}
