"""``python -m eventlog``: the command line, found by the console script's entry point."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; returns its exit code."""
    try:
        from importlib.metadata import entry_points

        for point in entry_points(group="console_scripts", name="eventlog"):
            return int(point.load()() or 0)
        from eventlog.errors import MissingExtra

        raise MissingExtra("cli", 'pip install "agent-eventlog[cli]"')
    except KeyboardInterrupt:
        return 130  # what a shell says of it; nothing has begun that could be told


if __name__ == "__main__":
    sys.exit(main())
