"""Figures of policies that split pools with themselves, with each other, and with an all-taker.

Only rounds are counted whose pool and values do not occur in training.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sparring.api.load import load_run
from sparring.core.errors import GameError
from sparring.core.files import write_bytes_atomic
from sparring.core.records import PUBLISHED
from sparring.core.rng import Stream
from sparring.environments.bargain.rules import Counts, Scenario
from sparring.environments.base import Environment, HasStarts
from sparring.environments.catalogue import another_bank
from sparring.environments.pool_split import split_payoffs
from sparring.play.players.base import Agent, TextAgent
from sparring.play.rollout import within_context
from sparring.play.spec import EpisodeSpec, untrained_spec
from sparring.play.team import play_teams

Claims = tuple[Counts, Counts]

SUM = "share of the best sum"
BOTH_ALL, BOTH_PREFERRED = (f"{SUM} if both take {what}" for what in ("all", "the preferred"))
CONFLICT = "rounds in which more is named than there is"
ALL = "claims of everything"
PREFERRED = "claims of the preferred kind alone"
AFTER_ALL, AFTER_LESS = (f"{ALL}, after the other took {what}" for what in ("all", "less"))
ITSELF, AGAINST, TAKES = (
    f"points a round {how}" for how in ("with itself", "against take-all", "of take-all against it")
)
CROSS = "points a round against the other learner, as "  # and the seat
LEGAL, ROUNDS = "legal replies", "rounds counted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """A round of one episode.

    Args:
        scenario: pool and values.
        claims: what seats 0 and 1 claimed.
        total: worth of the pool to each seat.
        previous: pool and claims of the previous round; None in the first round.
    """

    scenario: Scenario
    claims: Claims
    total: int
    previous: tuple[Counts, Claims] | None = None

    def points(self, claims: Claims | None = None) -> tuple[float, float]:
        """Return the payoffs of these claims for both seats, as shares of the pool's worth."""
        return split_payoffs(self.scenario, claims or self.claims, self.total, "share")

    @property
    def best(self) -> float:
        """The largest sum of both seats' points: each item goes to the seat that values it more."""
        kinds = zip(self.scenario.counts, *self.scenario.values, strict=True)
        return sum(count * max(values) for count, *values in kinds) / self.total

    @property
    def preferred(self) -> Claims:
        """The claims of both seats if each takes only the kind with the largest value per item."""
        first, second = (
            tuple(
                count if value == max(values) else 0
                for count, value in zip(self.scenario.counts, values, strict=True)
            )
            for values in self.scenario.values
        )
        return first, second

    @property
    def conflict(self) -> bool:
        """Whether the claims exceed the pool for some kind."""
        claims_by_kind = zip(self.scenario.counts, *self.claims, strict=True)
        return any(first + second > count for count, first, second in claims_by_kind)


