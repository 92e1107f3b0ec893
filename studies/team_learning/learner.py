"""A table of logits that learns a small team's game from episodes, with one of several rewards.

Run as ``python -m studies.team_learning.learner INPUTS FILE``. The expected return of the table is
exact at every step.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparring.config.parts import parse_named
from sparring.core.files import parse_json
from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.credit_lab import (
    GradientLayout,
    advantage_per_turn,
    bind_estimator,
    bind_reward,
    with_reward,
)
from sparring.measure.info_states import InfoStates, enumerate_info_states, exact_values
from sparring.measure.lab_episodes import TablePolicy, lab_episodes, play_table, random_table


def curves(inputs: dict[str, Any]) -> dict[str, list[float]]:
    """Return the learning curve of each seed; see ``learn``.

    Args:
        inputs: ``environment`` as on the command line, ``seeds``, and the inputs of ``learn``.
    """
    name, options = parse_named(inputs["environment"], "Environment", "wide_search items=2")
    game = make_game(name, options=options)
    states = enumerate_info_states(game)
    return {str(seed): learn(game, states, seed, inputs) for seed in range(inputs["seeds"])}


def learn(game: Any, states: InfoStates, seed: int, inputs: dict[str, Any]) -> list[float]:
    """Return the exact expected return of seat 0 before each step, and after the last one.

    Mathematics: logits <- logits + rate * gradient of the batch, computed as in the credit lab.

    Args:
        game: the game.
        states: its information states.
        seed: seed of the initial table and of the episodes.
        inputs: ``reward`` ("" means the game's return), ``estimator``, ``steps``, ``batch`` and
            ``group`` (sizes in episodes) and ``rate``.
    """
    root = Stream.from_seed(seed).child("team learner")
    policy = random_table(states, root.child("table"))
    estimator = bind_estimator(inputs["estimator"])
    reward = bind_reward(inputs["reward"]) if inputs["reward"] else None
    sizes = {"batch_size": inputs["batch"], "group_size": inputs["group"]}
    state: Mapping[str, Any] = {}
    returns = []
    for step in range(inputs["steps"]):
        values = exact_values(states, policy.rows)
        returns.append(float(values.returns[0]))
        stream = root.child("play").child(step)
        episodes = play_table(game, policy, batches=1, stream=stream, **sizes)
        credit_episodes = lab_episodes(
            episodes, policy, values, batch_size=inputs["batch"], critic="zero", stream=stream
        )
        if reward:
            credit_episodes = with_reward(credit_episodes, episodes, game, reward)
        credit = estimator(credit_episodes.turns, state)
        state = credit.state
        layout = GradientLayout.of(credit_episodes, policy)
        gradient = layout.total(layout.gradients(advantage_per_turn(credit, credit_episodes.turns)))
        policy = stepped(policy, inputs["rate"] * gradient)
    returns.append(float(exact_values(states, policy.rows).returns[0]))
    return returns


def stepped(policy: TablePolicy, change: FloatArray) -> TablePolicy:
    """Return the table after adding a change to its logits, [D]."""
    changes = np.split(change, policy.starts[1:-1])
    weights = [
        row * np.exp(logits - logits.max())
        for row, logits in zip(policy.rows, changes, strict=True)
    ]
    tiny = np.finfo(np.float64).tiny
    return TablePolicy.of(policy.states, [np.maximum(row / row.sum(), tiny) for row in weights])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps({"returns": curves(parse_json(sys.argv[1].encode()))}))
