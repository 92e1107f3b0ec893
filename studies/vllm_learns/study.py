"""Does SmolLM2 learn the same with vLLM's replies as with those of the training process?

`mars/kuhn-smol` is trained with each sampler and the same seeds. The samplers draw differently, so
only the results of learning are compared. The results per seed are the share of legal replies in
steps 6 to 10, the mean return of both seats against random play after the last step, and the
largest difference between log-probabilities of the sampler and of the learner.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, metrics, seed_rows, training_cell
from studies.common.study import Setting, Study

RECIPE = "mars/kuhn-smol"
EARLY = 10  # the second half of the first 10 steps shows how early replies are legal
LEGAL = f"legal replies, steps {EARLY // 2 + 1} to {EARLY}"
RETURN, ERROR = "return against random play", "largest difference of log-probabilities"


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    return [
        training_cell(
            (sampler, seed),
            f"{sampler}-{seed}",
            RECIPE,
            [
                f"seed={seed}",
                "threads=1",
                f"steps={setting['steps']}",
                f"evaluation.every={setting['steps']}",
                "evaluation.exact=false",
                f"evaluation.opponents=[{{name: random, games_per_seat: {setting['games']}}}]",
                *setting["changes"],
                f"sampler={{name: {sampler}}}",
            ],
            run_figures,
        )
        for seed in range(setting["seeds"])
        for sampler in setting["samplers"]
    ]


def run_figures(run: Path, stdout: str, run_command: RunCommand) -> dict[str, Any]:
    """Return the figures of a run."""
    steps = metrics(run)
    early = [line["legal_rate"] for line in steps[:EARLY][-(EARLY // 2) :]]
    ends = [steps[-1][f"match/kuhn_poker/random/{seat}/return"] for seat in ("first", "second")]
    return {
        LEGAL: sum(early) / len(early),
        RETURN: sum(ends) / len(ends),
        ERROR: max(line["logprob_difference_max"] for line in steps),
    }


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per sampler, with the values of each seed."""

    def labels(sampler: str) -> Row:
        return {"sampler": sampler, "starts": "all", "games": setting["games"]}

    return seed_rows(records, labels, dict)


STUDY = Study(
    summary="SmolLM2 in Kuhn poker: does it learn equally well with vLLM's replies",
    page="benchmarks/scale.md",
    hours=2.0,
    setting={
        "seeds": 3,
        "samplers": ["in_process", "vllm"],
        "steps": 40,
        "games": 400,
        "changes": [],
    },
    quick={
        "seeds": 1,
        "samplers": ["in_process"],
        "steps": 2,
        "games": 2,
        "changes": [
            "warmup.updates=1",
            "warmup.games=2",
            "rollout.games_per_step=4",
            "rollout.max_new_tokens=4",
        ],
    },
    cells=cells,
    rows=rows,
)
