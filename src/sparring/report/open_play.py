"""A play of an environment that is no game of rules: what was told and what was said."""

from __future__ import annotations

from typing import Any

from sparring import registry
from sparring.environments.catalogue import make_game
from sparring.environments.own import no_rules
from sparring.players.random import random
from sparring.rng import Stream
from sparring.rollout.play import play
from sparring.rollout.spec import EpisodeSpec
from sparring.types import Episode, Turn

SEED = 0  # of the sample play
TURNS = 6  # a longer play is shown up to the last but one of these, and its last turn


def for_reading(name: str) -> Any:
    """Return an environment by name, in sentences where it has a style for them."""
    styled = registry.known("environments", name) and "style" in (
        registry.load("environments", name).options
    )
    return make_game(name, options={"style": "full"} if styled else {})


def rules_lines(name: str) -> list[str]:
    """Return what each seat is told at its first turn, as lines."""
    episode, lines = _sample(for_reading(name)), list[str]()
    for seat, role in enumerate(episode.roles):
        first = next((turn for turn in episode.turns if turn.seat == seat), None)
        if first is not None:
            lines += [f"{role} is told:", "", *(f"    {line}" for line in _lines(first.told)), ""]
    return lines[:-1]


def sample_text(name: str) -> str:
    """Return a play at random with default options, always the same, with what each seat got."""
    episode = _sample(for_reading(name))
    turns = list(episode.turns)
    shown = turns if len(turns) <= TURNS else [*turns[: TURNS - 1], turns[-1]]
    lines: list[str] = []
    for number, turn in enumerate(shown):
        if number == len(shown) - 1 and len(turns) > len(shown):
            lines += [f"... {len(turns) - len(shown)} more turn(s) ...", ""]
        lines += [f"{episode.roles[turn.seat]}:", *(f"    {line}" for line in _lines(turn.told))]
        lines += [f"  > {turn.reply}", ""]
    return "\n".join([*lines, payoffs(episode)])


def payoffs(episode: Episode) -> str:
    """Return what each seat got, in a line."""
    got = (f"{role} {value:g}" for role, value in zip(episode.roles, episode.returns, strict=True))
    return f"Payoffs: {', '.join(got)}."


def said_lines(episode: Episode, names: dict[str, str]) -> list[str]:
    """Return a line per turn: who, and what was said.

    Args:
        episode: a finished play.
        names: what the players are called, by their names in the episode.
    """
    pairs = zip(episode.roles, episode.agents, strict=True)
    called = [f"{role} ({names.get(agent, agent)})" for role, agent in pairs]
    width = max(map(len, called))
    return [
        f"{number:>4}  {called[turn.seat]:<{width}}  {turn.reply}{_became(turn)}"
        for number, turn in enumerate(episode.decisions, start=1)
    ]


def _became(turn: Turn) -> str:
    """Return what became of a reply that was no legal action, or ""."""
    if turn.event == "ok":
        return ""
    return f"    [no legal action{f'; {turn.action} was played' if turn.action else ''}]"


def _lines(text: str) -> list[str]:
    """Return the lines of a text that hold something."""
    return [line for line in text.split("\n") if line.strip()]


def _sample(environment: Any) -> Episode:
    """Return a play at random, always the same."""
    stream, seats = Stream.from_seed(SEED), environment.num_seats
    spec = EpisodeSpec(
        game=environment,
        episode_id=0,
        group_id=0,
        deal=stream,
        stream=stream.child("sample"),
        seats=("random",) * seats,
        trained=(False,) * seats,
    )
    (episode,) = play([spec], {"random": random()}, retries=0)
    return episode


def is_open(environment: Any) -> bool:
    """Return whether an environment is told as it comes: nothing can search its rules."""
    return bool(no_rules(environment))
