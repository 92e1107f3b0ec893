"""The algorithms of self-play as recipes; `studies/self_play/page.md` shows them as one table.

A budget of reinforcement learning is `STEPS` steps of improvement a round. Algorithms whose
policies move at once take one step a round, and more rounds.
"""

from __future__ import annotations

from dataclasses import replace

from studies.self_play.diverse import Diverse
from studies.self_play.frame import Recipe, Row, Schedule
from studies.self_play.ladder import Ladder
from studies.self_play.league import League
from studies.self_play.priority import Priority
from studies.self_play.whole_game import Anytime, Xdo
from studies.self_play.worlds import Oracle

STEPS, RATE = 20, 2.0
LIVE_RATE = 0.2
EXACT = Oracle(kind="exact")
WARM = Oracle(kind="improve", steps=STEPS, rate=RATE, warm=True)
FRESH = replace(WARM, warm=False)
LIVE = Oracle(kind="improve", steps=1, rate=LIVE_RATE, warm=True)
GAIN = 1e-9  # a gain below this may be a rounding error
NEW = Schedule(gain=GAIN)


def psro(solver: str, **options: object) -> Recipe:
    """Return PSRO with a meta-solver: a new policy is trained against its mixture, the answer."""
    return Recipe(row=Row(solver=solver, options=options), oracle=FRESH)


def past(solver: str, **options: object) -> Recipe:
    """Return the training of one continuing policy against a mixture of its past policies."""
    return Recipe(row=Row(solver=solver, options=options), oracle=WARM, answer="last")


def ladder(solver: str, **options: object) -> Recipe:
    """Return policies on levels, trained at once, each against the mixture of the levels below."""
    levels = int(str(options["levels"]))
    return Recipe(
        row=Row(solver=solver), oracle=WARM, kind=Ladder, options=options, policies_per_round=levels
    )


def league(*, reset: bool) -> Recipe:
    """Return AlphaStar's league of four agents."""
    options = {"least": 2, "most": 4, "reset": reset}
    return Recipe(oracle=WARM, kind=League, options=options, answer="last", policies_per_round=4)


TRADITIONAL: dict[str, Recipe] = {
    "vanilla": past("last"),
    "vanilla, exact": Recipe(row=Row(solver="last"), answer="last"),
    "live mirror": Recipe(
        row=Row(solver="last"), oracle=LIVE, schedule=Schedule(keep=1), answer="last"
    ),
    "live mirror, average": Recipe(
        row=Row(solver="last"), oracle=LIVE, schedule=Schedule(keep=1), answer="average"
    ),
    "independent learners": Recipe(
        shared=False, row=Row(solver="last"), oracle=LIVE, schedule=Schedule(keep=1), answer="last"
    ),
    "AlphaGo Zero's gate": replace(past("last"), schedule=Schedule(gate=0.55)),
    "fictitious play": Recipe(row=Row(solver="uniform"), answer="average"),
    "fictitious self-play": replace(past("uniform"), answer="average"),
    "NFSP": Recipe(
        row=Row(solver="uniform", self_share=0.1),
        oracle=replace(WARM, steps=5),
        answer="average",
    ),
    "uniform past": past("uniform"),
    "delta-uniform 0.5": past("delta_uniform", delta=0.5),
    "delta-uniform 0.9": past("delta_uniform", delta=0.9),
    "PFSP squared": past("pfsp", weighting="squared"),
    "PFSP linear": past("pfsp", weighting="linear"),
    "PFSP linear_capped": past("pfsp", weighting="linear_capped"),
    "PFSP variance": past("pfsp", weighting="variance"),
}

RESPONSE_ORACLES: dict[str, Recipe] = {
    "double oracle": Recipe(row=Row(solver="nash"), schedule=NEW),
    "PSRO Nash": psro("nash"),
    "PSRO uniform": psro("uniform"),
    "PSRO replicator": psro("projected_replicator", dt=0.1, steps=1000),
    "PSRO rectified": replace(psro("rectified"), both_seats=True),
    "alpha-PSRO": replace(psro("alpha_rank"), both_seats=True),
    "anytime PSRO": Recipe(oracle=FRESH, kind=Anytime),
    "JPSRO, CCE": Recipe(row=Row(solver="correlated", options={"kind": "cce"}), schedule=NEW),
    "JPSRO, CE": Recipe(
        row=Row(solver="correlated", options={"kind": "ce"}, by_member=True), schedule=NEW
    ),
    "XDO": Recipe(start="pure", schedule=NEW, kind=Xdo),
    "DCH": ladder("nash", levels=5),
    "pipeline PSRO": ladder("nash", levels=3, plateau=0.01),
    "pipeline PSRO, timer": ladder("nash", levels=3, timer=4),
    "diverse PSRO": Recipe(
        row=Row(solver="nash"),
        oracle=FRESH,
        kind=Diverse,
        options={"candidates": 4, "weight": 0.2, "mixed": 0.5},
        policies_per_round=4,
    ),
}

ONGOING: dict[str, Recipe] = {
    "NeuPL-like": ladder("nash", levels=10),
    "AlphaStar's league": league(reset=True),
    "AlphaStar's league, no reset": league(reset=False),
    "OpenAI Five's, unverified": Recipe(
        row=Row(self_share=0.8), oracle=WARM, answer="last", kind=Priority, options={"pace": 0.5}
    ),
}

FAMILIES = {
    "Traditional self-play": TRADITIONAL,
    "Policy-space response oracles": RESPONSE_ORACLES,
    "Ongoing training: all members live": ONGOING,
}
ALGORITHMS = TRADITIONAL | RESPONSE_ORACLES | ONGOING
