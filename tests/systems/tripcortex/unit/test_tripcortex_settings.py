"""Tests of `TripCortexSettings`: invalid values are rejected at startup with the variable's name."""

from __future__ import annotations

import dataclasses

import pytest

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import SettingsError
from holdfast.web.demo_env import patch_environ
from tests.cases import all_cases
from tripcortex.integrations.portal.client import open_portal
from tripcortex.settings import CHOICES, RANGES, SWITCHES, TEXTS, TripCortexSettings, get_variable_name


def test_every_field_has_a_variable_and_a_default() -> None:
    fields = {each.name for each in dataclasses.fields(TripCortexSettings)}
    assert fields == {*RANGES, *SWITCHES, *TEXTS}
    assert TripCortexSettings.load({}) == TripCortexSettings()
    assert (TripCortexSettings().options_max, TripCortexSettings().audit_years) == (3, 2)


@all_cases("name", RANGES)
def test_rejects_an_invalid_number_and_names_its_variable(name: str) -> None:
    least, default, most = RANGES[name]
    for text in ("", "nine", "-1", "1.5", "٣", str(most + 1), *([str(least - 1)] if least else [])):
        with pytest.raises(SettingsError, match=get_variable_name(name)):
            TripCortexSettings.load({get_variable_name(name): text})
    for value in (least, default, most):
        assert getattr(TripCortexSettings.load({get_variable_name(name): str(value)}), name) == value


@all_cases("name", SWITCHES)
def test_a_switch_is_on_or_off(name: str) -> None:
    assert getattr(TripCortexSettings.load({get_variable_name(name): "on"}), name) is True
    for text in ("", "maybe", "2"):
        with pytest.raises(SettingsError, match=get_variable_name(name)):
            TripCortexSettings.load({get_variable_name(name): text})


@all_cases("name", CHOICES)
def test_rejects_an_unknown_choice(name: str) -> None:
    for text in ("", "gpt", "Local"):
        with pytest.raises(SettingsError, match=get_variable_name(name)):
            TripCortexSettings.load({get_variable_name(name): text})


def test_approvers_are_roles_with_employees() -> None:
    variable = get_variable_name("approvers")
    set_so = TripCortexSettings.load({variable: "line-manager=emp-7, travel-desk = emp-9,"})
    assert set_so.approvers_by_role == {"line-manager": "emp-7", "travel-desk": "emp-9"}
    for text in ("emp-7", "line-manager=", "=emp-7", "a=b,c"):
        with pytest.raises(SettingsError, match=variable):
            TripCortexSettings.load({variable: text})


@all_cases(
    "address", ["", "portal", "ftp://portal.example", "http://portal.example", "https://a:b@p.example"]
)
async def test_rejects_an_invalid_portal_address_before_any_call(address: str) -> None:
    async def open_portal_client() -> None:
        async with open_portal(SYSTEM_CLOCK):
            pass

    with (
        patch_environ({get_variable_name("portal_url"): address}),
        pytest.raises(SettingsError, match="PORTAL_URL"),
    ):
        await open_portal_client()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("APPROVER_WORDS", "L1=boss:1"),
        ("APPROVER_WORDS", "=manager:1"),
        ("LEVELS", "vp=high"),
        ("APPROVAL_ORDER", "anyhow"),
        ("APPROVERS", "line-manager"),
    ],
)
def test_rejects_invalid_settings_of_approvals(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"Invalid TRIPCORTEX_{name}"):
        TripCortexSettings.load({f"TRIPCORTEX_{name}": value})
