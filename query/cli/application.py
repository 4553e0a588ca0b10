"""
The commands by name, and running one of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from .failures import DONE, FAILED, INTERRUPTED, PIPE_CLOSED, USAGE, describe
from .options import examples
from .output import complain, prepare_streams

__all__ = ["run"]

PROGRAM: Final = "eventlog"

# Where each command lives, in the order of the help. A module has a function
# register(group: click.Group) that adds its commands under these names.
COMMANDS: Final = {
    "list": "browsing",
    "show": "conversation",
    "read": "browsing",
    "surface": "browsing",
    "search": "searching",
    "trace": "tracing",
    "lineage": "tracing",
    "stats": "statistics",
    "follow": "streams",
    "export": "streams",
    "view": "viewing",
    "copy": "copying",
    "import": "importing",
    "mcp": "serving",
    "verify": "maintaining",
    "repair": "maintaining",
    "archive": "maintaining",
    "prune": "maintaining",
    "index": "searching",
    "demo": "demo",
    "completion": "completion",
}


class _Commands(click.Group):
    """Imports a module of commands when one of them is asked for: most runs need one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            import_module(f"{__package__}.{COMMANDS[cmd_name]}").register(self)
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f"; is it {near[0]}?" if near else ""
            raise click.UsageError(f"there is no command {name!r:.60}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _pipe_closed()  # click would make it 1, which is our "none found"


@click.group(
    PROGRAM,
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "eventlog demo",
        "eventlog list",
        "eventlog show 3fd7",
        "eventlog copy lmdb:~/agent jsonl:~/agent-logs",
        note="Exit codes: 0 done, 1 none found, 2 usage, 3 damage found, 4 the store failed.",
    ),
)
@click.version_option(package_name="agent-eventlog", prog_name=PROGRAM)
@click.pass_context
def application(ctx: click.Context) -> int:
    """
    Look into logs of agent sessions, copy them, search them.

    Sessions are read from the store that --store or EVENTLOG_STORE names; without one,
    from the store in your data folder. A SESSION is an id, or the front of one where no
    other begins with it.
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help(), file=sys.stderr)
        return USAGE
    return DONE


def run(arguments: Sequence[str]) -> int:
    """Run one command, whose function returns its exit code; returns that."""
    if not prepare_streams():
        complain("standard output is closed")
        return FAILED
    try:
        if f"_{PROGRAM.upper()}_COMPLETE" in os.environ:
            import_module(f"{__package__}.completion")  # what it tells click is used below
        code = application.main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
        return _flushed(code if isinstance(code, int) else DONE)
    except click.ClickException as error:
        complain(_told(error))
        return error.exit_code
    except SystemExit as ended:
        # click ends so where it answers a shell that completes.
        return ended.code if isinstance(ended.code, int) else DONE
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        code, line = describe(error)
        unheard = _flushed(DONE)
        if unheard != DONE:
            return unheard  # what failed is the answer's own way out
        complain(line)
        return code


def _told(error: click.ClickException) -> str:
    """Say on one line what is wrong with a call."""
    context = getattr(error, "ctx", None)
    where = PROGRAM if context is None else context.command_path
    said = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption) and where == PROGRAM:
        # Most options are known, but to the commands.
        said = f"no option {error.option_name!r:.60} before the command; options stand behind it"
    elif isinstance(error, click.NoSuchOption):
        said = f"{said}; an argument that begins with - stands behind --"
    return f"{said[:1].lower()}{said[1:]}; see {where} --help"


def _flushed(code: int) -> int:
    """Return *code* once the answer is out, else the code that says why it is not."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    except OSError as error:
        _drop_output()
        complain(f"standard output: {error.strerror}")
        return FAILED
    return code


def _pipe_closed() -> int:
    # Whoever reads us has enough.
    _drop_output()
    return PIPE_CLOSED


def _drop_output() -> None:
    # The interpreter flushes once more when it exits, and would complain.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
