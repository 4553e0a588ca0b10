"""
The names of the two packages that users import from, each imported when it is asked for.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import eventlog
import eventlog.query

PACKAGES = pytest.mark.parametrize("package", [eventlog, eventlog.query], ids=lambda p: p.__name__)


def fresh(code: str) -> str:
    """Run *code* in an interpreter of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@PACKAGES
def test_every_name_is_there(package: ModuleType) -> None:
    """A name that is offered can be had, from its package and by a star."""
    starred: dict[str, object] = {}
    exec(f"from {package.__name__} import *", starred)

    assert set(package.__all__) <= starred.keys()
    assert {getattr(package, name) for name in package.__all__}
    assert set(package.__all__) <= set(dir(package))


@PACKAGES
def test_no_other_name_is_there(package: ModuleType) -> None:
    """What does not exist is an AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense


def test_modules_are_found_on_their_package() -> None:
    """``import eventlog`` is enough for ``eventlog.errors``, and likewise for queries."""
    out = fresh(
        "import eventlog, eventlog.query;"
        "print(eventlog.errors.StoreBusy.__name__, eventlog.query.filters.Cwd.__name__)"
    )

    assert "StoreBusy Cwd\n" == out


def test_a_package_alone_imports_nothing() -> None:
    """Who imports a package pays for what it takes from it."""
    out = fresh(
        "import sys; before = set(sys.modules); import eventlog.query;"
        "print(sorted(name for name in set(sys.modules) - before if 'eventlog' in name));"
        "print('attrs' in sys.modules, 'orjson' in sys.modules)"
    )

    assert "['eventlog', 'eventlog.query']\nFalse False\n" == out
