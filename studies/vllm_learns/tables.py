"""The table of benchmarks/scale.md on what a language model learns with vLLM's replies."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results, markdown, seeds_of, values
from studies.vllm_learns.study import ERROR, LEGAL, RETURN

LEAST, APART, NEAR = 0.95, 0.2, 1e-4  # what was asked of legal replies, returns, log-probabilities
HERE, THERE = "in_process", "vllm"


def learnt(results: Results) -> str:
    """Return the figures of each seed with either sampler."""
    head = ("sampler", "seed", LEGAL, RETURN, ERROR, "minutes")
    forms = {LEGAL: ".3f", RETURN: "+.3f", ERROR: ".1e"}
    lines = []
    for row in results.rows():
        for index, seed in enumerate(seeds_of(row)):
            cells = (f"{values(row, name)[index]:{form}}" for name, form in forms.items())
            minutes = f"{values(row, 'seconds')[index] / 60:.0f}"
            lines.append((row["sampler"], seed, *cells, minutes))
    return markdown(head, lines)


def verdict(results: Results) -> str:
    """Return the verdict on the study's questions."""
    if not results.rows(sampler=THERE):
        return f"Only {HERE} was run."
    here, there = (results.row(sampler=name) for name in (HERE, THERE))
    legal = min(values(here, LEGAL) + values(there, LEGAL))
    ends = [*zip(values(here, RETURN), values(there, RETURN), strict=True)]
    apart = abs(sum(first - other for first, other in ends)) / len(ends)
    most = max(abs(first - other) for first, other in ends)
    error = max(values(here, ERROR) + values(there, ERROR))
    checks = (
        (f"legal replies at least {LEAST}", legal >= LEAST, f"the least {legal:.3f}"),
        (
            f"mean returns at most {APART} apart",
            apart <= APART,
            f"{apart:.3f}; seed by seed at most {most:.3f}",
        ),
        (f"log-probabilities at most {NEAR:g} apart", error <= NEAR, f"at most {error:.1e}"),
    )
    parts = (
        f"{requirement}: {'held' if is_met else 'missed'} ({figure})"
        for requirement, is_met, figure in checks
    )
    return f"Asked for were {'; '.join(parts)}."


MARKERS: dict[str, Maker] = {
    "vllm learns": learnt,
    "vllm learns verdict": verdict,
    "vllm learns source": Results.source,
}
SECTIONS = {"By seed": learnt, "In short": verdict}
