"""Does rewarding each turn beat rewarding outcomes? A table of logits learns by both, at equal games.

The policy is a softmax table over information states, so nothing is shared between states and only credit differs. The same rollout,
oracles, rewards and estimators as in any run; the update is plain gradient ascent on the mean over turns of advantage * log pi.

    python benchmarks/vpr_table.py TASK [VARIANT ...] [--steps N] [--seeds N]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import record

from sparring import registry
from sparring.agents.base import TextAgent
from sparring.games.catalogue import make_game
from sparring.oracles.judge import is_best, judge_episodes, regret
from sparring.rewards.base import WeightedReward, apply_rewards
from sparring.rng import Stream
from sparring.rollout.play import EpisodeSpec, play
from sparring.rollout.playouts import with_playouts
from sparring.rollout.table import ordered_turns, turn_table
from sparring.schedule import parse

TASKS: dict[str, dict[str, Any]] = {
    "tictactoe": {"game": "tic_tac_toe", "oracle": {"name": "minimax"}, "opponent": {"name": "minimax", "random_moves": 0.3}},
    "connect4x4": {"game": "connect_four", "options": {"rows": 4, "columns": 4, "x_in_row": 3}, "oracle": {"name": "minimax"},
                   "opponent": {"name": "minimax", "random_moves": 0.3}},
    **{f"sudoku{blanks}": {"game": "sudoku", "options": {"blanks": blanks, "puzzles": 8, "wrong": "continues"},
                           "oracle": {"name": "constraint", "lost": "solution"}} for blanks in (2, 4, 6, 8)},
    **{f"sudoku{blanks}ends": {"game": "sudoku", "options": {"blanks": blanks, "puzzles": 8},
                               "oracle": {"name": "constraint"}} for blanks in (2, 4, 6, 8)},
    "minesweeper3": {"game": "minesweeper", "options": {"rows": 3, "columns": 3, "mines": 2, "layouts": 36}, "oracle": {"name": "posterior"}},
    "minesweeper4": {"game": "minesweeper", "options": {"rows": 4, "columns": 4, "mines": 3, "layouts": 64}, "oracle": {"name": "posterior"}},
}
VPR, OUTCOME = {"name": "vpr"}, {"name": "grpo"}
VARIANTS: dict[str, dict[str, Any]] = {
    "outcome": {"credit": OUTCOME},
    "outcome_rloo": {"credit": {"name": "rloo"}},
    "vpr": {"credit": VPR, "reward": "best_action"},
    "vpr_state": {"credit": {**VPR, "baseline": "state"}, "reward": "best_action"},
    "vpr_none": {"credit": {**VPR, "baseline": "none", "divide_by_std": False}, "reward": "best_action"},
    "vpr_loo": {"credit": {**VPR, "leave_one_out": True, "divide_by_std": False}, "reward": "best_action"},
    "vpr_to_go": {"credit": {**VPR, "gamma": 1.0}, "reward": "best_action"},
    "vpr_mixed": {"credit": {**VPR, "outcome": 1.0}, "reward": "best_action"},
    "regret": {"credit": {**VPR, "process": "regret"}, "reward": "regret"},
    "regret_state": {"credit": {**VPR, "process": "regret", "baseline": "state"}, "reward": "regret"},
    "regret_mixed": {"credit": {**VPR, "process": "regret", "outcome": 1.0}, "reward": "regret"},
    "playouts": {"credit": {**VPR, "process": "playout_value"}, "reward": "playout_value", "playouts": 4},
}


class Table(TextAgent):
    """Softmax over logits per information state."""

    def __init__(self) -> None:
        super().__init__("table")
        self.logits: dict[str, np.ndarray] = {}

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

    _gradient: dict[str, np.ndarray] = {}


def specs(game, step, root, *, groups, size, opponent, agent="table"):
    """Return a step's games: groups share a deal and the seat that learns."""
    found = []
    for group in range(groups):
        own, seat = root.child(step).child(group), (step * groups + group) % game.num_seats
        seats = tuple(agent if number == seat or not opponent else "opponent" for number in range(game.num_seats))
        for member in range(size):
            found.append(
                EpisodeSpec(game=game, episode_id=group * size + member, group_id=group, deal=own.child("deal"), stream=own.child(member),
                            seats=seats, trained=tuple(name == agent for name in seats))
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
    began = time.perf_counter()
    for step in range(steps + 1):
        if step % every == 0:
            rows.append({"task": task, "variant": variant, "seed": seed, "games": step * groups * size, **measure(game, oracle, agents, setting)})
        episodes = play(specs(game, step, root, groups=groups, size=size, opponent="opponent" in setting), agents)
        if names:
            if "playouts" in method:
                episodes = with_playouts(episodes, {game.name: game}, lambda asked, counts: play(asked, agents), count=method["playouts"],
                                         stream=root.child("playouts").child(step))
            else:
                episodes = judge_episodes(episodes, {game.name: game}, {game.name: oracle})
            episodes, _ = apply_rewards(episodes, rewards, 0.0, gaps={}, games={game.name: game}, reorder_outcomes=True)
        turns = turn_table(episodes)
        table.learn(episodes, estimator(turns, {}).advantages, rate / (groups * size))
    rows[-1]["seconds"] = time.perf_counter() - began
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("variants", nargs="*", default=["outcome", "vpr", "playouts"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--every", type=int, default=25)
    given = parser.parse_args()
    rows = []
    for variant in given.variants:
        for seed in range(given.seeds):
            rows += run(given.task, variant, seed, steps=given.steps, rate=given.rate, groups=given.groups, size=given.size, every=given.every)
        last = [row for row in rows if row["variant"] == variant]
        for games in sorted({row["games"] for row in last}):
            at = [row for row in last if row["games"] == games]
            print(variant, games, {name: np.round([row[name] for row in at], 3).tolist() for name in ("return", "success", "optimal")}, flush=True)
