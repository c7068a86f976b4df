"""`holdfast iac`: write a system's stores, alarms and policies for CloudFormation or Terraform."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.commands.iam import Environment, resolve_environment
from holdfast.cli.output.generated_files import AsJson, Force, Out, SystemName, write_files


class Tool(StrEnum):
    CLOUDFORMATION = "cloudformation"
    TERRAFORM = "terraform"


def iac(
    tool: Annotated[Tool, typer.Argument(metavar="TOOL", help="The tool to write for.")],
    system: SystemName,
    out: Out,
    environment: Environment = None,
    all_indexes: Annotated[bool, typer.Option("--all-indexes", help="Include the optional indexes.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a system's tables, alarms and policies for CloudFormation or Terraform."""
    from holdfast.model.system import load_system
    from holdfast.reports.iac.cloudformation import get_template_file_name, render_template
    from holdfast.reports.iac.terraform import render_module

    found, default = load_system(system), resolve_environment(environment)
    if tool is Tool.TERRAFORM:
        files = render_module(found, environment=default, all_indexes=all_indexes)
    else:
        files = {
            get_template_file_name(found): render_template(
                found, environment=default, all_indexes=all_indexes
            )
        }
    write_files(out, files, force=force, as_json=as_json)
