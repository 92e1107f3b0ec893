"""sparring play"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparring.agents.human import human
from sparring.engine.load import load_run
from sparring.engine.local import PUBLISHED
from sparring.errors import ConfigError, UnknownNameError
from sparring.games.catalogue import configured_game
from sparring.rng import Stream
from sparring.rollout.play import EpisodeSpec
from sparring.rollout.play import play as play_games


def play(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    game: Annotated[str | None, typer.Option(help="One of the run's games; default the first.")] = None,
    seat: Annotated[int, typer.Option(min=0, help="Your seat, from 0.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the deal.")] = 0,
    checkpoint: Annotated[int | None, typer.Option(help="Step of the checkpoint; default the newest.")] = None,
) -> None:
    """Play against a run's policy in the terminal. Ctrl-D leaves."""
    config, engine, _ = load_run(run, checkpoint)
    names = [entry.known_as for entry in config.games]
    if game is not None and game not in names:
        raise UnknownNameError("game of this run", game, names)
    entry = config.games[names.index(game or names[0])]
    # anyone may mistype: ask again a few times instead of ending the game
    rules = configured_game(entry.model_copy(update={"illegal": {"rule": "retry", "retries": 5}}))
    if seat >= rules.num_seats:
        raise ConfigError(f"--seat {seat}: {rules.name} has seats 0 to {rules.num_seats - 1}.")
    seats = tuple("you" if index == seat else PUBLISHED for index in range(rules.num_seats))
    stream = Stream.from_seed(seed).child("terminal")
    spec = EpisodeSpec(
        game=rules, episode_id=0, group_id=0, deal=stream.child("deal"), stream=stream, seats=seats, trained=(False,) * rules.num_seats
    )
    print(f"You are {rules.roles[seat]} in {rules.name}. Ctrl-D leaves.")
    try:
        (episode,) = play_games([spec], {"you": human(ask=input), PUBLISHED: engine.agent(PUBLISHED)}, retries=0)
    except EOFError:
        print("\nYou left the game.")
        return
    for turn in episode.turns:
        print(f"  {episode.roles[turn.seat]:>8} ({turn.agent}): {turn.action or turn.reply}")
    print("Returns: " + ", ".join(f"{role} {value:+g}" for role, value in zip(episode.roles, episode.returns, strict=True)))
