"""Scanning: search files byte by byte for data that must not be in them.

The promise: a given text, or an e-mail address, phone or tracking number, is found anywhere in a file: in a
database's free pages and write-ahead log, in a queue's file, in a log, in any spelling known here.

    spellings.py            the encodings of a text: UTF-8, UTF-16, escaped, percent-encoded, base64
    needles.py              search for many texts in one pass
    identifier_patterns.py  patterns of addresses and numbers
    sqlite_pages.py         a text that SQLite has split at a page border
    live_files.py           reading files that a database has open
    files.py                files read in chunks, with little memory
"""

from __future__ import annotations

from holdfast.guarantees.privacy.scanning.files import Finding, scan_files

__all__ = ["Finding", "scan_files"]
