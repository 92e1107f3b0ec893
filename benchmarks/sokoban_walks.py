"""How policies of the study `vpr-released` solve Sokoban, and what errors they make.

    sparring reproduce vpr-released          # first: the script reads its runs
    python benchmarks/sokoban_walks.py

Each run plays the initial states of the study again, which do not occur in training. The results
per seed are the share solved by length of a shortest solution, how the other episodes end, and how
many moves undo the previous one. From training they have the entropy of a sampled token and the
share of groups whose replies (in the arm `outcome`: episodes) have equal values, in the first and
last steps.

With `--quick` a run of two steps plays a few games.
"""

import argparse
from collections import Counter
from itertools import pairwise
from pathlib import Path

from common import quick_run
from published import TRIALS, record, settings

from sparring.api.cells import by_seed
from sparring.api.load import load_run
from sparring.core.records import PUBLISHED
from sparring.measure.initial_states import SeenInitialStates, measured_starts
from sparring.measure.matches import is_highest_payoff
from sparring.play.replay import final_play
from sparring.run.events import METRICS, read_figures
from studies.common.study import load
from studies.vpr_released.state_groups import moves_left, play_starts
from studies.vpr_released.study import recipe_of

STUDY = load("vpr-released")
GAME = "sokoban"
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
STEPS = 5  # number of first and of last steps over which a metric is averaged
EQUAL_GROUP_METRICS = (
    "candidates/equal_share",
    "group_equal_share",
)  # a run has one of them; runs of VinePPO have none


def plays_of(run, plays):
    """Return the episodes of a run's policy on the initial states of the study, and the
    environment.
    """
    config, engine, _ = load_run(run)
    games = [game for game, _ in engine.environments]
    starts = measured_starts(games[0], SeenInitialStates(config, games))[0]
    return starts.game, play_starts(starts, engine.agent(PUBLISHED), plays)


def episode_walk(game, episode):
    """Return the length of a shortest solution, the end of the episode, and which moves undo
    another.
    """
    with final_play(game, episode) as play:
        best, moves_after = moves_left(play.table)
    moves = [turn.action.split()[-1] for turn in episode.turns if turn.action]
    back = [OPPOSITE.get(after) == before for before, after in pairwise(moves)]
    if is_highest_payoff(game, episode.returns[0]):
        end = "solved"
    elif episode.forfeited_by is not None:
        end = "an illegal reply"
    else:
        end = "lost" if moves_after is None else "out of moves"
    return best, end, back


def figures_of(run, plays):
    """Return the figures of a run."""
    game, episodes = plays_of(run, plays)
    walks = [episode_walk(game, episode) for episode in episodes]
    figures = {}
    for best in sorted({best for best, _, _ in walks}):
        solved = [end == "solved" for at, end, _ in walks if at == best]
        figures[f"solved, {best} moves"] = sum(solved) / len(solved)
    ends = Counter(end for _, end, _ in walks)
    for end in ("solved", "an illegal reply", "out of moves", "lost"):
        figures[end] = ends[end] / len(walks)
    back = [metric_name for _, _, solved in walks for metric_name in solved]
    figures["moves back"] = sum(back) / max(len(back), 1)
    lines = read_figures(run / METRICS)
    equal = [name for name in EQUAL_GROUP_METRICS if any(name in line for line in lines)]
    for name, metric in (
        ("entropy", "sampled_entropy"),
        *(("equal groups", metric_name) for metric_name in equal),
    ):
        values = [line[metric] for line in lines if metric in line]
        figures[f"{name}, first"] = sum(values[:STEPS]) / len(values[:STEPS])
        figures[f"{name}, last"] = sum(values[-STEPS:]) / len(values[-STEPS:])
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs/reproduce/vpr-released"))
    options, result_rows = settings(parser, quick={"folder": TRIALS.parent / "quick" / "walks"}), []
    arms, seeds, plays = (STUDY.setting[name] for name in ("arms", "seeds", "plays"))
    if options.quick:
        arms, seeds, plays = arms[:1], 1, 20
        quick_run(recipe_of(GAME), options.folder / f"{GAME}-{arms[0]}-0" / "run")
    for arm in arms:
        runs = [options.folder / f"{GAME}-{arm}-{seed}" / "run" for seed in range(seeds)]
        values = by_seed([figures_of(run, plays) for run in runs])
        result_rows.append({"arm": arm, "starts": "unseen", "plays": plays, "values": values})
    record("sokoban-walks", result_rows, options)
