"""The optional supervised start of a run."""

from __future__ import annotations

from sparring.config import RunConfig
from sparring.engine.base import Engine
from sparring.refs import DEMONSTRATOR
from sparring.rollout.spec import EpisodeSpec


def warm_up(config: RunConfig, engine: Engine) -> None:
    """Imitate random legal play for ``warmup.updates`` updates."""
    root = engine.root.child("warmup")
    for update in range(config.warmup.updates):
        specs = []
        for number in range(config.warmup.games):
            stream = root.child(update).child(number)
            game = engine.environments[number % len(engine.environments)][0]
            specs.append(
                EpisodeSpec(
                    game=game,
                    episode_id=number,
                    group_id=number,
                    deal=stream.child("deal"),
                    stream=stream.child("play"),
                    seats=(DEMONSTRATOR,) * game.num_seats,
                    trained=(True,) * game.num_seats,
                )
            )
        engine.imitate(engine.play(specs).some().episodes)
