"""Suites: lists of measurements with scores, and the figures of their rows, with intervals.

A suite is a YAML file that is checked before play. Rows that differ only in one option can be
written as one row with ``each``:

    - name: game_{game}
      each: {game: 1..144}      # or a list of values
      game: ordinal_2x2

means 144 rows, one for each value of the option ``game``. The value also replaces ``{game}`` in the
row's name.

A row is played in pieces; a piece is some games from one seat. Every game has its own streams,
derived from (seed, row's name, seat, number), and the pieces do not depend on the processes. The
sum is therefore the same for any number of processes, any order and after any interruption.

A tally counts the results: ``{"returns": {"-1.0": 12, ...}, "wins": 3, "draws": 4, "losses": 5,
"illegal": 0, "replies": 40}``. The list ``replied`` has one entry [illegal replies, replies, number
of such games] for each such pair. With an oracle ``judged`` has ``JudgedTurns.as_data``.
Older files have no ``replied``; the interval of their illegal share assumes independent replies.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from sparring.config.parts import Strict, config_error, parse_named, refuse_repeated
from sparring.config.yaml_text import parse_yaml, read_text
from sparring.core.errors import ConfigError, UnknownNameError, quoted
from sparring.core.records import Episode, Interval
from sparring.core.rng import Stream
from sparring.environments.base import Environment, teams_of
from sparring.environments.catalogue import make_game
from sparring.measure import oracle_choice
from sparring.measure.agent_spec import AgentSpec
from sparring.measure.initial_states import (
    Label,
    SeenInitialStates,
    Starts,
    all_starts,
    measured_starts,
)
from sparring.measure.matches import (
    AGENT,
    OPPONENT,
    illegal_replies,
    illegal_share,
    match_spec,
    outcome,
    success_interval,
)
from sparring.measure.oracle_choice import OracleSpec
from sparring.measure.oracle_regret import Judge, add_judged_turns, judge_turns
from sparring.methods.oracles.base import Oracle, reason_not_judged
from sparring.ops.statistics import mean_interval, wilson_interval
from sparring.play.players.base import Agent
from sparring.play.team import play_teams

EACH = "each"
MAX_ROWS = 1000  # largest number of rows that one row with ``each`` may stand for
RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
EXAMPLE = "write each: {game: 1..144} and name: game_{game}"


def option_values(suite: str, index: int, row: Any) -> tuple[str, list[Any]] | None:
    """Return the option in a row's ``each`` with its values; None without ``each``.

    Args:
        suite: name of the suite, for errors.
        index: index of the row in the file.
        row: the row as it is written in the file.

    Raises:
        ConfigError: ``each`` is not one option with different values, the row's name does not
            contain the option, or the option also stands below ``options``.
    """
    if not isinstance(row, Mapping) or EACH not in row:
        return None
    option_range, key = row[EACH], f"Suite {suite!r}: rows.{index}.{EACH}"
    if not isinstance(option_range, Mapping) or len(option_range) != 1:
        raise ConfigError(
            f"{key}: must name one option with its values, got {quoted(option_range)}; {EXAMPLE}."
        )
    ((option, range_text),) = option_range.items()
    values = _values(range_text)
    if values is None or len(set(map(str, values))) < len(values):
        raise ConfigError(
            f"{key}.{quoted(str(option))}: must be a list of different values, or whole numbers "
            f"FIRST..LAST, at most {MAX_ROWS}, got {quoted(range_text)}; {EXAMPLE}."
        )
    if not isinstance(row.get("name"), str) or f"{{{option}}}" not in row["name"]:
        raise ConfigError(
            f"{key}: the row's name, {quoted(row.get('name'))}, has no {{{option}}}, so that its "
            f"rows have equal names; {EXAMPLE}."
        )
    if isinstance(row.get("options"), Mapping) and option in row["options"]:
        raise ConfigError(f"{key}: the option {option!r} is also under options; write it once.")
    return str(option), values


def _values(range_value: Any) -> list[Any] | None:
    if isinstance(range_value, str) and (bounds := RANGE.fullmatch(range_value)):
        first, last = map(int, bounds.groups())
        return list(range(first, last + 1)) if first <= last < first + MAX_ROWS else None
    is_plain = isinstance(range_value, list) and all(
        isinstance(value, (str, int, float)) for value in range_value
    )
    return list(range_value) if is_plain and 0 < len(range_value) <= MAX_ROWS else None


MAX_STATES = 20_000  # largest number of information states that an exact row enumerates


class _Entry(Strict):
    """A plug-in in the form of recipes: a mapping, or a text ``NAME key=value ...``."""

    name: str = Field(description="the plug-in's name")
    options: dict[str, Any] = Field(
        default_factory=dict, description="its options, which may also be written beside the name"
    )

    @model_validator(mode="before")
    @classmethod
    def _parse_entry(cls, data: Any) -> Any:
        if isinstance(data, str):
            name, options = parse_named(data, "Plug-in", "mcts simulations=1000")
            return {"name": name, "options": options}
        if not isinstance(data, dict) or not isinstance(data.get("options", {}), dict):
            return data
        inline = {key: value for key, value in data.items() if key not in ("name", "options")}
        repeated = sorted(inline.keys() & data.get("options", {}).keys())
        if repeated:
            raise ValueError(
                f"the option {repeated[0]} is both beside the name and under options; write it once"
            )
        name_entry = {key: data[key] for key in ("name",) if key in data}
        return {**name_entry, "options": {**data.get("options", {}), **inline}}


class OpponentEntry(_Entry):
    """A bot by name, with its options."""

    @property
    def spec(self) -> AgentSpec:
        """The agent as plain data."""
        return AgentSpec(self.name, self.options)


class OracleEntry(_Entry):
    """An oracle by name, with its options."""

    @property
    def spec(self) -> OracleSpec:
        """The oracle as plain data."""
        return OracleSpec(self.name, self.options)


class SuiteRow(Strict):
    """One measurement: a game, how it is played, and how it is scored."""

    name: str = Field(
        min_length=1, description="unique in the suite; deals and draws derive from it"
    )
    game: str = Field(description="a hand-written game or any sequential OpenSpiel game")
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="the game's options; without style, the style of the player is taken",
    )
    illegal: dict[str, Any] = Field(
        default_factory=dict,
        description="rule for illegal replies; default: a forfeit with zero-sum payoffs",
    )
    role: Literal["trained", "held_out"] = Field(
        description="whether the suite's authors train on the game"
    )
    kind: Literal["match", "solo", "coplay", "exact"] = Field(
        description=(
            "against the opponent, alone in a game of one seat, with itself in all seats, or by "
            "enumeration"
        )
    )
    opponent: OpponentEntry | None = Field(None, description="player in all other seats of a match")
    oracle: OracleEntry | None = Field(
        None, description="what scores every turn of the player; null: none"
    )
    games_per_seat: int = Field(
        100, ge=2, description="games from each seat; kinds coplay and solo: number of games"
    )
    normalise: tuple[float, float] | None = Field(
        None, description="mean returns that score 0 and 100; null: no score"
    )
    in_totals: bool = Field(True, description="whether the score counts in the totals")
    starts: Literal["unseen", "seen"] = Field(
        "unseen",
        description=(
            "unseen: initial states that did not occur in the player's training, if there are "
            "any; seen: those that did"
        ),
    )

    @field_validator("normalise")
    @classmethod
    def _check_normalise(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"low must be below high in [low, high], got {list(value)}")
        return value

    @model_validator(mode="after")
    def _check_kind(self) -> SuiteRow:
        if (self.kind == "match") != (self.opponent is not None):
            raise ValueError(
                f"a row of kind {self.kind!r} has {'no' if self.opponent else 'an'} opponent; "
                "only a match has one"
            )
        if self.kind == "exact" and self.normalise is not None:
            raise ValueError("an exact row has no score; leave normalise out")
        if self.kind == "exact" and self.oracle is not None:
            raise ValueError(
                "an exact row plays no games that an oracle could judge; leave oracle out"
            )
        return self

    def make_game(self) -> Environment:
        """Return the row's game.

        Raises:
            UnknownNameError: there is no such game, option or rule.
            ConfigError: a value is out of range.
            GameError: the game cannot be played here.
        """
        return make_game(self.game, options=self.options, illegal=self.illegal)


class Suite(Strict):
    """A list of rows and a one-line summary."""

    summary: str = Field("", description="one line about the suite")
    rows: list[SuiteRow] = Field(min_length=1, description="what is measured")

    @model_validator(mode="after")
    def _check_names(self) -> Suite:
        refuse_repeated(
            "row", (row.name for row in self.rows), "results are kept by the row's name"
        )
        return self


def suite_names() -> tuple[str, ...]:
    """Return the names of the suites in the package."""
    root = resources.files("sparring") / "suites"
    return tuple(
        sorted(
            item.name.removesuffix(".yaml")
            for item in root.iterdir()
            if item.name.endswith(".yaml")
        )
    )


def load_suite(name: str) -> tuple[str, Suite]:
    """Return (short name, checked suite) for a suite's name or a YAML file's path.

    Raises:
        UnknownNameError: the suite, key, game, agent or option does not exist; the message suggests
            the nearest name.
        ConfigError: the file is not YAML, or a value is wrong; the message says where.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        text, short_name = read_text(path, f"Suite {name!r}"), path.stem
    elif name in suite_names():
        path_in_package = resources.files("sparring") / "suites" / f"{name}.yaml"
        text, short_name = path_in_package.read_text(encoding="utf-8"), name
    else:
        raise UnknownNameError(
            "suite", name, suite_names(), "The path of a YAML file is also accepted."
        )
    return short_name, check_suite(name, parse_yaml(text, f"Suite {name!r}"))


