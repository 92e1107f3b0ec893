"""A table of logits that learns with any estimator, and its measurements.

The policy is a softmax table over information states. States share nothing, so only credit differs
between variants. Rollout, oracles, rewards and estimators are those of a run; the update is plain
gradient ascent on the mean over turns of advantage * log pi. A table has no information about new
initial states, so its main figures have `starts` "seen": they show how fast credit teaches known
states. Figures of "unseen" initial states are also stored.

    python -m studies.vpr_table.learner '{"task": "sudoku4", ...}' FILE

writes what ``run`` returns for these arguments to a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.files import write_bytes_atomic
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.environments.base import Environment
from sparring.environments.catalogue import make_game
from sparring.measure.initial_states import SeenInitialStates, Starts, measured_starts
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import is_best, judge_episodes, regret
from sparring.methods.rewards.base import apply_rewards
from sparring.methods.rewards.components import WeightedReward
from sparring.ops.normal_form import softmax
from sparring.play.players.base import TextAgent
from sparring.play.playouts import with_playouts
from sparring.play.rollout import play, rollout, run_requests
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import ordered_turns, turn_table
from studies.vpr_table.tasks import TASKS, VARIANTS

RATE, GAMES, EVERY = 20.0, 128, 10  # step size, games per step, steps between points of a curve
MEASURED = 400  # games of each measurement
Floats = npt.NDArray[np.float64]


class Table(TextAgent):
    """Softmax over logits per information state."""

    def __init__(self) -> None:
        super().__init__("table")
        self.logits: dict[str, Floats] = {}
        self._gradient: dict[str, Floats] = {}

    def probabilities(self, key: str, count: int) -> Floats:
        """Return the probabilities of the legal actions in a state."""
        logits = self.logits.get(key)
        if logits is None:
            return np.full(count, 1.0 / count)
        return softmax(logits)

    def choose(self, state: Any, seat: int, stream: Stream) -> Any:
        """Return a legal action, drawn from the table."""
        legal = state.legal_actions()
        chances = self.probabilities(state.game.key(state, seat), len(legal))
        index = int(np.searchsorted(np.cumsum(chances), stream.uniform(0)))
        return legal[min(index, len(legal) - 1)]

    def learn(self, episodes: Sequence[Episode], advantages: Sequence[float], rate: float) -> None:
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


def specs(
    game: Environment,
    step: int,
    root: Stream,
    *,
    groups: int,
    size: int,
    opponent: bool,
    starts: Starts | None = None,
) -> list[EpisodeSpec]:
    """Return a step's games: groups share a deal and the seat that learns."""
    result = []
    for group in range(groups):
        stream, seat = root.child(step).child(group), (step * groups + group) % game.num_seats
        learns = [index == seat or not opponent for index in range(game.num_seats)]
        seats = tuple("table" if is_learner else "opponent" for is_learner in learns)
        for member in range(size):
            result.append(
                EpisodeSpec(
                    game=game,
                    episode_id=group * size + member,
                    group_id=group,
                    deal=stream.child("deal") if starts is None else starts.deal(stream, group),
                    stream=stream.child(member),
                    seats=seats,
                    trained=tuple(learns),
                )
            )
    return result


