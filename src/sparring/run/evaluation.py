"""Evaluation during training: exact exploitability where enumeration allows, and matches against
bots.

These metrics measure the answer of the run: the mixture of members that ``league.answer`` names.
Without a mixture, they measure the EMA weights; without ``learner.average``, the live weights,
which play and learn. All other metrics of a run measure the live weights.

Metrics, per game GAME:
    nash_conv/GAME                  NashConv: sum of exploitability over all seats; 0 at equilibrium
    exploitability/GAME/ROLE        how much this seat gains by a best response, if all other seats
                                    play the policy
    illegal_mass/GAME               probability that a reply is illegal, mean over information
                                    states
    illegal_mass_reached/GAME       illegal_mass with each state weighted by the probability that
                                    an episode reaches it
    optimality_gap/GAME             cooperative games: best joint value minus the policy's value
    team_exploitability/GAME        games of teams: how much a team gains by its best joint plan,
                                    mean over teams
    one_seat_exploitability/GAME    games of teams: how much a team gains if one seat changes to its
                                    best plan, mean over teams; 0 here with team_exploitability
                                    above 0 is a local equilibrium
    as_one_exploitability/GAME      games of teams with too many joint plans to enumerate: how much
                                    a team gains as one player that sees all its seats'
                                    observations, mean over teams
    one_seat_exploitability/GAME/TEAM  for one team, named by its roles (seer+villager)
    as_one_exploitability/GAME/TEAM  for one team
    match/GAME/BOT/ROLE/...         win and win_or_draw (shares of games), return, with ends of
                                    their 95 % intervals (_low, _high); illegal. Two bots of one
                                    kind are named with their options: mcts(simulations=1000)
    match/GAME/BOT/ROLE/truncated   share of games in which a prompt was longer than the model's
                                    context; they count in no other metric; absent if 0
    match/GAME/BOT/ROLE/failed      share of games that failed with an error; they count in no
                                    other metric; absent if 0
    match/GAME/BOT/ROLE/success     games of one seat, instead of win and win_or_draw: share of
                                    games with the highest payoff; absent if it is unknown
    match/GAME/BOT/ROLE/regret      games with an oracle: mean value lost per judged turn, in
                                    units of the payoff; 0 is perfect; _low, _high
    match/GAME/BOT/ROLE/optimal     share of judged turns with one of the oracle's best actions;
                                    _low and _high, with games as clusters
    match/GAME/BOT/ROLE/judged      share of the policy's turns that the oracle judged; at 0,
                                    regret and optimal are absent
    match_seen/GAME/BOT/ROLE/...    the match metrics on initial states of training, where
                                    match/ uses unseen ones

A game may draw initial states from a bank (puzzles, layouts, codes), or ``rollout.starts`` may fix
them. Then ``match/`` uses initial states that training does not use, and ``match_seen/`` those that
it uses. If ``match_seen/`` is far higher, the policy has memorised them. If training can reach all
initial states, ``match/`` uses all. Exact metrics cover the initial states of training.

A held-out game (weight 0) with an oracle has the oracle's metrics too; they measure transfer to
games and sizes without training. Evaluation ignores the faults of a noisy oracle.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sparring.config import EvaluationConfig
from sparring.config.checks import EMA, LAST, LIVE, NON_MIXTURE_ANSWERS
from sparring.config.parts import PluginConfig
from sparring.core.errors import GameError
from sparring.core.records import LEARNER, PUBLISHED
from sparring.core.rng import Stream
from sparring.engine.protocol import Engine
from sparring.environments.base import Environment
from sparring.league.meta_game import (
    answer_payoffs,
    is_two_sided,
    make_two_sides,
    member_payoffs,
    unplayed_pairs_note,
)
from sparring.league.payoffs import Payoffs
from sparring.measure.agent_spec import AgentSpec, labels
from sparring.measure.exact_figures import base_game, exact_figures_of
from sparring.measure.info_states import InfoStates, enumerate_info_states
from sparring.measure.initial_states import SeenInitialStates, Starts, all_starts, measured_starts
from sparring.measure.matches import MatchReport, intervals_of, play_matches
from sparring.measure.oracle_regret import Judge, without_faults
from sparring.methods.oracles.base import Oracle
from sparring.play.players.base import Agent, HasNotes
from sparring.play.players.mixture import MemberMixture


def answer_of(engine: Engine, payoffs: Payoffs, answer: str, *, apart: bool = False) -> Agent:
    """Return the agent that evaluation measures for a run.

    Without members there is no mixture, and the published policy is returned. With several
    environments, payoffs are averaged with the environments' weights.

    Args:
        engine: holds the models and the members.
        payoffs: the payoffs of the members.
        answer: ``policy`` or ``average``: the published policy (EMA weights if the run has them);
            ``last``: the learner's weights; or a meta-solver with its options, such as ``nash``:
            its mixture of the league's members.
        apart: whether each of two sides has its own mixture
            (``league.meta_game.apart_keys``).

    Raises:
        GameError: the solver cannot solve the meta-game.
        PluginError: the solver returned no distribution over the members.
    """
    if answer in NON_MIXTURE_ANSWERS or not engine.members:
        return engine.agent(LEARNER if answer == LAST else PUBLISHED)
    solver = PluginConfig.model_validate(answer).bind("league.meta_solvers")
    trained_games = [(game, weight) for game, weight in engine.environments if weight]
    if apart:
        sides = {game.name: make_two_sides(game, weight) for game, weight in trained_games}
        opposed = is_two_sided(solver)
        meta_game = answer_payoffs(payoffs, engine.members, sides, opposed=opposed)
    else:
        weights = {game.name: weight for game, weight in trained_games}
        meta_game = member_payoffs(payoffs, engine.members, weights)
    notes = [note] if (note := unplayed_pairs_note(solver, meta_game)) else []
    weights_of_sides = [
        dict(zip(engine.members, side.tolist(), strict=True)) for side in solver(meta_game).sides
    ]
    return MemberMixture(
        weights_of_sides[0], engine.agent, notes, weights_of_sides[1] if apart else None
    )


log = logging.getLogger(__name__)
# first parts of the metrics' names above
FAMILIES = (
    *("nash_conv", "exploitability", "illegal_mass", "illegal_mass_reached", "optimality_gap"),
    *("team_exploitability", "one_seat_exploitability", "as_one_exploitability"),
    *("match", "match_seen"),
)


class Evaluator:
    """Measures a policy on the games of a run.

    ``notes`` lists what could not be measured, and what to use instead.

    Args:
        games: the games, including games of weight 0.
        config: settings of the evaluation.
        oracles: the oracle of each game whose turns it judges, by name of the game.
        seen: the initial states of training; None: they are unknown, so all initial states are
            used.
        on_progress: called with the numbers of finished and of all games, first with 0 finished.
    """

    def __init__(
        self,
        games: list[Environment],
        config: EvaluationConfig,
        oracles: Mapping[str, Oracle] | None = None,
        seen: SeenInitialStates | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.games, self.config, self.seen = games, config, seen
        self._on_progress = on_progress or (lambda num_finished, num_games: None)
        self._starts: dict[str, tuple[Starts, ...]] = {}
        self._judges = {
            name: Judge(oracle=without_faults(oracle)) for name, oracle in (oracles or {}).items()
        }
        self.notes: list[str] = []
        self._num_notes_returned = 0
        self._noted_subjects: set[str] = set()
        self._info_states: dict[str, InfoStates] = {}
        for game in games if config.exact else ():
            try:
                states = enumerate_info_states(base_game(game), limit=config.max_states)
                self._info_states[game.name] = states
            except GameError as error:  # too many states, or no information states
                self.notes.append(str(error))
                log.info("%s", error)
        names = labels(
            [AgentSpec(bot.name, bot.bind("players").options) for bot in config.opponents]
        )
        self._opponents = [
            (name, opponent, opponent.bind("players")())
            for name, opponent in zip(names, config.opponents, strict=True)
        ]

    def new_notes(self) -> tuple[str, ...]:
        """Return the notes since the last call."""
        new_notes = tuple(self.notes[self._num_notes_returned :])
        self._num_notes_returned = len(self.notes)
        return new_notes

    def measure(self, policy: Any, stream: Stream) -> dict[str, float]:
        """Return the metrics listed in the module's docstring for a policy."""
        metrics: dict[str, float] = {}
        num_finished, num_games = 0, self._num_matches()
        if num_games:
            self._on_progress(0, num_games)
        for note in policy.notes if isinstance(policy, HasNotes) else ():
            self._add_note(note, "answer")
        for game in self.games:
            if game.name in self._info_states:
                try:
                    exact_result = exact_figures_of(game, self._info_states[game.name], policy)
                    self._add_note(exact_result.note, f"exact/{game.name}")
                    metrics.update(exact_result.figures)
                except GameError as error:  # this policy has no action probabilities
                    self.notes.append(str(error))
                    del self._info_states[game.name]
            for name, opponent, bot in self._opponents:
                games_stream = stream.child(game.name).child(name)
                judge = self._judges.get(game.name)
                for starts in self._start_sets(game):
                    report = play_matches(
                        game,
                        policy,
                        bot,
                        games_per_seat=opponent.games_per_seat,
                        stream=games_stream,
                        judge=judge,
                        starts=starts,
                        on_finished=partial(self._report_progress, num_finished, num_games),
                    )
                    num_finished += game.num_seats * opponent.games_per_seat
                    self._add_note(" ".join(report.notes), f"lost/{game.name}")
                    family = "match_seen" if starts.label == "seen" else "match"
                    metrics.update(match_metrics(game.name, name, report, family))
        return metrics

    def _report_progress(self, num_before: int, num_games: int, num_finished: int) -> None:
        self._on_progress(num_before + num_finished, num_games)

    def _num_matches(self) -> int:
        games_per_seat = sum(entry.games_per_seat for _, entry, _ in self._opponents)
        if not games_per_seat:
            return 0
        return sum(
            games_per_seat * game.num_seats * len(self._start_sets(game)) for game in self.games
        )

    def _start_sets(self, game: Environment) -> tuple[Starts, ...]:
        if game.name not in self._starts:
            self._starts[game.name] = (
                (all_starts(game),) if self.seen is None else measured_starts(game, self.seen)
            )
        return self._starts[game.name]

    def _add_note(self, note: str, subject: str) -> None:
        if note and subject not in self._noted_subjects:
            self._noted_subjects.add(subject)
            self.notes.append(note)


