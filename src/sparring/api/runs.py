"""Public functions that train runs and load them from their folders."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from sparring.config import RunConfig, resolve
from sparring.config.checks import measured_weights
from sparring.config.plugins.guard import CallWatch
from sparring.config.recipe import apply_overrides, extend_bases, load_recipe, to_yaml
from sparring.config.sections import StoreConfig
from sparring.core.errors import ConfigError, quoted
from sparring.core.process import GracefulStop
from sparring.core.records import PUBLISHED, Episode
from sparring.engine.local import LocalEngine
from sparring.engine.plan import describe
from sparring.engine.run_processes import run_ranks, run_workers
from sparring.environments.catalogue import configured_game
from sparring.play.parquet_parts import Parts
from sparring.play.players.base import Agent
from sparring.play.store import CreditStore, EpisodeStore
from sparring.run import checkpoint
from sparring.run.config_checks import check_no_setting_is_ignored, check_same
from sparring.run.events import METRICS, check_packages, read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import RunSummary
from sparring.run.loop import train as run_training
from sparring.run.payoff_plays import check_league
from sparring.run.provenance import add_start


def check_integer(value: Any, what: str, minimum: int) -> None:
    """Raise ConfigError unless a value is a whole number of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigError(f"{what}={quoted(value)} is not a whole number of at least {minimum}.")


def check_texts(value: Any, what: str, example: str) -> list[str]:
    """Return a list of texts, or raise ConfigError; a single text is not a list."""
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(item, str) for item in value)
    ):
        raise ConfigError(f"{what}={quoted(value)} is not a list of texts; write {what}={example}.")
    return list(value)


STORES: Mapping[str, Callable[[Path], Parts]] = {"episodes": EpisodeStore, "credit": CreditStore}


class Run:
    """A run folder with one checkpoint; the model is loaded at its first use.

    Attributes:
        path: the folder.
        chosen_step: step of the checkpoint; None: the newest.
    """

    def __init__(self, path: Path, step: int | None = None) -> None:
        self.path, self.chosen_step = Path(path), step
        RunFolder.open(self.path)

    @cached_property
    def _loaded_run(self) -> tuple[RunConfig, LocalEngine, int]:
        from sparring.api.load import load_run

        with CallWatch():
            return load_run(self.path, self.chosen_step)

    @property
    def config(self) -> RunConfig:
        """The run's configuration."""
        return self._loaded_run[0]

    @property
    def step(self) -> int:
        """The checkpoint's step."""
        return self._loaded_run[2]

    @property
    def policy(self) -> Agent:
        """The published policy, an agent that plays and scores actions; several policies are a
        team.
        """
        return self._loaded_run[1].agent(PUBLISHED)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics of every step, one mapping each."""
        return read_lines(self.path / METRICS)

    def episodes(self) -> list[tuple[int, Episode]]:
        """Return (step, episode) of every stored episode (``store.every``)."""
        return list(EpisodeStore(self.path / "episodes").episodes())

    def table(self, kind: str = "episodes") -> Any:
        """Return the stored turns as a pyarrow table with the columns of docs/records.md.

        Args:
            kind: "episodes", one row per turn of every seat; or "credit", one row per turn of a
                trained seat.

        Raises:
            ConfigError: there is no such table.
            RunError: a newer Sparring wrote the table.
        """
        if not isinstance(kind, str) or kind not in STORES:
            raise ConfigError(
                f"{quoted(kind)} is not a table of a run; write {' or '.join(map(repr, STORES))}."
            )
        return STORES[kind](self.path / kind).read()

    def answer(self, name: str | None = None) -> Agent:
        """Return the agent that plays as the run's answer.

        Args:
            name: "policy", "average", "last", or a meta-solver such as "nash". A meta-solver gives
                a mixture of the league's members; one of them is drawn for each episode and team.
                None: the answer that the configuration names (``league.answer``).

        Raises:
            UnknownNameError: there is no such answer.
            ConfigError: the run has no members, or keeps no average.
        """
        from sparring.api.load import load_answer

        config, engine, step = self._loaded_run
        return load_answer(self.path, config, engine, step, name)

    def export(
        self, folder: str | Path, policy: str | None = None, answer: str | None = None
    ) -> Path:
        """Write a policy or a mixture as a folder and return the folder.

        ``AutoModelForCausalLM.from_pretrained`` loads the folder of a policy. The folder of a
        mixture holds one such folder per member, and the weights.

        Args:
            folder: the new folder.
            policy: name of a policy, if the run has several.
            answer: see ``answer``; None: the policy.
        """
        from sparring.api.load import export_answer

        export_answer(
            self.path, folder_of(folder), answer, checkpoint=self.chosen_step, policy=policy
        )
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
    """Train a language model by self-play and return the run.

    Args:
        recipe: a recipe's name, the path of a YAML file, or a mapping with the contents of such a
            file.
        changes: overrides of the recipe, e.g. "seed=1", "learner.learning_rate=0.001".
        run: the run folder; None is runs/NAME-seedN.
        resume: whether to continue from the folder's last good checkpoint.
        overwrite: whether to replace the run in the folder once the new run has a checkpoint;
            excludes ``resume``.
        progress: whether a progress line is shown on the error stream.

    Raises:
        ConfigError: the recipe or a change is wrong, or both ``resume`` and ``overwrite`` are true.
        RunError: the folder cannot be used.
        DivergedError: a number in training is not finite; the last checkpoint is good.
        KeyboardInterrupt: the user interrupted training; finished steps are saved. If a health rule
            stops the run, there is a warning instead.
    """
    if not isinstance(recipe, str | Path | Mapping):
        raise ConfigError(
            f"{quoted(recipe)} is not a recipe; write a name, a path or a mapping, e.g. "
            "sparring.train('kuhn-tiny')."
        )
    check_texts(changes, "changes", "'seed=1', 'steps=60'")
    data = (
        extend_bases(recipe, "The recipe")
        if isinstance(recipe, Mapping)
        else load_recipe(str(recipe))
    )
    config = resolve(apply_overrides(data, changes))
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
        state_text = f"after step {summary.steps} and saved; resume=True continues from there"
        raise KeyboardInterrupt(
            f"stopped {state_text if summary.steps else 'before the first step was done'}"
        )
    return Run(path)


def load_run(path: str | Path, step: int | None = None) -> Run:
    """Return a run from its folder.

    Args:
        path: the run folder.
        step: a checkpoint's step; None: the newest good one.

    Raises:
        RunError: there is no such run.
    """
    if step is not None:
        check_integer(step, "step", 0)
    return Run(folder_of(path), step)


def folder_of(path: Any) -> Path:
    """Return a folder's path, or raise ConfigError."""
    if not isinstance(path, str | Path):
        raise ConfigError(f"{quoted(path)} is not a path of a run folder; write e.g. 'runs/demo'.")
    return Path(path)


