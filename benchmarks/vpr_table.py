"""Does rewarding each turn beat rewarding outcomes? A table of logits learns by both, at equal games.

The policy is a softmax table over information states, so nothing is shared between states and only credit differs. The same rollout,
oracles, rewards and estimators as in any run; the update is plain gradient ascent on the mean over turns of advantage * log pi.

    python benchmarks/vpr_table.py             the whole study, for docs/reproduction/vpr.md
    python benchmarks/vpr_table.py --axes horizon
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from common import record

from sparring import registry
from sparring.agents.base import TextAgent
from sparring.games.catalogue import make_game
from sparring.ops.statistics import mean_interval
from sparring.oracles.judge import is_best, judge_episodes, regret
from sparring.rewards.base import WeightedReward, apply_rewards
from sparring.rng import Stream
from sparring.rollout.play import EpisodeSpec, play
from sparring.rollout.playouts import with_playouts
from sparring.rollout.table import ordered_turns, turn_table
from sparring.schedule import parse

TASKS: dict[str, dict[str, Any]] = {
    "tictactoe": {"game": "tic_tac_toe", "oracle": {"name": "minimax"}, "opponent": {"name": "minimax", "random_moves": 0.3}},
    **{
        f"sudoku{blanks}": {
            "game": "sudoku",
            "options": {"blanks": blanks, "puzzles": 8, "wrong": "continues"},
            "oracle": {"name": "constraint", "lost": "solution"},
        }
        for blanks in (2, 4, 6, 8)
    },
    "minesweeper3": {
        "game": "minesweeper",
        "options": {"rows": 3, "columns": 3, "mines": 2, "layouts": 36},
        "oracle": {"name": "posterior"},
    },
    "minesweeper3-best": {
        "game": "minesweeper",
        "options": {"rows": 3, "columns": 3, "mines": 2, "layouts": 36},
        "oracle": {"name": "posterior", "options": {"worlds": 100}},
    },
    "minesweeper4": {
        "game": "minesweeper",
        "options": {"rows": 4, "columns": 4, "mines": 3, "layouts": 64},
        "oracle": {"name": "posterior"},
    },
}
RATE, GAMES, EVERY = 20.0, 128, 10  # step size, games per step, steps between points of a curve
VPR, OUTCOME = {"name": "vpr"}, {"name": "grpo"}
VARIANTS: dict[str, dict[str, Any]] = {
    "outcome": {"credit": OUTCOME},
    "vpr": {"credit": VPR, "reward": "best_action"},
    "vpr_state": {"credit": {**VPR, "baseline": "state"}, "reward": "best_action"},
    "vpr_none": {"credit": {**VPR, "baseline": "none", "divide_by_std": False}, "reward": "best_action"},
    "vpr_loo": {"credit": {**VPR, "leave_one_out": True, "divide_by_std": False}, "reward": "best_action"},
    "vpr_to_go": {"credit": {**VPR, "gamma": 1.0}, "reward": "best_action"},
    "vpr_mixed": {"credit": {**VPR, "outcome": 1.0}, "reward": "best_action"},
    "regret": {"credit": {**VPR, "process": "regret"}, "reward": "regret"},
    "action_rank": {"credit": {**VPR, "process": "action_rank"}, "reward": "action_rank"},
    "playouts": {"credit": {**VPR, "process": "playout_value"}, "reward": "playout_value", "playouts": 4},
}


class Table(TextAgent):
    """Softmax over logits per information state."""

    def __init__(self) -> None:
        super().__init__("table")
        self.logits: dict[str, np.ndarray] = {}
        self._gradient: dict[str, np.ndarray] = {}

    def probabilities(self, key: str, count: int) -> np.ndarray:
        """Return the probabilities of the legal actions in a state."""
        logits = self.logits.get(key)
        if logits is None:
            return np.full(count, 1.0 / count)
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    def choose(self, state, seat, stream):
        legal = state.legal_actions()
        chances = self.probabilities(state.game.key(state, seat), len(legal))
        return legal[min(int(np.searchsorted(np.cumsum(chances), stream.uniform(0))), len(legal) - 1)]

    def learn(self, episodes, advantages, rate: float) -> None:
        """Take one step along the policy gradient."""
        for (_, turn), advantage in zip(ordered_turns(episodes), advantages, strict=True):
            count = len(turn.legal_actions)
            step = -self.probabilities(turn.state_key, count)
            step[turn.legal_actions.index(turn.action)] += 1.0
            gradient = self._gradient.setdefault(turn.state_key, np.zeros(count))
            gradient += advantage * step
        for key, gradient in self._gradient.items():
            self.logits[key] = self.logits.get(key, 0.0) + rate * gradient
        self._gradient.clear()


def specs(game, step, root, *, groups, size, opponent, agent="table"):
    """Return a step's games: groups share a deal and the seat that learns."""
    found = []
    for group in range(groups):
        own, seat = root.child(step).child(group), (step * groups + group) % game.num_seats
        seats = tuple(agent if number == seat or not opponent else "opponent" for number in range(game.num_seats))
        for member in range(size):
            found.append(
                EpisodeSpec(
                    game=game,
                    episode_id=group * size + member,
                    group_id=group,
                    deal=own.child("deal"),
                    stream=own.child(member),
                    seats=seats,
                    trained=tuple(name == agent for name in seats),
                )
            )
    return found


