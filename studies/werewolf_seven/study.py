"""Werewolf of seven with listed words: LSPO, SLA, self-play and baselines against each other.

The game has two wolves, a seer, a doctor and three villagers. For each seed, all policies begin
with the same imitation of the scripted player, except that policies which choose among candidates
have another one; all train on the same number of episodes. The results per pair and seed are the
share of games that the wolves win, and per policy the shares of legal and of readable replies.

An ablation leaves out one part of SLA or of LSPO, or all training, and plays against the main
players except random play. The part is worth the share of wins that the ablation loses, as the
mean over both teams and all opponents.

The column `starts` is "all": numbers of players and ties are drawn at random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics
from studies.common import crossed
from studies.common.cross_play import pairs_of
from studies.common.self_played import UNTRAINED, Arm
from studies.common.study import Setting, Study

LSPO, SLA, MIRROR = "LSPO", "SLA", "self-play, MARS"
RANDOM, SCRIPTED = "random", "scripted"
BOTS = {RANDOM: "random", SCRIPTED: "werewolf_bot"}
MAIN = (LSPO, SLA, MIRROR, RANDOM, SCRIPTED)
BLUNT = "SLA, candidates not diverse"  # its candidates are of another kind than SLA's
START, CHOOSING = "LSPO, imitation alone", "SLA, imitation alone"
SILENT = "SLA, no deductions"
PARTS = {
    CHOOSING: SLA,
    SILENT: SLA,
    "SLA, no population": SLA,
    BLUNT: SLA,
    START: LSPO,
    "LSPO, every statement a cluster": LSPO,
    "LSPO, one step of CFR": LSPO,
    "LSPO, policy gradient in place of DPO": LSPO,
}
PLAIN = "players: 7, rounds: 3, say: [result, accuse]"
ALWAYS = (
    "steps=42",
    "rollout.games_per_step=64",
    "environments.0.illegal.penalty=0.5",
    "evaluation.exact=false",
    "evaluation.every=100000",
    "evaluation.opponents=[]",
    "warmup.updates=0",
)
SHORT = (f"environments.0.options={{{PLAIN}}}", "model.context=256")
THRICE = ("knowledge.solver=sampled", "knowledge.every=14")  # of three iterations
SAMPLED = (*THRICE, "knowledge.cfr_steps=400")


def _choosing(more: str = "", diverse: str = "true") -> tuple[str, ...]:
    """Return the changes that make SLA's game one of seven."""
    inner = f"{{name: werewolf, options: {{{PLAIN}{more}}}}}"
    return (
        f"environments.0.options={{environment: {inner}, count: 3, diverse: {diverse}}}",
        "model.context=512",
        "rollout.max_new_tokens=20",  # a deduction of six players is eighteen words
    )


def _imitating(updates: int, games: int) -> tuple[str, ...]:
    """Return the changes that make a run begin with an imitation of the scripted player."""
    player = "warmup.player={name: werewolf_bot}"
    return (player, f"warmup.updates={updates}", f"warmup.games={games}")


DEDUCES = ", deduce: true, malformed: illegal"
# the imitated policy is nearly deterministic; the recipes' step size and magnet would undo it
GENTLE = "learner.learning_rate={schedule: linear, start: 0.0005, end: 0.0001}"
FADING = "{schedule: linear, start: 0.05, end: 0.01}"
EVEN = f"{{name: legal_magnet, divergence: reverse, weight: {FADING}}}"
REWARDED = (GENTLE, f"losses=[{{name: ppo_clip}}, {EVEN}]")
ARMS: dict[str, Arm] = {
    START: ("werewolf/tiny", (*SHORT, *_imitating(300, 32), *UNTRAINED)),
    CHOOSING: ("sla/werewolf-tiny", (*_choosing(DEDUCES), *_imitating(1500, 4), *UNTRAINED)),
    LSPO: ("lspo/werewolf-tiny", (*SHORT, *SAMPLED)),
    SLA: ("sla/werewolf-tiny", (*_choosing(DEDUCES), *REWARDED)),
    MIRROR: ("werewolf/tiny", (*SHORT, *REWARDED)),
    SILENT: ("sla/werewolf-tiny", (*_choosing(), *REWARDED, *_imitating(300, 32))),
    "SLA, no population": (
        "sla/werewolf-tiny",
        ("matchmaker={name: mirror}", "league.every=0", *_choosing(DEDUCES), *REWARDED),
    ),
    BLUNT: ("sla/werewolf-tiny", (*_choosing(DEDUCES, "false"), *REWARDED)),
    "LSPO, every statement a cluster": (
        "lspo/werewolf-tiny",
        (*SHORT, *SAMPLED, "knowledge.clusters=64"),
    ),
    "LSPO, one step of CFR": (
        "lspo/werewolf-tiny",
        (*SHORT, *THRICE, "knowledge.cfr_steps=1"),
    ),
    "LSPO, policy gradient in place of DPO": (
        "lspo/werewolf-tiny",
        (*SHORT, *SAMPLED, "losses=[{name: ppo_clip}]"),
    ),
}
OWN = (START, CHOOSING, SILENT)  # arms with their own imitation; others continue from such an arm
BEGINS = {arm: CHOOSING if arm.startswith(SLA) else START for arm in ARMS if arm not in OWN}


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed: the runs of the arms, then the matches between them."""
    return crossed.cells(
        setting,
        ARMS,
        always=ALWAYS,
        bots=BOTS,
        pairs=_pairs(setting["arms"]),
        measure=run_figures,
        parents={arm: BEGINS[arm] for arm in setting["arms"] if arm in BEGINS},
    )


def _pairs(arms: list[str]) -> list[tuple[str, str]]:
    """Return the pairs of players, wolves first; a game cannot have two kinds of candidates."""
    main = [name for name in MAIN if name in arms or name in BOTS]
    all_pairs = pairs_of(main, [arm for arm in arms if arm in PARTS])
    excluded = ({SLA, BLUNT}, *({RANDOM, part} for part in PARTS))
    return [pair for pair in all_pairs if set(pair) not in excluded]


def run_figures(run: Path, stdout: str, run_command: RunCommand) -> dict[str, Any]:
    """Return the shares of legal and of readable replies in a run's last step.

    Only the second share includes deductions; the share of right roles in them is "right roles".
    """
    last = metrics(run)[-1]
    right = [value for key, value in last.items() if key.endswith("/right_roles")]
    return {
        "legal replies": last["legal_rate"],
        "readable replies": 1.0 - last["unparsable_rate"],
        **({"right roles": right[0]} if right else {}),
    }


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return a row for each arm and one for each pair, with the values of each seed."""
    return crossed.rows(
        setting,
        records,
        pairs=_pairs(setting["arms"]),
        labels=lambda pair: {"wolves": pair[0], "village": pair[1]},
        figures=lambda match: {"wolves win": match["won"]},
    )


STUDY = Study(
    summary="Werewolf of seven: matches of LSPO, SLA, self-play and baselines, and ablations",
    page="studies/werewolf/page.md",
    hours=2.5,
    setting={"seeds": 3, "arms": list(ARMS), "games": 334, "changes": []},
    quick={
        "seeds": 1,
        "arms": [START, MIRROR],
        "games": 2,
        "changes": ["steps=1", "warmup.updates=2", "warmup.games=8", "rollout.games_per_step=8"],
    },
    cells=cells,
    rows=rows,
)
