"""The kit is for those who test: the library does without it and what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    """What a fresh interpreter prints for *code*."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_library_imports_neither_the_kit_nor_its_packages() -> None:
    """
    Importing the library and opening a store loads no part of the kit.
    """
    loaded = run(
        "import sys, eventlog; eventlog.open_store('memory:');"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), 'eventlog.testing'"
        " in sys.modules)"
    ).split()

    assert "eventlog" in loaded
    assert "False" == loaded[-1]
    assert {"pytest", "_pytest", "hypothesis"}.isdisjoint(loaded)


@pytest.mark.parametrize("missing", ["pytest", "hypothesis"])
def test_kit_names_the_extra_it_needs(missing: str) -> None:
    """
    Without its packages the kit fails with the line that installs them.
    """
    told = run(
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from eventlog.errors import MissingExtra\n"
        "try:\n"
        "    import eventlog.testing\n"
        "except MissingExtra as error:\n"
        "    print(error.extra, error.install)\n"
    )

    assert 'testing pip install "agent-eventlog[testing]"' == told
