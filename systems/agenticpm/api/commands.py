"""The CLI commands of AgenticPM, such as `projects list`, which call the same functions as the API.

Each command takes the stores and the parsed arguments, and returns what is shown. Secrets are read from a
file or from standard input, never from an argument, which other users of the machine could see and the shell
would remember.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

from agenticpm.api import action_reviews, artefact_views, escalation_views
from agenticpm.api import agent_state as agent
from agenticpm.api.artefact_views import Format
from agenticpm.api.review_command import REVIEW_COMMANDS
from agenticpm.api.serializers import to_json
from agenticpm.domain.contents import ArtefactType
from agenticpm.model import agent_settings, integration_settings, patterns, projects
from agenticpm.model.artefact_import import import_artefact
from agenticpm.model.entities import Autonomy, EscalationStatus, Integration, ProjectStatus, Source
from agenticpm.model.projects import parse_project_id
from holdfast import Page, Stores
from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Explanation, Listing
from holdfast.runtime import open_cipher

STDIN: Final = Path("-")
MAX_FILE_BYTES: Final = 1024 * 1024

ProjectArg = Annotated[str, "The id of the project"]
ActionProject = Annotated[str, "The id of the project, or `global` for an action without a project"]
ByArg = Annotated[str, "Your name, which is recorded with the change"]
LimitArg = Annotated[int, "The maximum number to show"]
CursorArg = Annotated[str | None, "The cursor of the previous page"]

GLOBAL: Final = "global"
# The columns of a list for a person; `show` has the other fields, and --json has all.
EVENT_COLUMNS: Final = ("createdAt", "severity", "eventType", "summary", "id")
ESCALATION_COLUMNS: Final = ("id", "projectId", "title", "status", "createdAt")
ACTION_COLUMNS: Final = ("id", "projectId", "description", "status", "heldUntil")


# --- projects -----------------------------------------------------------------------------------------------


async def projects_list(
    stores: Stores,
    status: Annotated[ProjectStatus, "active, paused or archived"] = ProjectStatus.active,
    limit: LimitArg = patterns.PAGE,
    cursor: CursorArg = None,
) -> Any:
    """List the projects in a status."""
    return _build_listing(
        await projects.list_by_status(stores, status, limit, cursor),
        "id",
        "name",
        "source",
        "sourceProjectKey",
        "autonomyLevel",
    )


async def projects_create(
    stores: Stores,
    name: Annotated[str, "The name of the project"],
    key: Annotated[str, "Its id in the tracker: the project key in Jira, the gid in Asana"],
    source: Annotated[Source, "The tracker with its tickets"] = Source.jira,
    autonomy: Annotated[Autonomy, "The autonomy level of the agent"] = Autonomy.monitoring,
    description: Annotated[str | None, "The description of the project"] = None,
    config: Annotated[dict[str, Any] | None, "Its configuration, as a JSON object"] = None,
) -> Any:
    """Create a project."""
    created = await projects.create(
        stores,
        name=name,
        source=source,
        source_project_key=key,
        autonomy_level=autonomy,
        description=description,
        config=config,
    )
    return to_json(created)


async def projects_show(stores: Stores, project: ProjectArg) -> Any:
    """Show a project."""
    return to_json(await projects.get(stores, project))


async def projects_change(
    stores: Stores,
    project: ProjectArg,
    name: Annotated[str | None, "The name of the project"] = None,
    autonomy: Annotated[Autonomy | None, "The autonomy level of the agent"] = None,
    description: Annotated[str | None, "The description of the project"] = None,
    config: Annotated[dict[str, Any] | None, "Its whole configuration, as a JSON object"] = None,
) -> Any:
    """Change its name, description, configuration or autonomy."""
    changed = await projects.change(
        stores, project, name=name, description=description, autonomy_level=autonomy, config=config
    )
    return to_json(changed)


async def projects_status(
    stores: Stores, project: ProjectArg, status: Annotated[ProjectStatus, "active, paused or archived"]
) -> Any:
    """Pause a project, archive it, or activate it again."""
    return to_json(await projects.change_status(stores, project, status))


# --- artefacts ----------------------------------------------------------------------------------------------

TypeArg = Annotated[ArtefactType, "delivery_state, raid_log, backlog_summary or decision_log"]
SeenArg = Annotated[int | None, "The version that you have seen; default: the current one"]


async def artefacts_list(stores: Stores, project: ProjectArg) -> Any:
    """List the artefacts of a project."""
    return to_json(await artefact_views.list_artefacts(stores, project))


async def artefacts_show(stores: Stores, project: ProjectArg, type: TypeArg) -> Any:
    """Show an artefact with its full content."""
    found = await artefact_views.get_artefact(stores, project, type)
    return to_json(await artefact_views.load_with_content(stores, found))


async def artefacts_put(
    stores: Stores,
    project: ProjectArg,
    type: TypeArg,
    file: Annotated[Path, "A JSON file with the content; - reads standard input"],
    version: Annotated[int, "The version that you have seen; 0 if there is none yet"],
) -> Any:
    """Write the next version of an artefact."""
    stored = await artefact_views.put(stores, project, type, _read_json(file), version)
    return to_json(await artefact_views.load_with_content(stores, stored))


async def artefacts_import(
    stores: Stores,
    project: ProjectArg,
    file: Annotated[
        Path, "A JSON file with type, content, version and previousVersion; - reads standard input"
    ],
) -> Any:
    """Import an artefact of another deployment unchanged, if the project has none of its type."""
    stored = await import_artefact(stores, project, _read_json(file))
    return to_json(await artefact_views.load_with_content(stores, stored))


async def artefacts_diff(stores: Stores, project: ProjectArg, type: TypeArg) -> Any:
    """Show the differences from the previous version."""
    found = await artefact_views.diff(stores, project, type)
    return Explanation(found["lines"] or ["Nothing differs."], to_json(found))


async def artefacts_undo(stores: Stores, project: ProjectArg, type: TypeArg, version: SeenArg = None) -> Any:
    """Restore the previous version."""
    found = await artefact_views.get_artefact(stores, project, type)
    undone = await artefact_views.undo(stores, project, type, found.version if version is None else version)
    return to_json(await artefact_views.load_with_content(stores, undone))


async def artefacts_export(
    stores: Stores,
    project: ProjectArg,
    type: TypeArg,
    format: Annotated[Format, "md, csv or confluence"] = Format.md,
) -> str:
    """Export an artefact as Markdown, CSV or a Confluence page."""
    return await artefact_views.export(stores, project, type, format)


# --- events -------------------------------------------------------------------------------------------------


async def events_list(
    stores: Stores,
    project: Annotated[str | None, "The id of a project; default: all projects"] = None,
    day: Annotated[date | None, "One day (UTC) of all projects, with details: 2026-02-04"] = None,
    limit: LimitArg = patterns.PAGE,
    cursor: CursorArg = None,
) -> Any:
    """List the events of a project, of all projects, or of one day."""
    if day is not None:
        if project is not None:
            raise InvalidRequest("Give a project or a day, not both: a day has the events of all projects.")
        return _build_listing(await stores.run(patterns.events_of_day(day, limit, cursor)), *EVENT_COLUMNS)
    if project is not None:
        return _build_listing(
            await stores.run(patterns.project_events(parse_project_id(project), limit, cursor)),
            *EVENT_COLUMNS,
        )
    return _build_listing(await stores.run(patterns.recent_events(limit, cursor)), *EVENT_COLUMNS)


# --- escalations --------------------------------------------------------------------------------------------


async def escalations_list(
    stores: Stores,
    project: Annotated[str | None, "The id of a project; default: all projects"] = None,
    status: Annotated[
        EscalationStatus, "The status to list, if no project is given"
    ] = EscalationStatus.pending,
    limit: LimitArg = patterns.PAGE,
    cursor: CursorArg = None,
) -> Any:
    """List the escalations of all projects in a status, oldest first; or all escalations of one project."""
    if project is not None:
        return _build_listing(
            Page(tuple(await escalation_views.list_of_project(stores, project))), *ESCALATION_COLUMNS
        )
    return _build_listing(
        await escalation_views.list_by_status(stores, status, limit, cursor), *ESCALATION_COLUMNS
    )


async def escalations_show(
    stores: Stores, project: ProjectArg, id: Annotated[str, "The id of the escalation"]
) -> Any:
    """Show an escalation with its options."""
    return to_json(await escalation_views.get_escalation(stores, project, id))


async def escalations_decide(
    stores: Stores,
    project: ProjectArg,
    id: Annotated[str, "The id of the escalation"],
    decision: Annotated[str, "The name of one of its options"],
    notes: Annotated[str | None, "The reason for the decision"] = None,
    by: ByArg = "user",
) -> Any:
    """Decide an escalation. The decision log records it in the same transaction."""
    return to_json(await escalation_views.decide(stores, project, id, decision, notes=notes, by=by))


# --- actions ------------------------------------------------------------------------------------------------


async def actions_list(
    stores: Stores,
    project: Annotated[str | None, "The id of a project, or `global`; default: all held actions"] = None,
    limit: LimitArg = patterns.PAGE,
    cursor: CursorArg = None,
) -> Any:
    """List the held actions of all projects by due time; or the actions of one project, newest first."""
    if project is None:
        return _build_listing(await action_reviews.list_held(stores, limit, cursor), *ACTION_COLUMNS)
    return _build_listing(
        await action_reviews.list_of_project(stores, _parse_scope(project), limit, cursor), *ACTION_COLUMNS
    )


async def actions_show(
    stores: Stores, project: ActionProject, id: Annotated[str, "The id of the action"]
) -> Any:
    """Show an action."""
    return to_json(await action_reviews.get_action(stores, _parse_scope(project), id))


async def actions_approve(
    stores: Stores, project: ActionProject, id: Annotated[str, "The id of the action"], by: ByArg = "user"
) -> Any:
    """Approve a held action: it is due immediately."""
    return to_json(await action_reviews.approve(stores, _parse_scope(project), id, by=by))


async def actions_edit(
    stores: Stores,
    project: ActionProject,
    id: Annotated[str, "The id of the action"],
    detail: Annotated[dict[str, Any], "The fields to replace, as a JSON object"],
    by: ByArg = "user",
) -> Any:
    """Edit the content of a held action. Its due time stays."""
    return to_json(await action_reviews.edit(stores, _parse_scope(project), id, by=by, detail=detail))


async def actions_cancel(
    stores: Stores,
    project: ActionProject,
    id: Annotated[str, "The id of the action"],
    reason: Annotated[str | None, "The reason for the cancellation"] = None,
    by: ByArg = "user",
) -> Any:
    """Cancel a held action: it is never executed."""
    return to_json(await action_reviews.cancel(stores, _parse_scope(project), id, by=by, reason=reason))


async def actions_reopen(
    stores: Stores, project: ActionProject, id: Annotated[str, "The id of the action"], by: ByArg = "user"
) -> Any:
    """Reopen a refused action: it is due again.

    If it was refused with OutcomeUnknown, first check at the external service that it was not done.
    """
    return to_json(await action_reviews.reopen(stores, _parse_scope(project), id, by=by))


# --- the agent ----------------------------------------------------------------------------------------------


async def config_list(stores: Stores) -> Any:
    """List all settings of the agent."""
    return to_json(await agent_settings.list_settings(stores))


async def config_set(
    stores: Stores,
    key: Annotated[str, "The name of the setting"],
    value: Annotated[str, "A number, a text, or a JSON object"],
    by: ByArg = "user",
) -> Any:
    """Change a setting of the agent."""
    given = _parse_object(value, key) if value.lstrip().startswith("{") else value
    return to_json(await agent_settings.put(stores, key, given, by=by))


async def integrations_list(stores: Stores) -> Any:
    """List the states of the integrations."""
    return to_json(await integration_settings.list_states(stores))


async def integrations_put(
    stores: Stores,
    integration: Annotated[Integration, "jira, asana, outlook or resend"],
    file: Annotated[Path, "A JSON file with the credentials; - reads standard input"] = STDIN,
) -> Any:
    """Store the encrypted credentials of an integration, and switch it on."""
    return to_json(
        await integration_settings.put_credentials(stores, open_cipher(), integration, _read_json(file))
    )


async def integrations_rotate(
    stores: Stores,
    integration: Annotated[Integration, "jira, asana, outlook or resend"],
    file: Annotated[
        Path | None, "A JSON file with new credentials; default: re-encrypt the stored ones"
    ] = None,
) -> Any:
    """Replace the credentials, or re-encrypt the stored ones with the current key."""
    given = None if file is None else _read_json(file)
    return to_json(await integration_settings.rotate(stores, open_cipher(), integration, given))


async def integrations_check(
    stores: Stores, integration: Annotated[Integration, "jira, asana, outlook or resend"]
) -> Any:
    """Check the health of an integration."""
    return to_json(await integration_settings.check(stores, open_cipher(), integration))


async def integrations_deactivate(
    stores: Stores, integration: Annotated[Integration, "jira, asana, outlook or resend"]
) -> Any:
    """Switch an integration off."""
    return to_json(await integration_settings.deactivate(stores, integration))


async def agent_status(stores: Stores) -> Any:
    """Show the state of the agent: heartbeat, last cycles, spend, holder of the loop's lease."""
    return to_json(await agent.load_agent_state(stores))


