"""What is measured while training: exact exploitability where enumeration allows, matches against
bots.

These figures are of the weights that answer for the run: the EMA weights where ``learner.average``
is set, the live weights where it is not, or the mixture that ``league.answer`` names. All other
figures of a run are of the live weights, which play and learn.

Metrics, per game GAME:
    nash_conv/GAME                  sum over seats of what a best response would gain against the
                                    policy; 0 at equilibrium
    exploitability/GAME/ROLE        one seat's gain by a best response to the policy in the other
                                    seats; nash_conv is their sum
    illegal_mass/GAME               mean over information states of the probability of no legal
                                    action
    illegal_mass_reached/GAME       mean probability of no legal action, each state weighted by how
                                    often play reaches it
    optimality_gap/GAME             cooperative games: best joint value minus the policy's
    team_exploitability/GAME        several teams: mean over teams of what a team gains by its best
                                    joint plan
    one_seat_exploitability/GAME    several teams: mean over teams of what a team gains by the best
                                    plan of one of its seats; 0 here and above 0 together is a local
                                    equilibrium
    as_one_exploitability/GAME      several teams with too many joint plans to try: mean over teams
                                    of what a team gains as one player who sees all its seats see
    one_seat_exploitability/GAME/TEAM  there, of each team, named by its roles (seer+villager)
    as_one_exploitability/GAME/TEAM  the same
    match/GAME/BOT/ROLE/...         win, win_or_draw (shares) with _low and _high ends of 95 %
                                    intervals, return, illegal (two bots of one kind are told apart
                                    by the options that differ, mcts(simulations=1000))
    match/GAME/BOT/ROLE/truncated   share of games in which a conversation outgrew a model's
                                    context; they count in no other figure; only where there are any
    match/GAME/BOT/ROLE/failed      share of games that could not begin or go on, in the same way
    match/GAME/BOT/ROLE/success     games of one seat, in place of win and win_or_draw: share of
                                    games with the most that it pays
    match/GAME/BOT/ROLE/regret      games with an oracle: mean value lost per judged turn, in the
                                    game's units, 0 is perfect; _low, _high
    match/GAME/BOT/ROLE/optimal     the same turns: share whose action is one of the oracle's best;
                                    _low and _high by games as clusters
    match/GAME/BOT/ROLE/judged      share of the policy's turns that the oracle judged; without any,
                                    there is no regret and no optimal
    match_seen/GAME/BOT/ROLE/...    all of these on starts that training meets, where match/ is of
                                    others: games with a bank, fixed starts

Where a game draws its starts from a bank (puzzles, layouts, codes) or ``rollout.starts`` fixes
them, ``match/`` is measured on starts of which training meets none, and ``match_seen/`` on its own:
far above ``match/``, they are learnt by heart. Where training can meet every start there is,
``match/`` is of all. Exact figures are of the game as it is configured: with a bank, of the starts
trained on.

A held-out game (weight 0) that names an oracle has these as well: what has been learnt for games
and sizes not trained on. An oracle with faults (noisy) is for what is learnt from; measured is by
the one within it.
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
    member_payoffs,
    takes_opposed,
    two_sides,
    unmet_note,
)
from sparring.league.payoffs import Payoffs
from sparring.measure.agent_spec import AgentSpec, labels
from sparring.measure.exact_figures import beneath, exact_figures_of
from sparring.measure.info_states import InfoStates, enumerate_info_states
from sparring.measure.initial_states import SeenInitialStates, Starts, columns, every
from sparring.measure.matches import MatchReport, intervals_of, play_matches
from sparring.measure.regret import Judge, without_faults
from sparring.methods.oracles.base import Oracle
from sparring.play.players.base import Agent, HasNotes
from sparring.play.players.mixture import MemberMixture


def answer_of(engine: Engine, book: Payoffs, asked: str, *, apart: bool = False) -> Agent:
    """Return who answers for a run.

    Args:
        engine: of the run.
        book: its payoff book.
        asked: ``policy``, the published policy; ``average``, the same where the run keeps an
            average (``config.checks.check_answer``); ``last``, the learner's weights; or a
            meta-solver with its options, such as ``nash``: the mixture of the league's members that
            it gives. In several environments their payoffs are weighed as the environments are. As
            long as there are no members it is the published policy.
        apart: whether the population is solved for each of two sides
            (``league.meta_game.apart_by``): then the mixture has weights for each.

    Raises:
        GameError: the solver cannot solve the meta-game.
        PluginError: the solver gave what is no distribution over the members.
    """
    if asked in PLAIN or not engine.members:
        return engine.agent(LEARNER if asked == LAST else PUBLISHED)
    solver = PluginConfig.model_validate(asked).bind("league.meta_solvers")
    trained = [(game, weight) for game, weight in engine.environments if weight]
    if apart:
        sides = {game.name: two_sides(game, weight) for game, weight in trained}
        opposed = takes_opposed(solver)
        meta_game = answer_payoffs(book, engine.members, sides, opposed=opposed)
    else:
        weights = {game.name: weight for game, weight in trained}
        meta_game = member_payoffs(book, engine.members, weights)
    notes = [note] if (note := unmet_note(solver, meta_game)) else []
    found = [
        dict(zip(engine.members, side.tolist(), strict=True)) for side in solver(meta_game).sides
    ]
    return MemberMixture(found[0], engine.agent, notes, found[1] if apart else None)


log = logging.getLogger(__name__)
# the first words of the names above
FAMILIES = (
    *("nash_conv", "exploitability", "illegal_mass", "illegal_mass_reached", "optimality_gap"),
    *("team_exploitability", "one_seat_exploitability", "as_one_exploitability"),
    *("match", "match_seen"),
)


class Evaluator:
    """Measures a policy on the games of a run.

    ``notes`` says what could not be measured, and what to use instead.

    Args:
        games: those of weight 0 included.
        config: what is measured.
        oracles: by the name of the game whose turns they judge.
        met: the starts that training meets; None: nothing is known of them, and those of the games
            are played.
        measuring: called with how many games of a measurement have ended, first 0, and with how
            many there are.
    """

    def __init__(
        self,
        games: list[Environment],
        config: EvaluationConfig,
        oracles: Mapping[str, Oracle] | None = None,
        met: SeenInitialStates | None = None,
        measuring: Callable[[int, int], None] | None = None,
    ) -> None:
        self.games, self.config, self.met = games, config, met
        self._measuring = measuring or (lambda done, of: None)
        self._starts: dict[str, tuple[Starts, ...]] = {}
        self._judges = {
            name: Judge(oracle=without_faults(oracle)) for name, oracle in (oracles or {}).items()
        }
        self.notes: list[str] = []
        self._told = 0
        self._noted: set[str] = set()
        self._info_states: dict[str, InfoStates] = {}
        for game in games if config.exact else ():
            try:
                states = enumerate_info_states(beneath(game), limit=config.max_states)
                self._info_states[game.name] = states
            except GameError as error:  # too many states, or rules without information states
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
        """Return the notes that have not been returned before."""
        fresh, self._told = tuple(self.notes[self._told :]), len(self.notes)
        return fresh

    def measure(self, policy: Any, stream: Stream) -> dict[str, float]:
        """Return the metrics listed above for an agent that can also score actions."""
        metrics: dict[str, float] = {}
        ended, every_game = 0, self._matches()
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
                except GameError as error:  # this policy's actions have no probability of their own
                    self.notes.append(str(error))
                    del self._info_states[game.name]
            for name, entry, bot in self._opponents:
                own = stream.child(game.name).child(name)
                judge = self._judges.get(game.name)
                for starts in self._columns(game):
                    report = play_matches(
                        game,
                        policy,
                        bot,
                        games_per_seat=entry.games_per_seat,
                        stream=own,
                        judge=judge,
                        starts=starts,
                        on_finished=partial(self._finished, ended, every_game),
                    )
                    ended += game.num_seats * entry.games_per_seat
                    self._note(" ".join(report.notes), f"lost/{game.name}")
                    family = "match_seen" if starts.label == "seen" else "match"
                    metrics.update(match_metrics(game.name, name, report, family))
        return metrics

    def _finished(self, before: int, of: int, now: int) -> None:
        self._measuring(before + now, of)

    def _matches(self) -> int:
        each = sum(entry.games_per_seat for _, entry, _ in self._opponents)
        if not each:
            return 0
        return sum(each * game.num_seats * len(self._columns(game)) for game in self.games)

    def _columns(self, game: Environment) -> tuple[Starts, ...]:
        if game.name not in self._starts:
            self._starts[game.name] = (
                (every(game),) if self.met is None else columns(game, self.met)
            )
        return self._starts[game.name]

    def _note(self, note: str, about: str) -> None:
        """Take a note down; of what it is about there is one in a run."""
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
    """Return which weights a figure is of, in a word to be set behind it; "" where all are live.

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
    """Return the figures of a match report, per role."""
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
