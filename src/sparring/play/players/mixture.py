"""Mixtures of players, one of which is drawn for each episode and team."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparring.config.parts import bound_agent
from sparring.core.errors import ConfigError, GameError, quoted
from sparring.core.records import LEARNER, MAIN, POLICY_KINDS, FloatArray, PlayerRef, bot, ref
from sparring.core.rng import Stream
from sparring.environments.base import Environment, side_numbers, teams_of
from sparring.play.players.base import Agent, PendingTurn, Reply

PAST = "past"  # name of all snapshots of the league in a mixture, with equal shares


class Mixture:
    """Players with weights; one of them is drawn for each episode and team.

    A mixture does not act: ``play.team.play_teams`` and ``league.seating.step_specs`` put the drawn
    player into the seats of the team.

    Args:
        weights: weight by player. Players of the run are written ``learner``, ``policy``,
            ``past-000100``, or ``past`` for all snapshots equally; bots by their names.
    """

    name = "mixture"
    renderer: Any = None

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)
        is_run_player = {text: text == PAST or ref(text).kind in POLICY_KINDS for text in weights}
        self._players = {
            text: ref(text) if is_run_player[text] else _bot_ref(text) for text in weights
        }
        # the texts of the players of a run, and the bots as on a command line
        self.run_players = tuple(text for text in weights if is_run_player[text])
        self.bots = tuple(self._players[text].name for text in weights if not is_run_player[text])
        self._agents: dict[str, Agent] = {}

    def __str__(self) -> str:
        """Return the mixture in words."""
        return f"mixture of {', '.join(self.weights)}"

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Raise an error: ``draw`` returns the player that acts.

        Raises:
            GameError: always.
        """
        raise GameError("A mixture consists of several players; play it with play_teams.")

    def shares(self, members: Sequence[PlayerRef] = ()) -> dict[PlayerRef, float]:
        """Return the weight of each player that can be drawn; the learner if there is none.

        Args:
            members: the snapshots of the league; other snapshots are left out.
        """
        shares: dict[PlayerRef, float] = {}
        for text, weight in self.weights.items():
            entry = self._players[text]
            players: Sequence[PlayerRef] = (entry,)
            if text == PAST:
                players = members
            elif entry.kind == "snapshot" and not (
                entry in members
                or (
                    entry.for_policy(MAIN) in members and not any(member.name for member in members)
                )
            ):
                players = ()
            for player in players if weight else ():
                shares[player] = shares.get(player, 0.0) + weight / len(players)
        return shares or {LEARNER: 1.0}

    def mixture_of_seat(self, game: Environment, seat: int) -> Mixture:
        """Return the mixture from which a seat's team draws: here this object.

        Args:
            game: the environment.
            seat: one of its seats.
        """
        return self

    def draw(self, stream: Stream, seat: int, members: Sequence[PlayerRef] = ()) -> PlayerRef:
        """Return a player that is drawn with probabilities in proportion to the weights.

        Args:
            stream: the episode's stream.
            seat: first seat of the team.
            members: the snapshots of the league.
        """
        shares = self.shares(members)
        remainder = stream.child("mixture").child(seat).uniform(0) * math.fsum(shares.values())
        for player, share in shares.items():
            if remainder < share:
                return player
            remainder -= share
        return player  # reached only by a rounding error

    def label(self, player: PlayerRef) -> str:
        """Return the name of a player, for people."""
        return str(player)

    def agents(self) -> dict[PlayerRef, Agent]:
        """Return the agents of all players, outside a run.

        Raises:
            UnknownNameError, ConfigError: as for ``agent``.
        """
        return {player: self.agent(player) for player in self.shares()}

    def agent(self, player: PlayerRef) -> Agent:
        """Return the agent of a bot, one and the same object at each call.

        Raises:
            UnknownNameError: no such player plug-in or option.
            ConfigError: an option's value is wrong, or the player is a player of a run.
        """
        if player.kind != "bot":
            raise ConfigError(
                f"mixture: {str(player)!r} is a player of a run; name the mixture in the run's "
                "bots, or leave it out."
            )
        if player.name not in self._agents:
            agent: Agent = bound_agent(player.name)()
            if isinstance(agent, Mixture):
                raise ConfigError(
                    f"mixture: {player.name!r} is itself a mixture; write its players here."
                )
            self._agents[player.name] = agent
        return self._agents[player.name]


