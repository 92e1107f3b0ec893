"""The tables of benchmarks/README.md on speed and memory, and the peers of README.md."""

from measured import markdown, row, rows

LOOPS = {
    ("kuhn-tiny", "-"): "kuhn-tiny",
    ("leduc-tiny", "-"): "leduc-tiny",
    (
        "tictactoe-tiny",
        "matchmaker={name: mirror}",
    ): "tictactoe-tiny, mirror (nearly all games differ)",
    (
        "tictactoe-tiny",
        "matchmaker={name: mirror} model.hidden_size=256",
    ): "the same, hidden size 256",
}
ESTIMATORS = {"grpo": "GRPO", "mars": "MARS", "gigpo": "GiGPO", "hgpo": "HGPO"}
SECONDS_AIM, RATIO_AIM = "0.25", "20"
PEERS = {  # what README.md shows -> the section of benchmarks/README.md that has the command
    "step": "a-whole-training-step-against-trl-116",
    "language model": "a-step-of-smollm2-135m-against-trl-116",
    "games": "games",
    "credit": "credit",
    "oracles": "oracles",
}


def number(value):
    """Return a figure with the digits that a reader needs: three, or four from a thousand on."""
    if value >= 1000:
        digits = len(str(int(value))) - 4
        return f"{round(value, -digits):,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def training_step():
    """Return ours, TRL's and the bare model's rollouts per second."""
    head = (
        "model",
        "new tokens",
        "rollouts/s",
        "TRL rollouts/s",
        "ratio",
        "aim",
        "bare rollouts/s",
        "ours / bare",
    )
    names = ("rollouts/s", "TRL rollouts/s", "ratio", "aim", "bare rollouts/s", "efficiency")
    all_rows = rows("training_step")
    cells = (
        (row["model"], str(row["new tokens"]), *(number(row[name]) for name in names))
        for row in all_rows
    )
    return f"{markdown(head, cells)}\n\n{aims(all_rows)}"


def aims(all_rows):
    """Return where a step is below its aim, and how far the bare model alone would come."""
    below_aim = [
        f"{row['model']} with {row['new tokens']} tokens ({number(row['ratio'])} times TRL; "
        f"the bare model {number(row['bare rollouts/s'] / row['TRL rollouts/s'])})"
        for row in all_rows
        if row["ratio"] < row["aim"]
    ]
    return f"Below their aim: {', '.join(below_aim)}." if below_aim else "All reach their aims."


def language_model_step():
    """Return the same for a pretrained model with adapters; why TRL has no figure, where it has."""
    head = ("step", "rollouts/s", "TRL rollouts/s", "ratio", "bare rollouts/s", "ours / bare")
    names = ("rollouts/s", "TRL rollouts/s", "ratio", "bare rollouts/s", "efficiency")
    all_rows = rows("language_model_step")
    cells = (
        (row["step"], *("-" if row.get(name) is None else number(row[name]) for name in names))
        for row in all_rows
    )
    notes = [
        f"TRL 1.16 on {row['step']}: `{row['TRL says']}`" for row in all_rows if "TRL says" in row
    ]
    return "\n\n".join((markdown(head, cells), *notes))


def adapters():
    """Return the seconds per token of many adapters in one batch, and one after the other."""
    head = (
        "threads",
        "conversations with",
        "seconds per token",
        "ratio",
        "aim, at most",
        "replies",
    )
    cells = (
        (
            row["threads"],
            row["what"],
            number(row["seconds"]),
            number(row["ratio"]),
            number(row["aim"]) if "aim" in row else "-",
            row.get("replies", "-"),
        )
        for row in rows("adapters")
    )
    return markdown(head, cells)


def language_model_ratio():
    """Return how a step of SmolLM2 with adapters compares with TRL's."""
    return f"{number(row('language_model_step', step='one turn')['ratio'])} times as fast"


def peers():
    """Return ours beside every peer that was measured on the same work."""
    steps = rows("training_step")
    ours, other, ratios = (
        ends(step[name] for step in steps) for name in ("rollouts/s", "TRL rollouts/s", "ratio")
    )
    work = f"whole training steps in {len(steps)} settings, rollouts/s"
    cells = [(work, ours, f"TRL 1.16: {other}", ratios, "step")]
    smol = row("language_model_step", step="one turn")
    ours, other, ratio = (number(smol[name]) for name in ("rollouts/s", "TRL rollouts/s", "ratio"))
    work = "a training step of SmolLM2-135M with adapters, rollouts/s"
    cells.append((work, ours, f"TRL 1.16: {other}", ratio, "language model"))
    for game, name in (("tic_tac_toe", "tic-tac-toe"), ("kuhn_poker", "Kuhn poker")):
        game_row = row("games", game=game)
        ours, other, ratio = (
            number(game_row[figure]) for figure in ("turns/s", "TextArena turns/s", "ratio")
        )
        work = f"random play of {name}, turns/s"
        cells.append((work, ours, f"TextArena 0.7.4: {other}", ratio, "games"))
    for step in (step for step in rows("credit") if "ratio" in step):
        work = f"{ESTIMATORS[step['estimator']]} on {step['turns']:,} turns, seconds"
        other = f"its released loops: {number(step['released'])}"
        cells.append((work, number(step["seconds"]), other, number(step["ratio"]), "credit"))
    work = "connect four: mcts against MCTSBot"
    ratio = number(row("oracles", what=work)["value"])
    cells.append(("tree search in connect four", "-", "OpenSpiel's MCTSBot", ratio, "oracles"))
    head = ("what", "Sparring", "beside it", "times as fast", "how it was measured")
    linked_cells = ((*cell, f"[command and aim](#{PEERS[part]})") for *cell, part in cells)
    return markdown(head, linked_cells)


