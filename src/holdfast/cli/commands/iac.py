"""`holdfast iac`: a system's tables, alarms and policies for CloudFormation or Terraform."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.commands.iam import Environment, chosen_environment
from holdfast.cli.derived_files import AsJson, Force, Out, SystemName, write_files


class Tool(StrEnum):
    CLOUDFORMATION = "cloudformation"
    TERRAFORM = "terraform"


def iac(
    tool: Annotated[Tool, typer.Argument(metavar="TOOL", help="cloudformation or terraform.")],
    system: SystemName,
    out: Out,
    environment: Environment = None,
    all_indexes: Annotated[
        bool, typer.Option("--all-indexes", help="Also the indexes that are made only when asked for.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a system's tables, alarms and policies for CloudFormation or Terraform."""
    from holdfast.model.system import installed_system
    from holdfast.reports.cloudformation import cloudformation, template_file
    from holdfast.reports.terraform import terraform

    found, default = installed_system(system), chosen_environment(environment)
    if tool is Tool.TERRAFORM:
        files = terraform(found, environment=default, all_indexes=all_indexes)
    else:
        files = {template_file(found): cloudformation(found, environment=default, all_indexes=all_indexes)}
    write_files(out, files, force=force, as_json=as_json)
