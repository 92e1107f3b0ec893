"""Runs: trained, loaded, looked into."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from sparring.agents.base import Agent
from sparring.config import RunConfig, resolve
from sparring.engine.export import export
from sparring.engine.load import load_run as load_engine
from sparring.engine.local import LocalEngine
from sparring.guard import Watch
from sparring.recipe import apply_overrides, load_recipe, to_yaml
from sparring.report.html import write_report
from sparring.report.progress import Watcher
from sparring.rollout.store import EpisodeStore
from sparring.run import checkpoint
from sparring.run.changes import check_same
from sparring.run.events import METRICS, read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import Summary
from sparring.run.loop import train as run_training
from sparring.run.provenance import note_start
from sparring.run.signals import GracefulStop
from sparring.types import Episode

POLICY = "policy"


class Run:
    """A run folder with its newest checkpoint, or that of a step; the model is loaded when it is first asked for.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path, step: int | None = None) -> None:
        self.path, self._asked = Path(path), step
        RunFolder.open(self.path)

    @cached_property
    def _loaded(self) -> tuple[RunConfig, LocalEngine, int]:
        return load_engine(self.path, self._asked)

    @property
    def config(self) -> RunConfig:
        """The run's configuration."""
        return self._loaded[0]

    @property
    def step(self) -> int:
        """The checkpoint's step."""
        return self._loaded[2]

    @property
    def policy(self) -> Agent:
        """The published policy, an agent that plays and scores actions."""
        return self._loaded[1].agent(POLICY)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the figures of every step, a mapping each; docs/metrics.md explains them."""
        return read_lines(self.path / METRICS)

    def episodes(self) -> list[tuple[int, Episode]]:
        """Return (step, episode) of every play that was stored (``store.every``)."""
        return list(EpisodeStore(self.path / "episodes").episodes())

    def export(self, folder: str | Path) -> Path:
        """Write the policy as a folder that ``AutoModelForCausalLM.from_pretrained`` loads; return the folder."""
        export(self._loaded[1], Path(folder), step=self.step)
        return Path(folder)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


def train(
    recipe: str | Path | Mapping[str, Any],
    *changes: str,
    run: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> Run:
    """Train a language model by play and return the run.

    Args:
        recipe: a recipe's name, the path of a YAML file, or a mapping with what such a file holds.
        changes: to the recipe, e.g. "seed=1", "learner.learning_rate=0.001".
        run: the folder; None is runs/NAME-seedN.
        resume: go on from the folder's last good checkpoint.
        overwrite: replace the run there once the new one has a checkpoint.
        progress: show a progress line on the error stream.

    Raises:
        ConfigError: the recipe or a change is wrong.
        RunError: the folder cannot be used.
        DivergedError: training met what is no finite number; the last checkpoint is good.
    """
    found = dict(recipe) if isinstance(recipe, Mapping) else load_recipe(str(recipe))
    config = resolve(apply_overrides(found, changes))
    path = Path(run) if run is not None else default_folder(config)
    words = ["sparring.train", str(recipe) if not isinstance(recipe, Mapping) else "{...}", *changes]
    train_run(config, path, words, resume=resume, overwrite=overwrite, stream=sys.stderr if progress else None)
    return Run(path)


def load_run(path: str | Path, step: int | None = None) -> Run:
    """Return a run from its folder.

    Args:
        path: the run folder.
        step: a checkpoint's step; None takes the newest good one.

    Raises:
        RunError: no such run.
    """
    return Run(Path(path), step)


def default_folder(config: RunConfig) -> Path:
    """Return the run folder of a configuration where none is named."""
    return Path("runs") / f"{config.name}-seed{config.seed}"


def train_run(
    config: RunConfig, path: Path, words: Sequence[str], *, resume: bool, overwrite: bool, stream: TextIO | None
) -> tuple[Summary, Path]:
    """Train in a run folder; return how the run ended, and its report.

    Args:
        config: the resolved configuration.
        path: the run folder.
        words: what the run was started with, for its provenance.
        resume: go on from the folder's last good checkpoint.
        overwrite: replace the run there once the new one has a checkpoint.
        stream: where progress is shown; None: nowhere.

    Raises:
        SparringError: see ``train``.
    """
    if resume:
        folder = RunFolder.open(path)
        check_same(folder, config.model_dump(mode="json"))
        engine = LocalEngine(config)
    else:
        RunFolder.check_free(path, overwrite=overwrite)
        engine = LocalEngine(config)  # what cannot be built leaves the disk as it is
        folder = RunFolder.create(path, to_yaml(config), overwrite=overwrite)
    with folder, GracefulStop() as stop, Watch(config.call_seconds):
        note_start(path, words, after_step=max(checkpoint.steps(path), default=0))
        if stream is None:
            summary = run_training(config, engine, folder, resume=resume, stop=stop)
        else:
            with Watcher(config, path, stream=stream) as watcher:
                summary = run_training(config, engine, folder, resume=resume, watch=watcher, stop=stop)
        return summary, write_report(path)
