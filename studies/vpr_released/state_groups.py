"""One run of the study of VPR as released: training with a token budget, and measurement.

Arms sample different numbers of tokens per step. So a run ends after the step in which it spends
its token budget. Tokens of Monte Carlo rollouts and of replies that are not played count too.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from sparring.api.load import load_run
from sparring.config import RunConfig, resolve
from sparring.config.plugins import registry
from sparring.config.plugins.guard import CallWatch
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.core.errors import ConfigError
from sparring.core.files import sha256_hex, write_bytes_atomic
from sparring.core.process import GracefulStop
from sparring.core.records import PUBLISHED, Episode
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.base import Environment
from sparring.environments.catalogue import make_game
from sparring.environments.sokoban.solver import solutions
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.initial_states import SeenInitialStates, Starts, measured_starts
from sparring.measure.matches import AGENT, is_highest_payoff, match_spec
from sparring.play.replay import final_play
from sparring.play.team import play_teams
from sparring.run.events import METRICS, read_figures
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.run.provenance import code_commit
from sparring.run.warmup import warm_up
from studies.vpr_released.occupancy import Enumeration

Line = Mapping[str, Any]
STATES = 20_000  # largest number of information states whose visits are enumerated


class BudgetStop(GracefulStop):
    """Requests the stop of a run when its token budget is spent.

    Args:
        metrics: file of the run's metrics.
        games: number of games of a step.
        budget: number of tokens.
    """

    def __init__(self, metrics: Path, games: int, budget: int) -> None:
        self._metrics, self._games, self._budget = metrics, games, budget
        self._asked = False
        super().__init__()

    @property
    def requested(self) -> bool:
        """Whether the tokens are spent, or a signal has requested the stop."""
        return self._asked or self.tokens >= self._budget

    @requested.setter
    def requested(self, value: bool) -> None:
        """Record that a signal has requested the stop."""
        self._asked = value

    @property
    def tokens(self) -> float:
        """The number of tokens sampled so far."""
        lines = read_figures(self._metrics) if self._metrics.exists() else []
        return sum(tokens(line, self._games) for line in lines)


def tokens(line: Line, games: int) -> float:
    """Return the number of tokens that a step of one-seat games sampled for any purpose."""
    if "turns_per_game" not in line:
        return 0.0
    replies = line["reply_tokens"] * line["turns_per_game"] * games
    sampled: float = line.get("candidates/tokens", replies)
    return sampled + float(line.get("playouts/tokens", 0.0))


def run(
    recipe: str,
    changes: Sequence[str],
    seed: int,
    budget: int,
    plays: int,
    counts: Sequence[int],
    folder: Path,
    shared: Path,
) -> dict[str, Any]:
    """Train a recipe until its tokens are spent, and return its figures.

    Args:
        recipe: name of the recipe.
        changes: overrides of the recipe.
        seed: seed of the run.
        budget: number of sampled tokens; the step in which they are spent is the last.
        plays: number of measured episodes, from initial states that do not occur in training.
        counts: numbers of replies to a prompt for which visited states are enumerated; none on a
            board with more than STATES information states.
        folder: folder of the run.
        shared: folder of the study's warm-ups.

    Returns:
        "starts", the label of the measured initial states; "steps" and "tokens" of training;
        "start", the figures before training; "success", "completion", "illegal" and "decisions"
        after training; "start_occupancy" and "occupancy" by number of replies.
    """
    overrides = [*changes, f"seed={seed}", "threads=1", "evaluation.opponents=[]"]
    config = resolve(apply_overrides(load_recipe(recipe), overrides))
    warm_up_folder = warmed(config, shared)
    config = resolve(apply_overrides(load_recipe(recipe), [*overrides, "warmup.updates=0"]))
    engine = LocalEngine(config)
    engine.restore(warm_up_folder)
    games = [game for game, _ in engine.environments]
    starts = measured_starts(games[0], SeenInitialStates(config, games))[0]
    initial_agent: Any = engine.agent(PUBLISHED)
    start, initial_occupancy = (
        _measure_policy(starts, initial_agent, plays),
        _occupancy(config, initial_agent, counts),
    )
    run_folder = RunFolder.create(folder, to_yaml(config), overwrite=folder.exists())
    stop = BudgetStop(folder / METRICS, config.rollout.games_per_step, budget)
    with run_folder, stop, CallWatch(config.call_seconds):
        train(config, engine, run_folder, resume=False, stop=stop)
    if stop.tokens < budget and len(read_figures(folder / METRICS)) < config.steps:
        raise KeyboardInterrupt  # requested by a signal
    _, engine, step = load_run(folder)
    agent: Any = engine.agent(PUBLISHED)
    return {
        "starts": starts.label,
        "steps": step,
        "tokens": stop.tokens,
        "start": start,
        **_measure_policy(starts, agent, plays),
        "start_occupancy": initial_occupancy,
        "occupancy": _occupancy(config, agent, counts),
    }


def warmed(config: RunConfig, shared: Path) -> Path:
    """Return the folder of a warm-up's weights and moments; run the warm-up if there is no folder.

    Args:
        config: configuration of a run. Runs share a warm-up if they have the same environment,
            model, renderer, context, warm-up, seed and commit of the code.
        shared: folder of the study's warm-ups.
    """
    shared.mkdir(parents=True, exist_ok=True)
    environment = config.environments[0]
    parts = (
        environment.name,
        environment.options,
        environment.illegal,
        config.model,
        config.renderer,
    )
    other_parts = (config.context, config.warmup, config.seed, code_commit())
    digest = sha256_hex(repr((*parts, *other_parts)).encode())
    folder = shared / f"{environment.name}-{config.seed}-{digest[:8]}"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            engine, temporary = LocalEngine(config), folder.with_suffix(".new")
            warm_up(config, engine)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            engine.save(temporary)
            os.replace(temporary, folder)
    return folder


def play_starts(starts: Starts, agent: Any, plays: int) -> list[Episode]:
    """Play the evaluation episodes of a policy from fixed initial states."""
    stream = Stream.from_seed(0).child("state groups")
    specs = [match_spec(starts, 0, index, plays, stream) for index in range(plays)]
    return play_teams(specs, {AGENT: agent})


def _measure_policy(starts: Starts, agent: Any, plays: int) -> dict[str, float]:
    """Return a policy's share of solved games and its completion."""
    episodes, game = play_starts(starts, agent, plays), starts.game
    return {
        "success": sum(is_highest_payoff(game, episode.returns[0]) for episode in episodes)
        / len(episodes),
        "completion": sum(completion(game, episode) for episode in episodes) / len(episodes),
        "illegal": sum(episode.forfeited_by is not None for episode in episodes) / len(episodes),
        "decisions": sum(len(episode.turns) for episode in episodes) / len(episodes),
    }


