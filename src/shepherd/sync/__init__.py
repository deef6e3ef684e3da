"""Sync of one person's machines through a folder that any tool carries.

Depends on memory, knowledge and encryption; knows nothing of models and conversations.
"""

from __future__ import annotations

from shepherd.sync.folder import Folder
from shepherd.sync.forgetting import LeftFolder, SealedText, forget_unwritten, left_folders, sealed_texts
from shepherd.sync.records import Conflict, Machine, Report
from shepherd.sync.run import begins, last_folder, leave, remove, status, sync, unwritten

__all__ = [
    "Conflict",
    "Folder",
    "LeftFolder",
    "Machine",
    "Report",
    "SealedText",
    "begins",
    "forget_unwritten",
    "last_folder",
    "leave",
    "left_folders",
    "remove",
    "sealed_texts",
    "status",
    "sync",
    "unwritten",
]
