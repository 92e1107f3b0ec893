"""Matches between policies of several runs in a game of two teams, with each policy as both teams.

A policy may need additions to the game: candidates to choose from (the wrapper ``choose``), or
deductions (the option ``deduce`` of ``werewolf``). In a match, the roles of each team have the
additions that their player needs.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparring.api.load import load_run
from sparring.config import RunConfig
from sparring.core.errors import ConfigError, quoted
from sparring.core.files import write_bytes_atomic
from sparring.core.records import PUBLISHED, Turn
from sparring.core.rng import Stream
from sparring.environments.base import Environment, teams_of
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import parse_agent
from sparring.measure.matches import illegal_replies, outcome
from sparring.methods.knowledge.statements import pattern
from sparring.play.players.base import Agent
from sparring.play.rollout import within_context
from sparring.play.spec import untrained_spec
from sparring.play.team import play_teams
from sparring.run.league_step import START

CHOOSE, DEDUCTION_OPTIONS = "choose", ("deduce", "deducers", "malformed")
FIRST, SECOND = "first", "second"  # the two players, in a match's records


class Needs(NamedTuple):
    """The additions to the game that a policy needs.

    Args:
        candidates: the options of ``choose``; None if the policy writes its own actions.
        deduces: whether its roles deduce.
        strict: whether a malformed deduction was an illegal reply in training.
    """

    candidates: Mapping[str, Any] | None = None
    deduces: bool = False
    strict: bool = False


class SpeechCounts(NamedTuple):
    """The variety of a player's texts, with names of players masked.

    Args:
        texts: replies where any text was legal.
        distinct: number of different patterns among them.
        commonest: number of texts with the commonest pattern.
    """

    texts: int
    distinct: int
    commonest: int


class Match(NamedTuple):
    """The result of a match.

    Args:
        won: the share of games that the first team wins; a game without a winner counts half.
        legal: the share of each player's replies that were legal.
        speeches: counts of the texts of each player.
    """

    won: float
    legal: list[float]
    speeches: list[SpeechCounts]


class Base(NamedTuple):
    """The base game, as in the environments section of a configuration."""

    name: str
    options: Mapping[str, Any]
    illegal: Mapping[str, Any]


def read_needs(config: RunConfig) -> tuple[Base, Needs]:
    """Return the base game of a run's first environment, and the needs of its policy."""
    section = config.environments[0]
    base_game: dict[str, Any] = {"name": section.name, "options": section.options}
    candidates = None
    if section.name == CHOOSE:
        choose_environment: Any = make_game(CHOOSE, options=section.options)
        base_game = choose_environment.inner.made_by
        candidates = {
            key: option_value
            for key, option_value in section.options.items()
            if key != "environment"
        }
    options = base_game["options"]
    base_options = {key: value for key, value in options.items() if key not in DEDUCTION_OPTIONS}
    strict = options.get("malformed") == "illegal"
    needs = Needs(candidates, bool(options.get("deduce")), strict)
    return Base(base_game["name"], base_options, section.illegal), needs


def game_for(base: Base, needs: Sequence[Needs]) -> Environment:
    """Return the game with the additions that each team's player needs.

    Args:
        base: the base game.
        needs: needs of the player of each team.

    Raises:
        ConfigError: the players choose among different kinds of candidates.
    """
    plain_game = make_game(base.name, options=base.options)
    teams = teams_of(plain_game)

    def roles(chosen: Sequence[bool]) -> list[str]:
        return [role for role, team in zip(plain_game.roles, teams, strict=True) if chosen[team]]

    options = dict(base.options)
    deducers = roles([need.deduces for need in needs])
    if deducers:
        strict = any(need.strict for need in needs)
        malformed = {"malformed": "illegal"} if strict else {}
        options |= {"deduce": True, "deducers": deducers, **malformed}
    candidate_options = [need.candidates for need in needs if need.candidates is not None]
    if not candidate_options:
        return make_game(base.name, options=options, illegal=base.illegal)
    if any(kind != candidate_options[0] for kind in candidate_options):
        raise ConfigError(
            f"cross play: one player chooses by {quoted(candidate_options[0])}, the other by "
            f"{quoted(candidate_options[1])}; a game has candidates of one kind."
        )
    choosers = roles([need.candidates is not None for need in needs])
    choose_options = {
        "environment": {"name": base.name, "options": options},
        **candidate_options[0],
    }
    return make_game(CHOOSE, options={**choose_options, "choosers": choosers}, illegal=base.illegal)


