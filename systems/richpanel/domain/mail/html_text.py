"""Convert the HTML of a mail to text that the rules for plain text understand.

A quotation becomes lines that start with `>`, a reply's history becomes a separator line, and the signature
that the client marked is left out. So quoted text is found by one set of rules, whatever the client sends.
"""

from __future__ import annotations

import re
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

# The line that stands for the history of a conversation: everything below it is quoted.
HISTORY_LINE: Final = "-----Original Message-----"
_INVISIBLE: Final = "script, style, head, title, template, noscript, object, svg"
_SIGNATURES: Final = (
    ".gmail_signature, .gmail_signature_prefix, .moz-signature, #Signature, #signature, "
    "#ms-outlook-mobile-signature, "
    ".protonmail_signature_block, .tutanota_signature, #AppleMailSignature, .mail_signature"
)
# Containers that hold only history, and elements after which only history follows.
_HISTORY: Final = (
    "#divRplyFwdMsg, #appendonsend, .yahoo_quoted, .ydp_quoted, div[name=quote], .OutlookMessageHeader, "
    "#mail-editor-reference-message-container, .ms-outlook-mobile-reference-message, .tutanota_quote, "
    "#isReplyContent, #replySplit, .zmail_extra, #OLK_SRC_BODY_SECTION"
)
_BLOCKS: Final = frozenset(
    "address article aside blockquote body center dd div dl dt fieldset footer form h1 h2 h3 h4 h5 h6 header "
    "hr li main nav ol p pre section table tr ul".split()
)
_PARAGRAPHS: Final = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "blockquote"))
_HIDDEN: Final = re.compile(r"display\s*:\s*none|mso-hide\s*:\s*all", re.IGNORECASE)
_SPACES: Final = re.compile(r"[ \t\r\n\f\u00a0]+")
_BLANK_LINES: Final = re.compile(r"\n{3,}")


def convert_html(html: str) -> str:
    """Return the text of an HTML mail, with quotations and history marked."""
    tree = LexborHTMLParser(html)
    for node in tree.css(f"{_INVISIBLE}, {_SIGNATURES}"):
        node.decompose()
    root = tree.body or tree.root
    if root is None:
        return ""
    history = {node.mem_id for node in tree.css(_HISTORY)}
    writer = _Writer()
    _walk(root, writer, history)
    return writer.get_text()


def _walk(root: LexborNode, writer: _Writer, history: set[int]) -> None:
    """Write the nodes below `root` in document order, without recursion: mail is nested deeply."""
    node: LexborNode | None = root
    while node is not None:
        is_open = _enter(node, writer, history)
        if is_open and node.child is not None:
            node = node.child
            continue
        while node is not None and (node.mem_id == root.mem_id or node.next is None):
            _leave(node, writer)
            if node.mem_id == root.mem_id:
                return
            node = node.parent
        if node is not None:
            _leave(node, writer)
            node = node.next


def _enter(node: LexborNode, writer: _Writer, history: set[int]) -> bool:
    """Write the start of a node. Return whether its children are to be written."""
    tag = node.tag or ""
    if tag == "-text":
        writer.add(node.text(deep=False) or "")
        return False
    if tag == "br":
        writer.break_line()
        return False
    if tag not in _BLOCKS and tag not in ("td", "th"):
        return not _is_hidden(node)
    if _is_hidden(node):
        return False
    if node.mem_id in history:
        writer.add_line(HISTORY_LINE)
    writer.open_block(tag)
    return True


def _leave(node: LexborNode, writer: _Writer) -> None:
    """Write the end of a node."""
    tag = node.tag or ""
    if tag in _BLOCKS:
        writer.close_block(tag)
    elif tag in ("td", "th"):
        writer.add(" ")


def _is_hidden(node: LexborNode) -> bool:
    """Return whether a node is invisible, as the preview texts of newsletters are."""
    style = node.attributes.get("style") if node.attributes else None
    return bool(style and _HIDDEN.search(style))


class _Writer:
    """Collects lines of text. Inside quotations each line starts with `> `."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line = ""
        self._depth = 0

    def add(self, text: str) -> None:
        """Add text to the line, with its white space collapsed."""
        self._line += _SPACES.sub(" ", text)
        self._line = self._line.replace("  ", " ")

    def add_line(self, text: str) -> None:
        """Add a line of its own."""
        self._end_line()
        self._line = text
        self._end_line()

    def break_line(self) -> None:
        """End the line, even an empty one."""
        self._lines.append(self._prefix + self._line.strip())
        self._line = ""

    def open_block(self, tag: str) -> None:
        """Start a block on a new line."""
        self._end_line()
        if tag in _PARAGRAPHS:
            self._lines.append(self._prefix.rstrip())
        if tag == "blockquote":
            self._depth += 1
        if tag == "li":
            self._line = "- "
        if tag == "hr":
            self._lines.append(self._prefix.rstrip())

    def close_block(self, tag: str) -> None:
        """End a block and its line."""
        self._end_line()
        if tag == "blockquote":
            self._depth = max(0, self._depth - 1)
        if tag in _PARAGRAPHS:
            self._lines.append(self._prefix.rstrip())

    def get_text(self) -> str:
        """Return the lines, with at most one blank line in a row."""
        self._end_line()
        return _BLANK_LINES.sub("\n\n", "\n".join(self._lines)).strip()

    @property
    def _prefix(self) -> str:
        return "> " * self._depth

    def _end_line(self) -> None:
        if self._line.strip():
            self._lines.append(self._prefix + self._line.strip())
        self._line = ""
