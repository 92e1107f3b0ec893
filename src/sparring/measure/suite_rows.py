"""Plays the games of a suite's row in pieces, and adds them up.

Pieces can be made anywhere, in any order.

A piece is some games from one seat. Every game has streams of its own, derived from (seed, row's
name, seat, number), and pieces are cut alike whoever plays them, so the sum is the same for any
number of processes and after any interruption.

A tally counts what happened: ``{"returns": {"-1.0": 12, ...}, "wins": 3, "draws": 4, "losses": 5,
"illegal": 0, "replies": 40}``, game by game ``"replied": [[illegal replies, replies, number of such
games], ...]``, and with an oracle what it said of the turns, ``"judged": {"turns": 40, ...}``, see
``JudgedTurns.as_data``. Files of before have no ``replied``; their share of illegal replies keeps
the interval of independent replies.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from sparring.environments.base import teams_of
from sparring.environments.openspiel.base import Game
from sparring.measure.matches import (
    AGENT,
    OPPONENT,
    match_spec,
)
from sparring.measure.regret import Judge, judged_turns
from sparring.measure.starts import Label, Met, Starts, columns, every
from sparring.measure.suite import Suite, SuiteRow
from sparring.measure.suite_figures import Tally, tally
from sparring.oracles.base import Oracle
from sparring.players.base import Agent
from sparring.rng import Stream
from sparring.rollout.spec import EpisodeSpec
from sparring.rollout.team import play_teams

PIECE = 50
"""Games in a piece.

It is part of what a figure depends on, as games of one piece are sampled in one batch.
"""


class Piece(NamedTuple):
    """Games number ``begin`` to ``begin + games - 1`` of a row with the agent in ``seat``.

    An exact row is one piece without games.
    """

    row: int  # place of the row in its suite
    seat: int
    begin: int
    games: int

    @property
    def key(self) -> str:
        """Name of the piece within its row."""
        return f"{self.seat}:{self.begin}:{self.games}"


def starts_of(row: SuiteRow, game: Game, met: Met) -> Starts | None:
    """Return the starts that a row is played from by who was trained on these.

    None for seen ones where there are none apart.
    """
    found = columns(game, met)
    if row.starts == "unseen" or row.kind == "exact":
        return found[0]
    return next((starts for starts in found if starts.label == "seen"), None)


def with_seen(suite: Suite, met: Met) -> tuple[Suite, list[Label]]:
    """Return the suite with a row of seen starts after each that has them.

    These rows are outside the totals; what each row's starts are is returned too.
    """
    rows: list[SuiteRow] = []
    labels: list[Label] = []
    for row in suite.rows:
        found = (every(row.make_game()),) if row.kind == "exact" else columns(row.make_game(), met)
        for starts in found:
            seen = {"name": f"{row.name}-seen", "starts": "seen", "in_totals": False}
            rows.append(row.model_copy(update=seen) if starts.label == "seen" else row)
            labels.append(starts.label)
    return suite.model_copy(update={"rows": rows}), labels


def pieces_of(place: int, row: SuiteRow, game: Game) -> list[Piece]:
    """Return the pieces that make up row number ``place``."""
    if row.kind == "exact":
        return [Piece(place, 0, 0, 0)]
    seats = game.num_seats if row.kind == "match" else 1
    begins = range(0, row.games_per_seat, PIECE)
    return [
        Piece(place, seat, begin, min(PIECE, row.games_per_seat - begin))
        for seat in range(seats)
        for begin in begins
    ]


def play_piece(
    piece: Piece,
    row: SuiteRow,
    game: Game,
    agent: Agent,
    opponent: Agent | None,
    seed: int,
    oracle: Oracle | None = None,
    starts: Starts | None = None,
) -> Tally:
    """Play a piece of a row and return its tally.

    The oracle, if there is one, judges every turn of the agent.

    ``starts`` are what it is played from; None: those of the game.

    Raises:
        GameError: an agent cannot play the game.
        OracleError: the oracle refuses a state.
        ModelError: a conversation outgrows the model.
        RolloutError: an endpoint failed or its budget is spent, or every game failed.
    """
    stream = Stream.from_seed(seed).child("suite").child(row.name)
    starts = starts or every(game)
    specs = [
        match_spec(starts, piece.seat, number, row.games_per_seat, stream)
        for number in range(piece.begin, piece.begin + piece.games)
    ]
    if row.kind != "match":
        specs = [_together(spec) for spec in specs]
    agents = {AGENT: agent} if opponent is None else {AGENT: agent, OPPONENT: opponent}
    episodes = play_teams(specs, agents)
    counts = tally(episodes, teams_of(game))
    if oracle is None:
        return counts
    return {
        **counts,
        "judged": judged_turns(
            starts.game, episodes, AGENT, Judge(oracle=oracle, budget=None)
        ).as_data(),
    }


def _together(spec: EpisodeSpec) -> EpisodeSpec:
    """Return the same game with the agent in every seat."""
    return dataclasses.replace(spec, seats=(AGENT,) * len(spec.seats))
