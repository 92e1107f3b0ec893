"""The table of benchmarks/scale.md on what a language model learns with vLLM's replies."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results, markdown, seeds_of, values
from studies.vllm_learns.study import ERROR, LEGAL, RETURN

# goals for legal replies, the difference of returns, and the error of log-probabilities
MIN_LEGAL, MAX_DIFFERENCE, MAX_ERROR = 0.95, 0.2, 1e-4
IN_PROCESS, VLLM = "in_process", "vllm"


def table_by_seed(results: Results) -> str:
    """Return the figures of each seed with each sampler."""
    head = ("sampler", "seed", LEGAL, RETURN, ERROR, "minutes")
    forms = {LEGAL: ".3f", RETURN: "+.3f", ERROR: ".1e"}
    lines = []
    for row in results.rows():
        for index, seed in enumerate(seeds_of(row)):
            cells = (f"{values(row, name)[index]:{form}}" for name, form in forms.items())
            minutes = f"{values(row, 'seconds')[index] / 60:.0f}"
            lines.append((row["sampler"], seed, *cells, minutes))
    return markdown(head, lines)


def verdict_text(results: Results) -> str:
    """Return the verdict on the study's questions."""
    if not results.rows(sampler=VLLM):
        return f"Only {IN_PROCESS} was run."
    in_process, vllm = (results.row(sampler=name) for name in (IN_PROCESS, VLLM))
    legal = min(values(in_process, LEGAL) + values(vllm, LEGAL))
    pairs = [*zip(values(in_process, RETURN), values(vllm, RETURN), strict=True)]
    gap = abs(sum(first - other for first, other in pairs)) / len(pairs)
    largest_gap = max(abs(first - other) for first, other in pairs)
    error = max(values(in_process, ERROR) + values(vllm, ERROR))
    checks = (
        (f"legal replies at least {MIN_LEGAL}", legal >= MIN_LEGAL, f"smallest value {legal:.3f}"),
        (
            f"mean returns differ by at most {MAX_DIFFERENCE}",
            gap <= MAX_DIFFERENCE,
            f"{gap:.3f}; at most {largest_gap:.3f} in one seed",
        ),
        (
            f"log-probabilities differ by at most {MAX_ERROR:g}",
            error <= MAX_ERROR,
            f"largest difference {error:.1e}",
        ),
    )
    parts = (
        f"{requirement}: {'reached' if is_met else 'not reached'} ({figure})"
        for requirement, is_met, figure in checks
    )
    return f"Goals: {'; '.join(parts)}."


MARKERS: dict[str, Maker] = {
    "vllm learns": table_by_seed,
    "vllm learns verdict": verdict_text,
    "vllm learns source": Results.source,
}
SECTIONS = {"By seed": table_by_seed, "In short": verdict_text}