class TakeAll(TextAgent):
    """A player that claims the whole pool, the dominant strategy of a single round."""

    def __init__(self) -> None:
        super().__init__("take-all")

    def choose(self, state: Any, seat: int, stream: Stream) -> str:
        """Return the largest claim."""
        return str(state.legal(seat)[-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedRounds:
    """The rounds of episodes between two agents.

    Args:
        rounds: the counted rounds.
        legal: share of the first agent's replies that were legal.
    """

    rounds: list[Round]
    legal: float

    def points(self, seat: int) -> float:
        """Return the mean points of a seat."""
        return _mean([round_.points()[seat] for round_ in self.rounds])


def play_rounds(
    game: Environment, known: frozenset[Hashable], agents: tuple[Agent, Agent], count: int
) -> PlayedRounds:
    """Play episodes with two agents in seats 0 and 1; equal agents mean self-play.

    Args:
        game: ``repeated`` of ``pool_split``, with a bank of initial states.
        known: pools and values of training, whose rounds are not counted.
        agents: agents of seats 0 and 1.
        count: number of episodes.

    Raises:
        GameError: all initial states occur in training.
    """
    names = ("one", "one" if agents[0] is agents[1] else "two")
    root = Stream.from_seed(0).child("split").child("".join(names))
    specs = [untrained_spec(game, index, names, root.child(index)) for index in range(count)]
    episodes = within_context(play_teams(specs, dict(zip(names, agents, strict=True))))
    rounds = [
        round_
        for episode in episodes
        for round_ in rounds_of(specs[episode.episode_id], episode)
        if round_.scenario not in known
    ]
    if not rounds:
        raise GameError(
            f"{game.name}: all initial states occur in training; write a larger number of "
            "scenarios, for example scenarios=20."
        )
    turns = [turn for episode in episodes for turn in episode.turns if turn.agent == names[0]]
    return PlayedRounds(rounds=rounds, legal=_mean([turn.event == "ok" for turn in turns]))


def rounds_of(spec: EpisodeSpec, episode: Any) -> list[Round]:
    """Return the rounds of an episode; the substitute of an illegal reply counts as the claim."""
    rules: Any = spec.game
    turns_by_seat = [[turn for turn in episode.turns if turn.seat == seat] for seat in (0, 1)]
    rounds: list[Round] = []
    for index, pair_of_turns in enumerate(zip(*turns_by_seat, strict=True)):
        scenario = rules.inner.reset(spec.deal.child(index)).start
        first, second = (tuple(map(int, turn.action.split())) for turn in pair_of_turns)
        previous_round = (rounds[-1].scenario.counts, rounds[-1].claims) if rounds else None
        rounds.append(
            Round(
                scenario=scenario,
                claims=(first, second),
                total=rules.inner.source.total,
                previous=previous_round,
            )
        )
    return rounds


def strategy(rounds: Sequence[Round]) -> dict[str, float | None]:
    """Return the claims of a policy in self-play, also by the other seat's previous claim."""
    claims = [(round_, seat) for round_ in rounds for seat in (0, 1)]
    takes_all: dict[bool, list[bool]] = {True: [], False: []}
    for round_, seat in claims:
        if round_.previous is not None:
            pool, previous_claims = round_.previous
            takes_all[previous_claims[1 - seat] == pool].append(
                round_.claims[seat] == round_.scenario.counts
            )
    return {
        ALL: _mean([round_.claims[seat] == round_.scenario.counts for round_, seat in claims]),
        PREFERRED: _mean(
            [round_.claims[seat] == round_.preferred[seat] for round_, seat in claims]
        ),
        AFTER_ALL: _mean(takes_all[True]) if takes_all[True] else None,
        AFTER_LESS: _mean(takes_all[False]) if takes_all[False] else None,
    }


def alone_figures(
    game: Environment, known: frozenset[Hashable], policy: Agent, count: int
) -> dict[str, float | None]:
    """Return the figures of a policy in self-play and against an all-taker, with exact references.

    The references are the payoffs of the counted rounds if both seats take all (the only
    equilibrium of one round in undominated strategies), and if both take what they prefer.
    """
    self_play, take_all = play_rounds(game, known, (policy, policy), count), TakeAll()
    seats = [
        play_rounds(game, known, pair, count) for pair in ((policy, take_all), (take_all, policy))
    ]
    best = sum(round_.best for round_ in self_play.rounds)
    points = [sum(round_.points()) for round_ in self_play.rounds]
    sums_if_both_take_all = [
        sum(round_.points((round_.scenario.counts, round_.scenario.counts)))
        for round_ in self_play.rounds
    ]
    sums_if_both_take_preferred = [
        sum(round_.points(round_.preferred)) for round_ in self_play.rounds
    ]
    return {
        SUM: sum(points) / best,
        BOTH_ALL: sum(sums_if_both_take_all) / best,
        BOTH_PREFERRED: sum(sums_if_both_take_preferred) / best,
        CONFLICT: _mean([round_.conflict for round_ in self_play.rounds]),
        **strategy(self_play.rounds),
        ITSELF: _mean(points) / 2,
        AGAINST: (seats[0].points(0) + seats[1].points(1)) / 2,
        TAKES: (seats[0].points(1) + seats[1].points(0)) / 2,
        LEGAL: self_play.legal,
        ROUNDS: float(len(self_play.rounds)),
    }


def figures(runs: Mapping[str, Path], count: int) -> dict[str, dict[str, float | None]]:
    """Return the figures of both learners' policies, also against each other.

    Args:
        runs: run folders of two learners, trained on the same bank.
        count: number of episodes in self-play, and from each seat against others.
    """
    policies, games = {}, []
    for name, run in runs.items():
        _, engine, _ = load_run(run, threads=1)
        policies[name] = engine.agent(PUBLISHED)
        games.append(next(iter(engine.environments))[0])
    known = frozenset().union(*(cast(HasStarts, game).starts() or () for game in games))
    game = another_bank(games[0])
    assert game is not None
    by_arm = {name: alone_figures(game, known, policy, count) for name, policy in policies.items()}
    for name, other in itertools.permutations(policies):
        for seat, role in enumerate(game.roles):
            pair = (policies[name], policies[other])
            plays = play_rounds(game, known, pair if seat == 0 else pair[::-1], count)
            by_arm[name][f"{CROSS}{role}"] = plays.points(seat)
    return by_arm


def _mean(values: Sequence[float]) -> float:
    """Return a mean."""
    return sum(values) / len(values)


if __name__ == "__main__":
    inputs: dict[str, Any] = json.loads(sys.argv[1])
    folders = {name: Path(run) for name, run in inputs["runs"].items()}
    write_bytes_atomic(Path(sys.argv[2]), json.dumps(figures(folders, inputs["plays"])).encode())
