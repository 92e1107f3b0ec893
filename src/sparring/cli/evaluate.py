"""sparring evaluate"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sparring.engine.load import load_run
from sparring.report.measure import evaluate_run, league_of_run


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    games: Annotated[int, typer.Option(min=2, help="Games per seat against each opponent.")] = 500,
    opponent: Annotated[list[str] | None, typer.Option(help="Bots to play: random, mcts, cfr, minimax; default: random.")] = None,
    exact: Annotated[bool, typer.Option(help="Exploitability by enumeration, where the game is small enough.")] = True,
    checkpoint: Annotated[int | None, typer.Option(help="Step of the checkpoint; default the newest.")] = None,
    league: Annotated[bool, typer.Option("--league", help="Also rate the run's past selves, the policy and the bots.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the games played.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
) -> None:
    """Measure a run's policy: exact exploitability, seat-balanced matches with 95 % intervals, a league table."""
    config, engine, step = load_run(run, checkpoint)
    bots, limit = opponent or ["random"], config.evaluation.max_states
    result = evaluate_run(engine, opponents=bots, games_per_seat=games, exact=exact, max_states=limit, seed=seed)
    if league:
        result["league"] = league_of_run(engine, opponents=bots, games_per_seat=games, seed=seed)
    result = {"run": str(run), "step": step, **result}
    if as_json:
        print(json.dumps(result, sort_keys=True))
        return
    console = Console()
    for note in result["notes"]:
        console.print(f"[yellow]{note}[/yellow]", markup=True)
    table = Table("measure", "value", title=f"{config.name}, step {step}")
    for name, value in result["figures"].items():
        table.add_row(name, f"{value:.4f}")
    console.print(table)
    matches = Table("game", "opponent", "seat", "win", "win or draw", "return", "illegal", title="Matches, 95 % intervals")
    for row in result["matches"]:
        matches.add_row(*(str(row[key]) for key in ("game", "opponent", "role", "win", "win_or_draw", "return", "illegal")))
    console.print(matches)
    for entry in result.get("league", []):
        ratings = Table("player", "rating", "95 % interval", title=f"League: {entry['game']}")
        for row in entry["rows"]:
            ratings.add_row(row["name"], f"{row['rating']:.0f}", f"{row['low']:.0f} .. {row['high']:.0f}")
        console.print(ratings)
