"""Remove quoted history and forwarded messages from the text of a mail.

Clients mark history in three ways: lines that start with `>`, a separator line, or a copy of the headers of
the quoted message. Lines between quoted ones are the sender's, as in an answer below each question; below a
separator or copied headers nothing is.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_QUOTED: Final = re.compile(r"\s*(?:>|&gt;|\|\s)")
# "Original Message" between dashes, in any language: `---- Ursprüngliche Nachricht ----`.
_SEPARATOR: Final = re.compile(
    r"\s*(?:[-_=*]{2,}\s*[^\W\d_][^\n]{3,80}?\s*[-_=*]{2,}|_{20,}|-{30,}|##-.*-##)\s*", re.IGNORECASE
)
_FORWARDED: Final = re.compile(
    r"\s*(?:begin forwarded message|anfang der weitergeleiteten (?:nachricht|e-mail)|début du (?:message|"
    r"e-mail) "
    r"(?:réexpédié|transféré)|inicio del mensaje reenviado|inizio messaggio inoltrato|"
    r"begin doorgestuurd bericht|"
    r"início da mensagem (?:re)?encaminhada|początek przekazywanej wiadomości|転送されたメッセージ|"
    r"forwarded message|weitergeleitete nachricht|message transféré|mensaje reenviado|messaggio inoltrato|"
    r"doorgestuurd bericht|mensagem (?:re)?encaminhada|(?:please )?(?:type|"
    r"write) your reply above this line)\s*[:：]?\s*",
    re.IGNORECASE,
)
_LABELS: Final = (
    "from|sent|date|to|cc|subject|reply-to|von|gesendet|datum|an|betreff|de|envoyé|date|à|objet|"
    "enviado(?: el)?|"
    "fecha|para|asunto|da|inviato|data|a|oggetto|van|verzonden|aan|onderwerp|enviada(?: em)?|assunto|od|"
    "wysłano|"
    "wysłane|do|dw|temat|差出人|送信日時|送信者|日時|宛先|件名|från|skickat|till|ämne|fra|sendt|til|emne"
)
# `From: …`, also `*From:* …`.
_HEADER: Final = re.compile(rf"\s*\*?(?P<label>{_LABELS})\s?\*?\s?[:：]\*?(?:\s|$)", re.IGNORECASE)
MIN_HEADERS: Final = 3
MAX_HEADER_LINES: Final = 8

_WROTE: Final = (
    r"wrote|schrieb|écrit|escribi[óo]|scritto|schreef|escreveu|napisał\(?a?\)?|napisa[lł]|skrev|kirjoitti|"
    r"写道|書きました|からのメール|のメッセージ"
)
_ATTRIBUTION_END: Final = re.compile(
    rf"(?:(?:{_WROTE})\b.*|<[^<>\s]+@[^<>\s]+>\)?)\s*[:：]\s*(?:[-—]+\s*)?$", re.IGNORECASE
)
_ATTRIBUTION_WORD: Final = re.compile(
    r"\s*[-—]*\s*(?:on|am|le|el|il|op|em|w dniu|dnia|den|"
    r"(?:mon|tue|wed|thu|fri|sat|sun|pon|wt|śr|czw|pt|sob|niedz|nd|seg|ter|qua|qui|sex|sáb|dom|lun|mar|mer|"
    r"gio|ven)\w*)\b|\s*\d{4}\s?[-年./]|\s*\d{1,2}[./-]",
    re.IGNORECASE,
)
# Without a word or a date, the name and the address of the writer: `Shop <help@shop.example>:`.
_ATTRIBUTION_ADDRESS: Final = re.compile(r"\s*(?:\"?[\w.\- ]+\"? )?<?[\w.+-]+@", re.IGNORECASE)
_HAS_ORIGIN: Final = re.compile(r"\d|@")
MAX_ATTRIBUTION_LINES: Final = 4
MAX_ATTRIBUTION_CHARS: Final = 400
_INVISIBLE: Final = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00ad]")


def normalise_lines(text: str) -> str:
    """Return a text with `\\n` as the only line break, plain spaces, and no invisible characters."""
    clean = _INVISIBLE.sub("", unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n"))
    return re.sub(r"[\u00a0\u2007\u202f\u3000]", " ", clean)


def remove_quoted_text(text: str) -> str:
    """Return the lines of a mail that its sender wrote, without history and forwarded messages."""
    lines = normalise_lines(text).split("\n")
    kept: list[str] = []
    place = 0
    while place < len(lines):
        if _QUOTED.match(lines[place]):
            place += 1
            continue
        if _is_cut(lines, place):
            break
        if length := _measure_attribution(lines, place):
            if not _is_followed_by_quote(lines, place + length):
                break
            place += length
            continue
        kept.append(lines[place])
        place += 1
    return "\n".join(kept).strip()


def _is_cut(lines: list[str], place: int) -> bool:
    """Return whether everything from a line on is history."""
    line = lines[place]
    if not line.strip():
        return False
    if _FORWARDED.fullmatch(line) or _is_separator(lines, place):
        return True
    return _count_headers(lines, place) >= MIN_HEADERS


def _is_separator(lines: list[str], place: int) -> bool:
    """Return whether a line separates history. A rule without words counts only above copied headers."""
    line = lines[place]
    if not _SEPARATOR.fullmatch(line):
        return False
    if any(each.isalpha() for each in line):
        return True
    below = [number for number in range(place + 1, min(place + 4, len(lines))) if lines[number].strip()]
    return bool(below) and _count_headers(lines, below[0]) >= 2


def _count_headers(lines: list[str], place: int) -> int:
    """Count the different header labels at the starts of the lines from `place` on."""
    if not _HEADER.match(lines[place]):
        return 0
    found: set[str] = set()
    for line in lines[place : place + MAX_HEADER_LINES]:
        if match := _HEADER.match(line):
            found.add(match["label"].lower())
        elif not line.strip() and len(found) >= MIN_HEADERS:
            break
    return len(found)


def _measure_attribution(lines: list[str], place: int) -> int:
    """Return the number of lines of an attribution that starts at `place` ("On … wrote:"), or 0."""
    if not (_ATTRIBUTION_WORD.match(lines[place]) or _ATTRIBUTION_ADDRESS.match(lines[place])):
        return 0
    joined = ""
    for length, line in enumerate(lines[place : place + MAX_ATTRIBUTION_LINES], start=1):
        # A line that starts an attribution itself does not continue the sender's own sentence above it.
        if not line.strip() or _QUOTED.match(line) or (length > 1 and _ATTRIBUTION_WORD.match(line)):
            return 0
        joined = f"{joined} {line.strip()}".strip()
        if len(joined) > MAX_ATTRIBUTION_CHARS:
            return 0
        if _ATTRIBUTION_END.search(joined) and _HAS_ORIGIN.search(joined):
            return length
    return 0


def _is_followed_by_quote(lines: list[str], place: int) -> bool:
    """Return whether the next line that is not blank is quoted."""
    following = next((line for line in lines[place:] if line.strip()), "")
    return bool(_QUOTED.match(following))
