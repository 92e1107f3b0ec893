"""The optional supervised start of a run."""

from __future__ import annotations

from typing import Protocol

from sparring.config import RunConfig
from sparring.rollout.play import EpisodeSpec, RolloutCounts
from sparring.run.step import Engine
from sparring.types import Episode


class ImitatingEngine(Engine, Protocol):
    """An engine that can also imitate."""

    def imitate(self, episodes: list[Episode]) -> float:
        """Take one supervised step towards these games' moves."""
        ...


def warm_up(config: RunConfig, engine: ImitatingEngine) -> None:
    """Imitate random legal play for ``warmup.updates`` updates."""
    root = engine.root.child("warmup")
    for update in range(config.warmup.updates):
        specs = []
        for number in range(config.warmup.games):
            stream = root.child(update).child(number)
            game = engine.games[number % len(engine.games)][0]
            specs.append(
                EpisodeSpec(
                    game=game,
                    episode_id=number,
                    group_id=number,
                    deal=stream.child("deal"),
                    stream=stream.child("play"),
                    seats=("demonstrator",) * game.num_seats,
                    trained=(True,) * game.num_seats,
                )
            )
        engine.imitate(engine.play(specs, RolloutCounts()))
