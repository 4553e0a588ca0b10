"""
Bringing transcripts of other tools into a store: once, again, or after being killed.

:func:`import_transcripts` reads what a :class:`~eventlog.sources.TranscriptSource` finds
and adds what the store lacks of it; the :class:`ImportAccount` says what became of every
session and every record.
"""

from .account import ImportAccount, ImportedSession, Outcome, RefusedSession
from .run import ImportProgress, import_transcripts

__all__ = [
    "ImportAccount",
    "ImportProgress",
    "ImportedSession",
    "Outcome",
    "RefusedSession",
    "import_transcripts",
]
