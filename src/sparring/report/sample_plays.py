"""The episodes on a run's page: three chosen by a fixed rule, and some judged by an oracle."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparring.core.errors import RunError
from sparring.core.records import Episode, Turn
from sparring.methods.oracles.judge import is_best, regret
from sparring.play.store import (
    Credits,
    CreditStore,
    EpisodeStore,
    credits_of,
    episodes_in,
    from_bytes,
)
from sparring.report.episode_text import (
    INVALID_RECORD_ERRORS,
    Decode,
    early_endings,
    seat_texts,
    turn_texts,
)
from sparring.report.timeline import timeline, timeline_svg

WHEN = {1: ("The only stored step",), 2: ("Early", "Late"), 3: ("Early", "Middle", "Late")}
RULE = (
    "Chosen by a rule. Steps: the first stored step, the step nearest to the middle, and the "
    "last one. Beginning (environment, and first prompt of the seat that moves first): the most "
    "frequent one that all of these steps have, or each step's most frequent one. Episode: among "
    "those with this beginning, the one whose first trained seat has the median return (the lower "
    "of two medians; the lowest number if equal)."
)
ROWS = 200_000  # first rows of a stored file, from which episodes are chosen
FIRST, LAST = 12, 4  # number of turns shown at the beginning and the end of a long episode
TOKENS = 48  # number of tokens shown of a reply
PARTS = 5  # newest files of the store that are searched for a judged game
JUDGED_ROWS = 10_000  # turns that are read from each of these files
ACTIONS = 8  # number of actions shown of a judged turn, best first, besides the played one
LETTERS = 200  # number of letters shown of a reply or view of a judged turn
Start = tuple[str, str]  # environment, first prompt


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenPlay:
    """An episode of the run that was chosen for the page.

    Args:
        when: early, middle or late.
        step: the step of the episode.
        episode: record of the episode.
        credit: rows of credit of its replies, by (seat, turn index, candidate).
    """

    when: str
    step: int
    episode: Episode
    credit: Credits = field(default_factory=dict)


def sample_plays(run: Path) -> tuple[list[ChosenPlay], list[str]]:
    """Return (episodes of a run chosen by ``RULE``, messages about unreadable files)."""
    store, troubles = EpisodeStore(run / "episodes"), list[str]()
    steps = store.steps()
    tables = dict(_three_steps(store, steps, troubles))
    if not steps:
        troubles.append(
            "No episodes are stored, so none can be shown; store.every sets which steps store them."
        )
    rows_by_start = {step: _find_starts(table) for step, table in tables.items()}
    start = _common_start(list(rows_by_start.values()))
    samples = []
    for stage, step in zip(WHEN.get(len(tables), ()), tables, strict=True):
        chosen_start = start or max(
            sorted(rows_by_start[step]), key=lambda name: len(rows_by_start[step][name])
        )
        try:
            number = _median_play(tables[step], rows_by_start[step][chosen_start])
            episode_rows = tables[step].filter(pc.equal(tables[step]["episode_id"], number))
            ((_, episode),) = episodes_in(episode_rows)
        except INVALID_RECORD_ERRORS:
            troubles.append(f"The episodes of step {step} are invalid records.")
            continue
        credit = _credit(run, step, number, troubles)
        samples.append(ChosenPlay(when=stage, step=step, episode=episode, credit=credit))
    return samples, troubles


def _three_steps(
    store: EpisodeStore, steps: Sequence[int], troubles: list[str]
) -> list[tuple[int, pa.Table]]:
    """Return the rows of up to three readable steps: the first, the middle and the last."""
    tables: dict[int, pa.Table] = {}
    middle = (steps[0] + steps[-1]) / 2 if steps else 0
    orders: tuple[Iterable[int], ...] = (
        steps,
        reversed(steps),
        sorted(steps, key=lambda step: (abs(step - middle), step)),
    )
    unreadable_steps: set[int] = set()
    for order in orders:
        for step in order:
            if step in tables:
                break
            if step not in unreadable_steps and (table := _rows(store, step, troubles)) is not None:
                tables[step] = table
                break
            unreadable_steps.add(step)
    return sorted(tables.items(), key=lambda pair: pair[0])


def _rows(store: EpisodeStore, step: int, troubles: list[str]) -> pa.Table | None:
    try:
        tables = list(store.map_parts(lambda table: table, lambda number: number == step))
    except RunError as error:
        troubles.append(str(error))
        return None
    if not tables or not len(tables[0]):
        troubles.append(f"The episodes of step {step} cannot be read and are left out.")
        return None
    return tables[0]


def _find_starts(table: pa.Table) -> dict[Start, list[int]]:
    rows_by_start: dict[Start, list[int]] = {}
    rows = table.slice(0, ROWS)
    columns = [rows[name].to_pylist() for name in ("episode_id", "game", "told")]
    previous_number = object()
    for row, (number, game, prompt) in enumerate(zip(*columns, strict=True)):
        if number != previous_number:
            rows_by_start.setdefault((str(game), str(prompt)), []).append(row)
        previous_number = number
    return rows_by_start


def _common_start(starts_of_steps: Sequence[Mapping[Start, Sequence[int]]]) -> Start | None:
    starts = set.intersection(*map(set, starts_of_steps)) if starts_of_steps else set()
    counts = Counter({start: min(len(rows[start]) for rows in starts_of_steps) for start in starts})
    return min(counts, key=lambda start: (-counts[start], start)) if counts else None


def _median_play(table: pa.Table, rows: Sequence[int]) -> int:
    """Return the number of the episode whose first trained seat has the median return."""
    first_rows = table.select(["episode_id", "returns", "trained_seats"]).take(rows).to_pylist()
    ranked_returns = sorted((_first_trained_return(row), row["episode_id"]) for row in first_rows)
    median_return = ranked_returns[(len(ranked_returns) - 1) // 2][0]
    return int(next(number for value, number in ranked_returns if value == median_return))


def _first_trained_return(row: Mapping[str, Any]) -> float:
    trained, returns = row["trained_seats"] or [], row["returns"] or [0.0]
    seat = trained.index(True) if True in trained else 0
    value = float(returns[seat]) if seat < len(returns) else 0.0
    return value if math.isfinite(value) else 0.0


def _credit(run: Path, step: int, number: int, troubles: list[str]) -> Credits:
    try:
        table = CreditStore(run / "credit").read(lambda other: other == step)
    except RunError as error:
        troubles.append(str(error))
        return {}
    return credits_of(table, number)


def play_values(sample: ChosenPlay, decode: Decode | None) -> dict[str, Any]:
    """Return the values of the template ``play.html``; ``decode`` returns texts of tokens."""
    episode = sample.episode
    numbers = range(len(episode.turns))
    left_out = max(0, len(numbers) - FIRST - LAST)
    turn_numbers = [*numbers[:FIRST], *numbers[-LAST:]] if left_out else numbers
    episode_timeline = timeline(episode.roles, episode.turns)
    return {
        "when": sample.when,
        "step": sample.step,
        "about": f"Episode {episode.episode_id} of {episode.game}, start {episode.seed:x}, group "
        f"{episode.group_id}.",
        "seats": seat_texts(episode),
        "timeline": timeline_svg(episode_timeline) if len({*episode_timeline.seats}) > 1 else "",
        "turns": list(turn_texts(episode, sample.credit, decode, turn_numbers, TOKENS)),
        "first": FIRST,
        "left_out": left_out,
        "endings": early_endings(episode),
    }


def judged_games(folder: Path) -> list[dict[str, Any]]:
    """Return the values of the template ``judged.html``: one judged episode per environment.

    Args:
        folder: folder of the store, which may be missing. The newest file with verdicts is used,
            and unreadable files are skipped.
    """
    for path in sorted(folder.glob("part-*.parquet"), reverse=True)[:PARTS]:
        try:
            games: dict[str, dict[str, Any]] = {}
            for step, episode in from_bytes(path.read_bytes(), rows=JUDGED_ROWS):
                if episode.game not in games and any(
                    turn.verdict is not None for turn in episode.turns
                ):
                    games[episode.game] = _judged_game(step, episode)
            if games:
                return list(games.values())
        except (pa.ArrowException, OSError, *INVALID_RECORD_ERRORS):
            continue
    return []


def _judged_game(step: int, episode: Episode) -> dict[str, Any]:
    regrets = [value for value in map(regret, episode.turns) if value is not None]
    are_best = [is_right for is_right in map(is_best, episode.turns) if is_right is not None]
    seats = zip(episode.roles, episode.returns, strict=True)
    returns = ", ".join(f"{role} {value:g}" for role, value in seats)
    return {
        "title": f"A game of {episode.game}, as the oracle sees it",
        "about": f"Step {step}, the first judged game stored. Returns: {returns}. {sum(are_best)} "
        f"of {len(are_best)} judged moves are among the best; mean regret "
        f"{sum(regrets) / len(regrets):.3g}. Values are those of the legal actions to the seat "
        "that acts, best ones bold.",
        "turns": [
            {
                "role": episode.roles[turn.seat],
                "view": _shorten(turn.view),
                "reply": _shorten(turn.reply + ("" if turn.event == "ok" else f" ({turn.event})")),
                "regret": "-" if (turn_regret := regret(turn)) is None else f"{turn_regret:.3g}",
                **_action_values(turn),
            }
            for turn in episode.decisions
        ],
    }


def _action_values(turn: Turn) -> dict[str, Any]:
    """Return a turn's legal actions with their values, best first, and notes."""
    verdict = turn.verdict
    if verdict is None:
        return {"actions": [], "notes": ""}
    order = sorted(
        zip(verdict.actions, verdict.values, strict=True),
        key=lambda pair: (pair[0] not in verdict.best, -pair[1]),
    )
    values = [
        (f"{_shorten(action)} {value + 0.0:.3g}", action in verdict.best, action == turn.action)
        for rank, (action, value) in enumerate(order)
        if rank < ACTIONS or action == turn.action
    ]
    num_more = len(order) - len(values)
    notes = [f"and {num_more} more"] if num_more else []
    notes += [f"certainty {verdict.certainty:.2g}"] if verdict.certainty < 1 else []
    notes += [f"values within {verdict.bound:.2g}"] if verdict.bound else []
    notes += [f"{verdict.entropy:.2f} nats hidden"] if verdict.entropy is not None else []
    return {"actions": values, "notes": "; ".join(notes)}


def _shorten(text: str) -> str:
    return text if len(text) <= LETTERS else text[:LETTERS] + "..."
