"""``python -m eventlog``: the command line, found by the console script's entry point."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from eventlog.errors import MissingExtra


def main() -> int:
    """Run the command line; returns its exit code."""
    for point in entry_points(group="console_scripts", name="eventlog"):
        return int(point.load()() or 0)
    raise MissingExtra("cli", 'pip install "agent-eventlog[cli]"')


if __name__ == "__main__":
    sys.exit(main())
