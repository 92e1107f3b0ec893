"""Every algorithm of self-play in one loop: tables, exact payoffs, exact exploitability."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparring.api.cells import Cell, CellRecords, Row, module_cell
from studies.common.study import Setting, Study
from studies.self_play.algorithms import ALGORITHMS, RATE, STEPS
from studies.self_play.references import REFERENCES

MODULE = "studies.self_play.cell"
GAMES = ("matrix_rps", "matrix_brps", "kuhn_poker", "leduc_poker")
AT = (1, 2, 3, 5, 8, 12, 16, 24, 36, 50)
MOST = {  # largest number of answers: a joint distribution over more members takes too long
    "JPSRO, CCE": {"leduc_poker": 16},
    "JPSRO, CE": {"kuhn_poker": 16, "leduc_poker": 16},
}


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed; a solver without random draws has one seed."""
    return [
        cell(name, setting, seed)
        for seed in range(setting["seeds"])
        for name in setting["algorithms"]
        if seed == 0 or name not in REFERENCES or REFERENCES[name].seeded
    ]


def cell(name: str, setting: Setting, seed: int) -> Cell:
    """Return the cell of an algorithm with a seed, in all games."""
    inputs = {"algorithm": name, "games": setting["games"], "at": setting["at"]}
    inputs |= {"most": setting["most"].get(name, {}), "seed": seed}
    folder = f"{re.sub(r'[^A-Za-z0-9.+]+', '-', name)}-{seed}"
    return module_cell(MODULE, inputs, key=(name, seed), name=folder)


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per algorithm and game, with the values of each seed."""
    by_labels: dict[tuple[str, str], Row] = {}
    for (name, seed), record in records.items():
        by_game: Mapping[str, Mapping[str, float]] = record["found"]
        for game, values in by_game.items():
            labels = {"algorithm": name, "game": game, "starts": "all", "values": {}}
            row = by_labels.setdefault((name, game), labels)
            for figure, value in values.items():
                row["values"].setdefault(figure, {})[str(seed)] = value
    return list(by_labels.values())


STUDY = Study(
    summary="every algorithm of self-play as one recipe, in four games with tables, 3 seeds",
    page="studies/self_play/page.md",
    hours=0.3,
    setting={
        "algorithms": [*ALGORITHMS, *REFERENCES],
        "games": list(GAMES),
        "at": list(AT),
        "most": MOST,
        "steps": STEPS,
        "rate": RATE,
        "seeds": 3,
    },
    quick={
        "algorithms": ["fictitious play", "XDO", "CFR"],
        "games": ["kuhn_poker"],
        "at": [1, 2],
        "seeds": 1,
    },
    cells=cells,
    rows=rows,
)