def _bot_ref(text: str) -> PlayerRef:
    player = ref(text)
    return player if player.kind == "bot" else bot(text)


def mixture(*, players: dict[str, float]) -> Agent:
    """One of several players, drawn for each episode and team.

    What: before an episode begins, one of the players is drawn by the weights for each team, and
    fills all seats of the team. Records and the payoff book have the name of the drawn player.
    When to use: as an opponent for training or evaluation that differs between episodes, such as a
    population. In ``bots``, where a matchmaker seats it, it may have players of the run.
    Mathematics: with weights w,

        P(player j) = w_j / sum over i of w_i
        past stands for its n snapshots, with weight w / n each

    Pitfalls: the episodes of a group have different draws, so an estimator that compares them also
    sees the difference between opponents. A snapshot that is not in the league is left out; if no
    player remains, the learner plays.

    Args:
        players: weight by player, at least 0 and not all 0. A bot is written as on the command
            line: ``random``, ``"mcts simulations=100"``. A mixture in a run's ``bots`` may also
            have the name of another bot of the run, or a player of the run: ``learner`` (the
            current weights), ``policy`` (EMA weights), ``past`` (all snapshots of the league,
            uniformly) or one snapshot, such as ``past-000100``.

    Raises:
        ConfigError: no players, weights below 0, all weights 0, or a sum that is not finite.

    Reference: Lanctot et al., "A unified game-theoretic approach to multiagent reinforcement
    learning", 2017 (the mixed strategies of policy-space response oracles).
    """
    invalid_names = [name for name, weight in players.items() if not 0 <= weight < math.inf]
    if invalid_names:
        name = invalid_names[0]
        raise ConfigError(
            f"mixture: the weight of {quoted(name)} is {players[name]!r}; write a "
            "number of at least 0."
        )
    if not any(players.values()):
        raise ConfigError(
            f"mixture: players={quoted(players)} has no player to draw; write a weight above "
            "0 for one, such as players: {random: 1}."
        )
    if not math.isfinite(sum(players.values())):
        raise ConfigError(
            f"mixture: players={quoted(players)} have weights whose sum is not finite; write "
            "smaller ones."
        )
    return Mixture(players)


