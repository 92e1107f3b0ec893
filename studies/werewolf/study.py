"""Werewolf of three and of four: exact exploitability of LSPO, SLA and self-play.

A wolf, a seer and a villager who claim roles and say what the seer saw; and a wolf, a seer and two
villagers who say what the seer saw. All arms play as many games. Kept per seed, at every step that
the run evaluates: what each team gains by its best single seat, and as one player who sees all
that its seats see (``measure.team_bounds``); the team's best joint plan lies between.

Starts are "all": the figures are of every play of the game.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from sparring.core.errors import RunError
from studies.common.study import Setting, Study

LSPO, SLA, MIRROR = "LSPO", "SLA", "self-play, MARS"
THREE, FOUR = 3, 4  # players
OPTIONS = {
    THREE: "{players: 3, tie: none, rounds: 1, abstain: false, say: [claim, result]}",
    FOUR: "{players: 4, tie: none, rounds: 1, abstain: false, say: [result]}",
}
LARGE = "evaluation.max_states=50000"  # the game of four has 13,000 and 32 times as many histories
GAMES = {
    THREE: (f"environments.0.options={OPTIONS[THREE]}", "model.context=64"),
    FOUR: (f"environments.0.options={OPTIONS[FOUR]}", "model.context=96", LARGE),
}
CHOSEN = (  # SLA's game of four: as its recipe's of three
    f"environments.0.options={{environment: {{name: werewolf, options: {OPTIONS[FOUR]}}}, "
    "count: 3, diverse: true, shuffle: false}",
    "model.context=160",
    LARGE,
)
PLAIN = (  # what LSPO's recipe has too
    "environments.0.illegal.penalty=0.5",
    "evaluation.exact=true",
    "evaluation.every=20",
    "evaluation.opponents=[]",
)
ARMS: dict[tuple[int, str], tuple[str, tuple[str, ...]]] = {
    (THREE, LSPO): ("lspo/werewolf-tiny", ()),
    (THREE, SLA): ("sla/werewolf-claims-tiny", ()),
    (THREE, MIRROR): ("werewolf/tiny", (*GAMES[THREE], *PLAIN)),
    (FOUR, LSPO): ("lspo/werewolf-tiny", (*GAMES[FOUR], "knowledge.cfr_steps=200")),  # 45 s each
    (FOUR, SLA): ("sla/werewolf-claims-tiny", CHOSEN),
    (FOUR, MIRROR): ("werewolf/tiny", (*GAMES[FOUR], *PLAIN)),
}
WOLF, VILLAGE = "the wolf", "the village"
TEAMS = (WOLF, VILLAGE)
ENDS = {"one_seat": "by one seat", "as_one": "as one player"}
STEPS = (1, 20, 40, 60)


def figure(end: str, team: str, step: int) -> str:
    """Return the name of a team's exploitability after a step."""
    return f"gain of {team}, {ENDS[end]}, after step {step}"


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    result = []
    for seed in range(setting["seeds"]):
        for players, arm in ARMS:
            if players in setting["players"]:
                recipe, arm_changes = ARMS[players, arm]
                overrides = [f"seed={seed}", "threads=1", *arm_changes, *setting["changes"]]
                folder = f"{players}-{arm}-{seed}"
                result.append(
                    training_cell((players, arm, seed), folder, recipe, overrides, run_figures)
                )
    return result


def run_figures(run: Path, stdout: str, run_command: RunCommand) -> dict[str, Any]:
    """Return the gains of a best response against each team at every evaluation, and legal replies.

    Raises:
        RunError: its last step has no exact figures.
    """
    figures, lines = dict[str, Any](), metrics(run)
    for line in lines:
        for name, value in line.items():
            end, _, rest = name.partition("_exploitability/")
            if end in ENDS and "/" in rest:
                team = WOLF if rest.endswith("/wolf") else VILLAGE
                figures[figure(end, team, line["step"])] = value
    if figure("as_one", WOLF, lines[-1]["step"]) not in figures:
        raise RunError(f"{run} has no exact figures; `evaluation.max_states` may be too small.")
    return {**figures, "legal replies": lines[-1]["legal_rate"]}


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per game and arm, with the value of each seed."""

    def labels(players: int, arm: str) -> Row:
        return {"players": players, "arm": arm, "starts": "all"}

    return seed_rows(records, labels, dict)


STUDY = Study(
    summary="Werewolf of three and four: exact exploitability of LSPO, SLA and self-play, 5 seeds",
    page="studies/werewolf/page.md",
    hours=1.1,
    setting={"seeds": 5, "players": [THREE, FOUR], "changes": []},
    quick={
        "seeds": 1,
        "players": [THREE],
        "changes": ["steps=1", "warmup.updates=2", "rollout.games_per_step=32"],
    },
    cells=cells,
    rows=rows,
)
