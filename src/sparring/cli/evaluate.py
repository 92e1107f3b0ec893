"""sparring evaluate"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Column, Table

from sparring.api.measurement import measure
from sparring.api.suite_evaluation import SuiteEvaluation
from sparring.api.suite_player import Player, agent_player, run_player
from sparring.cli.text import ENVIRONMENT, print_stderr
from sparring.core.errors import ConfigError
from sparring.core.trust import trust_typed
from sparring.measure.agent_spec import parse_agent
from sparring.measure.oracle_choice import parse_oracle
from sparring.measure.oracle_regret import BUDGET
from sparring.report import match_tables as tables
from sparring.report.terminal import PlainConsole

WIDTH = 120  # width of the tables, in characters, if the output is not a terminal
OUTCOMES = ("wins", "draws", "losses")


def show_games(result: dict[str, Any]) -> None:
    """Print results on games as tables."""
    console = PlainConsole(width=None if sys.stdout.isatty() else WIDTH)
    for note in result["notes"]:
        console.print(note, style="yellow")
    if "answer" in result:
        console.print(f"This measures a {result['answer']}.")
    title = result.get("agent") or "{run}, step {step}, {weights}".format_map(result)
    table = tables.figure_table(result, title)
    if table.row_count:
        console.print(table)
        for line in tables.legend(result["figures"]):
            console.print(line)
    else:
        console.print(f"This measures {title}.", markup=False, soft_wrap=True)
    console.print(tables.match_table(result["matches"]))
    oracle_table = tables.oracle_table(result["matches"])
    if oracle_table is not None:
        console.print(oracle_table)
    if "self_plays" in result:
        console.print(tables.self_plays_table(result["self_plays"]))
        figures_table = tables.environment_figures_table(result["self_plays"])
        if figures_table is not None:
            console.print(figures_table)
    for game, rows in groupby(result.get("adaptation", ()), lambda row: row["game"]):
        trial_rows = list(rows)
        console.print(tables.adaptation_table(game, trial_rows))
        for reason in tables.missing_value_reasons(trial_rows):
            console.print(reason, style="yellow")
    for entry in result.get("league", []):
        ratings = Table(
            "player",
            "rating",
            "95 % interval",
            title=f"League: {entry['game']}, {entry['starts']} starts",
        )
        for row in entry["rows"]:
            ratings.add_row(
                row["name"], f"{row['rating']:.0f}", f"{row['low']:.0f} .. {row['high']:.0f}"
            )
        console.print(ratings)
    for line in result["verdicts"]:
        console.print(line)


def show_suite(report: dict[str, Any], path: Path) -> None:
    """Print a suite's report as tables."""
    console = PlainConsole(width=None if sys.stdout.isatty() else WIDTH)
    player = ", ".join(
        f"{key} {value}" for key, value in report["player"].items() if value not in (None, {})
    )
    title = f"Suite {report['suite']}: {player}. 95 % intervals"
    headers = ("row", "games", "win/draw/loss", "mean return", "illegal", "score", "score by seat")
    table = Table(
        *(Column(text, no_wrap=text in ("row", "mean return", "score")) for text in headers),
        title=title,
        box=SIMPLE,
    )
    exact_table = Table("row", "measure", "value", title="Exact")
    for row in report["rows"]:
        starts_text = "" if row["starts"] == "all" else f" ({row['starts']} starts)"
        name = row["name"] + starts_text + ("" if row["in_totals"] else " *")
        if not row["measured"]:
            table.add_row(name, "not measured")
        elif row["kind"] == "exact":
            for index, (measure_name, value) in enumerate(row["figures"].items()):
                exact_table.add_row("" if index else name, measure_name, f"{value:.4f}")
        else:
            by_seat = " / ".join(
                f"{seat['role']} {seat['score']['mean']:.1f}"
                for seat in row["seats"]
                if seat["score"] is not None
            )
            table.add_row(name, *_row_cells(row["overall"]), by_seat or "-")
    console.print(table)
    suite_table = tables.suite_table(report["rows"])
    if suite_table is not None:
        console.print(suite_table)
    if exact_table.row_count:
        console.print(exact_table)
    if not all(row["in_totals"] for row in report["rows"]):
        console.print("* not part of the totals")
    totals = Table("total", "games", "score", title="Mean score over games")
    for name, value in report["totals"].items():
        if value is not None:
            totals.add_row(
                name.replace("_", " "), str(value["games"]), tables.interval_text(value, 1)
            )
    console.print(totals)
    for row in report["rows"]:
        for note in row["notes"]:
            console.print(f"{row['name']}: {note}", style="yellow")
    console.print(
        f"Saved in {path}; scores are 100 * (mean return - low) / (high - low), see docs/suites.md."
    )


