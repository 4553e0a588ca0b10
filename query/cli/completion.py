"""
``completion``: what a shell needs to complete commands, options and session ids.
"""

from __future__ import annotations

import os
from typing import ClassVar, Final

import click
from click.shell_completion import (
    BashComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from .failures import DONE, UsageError
from .options import examples

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(completion)


# Bash takes words apart at colons and equals signs, of which URLs and ids are full, and
# replaces the last part, $2: what stands before it in its word is taken off each answer.
_BASH_SOURCE: Final = """\
%(complete_func)s() {
    local line=${COMP_LINE:0:COMP_POINT} type value
    local word=${line##*[[:space:]]}
    local before=${word%%"$2"}
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$before"}") ;;
        esac
    done < <(COMP_WORDS=$line %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class _Bash(BashComplete):
    """Completes words as bash runs them, not as it takes them apart to complete them."""

    source_template: ClassVar[str] = _BASH_SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]  # up to the cursor
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() else words.pop()
        return words[1:], incomplete


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
