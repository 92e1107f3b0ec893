"""The meta-strategy of a run's league: how much each member weighs, by a meta-solver.

Only Sparring's own solvers are run here: an address can name no code from elsewhere, and neither
can the configuration of a run that is looked at.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature as parameters
from typing import Any, NamedTuple

from sparring.config.checks import AVERAGE, LAST, PLAIN, POLICY
from sparring.config.parts import PluginConfig
from sparring.config.plugins.registry import built_in
from sparring.core.errors import SparringError
from sparring.core.records import PlayerRef, snapshot
from sparring.league.matchmakers.meta_strategy import SIDES, meta_strategy
from sparring.league.meta_game import (
    APART,
    TwoSides,
    answer_payoffs,
    member_payoffs,
    takes_opposed,
)
from sparring.league.payoffs import Payoffs, Results
from sparring.run.state import STATE, RunState
from sparring.view.http_requests import one_line
from sparring.view.league_members import ENGINE, TEXT, Told, folder_of, members_of, newest
from sparring.view.run_files import signature
from sparring.view.runs import Run

SLOT = "league.meta_solvers"
DEFAULT = "max_entropy_nash"  # where the run weighs its members by none
MOST = 64  # members that are weighed: some solvers take half a minute for twice as many
UNSOLVED = (SparringError, ArithmeticError, ValueError, TypeError)  # what becomes a sentence
KEPT = 32  # answers that are kept
Row = list[Any]


class Solver(NamedTuple):
    """A meta-solver, and who chose it."""

    written: Any  # a text or a mapping, as in a configuration
    source: str | None  # the name in the run's configuration; None: the reader, or nobody


class League(NamedTuple):
    """What a checkpoint says of a league."""

    members: Sequence[tuple[PlayerRef, Told]]  # oldest first
    book: Payoffs


class MetaStrategies:
    """The strategies that were asked for last, each solved once; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Any, ...], dict[str, Any]] = OrderedDict()

    def of(self, run: Run, asked: str = "", environment: str = "") -> dict[str, Any]:
        """Return the weights and the payoffs of the members in the newest checkpoint.

        Where there are no weights, ``why`` says the reason.

        Args:
            run: whose league it is.
            asked: name of a meta-solver; empty: the run's own, else ``max_entropy_nash``.
            environment: the label of one; empty: the run's solver decides, see ``labels_of``.
        """
        step, league = newest(run, (ENGINE, STATE), league_of, [])  # the page has the notes already
        own = solver_of(run.config)
        solver = Solver(asked, None) if asked else own or Solver(DEFAULT, None)
        weights, apart = environments_of(run.config), apart_in(run.config)
        found: dict[str, Any] = {"members": [], "why": "no checkpoint can be read"}
        if step is not None and league is not None:
            met = sorted({row.environment for row in league.book.rows})
            taken = labels_of(weights or dict.fromkeys(met, 1.0), solver, environment)
            files = [signature(folder_of(run, step) / name) for name in (ENGINE, STATE)]
            key = (run.number, step, *files, repr(solver.written), repr(taken), apart)
            with self._lock:
                if key not in self._known:
                    self._known[key] = solved(league, solver.written, taken, apart)
                    while len(self._known) > KEPT:
                        self._known.popitem(last=False)
                found = {**self._known[key], "environments": [*taken]}
        return {
            "run": run.number,
            "step": step,
            "solver": text_of(solver.written),
            "source": solver.source,
            "own": None if own is None else {"solver": text_of(own.written), "source": own.source},
            "solvers": list(built_in(SLOT)),
            "labels": [*weights],
            "apart": apart,
            **found,
        }


def solver_of(config: Mapping[str, Any]) -> Solver | None:
    """Return the meta-solver by which a run weighs its members; None where there is none.

    Args:
        config: the run's configuration.
    """
    league, matchmaker = (config.get(name) for name in ("league", "matchmaker"))
    answer = league.get("answer") if isinstance(league, Mapping) else None
    if isinstance(answer, str | Mapping) and answer not in (*PLAIN, ""):
        return Solver(answer, "league.answer")
    if isinstance(matchmaker, Mapping) and matchmaker.get("name") == "meta_strategy":
        default = parameters(meta_strategy).parameters["solver"].default
        return Solver(matchmaker.get("solver") or default, "matchmaker.solver")
    return None


