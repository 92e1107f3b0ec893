"""Binds a function and its options to a plug-in, for checks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from sparring.config.plugins.registry import BoundPlugin, Plugin, with_options


def bind_plugin(
    slot: str, plugin: Callable[..., Any] | BoundPlugin, options: Mapping[str, Any]
) -> BoundPlugin:
    """Return a plug-in with its options; a bound plug-in is returned unchanged.

    Args:
        slot: slot of the plug-in.
        plugin: the function, or the bound plug-in.
        options: options of the function.

    Raises:
        ConfigError: the function does not take these options.
    """
    if isinstance(plugin, BoundPlugin):
        return plugin
    module = sys.modules[plugin.__module__]
    return with_options(
        Plugin(slot=slot, name=plugin.__name__, function=plugin, module=module), options
    )


def require_equal(first: Any, second: Any, message: str) -> None:
    """Raise AssertionError with the message and both values unless they are equal."""
    assert first == second, f"{message}: {first!r:.200} and then {second!r:.200}."