def weights_of_figure(name: str, measured: str) -> str:
    """Return the weights of a run that a metric measures, in words.

    Args:
        name: name of the metric.
        measured: the weights that evaluation measures, from ``config.checks.measured_weights``.
    """
    return measured if name.split("/")[0] in FAMILIES else LIVE


def weights_mark(name: str, measured: str) -> str:
    """Return a suffix that names a metric's weights, such as " (EMA)"; "" without EMA weights.

    Args:
        name: name of the metric.
        measured: the weights that evaluation measures, from ``config.checks.measured_weights``.
    """
    if measured == LIVE:
        return ""
    words = {LIVE: "live", EMA: "EMA"}
    return f" ({words.get(weights_of_figure(name, measured), 'measured')})"


def match_metrics(
    game: str, opponent: str, report: MatchReport, family: str = "match"
) -> dict[str, float]:
    """Return the metrics of a match report, per role."""
    metrics = {}
    for role, record in zip(report.roles, report.seats, strict=True):
        prefix = f"{family}/{game}/{opponent}/{role}"
        for name, interval in intervals_of(record).items():
            metrics[f"{prefix}/{name}"] = interval.mean
            metrics[f"{prefix}/{name}_low"] = interval.low
            metrics[f"{prefix}/{name}_high"] = interval.high
        metrics[f"{prefix}/illegal"] = record.illegal.mean
        games = record.games + record.truncated + record.failed
        if record.truncated:
            metrics[f"{prefix}/truncated"] = record.truncated / games
        if record.failed:
            metrics[f"{prefix}/failed"] = record.failed / games
        if record.regret is not None:
            metrics[f"{prefix}/judged"] = record.regret.judged_share
    return metrics
