"""Judge the names that teams give to statuses, priorities, labels and types, in several languages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from agenticpm.domain.tickets import Priority, TicketStage

# --- statuses -----------------------------------------------------------------------------------------------

_BLOCKED_STATUS: Final = re.compile(
    r"block|bloqu|bloccat|geblokkeerd|impediment|stuck|hindernis|zablokowan", re.IGNORECASE
)
_WAITING_STATUS: Final = re.compile(
    r"\b(?:on[ -]?hold|hold|wait\w*|await\w*|parked|parking|paused?|defer\w*|postpon\w*|suspended|snoozed"
    r"|stalled"
    r"|frozen|shelved|stand-?by|on ice|in limbo|needs? (?:more )?(?:info\w*|input|clarification)|dormant"
    r"|info\w* (?:needed|requested|required)|clarification"
    r"|warte\w*|wartet|wartestellung|angehalten|pausiert|geparkt|zurückgestellt|ruht|ruhend|aufgeschoben"
    r"|vertagt"
    r"|ausgesetzt|rückfrage\w*|(?:in )?klärung|wiedervorlage|auf eis|liegt bei|beim? (?!test|review|uns)\w+"
    r"|attente|attend\w*|en pause|suspendue?|reportée?|gelée?|mis de côté|en suspens|chez (?!nous)\w+"
    r"|espera\w*|en pausa|pausad\w+|aplazad\w+|suspendid\w+|aparcad\w+|pospuest\w+|detenid\w+|congelad\w+"
    r"|pendiente de"
    r"|attesa|sospes\w+|in pausa|rimandat\w+|parcheggiat\w+|aguardando|em pausa|suspens\w+|adiad\w+"
    r"|wacht\w*|gepauzeerd|opgeschort|geparkeerd|uitgesteld|oczekuj\w+|wstrzyman\w+|czeka\w*)",
    re.IGNORECASE,
)
# Somebody outside the team has it: "With Registrar", "At vendor", "External", "Sent to customer".
_OUTSIDE_STATUS: Final = re.compile(
    r"^(?:with|at|sent to|handed to|submitted to|over to) (?:the )?\w+|\b(?:3rd|third)[ -]party\b"
    r"|^external\w*"
    r"|\b(?:customer|client|vendor|supplier|legal|partner|authority|regulator|lieferant|kunde|behörde"
    r"|fournisseur"
    r"|proveedor|cliente?)\b.{0,12}\b(?:feedback|response|reply|action|input|answer|decision|antwort|réponse"
    r"|respuesta)\b|^pending\b",
    re.IGNORECASE,
)
# A queue inside the team is work, not waiting.
_OWN_QUEUE: Final = re.compile(
    r"\b(?:review\w*|qa|tests?|testing|tester|merge\w*|deploy\w*|release\w*|dev|devs|development|developer"
    r"|build"
    r"|verification|verify|code|coding|start|planning|refinement|grooming|triage|sprint|estimat\w*"
    r"|priori\w*|ci"
    r"|staging|publish\w*|implement\w*|entwicklung|umsetzung|abnahme|freigabe|recette|relecture|revue"
    r"|revisión"
    r"|pruebas|despliegue|desarrollo|us|team|progress)\b",
    re.IGNORECASE,
)
_READY_STATUS: Final = re.compile(
    r"\b(?:ready|selected for|committed|refined|groomed|planned|prêt|bereit|eingeplant|listo|lista para"
    r"|pronto|klaar"
    r"|sprint backlog|to ?do next|up next)\b",
    re.IGNORECASE,
)
_WORK_STATUS: Final = re.compile(
    r"\b(?:progress|doing|development|dev|active|working|started|open|review\w*|test\w*|qa|verif\w*"
    r"|build\w*|implement\w*"
    r"|coding|release|deploy\w*|arbeit|umsetzung|bearbeitung|prüfung|cours|recette|curso|revisión|proceso"
    r"|progreso"
    r"|corso|andamento|behandeling|check\w*|playtest)\b",
    re.IGNORECASE,
)


def is_blocked_status(name: str) -> bool:
    """Return whether a status says that work is blocked."""
    return bool(_BLOCKED_STATUS.search(name)) and not re.search(
        r"\b(?:un|not|nicht|non)[ -]?block", name, re.I
    )


def is_waiting_status(name: str, stage: TicketStage) -> bool:
    """Return whether a status says that work waits for somebody outside the team, or rests."""
    if stage is TicketStage.done or is_blocked_status(name):
        return False
    if _OWN_QUEUE.search(name):
        return bool(re.search(r"\bon[ -]hold\b|\bparked\b|\bpaused\b", name, re.IGNORECASE))
    if _WAITING_STATUS.search(name):
        return True
    return stage is TicketStage.in_progress and bool(_OUTSIDE_STATUS.search(name))


def is_usual_work_status(name: str) -> bool:
    """Return whether the name is a usual one for work that goes on."""
    return bool(_WORK_STATUS.search(name))


def is_ready_status(name: str) -> bool:
    """Return whether a status says that a ticket is ready to be started."""
    return bool(_READY_STATUS.search(name))


# --- labels, types ------------------------------------------------------------------------------------------

_BLOCKED_LABEL: Final = re.compile(
    r"^(?:is[-_ ]?)?(?:blocked|blockiert|bloqu[ée]e?|bloquead[oa]|bloccat[oa]|geblokkeerd|impediment"
    r"|impeded|stuck)"
    r"(?:[-_ :](?!no\b).*)?$",
    re.IGNORECASE,
)
_INCIDENT_TYPE: Final = re.compile(
    r"\bincident\w*|\boutage\b|störung|\bincidente\b|\bincidencia\b|\bpanne\b|\bstoring\b", re.IGNORECASE
)
_INCIDENT_LABEL: Final = re.compile(
    r"^(?:prod(?:uction)?(?:[-_ ](?:incident|bug|issue|outage|defect|down))?|incident|live[-_ ](?:incident"
    r"|issue|bug)"
    r"|outage|hotfix|sev[-_ ]?[01]|major[-_ ]incident|störung|produktion|producción|incidente)$",
    re.IGNORECASE,
)
_BUG_TYPE: Final = re.compile(
    r"bug|defect|fehler|^error|bogue|anomal|defecto|difetto|defeito|fout|problem|fault", re.IGNORECASE
)
_STORY_TYPE: Final = re.compile(
    r"\bstory\b|\bstories\b|user ?story|anforderung|récit|historia|história|storia|^feature$|requirement"
    r"|^exigence"
    r"|gebruikersverhaal|anwendergeschichte|funktion$|fonctionnalité|funcionalidad",
    re.IGNORECASE,
)


def is_blocked_label(label: str) -> bool:
    return bool(_BLOCKED_LABEL.match(label))


def is_incident_label(label: str) -> bool:
    return bool(_INCIDENT_LABEL.match(label))


def is_incident_type(type: str) -> bool:
    return bool(_INCIDENT_TYPE.search(type))


def is_bug_type(type: str) -> bool:
    return bool(_BUG_TYPE.search(type))


def is_story_type(type: str) -> bool:
    return bool(_STORY_TYPE.search(type))


# --- priorities ---------------------------------------------------------------------------------------------

_TOP: Final = re.compile(
    r"^(?:highest|blocker|critical|urgent|very high|immediate|emergency|showstopper|must(?: have)?"
    r"|sev ?[01]|top"
    r"|höchste|sehr hoch|kritisch|dringend|blockierend|la plus haute|très haute|critique|bloquante?"
    r"|urgente?|máxima"
    r"|muy alta|más alta|crítica|crítico|bloqueante|altissima|critica|molto alta|muito alta|hoogste"
    r"|kritiek)$",
    re.IGNORECASE,
)
_HIGH: Final = re.compile(
    r"^(?:high|important|hoch|wichtig|haute|élevée?|alta|alto|importante|hoog|sev ?2)$", re.IGNORECASE
)
_LOW: Final = re.compile(
    r"^(?:low|lowest|minor|trivial|niedrig\w*|tief|gering|basse|faible|baja|bassa|baixa|laag|could|won't)$",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"^(?:p|prio(?:rity)?|priorität|prioridad)?[ -]?([0-5])\b[\s:–-]*(.*)$", re.IGNORECASE
)


def judge_priority(name: str, all_names: Iterable[str]) -> Priority:
    """Return the priority that a name stands for in a scheme, given by all names in use.

    Major is the middle where Blocker or Critical exist above it. P2 is high, unless the scheme begins at P0.
    """
    plain, numbered = name.strip(), _NUMBER.match(name.strip())
    if numbered and numbered[2]:
        plain = numbered[2]
    for pattern, found in ((_TOP, Priority.critical), (_HIGH, Priority.high), (_LOW, Priority.low)):
        if pattern.match(plain):
            return found
    if plain.casefold() == "major":
        return _judge_major({each.strip().casefold() for each in all_names})
    return _judge_number(int(numbered[1]), all_names) if numbered and not numbered[2] else Priority.medium


def _judge_major(names: set[str]) -> Priority:
    has_middle = names & {"normal", "medium", "moderate", "average"}
    has_higher = names & {"blocker", "critical", "minor", "trivial"}
    return Priority.medium if has_higher and not has_middle else Priority.high


def _judge_number(number: int, all_names: Iterable[str]) -> Priority:
    starts_at_0 = any((found := _NUMBER.match(each.strip())) and found[1] == "0" for each in all_names)
    rank = number + 1 if starts_at_0 else number
    if rank <= 1:
        return Priority.critical
    return {2: Priority.high, 3: Priority.medium}.get(rank, Priority.low)
