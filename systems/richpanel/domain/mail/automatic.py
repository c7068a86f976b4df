"""Recognise mail that a program sent: bounces, automatic replies, newsletters and mailing lists.

A reply to such mail starts a loop or reaches nobody. Headers decide first (RFC 3834, RFC 3464, RFC 2369);
the subject and the text decide for clients that send none of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from richpanel.domain.mail.message import MailMessage


class AutomaticKind(StrEnum):
    """The kinds of automatic mail."""

    auto_reply = "auto_reply"
    bounce = "bounce"
    newsletter = "newsletter"
    list = "list"


_DAEMON: Final = re.compile(
    r"mailer-?daemon|postmaster@|mail delivery (?:sub)?system|\bbounces?[@+-]", re.IGNORECASE
)
_BOUNCE_SUBJECT: Final = re.compile(
    r"undeliver(?:ed|able)|delivery (?:status notification|failure|has failed|incomplete)|"
    r"mail delivery failed|"
    r"returned mail|failure notice|message (?:delivery|could not be delivered)|unzustellbar|nicht zugestellt|"
    r"zustellung (?:fehlgeschlagen|verzögert)|non remis|échec de (?:la )?(?:remise|distribution)|"
    r"no se (?:pudo|ha podido) entregar|correo no entregado|mancata consegna|impossibile recapitare|"
    r"onbestelbaar|não (?:foi )?entregue|niedostarczon|nie można dostarczyć|配信(?:不能|エラー)|不達",
    re.IGNORECASE,
)
_REPLY_SUBJECT: Final = re.compile(
    r"\s*(?:(?:re|aw|sv|odp|antw)\s?:\s*)?\[?(?:auto(?:matic|matische|mated)?[ -]?(?:reply|response|"
    r"answer|antwort|re)\b|"
    r"out of (?:the )?office|ooo\b|away from (?:my|the) (?:office|desk)|abwesen(?:heit|d)|"
    r"automatische antwort|"
    r"nicht im büro|réponse automatique|absen(?:ce|t)\b.{0,30}|message d'absence|respuesta automática|"
    r"fuera de (?:la )?oficina|ausencia|risposta automatica|fuori (?:sede|ufficio)|assenza|"
    r"automatisch(?:e)? (?:antwoord|beantwoording)|afwezig(?:heid)?|resposta automática|ausente|"
    r"odpowiedź automatyczna|automatyczna odpowiedź|nieobecność|自動(?:返信|応答)|不在|vacation reply|"
    r"on (?:vacation|leave|holiday)\b|"
    r"\[?(?:request|ticket|case) (?:received|created))",
    re.IGNORECASE,
)
# The writer is away, in the present tense …
_AWAY: Final = re.compile(
    r"\bi(?:'| a)?m (?:currently )?(?:out of (?:the )?office|away|on (?:annual |parental |maternity |sick )?"
    r"(?:leave|vacation|holiday))|"
    r"\bi am not in the office|ich bin (?:derzeit |zur ?zeit |momentan |aktuell |bis |vom |ab |im |in |"
    r"leider ).{0,60}"
    r"(?:nicht|abwesend|urlaub|elternzeit|zurück|erreichbar)|"
    r"je suis (?:actuellement )?(?:absente?|en congés?|hors du bureau)|"
    r"(?:estoy|estaré) (?:fuera|de vacaciones|ausente)|(?:sono|sarò) (?:assente|in ferie|fuori (?:sede|"
    r"ufficio))|"
    r"ik ben (?:tot|met|van|momenteel|op|afwezig|niet).{0,40}(?:vakantie|afwezig|bereikbaar|kantoor|verlof)|"
    r"(?:estou|estarei) (?:ausente|de férias|fora)|(?:jestem|przebywam) (?:poza|na|nieobecn).{0,30}|"
    r"休暇(?:を|中)|不在に?(?:して|し)|外出して",
    re.IGNORECASE,
)
# … and says what a program would add.
_AWAY_DETAIL: Final = re.compile(
    r"\buntil\b|\breturn|urgent|limited access|will (?:reply|respond|get back)|in my absence|\bbis\b|"
    r"dringend|vertretung|"
    r"weitergeleitet|rückkehr|jusqu'au|urgence|retour|hasta|urgent|regreso|fino al|urgent|rientro|tot en met|"
    r"terug|dringend|lees mijn|até|regresso|urgência|do dnia|pilnych|wrócę|まで|お急ぎ|お問い合わせいただき",
    re.IGNORECASE,
)
_AUTOMATIC_TEXT: Final = re.compile(
    r"this is an automat(?:ed|ic) (?:reply|response|message|e-?mail)|automatically generated|"
    r"do not reply to this|"
    r"dies ist eine automatische|automatisch (?:generiert|erstellt|erzeugt)|ceci est un(?:e)? (?:message|"
    r"réponse) automatique|"
    r"généré automatiquement|mensaje automático|respuesta automática|messaggio automatico|"
    r"risposta automatica|"
    r"automatisch (?:bericht|gegenereerd|antwoord)|mensagem automática|"
    r"wiadomość (?:została )?wygenerowana automatycznie|"
    r"自動(?:送信|返信|配信)",
    re.IGNORECASE,
)
_LIST_HEADERS: Final = ("list-post", "mailing-list", "list-archive", "x-mailman-version", "x-google-group-id")
_CAMPAIGN_HEADERS: Final = (
    "list-unsubscribe", "x-campaign-id", "x-campaign", "x-campaignid", "x-mailchimp-id", "x-mc-user",
    "x-mailgun-tag",
    "x-csa-complaints", "feedback-id", "x-sfmc-stack", "x-newsletter",
)  # fmt: skip
_REPLY_HEADERS: Final = ("x-autoreply", "x-autorespond", "x-autoresponder", "x-auto-reply", "x-vacation")
MAX_AWAY_CHARS: Final = 900


def find_automatic_kind(mail: MailMessage, own_text: str) -> AutomaticKind | None:
    """Return the kind of an automatic mail, or None if a person wrote it. `own_text` is its text without
    quotations.
    """
    if _is_bounce(mail):
        return AutomaticKind.bounce
    if _is_bulk(mail):
        return AutomaticKind.list if _is_list(mail) else AutomaticKind.newsletter
    if _has_reply_headers(mail) or is_automatic_text(mail.subject, own_text):
        return AutomaticKind.auto_reply
    return None


def is_automatic_text(subject: str, own_text: str) -> bool:
    """Return whether subject and text alone are those of an automatic reply."""
    if _REPLY_SUBJECT.match(subject) or _AUTOMATIC_TEXT.search(own_text[:MAX_AWAY_CHARS]):
        return True
    is_short = len(own_text) <= MAX_AWAY_CHARS and "?" not in own_text
    return is_short and bool(_AWAY.search(own_text)) and bool(_AWAY_DETAIL.search(own_text))


def _is_bounce(mail: MailMessage) -> bool:
    """Return whether a mail system reports on the delivery of an earlier mail."""
    headers = mail.headers
    if mail.content_type == "multipart/report" and mail.report_type in ("delivery-status", "feedback-report"):
        return True
    if "x-failed-recipients" in headers:
        return True
    is_null_sender = headers.get("return-path", "").replace(" ", "") == "<>"
    is_daemon = bool(_DAEMON.search(headers.get("from", "")))
    return (is_null_sender or is_daemon) and bool(is_daemon or _BOUNCE_SUBJECT.search(mail.subject))


def _is_bulk(mail: MailMessage) -> bool:
    """Return whether a mail went to many readers. A support address that is itself a group adds headers of a
    list to each customer's mail; these do not count.
    """
    headers = mail.headers
    if _is_own_group(headers):
        return False
    if any(name in headers for name in (*_LIST_HEADERS, "list-id", *_CAMPAIGN_HEADERS)):
        return True
    is_bulk = headers.get("precedence", "").lower() in ("bulk", "list", "junk")
    return is_bulk and not _has_reply_headers(mail)


def _is_own_group(headers: Mapping[str, str]) -> bool:
    """Return whether the list is the address that the mail was sent to."""
    named = re.search(r"<?([\w.+-]+)>?\s*$", headers.get("list-id", ""))
    if named is None:
        return False
    receivers = f"{headers.get('to', '')} {headers.get('cc', '')}".lower()
    addresses = {each.replace("@", ".") for each in re.findall(r"[\w.+-]+@[\w.-]+", receivers)}
    return named[1].lower() in addresses


def _is_list(mail: MailMessage) -> bool:
    """Return whether the members of a list wrote the mail, and not a sender of newsletters."""
    headers = mail.headers
    if any(name in headers for name in _LIST_HEADERS) or headers.get("precedence", "").lower() == "list":
        return True
    return "list-id" in headers and not any(name in headers for name in _CAMPAIGN_HEADERS)


def _has_reply_headers(mail: MailMessage) -> bool:
    """Return whether the headers say that a program wrote the mail."""
    headers = mail.headers
    submitted = headers.get("auto-submitted", "no").split(";")[0].strip().lower()
    if submitted not in ("", "no") or any(headers.get(name, "no").lower() != "no" for name in _REPLY_HEADERS):
        return True
    if headers.get("precedence", "").lower() in ("auto_reply", "auto-reply"):
        return True
    return mail.content_type == "multipart/report" or "x-ms-exchange-inbox-rules-loop" in headers


def refuses_auto_reply(mail: MailMessage) -> bool:
    """Return whether the sender's system asks for no automatic response (`X-Auto-Response-Suppress`)."""
    refused = mail.headers.get("x-auto-response-suppress", "").lower()
    return any(each.strip() in ("all", "autoreply") for each in refused.split(","))
