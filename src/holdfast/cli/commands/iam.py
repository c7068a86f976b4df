"""`holdfast iam`: write each component's least privilege, as IAM policies and database grants."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from holdfast.cli.output.generated_files import AsJson, Force, Out, SystemName, write_files
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import ENVIRONMENT_NAME, Settings

REGION_FORMAT: Final = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}")
ACCOUNT_FORMAT: Final = re.compile(r"[0-9]{12}")

Environment = Annotated[
    str | None,
    typer.Option("--environment", metavar="NAME", help="Use this environment instead of the setting."),
]


def iam(
    system: SystemName,
    out: Out,
    environment: Environment = None,
    region: Annotated[str, typer.Option("--region", metavar="REGION", help="The AWS region.")] = "",
    account: Annotated[str, typer.Option("--account", metavar="ID", help="The AWS account.")] = "",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the IAM policies and database roles of a system's components.

    Each component gets what its access patterns need, and no more.
    """
    _check_format("--region", region, REGION_FORMAT, "eu-central-1")
    _check_format("--account", account, ACCOUNT_FORMAT, "123456789012")
    from holdfast.model.system import load_system
    from holdfast.reports.iam.policies import ACCOUNT_PLACEHOLDER, REGION_PLACEHOLDER, build_policy_files
    from holdfast.reports.iam.sql_grants import build_grant_files

    found = load_system(system)
    files = build_policy_files(
        found,
        environment=resolve_environment(environment),
        region=region or REGION_PLACEHOLDER,
        account=account or ACCOUNT_PLACEHOLDER,
    )
    write_files(out, files | build_grant_files(found), force=force, as_json=as_json)


def _check_format(option: str, value: str, expected: re.Pattern[str], example: str) -> None:
    """Raise `UsageError` if the value is not empty and has another format.

    It becomes part of an ARN, where a wildcard would grant more.
    """
    if value and not expected.fullmatch(value):
        raise UsageError(f"Invalid {option} {value!r}: expected a value such as {example}.")


def resolve_environment(name: str | None) -> str:
    """Return the environment given by the option, else the one of the settings. Raise `UsageError` if it is
    invalid.
    """
    if name is None:
        return Settings.load().environment
    if not ENVIRONMENT_NAME.fullmatch(name):
        raise UsageError(
            f"Invalid --environment {name!r}: expected up to 32 letters, digits, '_', '-' and '.', "
            "because it becomes part of table names."
        )
    return name
