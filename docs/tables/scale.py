"""The tables of docs/scale.md that benchmarks/scale.py measures."""

from measured import markdown, rows, source, values


def latency():
    """Return seconds of a run by workers and lag, measured and modelled."""
    found = rows("scale-latency")
    first = {one["workers"]: one["seconds"] for one in found if one["lag"] == "0"}
    lines = [
        (
            one["workers"],
            one["lag"],
            f"{one['seconds']:.1f}",
            f"{one['modelled seconds']:.1f}",
            f"{one['ratio']:.2f}",
            f"{first[one['workers']] / one['seconds']:.2f}",
            one["all"],
        )
        for one in found
    ]
    head = ("workers", "lag", "seconds", "modelled", "measured / modelled", "times lag 0", "each")
    apart = [one["ratio"] for one in found]
    return (
        f"{markdown(head, lines)}\n\nMeasured over modelled: {min(apart):.2f} to {max(apart):.2f}."
    )


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
    **{f"scale {make.__name__}": make for make in (latency, thousand)},
    **{
        f"scale {name} source": (lambda name=name: source(f"scale-{name}"))
        for name in ("latency", "thousand")
    },
}
