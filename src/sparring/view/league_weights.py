"""The meta-strategy of a run's league: the weight of each member by a meta-solver.

Only Sparring's built-in solvers run here, so neither an address nor a viewed run's configuration
can start foreign code.
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
    is_two_sided,
    member_payoffs,
)
from sparring.league.payoffs import Payoffs, Results
from sparring.run.state import STATE, RunState
from sparring.view.http_requests import one_line
from sparring.view.league_members import ENGINE, TEXT, Lineage, folder_of, members_of, newest
from sparring.view.run_files import signature
from sparring.view.viewed_run import ViewedRun

SLOT = "league.meta_solvers"
DEFAULT = "max_entropy_nash"  # for runs without a meta-solver
MOST = 64  # most members with weights; some solvers take half a minute for twice as many
UNSOLVED = (SparringError, ArithmeticError, ValueError, TypeError)  # errors that become a sentence
KEPT = 32  # answers in the cache
Row = list[Any]


class Solver(NamedTuple):
    """A meta-solver, and the source of the choice."""

    written: Any  # a text or a mapping, as in a configuration
    source: str | None  # the name in the run's configuration; None: the reader's, or none


class League(NamedTuple):
    """The members and the payoff book of a checkpoint."""

    members: Sequence[tuple[PlayerRef, Lineage]]  # oldest first
    book: Payoffs


class MetaStrategies:
    """A thread-safe cache of solved meta-strategies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Any, ...], dict[str, Any]] = OrderedDict()

    def of(self, run: ViewedRun, chosen: str = "", environment: str = "") -> dict[str, Any]:
        """Return the weights and payoffs of the newest checkpoint's members, or the reason ``why``.

        Args:
            run: of the league.
            chosen: name of a meta-solver; empty: the run's own, else ``max_entropy_nash``.
            environment: the label of one; empty: the run's solver decides, see ``labels_of``.
        """
        step, league = newest(run, (ENGINE, STATE), league_of, [])  # the page has the notes already
        run_solver = solver_of(run.config)
        solver = Solver(chosen, None) if chosen else run_solver or Solver(DEFAULT, None)
        weights, apart = environments_of(run.config), has_separate_sides(run.config)
        result: dict[str, Any] = {"members": [], "why": "no checkpoint can be read"}
        if step is not None and league is not None:
            labels = sorted({row.environment for row in league.book.rows})
            shares = labels_of(weights or dict.fromkeys(labels, 1.0), solver, environment)
            files = [signature(folder_of(run, step) / name) for name in (ENGINE, STATE)]
            key = (run.number, step, *files, repr(solver.written), repr(shares), apart)
            with self._lock:
                if key not in self._known:
                    self._known[key] = solve_league(league, solver.written, shares, apart)
                    while len(self._known) > KEPT:
                        self._known.popitem(last=False)
                result = {**self._known[key], "environments": [*shares]}
        return {
            "run": run.number,
            "step": step,
            **_solver_fields(solver),
            "own": None if run_solver is None else _solver_fields(run_solver),
            "solvers": list(built_in(SLOT)),
            "labels": [*weights],
            "apart": apart,
            **result,
        }


def _solver_fields(solver: Solver) -> dict[str, Any]:
    return {"solver": text_of(solver.written), "source": solver.source}


def solver_of(config: Mapping[str, Any]) -> Solver | None:
    """Return the meta-solver in a run's configuration, or None.

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


def answer_in_words(config: Mapping[str, Any]) -> str:
    """Return in words the policy that represents a run, whose exploitability is measured.

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
    if has_separate_sides(config):
        mixture = "a mixture of the league's members in each side"
    return f"{mixture} by {name} (league.answer: {name})"


def text_of(solver: Any) -> str:
    """Return a solver's name and options as text."""
    if not isinstance(solver, Mapping):
        return str(solver)
    options = (f"{key}={value}" for key, value in solver.items() if key != "name")
    return " ".join([str(solver.get("name")), *options])


