"""The packages of docs/architecture.md: a picture of their imports and a sentence each, from the code."""

import importlib
import re
from functools import cache

from measured import ROOT, markdown

SOURCE = ROOT / "src" / "sparring"
IMPORT = re.compile(r"^ *(?:from|import) sparring\.(\w+)", re.MULTILINE)


@cache
def package_imports() -> dict[str, set[str]]:
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
    return 1 + max(map(layer, package_imports()[package]), default=0)


def order(package: str) -> tuple[int, str]:
    """Return what packages are sorted by."""
    return layer(package), package


def picture() -> str:
    """Return the packages as an SVG: layers from top to bottom, lines for imports that no other line implies."""
    layers: dict[int, list[str]] = {}
    for package in sorted(package_imports(), key=order):
        layers.setdefault(layer(package), []).append(package)
    height, width = 46 * len(layers) + 10, 640
    centre = {
        package: (width * (2 * index + 1) / (2 * len(row)), height - 46 * level + 15)
        for level, row in layers.items()
        for index, package in enumerate(row)
    }
    lines, boxes = [], []
    for package, (x, y) in centre.items():
        direct = package_imports()[package]
        indirect = set().union(*(indirect_imports(name) for name in direct)) if direct else set()
        lines += [
            f'<line x1="{x:.0f}" y1="{y + 13:.0f}" x2="{centre[name][0]:.0f}" y2="{centre[name][1] - 13:.0f}"/>'
            for name in sorted(direct - indirect)
        ]
        boxes.append(f'<rect x="{x - 58:.0f}" y="{y - 13:.0f}" width="116" height="26" rx="5"/>')
        boxes.append(f'<text x="{x:.0f}" y="{y + 5:.0f}">{package}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14">'
    style = "<style>line{stroke:#8895a0}rect{fill:#fff;stroke:#37596d}text{fill:#1c2b33;text-anchor:middle}svg{background:#fff}</style>"
    return "\n".join([head, style, *lines, *boxes, "</svg>"]) + "\n"


@cache
def indirect_imports(package: str) -> frozenset[str]:
    """Return all packages that a package imports, or that these import."""
    direct = package_imports()[package]
    return frozenset(direct).union(*map(indirect_imports, direct))


def table() -> str:
    """Return a row for each package: its layer and what it holds."""
    rows = []
    for package in sorted(package_imports(), key=order):
        summary = (importlib.import_module(f"sparring.{package}").__doc__ or "").splitlines()[0]
        rows.append([str(layer(package)), f"`{package}`", summary.replace("``", "`")])
    return markdown(["layer", "package", "what it holds"], rows)


MARKERS = {"packages": table, "docs/images/packages.svg": picture}
