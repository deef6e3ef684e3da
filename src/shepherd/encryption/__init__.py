"""Keys of encrypted memories, where they come from, and sealed files.

Depends on no database: it reads the first bytes of a file, and the key file beside it.
"""

from shepherd.encryption.key import MemoryKey, new_salt
from shepherd.encryption.key_file import KeyEntry
from shepherd.encryption.sealing import SealedReader, SealedWriter, Sealer, SealError
from shepherd.encryption.unlocking import (
    is_in_use,
    looks_encrypted,
    scratch_folder,
    set_asker,
    set_when_made,
    unlock,
    use_settings,
)

__all__ = [
    "KeyEntry",
    "MemoryKey",
    "SealError",
    "SealedReader",
    "SealedWriter",
    "Sealer",
    "is_in_use",
    "looks_encrypted",
    "new_salt",
    "scratch_folder",
    "set_asker",
    "set_when_made",
    "unlock",
    "use_settings",
]
