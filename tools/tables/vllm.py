"""The tables of benchmarks/scale.md that benchmarks/vllm_speed.py measures."""

from measured import markdown, rows, source


def speed():
    """Return tokens a second of both samplers by the number of conversations."""
    by_count = {}
    for row in rows("vllm"):
        by_count.setdefault(row["conversations"], {})[row["sampler"]] = row
    lines = [
        (
            count,
            f"{by_sampler['in_process']['tokens/s']:.0f}",
            f"{by_sampler['vllm']['tokens/s']:.0f}",
            f"{by_sampler['vllm']['ratio']:.2f}",
            f"{by_sampler['vllm']['error']:.1e}",
        )
        for count, by_sampler in by_count.items()
    ]
    head = ("conversations", "in_process, tokens/s", "vllm, tokens/s", "times as many")
    return markdown((*head, "log-probabilities apart by"), lines)


MARKERS = {"vllm": speed, "vllm source": lambda: source("vllm")}
