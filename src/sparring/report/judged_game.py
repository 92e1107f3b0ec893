"""An example game of a run with what the oracle said of every move, for the page of a run.

Everything is escaped.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sparring.oracles.judge import is_best, regret
from sparring.report.page import marked
from sparring.rollout.store import from_bytes
from sparring.types import Episode, Turn, Verdict

PARTS = 5  # newest parts of the store that are looked through
ACTIONS = 8  # actions shown of a turn, the best first; the one that was played besides
ROWS = 10_000  # turns of a part that are looked at
LETTERS = 200  # of a reply or a view
HEADS = ("turn", "seat", "sees", "reply", "worth of the legal actions", "regret")


def judged_games(folder: Path) -> str:
    """Return the first judged game of each name as HTML; "" without any.

    They are from the newest part of an episode store that has any.

    Args:
        folder: the store's; it need not exist. Parts that cannot be read, or are older than
            verdicts, are passed over.
    """
    for path in sorted(folder.glob("part-*.parquet"), reverse=True)[:PARTS]:
        try:
            stored = from_bytes(path.read_bytes(), rows=ROWS)
            examples: dict[str, Episode] = {}
            for _, episode in stored:
                if episode.game not in examples and any(
                    turn.verdict is not None for turn in episode.turns
                ):
                    examples[episode.game] = episode
            if examples:
                return "".join(_game(stored[0][0], episode) for episode in examples.values())
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
    return ""


def _game(step: int, episode: Episode) -> str:
    """Return a game as a heading, a sentence and a table, one row per turn."""
    lost = [value for value in map(regret, episode.turns) if value is not None]
    best = [right for right in map(is_best, episode.turns) if right is not None]
    returns = ", ".join(
        f"{role} {value:g}" for role, value in zip(episode.roles, episode.returns, strict=True)
    )
    head = "".join(f"<th>{name}</th>" for name in HEADS)
    rows = "".join(
        _row(number, episode, turn) for number, turn in enumerate(episode.decisions, start=1)
    )
    title = marked(f"A game of {episode.game}, as the oracle sees it")
    text = (
        f"Step {step}, the first judged game stored. Returns: {returns}. {sum(best)} "
        f"of {len(best)} judged moves are among the best; "
    )
    text += (
        f"mean regret {sum(lost) / len(lost):.3g}. Values are those of the legal actions to the "
        "seat that acts, best ones bold."
    )
    return f"<h2>{title}</h2><p>{marked(text)}</p><table><tr>{head}</tr>{rows}</table>"


def _row(number: int, episode: Episode, turn: Turn) -> str:
    """Return a turn as a row of the table."""
    said = turn.reply if turn.event == "ok" else f"{turn.reply} ({turn.event})"
    lost = regret(turn)
    texts = (str(number), episode.roles[turn.seat])
    cells = [marked(text) for text in texts] + [
        f'<code class="lines">{marked(_short(text))}</code>' for text in (turn.view, said)
    ]
    cells.append("not judged" if turn.verdict is None else _values(turn, turn.verdict))
    cells.append("-" if lost is None else f"{lost:.3g}")
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _values(turn: Turn, verdict: Verdict) -> str:
    """Return the legal actions with their values, the best first and bold.

    The one that was played is underlined.
    """
    order = sorted(
        range(len(verdict.actions)),
        key=lambda place: (verdict.actions[place] not in verdict.best, -verdict.values[place]),
    )
    shown = [
        place
        for rank, place in enumerate(order)
        if rank < ACTIONS or verdict.actions[place] == turn.action
    ]
    parts = []
    for place in shown:
        action = verdict.actions[place]
        text = f"{marked(_short(action))} {verdict.values[place] + 0.0:.3g}"
        text = f"<b>{text}</b>" if action in verdict.best else text
        parts.append(f"<u>{text}</u>" if action == turn.action else text)
    more = len(order) - len(shown)
    known = [f"and {more} more"] if more else []
    known += [f"certainty {verdict.certainty:.2g}"] if verdict.certainty < 1 else []
    known += [f"values within {verdict.bound:.2g}"] if verdict.bound else []
    known += [f"{verdict.entropy:.2f} nats hidden"] if verdict.entropy is not None else []
    return ", ".join(parts) + (f" ({'; '.join(known)})" if known else "")


def _short(text: str) -> str:
    """Return a text, cut if it is long."""
    return text if len(text) <= LETTERS else text[:LETTERS] + "..."
