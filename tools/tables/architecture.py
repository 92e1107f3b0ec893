"""The packages of docs/architecture.md: a picture of their imports and a sentence each, from the code."""

import importlib
import re
from functools import cache

from measured import ROOT, markdown

SOURCE = ROOT / "src" / "sparring"
IMPORT = re.compile(r"^ *(?:from|import) sparring\.(\w+)", re.MULTILINE)


@cache
def imported() -> dict[str, set[str]]:
    """Return the packages that each package imports."""
    packages: dict[str, set[str]] = {
        path.parent.name: set() for path in SOURCE.glob("*/__init__.py")
    }
    for path in SOURCE.glob("*/**/*.py"):
        package = path.relative_to(SOURCE).parts[0]
        names = IMPORT.findall(path.read_text(encoding="utf-8"))
        packages[package] |= {*names} & packages.keys() - {package}
    return packages


@cache
def layer(package: str) -> int:
    """Return the layer of a package: 1, or one more than the highest of those that it imports."""
    return 1 + max(map(layer, imported()[package]), default=0)


def order(package: str) -> tuple[int, str]:
    """Return what packages are sorted by."""
    return layer(package), package


def picture() -> str:
    """Return the packages as a diagram; an arrow that follows from two others is left out."""
    lines = ["```mermaid", "flowchart TD"]
    for package in sorted(imported(), key=order):
        direct = imported()[package]
        behind = set().union(*(reached(name) for name in direct)) if direct else set()
        lines += [f"    {package} --> {name}" for name in sorted(direct - behind, key=order)]
    return "\n".join([*lines, "```"])


@cache
def reached(package: str) -> frozenset[str]:
    """Return all packages that a package imports, or that these import."""
    direct = imported()[package]
    return frozenset(direct).union(*map(reached, direct))


def table() -> str:
    """Return a row for each package: its layer and what it holds."""
    rows = []
    for package in sorted(imported(), key=order):
        about = (importlib.import_module(f"sparring.{package}").__doc__ or "").splitlines()[0]
        rows.append([str(layer(package)), f"`{package}`", about.replace("``", "`")])
    return markdown(["layer", "package", "what it holds"], rows)


MADE = {"packages": table, "packages picture": picture}
