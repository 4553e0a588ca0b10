"""
The commands by name, and running one of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup

from .failures import DONE, FAILED, INTERRUPTED, PIPE_CLOSED, describe
from .options import examples
from .output import complain, prepare_streams

__all__ = ["run"]

# Where each command lives, in the order of the help. A module has a function
# register(app: typer.Typer) that adds its commands under these names.
COMMANDS: Final = {
    "list": "browsing",
    "show": "conversation",
    "read": "browsing",
    "surface": "browsing",
    "trace": "tracing",
    "lineage": "tracing",
    "copy": "copying",
    "import": "importing",
    "demo": "demo",
}

PROGRAM: Final = "eventlog"


class _Commands(TyperGroup):
    """Lists commands in the order of the table, whatever order their modules came in."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in COMMANDS if name in self.commands]


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    prepare_streams()
    try:
        application(arguments)(list(arguments), prog_name=PROGRAM)
    except SystemExit as ended:
        return _flushed(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return _pipe_closed()
    except Exception as error:
        code, line = describe(error)
        complain(line)
        return code
    return _flushed(DONE)


def application(arguments: Sequence[str]) -> typer.Typer:
    """
    Return the application with the command that *arguments* name, else with all.

    Importing a module of commands costs more than most commands do.
    """
    # Plain help: it reads the same in a pipe, and needs no rich.
    app = typer.Typer(
        name=PROGRAM,
        cls=_Commands,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=examples(
            "eventlog demo",
            "eventlog list",
            "eventlog show 3fd7",
            "eventlog copy lmdb:~/agent jsonl:~/agent-logs",
            note="Exit codes: 0 done, 1 none found, 2 usage, 3 damage found, 4 the store failed.",
        ),
    )
    app.callback()(eventlog)
    wanted = arguments[0] if arguments and f"_{PROGRAM.upper()}_COMPLETE" not in os.environ else ""
    modules = [COMMANDS[wanted]] if wanted in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        import_module(f"{__package__}.{module}").register(app)
    return app


def eventlog(
    version: bool = typer.Option(
        False, "--version", is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """
    Look into logs of agent sessions, copy them, search them.

    Sessions are read from the store that --store or EVENTLOG_STORE names; without one,
    from the store in your data folder. A SESSION is an id, or the front of one where no
    other begins with it.
    """
    if version:
        from importlib.metadata import version as installed

        print(f"{PROGRAM} {installed('agent-eventlog')}")
        raise typer.Exit(DONE)


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    except OSError as error:
        complain(f"standard output: {error.strerror}")
        return FAILED
    return code


def _pipe_closed() -> int:
    # Whoever reads us has enough. The interpreter would complain when it flushes at exit.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    return PIPE_CLOSED