def _row_cells(figures: dict[str, Any]) -> list[str]:
    outcomes = "/".join(str(figures[key]) for key in OUTCOMES) if "wins" in figures else "-"
    mean, illegal_share = figures["return"], figures["illegal"]["mean"]
    half_width = "" if mean["high"] is None else f" ± {mean['high'] - mean['mean']:.2f}"
    score = "-" if figures["score"] is None else tables.interval_text(figures["score"], 1)
    return [
        str(figures["games"]),
        outcomes,
        f"{mean['mean']:.2f}{half_width}",
        "-" if illegal_share is None else f"{illegal_share:.1%}",
        score,
    ]


GAMES = 500  # games per seat, if neither --games nor --suite is given
NO_ORACLE = "none"


SuiteOption = Annotated[
    str | None, typer.Option(help="A suite, e.g. mars or vpr, or the path of a YAML file.")
]
AgentOption = Annotated[
    str | None,
    typer.Option(help="Measure this agent instead of a run, e.g. 'endpoint model=NAME'."),
]
GameOption = Annotated[
    list[str] | None,
    typer.Option(*ENVIRONMENT, help="A game instead of the run's, e.g. 'sudoku size=6'."),
]
GamesOption = Annotated[
    int | None, typer.Option(min=2, help="Games per seat; default: the suite's number, else 500.")
]
OpponentOption = Annotated[
    list[str] | None, typer.Option(help="Bots to play, e.g. random or 'mcts simulations=1000'.")
]
ExactOption = Annotated[
    bool, typer.Option(help="Exploitability by enumeration, where the game is small enough.")
]
OracleOption = Annotated[
    str | None,
    typer.Option(
        help=(
            "Judges the moves: e.g. minimax, 'cfr iterations=1000', none; default: the oracle of "
            "the run or suite, else an exact one."
        )
    ),
]
OracleTurnsOption = Annotated[
    int | None, typer.Option(min=1, help="Turns judged per game, opponent and seat; default 2000.")
]
CheckpointOption = Annotated[
    int | None, typer.Option(help="Step of the checkpoint; default the newest.")
]
TemperatureOption = Annotated[
    float | None,
    typer.Option(help="Sampling temperature, with --suite; default: as in training."),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        help="If the run has several policies: the one that plays all seats. By default each plays "
        "its roles."
    ),
]
AnswerOption = Annotated[
    str | None,
    typer.Option(
        help="What is measured: policy, last, or a mixture of the run's snapshots by a "
        "meta-solver such as nash; default: the run's league.answer."
    ),
]
LeagueOption = Annotated[
    bool, typer.Option("--league", help="Also rate the run's snapshots, the policy and the bots.")
]
SelfPlaysOption = Annotated[
    int | None,
    typer.Option(
        min=2, help="Also play this many games of self-play, and count how many are different."
    ),
]
AdaptationOption = Annotated[
    bool,
    typer.Option(
        "--adaptation",
        help="Also measure the return of each attempt, in environments with several attempts, and "
        "the gain over attempts, by opponent.",
    ),
]
BestOfOption = Annotated[
    int,
    typer.Option(
        min=1, max=1024, help="Candidates for each turn; the oracle's best one is played."
    ),
]
InFlightOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Games at once, without --suite; default: the limit of the run or player, else 64.",
    ),
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Processes, with --suite; default one per core.")
]
OutOption = Annotated[
    Path | None, typer.Option(help="Folder for the results of a suite; default the run folder.")
]


