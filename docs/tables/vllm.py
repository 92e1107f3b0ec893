"""The tables of docs/scale.md that benchmarks/vllm_speed.py measures."""

from measured import markdown, rows, source


def speed():
    """Return tokens a second of both samplers by the number of conversations."""
    found = {}
    for one in rows("vllm"):
        found.setdefault(one["conversations"], {})[one["sampler"]] = one
    lines = [
        (
            count,
            f"{own['in_process']['tokens/s']:.0f}",
            f"{own['vllm']['tokens/s']:.0f}",
            f"{own['vllm']['ratio']:.2f}",
            f"{own['vllm']['error']:.1e}",
        )
        for count, own in found.items()
    ]
    head = ("conversations", "in_process, tokens/s", "vllm, tokens/s", "times as many")
    return markdown((*head, "log-probabilities apart by"), lines)


MADE = {"vllm": speed, "vllm source": lambda: source("vllm")}
