"""What people do on the command line: `holdfast agenticpm projects list`, and so on. The same as over HTTP.

Each takes the stores and what was typed, and gives what is shown. Secrets are read from a file or from standard input,
never from an argument, which others on the machine could see and the shell would remember.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

from agenticpm import agent_state as agent
from agenticpm import artefact_views, configs, escalation_views, integrations, patterns, projects, reviews
from agenticpm.artefact_views import Format
from agenticpm.contents import ArtefactType
from agenticpm.importing import import_artefact
from agenticpm.model import Autonomy, EscalationStatus, Integration, ProjectStatus, Source
from agenticpm.projects import checked_id
from agenticpm.showing import shown
from holdfast import Explanation, Listing, Page, Stores, open_cipher
from holdfast.errors import InvalidRequest

STDIN: Final = Path("-")
FILE_BYTES_MAX: Final = 1024 * 1024

ProjectArg = Annotated[str, "The id of the project"]
ActionProject = Annotated[str, "The id of the project, or `global` for one that belongs to none"]
ByArg = Annotated[str, "Who says so"]
LimitArg = Annotated[int, "The most to show"]
CursorArg = Annotated[str | None, "The cursor of the page before"]

GLOBAL: Final = "global"
# What a person is shown of each in a list; `show` has the rest, and --json all of it.
EVENT: Final = ("createdAt", "severity", "eventType", "summary", "id")
ESCALATION: Final = ("id", "projectId", "title", "status", "createdAt")
ACTION: Final = ("id", "projectId", "description", "status", "heldUntil")


# --- projects ----------------------------------------------------------------------------------------------------


async def projects_list(
    stores: Stores,
    status: Annotated[ProjectStatus, "active, paused or archived"] = ProjectStatus.active,
    limit: LimitArg = patterns.PAGE,
    cursor: CursorArg = None,
) -> Any:
    """The projects in a status."""
    return _listing(
        await projects.listed(stores, status, limit, cursor),
        "id",
        "name",
        "source",
        "sourceProjectKey",
        "autonomyLevel",
    )


async def projects_create(
    stores: Stores,
    name: Annotated[str, "What it is called"],
    key: Annotated[str, "What the tracker calls it: the key of Jira, the gid of Asana"],
    source: Annotated[Source, "Where its tickets are"] = Source.jira,
    autonomy: Annotated[Autonomy, "How far the agent may go by itself"] = Autonomy.monitoring,
    description: Annotated[str | None, "What it is about"] = None,
    config: Annotated[dict[str, Any] | None, "Its configuration, as a JSON object"] = None,
) -> Any:
    """A new project."""
    made = await projects.create(
        stores,
        name=name,
        source=source,
        source_project_key=key,
        autonomy_level=autonomy,
        description=description,
        config=config,
    )
    return shown(made)


async def projects_show(stores: Stores, project: ProjectArg) -> Any:
    """A project."""
    return shown(await projects.get(stores, project))


async def projects_change(
    stores: Stores,
    project: ProjectArg,
    name: Annotated[str | None, "What it is called"] = None,
    autonomy: Annotated[Autonomy | None, "How far the agent may go by itself"] = None,
    description: Annotated[str | None, "What it is about"] = None,
    config: Annotated[dict[str, Any] | None, "Its whole configuration, as a JSON object"] = None,
) -> Any:
    """Change its name, description, configuration or autonomy."""
    changed = await projects.change(
        stores, project, name=name, description=description, autonomy_level=autonomy, config=config
    )
    return shown(changed)


async def projects_status(
    stores: Stores, project: ProjectArg, status: Annotated[ProjectStatus, "active, paused or archived"]
) -> Any:
    """Pause a project, archive it, or bring it back."""
    return shown(await projects.change_status(stores, project, status))


# --- artefacts ---------------------------------------------------------------------------------------------------

TypeArg = Annotated[ArtefactType, "delivery_state, raid_log, backlog_summary or decision_log"]
SeenArg = Annotated[int | None, "The version that you have seen; left out, the present one"]


async def artefacts_list(stores: Stores, project: ProjectArg) -> Any:
    """The artefacts of a project."""
    return shown(await artefact_views.listed(stores, project))


async def artefacts_show(stores: Stores, project: ProjectArg, type: TypeArg) -> Any:
    """An artefact in full."""
    found = await artefact_views.found(stores, project, type)
    return shown(await artefact_views.in_full(stores, found))


async def artefacts_put(
    stores: Stores,
    project: ProjectArg,
    type: TypeArg,
    file: Annotated[Path, "A JSON file with the content; - reads standard input"],
    version: Annotated[int, "The version that you have seen; 0 where there was none"],
) -> Any:
    """The next version of an artefact."""
    stored = await artefact_views.put(stores, project, type, _read(file), version)
    return shown(await artefact_views.in_full(stores, stored))


async def artefacts_import(
    stores: Stores,
    project: ProjectArg,
    file: Annotated[
        Path, "A JSON file with type, content, version and previousVersion; - reads standard input"
    ],
) -> Any:
    """An artefact of another deployment, as it was, where there is none."""
    stored = await import_artefact(stores, project, _read(file))
    return shown(await artefact_views.in_full(stores, stored))


async def artefacts_diff(stores: Stores, project: ProjectArg, type: TypeArg) -> Any:
    """What differs from the version before."""
    found = await artefact_views.diff(stores, project, type)
    return Explanation(found["lines"] or ["Nothing differs."], shown(found))


async def artefacts_undo(stores: Stores, project: ProjectArg, type: TypeArg, version: SeenArg = None) -> Any:
    """One step back."""
    found = await artefact_views.found(stores, project, type)
    undone = await artefact_views.undo(stores, project, type, found.version if version is None else version)
    return shown(await artefact_views.in_full(stores, undone))


async def artefacts_export(
    stores: Stores,
    project: ProjectArg,
    type: TypeArg,
    format: Annotated[Format, "md, csv or confluence"] = Format.md,
) -> str:
    """An artefact as Markdown, CSV or a page of Confluence."""
    return await artefact_views.export(stores, project, type, format)


# --- events ------------------------------------------------------------------------------------------------------


async def events_list(
    stores: Stores,
    project: Annotated[str | None, "The id of a project; left out, all projects"] = None,
    day: Annotated[date | None, "A day of all projects in full, in UTC: 2026-02-04"] = None,
    limit: LimitArg = patterns.PAGE,
    cursor: CursorArg = None,
) -> Any:
    """What happened: in a project, in all of them, or on one day."""
    if day is not None:
        if project is not None:
            raise InvalidRequest("Ask for a project or for a day: a day has the events of all projects.")
        return _listing(await stores.run(patterns.events_of_day(day, limit, cursor)), *EVENT)
    if project is not None:
        return _listing(await stores.run(patterns.project_events(checked_id(project), limit, cursor)), *EVENT)
    return _listing(await stores.run(patterns.recent_events(limit, cursor)), *EVENT)


# --- escalations -------------------------------------------------------------------------------------------------


async def escalations_list(
    stores: Stores,
    project: Annotated[str | None, "The id of a project; left out, all projects"] = None,
    status: Annotated[EscalationStatus, "Of all projects, those in this status"] = EscalationStatus.pending,
    limit: LimitArg = patterns.PAGE,
    cursor: CursorArg = None,
) -> Any:
    """What waits for a person, oldest first; of one project, all there were."""
    if project is not None:
        return _listing(Page(tuple(await escalation_views.of_project(stores, project))), *ESCALATION)
    return _listing(await escalation_views.listed(stores, status, limit, cursor), *ESCALATION)


async def escalations_show(stores: Stores, project: ProjectArg, id: Annotated[str, "Its id"]) -> Any:
    """An escalation with its options."""
    return shown(await escalation_views.found(stores, project, id))


async def escalations_decide(
    stores: Stores,
    project: ProjectArg,
    id: Annotated[str, "Its id"],
    decision: Annotated[str, "One of its options, by its name"],
    notes: Annotated[str | None, "Why"] = None,
    by: ByArg = "user",
) -> Any:
    """Decide an escalation; the decision log has it in the same moment."""
    return shown(await escalation_views.decide(stores, project, id, decision, notes=notes, by=by))


# --- actions -----------------------------------------------------------------------------------------------------


async def actions_list(
    stores: Stores,
    project: Annotated[str | None, "The id of a project, or `global`; left out, those that wait"] = None,
    limit: LimitArg = patterns.PAGE,
    cursor: CursorArg = None,
) -> Any:
    """What waits in all projects, by when it is due; or the actions of one, newest first."""
    if project is None:
        return _listing(await reviews.held(stores, limit, cursor), *ACTION)
    return _listing(await reviews.of_project(stores, _scope(project), limit, cursor), *ACTION)


async def actions_show(stores: Stores, project: ActionProject, id: Annotated[str, "Its id"]) -> Any:
    """An action."""
    return shown(await reviews.found(stores, _scope(project), id))


async def actions_approve(
    stores: Stores, project: ActionProject, id: Annotated[str, "Its id"], by: ByArg = "user"
) -> Any:
    """An action that waits is due at once."""
    return shown(await reviews.approve(stores, _scope(project), id, by=by))


async def actions_edit(
    stores: Stores,
    project: ActionProject,
    id: Annotated[str, "Its id"],
    detail: Annotated[dict[str, Any], "What takes the place of what was there, as a JSON object"],
    by: ByArg = "user",
) -> Any:
    """The content of an action that waits is another, and the hold goes on."""
    return shown(await reviews.edit(stores, _scope(project), id, by=by, detail=detail))


async def actions_cancel(
    stores: Stores,
    project: ActionProject,
    id: Annotated[str, "Its id"],
    reason: Annotated[str | None, "Why"] = None,
    by: ByArg = "user",
) -> Any:
    """An action that waits is never done."""
    return shown(await reviews.cancel(stores, _scope(project), id, by=by, reason=reason))


async def actions_reopen(
    stores: Stores, project: ActionProject, id: Annotated[str, "Its id"], by: ByArg = "user"
) -> Any:
    """An action that was refused is due again. Of one with OutcomeUnknown you say that it was not done: look first."""
    return shown(await reviews.reopen(stores, _scope(project), id, by=by))


# --- the agent ---------------------------------------------------------------------------------------------------


async def config_list(stores: Stores) -> Any:
    """All settings of the agent."""
    return shown(await configs.listed(stores))


async def config_set(
    stores: Stores,
    key: Annotated[str, "Which setting"],
    value: Annotated[str, "A number, a text, or a JSON object"],
    by: ByArg = "user",
) -> Any:
    """Change a setting of the agent."""
    given = _object(value, key) if value.lstrip().startswith("{") else value
    return shown(await configs.put(stores, key, given, by=by))


async def integrations_list(stores: Stores) -> Any:
    """How the integrations stand."""
    return shown(await integrations.listed(stores))


async def integrations_put(
    stores: Stores,
    integration: Annotated[Integration, "jira, asana, outlook or resend"],
    file: Annotated[Path, "A JSON file with the credentials; - reads standard input"] = STDIN,
) -> Any:
    """Put the credentials of an integration, sealed, and switch it on."""
    return shown(await integrations.put_credentials(stores, open_cipher(), integration, _read(file)))


async def integrations_rotate(
    stores: Stores,
    integration: Annotated[Integration, "jira, asana, outlook or resend"],
    file: Annotated[
        Path | None, "A JSON file with new credentials; left out, the same under the current key"
    ] = None,
) -> Any:
    """New credentials, or the same under the cipher's current key."""
    given = None if file is None else _read(file)
    return shown(await integrations.rotate(stores, open_cipher(), integration, given))