class MemberMixture(Mixture):
    """Members of a league with weights; one of them is drawn for each episode and team.

    Args:
        weights: weight by member; members of weight 0 are left out.
        agent_of: returns the agent of a member.
        notes: sentences on the weights that a report must state.
        second: weights for the second of two sides; ``weights`` are then for the first side, which
            has the first seat. None: all sides have the same weights.

    Attributes:
        sides: the weights above 0: one mapping for all sides, or one for each of two.
        members: weight of each member that can be drawn, the mean over the sides.
    """

    def __init__(
        self,
        weights: Mapping[PlayerRef, float],
        agent_of: Callable[[PlayerRef], Agent],
        notes: Sequence[str] = (),
        second: Mapping[PlayerRef, float] | None = None,
    ) -> None:
        weights_by_side = (weights,) if second is None else (weights, second)
        self.sides = tuple(
            {member: weight for member, weight in side.items() if weight > 0}
            for side in weights_by_side
        )
        self.members = {
            member: sum(side.get(member, 0.0) for side in self.sides) / len(self.sides)
            for member in dict.fromkeys(member for side in weights_by_side for member in side)
            if any(member in side for side in self.sides)
        }
        super().__init__({str(member): weight for member, weight in self.members.items()})
        self._agent_of = agent_of
        self.notes = tuple(notes)
        sides = self.sides if second is not None else ()
        self._side_mixtures = tuple(MemberMixture(side, agent_of) for side in sides)

    def __str__(self) -> str:
        """Return the weights in words."""
        texts = [
            ", ".join(f"{weight:.3f} {self.label(member)}" for member, weight in side.items())
            for side in self.sides
        ]
        ending = " in the second" if self._side_mixtures else ""
        return " in the first side; ".join(texts) + ending

    def mixture_of_seat(self, game: Environment, seat: int) -> Mixture:
        """Return the mixture from which a seat's team draws.

        Raises:
            GameError: the weights are for two sides, and the environment has another number.
        """
        if not self._side_mixtures:
            return self
        return self._side_mixtures[_side_of_seat(game.name, tuple(teams_of(game)), seat)]

    def with_agents(self, agent_of: Callable[[PlayerRef], Agent]) -> MemberMixture:
        """Return a mixture with the same weights and other agents for the members."""
        return MemberMixture(self.sides[0], agent_of, self.notes, *self.sides[1:])

    def shares(self, members: Sequence[PlayerRef] = ()) -> dict[PlayerRef, float]:
        """Return the weight of each member."""
        return dict(self.members)

    def agent(self, player: PlayerRef) -> Agent:
        """Return the agent of a member."""
        return self._agent_of(player)

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return the log-probabilities of the behaviour policy that is equivalent to the mixture.

        With w_k the weight of member k in the seat's side, and x_k(h) the product of its
        probabilities of the seat's earlier actions on the path to information state h (Kuhn, 1953),

            P(a | h) = sum_k w_k x_k(h) P_k(a | h)  /  sum_k w_k x_k(h)

        If no member reaches h the weights are w_k.

        Args:
            queries: information states.

        Raises:
            GameError: the weights are for two sides, and the environment has another number.
        """
        earlier_queries = [
            [
                replace(
                    query,
                    key=query.seen[turn].key if query.seen else "",
                    observations=query.observations[: turn + 1],
                    actions=query.actions[:turn],
                    legal_actions=(query.actions[turn],),
                    seen=query.seen[: turn + 1],
                )
                for turn in range(len(query.actions))
            ]
            for query in queries
        ]
        states = list(dict.fromkeys(query for path in earlier_queries for query in path))
        log_weights, logprobs_by_member, reaches = self._log_weights(queries), [], []
        for index, member in enumerate(self.members):
            scorer: Any = self.agent(member)
            rows = scorer.action_logprobs(states) if states else []
            logprob_of = {query: float(row[0]) for query, row in zip(states, rows, strict=True)}
            log_reach = [sum(logprob_of[query] for query in path) for path in earlier_queries]
            reaches.append(log_weights[index] + np.array(log_reach, dtype=np.float64))
            logprobs_by_member.append(scorer.action_logprobs(queries))
        log_reach_by_member = np.array(reaches)
        is_unreached = ~np.isfinite(log_reach_by_member).any(axis=0)
        log_reach_by_member[:, is_unreached] = log_weights[:, is_unreached]
        log_total = np.logaddexp.reduce(log_reach_by_member, axis=0)
        weights = np.exp(log_reach_by_member - log_total)
        return [
            _log_mean([rows[index] for rows in logprobs_by_member], weights[:, index])
            for index in range(len(queries))
        ]

    def _log_weights(self, queries: Sequence[Any]) -> FloatArray:
        """Return the logarithms of the members' weights in the side of each query, [K, Q]."""
        with np.errstate(divide="ignore"):
            logs = np.log([[side.get(name, 0.0) for side in self.sides] for name in self.members])
        sides = [0] * len(queries)
        if self._side_mixtures:
            sides = [_side_of_seat(query.game, query.teams, query.seat) for query in queries]
        logs_by_query: FloatArray = logs[:, sides]
        return logs_by_query


def _side_of_seat(name: str, teams: tuple[int, ...], seat: int) -> int:
    """Return the side of a seat, 0 or 1.

    Args:
        name: the environment's name.
        teams: the team of each seat; (): every seat is a side.
        seat: the seat.
    """
    side_of_seat = side_numbers(teams or tuple(range(max(seat + 1, 2))))
    if max(side_of_seat) != 1:
        raise GameError(
            f"{name}: this mixture has weights for two sides, and the environment has "
            f"{max(side_of_seat) + 1}; take one policy, such as --answer policy."
        )
    return side_of_seat[seat]


def _log_mean(rows: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        logprobs: FloatArray = np.log(weights @ np.exp(np.array(rows, dtype=np.float64)))
    return logprobs
