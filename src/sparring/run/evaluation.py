"""Evaluation during training: exact exploitability where enumeration allows, and matches against
bots.

These metrics are of the run's answer: the EMA weights where ``learner.average``
is set, the live weights where it is not, or the mixture that ``league.answer`` names. All other
metrics of a run are of the live weights, which play and learn.

Metrics, per game GAME:
    nash_conv/GAME                  NashConv: sum over seats of the gain of a best response to the
                                    policy; 0 at equilibrium
    exploitability/GAME/ROLE        one seat's gain by a best response to the policy in the other
                                    seats; nash_conv is their sum
    illegal_mass/GAME               mean over information states of the probability of no legal
                                    action
    illegal_mass_reached/GAME       mean probability of no legal action, each state weighted by how
                                    often play reaches it
    optimality_gap/GAME             cooperative games: best joint value minus the policy's
    team_exploitability/GAME        several teams: mean over teams of a team's gain by its best
                                    joint plan
    one_seat_exploitability/GAME    several teams: mean over teams of a team's gain by the best
                                    plan of one of its seats; 0 here and above 0 together is a local
                                    equilibrium
    as_one_exploitability/GAME      several teams with too many joint plans to try: mean over teams
                                    of a team's gain as one player with its seats' observations
    one_seat_exploitability/GAME/TEAM  the same of each team, named by its roles (seer+villager)
    as_one_exploitability/GAME/TEAM  the same
    match/GAME/BOT/ROLE/...         win, win_or_draw (shares) with _low and _high ends of 95 %
                                    intervals, return, illegal (the options that differ tell two
                                    bots of one kind apart, mcts(simulations=1000))
    match/GAME/BOT/ROLE/truncated   share of games in which a conversation outgrew a model's
                                    context; they count in no other metric; only if there are any
    match/GAME/BOT/ROLE/failed      share of games that failed; they count in no other metric
    match/GAME/BOT/ROLE/success     games of one seat, in place of win and win_or_draw: share of
                                    games with the highest payoff
    match/GAME/BOT/ROLE/regret      games with an oracle: mean value lost per judged turn, in the
                                    game's units, 0 is perfect; _low, _high
    match/GAME/BOT/ROLE/optimal     the same turns: share whose action is one of the oracle's best;
                                    _low and _high by games as clusters
    match/GAME/BOT/ROLE/judged      share of the policy's turns that the oracle judged; without any,
                                    there is no regret and no optimal
    match_seen/GAME/BOT/ROLE/...    all of these on initial states of training, where match/ has
                                    others: games with a bank, fixed initial states

Where a game draws initial states from a bank (puzzles, layouts, codes) or ``rollout.starts`` fixes
them, ``match/`` is measured on unseen initial states, and ``match_seen/`` on those of training. If
``match_seen/`` is far higher, the policy has memorised them. Where training can reach every state,
``match/`` is of all. Exact metrics are of the configured game: with a bank, they cover the
states that training uses.

A held-out game (weight 0) with an oracle has the oracle's metrics too: they measure transfer to
untrained games and sizes. An oracle with faults (noisy) is for training; evaluation uses the oracle
inside it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sparring.config import EvaluationConfig
from sparring.config.checks import EMA, LAST, LIVE, PLAIN
from sparring.config.parts import PluginConfig
from sparring.core.errors import GameError
from sparring.core.records import LEARNER, PUBLISHED
from sparring.core.rng import Stream
from sparring.engine.protocol import Engine
from sparring.environments.base import Environment
from sparring.league.meta_game import (
    answer_payoffs,
    is_two_sided,
    member_payoffs,
    two_sides,
    unmet_note,
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


def answer_of(engine: Engine, book: Payoffs, answer: str, *, apart: bool = False) -> Agent:
    """Return the agent that evaluation measures for a run.

    In several environments, payoffs have the weights of the environments. Without members the agent
    is the published policy.

    Args:
        engine: of the run.
        book: its payoff book.
        answer: ``policy``, the published policy; ``average``, the same where the run has EMA
            weights (``config.checks.check_answer``); ``last``, the learner's weights; or a
            meta-solver with its options, such as ``nash``: its mixture of the league's members.
        apart: whether the population is solved for each of two sides
            (``league.meta_game.apart_keys``), so that the mixture has weights for each.

    Raises:
        GameError: the solver cannot solve the meta-game.
        PluginError: the solver returned no distribution over the members.
    """
    if answer in PLAIN or not engine.members:
        return engine.agent(LEARNER if answer == LAST else PUBLISHED)
    solver = PluginConfig.model_validate(answer).bind("league.meta_solvers")
    trained = [(game, weight) for game, weight in engine.environments if weight]
    if apart:
        sides = {game.name: two_sides(game, weight) for game, weight in trained}
        opposed = is_two_sided(solver)
        meta_game = answer_payoffs(book, engine.members, sides, opposed=opposed)
    else:
        weights = {game.name: weight for game, weight in trained}
        meta_game = member_payoffs(book, engine.members, weights)
    notes = [note] if (note := unmet_note(solver, meta_game)) else []
    sides_weights = [
        dict(zip(engine.members, side.tolist(), strict=True)) for side in solver(meta_game).sides
    ]
    return MemberMixture(sides_weights[0], engine.agent, notes, sides_weights[1] if apart else None)


log = logging.getLogger(__name__)
# the first parts of the names above
FAMILIES = (
    *("nash_conv", "exploitability", "illegal_mass", "illegal_mass_reached", "optimality_gap"),
    *("team_exploitability", "one_seat_exploitability", "as_one_exploitability"),
    *("match", "match_seen"),
)


class Evaluator:
    """Measures a policy on the games of a run.

    ``notes`` says what could not be measured, and what to use instead.

    Args:
        games: including those of weight 0.
        config: of the evaluation.
        oracles: by the name of the game whose turns they judge.
        seen: the initial states of training; None: unknown, and the games' states
            are played.
        measuring: called with the number of finished games, first 0, and the number of
            all games.
    """

    def __init__(
        self,
        games: list[Environment],
        config: EvaluationConfig,
        oracles: Mapping[str, Oracle] | None = None,
        seen: SeenInitialStates | None = None,
        measuring: Callable[[int, int], None] | None = None,
    ) -> None:
        self.games, self.config, self.seen = games, config, seen
        self._measuring = measuring or (lambda done, of: None)
        self._starts: dict[str, tuple[Starts, ...]] = {}
        self._judges = {
            name: Judge(oracle=without_faults(oracle)) for name, oracle in (oracles or {}).items()
        }
        self.notes: list[str] = []
        self._num_returned = 0
        self._noted: set[str] = set()
        self._info_states: dict[str, InfoStates] = {}
        for game in games if config.exact else ():
            try:
                states = enumerate_info_states(base_game(game), limit=config.max_states)
                self._info_states[game.name] = states
            except GameError as error:  # too many states, or no information states
                self.notes.append(str(error))
                log.info("%s", error)
        names = labels(
            [AgentSpec(entry.name, entry.bind("players").options) for entry in config.opponents]
        )
        self._opponents = [
            (name, entry, entry.bind("players")())
            for name, entry in zip(names, config.opponents, strict=True)
        ]

    def fresh_notes(self) -> tuple[str, ...]:
        """Return the notes since the last call."""
        fresh, self._num_returned = tuple(self.notes[self._num_returned :]), len(self.notes)
        return fresh

    def measure(self, policy: Any, stream: Stream) -> dict[str, float]:
        """Return the metrics listed above for an agent that can also score actions."""
        metrics: dict[str, float] = {}
        ended, every_game = 0, self._num_matches()
        if every_game:
            self._measuring(0, every_game)
        for note in policy.notes if isinstance(policy, HasNotes) else ():
            self._note(note, "answer")
        for game in self.games:
            if game.name in self._info_states:
                try:
                    exact = exact_figures_of(game, self._info_states[game.name], policy)
                    self._note(exact.note, f"exact/{game.name}")
                    metrics.update(exact.figures)
                except GameError as error:  # this policy has no action probabilities
                    self.notes.append(str(error))
                    del self._info_states[game.name]
            for name, entry, bot in self._opponents:
                games_stream = stream.child(game.name).child(name)
                judge = self._judges.get(game.name)
                for starts in self._sets_of_starts(game):
                    report = play_matches(
                        game,
                        policy,
                        bot,
                        games_per_seat=entry.games_per_seat,
                        stream=games_stream,
                        judge=judge,
                        starts=starts,
                        on_finished=partial(self._report_progress, ended, every_game),
                    )
                    ended += game.num_seats * entry.games_per_seat
                    self._note(" ".join(report.notes), f"lost/{game.name}")
                    family = "match_seen" if starts.label == "seen" else "match"
                    metrics.update(match_metrics(game.name, name, report, family))
        return metrics

    def _report_progress(self, num_before: int, of: int, num_new: int) -> None:
        self._measuring(num_before + num_new, of)

    def _num_matches(self) -> int:
        games_per_seat = sum(entry.games_per_seat for _, entry, _ in self._opponents)
        if not games_per_seat:
            return 0
        return sum(
            games_per_seat * game.num_seats * len(self._sets_of_starts(game)) for game in self.games
        )

    def _sets_of_starts(self, game: Environment) -> tuple[Starts, ...]:
        if game.name not in self._starts:
            self._starts[game.name] = (
                (all_starts(game),) if self.seen is None else measured_starts(game, self.seen)
            )
        return self._starts[game.name]

    def _note(self, note: str, about: str) -> None:
        """Add a note, unless one about the same subject exists."""
        if note and about not in self._noted:
            self._noted.add(about)
            self.notes.append(note)


def weights_behind(name: str, measured: str) -> str:
    """Return in words which weights a figure of a run is of.

    Args:
        name: of the figure.
        measured: the weights that are measured, of ``config.checks.measured_weights``.
    """
    return measured if name.split("/")[0] in FAMILIES else LIVE


def weights_mark(name: str, measured: str) -> str:
    """Return a mark of a figure's weights, such as " (EMA)"; "" if all weights are live.

    Args:
        name: of the figure.
        measured: the weights that are measured, of ``config.checks.measured_weights``.
    """
    if measured == LIVE:
        return ""
    words = {LIVE: "live", EMA: "EMA"}
    return f" ({words.get(weights_behind(name, measured), 'measured')})"


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
