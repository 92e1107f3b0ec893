"""sparring play"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from sparring.api.human_play import YOU, InteractiveSession, Lobby, random_seed
from sparring.cli.text import ENVIRONMENT, escape_controls, say
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.environments.base import Environment
from sparring.environments.foreign import reason_not_searchable
from sparring.environments.openspiel.people import for_people, rules_of, wrap_lines
from sparring.measure.info_states import ActionScorer
from sparring.play.players.human import human
from sparring.report.episode_summary import ending, member_line, moves, reply_lines, verdict


def play(
    run: Annotated[
        Path | None, typer.Argument(help="Run folder; none: any environment, against a bot.")
    ] = None,
    game: Annotated[
        str | None, typer.Option(*ENVIRONMENT, help="One of the run's; default the first.")
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
            help="Which answer of the run to play against: policy, last, or a mixture of its "
            "snapshots by a meta-solver such as nash; default: that of the run."
        ),
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Play on a page in the browser.")] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Of the page; default 7460, or a free one.")
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
    _refuse_answer(run, against, answer)
    lobby = Lobby(run, checkpoint, [against] if against else [], answer)
    rules = lobby.game(game)
    if seat >= rules.num_seats:
        raise ConfigError(f"--seat {seat}: {rules.name} has seats 0 to {rules.num_seats - 1}.")
    if web:
        choices = {"environment": rules.name, "seat": seat, "against": against, "seed": seed}
        _serve_page(run, choices, port, browser, checkpoint, answer)
        return
    opponent = lobby.opponent(rules, against)
    against_whom = "alone" if opponent is None else f"against {opponent.label}"
    if opponent is not None and run is not None:
        against_whom += f", of {run}"
    say(f"{rules.name}, {against_whom}.")
    if reason_not_searchable(rules):
        say("? shows the replies, q or Ctrl-D leaves.")
    else:
        say(f"? shows the rules, q or Ctrl-D leaves.\n\n{wrap_lines(rules_of(for_people(rules)))}")
    number = random_seed() if seed is None else seed
    while True:
        try:
            say(f"\n--- You are {rules.roles[seat]}. The deal is --seed {number}.\n")
            with closing(InteractiveSession(rules, seat, opponent, number)) as session:
                _play_episode(rules, session)
            again = _ask_again(alone=opponent is None)
        except EOFError:
            print("\nYou left the game.")
            return
        if again == "n":
            return
        seat = (seat + 1) % rules.num_seats if again == "s" else seat
        number += 1


def _ask_again(*, alone: bool) -> str:
    """Ask until the answer is valid; return "y", "n" or "s" (change the seat)."""
    question = "\nAgain? [Y/n] " if alone else "\nAgain? [Y/n, s: from the next seat] "
    words = {"": "y", "y": "y", "yes": "y", "n": "n", "no": "n", "q": "n", "quit": "n"}
    words |= {} if alone else {"s": "s"}
    while (answer := _ask(question).strip().lower()) not in words:
        say("Write y or n." if alone else "Write y, n or s.")
    return words[answer]


def _refuse_answer(run: Path | None, against: str | None, answer: str | None) -> None:
    if answer and run is None:
        raise ConfigError(f"--answer {answer}: only a run has an answer; name a run.")
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
    """Serve the page on which a person plays, until the process is interrupted."""
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


def _play_episode(rules: Environment, session: InteractiveSession) -> None:
    """Play one episode and print its result; EOFError means that the person leaves."""
    seat, opponent, person = session.seat, session.opponent, human(ask=_ask)
    while session.pending is not None:
        problem = session.say(person.act([session.pending])[0].text)
        if problem:
            say(problem)
    episode = session.episode
    assert episode is not None, "the episode is over"
    ending_text = "" if reason_not_searchable(rules) else ending(rules, episode, seat)
    say(f"\n--- The end.\n\n{wrap_lines(ending_text)}" if ending_text else "\n--- The end.")
    say(f"\n{verdict(rules, episode.returns, seat)}")
    if session.drawn_members:
        say(f"{member_line(session.drawn_members)}.")
    display_names = {YOU: "you"}
    if opponent is not None:
        display_names[opponent.name] = opponent.label.partition(",")[0]
    if reason_not_searchable(rules):
        say("\n".join(["Replies:", *reply_lines(episode, display_names)]))
        return
    name, agent = ("", None) if opponent is None else (opponent.name, opponent.agent)
    suffix = ", with the policy's probabilities" if isinstance(agent, ActionScorer) else ""
    say(f"Moves{suffix}:")
    for line in moves(rules, episode, agent, name=name, display_names=display_names):
        say(line)


def _ask(text: str) -> str:
    question, _, prompt = text.rpartition("\n")
    say(question)
    typed = input(escape_controls(prompt))
    if not sys.stdin.isatty():
        say(typed)  # a terminal echoes input; a pipe does not
    return typed
