"""Z3, for the puzzles that take it as the reference: an optional package."""

from __future__ import annotations

from typing import Any

from sparring.errors import ConfigError


def load_z3() -> Any:
    """Return the module z3.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import z3
    except ImportError:
        raise ConfigError(
            "Oracle 'constraint' with solver='z3' needs the package z3-solver, which is not "
            "installed; run pip install 'sparring[oracles]', or write solver='backtracking'."
        ) from None
    return z3