class Lesson:
    """The training of a table on a task, with a variant of credit and a seed.

    Args:
        task: a key of TASKS.
        variant: a key of VARIANTS.
        seed: seed of the run.
        oracle: oracle for training; None: the oracle of the task, which also measures.
    """

    def __init__(
        self, task: str, variant: str, seed: int, oracle: Mapping[str, Any] | None
    ) -> None:
        setting, self._method = TASKS[task], VARIANTS[variant]
        self.game = make_game(setting["game"], options=setting.get("options"))
        self._exact: Oracle = bound("oracles", setting["oracle"])()
        self._teacher = self._exact if oracle is None else bound("oracles", oracle)()
        self._table = Table()
        self._agents: dict[str, Any] = {"table": self._table}
        self._alone = "opponent" not in setting
        if not self._alone:
            self._agents["opponent"] = bound("players", setting["opponent"])()
        self._estimator = bound("credit", self._method["credit"])
        names = [self._method["reward"]] if "reward" in self._method else []
        binds = [registry.bind("rewards", name) for name in names]
        self._rewards = [WeightedReward(bound=reward, weight=parse(1.0)) for reward in binds]
        self._root = Stream.from_seed(seed)
        section = {"name": setting["game"], "options": setting.get("options", {})}
        config = resolve({"environments": [section], "warmup": {"updates": 0}})
        seen = SeenInitialStates(config, [self.game])
        self.starts = measured_starts(self.game, seen)  # unseen and seen initial states, or all

    def step(self, step: int, groups: int, size: int) -> None:
        """Play a step's episodes and learn from them."""
        games = {self.game.name: self.game}
        has_opponent = not self._alone
        episode_specs = specs(
            self.game, step, self._root, groups=groups, size=size, opponent=has_opponent
        )
        episodes = play(episode_specs, self._agents)
        if "playouts" in self._method:
            requests = with_playouts(
                episodes,
                games,
                count=self._method["playouts"],
                stream=self._root.child("playouts").child(step),
            )
            episodes, _ = run_requests(requests, partial(rollout, agents=self._agents))
        elif self._rewards:
            episodes = judge_episodes(episodes, games, {self.game.name: self._teacher})
        if self._rewards:
            options: dict[str, Any] = {"gaps": {}, "games": games, "reorder_outcomes": True}
            episodes, _ = apply_rewards(episodes, self._rewards, 0.0, **options)
        advantages = self._estimator(turn_table(episodes), {}).advantages
        self._table.learn(episodes, advantages, RATE / (groups * size))

    def measure(self, starts: Starts) -> dict[str, float]:
        """Return mean return, share solved, best moves and regret from these starts."""
        game, stream = starts.game, Stream.from_seed(99).child("evaluation")
        has_opponent = not self._alone
        episode_specs = specs(
            game, 0, stream, groups=MEASURED, size=1, opponent=has_opponent, starts=starts
        )
        episodes = play(episode_specs, self._agents)
        judged = judge_episodes(episodes, {game.name: game}, {game.name: self._exact})
        turns = [
            turn
            for episode in judged
            for turn in episode.turns
            if episode.trained[turn.seat] and turn.verdict is not None
        ]
        returns = [own_return(episode) for episode in episodes]
        figures = {
            "return": float(np.mean(returns)),
            "solved": float(np.mean([value == game.max_utility for value in returns])),
        }
        if turns:
            figures["best moves"] = float(np.mean([is_best(turn) for turn in turns]))
            figures["regret"] = float(np.mean([regret(turn) for turn in turns]))
        return figures


def own_return(episode: Episode) -> float:
    """Return the mean return of the seats that learn."""
    pairs = zip(episode.returns, episode.trained, strict=True)
    return sum(value for value, trained in pairs if trained) / sum(episode.trained)


def run(
    task: str,
    variant: str,
    seed: int,
    *,
    steps: int,
    groups: int,
    size: int,
    oracle: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train one table; return its measurements.

    Args:
        task: a key of TASKS.
        variant: a key of VARIANTS.
        seed: seed of the run.
        steps: number of updates.
        groups: number of groups per step.
        size: number of episodes per group.
        oracle: oracle for training; None: the oracle of the task, which also measures.

    Returns:
        {"starts": label of the training's initial states, "curve": measurements on them, "unseen":
        the last measurement on unseen initial states, or None}.
    """
    lesson, curve = Lesson(task, variant, seed, oracle), []
    *other_starts, training_starts = lesson.starts
    for step in range(steps + 1):
        if step % EVERY == 0:
            curve.append({"games": step * groups * size, **lesson.measure(training_starts)})
        if step < steps:
            lesson.step(step, groups, size)
    unseen = other_starts[0] if other_starts and other_starts[0].label == "unseen" else None
    unseen_figures = None if unseen is None else lesson.measure(unseen)
    return {"starts": training_starts.label, "curve": curve, "unseen": unseen_figures}


def bound(slot: str, section: Mapping[str, Any]) -> BoundPlugin:
    """Return the plug-in that a section names, with its options."""
    options = {key: value for key, value in section.items() if key != "name"}
    return registry.bind(slot, section["name"], options)


if __name__ == "__main__":
    write_bytes_atomic(Path(sys.argv[2]), json.dumps(run(**json.loads(sys.argv[1]))).encode())