def ends(numbers):
    """Return the smallest and the largest of some figures."""
    numbers = list(numbers)
    return f"{number(min(numbers))} to {number(max(numbers))}"


def efficiency():
    """Return tokens per second of the loop and of the bare model."""
    named_rows = (
        (name, row("efficiency", recipe=recipe, overrides=overrides))
        for (recipe, overrides), name in LOOPS.items()
    )
    names = ("tokens/s", "bare tokens/s", "efficiency", "aim")
    cells = ((name, *(number(entry[figure]) for figure in names)) for name, entry in named_rows)
    return markdown(("recipe", "tokens/s", "bare tokens/s", "ours / bare", "aim"), cells)


def games():
    """Return turns per second of random play, next to TextArena's."""
    cells = (
        (
            name,
            *(
                number(row("games", game=game)[figure])
                for figure in ("turns/s", "TextArena turns/s", "ratio")
            ),
            aim,
        )
        for game, name, aim in (
            ("tic_tac_toe", "tic-tac-toe", "3"),
            ("kuhn_poker", "Kuhn poker", "2"),
        )
    )
    return markdown(("game", "turns/s", "TextArena turns/s", "ratio", "aim"), cells)


def bridges():
    """Return what a bridge adds to a turn of the library and of our loop, in milliseconds."""
    names = ("ms/turn", "library ms/turn", "loop ms/turn", "added ms/turn")
    cells = (
        (f"`{row['bridge']}`", *(f"{row[name]:.3f}" for name in names), "0.15")
        for row in rows("bridge_turns")
    )
    head = ("environment", "a turn, ms", "library alone", "our loop alone", "added", "aim")
    return markdown(head, cells)


def credit():
    """Return seconds on a million turns, and how much faster two are than released loops."""
    all_rows = rows("credit")
    rows_with_ratio = [row for row in all_rows if "ratio" in row]
    seconds_of = {row["estimator"]: row["seconds"] for row in all_rows if "ratio" not in row}
    slowest = max(seconds_of, key=lambda name: seconds_of[name])
    names = list(dict.fromkeys([*ESTIMATORS, slowest]))
    cells = [
        (
            f"{ESTIMATORS[row['estimator']]}, times the released loops",
            number(row["ratio"]),
            RATIO_AIM,
        )
        for row in rows_with_ratio
    ]
    for name in names:
        label = ESTIMATORS.get(name, f"`{name}`") + (
            ", the slowest of all" if name == slowest else ""
        )
        cells.append((f"{label}, a million turns, seconds", f"{seconds_of[name]:.2f}", SECONDS_AIM))
    return markdown(("what", "figure", "aim"), cells)


def oracles():
    """Return the speed of the oracles, and judging's share of a step."""
    cells = (
        (row["what"], row["unit"], number(row["value"]), number(row["aim"]) if "aim" in row else "")
        for row in rows("oracles")
    )
    return markdown(("what", "unit", "figure", "aim"), cells)


def chat():
    """Return tokens per second and memory of a real chat model."""
    count_columns, speed_columns = (
        ("turns", "conversation tokens"),
        ("play tokens/s", "sampled tokens/s", "forward tokens/s", "update tokens/s"),
    )
    columns = ("prefill ratio", *speed_columns, "peak GiB of play", "peak GiB")
    cells = (
        (
            row["recipe"],
            *(f"{row[name]:,}" for name in count_columns),
            *(number(row[name]) for name in columns),
        )
        for row in rows("chat")
    )
    return markdown(("recipe", *count_columns, *columns), cells)


def checkpoints():
    """Return what saving costs in memory, time and bytes."""
    sizes = ("largest file, MiB", "all files, MiB", "written, MiB")
    cells = (
        (
            row["model"],
            row["snapshots"],
            row["checkpoint"],
            f"{row['memory ratio']:.3f}",
            number(row["aim"]),
            *(number(row[name]) for name in sizes),
            number(row["seconds"]),
        )
        for row in rows("checkpoints")
    )
    head = ("model", "snapshots", "checkpoint", "memory / largest file", "aim, at most")
    return markdown((*head, *sizes, "seconds"), cells)


def payoffs():
    """Return how long a payoff table by plays takes, and how far it is from the exact one."""
    head = (
        "members",
        "cells",
        "plays",
        "seconds",
        "aim, at most",
        "plays/s",
        "largest half-width",
        "largest error",
        "intervals that hold the exact value",
        "seconds of exact values",
    )
    cells = (
        (
            str(row["members"]),
            str(row["cells"]),
            f"{row['plays']:,}",
            number(row["seconds"]),
            str(row["aim"]),
            number(row["plays/s"]),
            f"{row['largest half-width']:.3f}",
            f"{row['largest error']:.3f}",
            f"{100 * row['share held']:.0f} %",
            f"{row['exact seconds']:.1f}",
        )
        for row in rows("payoffs")
    )
    return markdown(head, cells)


MARKERS = {
    "payoffs": payoffs,
    "checkpoints": checkpoints,
    "peers": peers,
    "smol step": language_model_ratio,
    "training step": training_step,
    "language model step": language_model_step,
    "adapters": adapters,
    "efficiency": efficiency,
    "games": games,
    "bridge turns": bridges,
    "credit": credit,
    "oracles": oracles,
    "chat": chat,
}
