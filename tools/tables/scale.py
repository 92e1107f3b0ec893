"""The tables of benchmarks/scale.md that scale.py, fresh.py and ranks.py of benchmarks measure."""

from itertools import pairwise

from measured import markdown, rows, source, values


def digests():
    """Return the digest of each recipe and lag by who plays, and whether all are one."""
    all_rows = rows("scale-digests")
    arms = list(dict.fromkeys((row["who plays"], row["harm"]) for row in all_rows))
    head = ("recipe", "lag", *(who if harm == "-" else f"{who}, {harm}" for who, harm in arms))
    by_run = {}
    for row in all_rows:
        by_run.setdefault((row["recipe"], row["lag"]), {})[row["who plays"], row["harm"]] = row
    lines = [
        (recipe, lag, *(by_arm[arm]["digest"][:8] if arm in by_arm else "-" for arm in arms))
        for (recipe, lag), by_arm in by_run.items()
    ]
    num_equal = sum(
        len({row["digest"] for row in by_arm.values()}) == 1 for by_arm in by_run.values()
    )
    num_killed = sum(int(word) for row in all_rows for word in killed_of(row["done"]))
    return (
        f"{markdown(head, lines)}\n\nIn {num_equal} of {len(by_run)} rows all digests are one; "
        f"{len(all_rows)} runs, in which {num_killed} processes were killed."
    )


def killed_of(text):
    """Return the numbers of processes that were killed, from what is said of a run."""
    words = text.replace(",", "").split()
    return [
        next_word if word == "killed" else word
        for word, next_word in pairwise(words)
        if word == "killed" or next_word == "kills"
    ]


def latency():
    """Return seconds of a run by workers and lag, measured and modelled."""
    all_rows = rows("scale-latency")
    seconds_without_lag = {row["workers"]: row["seconds"] for row in all_rows if row["lag"] == "0"}
    lines = [
        (
            row["workers"],
            row["lag"],
            f"{row['seconds']:.1f}",
            f"{row['modelled seconds']:.1f}",
            f"{row['ratio']:.2f}",
            f"{seconds_without_lag[row['workers']] / row['seconds']:.2f}",
            row["all"],
        )
        for row in all_rows
    ]
    head = ("workers", "lag", "seconds", "modelled", "measured / modelled", "times lag 0", "each")
    ratios = [row["ratio"] for row in all_rows]
    return f"{markdown(head, lines)}\n\nMeasured over modelled: {min(ratios):.2f} to {max(ratios):.2f}."


def workers():
    """Return seconds a step with two workers and with none."""
    lines = [
        (
            row["recipe"],
            row["opponents"],
            row["0 workers"],
            row["2 workers"],
            f"{row['ratio']:.2f}",
        )
        for row in rows("scale-workers")
    ]
    head = ("recipe", "opponents", "no workers, s", "two workers, s", "times as fast")
    return markdown(head, lines)


def thousand():
    """Return what the model says of 1,000 workers: means over seeds, and the range of play."""
    lines = []
    for row in rows("scale-thousand"):
        play = values(row, "share in play")
        mean = {
            name: sum(by_seed.values()) / len(by_seed) for name, by_seed in row["values"].items()
        }
        lines.append(
            (
                row["lag"],
                f"{mean['seconds']:.1f}",
                f"{mean['plays/s']:.0f}",
                f"{mean['share in play']:.2f} ({min(play):.2f} to {max(play):.2f})",
                f"{mean['share learning']:.2f}",
                f"{mean['share in messages']:.2f}",
                f"{mean['lost share']:.2%}",
                row["limit"],
            )
        )
    head = ("lag", "seconds a step", "plays/s", "workers in play", "learner learns")
    return markdown((*head, "messages", "play lost", "limit"), lines)


def fresh():
    """Return seconds of a run with heavy tails by order and lag, measured and modelled."""
    all_rows = rows("scale-fresh")
    lines = [
        (
            row["order"],
            row["lag"],
            f"{row['seconds']:.1f}",
            f"{row['ratio']:.2f}",
            f"{row['modelled seconds']:.1f}",
            f"{row['seconds'] / row['modelled seconds']:.2f}",
            f"{row['lag, mean']:.2f}",
            f"{row['lag, most']:.0f}",
            f"{row['withheld']:.0f}",
            f"{row['load']:.1f}",
        )
        for row in all_rows
    ]
    head = ("order", "`scale.lag`", "seconds", "times as fast", "modelled", "measured / modelled")
    return markdown((*head, "lag, mean", "lag, most", "withheld", "load"), lines)


def sharding():
    """Return what splitting weights changes: as ``ranks``, and memory."""
    lines = [
        (
            row["model"],
            row["learners"],
            row["digest"],
            *(f"{seconds:.3g}" for seconds in row["seconds"].values()),
            *(f"{memory:.2f}" if memory else "-" for memory in row["peak GiB"].values()),
        )
        for row in rows("sharding")
    ]
    head = ("parameters, plays", "learners", "digest", "update, s", "step, s")
    return markdown((*head, "training process, GiB", "each other learner, GiB"), lines)


def ranks():
    """Return what several learners change: the digest, seconds, and how many times as fast."""
    lines = [
        (
            row["model"],
            row["learners"],
            row["digest"],
            *(f"{seconds:.3g}" for seconds in row["seconds"].values()),
            f"{row['ratio']:.2f}",
        )
        for row in rows("ranks")
    ]
    head = ("parameters, plays", "learners", "digest", "update, s", "step, s", "times as fast")
    return markdown(head, lines)


MARKERS = {
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
