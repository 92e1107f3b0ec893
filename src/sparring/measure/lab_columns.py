"""What the credit lab makes for those estimators alone that ask for it.

Values by playing on, and a reward in place of the game's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sparring.environments.openspiel.base import Game
from sparring.measure.lab_episodes import LabEpisodes
from sparring.measure.table_policy import TableAgent, TablePolicy
from sparring.registry import Bound
from sparring.rewards.base import apply_rewards
from sparring.rewards.components import WeightedReward
from sparring.rng import Stream
from sparring.rollout.asking import answered
from sparring.rollout.play import rollout
from sparring.rollout.playouts import with_playouts
from sparring.rollout.table import ordered_turns, turn_table
from sparring.schedule import parse
from sparring.types import Episode


def continued(
    played: LabEpisodes,
    episodes: Sequence[Episode],
    game: Game,
    policy: TablePolicy,
    *,
    count: int,
    stream: Stream,
) -> LabEpisodes:
    """Return the episodes with the columns ``playout`` and ``playout_before``.

    Their values are of histories: whoever plays on knows all that was dealt. Given what a seat
    knows, their expectations before and after its turn are V and Q of its information state, so
    that the exact gradient is the truth for them too.

    Args:
        played: what the columns are added to.
        episodes: its episodes.
        game: theirs.
        policy: plays on in every seat.
        count: games that are played from each position.
        stream: of these games.
    """
    agent = TableAgent(policy)
    after, before = [], []
    for begin in range(0, len(episodes), played.batch_size):
        own = episodes[begin : begin + played.batch_size]
        asked = with_playouts(
            own, {game.name: game}, count=count, stream=stream.child(begin), before=True
        )
        valued, _ = answered(asked, lambda specs: rollout(specs, {agent.name: agent}))
        for _, turn in ordered_turns(valued):
            after.append(turn.playout)
            before.append(turn.playout_before)
    turns = replace(
        played.turns,
        playout=np.array(after, dtype=np.float64),
        playout_before=np.array(before, dtype=np.float64),
    )
    return replace(played, turns=turns)


def paid_by(
    played: LabEpisodes, episodes: Sequence[Episode], game: Game, reward: Bound
) -> LabEpisodes:
    """Return the episodes with what a reward pays in place of what the game pays.

    Columns of values stay those of the game's return.
    """
    paid, _ = apply_rewards(
        episodes,
        [WeightedReward(bound=reward, weight=parse(1.0))],
        1.0,
        gaps={},
        games={game.name: game},
        outcome_weight=0.0,
        reorder_outcomes=True,
    )
    turns = turn_table(paid)
    changed = replace(played.turns, reward=turns.reward, components=turns.components)
    return replace(played, turns=changed)
