"""Werewolf of three with claims: what can be gained against LSPO, SLA and self-play, exactly.

A wolf, a seer and a villager; all arms play as many games. Kept per seed, at every step that the
run evaluates: what each team gains by its best single seat, and as one player who sees all that
its seats see (``measure.team_ends``); the team's best joint plan lies between.

Starts are "all": the figures are of every play of the game.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.experiments.cells import metrics
from sparring.experiments.study import Ask, Cell, Found, Row, Setting, Study, seed_rows, training

LSPO, SLA, MIRROR = "LSPO", "SLA", "self-play, MARS"
GAME = "{players: 3, tie: none, rounds: 1, abstain: false, say: [claim, result]}"
ARMS = {
    LSPO: ("lspo/werewolf-tiny", ()),
    SLA: ("sla/werewolf-claims-tiny", ()),
    MIRROR: (
        "werewolf/tiny",
        (
            f"environments.0.options={GAME}",
            "environments.0.illegal.penalty=0.5",
            "model.context=64",
            "evaluation.exact=true",
            "evaluation.every=20",
            "evaluation.opponents=[]",
        ),
    ),
}
TEAMS = {"wolf": "the wolf", "seer+villager": "the village"}
ENDS = {"one_seat": "by one seat", "as_one": "as one player"}
STEPS = (1, 20, 40, 60)


def figure(end: str, team: str, step: int) -> str:
    """Return the name of what a team gains after a step."""
    return f"gain of {TEAMS[team]}, {ENDS[end]}, after step {step}"


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost."""
    made = []
    for seed in range(setting["seeds"]):
        for arm in setting["arms"]:
            recipe, own = ARMS[arm]
            changes = [f"seed={seed}", "threads=1", *own, *setting["changes"]]
            made.append(training((arm, seed), f"{arm}-{seed}", recipe, changes, measured))
    return made


def measured(run: Path, said: str, ask: Ask) -> dict[str, Any]:
    """Return the figures of a run."""
    found, lines = dict[str, Any](), metrics(run)
    for line in lines:
        for end in ENDS:
            for team in TEAMS:
                for game in ("werewolf", "choose"):
                    name = f"{end}_exploitability/{game}/{team}"
                    if name in line:
                        found[figure(end, team, line["step"])] = line[name]
    return {**found, "legal replies": lines[-1]["legal_rate"]}


def rows(setting: Setting, kept: Found) -> list[Row]:
    """Return one row per arm, with the value of each seed."""
    return seed_rows(kept, lambda arm: {"arm": arm, "starts": "all"}, dict)


STUDY = Study(
    summary="Werewolf of three: gains against LSPO, SLA and mirror self-play, 5 seeds",
    page="docs/werewolf.md",
    hours=0.6,
    results="werewolf",
    setting={"seeds": 5, "arms": list(ARMS), "changes": []},
    quick={
        "seeds": 1,
        "changes": ["steps=1", "warmup.updates=2", "rollout.games_per_step=32"],
    },
    cells=cells,
    rows=rows,
)
