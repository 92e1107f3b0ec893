"""Runs: trained, loaded, looked into."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from sparring.config import RunConfig, resolve
from sparring.config.checks import measured_weights
from sparring.config.plugins.guard import Watch
from sparring.config.recipe import apply_overrides, laid_over, load_recipe, to_yaml
from sparring.config.sections import StoreConfig
from sparring.core.errors import ConfigError, quoted
from sparring.core.process import GracefulStop
from sparring.core.records import PUBLISHED, Episode
from sparring.engine.local import LocalEngine
from sparring.engine.plan import describe
from sparring.engine.run_processes import learning, playing
from sparring.environments.catalogue import configured_game
from sparring.play.parquet_parts import Parts
from sparring.play.players.base import Agent
from sparring.play.store import CreditStore, EpisodeStore
from sparring.run import checkpoint
from sparring.run.config_checks import check_effect, check_same
from sparring.run.events import METRICS, check_packages, read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import RunSummary
from sparring.run.loop import train as run_training
from sparring.run.payoff_plays import check_league
from sparring.run.provenance import note_start


def whole(value: Any, what: str, least: int) -> None:
    """Raise ConfigError unless a value is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{what}={quoted(value)} is no whole number of at least {least}.")


def texts(value: Any, what: str, example: str) -> list[str]:
    """Return a list of texts, or raise ConfigError: a single text is none."""
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(one, str) for one in value)
    ):
        raise ConfigError(f"{what}={quoted(value)} is no list of texts; write {what}={example}.")
    return list(value)


STORES: Mapping[str, Callable[[Path], Parts]] = {"episodes": EpisodeStore, "credit": CreditStore}


class Run:
    """A run folder with its newest checkpoint, or that of a step.

    The model is loaded when it is first asked for.

    Attributes:
        path: the folder.
        asked: the step that was asked for; None: the newest.
    """

    def __init__(self, path: Path, step: int | None = None) -> None:
        self.path, self.asked = Path(path), step
        RunFolder.open(self.path)

    @cached_property
    def _loaded(self) -> tuple[RunConfig, LocalEngine, int]:
        from sparring.api.load import load_run

        with Watch():
            return load_run(self.path, self.asked)

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
        """The published policy, an agent that plays and scores actions.

        Where the run has several, a team of them: in each seat the one of the seat's role.
        """
        return self._loaded[1].agent(PUBLISHED)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the figures of every step, a mapping each; docs/metrics.md explains them."""
        return read_lines(self.path / METRICS)

    def episodes(self) -> list[tuple[int, Episode]]:
        """Return (step, episode) of every play that was stored (``store.every``)."""
        return list(EpisodeStore(self.path / "episodes").episodes())

    def table(self, kind: str = "episodes") -> Any:
        """Return the stored turns as a pyarrow table, in the columns of docs/records.md.

        ``.to_pandas()`` makes it a data frame.

        Args:
            kind: "episodes", a row per turn of every seat; or "credit", what was learned from each
                turn of a trained seat.

        Raises:
            ConfigError: there is no such table.
            RunError: it was written by a newer Sparring.
        """
        if not isinstance(kind, str) or kind not in STORES:
            raise ConfigError(
                f"{quoted(kind)} is no table of a run; write {' or '.join(map(repr, STORES))}."
            )
        return STORES[kind](self.path / kind).read()

    def answer(self, name: str | None = None) -> Agent:
        """Return who answers for the run: an agent that ``play`` takes.

        Args:
            name: "policy", "average", "last", or a meta-solver such as "nash": the mixture of the
                league's members, of whom one is drawn for each play and team. None: what the
                configuration says (``league.answer``).

        Raises:
            UnknownNameError: there is no such answer.
            ConfigError: the run has no members, or keeps no average.
        """
        from sparring.api.load import load_answer

        config, engine, step = self._loaded
        return load_answer(self.path, config, engine, step, name)

    def export(
        self, folder: str | Path, policy: str | None = None, answer: str | None = None
    ) -> Path:
        """Write a policy as a folder that ``AutoModelForCausalLM.from_pretrained`` loads.

        A mixture is a folder of such folders, with the weights. Return the folder.

        Args:
            folder: where to.
            policy: its name, where the run has several.
            answer: as for ``answer``; None: the policy.
        """
        from sparring.api.load import export_answer

        export_answer(self.path, folder_of(folder), answer, checkpoint=self.asked, policy=policy)
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
        overwrite: replace the run there once the new one has a checkpoint. Not with ``resume``.
        progress: show a progress line on the error stream.

    Raises:
        ConfigError: the recipe or a change is wrong, or a run is to go on and be replaced.
        RunError: the folder cannot be used.
        DivergedError: training met what is no finite number; the last checkpoint is good.
        KeyboardInterrupt: it was interrupted; what was done is saved. A health rule that stops the
            run warns instead.
    """
    if not isinstance(recipe, str | Path | Mapping):
        raise ConfigError(
            f"{quoted(recipe)} is no recipe; write a name, a path or a mapping, e.g. "
            "sparring.train('kuhn-tiny')."
        )
    texts(changes, "changes", "'seed=1', 'steps=60'")
    found = (
        laid_over(recipe, "The recipe") if isinstance(recipe, Mapping) else load_recipe(str(recipe))
    )
    config = resolve(apply_overrides(found, changes))
    path = default_folder(config) if run is None else folder_of(run)
    words = ["sparring.train", "{...}" if isinstance(recipe, Mapping) else str(recipe), *changes]
    summary, _ = train_run(
        config,
        path,
        words,
        resume=resume,
        overwrite=overwrite,
        stream=sys.stderr if progress else None,
    )
    if summary.stopped_by:
        warnings.warn(
            f"A health rule stopped the run after step {summary.steps}: {summary.stopped_by}",
            stacklevel=2,
        )
    elif not summary.finished:
        saved = f"after step {summary.steps} and saved; resume=True goes on from there"
        raise KeyboardInterrupt(
            f"stopped {saved if summary.steps else 'before the first step was done'}"
        )
    return Run(path)


