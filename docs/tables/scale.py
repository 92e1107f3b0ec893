"""The tables of docs/scale.md that scale.py, fresh.py and ranks.py of benchmarks measure."""

from itertools import pairwise

from measured import markdown, rows, source, values


def digests():
    """Return the digest of each recipe and lag by who plays, and whether all are one."""
    found = rows("scale-digests")
    arms = list(dict.fromkeys((one["who plays"], one["harm"]) for one in found))
    head = ("recipe", "lag", *(who if harm == "-" else f"{who}, {harm}" for who, harm in arms))
    by_run = {}
    for one in found:
        by_run.setdefault((one["recipe"], one["lag"]), {})[one["who plays"], one["harm"]] = one
    lines = [
        (recipe, lag, *(own[arm]["digest"][:8] if arm in own else "-" for arm in arms))
        for (recipe, lag), own in by_run.items()
    ]
    same = sum(len({one["digest"] for one in own.values()}) == 1 for own in by_run.values())
    killed = sum(int(word) for one in found for word in killed_of(one["done"]))
    return (
        f"{markdown(head, lines)}\n\nIn {same} of {len(by_run)} rows all digests are one; "
        f"{len(found)} runs, in which {killed} processes were killed."
    )


def killed_of(done):
    """Return the numbers of processes that were killed, from what is said of a run."""
    words = done.replace(",", "").split()
    return [
        after if before == "killed" else before
        for before, after in pairwise(words)
        if before == "killed" or after == "kills"
    ]


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


def workers():
    """Return seconds a step with two workers and with none."""
    lines = [
        (
            one["recipe"],
            one["opponents"],
            one["0 workers"],
            one["2 workers"],
            f"{one['ratio']:.2f}",
        )
        for one in rows("scale-workers")
    ]
    head = ("recipe", "opponents", "no workers, s", "two workers, s", "times as fast")
    return markdown(head, lines)


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


def fresh():
    """Return seconds of a run with heavy tails by order and lag, measured and modelled."""
    found = rows("scale-fresh")
    lines = [
        (
            one["order"],
            one["lag"],
            f"{one['seconds']:.1f}",
            f"{one['ratio']:.2f}",
            f"{one['modelled seconds']:.1f}",
            f"{one['seconds'] / one['modelled seconds']:.2f}",
            f"{one['lag, mean']:.2f}",
            f"{one['lag, most']:.0f}",
            f"{one['withheld']:.0f}",
            f"{one['load']:.1f}",
        )
        for one in found
    ]
    head = ("order", "`scale.lag`", "seconds", "times as fast", "modelled", "measured / modelled")
    return markdown((*head, "lag, mean", "lag, most", "withheld", "load"), lines)


def sharding():
    """Return what splitting weights changes: as ``ranks``, and memory."""
    lines = [
        (
            one["model"],
            one["learners"],
            one["digest"],
            *(f"{seconds:.3g}" for seconds in one["seconds"].values()),
            *(f"{memory:.2f}" if memory else "-" for memory in one["peak GiB"].values()),
        )
        for one in rows("sharding")
    ]
    head = ("parameters, plays", "learners", "digest", "update, s", "step, s")
    return markdown((*head, "training process, GiB", "each other learner, GiB"), lines)


def ranks():
    """Return what several learners change: the digest, seconds, and how many times as fast."""
    lines = [
        (
            one["model"],
            one["learners"],
            one["digest"],
            *(f"{seconds:.3g}" for seconds in one["seconds"].values()),
            f"{one['ratio']:.2f}",
        )
        for one in rows("ranks")
    ]
    head = ("parameters, plays", "learners", "digest", "update, s", "step, s", "times as fast")
    return markdown(head, lines)


MADE = {
    "ranks": ranks,
    "ranks source": lambda: source("ranks"),
    "sharding": sharding,
    "sharding source": lambda: source("sharding"),
    **{f"scale {make.__name__}": make for make in (digests, latency, fresh, workers, thousand)},
    **{
        f"scale {name} source": (lambda name=name: source(f"scale-{name}"))
        for name in ("digests", "latency", "fresh", "workers", "thousand")
    },
}
