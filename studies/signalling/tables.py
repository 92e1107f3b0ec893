"""The table of docs/policies.md on teams of which one policy is trained, or both."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results, markdown, values

SHARE = 0.9  # of the best value, that a team of two trained policies should reach


def teams(results: Results) -> str:
    """Return the value of each team by seed, and what that says."""
    by_trained = {row["trained"]: row["values"]["value"] for row in results.rows()}
    best = max(values(results.rows()[0], "best value"))
    seeds = sorted(next(iter(by_trained.values())), key=int)
    lines = [
        (name, *(f"{by_seed[seed]:.3f}" for seed in seeds)) for name, by_seed in by_trained.items()
    ]
    lines.append(("the best team", *(f"{best:.3f}" for _ in seeds)))
    table = markdown(("trained", *(f"seed {seed}" for seed in seeds)), lines)
    return f"{table}\n\n{verdict(by_trained, seeds, best)}"


def verdict(by_trained: dict[str, dict[str, float]], seeds: list[str], best: float) -> str:
    """Return in how many seeds both policies together are ahead, and near the best team."""
    both = by_trained["both"]
    alone = [by_seed for name, by_seed in by_trained.items() if name != "both"]
    ahead = sum(all(by_seed[seed] < both[seed] for by_seed in alone) for seed in seeds)
    near = sum(both[seed] >= SHARE * best for seed in seeds)
    return (
        f"Both are ahead of either alone in {ahead} of {len(seeds)} seeds, and reach {SHARE:.0%} "
        f"of the best value, {best:.3g}, in {near}."
    )


MARKERS: dict[str, Maker] = {"signalling": teams, "signalling source": Results.source}
SECTIONS = {"By seed": teams}