def check_suite(name: str, data: Any) -> Suite:
    """Return the suite of a plain mapping, after making each game and opponent once.

    Raises:
        UnknownNameError: a key does not exist.
        ConfigError: a value is wrong, or a game or agent cannot be made; the message has the row.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"Suite {name!r} must be a mapping with the key rows, got {type(data).__name__}."
        )
    file_rows = data["rows"] if isinstance(data.get("rows"), list) else []
    option_ranges = [option_values(name, index, row) for index, row in enumerate(file_rows)]
    plain_rows = [
        {key: value for key, value in row.items() if key != EACH} if option_range else row
        for row, option_range in zip(file_rows, option_ranges, strict=True)
    ]
    try:
        suite = Suite.model_validate({**data, "rows": plain_rows} if plain_rows else dict(data))
        rows = [
            expanded_row
            for row, option_range in zip(suite.rows, option_ranges, strict=True)
            for expanded_row in _expand_row(row, option_range)
        ]
        suite = Suite(summary=suite.summary, rows=rows)
    except ValidationError as error:
        raise config_error(error, _keys, f"Suite {name!r}") from None
    for row in suite.rows:
        try:
            _check_row(row)
        except ConfigError as error:
            raise ConfigError(f"Suite {name!r}, row {row.name!r}: {error}") from None
    return suite


def _expand_row(row: SuiteRow, option_range: tuple[str, list[Any]] | None) -> list[SuiteRow]:
    if option_range is None:
        return [row]
    option, values = option_range
    return [
        row.model_copy(
            update={
                "name": row.name.replace(f"{{{option}}}", str(value)),
                "options": {**row.options, option: value},
            }
        )
        for value in values
    ]


def _check_row(row: SuiteRow) -> None:
    game = row.make_game()
    if row.kind == "coplay" and not game.cooperative:
        raise ConfigError(
            f"co-play needs a game whose seats share one payoff, unlike {row.game!r}; write kind: "
            "match"
        )
    if row.kind == "solo" and game.num_seats > 1:
        raise ConfigError(
            f"solo needs a game of one seat, and {row.game!r} has {game.num_seats}; write kind: "
            "match and an opponent"
        )
    if row.kind == "match" and game.num_seats == 1:
        raise ConfigError(
            f"{row.game!r} has only one seat, and no seat for an opponent; write kind: solo, and "
            "leave opponent out"
        )
    if row.opponent is not None:
        row.opponent.spec.make()
    if row.oracle is not None:
        reason = reason_not_judged(row.oracle.spec.make(), game)
        if reason:
            raise ConfigError(f"oracle {row.oracle.name!r} cannot judge {row.game!r}: {reason}")


def _keys(path: tuple[int | str, ...]) -> list[str]:
    sections: tuple[type[Strict], ...] = (Suite, SuiteRow, OpponentEntry)
    depth = sum(isinstance(part, str) for part in path)
    return [*sections[depth].model_fields, *([EACH] if depth == 1 else [])]


def with_opponents(
    suite: Suite, opponents: Mapping[str, AgentSpec], games: int | None, style_of: Mapping[str, str]
) -> Suite:
    """Return the suite with wording styles, numbers of games and extra opponents.

    Args:
        suite: the suite as it is written in the file.
        opponents: label -> agent; every match is also played against each of these, outside the
            totals.
        games: games per seat of every row; None: the number in each row.
        style_of: wording style by row name; a style in the row's options wins.
    """
    rows: list[SuiteRow] = []
    games_with_opponents: set[tuple[str, str]] = set()
    for row in suite.rows:
        options = {"style": style_of[row.name], **row.options}
        new_row = row.model_copy(
            update={"options": options, "games_per_seat": games or row.games_per_seat}
        )
        rows.append(new_row)
        game = (row.game, str(sorted(row.options.items())))
        if row.kind == "match" and game not in games_with_opponents:
            games_with_opponents.add(game)
            for label, spec in opponents.items():
                entry = OpponentEntry(name=spec.name, options=dict(spec.options))
                name = _unused_name(
                    f"{row.name.rsplit('-', 1)[0]}-{label}",
                    f"{row.name}-{label}",
                    [*suite.rows, *rows],
                )
                rows.append(
                    new_row.model_copy(update={"name": name, "opponent": entry, "in_totals": False})
                )
    return suite.model_copy(update={"rows": rows})


def _unused_name(name: str, longer: str, rows: Sequence[SuiteRow]) -> str:
    return longer if any(row.name == name for row in rows) else name


def with_oracle(suite: Suite, spec: OracleSpec) -> tuple[Suite, dict[str, str]]:
    """Return (suite with this oracle in rows without one, reason by row that it cannot judge).

    Raises:
        ConfigError: the oracle can judge none of these rows, or no row lacks an oracle.
    """
    oracle, entry = spec.make(), OracleEntry(name=spec.name, options=dict(spec.options))
    targets = [row for row in suite.rows if row.kind != "exact" and row.oracle is None]
    if not targets:
        raise ConfigError(
            f"--oracle {spec.name} has nothing to judge: all played rows already have an oracle; "
            "leave --oracle out."
        )
    reasons = {
        row.name: oracle_choice.reason_not_judged(oracle, row.make_game()) for row in targets
    }
    if all(reasons.values()):
        text = "; ".join(
            {row.game: f"{row.game}: {reasons[row.name].rstrip('.')}" for row in targets}.values()
        )
        raise ConfigError(
            f"--oracle {spec.name} can judge none of the rows that have no oracle: {text}."
        )
    rows = [
        row.model_copy(update={"oracle": entry}) if reasons.get(row.name) == "" else row
        for row in suite.rows
    ]
    return suite.model_copy(update={"rows": rows}), {
        name: reason for name, reason in reasons.items() if reason
    }


def without_oracles(suite: Suite) -> Suite:
    """Return the suite without oracles."""
    return suite.model_copy(
        update={"rows": [row.model_copy(update={"oracle": None}) for row in suite.rows]}
    )


Tally = dict[str, Any]


def tally(episodes: Sequence[Episode], teams: Sequence[int]) -> Tally:
    """Return the counts of some games; a game's return is that of the agent's first seat.

    Args:
        episodes: episodes of one game.
        teams: number of each seat's team.
    """
    seats = [episode.agents.index(AGENT) for episode in episodes]
    outcomes = [
        outcome(episode.returns, seat, teams) for episode, seat in zip(episodes, seats, strict=True)
    ]
    reply_counts = [
        illegal_replies(turn for turn in episode.turns if turn.agent == AGENT)
        for episode in episodes
    ]
    returns = Counter(
        repr(float(episode.returns[seat])) for episode, seat in zip(episodes, seats, strict=True)
    )
    return {
        "returns": dict(sorted(returns.items())),
        "wins": outcomes.count(1),
        "draws": outcomes.count(0),
        "losses": outcomes.count(-1),
        "illegal": sum(illegal for illegal, _ in reply_counts),
        "replies": sum(replies for _, replies in reply_counts),
        "replied": _group_equal(Counter(reply_counts)),
    }


def _group_equal(games: Counter[tuple[int, int]]) -> list[list[int]]:
    return [[*game, count] for game, count in sorted(games.items())]


def _illegal_interval(counts: Tally, level: float) -> Interval:
    """Return the share of illegal replies, clustered by game if the tally has the games."""
    if "replied" not in counts:
        return wilson_interval(counts["illegal"], counts["replies"], level=level)
    games = (
        (illegal, replies) for illegal, replies, count in counts["replied"] for _ in range(count)
    )
    return illegal_share(games, level=level)


def add_tallies(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of tallies; it has verdicts if all of them have verdicts."""
    parts = list(tallies)
    sums: Tally = {
        key: sum(part[key] for part in parts)
        for key in ("wins", "draws", "losses", "illegal", "replies")
    }
    returns: Counter[str] = Counter()
    for part in parts:
        returns.update(part["returns"])
    if all("replied" in part for part in parts):
        games: Counter[tuple[int, int]] = Counter()
        for part in parts:
            games.update({(illegal, replies): count for illegal, replies, count in part["replied"]})
        sums["replied"] = _group_equal(games)
    if all("judged" in part for part in parts):
        sums["judged"] = add_judged_turns([part["judged"] for part in parts]).as_data()
    return {**sums, "returns": dict(returns)}


