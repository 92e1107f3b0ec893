"""A table of logits that learns by any estimator, and what it is measured at.

The policy is a softmax table over information states. See vpr_table.py for the study.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparring import registry
from sparring.agents.base import TextAgent
from sparring.config import resolve
from sparring.games.catalogue import make_game
from sparring.measure.starts import Met, columns
from sparring.oracles.judge import is_best, judge_episodes, regret
from sparring.rewards.base import WeightedReward, apply_rewards
from sparring.rng import Stream
from sparring.rollout.play import EpisodeSpec, play
from sparring.rollout.playouts import with_playouts
from sparring.rollout.table import ordered_turns, turn_table
from sparring.schedule import parse

TASKS: dict[str, dict[str, Any]] = {
    "tictactoe": {
        "game": "tic_tac_toe",
        "oracle": {"name": "minimax"},
        "opponent": {"name": "minimax", "random_moves": 0.3},
    },
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
MEASURED = 400  # games of each measurement
VPR, OUTCOME = {"name": "vpr"}, {"name": "grpo"}
VARIANTS: dict[str, dict[str, Any]] = {
    "outcome": {"credit": OUTCOME},
    "vpr": {"credit": VPR, "reward": "best_action"},
    "vpr_state": {"credit": {**VPR, "baseline": "state"}, "reward": "best_action"},
    "vpr_none": {
        "credit": {**VPR, "baseline": "none", "divide_by_std": False},
        "reward": "best_action",
    },
    "vpr_loo": {
        "credit": {**VPR, "leave_one_out": True, "divide_by_std": False},
        "reward": "best_action",
    },
    "vpr_to_go": {"credit": {**VPR, "gamma": 1.0}, "reward": "best_action"},
    "vpr_mixed": {"credit": {**VPR, "outcome": 1.0}, "reward": "best_action"},
    "regret": {"credit": {**VPR, "process": "regret"}, "reward": "regret"},
    "action_rank": {"credit": {**VPR, "process": "action_rank"}, "reward": "action_rank"},
    "playouts": {
        "credit": {**VPR, "process": "playout_value"},
        "reward": "playout_value",
        "playouts": 4,
    },
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


def specs(game, step, root, *, groups, size, opponent, agent="table", starts=None):
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
                    deal=own.child("deal") if starts is None else starts.deal(own, group),
                    stream=own.child(member),
                    seats=seats,
                    trained=tuple(name == agent for name in seats),
                )
            )
    return found


def run(task, variant, seed, *, steps, groups, size, oracle=None) -> dict[str, Any]:
    """Train one table; return what it was measured at.

    Args:
        task: of TASKS.
        variant: of VARIANTS.
        seed: of the run.
        steps: updates.
        groups: groups of a step.
        size: games of a group.
        oracle: who judges what is learnt from, in place of the task's, which measures.

    Returns:
        {"starts": what the training's starts are, "curve": measurements on them, "unseen": the
        last on others, or None}.
    """
    setting, method = TASKS[task], VARIANTS[variant]
    game = make_game(setting["game"], options=setting.get("options"))
    exact = bound("oracles", setting["oracle"])()
    teacher = exact if oracle is None else bound("oracles", oracle)()
    table = Table()
    agents = {"table": table}
    if "opponent" in setting:
        agents["opponent"] = bound("agents", setting["opponent"])()
    estimator = bound("credit", method["credit"])
    names = [method["reward"]] if "reward" in method else []
    rewards = [WeightedReward(bound=registry.bind("rewards", name), weight=parse(1.0)) for name in names]
    columns = columns_of(setting, game)
    root, curve = Stream.from_seed(seed), []
    shape = {"groups": groups, "size": size, "opponent": "opponent" in setting}
    for step in range(steps + 1):
        if step % EVERY == 0:
            found = measure(columns[-1], exact, agents, setting)
            curve.append({"games": step * groups * size, **found})
        if step == steps:
            break
        episodes = play(specs(game, step, root, **shape), agents)
        if "playouts" in method:
            episodes = with_playouts(
                episodes,
                {game.name: game},
                lambda asked, counts: play(asked, agents),
                count=method["playouts"],
                stream=root.child("playouts").child(step),
            )
        elif names:
            episodes = judge_episodes(episodes, {game.name: game}, {game.name: teacher})
        if names:
            episodes, _ = apply_rewards(episodes, rewards, 0.0, gaps={}, games={game.name: game}, reorder_outcomes=True)
        table.learn(episodes, estimator(turn_table(episodes), {}).advantages, RATE / (groups * size))
    unseen = columns[0] if columns[0].label == "unseen" else None
    return {
        "starts": columns[-1].label,
        "curve": curve,
        "unseen": None if unseen is None else measure(unseen, exact, agents, setting),
    }


def bound(slot, section):
    """Return the plug-in that a section names, with its options."""
    return registry.bind(slot, section["name"], {key: value for key, value in section.items() if key != "name"})


def columns_of(setting, game):
    """Return the starts of a task: unseen ones, then those of training; or all."""
    section = {"name": setting["game"], "options": setting.get("options", {})}
    config = resolve({"games": [section], "warmup": {"updates": 0}})
    return columns(game, Met(config, [game]))


def measure(starts, oracle, agents, setting) -> dict[str, float]:
    """Return mean return, share solved, best moves and regret from these starts."""
    game, stream = starts.game, Stream.from_seed(99).child("evaluation")
    played = play(
        specs(game, 0, stream, groups=MEASURED, size=1, opponent="opponent" in setting, starts=starts),
        agents,
    )
    judged = judge_episodes(played, {game.name: game}, {game.name: oracle})
    turns = [turn for episode in judged for turn in episode.turns if episode.trained[turn.seat] and turn.verdict is not None]
    returns = [sum(r for r, t in zip(e.returns, e.trained, strict=True) if t) / sum(e.trained) for e in played]
    found = {
        "return": float(np.mean(returns)),
        "solved": float(np.mean([value == game.max_utility for value in returns])),
    }
    if turns:
        found["best moves"] = float(np.mean([is_best(turn) for turn in turns]))
        found["regret"] = float(np.mean([regret(turn) for turn in turns]))
    return found
