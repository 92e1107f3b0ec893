"""Verdicts of the Agent Swarm page by hand."""

import pytest

from studies.common.result_figures import Results
from studies.swarm import study as swarm
from studies.swarm.tables import claims, figures_by_shape


def arm_result(width, *, steps=13.0, chain=1.0, rank=0.9, finished=1.0):
    """Return the figures of two seeds of an arm, which differ slightly."""

    def figures_of(difference, width_in_shape):
        shape = {
            "return": finished - difference,
            "success": 1.0,
            "optimal_width": 3.0,
            "width_right": 1.0,
            "regret": 0.0,
            "finished_share": 1.0,
        }
        shape |= {
            "width": width_in_shape,
            "critical_steps": steps + difference,
            "optimal_critical_steps": 13.0,
            "serial_critical_steps": 40.0,
        }
        return {**shape, "rank_correlation": None}

    return [
        {
            "independent": figures_of(difference, width + difference),
            "chain": figures_of(difference, chain + difference),
            "random": {**figures_of(difference, 2.5), "rank_correlation": (rank or 0.0) - difference},
        }
        | {"all": {"rank_correlation": rank - difference if rank else None}}
        for difference in (0.0, 0.001)
    ]


def results(**arms):
    setting = {"arms": list(arms), "teams": [], "seeds": 2}
    cells = {
        (arm, seed): {"found": result, "seconds": 120.0}
        for arm, seeds in arms.items()
        for seed, result in enumerate(seeds)
    }
    return Results({"rows": swarm.rows(setting, cells)})


def verdicts_of(table):
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {line[0]: line[-1] for line in lines}


def verdict(table, beginning):
    return next(value for claim, value in verdicts_of(table).items() if claim.startswith(beginning))


def test_claims_of_the_report_are_held_if_the_figures_agree():
    table = claims(
        results(
            annealed=arm_result(4.0),
            none=arm_result(1.0),
            constant=arm_result(4.0, chain=4.0, rank=0.1),
            eight=arm_result(8.0),
        )
    )
    assert verdict(table, "without PARL's rewards") == "held" and verdict(table, "with constant weights") == "held"
    assert (
        verdict(table, "width 1 in chains: constant") == "not held"
        and verdict(table, "width 1 in chains: none") == "held"
    )
    assert verdict(table, "rank correlation of chosen and best width at least 0.8: annealed to zero") == "held"
    assert verdict(table, "rank correlation of chosen and best width at least 0.8: constant") == "not held"
    assert verdict(table, "with eight workers") == "held"


@pytest.mark.parametrize(
    ("eight", "expected_verdict"), [({"steps": 14.0}, "not held"), ({"finished": 0.9}, "not held"), ({}, "held")]
)
def test_eight_workers_must_save_two_thirds_and_finish(eight, expected_verdict):
    assert (
        verdict(claims(results(annealed=arm_result(4.0), eight=arm_result(8.0, **eight))), "with eight workers")
        == expected_verdict
    )


def test_claims_without_evidence_are_not_held():
    table = claims(results(annealed=arm_result(4.0), none=arm_result(3.0), constant=arm_result(4.0, rank=None)))
    assert (
        verdict(table, "without PARL's rewards") == "not observed"
        and verdict(table, "with constant weights") == "not held"
    )
    assert verdict(table, "rank correlation of chosen and best width: constant") == "not held"
    assert "with eight workers" not in table
    assert figures_by_shape(results(annealed=arm_result(4.0))).count("| annealed to zero |") == 3