def figures(
    counts: Tally, row: SuiteRow, game: Environment, *, level: float = 0.95
) -> dict[str, Any]:
    """Return the figures of a tally as plain data; intervals are {"mean", "low", "high"}.

    Rows of matches have wins: games in which the agent alone has the highest return. Rows of games
    with one seat, and rows with an oracle, have successes: games with the highest possible return.
    An oracle adds regret, the share of optimal moves, and "oracle" with its counts.
    """
    mean = mean_return(counts, level=level)
    games = mean.count
    result: dict[str, Any] = {
        "games": games,
        "return": as_data(mean),
        "illegal": as_data(_illegal_interval(counts, level)),
    }
    if row.kind == "match":
        wins, draws = counts["wins"], counts["draws"]
        result |= {"wins": wins, "draws": draws, "losses": counts["losses"]}
        result["win"] = as_data(wilson_interval(wins, games, level=level))
        result["win_or_draw"] = as_data(wilson_interval(wins + draws, games, level=level))
    result["score"] = (
        as_data(_clip(score(mean, row.normalise))) if row.normalise is not None else None
    )
    if game.num_seats == 1 or row.oracle is not None:
        num_by_return = {float(value): num for value, num in counts["returns"].items()}
        success = success_interval(game, num_by_return, level=level)
        result |= {} if success is None else {"success": as_data(success)}
    if row.oracle is not None:
        judged_regret = add_judged_turns([counts["judged"]]).regret(row.oracle.name, level=level)
        result |= {name: as_data(interval) for name, interval in judged_regret.intervals.items()}
        result["oracle"] = judged_regret.facts
    return result


