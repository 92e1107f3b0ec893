"""The meta-strategy of a run's league: the weights that a meta-solver gives to the members.

Only built-in solvers run here, so that no request and no viewed run can start foreign code.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature as parameters
from typing import Any, NamedTuple

from sparring.config.checks import AVERAGE, LAST, NON_MIXTURE_ANSWERS, POLICY
from sparring.config.parts import PluginConfig
from sparring.config.plugins.registry import built_in
from sparring.core.errors import SparringError
from sparring.core.records import PlayerRef, snapshot
from sparring.league.matchmakers.meta_strategy import SIDES, meta_strategy
from sparring.league.meta_game import APART, TwoSides, answer_payoffs, is_two_sided, member_payoffs
from sparring.league.payoffs import Payoffs, Results
from sparring.run.state import STATE, RunState
from sparring.view.http_requests import one_line
from sparring.view.league_members import (
    ENGINE,
    MAX_TAG,
    Lineage,
    checkpoint_folder,
    members_of,
    read_newest,
)
from sparring.view.run_files import signature
from sparring.view.viewed_run import ViewedRun

SLOT = "league.meta_solvers"
DEFAULT = "max_entropy_nash"  # solver for runs without a meta-solver
MAX_MEMBERS = 64  # with twice as many members some solvers take half a minute
SOLVER_ERRORS = (SparringError, ArithmeticError, ValueError, TypeError)  # shown as a note
CACHE_SIZE = 32  # largest number of solved meta-strategies in the cache
Row = list[Any]


class Solver(NamedTuple):
    """A meta-solver, and where it was chosen."""

    config: Any  # a string or a mapping, as in a configuration
    source: str | None  # configuration key; None: chosen by the reader, or the default


class League(NamedTuple):
    """The members and the payoff book of a checkpoint."""

    members: Sequence[tuple[PlayerRef, Lineage]]  # oldest first
    book: Payoffs


class MetaStrategies:
    """A thread-safe cache of solved meta-strategies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[Any, ...], dict[str, Any]] = OrderedDict()

    def of(self, run: ViewedRun, solver_name: str = "", environment: str = "") -> dict[str, Any]:
        """Return the members' weights and payoffs in the newest checkpoint, or a reason in ``why``.

        Args:
            run: run of the league.
            solver_name: name of a meta-solver; empty: the run's, or else ``max_entropy_nash``.
            environment: a label; empty: see ``labels_of``.
        """
        step, league = read_newest(run, (ENGINE, STATE), league_of, [])  # the page shows the notes
        run_solver = solver_of(run.config)
        solver = Solver(solver_name, None) if solver_name else run_solver or Solver(DEFAULT, None)
        label_weights, has_sides = environments_of(run.config), has_separate_sides(run.config)
        result: dict[str, Any] = {"members": [], "why": "no checkpoint can be read"}
        if step is not None and league is not None:
            labels = sorted({row.environment for row in league.book.rows})
            shares = labels_of(label_weights or dict.fromkeys(labels, 1.0), solver, environment)
            files = [signature(checkpoint_folder(run, step) / name) for name in (ENGINE, STATE)]
            key = (run.number, step, *files, repr(solver.config), repr(shares), has_sides)
            with self._lock:
                if key not in self._cache:
                    self._cache[key] = solve_league(league, solver.config, shares, has_sides)
                    while len(self._cache) > CACHE_SIZE:
                        self._cache.popitem(last=False)
                result = {**self._cache[key], "environments": [*shares]}
        return {
            "run": run.number,
            "step": step,
            **_solver_fields(solver),
            "own": None if run_solver is None else _solver_fields(run_solver),
            "solvers": list(built_in(SLOT)),
            "labels": [*label_weights],
            "apart": has_sides,
            **result,
        }


def _solver_fields(solver: Solver) -> dict[str, Any]:
    return {"solver": text_of(solver.config), "source": solver.source}


def solver_of(config: Mapping[str, Any]) -> Solver | None:
    """Return the meta-solver in a run's configuration, or None.

    Args:
        config: the run's configuration.
    """
    league, matchmaker = (config.get(name) for name in ("league", "matchmaker"))
    answer = league.get("answer") if isinstance(league, Mapping) else None
    if isinstance(answer, str | Mapping) and answer not in (*NON_MIXTURE_ANSWERS, ""):
        return Solver(answer, "league.answer")
    if isinstance(matchmaker, Mapping) and matchmaker.get("name") == "meta_strategy":
        default = parameters(meta_strategy).parameters["solver"].default
        return Solver(matchmaker.get("solver") or default, "matchmaker.solver")
    return None


def describe_answer(config: Mapping[str, Any]) -> str:
    """Describe the answer of a run: the policy that is measured.

    Args:
        config: the run's configuration.
    """
    league = config.get("league")
    answer = league.get("answer") if isinstance(league, Mapping) else None
    if answer in (None, "", POLICY):
        return "the published policy"
    if answer == LAST:
        return "the learner's current weights (league.answer: last)"
    if answer == AVERAGE:
        return "the EMA weights (league.answer: average)"
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


def labels_of(weights: Mapping[str, float], solver: Solver, only: str = "") -> dict[str, float]:
    """Return the weights of the environments whose payoffs are used: the chosen one, or all.

    A matchmaker solves each environment separately; then only the first one is used.

    Args:
        weights: weight of each environment, by label.
        solver: the meta-solver.
        only: label of the chosen environment; "": none is chosen.
    """
    if only in weights:
        return {only: 1.0}
    labels = list(weights)[:1] if solver.source == "matchmaker.solver" else list(weights)
    return {label: weights[label] for label in labels}


