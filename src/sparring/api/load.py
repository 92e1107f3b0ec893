"""Loads a run's model and its answer, and exports the answer.

The answer of a run is the player that results from training: the policy, the average of its
weights, its last weights, or a mixture of league members.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sparring.config import RunConfig, resolve
from sparring.config.checks import LAST, NON_MIXTURE_ANSWERS, POLICY, check_answer
from sparring.config.parts import PluginConfig
from sparring.core.errors import CheckpointError, ConfigError, UnknownNameError
from sparring.core.records import LEARNER, PUBLISHED, PlayerRef
from sparring.engine.exported_policy import export, export_mixture
from sparring.engine.local import LocalEngine
from sparring.league.meta_game import apart_keys, check_sides
from sparring.league.payoffs import Payoffs
from sparring.play.players.base import Agent
from sparring.play.players.mixture import MemberMixture
from sparring.run import checkpoint
from sparring.run.config_checks import describe_edits
from sparring.run.evaluation import answer_of
from sparring.run.events import METRICS, read_lines
from sparring.run.folder import CONFIG, RunFolder

log = logging.getLogger(__name__)


def published_policy(config: RunConfig, path: Path, policy: str | None) -> PlayerRef:
    """Return the reference to all policies of a run, each in its roles, or to one policy by name.

    Raises:
        UnknownNameError: the run has no policy of this name.
    """
    if policy is None:
        return PUBLISHED
    if policy not in config.by_policy:
        raise UnknownNameError(f"policy of {path}", policy, config.by_policy)
    return PUBLISHED.for_policy(policy)


def load_answer(
    path: Path, config: RunConfig, engine: LocalEngine, step: int, answer: str | None = None
) -> Agent:
    """Return the agent that plays as a run's answer.

    Args:
        path: the run folder.
        config: the run's configuration, from ``load_run``.
        engine: the engine, from ``load_run``.
        step: the step, from ``load_run``.
        answer: name of the answer; None: the answer that the configuration names.

    Raises:
        UnknownNameError: there is no such answer.
        CheckpointError: the checkpoint's table of payoffs cannot be read.
        ConfigError: the answer is a mixture, and the run has no members or more teams than its
            meta-solver allows; or the answer is the average, and the run keeps none.
    """
    answer_name = config.league.answer if answer is None else check_answer(answer, config)
    if answer not in (None, *NON_MIXTURE_ANSWERS) and not engine.members:
        raise ConfigError(
            f"The answer {answer!r} is a mixture of the league's members, and {path} has none at "
            f"step {step}; train it with league.every=20, or use the answer 'policy'."
        )
    if answer_name in NON_MIXTURE_ANSWERS:
        return answer_of(engine, Payoffs(), answer_name)
    solver = PluginConfig.model_validate(answer_name).bind("league.meta_solvers")
    trained_games = [game for game, weight in engine.environments if weight]
    check_sides(solver, trained_games, f"The answer {answer_name!r}")
    payoffs = Payoffs.from_json(RunFolder.open(path).checkpoint(step).state.get("payoffs", {}))
    return answer_of(engine, payoffs, answer_name, apart=bool(apart_keys(config)))


def load_run(
    path: Path, step: int | None = None, *, threads: int | None = None
) -> tuple[RunConfig, LocalEngine, int]:
    """Return (configuration, engine, step) of a run's checkpoint.

    Args:
        path: the run folder.
        step: step of a checkpoint; None: the newest good one.
        threads: number of CPU threads; None: the configuration's number.

    Raises:
        RunError: there is no such run, or it has no checkpoint yet.
        CheckpointError: the checkpoint is damaged or does not exist.
    """
    run = RunFolder.open(path)
    config, source = resolve(run.config()), run.checkpoint(step)
    edits = describe_edits(config, source)
    if edits:
        log.warning(
            "%s was edited after step %d was saved; the edited values are used: %s.",
            path / CONFIG,
            source.step,
            edits,
        )
    if threads is not None:
        config = config.model_copy(update={"threads": threads})
    engine = LocalEngine(config)
    while True:
        try:
            engine.restore(source.path)
            return config, engine, source.step
        except CheckpointError:
            newer_checkpoint = checkpoint.load_latest(path)
            if step is not None or newer_checkpoint is None or newer_checkpoint.path == source.path:
                raise
            source = newer_checkpoint  # a running trainer has removed the checkpoint


def export_answer(
    run: Path,
    folder: Path,
    answer: str | None = None,
    *,
    checkpoint: int | None = None,
    dtype: str | None = None,
    adapter: bool = False,
    policy: str | None = None,
) -> tuple[int, str, tuple[str, ...]]:
    """Write a run's answer as model folders; return (step, the mixture as text or "", notes).

    Args:
        run: the run folder.
        folder: the new folder.
        answer: "policy", "average", "last" or a meta-solver; None: the policy, as one model folder.
        checkpoint: step of the checkpoint; None: the newest.
        dtype: see ``engine.exported_policy.export``.
        adapter: see ``engine.exported_policy.export``.
        policy: name of a policy, if the run has several.

    Raises:
        SparringError: there is no such run or answer, or the folder cannot be written.
    """
    config, engine, step = load_run(run, checkpoint)
    answer_name = answer or POLICY
    agent = load_answer(run, config, engine, step, answer_name)
    if isinstance(agent, MemberMixture):
        export_mixture(
            engine,
            folder,
            agent,
            step=step,
            answer=answer_name,
            dtype=dtype,
            adapter=adapter,
            policy=policy,
        )
        return step, str(agent), agent.notes
    member = LEARNER if answer_name == LAST else PUBLISHED
    export(
        engine,
        folder,
        step=step,
        dtype=dtype,
        adapter=adapter,
        policy=policy,
        member=member,
        figures=None if answer_name == LAST else _measured_figures(run, step),
    )
    return step, "", ()


def _measured_figures(run: Path, step: int) -> dict[str, float]:
    prefixes = ("nash_conv/", "exploitability/", "match/")
    lines = [line for line in read_lines(run / METRICS) if line["step"] == step]
    return {
        name: value
        for line in lines
        for name, value in line.items()
        if name.startswith(prefixes) and isinstance(value, (int, float))
    }