def mean_return(counts: Tally, *, level: float = 0.95) -> Interval:
    """Return the mean return of a tally with Student's t interval."""
    values = sorted((float(value), count) for value, count in counts["returns"].items())
    return mean_interval(
        np.repeat([value for value, _ in values], [count for _, count in values]), level=level
    )


def score(mean: Interval, normalise: tuple[float, float]) -> Interval:
    """Return 100 * (mean - low) / (high - low) for a mean return and the ends of its interval."""
    low, high = normalise
    ends = [100.0 * (value - low) / (high - low) for value in (mean.mean, mean.low, mean.high)]
    return Interval(mean=ends[0], low=ends[1], high=ends[2], count=mean.count, level=mean.level)


def _clip(interval: Interval) -> Interval:
    mean, low, high = (
        min(max(value, 0.0), 100.0) for value in (interval.mean, interval.low, interval.high)
    )
    return Interval(mean=mean, low=low, high=high, count=interval.count, level=interval.level)


def mean_of_means(intervals: Sequence[tuple[float, Interval]]) -> Interval:
    """Return the weighted sum of independent means with its interval.

    half = sqrt(sum_i (w_i half_i)^2), exact for normal means.

    Args:
        intervals: (weight, interval), at least one, all with the same level; the weights sum to 1.
    """
    mean = sum(weight * interval.mean for weight, interval in intervals)
    half = math.sqrt(
        sum((weight * (interval.high - interval.low) / 2.0) ** 2 for weight, interval in intervals)
    )
    count = sum(interval.count for _, interval in intervals)
    return Interval(
        mean=mean, low=mean - half, high=mean + half, count=count, level=intervals[0][1].level
    )


