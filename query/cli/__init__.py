"""
The command line: ``eventlog``, and ``python -m eventlog``.

One module a group of commands, each with a function ``register(group)``; the table in
:mod:`eventlog.query.cli.application` says which module a command lives in, and only that
one is imported. The answer goes to standard output, what is said about it to standard
error. Exit codes are in :mod:`eventlog.query.cli.failures`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command.

    Args:
        arguments: The words behind ``eventlog``; None takes those of the process.

    Returns:
        The exit code. Nothing is raised: a failure is one line on standard error.
    """
    # Importing is most of what a command does, so an interrupt is likely to fall into it:
    # nothing of weight is imported before this.
    try:
        try:
            # Before anything else needs them. The rest of the extra is imported where used.
            import click  # noqa: F401
            import platformdirs  # noqa: F401
        except ImportError:
            from eventlog.errors import MissingExtra

            print(f"eventlog: {MissingExtra('cli', INSTALL)}", file=sys.stderr)
            return 2
        from .application import run

        return run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        return INTERRUPTED


INSTALL: Final = 'pip install "agent-eventlog[cli]"'
INTERRUPTED: Final = 130
