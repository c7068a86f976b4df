"""`holdfast docs`: a system's documentation, with diagrams, written from what it declares."""

from __future__ import annotations

from holdfast.cli.derived_files import AsJson, Force, Out, SystemName, write_files


def docs(system: SystemName, out: Out, force: Force = False, as_json: AsJson = False) -> None:
    """Write a system's documentation: tables, entities, access patterns, components."""
    from holdfast.model.system import installed_system
    from holdfast.reports.documents import document_file, documents

    found = installed_system(system)
    write_files(out, {document_file(found): documents(found)}, force=force, as_json=as_json)
