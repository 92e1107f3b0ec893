"""Werewolf of seven by words: LSPO, SLA, self-play and baselines, each as either team against each.

Two wolves, a seer, a doctor and three villagers. All policies play as many games. Kept per pair
and seed: the share of games that the wolves win; and of each policy its share of legal replies.
Ablations leave out one part of SLA or of LSPO each, and meet the main players alone: how much less
they win, over both teams and all of these, says what the part is worth.

Starts are "all": who has which number is drawn, and so are ties.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.experiments import crossed
from sparring.experiments.cells import metrics
from sparring.experiments.cross_play import pairs_of
from sparring.experiments.study import Ask, Cell, Found, Row, Setting, Study

LSPO, SLA, MIRROR = "LSPO", "SLA", "self-play, MARS"
RANDOM, SCRIPTED = "random", "scripted"
BOTS = {RANDOM: "random", SCRIPTED: "werewolf_bot"}
MAIN = (LSPO, SLA, MIRROR, RANDOM, SCRIPTED)
BLUNT = "SLA, candidates not diverse"  # its candidates are of another kind than SLA's
PARTS = {
    "SLA, no deductions": SLA,
    "SLA, no population": SLA,
    BLUNT: SLA,
    "LSPO, every statement a cluster": LSPO,
    "LSPO, one step of CFR": LSPO,
    "LSPO, policy gradient in place of DPO": LSPO,
}
PLAIN = "players: 7, rounds: 3, say: [result, accuse]"
ALWAYS = (
    "steps=50",
    "rollout.games_per_step=96",
    "warmup.games=32",
    "environments.0.illegal.penalty=0.2",
    "evaluation.exact=false",
    "evaluation.every=100000",
    "evaluation.opponents=[]",
)
SHORT = (f"environments.0.options={{{PLAIN}}}", "model.context=256")
SAMPLED = ("knowledge.solver=sampled", "knowledge.cfr_steps=600")


def _choosing(more: str = "", diverse: str = "true") -> tuple[str, ...]:
    """Return the changes that make SLA's game one of seven."""
    inner = f"{{name: werewolf, options: {{{PLAIN}{more}}}}}"
    return (
        f"environments.0.options={{environment: {inner}, count: 3, diverse: {diverse}}}",
        "model.context=512",
        "rollout.max_new_tokens=20",  # a deduction of six players is eighteen words
    )


DEDUCES = ", deduce: true, malformed: illegal"
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    LSPO: ("lspo/werewolf-tiny", (*SHORT, *SAMPLED)),
    SLA: ("sla/werewolf-tiny", _choosing(DEDUCES)),
    MIRROR: ("werewolf/tiny", SHORT),
    "SLA, no deductions": ("sla/werewolf-tiny", _choosing()),
    "SLA, no population": ("sla/werewolf-tiny-alone", _choosing(DEDUCES)),
    BLUNT: ("sla/werewolf-tiny", _choosing(DEDUCES, "false")),
    "LSPO, every statement a cluster": (
        "lspo/werewolf-tiny",
        (*SHORT, *SAMPLED, "knowledge.clusters=64"),
    ),
    "LSPO, one step of CFR": (
        "lspo/werewolf-tiny",
        (*SHORT, "knowledge.solver=sampled", "knowledge.cfr_steps=1"),
    ),
    "LSPO, policy gradient in place of DPO": (
        "lspo/werewolf-tiny",
        (*SHORT, *SAMPLED, "losses=[{name: ppo_clip}]"),
    ),
}


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, seeds outermost: the arms' runs, then a matrix of all of them."""
    pairs = _pairs(setting["arms"])
    return crossed.cells(setting, ARMS, always=ALWAYS, bots=BOTS, pairs=pairs, measure=measured)


def _pairs(arms: list[str]) -> list[tuple[str, str]]:
    """Return who meets whom, wolves first; two kinds of candidates do not fit into one game."""
    main = [name for name in MAIN if name in arms or name in BOTS]
    found = pairs_of(main, [arm for arm in arms if arm in PARTS])
    return [pair for pair in found if set(pair) != {SLA, BLUNT}]


def measured(run: Path, said: str, ask: Ask) -> dict[str, Any]:
    """Return of a run's last step the share of legal replies, and of roles deduced rightly."""
    last = metrics(run)[-1]
    right = [value for key, value in last.items() if key.endswith("/right_roles")]
    return {"legal replies": last["legal_rate"], **({"right roles": right[0]} if right else {})}


def rows(setting: Setting, kept: Found) -> list[Row]:
    """Return a row for each run's arm, and one for each pair, with the values of each seed."""
    return crossed.rows(
        setting,
        kept,
        pairs=_pairs(setting["arms"]),
        labels=lambda pair: {"wolves": pair[0], "village": pair[1]},
        figures=lambda match: {"wolves win": match["won"]},
    )


STUDY = Study(
    summary="Werewolf of seven: LSPO, SLA, self-play and baselines against each other, ablations",
    page="docs/werewolf.md",
    hours=2.7,
    results="werewolf-seven",
    setting={"seeds": 3, "arms": list(ARMS), "games": 400, "changes": []},
    quick={
        "seeds": 1,
        "arms": [SLA, MIRROR],
        "games": 2,
        "changes": ["steps=1", "warmup.updates=2", "warmup.games=8", "rollout.games_per_step=8"],
    },
    cells=cells,
    rows=rows,
)
