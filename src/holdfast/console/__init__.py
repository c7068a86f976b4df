"""The web console: pages over everything that the installed systems declare, and those that they add.

A system's pages import what they need from here.
"""

from __future__ import annotations

from holdfast.console.access import CurrentUser, check_role, require_role
from holdfast.console.audit_trail import Effect, audit, audit_effect
from holdfast.console.browser.addresses import build_item_url, build_object_url, build_row_url
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.live import Topic
from holdfast.console.rendering import Notice, is_fragment, redirect, render
from holdfast.console.reveal import is_revealed
from holdfast.console.system_pages import OpenQuestions, PageLink, SystemPages
from holdfast.console.users import EDITOR, OPERATOR, PERSONAL, VIEWER, User

__all__ = [
    "EDITOR",
    "OPERATOR",
    "PERSONAL",
    "VIEWER",
    "Console",
    "CurrentConsole",
    "CurrentUser",
    "Effect",
    "Notice",
    "OpenQuestions",
    "PageLink",
    "SystemPages",
    "Topic",
    "User",
    "audit",
    "audit_effect",
    "build_item_url",
    "build_object_url",
    "build_row_url",
    "check_role",
    "is_fragment",
    "is_revealed",
    "redirect",
    "render",
    "require_role",
]
