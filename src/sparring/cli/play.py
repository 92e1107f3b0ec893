"""sparring play"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sparring.cli.text import ENVIRONMENT, say, shown
from sparring.environments.catalogue import configured_game
from sparring.environments.openspiel.base import Game
from sparring.environments.openspiel.people import for_people, rules_of, wrapped
from sparring.errors import ConfigError, UnknownNameError
from sparring.experiments.load import load_run
from sparring.players.human import human
from sparring.refs import PUBLISHED
from sparring.report.open_play import is_open, said_lines
from sparring.report.played import ending, moves, verdict
from sparring.rng import Stream
from sparring.rollout.spec import EpisodeSpec
from sparring.rollout.team import play_teams

YOU = "you"
SEEDS = 1_000_000  # a seed that is drawn is below this


def play(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    game: Annotated[
        str | None, typer.Option(*ENVIRONMENT, help="One of the run's; default the first.")
    ] = None,
    seat: Annotated[int, typer.Option(min=0, help="Your seat, from 0.")] = 0,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the first deal; default a fresh one.")
    ] = None,
    checkpoint: Annotated[
        int | None, typer.Option(help="Step of the checkpoint; default the newest.")
    ] = None,
) -> None:
    """Play against a run's policy in the terminal: ? shows the rules, q or Ctrl-D leaves."""
    config, engine, step = load_run(run, checkpoint)
    names = [entry.known_as for entry in config.environments]
    if game is not None and game not in names:
        raise UnknownNameError("game of this run", game, names)
    entry = config.environments[names.index(game or names[0])]
    # a reply that is no legal action is asked for again a few times, so that the play goes on
    rules = configured_game(entry.model_copy(update={"illegal": {"rule": "retry", "retries": 5}}))
    if seat >= rules.num_seats:
        raise ConfigError(f"--seat {seat}: {rules.name} has seats 0 to {rules.num_seats - 1}.")
    alone = rules.num_seats == 1
    say(f"{rules.name}, {'alone' if alone else f'against the policy of {run}, step {step}'}.")
    if is_open(rules):
        say("? shows what was said, q or Ctrl-D leaves.")
    else:
        say(f"? shows the rules, q or Ctrl-D leaves.\n\n{wrapped(rules_of(for_people(rules)))}")
    number = secrets.randbelow(SEEDS) if seed is None else seed
    while True:
        try:
            _one(rules, engine.agent(PUBLISHED), seat, number)
            answer = _ask(
                "\nAgain? [Y/n] " if alone else "\nAgain? [Y/n, s: from the next seat] "
            ).strip()
        except EOFError:
            print("\nYou left the game.")
            return
        if answer[:1].lower() in ("n", "q"):
            return
        seat = (seat + 1) % rules.num_seats if answer[:1].lower() == "s" else seat
        number += 1


def _one(rules: Game, policy: Any, seat: int, seed: int) -> None:
    """Play once and tell how it went.

    Raises:
        EOFError: the person leaves.
    """
    stream = Stream.from_seed(seed).child("terminal")
    seats = tuple(YOU if index == seat else PUBLISHED for index in range(rules.num_seats))
    spec = EpisodeSpec(
        game=rules,
        episode_id=0,
        group_id=0,
        deal=stream.child("deal"),
        stream=stream,
        seats=seats,
        trained=(False,) * rules.num_seats,
    )
    say(f"\n--- You are {rules.roles[seat]}. The deal is --seed {seed}.\n")
    (episode,) = play_teams([spec], {YOU: human(ask=_ask), str(PUBLISHED): policy}, retries=0)
    last = "" if is_open(rules) else ending(rules, episode, seat)
    say(f"\n--- The end.\n\n{wrapped(last)}" if last else "\n--- The end.")
    say(f"\n{verdict(rules, episode.returns, seat)}")
    alone = rules.num_seats == 1
    called = {YOU: "you", str(PUBLISHED): "policy"}
    if is_open(rules):
        say("\n".join(["What was said:", *said_lines(episode, called)]))
        return
    say("Moves:" if alone else "Moves, with how probable the policy held its legal actions:")
    for line in moves(rules, episode, policy, name=str(PUBLISHED), names=called):
        say(line)


def _ask(text: str) -> str:
    """Show a text and return the line typed after its last line."""
    above, _, prompt = text.rpartition("\n")
    say(above)
    typed = input(shown(prompt))
    if not sys.stdin.isatty():
        say(typed)  # a terminal shows what is typed; a pipe does not
    return typed
