"""From a function and its options to a bound plug-in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from sparring.config.plugins.registry import Bound, Plugin, with_options


def bound(slot: str, plugin: Callable[..., Any] | Bound, options: Mapping[str, Any]) -> Bound:
    """Return a plug-in with its options; one that is bound already is returned as it is.

    Args:
        slot: of the plug-in.
        plugin: its function, or the plug-in bound.
        options: of the function.

    Raises:
        ConfigError: the options are not what the function takes.
    """
    if isinstance(plugin, Bound):
        return plugin
    module = sys.modules[plugin.__module__]
    return with_options(
        Plugin(slot=slot, name=plugin.__name__, function=plugin, module=module), options
    )


def same(first: Any, second: Any, what: str) -> None:
    """Raise AssertionError unless two values are equal."""
    assert first == second, f"{what}: {first!r:.200} and then {second!r:.200}."