def completion(game: Environment, episode: Episode) -> float:
    """Return the completion of an episode: 1 if it was solved.

    Mathematics:
        sudoku:       right digits written / empty cells at the start
        minesweeper:  open cells / cells without a mine
        sokoban:      (d(start) - d(end)) / d(start) within [0, 1], d the moves of a shortest
                      solution; 0 where the end has none

    Raises:
        ConfigError: the game is another one.
    """
    with final_play(game, episode) as end:
        table = end.table
    name = game.made_by["name"] if game.made_by else game.name
    if name == "sudoku":
        return float((len(table.moves) - table.mistakes) / table.blanks)
    if name == "minesweeper":
        return float(len(table.open_cells) / (table.cells - table.mines))
    if name != "sokoban":
        raise ConfigError(f"{name} has no completion here; measure sudoku, minesweeper or sokoban.")
    initial_moves, remaining_moves = moves_left(table)
    return (
        0.0
        if initial_moves is None or remaining_moves is None
        else min(max((initial_moves - remaining_moves) / initial_moves, 0.0), 1.0)
    )


def moves_left(table: Any) -> tuple[int | None, int | None]:
    """Return the moves of a shortest solution of a Sokoban room, at its start and now.

    A number is None if there is no solution.
    """
    boxes, initial_board = table.boxes.bit_count(), table.initial()
    all_solutions = solutions(table.floor, boxes, boxes)
    initial_moves, remaining_moves = (
        None if all_solutions is None else all_solutions.distance_of(board.agent, board.boxes)
        for board in (initial_board, table)
    )
    return initial_moves, remaining_moves


def _occupancy(config: RunConfig, agent: Any, counts: Sequence[int]) -> dict[str, dict[str, float]]:
    """Return a policy's visits on its board, by number of replies to a prompt."""
    if not counts:
        return {}
    section = config.environments[0]
    game = make_game(str(section.name), options=section.options)
    oracle = registry.bind("oracles", "graded")()
    enumeration = Enumeration(game, enumerate_info_states(game, limit=STATES), oracle, illegal=-2.0)
    occupancy_by_count = {count: enumeration.visited(agent, count) for count in {1, *counts}}
    return {
        str(count): {
            "decisions": occupancy.decisions,
            "success": occupancy.success,
            "illegal": occupancy.illegal,
            "distance": occupancy.distance(occupancy_by_count[1]),
        }
        for count, occupancy in ((count, occupancy_by_count[count]) for count in counts)
    }


if __name__ == "__main__":
    inputs, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    here, warm_ups = out.parent / "run", out.parent.parent / "warm-ups"
    write_bytes_atomic(out, json.dumps(run(**inputs, folder=here, shared=warm_ups)).encode())
