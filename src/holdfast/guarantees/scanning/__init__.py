"""Scanning: files searched, byte by byte, for what should not be in them.

The promise: a text that is given, or an e-mail address, phone or tracking number, is found wherever it stands in a
file: in a database's free pages and write-ahead log, in a queue's file, in a log, in any spelling that is known here.

    spellings.py  a text as bytes: UTF-8, UTF-16, escaped, percent-encoded, base64
    needles.py    many texts found in one reading
    patterns.py   addresses and numbers known by their form
    pages.py      a text that a database has cut at the border of two pages
    files.py      files read in stretches, with little memory
"""

from __future__ import annotations

from holdfast.guarantees.scanning.files import Finding, scan_files

__all__ = ["Finding", "scan_files"]