def run(task: str, variant: str, seed: int, *, steps: int, rate: float, groups: int, size: int, every: int) -> list[dict[str, Any]]:
    """Train one table and return its curve."""
    setting, method = TASKS[task], VARIANTS[variant]
    game = make_game(setting["game"], options=setting.get("options"))
    oracle_section = dict(setting["oracle"])
    oracle = registry.bind("oracles", oracle_section.pop("name"), oracle_section)()
    table, agents = Table(), {}
    agents["table"] = table
    if "opponent" in setting:
        section = dict(setting["opponent"])
        agents["opponent"] = registry.bind("agents", section.pop("name"), section)()
    credit = dict(method["credit"])
    estimator = registry.bind("credit", credit.pop("name"), credit)
    names = [method["reward"]] if "reward" in method else []
    rewards = [WeightedReward(bound=registry.bind("rewards", name), weight=parse(1.0)) for name in names]
    root, rows = Stream.from_seed(seed), []
    for step in range(steps + 1):
        if step % every == 0:
            rows.append(
                {"task": task, "variant": variant, "seed": seed, "games": step * groups * size, **measure(game, oracle, agents, setting)}
            )
        episodes = play(specs(game, step, root, groups=groups, size=size, opponent="opponent" in setting), agents)
        if names:
            if "playouts" in method:
                episodes = with_playouts(
                    episodes,
                    {game.name: game},
                    lambda asked, counts: play(asked, agents),
                    count=method["playouts"],
                    stream=root.child("playouts").child(step),
                )
            else:
                episodes = judge_episodes(episodes, {game.name: game}, {game.name: oracle})
            episodes, _ = apply_rewards(episodes, rewards, 0.0, gaps={}, games={game.name: game}, reorder_outcomes=True)
        turns = turn_table(episodes)
        table.learn(episodes, estimator(turns, {}).advantages, rate / (groups * size))
    return rows


def measure(game, oracle, agents, setting) -> dict[str, float]:
    """Return mean return per seat, optimal rate and regret over fresh games, against the training opponent or alone."""
    stream = Stream.from_seed(99).child("evaluation")
    played = play(specs(game, 0, stream, groups=400, size=1, opponent="opponent" in setting), agents)
    judged = judge_episodes(played, {game.name: game}, {game.name: oracle})
    turns = [turn for episode in judged for turn in episode.turns if episode.trained[turn.seat] and turn.verdict is not None]
    returns = [sum(r for r, t in zip(e.returns, e.trained, strict=True) if t) / sum(e.trained) for e in played]
    return {
        "return": float(np.mean(returns)),
        "success": float(np.mean([value == game.max_utility for value in returns])),
        "optimal": float(np.mean([is_best(turn) for turn in turns])) if turns else float("nan"),
        "regret": float(np.mean([regret(turn) for turn in turns])) if turns else float("nan"),
    }


TASKS_COMPARED = ("sudoku4", "minesweeper3", "minesweeper3-best", "tictactoe")
PLAN = {  # what is varied -> (task, variants, sizes of groups)
    "kind of game": [(task, ("outcome", "vpr", "vpr_mixed"), (8,)) for task in TASKS_COMPARED],
    "horizon": [(f"sudoku{blanks}", ("outcome", "vpr"), (8,)) for blanks in (2, 4, 6, 8)],
    "reward": [(task, ("regret", "action_rank"), (8,)) for task in TASKS_COMPARED],
    "baseline": [(task, ("vpr_state", "vpr_none", "vpr_loo", "vpr_to_go"), (8,)) for task in TASKS_COMPARED],
    "group size": [("sudoku4", ("outcome", "vpr"), (2, 4, 16))],
    "playouts": [(task, ("playouts",), (8,)) for task in TASKS_COMPARED],
}


def cell(key):
    """Return the curves of one task, variant and group size over seeds."""
    task, variant, size, steps, seeds = key
    return [run(task, variant, seed, steps=steps, rate=RATE, groups=GAMES // size, size=size, every=EVERY) for seed in range(seeds)]


def shown(values):
    """Return a mean over seeds and its interval as text."""
    found = mean_interval(values)
    return f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def games_until(curves, level):
    """Return after how many games the mean return over seeds stays at or above a level, or "never"; "-" where it is there at first."""
    reached = None
    for rows in zip(*curves, strict=True):
        value = float(np.mean([row["return"] for row in rows]))
        if not rows[0]["games"] and value >= level:
            return "-"
        reached = None if value < level else rows[0]["games"] if reached is None else reached
    return "never" if reached is None else reached


def main(given):
    """Run the plan and record one row per cell."""
    keys = [
        (axis, (task, variant, size, given.steps, given.seeds))
        for axis in given.axes
        for task, variants, sizes in PLAN[axis]
        for variant in variants
        for size in sizes
    ]
    wanted = list(dict.fromkeys(key for _, key in keys))
    wanted += [key for task, _, size, *_ in wanted if (key := (task, "outcome", size, given.steps, given.seeds)) not in wanted]
    wanted = list(dict.fromkeys(wanted))
    with ProcessPoolExecutor(given.workers) as pool:
        curves = dict(zip(wanted, pool.map(cell, wanted), strict=True))
    rows = []
    for axis, key in keys:
        task, variant, size = key[:3]
        found, outcome = curves[key], curves[task, "outcome", size, given.steps, given.seeds]
        level = float(np.mean([rows_[-1]["return"] for rows_ in outcome]))
        rows.append(
            {
                "varied": axis,
                "task": task,
                "learns by": variant,
                "group": size,
                "return at half": shown([one[len(one) // 2]["return"] for one in found]),
                "return at the end": shown([one[-1]["return"] for one in found]),
                "best actions": shown([one[-1]["optimal"] for one in found]),
                "games to outcome's end": games_until(found, level),
            }
        )
    record("vpr_table", rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", nargs="+", choices=PLAN, default=list(PLAN))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    main(parser.parse_args())
