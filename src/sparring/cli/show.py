"""sparring show"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sparring.cli.text import say, say_rows
from sparring.core.errors import ConfigError, SparringError, UnknownNameError
from sparring.core.files import parse_json, write_bytes_atomic
from sparring.core.records import Episode
from sparring.environments.drawing.canvas import Theme
from sparring.play.episode_pictures import environment_of, picture, sentences
from sparring.play.replay import Conversation, conversations
from sparring.report.episode_record import StoredEpisodes, episode_record, json_value
from sparring.report.episode_text import endings_lines, episode_lines, listing_rows, token_decoder
from sparring.report.ratings import league_rows, standings_of
from sparring.report.timeline import summary, timeline_lines, timeline_of, timeline_svg
from sparring.run.folder import RunFolder
from sparring.run.state import RunState
from sparring.view import league_weights as meta
from sparring.view.league_members import ENGINE

SIDES = ("weight as first side", "weight as second side")


def show_league(run: Path, step: int | None, as_json: bool) -> None:
    """Print a checkpoint's payoff book, and the meta-solver's weights if the run has a solver.

    Args:
        run: the run folder.
        step: step of the checkpoint; None: the newest.
        as_json: whether to print one JSON document.

    Raises:
        SparringError: there is no such run or checkpoint.
    """
    folder = RunFolder.open(run)
    checkpoint = folder.checkpoint(step)
    standings = standings_of(RunState(owners=checkpoint.state).payoffs)
    weights = _solver_weights(folder.config(), checkpoint.path, checkpoint.state)
    if as_json:
        rows = [standing._asdict() for standing in standings]
        document = {
            "step": checkpoint.step,
            "standings": rows,
            **({"weights": weights} if weights else {}),
        }
        print(json.dumps(json_value(document), allow_nan=False))
        return
    if not standings:
        say(f"No episodes count yet at step {checkpoint.step}.")
    else:
        say(f"Results of training episodes up to step {checkpoint.step}:\n")
        say_rows(league_rows(standings))
    if weights:
        say(f"\nWeights by {weights['solver']} ({weights['source']}):\n")
        say_rows(_weight_rows(weights["members"]))
        if weights["why"]:
            say(f"\nNo weights: {weights['why']}.")


def _solver_weights(
    config: Mapping[str, Any], checkpoint: Path, state: Mapping[str, Any]
) -> dict[str, Any] | None:
    solver = meta.solver_of(config)
    if solver is None:
        return None
    league = meta.league_of(parse_json((checkpoint / ENGINE).read_bytes()), state)
    labels = meta.labels_of(meta.environments_of(config), solver)
    solution = meta.solve_league(league, solver.config, labels, meta.has_separate_sides(config))
    source_fields = {"solver": meta.text_of(solver.config), "source": solver.source}
    return {**source_fields, "why": solution["why"], "members": solution["members"]}


def _weight_rows(members: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    has_sides = any("sides" in member for member in members)
    header = ("member", *(SIDES if has_sides else ("weight",)))
    weights = [member["sides"] if has_sides else [member["weight"]] for member in members]
    texts = [["-" if weight is None else f"{weight:.3f}" for weight in row] for row in weights]
    return [
        header,
        *((str(member["name"]), *row) for member, row in zip(members, texts, strict=True)),
    ]


def show(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    step: Annotated[int | None, typer.Option(help="A stored step; default: the newest.")] = None,
    episode: Annotated[
        int | None, typer.Option(help="Number of the episode; default: the step's first.")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the step's episodes.")] = False,
    ids: Annotated[
        bool, typer.Option("--ids", help="Print token ids, without loading the model's tokenizer.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as one JSON document.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(help="Write a picture of a position to this file instead.")
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(help="Draw the position before this turn, from 0; default: the last one."),
    ] = None,
    seat: Annotated[
        str | None,
        typer.Option(help="Draw the position as this role sees it; default: nothing is hidden."),
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Draw for a dark page.")] = False,
    timeline: Annotated[
        bool,
        typer.Option("--timeline", help="Show when each seat acted or waited; also with --svg."),
    ] = False,
    played: Annotated[
        bool,
        typer.Option(
            "--played", help="Show an episode that a person played; --step is its number."
        ),
    ] = False,
    league: Annotated[
        bool, typer.Option("--league", help="Print results between players instead of an episode.")
    ] = False,
) -> None:
    """Show a stored episode: prompts and replies of each seat, legal actions, tokens, credit."""
    if svg is None and (turn is not None or seat is not None or dark):
        raise ConfigError("--turn, --seat and --dark need --svg; write --svg FILE too.")
    if timeline and (turn is not None or seat is not None or dark or as_json):
        raise ConfigError(
            "--timeline shows the whole episode: leave --turn, --seat, --dark and --json out."
        )
    if league:
        show_league(run, step, as_json)
        return
    store = StoredEpisodes(run, played)
    stored_step = store.step(step)
    if list_all:
        say_rows(listing_rows(store.episodes(stored_step)))
        return
    stored_episode = store.episode(stored_step, episode)
    credit = store.credit(stored_step, stored_episode)
    if as_json:
        document = episode_record(stored_step, stored_episode, credit)
        print(json.dumps(json_value(document), allow_nan=False))
        return
    if timeline:
        _print_timeline(stored_episode, svg)
        return
    if svg is not None:
        _write_picture(stored_episode, svg, turn, seat, "dark" if dark else "light")
        return
    positions, conversation_ends = _position_texts(stored_episode), _conversations(stored_episode)
    decode, decoder_error = (None, "") if ids else token_decoder(run)
    if decoder_error:
        say(f"{decoder_error}\n")
    for line in episode_lines(
        stored_step, stored_episode, credit, decode, positions, conversation_ends
    ):
        say(line)
    say(f"\nStored steps: {_shorten(store.steps)}. Other episodes: --list, then --episode N.")


def _write_picture(
    episode: Episode, path: Path, turn: int | None, seat: str | None, theme: Theme
) -> None:
    if seat is not None and seat not in episode.roles:
        raise UnknownNameError("role", seat, episode.roles)
    position = len(episode.turns) if turn is None else turn
    viewer = None if seat is None else episode.roles.index(seat)
    image = picture(episode, position, viewer, theme)
    write_bytes_atomic(path, image.svg.encode())
    say(f"Wrote {path}: {image.description}")


def _print_timeline(episode: Episode, path: Path | None) -> None:
    chart = timeline_of(episode)
    if path is None:
        for line in (*timeline_lines(chart), *endings_lines(episode, _conversations(episode))):
            say(line)
        return
    write_bytes_atomic(path, timeline_svg(chart, standalone=True).encode())
    say(f"Wrote {path}: {summary(chart)}")


def _position_texts(episode: Episode) -> list[str]:
    """Return each position in words; if that fails, print the reason and return []."""
    try:
        return list(sentences(episode))
    except SparringError as error:
        say(f"Positions are left out: {error}\n")
        return []


def _conversations(episode: Episode) -> list[Conversation]:
    try:
        return conversations(environment_of(episode), episode)
    except SparringError:
        return []


def _shorten(steps: list[int]) -> str:
    if len(steps) <= 8:
        return ", ".join(map(str, steps))
    return f"{', '.join(map(str, steps[:3]))} ... {', '.join(map(str, steps[-3:]))}"
