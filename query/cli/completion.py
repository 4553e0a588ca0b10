"""
``completion``: what a shell needs to complete commands, options and session ids.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .failures import DONE, UsageError
from .options import examples

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(completion)


@click.command(
    short_help="Print what a shell needs to complete commands and ids.",
    epilog=examples(
        'eval "$(eventlog completion bash)"      # in ~/.bashrc',
        'eval "$(eventlog completion zsh)"       # in ~/.zshrc',
        "eventlog completion fish | source       # in ~/.config/fish/config.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the code by which a shell completes commands, options and session ids."""
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there is no completion for {shell}")
    root = ctx.find_root()
    name = root.info_name or "eventlog"
    print(kind(root.command, {}, name, f"_{name.upper()}_COMPLETE").source())
    return DONE
