"""sparring credit"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.box import SIMPLE
from rich.table import Column, Table

from sparring.api.credit_comparison import compare as compare_estimators
from sparring.cli.text import ENVIRONMENT, print_stderr
from sparring.core.errors import ConfigError
from sparring.measure.credit_lab import LabPlan, estimator_names
from sparring.report.credit_page import HEADS, cells, chart, summary, write_page
from sparring.report.terminal import PlainConsole

WIDTH = 200  # width of the table, in characters, if the output is not a terminal
app = typer.Typer(
    help="Measure advantage estimators against exact policy gradients.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def credit() -> None:
    """Measure advantage estimators against exact policy gradients."""


GameOption = Annotated[
    list[str] | None,
    typer.Option(
        *ENVIRONMENT, help="A game, e.g. kuhn_poker or 'leduc_poker style=full'; may be repeated."
    ),
]
PolicyOption = Annotated[
    str,
    typer.Option(
        help="random, improved (a random table after two exact steps), uniform, tiny (a model of "
        "random weights), or a run folder."
    ),
]
EstimatorsOption = Annotated[
    str, typer.Option(help="all, or a comma-separated list: rloo,mars:as_released,'gae lam=0.5'.")
]
EpisodesOption = Annotated[
    int, typer.Option(min=1, help="Games played, rounded up to whole batches.")
]
GroupSizeOption = Annotated[
    int, typer.Option(min=1, help="Games that share a deal; divides --batch.")
]
BatchOption = Annotated[
    int, typer.Option(min=1, help="Games per call of an estimator, as games per step in a run.")
]
CriticOption = Annotated[
    Literal["exact", "noisy", "zero"], typer.Option(help="The critic that estimators read.")
]
BurnInOption = Annotated[
    float, typer.Option(min=0, help="Share of the first batches that are not counted.")
]
PlayoutsOption = Annotated[int, typer.Option(min=1, help="Playouts from each position (vine_ppo).")]
RewardOption = Annotated[
    str, typer.Option(help="Reward instead of the game's payoffs: 'contribution by=difference'.")
]
MaxStatesOption = Annotated[
    int,
    typer.Option(min=1, help="Largest number of information states of a game that is enumerated."),
]
TimedOption = Annotated[
    bool, typer.Option("--time/--no-time", help="Measure the seconds that an estimator takes.")
]
PlotOption = Annotated[
    Path | None,
    typer.Option(help="Write a chart of bias against variance to this SVG file; one game only."),
]
PageOption = Annotated[
    Path | None, typer.Option(help="Write a page in Markdown, with a chart per game beside it.")
]


@app.command("compare")
def compare(
    game: GameOption = None,
    policy: PolicyOption = "random",
    estimators: EstimatorsOption = "all",
    episodes: EpisodesOption = 20_000,
    group_size: GroupSizeOption = 8,
    batch: BatchOption = 64,
    critic: CriticOption = "exact",
    burn_in: BurnInOption = 0.0,
    playouts: PlayoutsOption = 5,
    reward: RewardOption = "",
    seed: Annotated[int, typer.Option(help="Seed of the policy and the games.")] = 0,
    max_states: MaxStatesOption = 50_000,
    timed: TimedOption = True,
    plot: PlotOption = None,
    page: PageOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
) -> None:
    """Run every estimator on the same episodes.

    Report bias, variance and cosine against the exact policy gradient.
    """
    plan = LabPlan(
        episodes=episodes,
        group_size=group_size,
        batch_size=batch,
        critic=critic,
        burn_in=burn_in,
        playouts=playouts,
        reward=reward,
        seed=seed,
        timed=timed,
    )
    if plot is not None and len(game or ()) > 1:
        raise ConfigError(
            f"--plot {plot} draws one game, not {len(game or ())}; use --page for a chart of each."
        )
    names = estimator_names(estimators)
    result = compare_estimators(
        game or [], policy, names, plan, max_states=max_states, watch=print_stderr
    )
    if as_json:
        print(json.dumps(result, sort_keys=True))
    else:
        for report in result["games"]:
            _print_report(report, result["settings"])
    if plot is not None:
        _write_plot(result, plot)
    if page is not None:
        page_options: list[tuple[str, Any]] = [
            *(("environment", text) for text in game or ()),
            *(("policy", policy), ("estimators", estimators), ("episodes", episodes)),
            *(("group-size", group_size), ("batch", batch), ("critic", critic)),
            *(("burn-in", burn_in), ("playouts", playouts)),
            *([("reward", reward)] if reward else []),
            *(("seed", seed), ("max-states", max_states), ("page", page)),
        ]
        flags = " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in page_options)
        time_flag = "" if timed else " --no-time"
        files = write_page(result, page, f"sparring credit compare {flags}{time_flag}")
        print_stderr(f"Wrote {', '.join(map(str, files))}.")


def _print_report(report: dict[str, Any], settings: dict[str, Any]) -> None:
    on_terminal = sys.stdout.isatty()
    console = PlainConsole(width=None if on_terminal else WIDTH)
    rows = [row for row in report["rows"] if "refused" not in row]
    columns = (
        Column(head, no_wrap=not (index and on_terminal)) for index, head in enumerate(HEADS)
    )
    table = Table(*columns, title=report["game"], box=SIMPLE)
    for row in rows:
        table.add_row(row["estimator"], *cells(row))
    console.print(table)
    console.print(f"{summary(report, settings)} Brackets are 95 % intervals.")
    for row in report["rows"]:
        if "refused" in row:
            console.print(f"not measured: {row['estimator']}: {row['refused']}", style="yellow")


def _write_plot(result: dict[str, Any], path: Path) -> None:
    if len(result["games"]) > 1:
        raise ConfigError(
            f"--plot {path} draws one game, but {len(result['games'])} were measured; choose one "
            "with --environment."
        )
    try:
        path.write_text(chart(result["games"][0]) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--plot {path} cannot be written ({error}).") from None
    print_stderr(f"Wrote {path}.")
