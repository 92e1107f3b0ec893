"""The tables of docs/scale.md that benchmarks/scale.py makes."""

from measured import markdown, rows, source, values


def thousand():
    """Return what the model says of 1,000 workers: means over seeds, and the range of play."""
    lines = []
    for one in rows("scale-thousand"):
        play = values(one, "share in play")
        mean = {name: sum(found.values()) / len(found) for name, found in one["values"].items()}
        lines.append(
            (
                one["lag"],
                f"{mean['seconds']:.1f}",
                f"{mean['plays/s']:.0f}",
                f"{mean['share in play']:.2f} ({min(play):.2f} to {max(play):.2f})",
                f"{mean['share learning']:.2f}",
                f"{mean['share in messages']:.2f}",
                f"{mean['lost share']:.2%}",
                one["limit"],
            )
        )
    head = ("lag", "seconds a step", "plays/s", "workers in play", "learner learns")
    return markdown((*head, "messages", "play lost", "limit"), lines)


MADE = {
    "scale thousand": thousand,
    "scale thousand source": lambda: source("scale-thousand"),
}