COMMANDS: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = {
    "projects list": projects_list,
    "projects create": projects_create,
    "projects show": projects_show,
    "projects change": projects_change,
    "projects status": projects_status,
    "artefacts list": artefacts_list,
    "artefacts show": artefacts_show,
    "artefacts put": artefacts_put,
    "artefacts import": artefacts_import,
    "artefacts diff": artefacts_diff,
    "artefacts undo": artefacts_undo,
    "artefacts export": artefacts_export,
    "events list": events_list,
    "escalations list": escalations_list,
    "escalations show": escalations_show,
    "escalations decide": escalations_decide,
    "actions list": actions_list,
    "actions show": actions_show,
    "actions approve": actions_approve,
    "actions edit": actions_edit,
    "actions cancel": actions_cancel,
    "actions reopen": actions_reopen,
    "config list": config_list,
    "config set": config_set,
    "integrations list": integrations_list,
    "integrations put": integrations_put,
    "integrations rotate": integrations_rotate,
    "integrations check": integrations_check,
    "integrations deactivate": integrations_deactivate,
    "agent status": agent_status,
    **REVIEW_COMMANDS,
}


def _build_listing(page: Page[Any], *columns: str) -> Listing:
    """Return the page as JSON values with the columns of its table."""
    return Listing(Page(tuple(to_json(each) for each in page), page.cursor), columns)


def _parse_scope(project: str) -> str | None:
    """Return the project id, or None for `global`."""
    return None if project == GLOBAL else project


def _parse_object(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object. Raise InvalidRequest without the text, which may contain a secret."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidRequest(f'Invalid {what}: expected a JSON object such as {{"name": "value"}}.')
    return value


def _read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object of at most 1 MiB from a file or standard input. Raise InvalidRequest."""
    if file == STDIN:
        return _parse_object(sys.stdin.read(MAX_FILE_BYTES), "standard input")
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise InvalidRequest(f"{file} has more than {MAX_FILE_BYTES} bytes.")
        return _parse_object(file.read_text(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            f"Cannot read {file}: {getattr(error, 'strerror', None) or 'it is not a text file'}."
        ) from None