def total_score(rows: Sequence[tuple[SuiteRow, Tally]]) -> dict[str, float] | None:
    """Return the mean score over games with its interval; None without scores.

    The score of a game is the mean over its rows.
    """
    games: dict[str, list[Interval]] = {}
    for row, counts in rows:
        if row.normalise is not None and row.in_totals:
            options = sorted(
                (key, str(value)) for key, value in row.options.items() if key != "style"
            )
            games.setdefault(f"{row.game}{options}", []).append(
                score(mean_return(counts), row.normalise)
            )
    if not games:
        return None
    parts = [
        (1.0 / (len(games) * len(intervals)), interval)
        for intervals in games.values()
        for interval in intervals
    ]
    return {**as_data(_clip(mean_of_means(parts))), "games": len(games)}


def as_data(interval: Interval) -> dict[str, Any]:
    """Return an interval as numbers for JSON; values that are not finite become None."""
    parts: Mapping[str, float] = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return {key: value if math.isfinite(value) else None for key, value in parts.items()}


GAMES_PER_PIECE = 50
"""Games per piece; figures depend on it, because games of one piece are sampled in one batch."""


class SuitePiece(NamedTuple):
    """Games ``begin`` to ``begin + games - 1`` of a row, agent in ``seat``; exact rows: 0 games."""

    row: int  # index of the row in its suite
    seat: int
    begin: int
    games: int

    @property
    def key(self) -> str:
        """Name of the piece within its row."""
        return f"{self.seat}:{self.begin}:{self.games}"


