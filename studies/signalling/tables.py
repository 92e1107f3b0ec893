"""The table of docs/policies.md on teams with one or both policies trained."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results, markdown, values

GOAL = 0.9  # share of the best value that a team of two trained policies should reach


def table_of_teams(results: Results) -> str:
    """Return the value of each team by seed, with a verdict."""
    by_trained = {row["trained"]: row["values"]["value"] for row in results.rows()}
    best = max(values(results.rows()[0], "best value"))
    seeds = sorted(next(iter(by_trained.values())), key=int)
    lines = [
        (name, *(f"{by_seed[seed]:.3f}" for seed in seeds)) for name, by_seed in by_trained.items()
    ]
    lines.append(("the best team", *(f"{best:.3f}" for _ in seeds)))
    table = markdown(("trained", *(f"seed {seed}" for seed in seeds)), lines)
    return f"{table}\n\n{verdict_text(by_trained, seeds, best)}"


def verdict_text(by_trained: dict[str, dict[str, float]], seeds: list[str], best: float) -> str:
    """Return a text: in how many seeds training both policies is better, and near the best team."""
    both = by_trained["both"]
    one_trained = [by_seed for name, by_seed in by_trained.items() if name != "both"]
    num_better = sum(all(by_seed[seed] < both[seed] for by_seed in one_trained) for seed in seeds)
    num_near_best = sum(both[seed] >= GOAL * best for seed in seeds)
    return (
        "If both are trained, the value is larger than if only one is trained in "
        f"{num_better} of {len(seeds)} seeds, and at least {GOAL:.0%} of the best value, "
        f"{best:.3g}, in {num_near_best} of {len(seeds)} seeds."
    )


MARKERS: dict[str, Maker] = {"signalling": table_of_teams, "signalling source": Results.source}
SECTIONS = {"By seed": table_of_teams}
