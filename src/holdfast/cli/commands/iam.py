"""`holdfast iam`: the least privilege of each component of a system, as IAM policies and as grants of the database."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from holdfast.cli.derived_files import AsJson, Force, Out, SystemName, write_files
from holdfast.cli.misuse import CalledWrongly
from holdfast.settings import ENVIRONMENT_NAME, Settings

REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}")
ACCOUNT: Final = re.compile(r"[0-9]{12}")

Environment = Annotated[
    str | None,
    typer.Option("--environment", metavar="NAME", help="The environment, instead of the setting."),
]


def iam(
    system: SystemName,
    out: Out,
    environment: Environment = None,
    region: Annotated[str, typer.Option("--region", metavar="REGION", help="The region of the tables.")] = "",
    account: Annotated[str, typer.Option("--account", metavar="ID", help="The account of the tables.")] = "",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write what each component of a system needs, and no more: IAM policies, and roles of its database."""
    _refuse_unlike("--region", region, REGION, "eu-central-1")
    _refuse_unlike("--account", account, ACCOUNT, "123456789012")
    from holdfast.model.system import installed_system
    from holdfast.reports.iam import ACCOUNT_PLACEHOLDER, REGION_PLACEHOLDER, policy_files
    from holdfast.reports.sql_grants import grant_files

    found = installed_system(system)
    files = policy_files(
        found,
        environment=chosen_environment(environment),
        region=region or REGION_PLACEHOLDER,
        account=account or ACCOUNT_PLACEHOLDER,
    )
    write_files(out, files | grant_files(found), force=force, as_json=as_json)


def _refuse_unlike(option: str, given: str, shape: re.Pattern[str], example: str) -> None:
    """It becomes part of what is granted on: a wildcard in it would grant more."""
    if given and not shape.fullmatch(given):
        raise CalledWrongly(f"{option} {given!r} cannot be: it is written as {example}.")


def chosen_environment(named: str | None) -> str:
    """The environment that was named, or else the one of the settings."""
    if named is None:
        return Settings.load().environment
    if not ENVIRONMENT_NAME.fullmatch(named):
        raise CalledWrongly(
            f"--environment {named!r} becomes part of table names: use up to 32 letters, digits, '_', '-' and '.'."
        )
    return named
