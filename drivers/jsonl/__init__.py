"""
The store in plain files: one JSONL log a session, ``ROOT/<encoded id>.jsonl``.

See :mod:`eventlog.drivers.jsonl.store` for what lies in the folder and what a crash leaves.
"""

from .store import JsonlStore, open_url

__all__ = ["JsonlStore", "open_url"]