def starts_of(row: SuiteRow, game: Environment, training: SeenInitialStates) -> Starts | None:
    """Return the initial states of a row after this training; None if seen ones are missing."""
    start_sets = measured_starts(game, training)
    if row.starts == "unseen" or row.kind == "exact":
        return start_sets[0]
    return next((starts for starts in start_sets if starts.label == "seen"), None)


def with_seen_starts(suite: Suite, training: SeenInitialStates) -> tuple[Suite, list[Label]]:
    """Return (suite with rows of seen initial states, label of each row).

    Such a row follows each row whose game has seen states; it is outside the totals.
    """
    rows: list[SuiteRow] = []
    labels: list[Label] = []
    for row in suite.rows:
        start_sets = (
            (all_starts(row.make_game()),)
            if row.kind == "exact"
            else measured_starts(row.make_game(), training)
        )
        for starts in start_sets:
            changes = {"name": f"{row.name}-seen", "starts": "seen", "in_totals": False}
            rows.append(row.model_copy(update=changes) if starts.label == "seen" else row)
            labels.append(starts.label)
    return suite.model_copy(update={"rows": rows}), labels


def pieces_of(row_index: int, row: SuiteRow, game: Environment) -> list[SuitePiece]:
    """Return the pieces that make up row number ``row_index``."""
    if row.kind == "exact":
        return [SuitePiece(row_index, 0, 0, 0)]
    seats = game.num_seats if row.kind == "match" else 1
    first_games = range(0, row.games_per_seat, GAMES_PER_PIECE)
    return [
        SuitePiece(row_index, seat, begin, min(GAMES_PER_PIECE, row.games_per_seat - begin))
        for seat in range(seats)
        for begin in first_games
    ]


def play_piece(
    piece: SuitePiece,
    row: SuiteRow,
    game: Environment,
    agent: Agent,
    opponent: Agent | None,
    seed: int,
    oracle: Oracle | None = None,
    starts: Starts | None = None,
) -> Tally:
    """Play a piece of a row and return its tally.

    An oracle judges every turn of the agent. ``starts`` None takes the game's initial states.

    Raises:
        GameError: an agent cannot play the game.
        OracleError: the oracle refuses a state.
        ModelError: a conversation outgrows the model.
        RolloutError: an endpoint failed or its budget is spent, or every game failed.
    """
    stream = Stream.from_seed(seed).child("suite").child(row.name)
    starts = starts or all_starts(game)
    specs = [
        match_spec(starts, piece.seat, number, row.games_per_seat, stream)
        for number in range(piece.begin, piece.begin + piece.games)
    ]
    if row.kind != "match":
        specs = [dataclasses.replace(spec, seats=(AGENT,) * len(spec.seats)) for spec in specs]
    agents = {AGENT: agent} if opponent is None else {AGENT: agent, OPPONENT: opponent}
    episodes = play_teams(specs, agents)
    counts = tally(episodes, teams_of(game))
    if oracle is None:
        return counts
    return {
        **counts,
        "judged": judge_turns(
            starts.game, episodes, AGENT, Judge(oracle=oracle, budget=None)
        ).as_data(),
    }
