"""Werewolf of four with SmolLM2: does one iteration of LSPO win more games than its start?

The start is what the run's own warm-up left: it imitates the scripted player, who speaks in
sentences. Both meet as the wolf and as the village. Kept per seed: the share of games that the wolf
wins, each player's share of legal replies, and how varied its speeches are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics
from studies.common import crossed
from studies.common.self_played import Arm
from studies.common.study import Setting, Study

START, LSPO = "start", "LSPO"
RECIPE = "lspo/werewolf-smol"
ARMS: dict[str, Arm] = {LSPO: (RECIPE, ())}
PAIRS = ((LSPO, START), (START, LSPO))  # the wolf first
WON = "wolf wins"
SIDES = ("wolf", "village")


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost: a run, then its matches with its start."""
    return crossed.cells(
        setting,
        ARMS,
        always=("evaluation.every=100000", "evaluation.opponents=[]"),
        bots={},
        pairs=PAIRS,
        measure=run_figures,
        starts={START: LSPO},
        shares=len(PAIRS),
    )


def run_figures(run: Path, stdout: str, run_command: RunCommand) -> dict[str, Any]:
    """Return of a run's last step the share of legal replies."""
    return {"legal replies": metrics(run)[-1]["legal_rate"]}


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row for each arm's run, and one for each pair, with the values of each seed."""
    return crossed.rows(
        setting,
        records,
        pairs=PAIRS,
        labels=lambda pair: dict(zip(SIDES, pair, strict=True)),
        figures=_figures,
    )


def _figures(match: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of a match: who wins, and how each side speaks."""
    figures = {WON: match["won"]}
    for side, legal, texts in zip(SIDES, match["legal"], match["said"], strict=True):
        figures |= {
            f"{side} legal": legal,
            f"{side} texts": texts["texts"],
            f"{side} distinct": texts["distinct"],
            f"{side} commonest": texts["commonest"] / max(texts["texts"], 1),
        }
    return figures


STUDY = Study(
    summary="Werewolf of four in free text: SmolLM2 before and after one iteration of LSPO",
    page="studies/werewolf/page.md",
    hours=2.6,
    setting={"seeds": 3, "arms": list(ARMS), "games": 200, "changes": []},
    quick={
        "seeds": 1,
        "games": 1,
        "changes": [
            "steps=1",
            "warmup.updates=1",
            "warmup.games=1",
            "rollout.games_per_step=1",
            "rollout.max_new_tokens=4",
            "knowledge.cfr_steps=1",
        ],
    },
    cells=cells,
    rows=rows,
)
