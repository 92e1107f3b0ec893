"""sparring show"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sparring.cli.text import say, say_rows
from sparring.environments.drawing.canvas import Theme
from sparring.errors import ConfigError, SparringError, UnknownNameError
from sparring.report.episode_record import StoredEpisodes, episode_record, finite
from sparring.report.episode_text import (
    endings_lines,
    episode_lines,
    listing_rows,
    token_decoder,
)
from sparring.report.timeline import of_episode, summary, timeline_lines, timeline_svg
from sparring.rollout.endings import Conversation, conversations
from sparring.rollout.pictures import environment_of, picture, sentences
from sparring.system.files import write_bytes_atomic
from sparring.types import Episode


def show(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    step: Annotated[int | None, typer.Option(help="A stored step; default the newest.")] = None,
    episode: Annotated[
        int | None, typer.Option(help="Its number; default the step's first.")
    ] = None,
    every: Annotated[bool, typer.Option("--list", help="List the episodes of the step.")] = False,
    ids: Annotated[
        bool, typer.Option("--ids", help="Tokens as ids, without loading the model's tokenizer.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="The record as one JSON document.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(help="Write a picture of a position to this file instead.")
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(help="The picture is of the position before this turn, from 0; else the end."),
    ] = None,
    seat: Annotated[
        str | None,
        typer.Option(help="A role: the picture is as it sees it; else nothing is hidden."),
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="The picture is for a dark page.")] = False,
    timeline: Annotated[
        bool,
        typer.Option("--timeline", help="Who acted when and waited for whom; also with --svg."),
    ] = False,
    played: Annotated[
        bool, typer.Option("--played", help="A play of a person; --step is its number.")
    ] = False,
    league: Annotated[
        bool,
        typer.Option(
            "--league", help="How players did against each other, in place of an episode."
        ),
    ] = False,
) -> None:
    """Show a stored episode: what each seat was told and said, legal actions, tokens, credit."""
    if svg is None and (turn is not None or seat is not None or dark):
        raise ConfigError("--turn, --seat and --dark say which picture: write --svg FILE too.")
    if timeline and (turn is not None or seat is not None or dark or as_json):
        raise ConfigError(
            "--timeline is of the whole play and hides nothing: leave --turn, --seat, --dark and "
            "--json out."
        )
    if league:
        from sparring.cli.show_league import show_league  # slow to load, for what else is shown

        show_league(run, step, as_json)
        return
    stored = StoredEpisodes(run, played)
    number = stored.step(step)
    if every:
        say_rows(listing_rows(stored.episodes(number)))
        return
    found = stored.episode(number, episode)
    credit = stored.credit(number, found)
    if as_json:
        record = episode_record(number, found, credit)
        print(json.dumps(finite(record), allow_nan=False))
        return
    if timeline:
        _tell_timeline(found, svg)
        return
    if svg is not None:
        _write_picture(found, svg, turn, seat, "dark" if dark else "light")
        return
    positions, ended = _positions(found), _conversations(found)
    decode, trouble = (None, "") if ids else token_decoder(run)
    if trouble:
        say(f"{trouble}\n")
    for line in episode_lines(number, found, credit, decode, positions, ended):
        say(line)
    say(f"\nStored steps: {_several(stored.steps)}. Others of this step: --list, then --episode N.")


def _write_picture(
    episode: Episode, path: Path, turn: int | None, seat: str | None, theme: Theme
) -> None:
    """Write the picture of a position to a file, and say it in words."""
    if seat is not None and seat not in episode.roles:
        raise UnknownNameError("role", seat, episode.roles)
    at = len(episode.turns) if turn is None else turn
    looks = None if seat is None else episode.roles.index(seat)
    drawn = picture(episode, at, looks, theme)
    write_bytes_atomic(path, drawn.svg.encode())
    say(f"Wrote {path}: {drawn.said}")


def _tell_timeline(episode: Episode, path: Path | None) -> None:
    """Print who acted when, or write it to a file as a picture."""
    drawn = of_episode(episode)
    if path is None:
        for line in (*timeline_lines(drawn), *endings_lines(episode, _conversations(episode))):
            say(line)
        return
    write_bytes_atomic(path, timeline_svg(drawn, standalone=True).encode())
    say(f"Wrote {path}: {summary(drawn)}")


def _positions(episode: Episode) -> list[str]:
    """Return the position before each turn, and at the end, in words; none where it is not known.

    Then a line says why.
    """
    try:
        return list(sentences(episode))
    except SparringError as error:
        say(f"Positions are left out: {error}\n")
        return []


def _conversations(episode: Episode) -> list[Conversation]:
    """Return how the conversations of an episode have ended; none where it is not known."""
    try:
        return conversations(environment_of(episode), episode)
    except SparringError:
        return []


def _several(steps: list[int]) -> str:
    """Return steps in words, the middle of many left out."""
    if len(steps) <= 8:
        return ", ".join(map(str, steps))
    return f"{', '.join(map(str, steps[:3]))} ... {', '.join(map(str, steps[-3:]))}"