def environments_of(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the weight of each environment that a run trains on, by its label.

    Args:
        config: the run's configuration.
    """
    rows = config.get("environments")
    weights: dict[str, float] = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, Mapping):
            weight = row.get("weight", 1.0)
            weights[str(row.get("label") or row.get("name"))] = (
                float(weight) if isinstance(weight, int | float) else 1.0
            )
    return {label: weight for label, weight in weights.items() if weight > 0}


def labels_of(weights: Mapping[str, float], solver: Solver, chosen: str = "") -> dict[str, float]:
    """Return the environments whose payoffs are used: the chosen one, or else all.

    A matchmaker solves each environment alone; then the first one is used.

    Args:
        weights: of all, by their labels.
        solver: the meta-solver.
        chosen: a label, or "".
    """
    if chosen in weights:
        return {chosen: 1.0}
    first = list(weights)[:1] if solver.source == "matchmaker.solver" else list(weights)
    return {label: weights[label] for label in first}


def league_of(engine: Mapping[str, Any], state: Mapping[str, Any]) -> League:
    """Return the members of a checkpoint with its payoff book.

    If the book has no snapshots with policy names, the snapshots of one step are one member.

    Args:
        engine: the content of ``engine.json``.
        state: the content of ``state.json``.
    """
    book = RunState(owners=state).payoffs
    members = sorted(members_of(engine, state), key=lambda pair: pair[0].step or 0)
    players = {row.player for row in book.rows if row.player.name}
    if not any(member in players for member, _ in members):
        merged: dict[PlayerRef, Lineage] = {}
        for member, lineage in members:
            merged.setdefault(snapshot(member.step or 0), lineage)
        members = list(merged.items())
    return League(members, book)


def solve_league(
    league: League, written: Any, weights: Mapping[str, float], apart: bool = False
) -> dict[str, Any]:
    """Return the members with their weights and payoffs.

    If each of two sides has its own population, a member has a weight in each (``sides``); rows of
    the payoffs are members in the first side, columns members in the second.

    Args:
        league: members and payoff book.
        written: the meta-solver, as in a configuration.
        weights: of the environments, by their labels.
        apart: whether each side has a population of its own.
    """
    members = [member for member, _ in league.members]
    labels = [
        {"name": str(member), "tag": lineage.tag and lineage.tag[:TEXT]}
        for member, lineage in league.members
    ]
    if not members or not weights or len(members) > MOST:
        why = "no member is in the league yet; league.every says how often one is taken"
        if len(members) > MOST:
            why = f"the league has {len(members)} members, and at most {MOST} are weighed here"
        none: Row = [
            {**row, "sides": [None] * 2} if apart else {**row, "weight": None} for row in labels
        ]
        return {"members": none, "why": why}
    seats = two_seats(league.book, weights) if apart else None
    share: list[Row] = [[None] * len(members)] * (2 if apart else 1)
    solver, table, reason = None, None, None
    try:
        plugin = PluginConfig.model_validate(written)
        if plugin.name not in built_in(SLOT):
            raise SparringError(
                f"{plugin.name:.60} is not a built-in meta-solver, and this page runs no other; "
                "choose a built-in one"
            )
        solver = plugin.bind(SLOT)
    except UNSOLVED as error:
        reason = one_line(error)
    try:
        if seats is None:
            game = member_payoffs(league.book, members, weights)
        else:
            sides = {label: TwoSides(weights[label], pair) for label, pair in seats.items()}
            opposed = solver is not None and is_two_sided(solver)
            game = answer_payoffs(league.book, members, sides, opposed=opposed)
        table = game.payoffs[0].tolist()
        if solver is not None:
            share = [side.tolist() for side in solver(game).sides[: len(share)]]
    except UNSOLVED as error:
        reason = reason or one_line(error)
    cells = cells_of(league.book, members, weights, seats)
    rows: Row = [
        {**row, "sides": pair} if apart else {**row, "weight": pair[0]}
        for row, pair in zip(labels, map(list, zip(*share, strict=True)), strict=True)
    ]
    return {"members": rows, "why": reason, "payoffs": table, **cells}


def has_separate_sides(config: Mapping[str, Any]) -> bool:
    """Return whether a run's matchmakers weigh the members of two sides separately.

    Args:
        config: the run's configuration.
    """
    league = config.get("league")
    sections = league.get("learners") if isinstance(league, Mapping) else None
    learners = sections.values() if isinstance(sections, Mapping) else ()
    matchmakers = [config.get("matchmaker")]
    matchmakers += [entry.get("matchmaker") for entry in learners if isinstance(entry, Mapping)]
    return any(
        isinstance(entry, Mapping)
        and entry.get("name") == "meta_strategy"
        and entry.get(SIDES) == APART
        for entry in matchmakers
    )


def two_seats(book: Payoffs, labels: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the first seats of two sides in each environment, from the book's rows.

    Args:
        book: the payoff book.
        labels: of environments of two sides; one without plays has seats 0 and 1.
    """
    seats = {}
    for label in labels:
        other = [row.seat for row in book.rows if row.environment == label and row.seat]
        seats[label] = (0, min(other, default=1))
    return seats


def cells_of(
    book: Payoffs,
    members: Sequence[PlayerRef],
    weights: Mapping[str, float],
    seats: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """Return the plays and win rates of each pair of members, and the number of pairs without any.

    Exact results (``exact``) need no plays. Win rates exist only for one environment.

    Args:
        book: the payoff book.
        members: oldest first.
        weights: of the environments, by their labels.
        seats: by environment, the first seats of two sides: rows are members in the first side and
            columns in the second; None: members sit in any side.
    """
    place = {member: number for number, member in enumerate(members)}
    cells: dict[tuple[str, int, int], Results] = {}
    for row, results in book.rows.items():
        counts_here = row.environment in weights and row.player in place and row.opponent in place
        if counts_here and (seats is None or row.seat == seats[row.environment][0]):
            cell = (row.environment, place[row.player], place[row.opponent])
            cells[cell] = cells.get(cell, Results()) + results
    size = range(len(members))
    results_of = [
        [[cells.get((label, i, j), Results()) for label in weights] for j in size] for i in size
    ]
    plays = [[[result.games for result in cell] for cell in row] for row in results_of]
    rates = None
    if len(weights) == 1:
        (label,) = weights
        rates = [[_win_rate_row(cells.get((label, i, j))) for j in size] for i in size]
    if seats is None:
        least_plays = [min(*plays[i][j], *plays[j][i]) for i in size for j in size if i < j]
    else:
        least_plays = [min(cell) for row in plays for cell in row]
    exact = [[all(result.exact for result in cell) for cell in row] for row in results_of]
    counts = [
        [0 if is_exact else sum(games) for games, is_exact in zip(row, exact_row, strict=True)]
        for row, exact_row in zip(plays, exact, strict=True)
    ]
    tables = {"counts": counts, "exact": exact, "rates": rates}
    return {**tables, "pairs": len(least_plays), "empty": least_plays.count(0)}


def _win_rate_row(results: Results | None) -> Row | None:
    if results is None or not results.wins + results.draws + results.losses:
        return None
    return [results.win_rate(), *results.rate_interval()]