async def integrations_check(
    stores: Stores, integration: Annotated[Integration, "jira, asana, outlook or resend"]
) -> Any:
    """Ask an integration how it is."""
    return shown(await integrations.check(stores, open_cipher(), integration))


async def integrations_deactivate(
    stores: Stores, integration: Annotated[Integration, "jira, asana, outlook or resend"]
) -> Any:
    """Switch an integration off."""
    return shown(await integrations.deactivate(stores, integration))


async def agent_status(stores: Stores) -> Any:
    """How the agent is: heartbeat, last cycles, spend, who runs the loop."""
    return shown(await agent.agent_state(stores))


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
}


def _listing(page: Page[Any], *columns: str) -> Listing:
    return Listing(Page(tuple(shown(each) for each in page), page.cursor), columns)


def _scope(project: str) -> str | None:
    return None if project == GLOBAL else project


def _object(text: str, what: str) -> dict[str, Any]:
    """A JSON object. What is wrong is told without the text: it may hold a secret."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidRequest(f'{what} is no JSON object: write it as {{"name": "value"}}.')
    return value


def _read(file: Path) -> dict[str, Any]:
    if file == STDIN:
        return _object(sys.stdin.read(FILE_BYTES_MAX), "standard input")
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise InvalidRequest(f"{file} has more than {FILE_BYTES_MAX} bytes.")
        return _object(file.read_text(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}."
        ) from None