def load_run(path: str | Path, step: int | None = None) -> Run:
    """Return a run from its folder.

    Args:
        path: the run folder.
        step: a checkpoint's step; None takes the newest good one.

    Raises:
        RunError: no such run.
    """
    if step is not None:
        whole(step, "step", 0)
    return Run(folder_of(path), step)


def folder_of(path: Any) -> Path:
    """Return a folder's path, or raise ConfigError."""
    if not isinstance(path, str | Path):
        raise ConfigError(f"{quoted(path)} is no path of a run folder; write e.g. 'runs/demo'.")
    return Path(path)


def default_folder(config: RunConfig) -> Path:
    """Return the run folder of a configuration where none is named."""
    return Path("runs") / f"{config.name}-seed{config.seed}"


def plan_run(config: RunConfig) -> dict[str, Any]:
    """Return what a run would do, and the memory it needs.

    Raises:
        SparringError: the run itself would be refused.
    """
    from sparring.report.explanations import check_metrics

    check_metrics(rule.metric for rule in config.health.rules)
    check_league(
        config, [(configured_game(section), section.weight) for section in config.environments]
    )
    check_effect(config)
    return describe(config)


def _keeping_all(config: RunConfig, folder: RunFolder) -> RunConfig:
    """Return the configuration of a run that goes on.

    A run begun before there was ``store.keep`` keeps all its stored steps unless told not to.
    """
    usual = StoreConfig.model_fields["keep"].default
    if "keep" in (folder.config().get("store") or {}) or config.store.keep != usual:
        return config
    return config.model_copy(update={"store": config.store.model_copy(update={"keep": 0})})


def train_run(
    config: RunConfig,
    path: Path,
    words: Sequence[str],
    *,
    resume: bool,
    overwrite: bool,
    stream: TextIO | None,
) -> tuple[RunSummary, Path]:
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
    from sparring.report.explanations import check_metrics

    check_metrics(rule.metric for rule in config.health.rules)
    check_packages(config.logging.sinks)
    if resume and overwrite:
        raise ConfigError(
            f"{path} cannot go on and be replaced; leave out either resume or overwrite."
        )
    if resume:
        folder = RunFolder.open(path)
        config = _keeping_all(config, folder)
        check_same(folder, config.model_dump(mode="json"))
        engine = LocalEngine(config)
        check_league(config, engine.environments, engine)
    else:
        RunFolder.check_free(path, overwrite=overwrite)
        check_effect(config)
        engine = LocalEngine(config)  # what cannot be built leaves the disk as it is
        check_league(config, engine.environments, engine)
        folder = RunFolder.create(path, to_yaml(config), overwrite=overwrite)
    with (
        folder,
        GracefulStop() as stop,
        Watch(config.call_seconds),
        playing(engine, path),
        learning(engine, path),
    ):
        done = max(checkpoint.steps(path), default=0)
        invariant = all(policy.invariant for policy in engine.policies.values())
        decoding = ", ".join(sorted({policy.decoding for policy in engine.policies.values()}))
        note_start(
            path,
            words,
            after_step=done,
            invariant=invariant,
            decoding=decoding,
            weights=measured_weights(config),
        )
        if stream is None:
            summary = run_training(config, engine, folder, resume=resume, stop=stop)
        else:
            from sparring.report.progress import ProgressLine

            with ProgressLine(config, path, stream=stream) as watcher:
                summary = run_training(
                    config,
                    engine,
                    folder,
                    resume=resume,
                    watch=watcher,
                    warming=watcher.on_warmup,
                    measuring=watcher.on_evaluation,
                    stop=stop,
                )
    from sparring.report.run_page import write_report

    return summary, write_report(path)