def play_match(game: Environment, players: Sequence[Agent], *, games: int, stream: Stream) -> Match:
    """Play games of two players and return the result.

    Matches with the same stream have the same deals if their games draw in the same way.

    Args:
        game: a game of two teams.
        players: the player of each team.
        games: number of games.
        stream: stream of all random draws.
    """
    teams = teams_of(game)
    names = [(FIRST, SECOND)[team] for team in teams]
    specs = [untrained_spec(game, index, names, stream.child(index)) for index in range(games)]
    episodes = within_context(play_teams(specs, dict(zip((FIRST, SECOND), players, strict=True))))
    outcomes = [outcome(episode.returns, names.index(FIRST), teams) for episode in episodes]
    legal, speeches = [], []
    for name in (FIRST, SECOND):
        own_turns = [turn for play in episodes for turn in play.turns if names[turn.seat] == name]
        illegal, replies = illegal_replies(own_turns)
        legal.append(1.0 - illegal / max(replies, 1))
        speeches.append(_count_speeches(own_turns, tuple(getattr(game, "player_names", ()))))
    return Match((1.0 + sum(outcomes) / max(len(outcomes), 1)) / 2, legal, speeches)


def _count_speeches(turns: Sequence[Turn], player_names: tuple[str, ...]) -> SpeechCounts:
    """Count a player's different texts."""
    texts = [turn.action for turn in turns if not turn.legal_actions and turn.event == "ok"]
    counts = Counter(pattern(text, player_names) for text in texts if text is not None)
    return SpeechCounts(counts.total(), len(counts), max(counts.values(), default=0))


def play_matrix(
    runs: Mapping[str, Path],
    bots: Mapping[str, str],
    pairs: Sequence[tuple[str, str]],
    *,
    games: int,
    seed: int,
    starts: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return the result of each pair: "first", "second" and the fields of ``Match``.

    Args:
        runs: folder of each run, by name of its player.
        bots: text of each bot as on the command line, by name.
        pairs: names of the players of the first and of the second team.
        games: number of games of each pair.
        seed: seed of all random draws.
        starts: run of each player that has the weights after the warm-up of a run, by name of the
            player; these weights are a member of the run's league (``league.start``).

    Raises:
        ConfigError: the runs have different games or different kinds of candidates.
        UnknownNameError: a run has not stored its weights after the warm-up.
        RunError: a run does not exist or has no checkpoint.
    """
    agents: dict[str, Agent] = {name: parse_agent(text).make() for name, text in bots.items()}
    needs = dict.fromkeys(bots, Needs())
    bases: dict[str, Base] = {}
    for name, folder in runs.items():
        config, engine, _ = load_run(folder, threads=1)
        bases[name], needs[name] = read_needs(config)
        agents[name] = engine.agent(PUBLISHED)
        for start, run_name in (starts or {}).items():
            if run_name == name:
                agents[start], needs[start] = engine.agent(START), needs[name]
    base = next(iter(bases.values()))
    for name, other in bases.items():
        if other != base:
            raise ConfigError(
                f"cross play: {name} was trained in {quoted(other.options)} of {other.name}, and "
                f"{next(iter(bases))} in {quoted(base.options)} of {base.name}; name runs of one "
                "game."
            )
    rows, stream = [], Stream.from_seed(seed)
    for first, second in pairs:
        game = game_for(base, [needs[first], needs[second]])
        match = play_match(game, [agents[first], agents[second]], games=games, stream=stream)
        speeches = [speech._asdict() for speech in match.speeches]
        rows.append({"first": first, "second": second, **match._asdict(), "said": speeches})
    return rows


def pairs_of(main: Sequence[str], others: Sequence[str]) -> list[tuple[str, str]]:
    """Return all ordered pairs of main players, and all pairs of a main and another player."""
    pairs_with_others = [
        pair
        for first, second in itertools.product(others, main)
        for pair in ((first, second), (second, first))
    ]
    return [*itertools.product(main, main), *pairs_with_others]


if __name__ == "__main__":
    inputs: Mapping[str, Any] = json.loads(sys.argv[1])
    output = Path(sys.argv[2])
    matches = play_matrix(
        {name: output.parent.parent / folder for name, folder in inputs["runs"].items()},
        inputs["bots"],
        [tuple(pair) for pair in inputs["pairs"]],
        games=inputs["games"],
        seed=inputs["seed"],
        starts=inputs.get("starts"),
    )
    write_bytes_atomic(output, json.dumps(matches).encode())
