"""The sinks of a run: opened, given the figures of every step, and done without where they fail.

Metrics, in timing.jsonl:
    failed_sinks            sinks (logging.sinks) that did not take the figures of the step; only
                            where there are any
"""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.config import PluginConfig, RunConfig
from sparring.config.plugins.guard import Call
from sparring.config.plugins.registry import Bound
from sparring.core.errors import ConfigError, HungError, SparringError
from sparring.run.sinks.base import Sink, Start

log = logging.getLogger(__name__)
PATIENCE = 3  # failures in a row from which on a sink rests between tries: 2, 4, 8 ... steps
LONGEST = 8  # power of 2 of the longest rest


def check_packages(sinks: Sequence[PluginConfig]) -> None:
    """Check that what the sinks import is there, before a run changes anything.

    Raises:
        ConfigError: a package is missing; the message names the extra that brings it.
    """
    for sink in sinks:
        bound = sink.bind("run.sinks")
        package = getattr(bound.plugin.module, "PACKAGE", None)
        if package is not None and importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"The {bound} needs the package {package}, which is not there; run pip install "
                f"'sparring[{package}]', or leave it out of logging.sinks."
            )


@dataclass(kw_only=True, slots=True)
class _Open:
    """A sink at work."""

    bound: Bound
    sink: Sink
    failures: int = 0  # in a row
    rest: float = 0  # steps until it is asked again


class Sinks:
    """The sinks of a run that starts or goes on.

    Raises:
        SparringError: one of them cannot be opened.
    """

    def __init__(self, sinks: Sequence[PluginConfig], start: Start) -> None:
        self._open: list[_Open] = []
        for bound in [sink.bind("run.sinks") for sink in sinks]:
            try:
                self._open.append(_Open(bound=bound, sink=bound(start)))
            except SparringError:
                self.close()
                raise

    @classmethod
    def of(cls, config: RunConfig, folder: Path, step: int) -> Sinks:
        """Return those of a run after ``step`` steps."""
        check_packages(config.logging.sinks)
        whole = config.model_dump(mode="json")
        start = Start(folder=folder, name=config.name, seed=config.seed, step=step, config=whole)
        return cls(config.logging.sinks, start)

    def write(self, step: int, figures: Mapping[str, float]) -> int:
        """Give the finite figures of a step to all; return how many did not take them."""
        finite = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
        return sum(not self._taken(one, step, finite) for one in self._open)

    def _taken(self, one: _Open, step: int, figures: Mapping[str, float]) -> bool:
        """Return whether a sink took the figures of a step."""
        if one.rest:
            one.rest -= 1
            return False
        try:
            with Call(one.bound):
                one.sink.write(step, figures)
        except SparringError as error:
            self._failed(one, step, error)
            return False
        one.failures = 0
        return True

    def _failed(self, one: _Open, step: int, error: SparringError) -> None:
        """Say once in a row of failures that a sink failed, and let it rest if it fails on."""
        one.failures += 1
        if one.failures >= PATIENCE:
            one.rest = 2 ** min(one.failures - PATIENCE + 1, LONGEST)
        if isinstance(error, HungError):
            one.rest = math.inf
        if one.failures == 1 or one.rest == math.inf:
            then = "asked no more" if one.rest == math.inf else "tried again"
            log.warning(
                "%s Step %d is not in it; it is %s, and the run goes on.", error, step, then
            )

    def close(self) -> None:
        """Close all; what cannot be closed is said."""
        for one in self._open:
            try:
                with Call(one.bound):
                    one.sink.close()
            except SparringError as error:
                log.warning("The %s could not be closed: %s", one.bound, error)
