"""`holdfast docs`: write a system's documentation with diagrams, generated from its declarations."""

from __future__ import annotations

from holdfast.cli.output.generated_files import AsJson, Force, Out, SystemName, write_files


def docs(system: SystemName, out: Out, force: Force = False, as_json: AsJson = False) -> None:
    """Write a system's documentation: tables, entities, access patterns and components."""
    from holdfast.model.system import load_system
    from holdfast.reports.docs.system_page import get_document_file_name, render_system_page

    found = load_system(system)
    write_files(out, {get_document_file_name(found): render_system_page(found)}, force=force, as_json=as_json)