def evaluate(
    run: Annotated[Path | None, typer.Argument(help="Run folder.")] = None,
    suite: SuiteOption = None,
    agent: AgentOption = None,
    game: GameOption = None,
    games: GamesOption = None,
    opponent: OpponentOption = None,
    exact: ExactOption = True,
    oracle: OracleOption = None,
    oracle_turns: OracleTurnsOption = None,
    checkpoint: CheckpointOption = None,
    temperature: TemperatureOption = None,
    policy: PolicyOption = None,
    answer: AnswerOption = None,
    league: LeagueOption = False,
    self_plays: SelfPlaysOption = None,
    adaptation: AdaptationOption = False,
    best_of: BestOfOption = 1,
    in_flight: InFlightOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the games played.")] = 0,
    workers: WorkersOption = None,
    out: OutOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
) -> None:
    """Measure a policy by exploitability, matches, regret, a league table or a suite.

    Exploitability is exact; matches are seat-balanced with 95 % intervals.
    """
    if (run is None) == (agent is None):
        raise ConfigError(
            "Name either a run folder or --agent, e.g. `sparring evaluate runs/demo --suite mars`."
        )
    trust_typed([agent, *(opponent or ())])
    bots = [parse_agent(text) for text in opponent or ()]
    oracle_spec = None if oracle in (None, NO_ORACLE) else parse_oracle(str(oracle))
    if suite is None:
        _refuse_suite_options(agent if not game else None, temperature, workers, out)
        _refuse_conflicts(agent, game, policy, answer, league)
        result = measure(
            run,
            agent,
            checkpoint=checkpoint,
            only=policy,
            names=game or [],
            bots=bots,
            games_per_seat=games or GAMES,
            exact=exact,
            league=league,
            self_plays=self_plays or 0,
            adaptation=adaptation,
            seed=seed,
            oracle=oracle_spec,
            use_oracle=oracle != NO_ORACLE,
            oracle_turns=oracle_turns or BUDGET,
            answer=answer,
            best_of=best_of,
            in_flight=in_flight,
        )
        _print_result(result, as_json, show_games)
        return
    if game or oracle_turns:
        raise ConfigError(
            "--environment and --oracle-turns cannot be used with --suite: the suite names the "
            "games, and all turns are judged. Leave out these options or --suite."
        )
    if league or self_plays or adaptation or best_of > 1 or in_flight or not exact:
        raise ConfigError(
            "--league, --self-plays, --adaptation, --best-of, --in-flight and --no-exact cannot be "
            "used with --suite: the suite says what is measured."
        )
    evaluation = SuiteEvaluation(
        suite,
        _make_player(run, agent, checkpoint, temperature, policy, answer),
        opponents=bots,
        games=games,
        seed=seed,
        folder=out or run or Path(),
        oracle=oracle_spec,
        use_oracle=oracle != NO_ORACLE,
    )
    report = _run_suite(evaluation, workers)
    _print_result(report, as_json, lambda result: show_suite(result, evaluation.path))


def _run_suite(evaluation: SuiteEvaluation, workers: int | None) -> dict[str, Any]:
    try:
        return evaluation.run(workers=workers, watch=print_stderr)
    except KeyboardInterrupt:
        print_stderr(
            f"Finished results are in {evaluation.path}; the same command continues from there."
        )
        raise


def _print_result(
    result: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]
) -> None:
    if as_json:
        print(json.dumps(result, sort_keys=True))
    else:
        show(result)


def _refuse_suite_options(
    agent: str | None, temperature: float | None, workers: int | None, out: Path | None
) -> None:
    options = {"--agent": agent, "--temperature": temperature, "--workers": workers, "--out": out}
    for option, value in options.items():
        if value is not None:
            if option == "--agent":
                raise ConfigError(
                    "--agent needs a suite or a game; add --suite mars or --environment "
                    "kuhn_poker, for example."
                )
            raise ConfigError(f"{option} needs --suite, e.g. --suite mars.")


def _refuse_conflicts(
    agent: str | None, game: list[str] | None, policy: str | None, answer: str | None, league: bool
) -> None:
    if league and (game or agent):
        raise ConfigError(
            "--league rates a run's snapshots in its games; leave --environment and --agent out."
        )
    if answer and (policy or agent):
        raise ConfigError(
            "--answer chooses which policy of a run is measured; leave --policy and --agent out."
        )
    if policy and (league or agent):
        raise ConfigError("--policy chooses one policy of a run; leave --league and --agent out.")


def _make_player(
    run: Path | None,
    agent: str | None,
    checkpoint: int | None,
    temperature: float | None,
    policy: str | None,
    answer: str | None,
) -> Player:
    _refuse_conflicts(agent, None, policy, answer, league=False)
    if run is not None:
        return run_player(run, checkpoint, temperature, policy, answer)
    if any(value is not None for value in (temperature, checkpoint, policy)):
        raise ConfigError(
            "--temperature, --checkpoint and --policy need a run; for an agent, write the "
            "temperature in --agent, e.g. 'endpoint model=NAME temperature=0.6'."
        )
    return agent_player(parse_agent(str(agent)))