def league_of(engine: Mapping[str, Any], state: Mapping[str, Any]) -> League:
    """Return the members of a checkpoint with its payoff book.

    If the book has no snapshots with policy names, all snapshots of a step are one member.

    Args:
        engine: the content of ``engine.json``.
        state: the content of ``state.json``.
    """
    book = RunState(owners=state).payoffs
    members = sorted(members_of(engine, state), key=lambda pair: pair[0].step or 0)
    players = {row.player for row in book.rows if row.player.name}
    if not any(member in players for member, _ in members):
        lineage_of: dict[PlayerRef, Lineage] = {}
        for member, lineage in members:
            lineage_of.setdefault(snapshot(member.step or 0), lineage)
        members = list(lineage_of.items())
    return League(members, book)


def solve_league(
    league: League, solver_config: Any, weights: Mapping[str, float], has_sides: bool = False
) -> dict[str, Any]:
    """Return the members with their weights and payoffs.

    With a population per side, a member has two weights (``sides``); rows of the payoffs are
    members in the first side, columns are members in the second side.

    Args:
        league: members and payoff book.
        solver_config: the meta-solver, as in a configuration.
        weights: weight of each environment, by label.
        has_sides: whether each of two sides has its own population.
    """
    members = [member for member, _ in league.members]
    labels = [
        {"name": str(member), "tag": lineage.tag and lineage.tag[:MAX_TAG]}
        for member, lineage in league.members
    ]
    if not members or not weights or len(members) > MAX_MEMBERS:
        why = "the league has no member yet; league.every sets when snapshots are taken"
        if len(members) > MAX_MEMBERS:
            why = f"the league has {len(members)} members; this page weighs at most {MAX_MEMBERS}"
        unweighted: Row = [
            {**row, "sides": [None] * 2} if has_sides else {**row, "weight": None} for row in labels
        ]
        return {"members": unweighted, "why": why}
    first_seats = two_seats(league.book, weights) if has_sides else None
    side_weights: list[Row] = [[None] * len(members)] * (2 if has_sides else 1)
    solver, payoffs, reason = None, None, None
    try:
        plugin = PluginConfig.model_validate(solver_config)
        if plugin.name not in built_in(SLOT):
            raise SparringError(
                f"{plugin.name:.60} is not a built-in meta-solver, and this page runs only those; "
                "choose a built-in one"
            )
        solver = plugin.bind(SLOT)
    except SOLVER_ERRORS as error:
        reason = one_line(error)
    try:
        if first_seats is None:
            meta_game = member_payoffs(league.book, members, weights)
        else:
            sides = {name: TwoSides(weights[name], pair) for name, pair in first_seats.items()}
            is_opposed = solver is not None and is_two_sided(solver)
            meta_game = answer_payoffs(league.book, members, sides, opposed=is_opposed)
        payoffs = meta_game.payoffs[0].tolist()
        if solver is not None:
            side_weights = [side.tolist() for side in solver(meta_game).sides[: len(side_weights)]]
    except SOLVER_ERRORS as error:
        reason = reason or one_line(error)
    cells = cells_of(league.book, members, weights, first_seats)
    weight_lists = map(list, zip(*side_weights, strict=True))
    rows: Row = [
        {**row, "sides": by_side} if has_sides else {**row, "weight": by_side[0]}
        for row, by_side in zip(labels, weight_lists, strict=True)
    ]
    return {"members": rows, "why": reason, "payoffs": payoffs, **cells}


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
        labels: labels of two-sided environments; without episodes the seats are 0 and 1.
    """
    seats = {}
    for label in labels:
        other_seats = [row.seat for row in book.rows if row.environment == label and row.seat]
        seats[label] = (0, min(other_seats, default=1))
    return seats


def cells_of(
    book: Payoffs,
    members: Sequence[PlayerRef],
    weights: Mapping[str, float],
    first_seats: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """Return episodes and win rates of each pair, and the number of pairs without episodes.

    Exact results (``exact``) need no episodes. Win rates exist only for a single environment.

    Args:
        book: the payoff book.
        members: oldest first.
        weights: weight of each environment, by label.
        first_seats: by environment, the first seat of each of two sides: rows are members in the
            first side, columns members in the second side; None: members play any side.
    """
    index_of = {member: number for number, member in enumerate(members)}
    cells: dict[tuple[str, int, int], Results] = {}
    for row, results in book.rows.items():
        is_used = row.environment in weights and row.player in index_of and row.opponent in index_of
        if is_used and (first_seats is None or row.seat == first_seats[row.environment][0]):
            cell = (row.environment, index_of[row.player], index_of[row.opponent])
            cells[cell] = cells.get(cell, Results()) + results
    indices = range(len(members))
    results_by_pair = [
        [[cells.get((label, i, j), Results()) for label in weights] for j in indices]
        for i in indices
    ]
    plays = [[[result.games for result in cell] for cell in row] for row in results_by_pair]
    rates = None
    if len(weights) == 1:
        (label,) = weights
        rates = [[_win_rate_row(cells.get((label, i, j))) for j in indices] for i in indices]
    if first_seats is None:
        least_plays = [min(*plays[i][j], *plays[j][i]) for i in indices for j in indices if i < j]
    else:
        least_plays = [min(cell) for row in plays for cell in row]
    exact = [[all(result.exact for result in cell) for cell in row] for row in results_by_pair]
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
