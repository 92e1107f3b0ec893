"""What the page on Agent Swarm says of its figures: verdicts by hand."""

import pytest

from studies.common.result_figures import Results
from studies.swarm import study as swarm
from studies.swarm.tables import both, claims, found, teams


def ran(width, *, steps=13.0, chain=1.0, rank=0.9, finished=1.0):
    """What two seeds of an arm came to: seeds differ a little."""

    def one(less, wide):
        shape = {"return": finished - less, "success": 1.0, "optimal_width": 3.0, "width_right": 1.0, "regret": 0.0, "finished_share": 1.0}
        shape |= {"width": wide, "critical_steps": steps + less, "optimal_critical_steps": 13.0, "serial_critical_steps": 40.0}
        return {**shape, "rank_correlation": None}

    return [
        {"independent": one(less, width + less), "chain": one(less, chain + less), "random": {**one(less, 2.5), "rank_correlation": (rank or 0.0) - less}}
        | {"all": {"rank_correlation": rank - less if rank else None}}
        for less in (0.0, 0.001)
    ]


def played(finished):
    """What two seeds of a team of models came to, with this share finished in chains and 0.5 elsewhere."""

    def one(share):
        figures = dict.fromkeys(swarm.TEAM_FIGURES, 1.0)
        return {**figures, "return": share, "tokens sampled in training": 1_500_000.0}

    return [{"independent": one(0.5), "chain": one(finished + less), "random": one(0.5)} for less in (0.0, 0.001)]


def results(**arms):
    own = {name: [arm for arm in arms if arm in known] for name, known in (("arms", swarm.ARMS), ("teams", swarm.TEAMS))}
    setting = {**own, "seeds": 2}
    kept = {(arm, seed): {"found": one, "seconds": 120.0} for arm, seeds in arms.items() for seed, one in enumerate(seeds)}
    return Results({"rows": swarm.rows(setting, kept)})


def said(table):
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {line[0]: line[-1] for line in lines}


def verdict(table, begins):
    return next(value for claim, value in said(table).items() if claim.startswith(begins))


def test_what_the_report_claims_is_held_where_it_is_seen():
    table = claims(results(annealed=ran(4.0), none=ran(1.0), constant=ran(4.0, chain=4.0, rank=0.1), eight=ran(8.0)))
    assert verdict(table, "without PARL's rewards") == "held" and verdict(table, "with weights that stay") == "held"
    assert verdict(table, "width 1 in chains: constant") == "not held" and verdict(table, "width 1 in chains: none") == "held"
    assert verdict(table, "rank correlation of chosen and best width at least 0.8: annealed to zero") == "held"
    assert verdict(table, "rank correlation of chosen and best width at least 0.8: constant") == "not held"
    assert verdict(table, "with eight workers") == "held"


@pytest.mark.parametrize(("eight", "verdict_of"), [({"steps": 14.0}, "not held"), ({"finished": 0.9}, "not held"), ({}, "held")])
def test_eight_workers_must_save_two_thirds_and_finish(eight, verdict_of):
    assert verdict(claims(results(annealed=ran(4.0), eight=ran(8.0, **eight))), "with eight workers") == verdict_of


def test_what_is_not_seen_is_said_so():
    table = claims(results(annealed=ran(4.0), none=ran(3.0), constant=ran(4.0, rank=None)))
    assert verdict(table, "without PARL's rewards") == "not seen" and verdict(table, "with weights that stay") == "not held"
    assert verdict(table, "rank correlation of chosen and best width: constant") == "not held"
    assert "with eight workers" not in table
    assert found(results(annealed=ran(4.0))).count("| annealed to zero |") == 3


def test_teams_of_models_stand_in_tables_of_their_own_paired_by_seed():
    all_of = results(annealed=ran(4.0), start=played(0.2), lead=played(0.4), workers=played(0.9), joint=played(0.9))
    assert found(all_of).count("\n") == 4 and "both" not in found(all_of)  # the scripted arm alone: head, line, three shapes
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in teams(all_of).splitlines()[2:]]
    assert [row[:2] for row in rows[-3:]] == [["both", shape] for shape in swarm.SHAPES]
    assert [row[-2:] for row in rows] == [["1.50", "2.0"]] * 12
    verdicts = {(row[0], row[1]): row[-1] for row in ([cell.strip() for cell in line.strip("|").split("|")] for line in both(all_of).splitlines()[2:-2])}
    assert verdicts["chain", "the lead"] == verdicts["chain", "nobody"] == "ahead"
    assert verdicts["chain", "the workers"] == verdicts["random", "the lead"] == "not decided"