def answer_said(config: Mapping[str, Any]) -> str:
    """Return who answers for a run, and so whose exploitability its figures are, in words.

    Args:
        config: the run's configuration.
    """
    league = config.get("league")
    answer = league.get("answer") if isinstance(league, Mapping) else None
    if answer in (None, "", POLICY):
        return "the policy as it is published"
    if answer == LAST:
        return "the learner's weights as they are (league.answer: last)"
    if answer == AVERAGE:
        return "the average of the weights (league.answer: average)"
    name = text_of(answer)
    mixture = "the mixture of the league's members"
    if apart_in(config):
        mixture = "a mixture of the league's members in each side"
    return f"{mixture} by {name} (league.answer: {name})"


def text_of(written: Any) -> str:
    """Return a solver in words: its name, and its options."""
    if not isinstance(written, Mapping):
        return str(written)
    options = (f"{key}={value}" for key, value in written.items() if key != "name")
    return " ".join([str(written.get("name")), *options])


def environments_of(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the weight of each environment that a run trains on, by its label.

    Args:
        config: the run's configuration.
    """
    rows = config.get("environments")
    found: dict[str, float] = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, Mapping):
            weight = row.get("weight", 1.0)
            found[str(row.get("label") or row.get("name"))] = (
                float(weight) if isinstance(weight, int | float) else 1.0
            )
    return {label: weight for label, weight in found.items() if weight > 0}


def labels_of(weights: Mapping[str, float], solver: Solver, asked: str = "") -> dict[str, float]:
    """Return the environments whose payoffs are weighed: the one that is asked for.

    Else all of them, as for the answer of a run; the matchmaker weighs each by itself, and the
    first one is shown.

    Args:
        weights: of all, by their labels.
        solver: who weighs them.
        asked: a label.
    """
    if asked in weights:
        return {asked: 1.0}
    first = list(weights)[:1] if solver.source == "matchmaker.solver" else list(weights)
    return {label: weights[label] for label in first}


def league_of(engine: Mapping[str, Any], state: Mapping[str, Any]) -> League:
    """Return the members of a checkpoint, as its payoff book knows them.

    Where it knows no policy's snapshot by name, those of one step are one member.

    Args:
        engine: what ``engine.json`` holds.
        state: what ``state.json`` holds.
    """
    book = RunState(owners=state).payoffs
    found = sorted(members_of(engine, state), key=lambda one: one[0].step or 0)
    named = {row.player for row in book.rows if row.player.name}
    if not any(member in named for member, _ in found):
        merged: dict[PlayerRef, Told] = {}
        for member, told in found:
            merged.setdefault(snapshot(member.step or 0), told)
        found = list(merged.items())
    return League(found, book)


def solved(
    league: League, written: Any, weights: Mapping[str, float], apart: bool = False
) -> dict[str, Any]:
    """Return the members with their weights, and the payoffs behind these.

    Where each of two sides has a population of its own, a member has a weight in each (``sides``),
    a row of the payoffs is a member in the first side, and a column one in the second.

    Args:
        league: members and payoff book.
        written: the meta-solver, as in a configuration.
        weights: of the environments, by their labels.
        apart: whether each side has a population of its own.
    """
    members = [member for member, _ in league.members]
    shown = [
        {"name": str(member), "tag": told.tag and told.tag[:TEXT]}
        for member, told in league.members
    ]
    if not members or not weights or len(members) > MOST:
        why = "no member is in the league yet; league.every says how often one is taken"
        if len(members) > MOST:
            why = f"the league has {len(members)} members, and at most {MOST} are weighed here"
        none: Row = [
            {**row, "sides": [None] * 2} if apart else {**row, "weight": None} for row in shown
        ]
        return {"members": none, "why": why}
    seats = two_seats(league.book, weights) if apart else None
    share: list[Row] = [[None] * len(members)] * (2 if apart else 1)
    solver, table, reason = None, None, None
    try:
        own = PluginConfig.model_validate(written)
        if own.name not in built_in(SLOT):
            raise SparringError(
                f"{own.name:.60} is none of Sparring's own meta-solvers, and no other is run "
                "here; choose one of them"
            )
        solver = own.bind(SLOT)
    except UNSOLVED as error:
        reason = one_line(error)
    try:
        if seats is None:
            game = member_payoffs(league.book, members, weights)
        else:
            sides = {label: TwoSides(weights[label], pair) for label, pair in seats.items()}
            opposed = solver is not None and takes_opposed(solver)
            game = answer_payoffs(league.book, members, sides, opposed=opposed)
        table = game.payoffs[0].tolist()
        if solver is not None:
            share = [side.tolist() for side in solver(game).sides[: len(share)]]
    except UNSOLVED as error:
        reason = reason or one_line(error)
    cells = cells_of(league.book, members, weights, seats)
    rows: Row = [
        {**row, "sides": pair} if apart else {**row, "weight": pair[0]}
        for row, pair in zip(shown, map(list, zip(*share, strict=True)), strict=True)
    ]
    return {"members": rows, "why": reason, "payoffs": table, **cells}


def apart_in(config: Mapping[str, Any]) -> bool:
    """Return whether a run's matchmakers weigh its members in each of two sides by themselves.

    Args:
        config: the run's configuration.
    """
    league = config.get("league")
    own = league.get("learners") if isinstance(league, Mapping) else None
    learners = own.values() if isinstance(own, Mapping) else ()
    asked = [config.get("matchmaker")]
    asked += [one.get("matchmaker") for one in learners if isinstance(one, Mapping)]
    return any(
        isinstance(one, Mapping) and one.get("name") == "meta_strategy" and one.get(SIDES) == APART
        for one in asked
    )


def two_seats(book: Payoffs, labels: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the first seats of two sides in each environment, as the book's rows have them.

    Args:
        book: the payoff book.
        labels: of environments of two sides; one that nobody has played has seats 0 and 1.
    """
    found = {}
    for label in labels:
        other = [row.seat for row in book.rows if row.environment == label and row.seat]
        found[label] = (0, min(other, default=1))
    return found


def cells_of(
    book: Payoffs,
    members: Sequence[PlayerRef],
    weights: Mapping[str, float],
    seats: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """Return the plays of each two members, their win rates, and how many have not met.

    Where results are exact (``exact``) there are no plays, and no need of any. The interval of a
    win rate is that of one environment; of several there is none.

    Args:
        book: the payoff book.
        members: oldest first.
        weights: of the environments, by their labels.
        seats: the first seat of each of two sides in each, where the row's member sits in the first
            side and the column's in the second; None: members sit in any side.
    """
    place = {member: number for number, member in enumerate(members)}
    found: dict[tuple[str, int, int], Results] = {}
    for row, results in book.rows.items():
        here = row.environment in weights and row.player in place and row.opponent in place
        if here and (seats is None or row.seat == seats[row.environment][0]):
            cell = (row.environment, place[row.player], place[row.opponent])
            found[cell] = found.get(cell, Results()) + results
    size = range(len(members))
    met_in = [
        [[found.get((label, i, j), Results()) for label in weights] for j in size] for i in size
    ]
    plays = [[[one.games for one in cell] for cell in row] for row in met_in]
    rates = None
    if len(weights) == 1:
        (label,) = weights
        rates = [[_rate(found.get((label, i, j))) for j in size] for i in size]
    if seats is None:
        met = [min(*plays[i][j], *plays[j][i]) for i in size for j in size if i < j]
    else:
        met = [min(cell) for row in plays for cell in row]
    exact = [[all(one.exact for one in cell) for cell in row] for row in met_in]
    counts = [
        [0 if known else sum(games) for games, known in zip(row, own, strict=True)]
        for row, own in zip(plays, exact, strict=True)
    ]
    told = {"counts": counts, "exact": exact, "rates": rates}
    return {**told, "pairs": len(met), "empty": met.count(0)}


def _rate(results: Results | None) -> Row | None:
    """Return a win rate and the ends of its interval; None where nothing was decided."""
    if results is None or not results.wins + results.draws + results.losses:
        return None
    return [results.win_rate(), *results.rate_interval()]
