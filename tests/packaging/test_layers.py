"""
The direction of imports: drivers → core ← query.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES_MAX = 500
PACKAGES = {"eventlog": "eventlog", "drivers": "eventlog.drivers", "query": "eventlog.query"}
FORBIDDEN = {
    "eventlog": ("eventlog.drivers", "eventlog.query"),
    "drivers": ("eventlog.query",),
    "query": ("eventlog.drivers",),
}
# The kit is for tests, so it alone may import what tests are written with.
TEST_ONLY = ("pytest", "hypothesis", "_pytest")


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path, folder: str) -> Iterator[tuple[int, str]]:
    """Every absolute name that *path* imports, with its line."""
    inside = path.relative_to(ROOT / folder).with_suffix("").parts
    package = (*PACKAGES[folder].split("."), *inside[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join((*base, *([node.module] if node.module else [])))
            for alias in node.names:
                yield node.lineno, f"{stem}.{alias.name}"


def starts_with(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


@pytest.mark.parametrize("folder", PACKAGES)
def test_no_folder_imports_against_the_direction(folder: str) -> None:
    """
    The core imports neither side, and the sides do not import each other.
    """
    assert modules(folder)
    breaches = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(folder)
        if not is_kit(path)
        for line, name in imported(path, folder)
        if starts_with(name, FORBIDDEN[folder])
    ]

    assert [] == breaches


def is_kit(path: Path) -> bool:
    return path.is_relative_to(ROOT / "eventlog" / "testing")


@pytest.mark.parametrize("folder", PACKAGES)
def test_only_the_kit_imports_what_tests_are_written_with(folder: str) -> None:
    """
    A harness that embeds the library does not need pytest or Hypothesis.
    """
    breaches = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(folder)
        if not is_kit(path)
        for line, name in imported(path, folder)
        if starts_with(name, TEST_ONLY)
    ]

    assert [] == breaches


@pytest.mark.parametrize("folder", PACKAGES)
def test_nothing_imports_a_bare_folder(folder: str) -> None:
    """
    ``drivers`` and ``query`` are names of folders; the import names are nested.
    """
    breaches = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(folder)
        for line, name in imported(path, folder)
        if starts_with(name, ("drivers", "query"))
    ]

    assert [] == breaches


@pytest.mark.parametrize("folder", PACKAGES)
def test_no_module_outgrows_its_concept(folder: str) -> None:
    """
    A module of more than 500 lines holds more than one concept.
    """
    too_long = [
        str(path.relative_to(ROOT))
        for path in modules(folder)
        if len(path.read_text(encoding="utf-8").splitlines()) > LINES_MAX
    ]

    assert [] == too_long
