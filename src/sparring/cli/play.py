"""sparring play"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from sparring.api.human_play import PERSON_NAME, InteractiveSession, Lobby, random_seed
from sparring.cli.text import ENVIRONMENT, escape_controls, say
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.environments.base import Environment
from sparring.environments.foreign import reason_not_searchable
from sparring.environments.openspiel.people import for_people, rules_of, wrap_lines
from sparring.measure.info_states import ActionScorer
from sparring.play.players.human import human
from sparring.report.episode_summary import (
    ending_text,
    member_line,
    move_lines,
    reply_lines,
    result_text,
)


def play(
    run: Annotated[
        Path | None, typer.Argument(help="Run folder; without it, play against a bot.")
    ] = None,
    game: Annotated[
        str | None, typer.Option(*ENVIRONMENT, help="An environment of the run; default the first.")
    ] = None,
    seat: Annotated[int, typer.Option(min=0, help="Your seat, from 0.")] = 0,
    against: Annotated[
        str | None,
        typer.Option(
            help="A checkpoint's step, a player of the run, or a bot such as 'mcts "
            "simulations=100'; default the run's policy."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the first deal; default a random one.")
    ] = None,
    checkpoint: Annotated[
        int | None, typer.Option(help="Step of the checkpoint; default the newest.")
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            help="Which policy of the run to play against: policy, last, or a mixture of its "
            "snapshots, e.g. by the meta-solver nash; default: the run's league.answer."
        ),
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Play on a page in the browser.")] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the page; default 7460, or a free port."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Play against a policy or a bot in the terminal: ? shows the rules, Ctrl-D leaves."""
    if run is not None and not run.exists() and str(run) in registry.names("environments"):
        raise ConfigError(
            f"{run} is an environment, not a run folder. To play it against a bot: sparring play "
            f"--environment {run}."
        )
    if run is None and checkpoint is not None:
        raise ConfigError(f"--checkpoint {checkpoint}: only a run has checkpoints; name a run.")
    _refuse_wrong_answer_option(run, against, answer)
    lobby = Lobby(run, checkpoint, [against] if against else [], answer)
    environment = lobby.game(game)
    if seat >= environment.num_seats:
        raise ConfigError(
            f"--seat {seat}: {environment.name} has seats 0 to {environment.num_seats - 1}."
        )
    if web:
        choices = {"environment": environment.name, "seat": seat, "against": against, "seed": seed}
        _serve_page(run, choices, port, browser, checkpoint, answer)
        return
    opponent = lobby.opponent(environment, against)
    opponent_text = "alone" if opponent is None else f"against {opponent.label}"
    if opponent is not None and run is not None:
        opponent_text += f", of {run}"
    say(f"{environment.name}, {opponent_text}.")
    if reason_not_searchable(environment):
        say("? shows the replies, q or Ctrl-D leaves.")
    else:
        rules = wrap_lines(rules_of(for_people(environment)))
        say(f"? shows the rules, q or Ctrl-D leaves.\n\n{rules}")
    deal_seed = random_seed() if seed is None else seed
    while True:
        try:
            say(f"\n--- You are {environment.roles[seat]}. The deal is --seed {deal_seed}.\n")
            with closing(InteractiveSession(environment, seat, opponent, deal_seed)) as session:
                _play_episode(environment, session)
            choice = _ask_again(alone=opponent is None)
        except EOFError:
            print("\nYou left the game.")
            return
        if choice == "n":
            return
        seat = (seat + 1) % environment.num_seats if choice == "s" else seat
        deal_seed += 1


def _ask_again(*, alone: bool) -> str:
    question = "\nAgain? [Y/n] " if alone else "\nAgain? [Y/n, s: change the seat] "
    choices = {"": "y", "y": "y", "yes": "y", "n": "n", "no": "n", "q": "n", "quit": "n"}
    choices |= {} if alone else {"s": "s"}
    while (answer := _ask(question).strip().lower()) not in choices:
        say("Write y or n." if alone else "Write y, n or s.")
    return choices[answer]


def _refuse_wrong_answer_option(run: Path | None, against: str | None, answer: str | None) -> None:
    if answer and run is None:
        raise ConfigError(f"--answer {answer} needs a run folder; name a run.")
    if answer and against:
        raise ConfigError(
            f"--answer {answer} and --against {against} both name an opponent; leave one out."
        )


def _serve_page(
    run: Path | None,
    choices: Mapping[str, Any],
    port: int | None,
    browser: bool,
    checkpoint: int | None,
    answer: str | None,
) -> None:
    from sparring.view.serve import serve

    parameters = {"view": "play", "run": None if run is None else 0, **choices, "begin": 1}
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    trusted = [choices["against"]] if choices["against"] else []
    serve(
        [] if run is None else [run],
        "127.0.0.1",
        port,
        say,
        browser=browser,
        query=f"?{query}",
        trusted=trusted,
        step=checkpoint,
        answer=answer,
    )


def _play_episode(environment: Environment, session: InteractiveSession) -> None:
    """Play one episode and print its result; EOFError means that the person leaves."""
    seat, opponent, person = session.seat, session.opponent, human(ask=_ask)
    while session.pending is not None:
        problem = session.submit_reply(person.act([session.pending])[0].text)
        if problem:
            say(problem)
    episode = session.episode
    assert episode is not None, "the episode is over"
    ending = "" if reason_not_searchable(environment) else ending_text(environment, episode, seat)
    say(f"\n--- The end.\n\n{wrap_lines(ending)}" if ending else "\n--- The end.")
    say(f"\n{result_text(environment, episode.returns, seat)}")
    if session.drawn_members:
        say(f"{member_line(session.drawn_members)}.")
    display_names = {PERSON_NAME: "you"}
    if opponent is not None:
        display_names[opponent.name] = opponent.label.partition(",")[0]
    if reason_not_searchable(environment):
        say("\n".join(["Replies:", *reply_lines(episode, display_names)]))
        return
    name, agent = ("", None) if opponent is None else (opponent.name, opponent.agent)
    suffix = ", with the policy's probabilities" if isinstance(agent, ActionScorer) else ""
    say(f"Moves{suffix}:")
    for line in move_lines(environment, episode, agent, name=name, display_names=display_names):
        say(line)


def _ask(text: str) -> str:
    question, _, prompt = text.rpartition("\n")
    say(question)
    line = input(escape_controls(prompt))
    if not sys.stdin.isatty():
        say(line)  # a terminal echoes input; a pipe does not
    return line
