"""Backups of a whole data folder: every embedded store at one moment, in another place, and back.

sources.py          which stores the settings name, and which of them a backup cannot cover
store_copies.py     one store each: stop its writers for a moment, fix the moment, copy it, read the copy
backup.py           all stores at the same moment, into a folder with a manifest
manifest.py         what a backup contains: stores, counts, and the hash of every file
restore.py          a backup into a new data folder, all or nothing
staged_folder.py    a folder that appears under its name only when it is complete
"""

from __future__ import annotations

from holdfast.runtime.folder_backups.backup import back_up_folder
from holdfast.runtime.folder_backups.manifest import Manifest
from holdfast.runtime.folder_backups.restore import FolderRestore, find_data_folder, restore_folder

__all__ = ["FolderRestore", "Manifest", "back_up_folder", "find_data_folder", "restore_folder"]
