"""Split texts into sentences, without what others said before: quotes, earlier mails, code and signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_TEXT_CHARS: Final = 20_000
MIN_LETTERS: Final = 8

# Words with a full stop that does not end a sentence.
_ABBREVIATIONS: Final = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|st|no|nr|vs|etc|e\.g|i\.e|approx|ca|bzw|z\.\s?b|u\.\s?a|d\.\s?h|ggf|evtl|inkl|usw"
    r"|sr|sra|dra|m|mme|mlle|p\. ex|ex|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec|fig|tel|abt|vgl)"
    r"|\b\d{1,2}|\b[A-Z])\.$",
    re.IGNORECASE,
)
_END: Final = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+(?=[\"'“‘«(¿¡\[]*[A-ZÀ-ÞŒ0-9¿¡])")
_BULLET: Final = re.compile(r"^\s*(?:[-*•–—]|\d{1,2}[.)]|\[[ xX]?\])\s+")
# The line above a quoted mail, in the languages of mail programs. Everything from it on was said before.
_QUOTE_HEADER: Final = re.compile(
    r"^\s*(?:"
    r"-{2,}\s*(?:original message|ursprüngliche nachricht|message d'origine|mensaje original"
    r"|original-?nachricht"
    r"|messaggio originale|mensagem original|oorspronkelijk bericht)\s*-{2,}"
    r"|_{10,}"
    r"|(?:on|am|le|el|il(?: giorno)?|em|op)\b.{3,120}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu"
    r"|schreef)\b.{0,80}:?"
    r"|.{2,80}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu|schreef)\s*:"
    r")\s*$",
    re.IGNORECASE,
)
_HEADER_START: Final = re.compile(r"^\s*(?:from|von|de|da|van)\s?:\s.+", re.IGNORECASE)
_HEADER_NEXT: Final = re.compile(
    r"^\s*(?:sent|gesendet|envoyé|enviado(?: el)?|inviato|date|datum|fecha|verzonden|to|an|à|para|a|aan)\s?:",
    re.IGNORECASE,
)
_SIGNATURE: Final = re.compile(r"^--\s*$")
_QUOTED_LINE: Final = re.compile(r"^\s*(?:>|\|\s|bq\.\s)")
_QUOTE_MARKUP: Final = re.compile(
    r"\{(quote|noformat|code)(?::[^}]*)?\}.*?(?:\{\1\}|\Z)", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence as it stands in the text, and the line (or paragraph) around it."""

    text: str
    line: str
    is_question: bool = False


def split_sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a text; a line never continues on the next one."""
    for raw in text[:MAX_TEXT_CHARS].splitlines():
        line = _BULLET.sub("", raw).strip()
        for part in _split_line(line):
            if sum(map(str.isalpha, part)) >= MIN_LETTERS:
                yield Sentence(part, line, part.rstrip("\"'”’»)] ").endswith("?"))


def _split_line(line: str) -> Iterator[str]:
    start = 0
    for found in _END.finditer(line):
        if line[found.start()] == "." and _ABBREVIATIONS.search(line[start : found.start() + 1]):
            continue
        yield line[start : found.end()].strip()
        start = found.end()
    if line[start:].strip():
        yield line[start:].strip()


def remove_quotes(text: str) -> str:
    """Return the text without quoted lines, and without everything below a quoted mail's header."""
    own, _ = split_quotes(text)
    return own


def split_quotes(text: str) -> tuple[str, str]:
    """Return what the author wrote, and what is quoted."""
    lines = _QUOTE_MARKUP.sub("", text).splitlines()
    own: list[str] = []
    quoted: list[str] = []
    for number, line in enumerate(lines):
        if _SIGNATURE.match(line):
            break
        if _starts_quote(lines, number):
            quoted += lines[number + 1 :]
            break
        (quoted if _QUOTED_LINE.match(line) else own).append(line)
    return "\n".join(own), "\n".join(line.lstrip("> |") for line in quoted)


def _starts_quote(lines: list[str], number: int) -> bool:
    """Return whether a quoted mail starts at the line: its header may be wrapped over two lines."""
    line = lines[number]
    if _QUOTE_HEADER.match(line):
        return True
    following = lines[number + 1] if number + 1 < len(lines) else ""
    if _HEADER_START.match(line) and _HEADER_NEXT.match(following):
        return True
    is_wrapped = bool(line.strip()) and bool(following.strip()) and not following.lstrip().startswith(">")
    return (
        is_wrapped and following.rstrip().endswith(":") and bool(_QUOTE_HEADER.match(f"{line} {following}"))
    )


def unwrap(text: str) -> str:
    """Return the text with one line per paragraph or list item: mails break lines inside sentences."""
    paragraphs: list[str] = []
    is_open = False
    for line in text.splitlines():
        if not line.strip():
            is_open = False
        elif is_open and not _BULLET.match(line):
            paragraphs[-1] = f"{paragraphs[-1]} {line.strip()}"
        else:
            paragraphs.append(line.strip())
            is_open = True
    return "\n".join(paragraphs)