def default_folder(config: RunConfig) -> Path:
    """Return the default run folder of a configuration."""
    return Path("runs") / f"{config.name}-seed{config.seed}"


def plan_run(config: RunConfig) -> dict[str, Any]:
    """Return the plan of a run, with the memory that it needs.

    Raises:
        SparringError: the run itself would fail with this error.
    """
    from sparring.report.explanations import check_metrics

    check_metrics(rule.metric for rule in config.health.rules)
    check_league(
        config, [(configured_game(section), section.weight) for section in config.environments]
    )
    check_no_setting_is_ignored(config)
    return describe(config)


def _with_old_default(config: RunConfig, folder: RunFolder) -> RunConfig:
    """Return the configuration of a resumed run.

    A run that began before the key ``store.keep`` existed keeps all stored steps, unless the user
    sets the key.
    """
    default = StoreConfig.model_fields["keep"].default
    if "keep" in (folder.config().get("store") or {}) or config.store.keep != default:
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
    """Train in a run folder and return (summary, path of the report).

    Args:
        config: the resolved configuration.
        path: the run folder.
        words: the command that started the run, for its provenance.
        resume: whether to continue from the folder's last good checkpoint.
        overwrite: whether to replace the run in the folder once the new run has a checkpoint.
        stream: the stream on which progress is shown; None: no progress.

    Raises:
        SparringError: see ``train``.
    """
    from sparring.report.explanations import check_metrics

    check_metrics(rule.metric for rule in config.health.rules)
    check_packages(config.logging.sinks)
    if resume and overwrite:
        raise ConfigError(
            f"resume and overwrite contradict each other for {path}; leave one of them out."
        )
    if resume:
        folder = RunFolder.open(path)
        config = _with_old_default(config, folder)
        check_same(folder, config.model_dump(mode="json"))
        engine = LocalEngine(config)
        check_league(config, engine.environments, engine)
    else:
        RunFolder.check_free(path, overwrite=overwrite)
        check_no_setting_is_ignored(config)
        engine = LocalEngine(config)  # before anything is written
        check_league(config, engine.environments, engine)
        folder = RunFolder.create(path, to_yaml(config), overwrite=overwrite)
    with (
        folder,
        GracefulStop() as stop,
        CallWatch(config.call_seconds),
        run_workers(engine, path),
        run_ranks(engine, path),
    ):
        num_steps = max(checkpoint.steps(path), default=0)
        is_invariant = all(policy.invariant for policy in engine.policies.values())
        decoding = ", ".join(sorted({policy.decoding for policy in engine.policies.values()}))
        add_start(
            path,
            words,
            after_step=num_steps,
            invariant=is_invariant,
            decoding=decoding,
            measured_weights=measured_weights(config),
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
                    on_warmup=watcher.on_warmup,
                    on_evaluation=watcher.on_evaluation,
                    stop=stop,
                )
    from sparring.report.run_page import write_report

    return summary, write_report(path)
