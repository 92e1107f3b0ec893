"""FXP's methods in team matrix games: `python -m MODULE JSON FILE` measures one of them.

Numbers of steps and rounds, the rate and the shares are as in the released code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from sparring.core.files import write_bytes_atomic
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from studies.self_play.cross_play import CrossPlay, GridworldCrossPlay
from studies.self_play.frame import Recipe, Row, Run, Schedule, begin
from studies.self_play.team_world import TeamPlan, TeamWorld
from studies.self_play.worlds import Oracle, P

RATE = 0.1
ETA = 0.3  # share of the main's episodes against itself, in FXP
ETA_FSP = 0.99
ETA_GRIDWORLD = 0.2

Answer = Literal["last", "average", "mixture"]


class AgainstAverage(Run[P]):
    """FSP as in FXP's code: one policy trains against itself and the mean of its past policies.

    With ``Schedule(keep=1)`` the population is the present policy.
    """

    def train(self) -> None:
        """Train the policy for one step."""
        self.live = [self.respond(0, [((self.average[0],), 1.0)], self.live[0])]
        self.join(0, self.live[0])


def method(name: str, solver: str, steps: int, eta: float = ETA) -> tuple[Recipe, list[Answer]]:
    """Return the recipe of a method, and the kinds of answer with which it is measured.

    Args:
        name: a key of the table below.
        solver: the meta-solver of PSRO and FXP.
        steps: largest number of steps of a phase.
        eta: share of the main's episodes against itself, in FXP.
    """
    warm = Oracle(kind="improve", steps=steps, rate=RATE, warm=True)
    fresh, row = replace(warm, warm=False), Row(solver=solver)
    grid = Recipe(row=replace(row, self_share=ETA_GRIDWORLD), oracle=warm, kind=GridworldCrossPlay)
    cross = Recipe(row=replace(row, self_share=eta), oracle=warm, kind=CrossPlay)
    table: dict[str, tuple[Recipe, list[Answer]]] = {
        "SP": (Recipe(row=Row(self_share=1.0), oracle=warm), ["last"]),
        "FSP": (
            Recipe(
                row=Row(self_share=ETA_FSP),
                oracle=replace(warm, steps=1),
                schedule=Schedule(keep=1),
                kind=AgainstAverage,
            ),
            ["average"],
        ),
        "PSRO uniform": (Recipe(row=Row(solver="uniform"), oracle=fresh), ["mixture"]),
        "PSRO Nash": (Recipe(row=row, oracle=fresh), ["mixture"]),
        "FXP": (cross, ["mixture", "last"]),
        "FXP, one counter": (replace(cross, options={"reset": False}), ["mixture", "last"]),
        "gridworld": (replace(grid, options={"reset": True}), ["last", "average", "mixture"]),
        "gridworld, one counter": (
            replace(grid, options={"reset": False}),
            ["last", "average", "mixture"],
        ),
    }
    return table[name]


def measure_method(
    *,
    game: str,
    members: int,
    method: str,
    start: Literal["uniform", "random"],
    steps: int,
    rounds: int,
    seeds: int,
    solver: str = "uniform",
    eta: float = ETA,
) -> dict[str, list[dict[str, float]]]:
    """Return the exploitability of a method's answers by seed.

    Args:
        game: option ``game`` of team_matrix.
        members: number of members of a team.
        method: name of the method; see ``method``.
        start: kind of the initial policies.
        steps: largest number of steps of a phase.
        rounds: number of rounds; SP has one, and a round of FSP is one step.
        seeds: number of seeds, from 0.
        solver: see ``method``.
        eta: see ``method``.

    Returns:
        By kind of answer, for each seed, "team" and "one seat": the gain of a team's best joint
        plan, and the largest gain of one seat, as means over teams.
    """
    recipe, answers = _method(method, solver, steps, eta)
    rules = make_game("team_matrix", options={"game": game, "members": members})
    world = TeamWorld(rules.payoffs, game)  # type: ignore[attr-defined]  # an environment of ours
    by_answer: dict[str, list[dict[str, float]]] = {answer: [] for answer in answers}
    for seed in range(seeds):
        run = begin(replace(recipe, start=start), world, Stream.from_seed(seed))
        for _ in range(rounds):
            run.step()
        for answer in answers:
            by_answer[answer].append(_gains(world, answered(run, answer)))
    return by_answer


_method = method


def answered(run: Run[TeamPlan], kind: Answer) -> Sequence[TeamPlan]:
    """Return the final policies of a run, for one kind of answer."""
    run.recipe = replace(run.recipe, answer=kind)
    return run.answer()


def _gains(world: TeamWorld, profile: Sequence[TeamPlan]) -> dict[str, float]:
    """Return the gain of a team, and the largest gain of one of its seats, as means over teams."""
    return {"team": world.gap(profile) / 2, "one seat": world.one_seat_gap(profile) / 2}


def main(arguments: Mapping[str, Any], path: Path) -> None:
    """Measure a method, and write the figures as JSON."""
    write_bytes_atomic(path, json.dumps(measure_method(**arguments)).encode())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
