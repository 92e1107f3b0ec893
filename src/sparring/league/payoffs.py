"""The payoff book of a run: the results of episodes between any two players.

A row is for one environment and one ordered pair of players: the results of ``player``, whose side
has ``seat`` as its first seat, against a side of ``opponent``. Rules of counting:

- A finished episode counts once for each ordered pair of its teams. The team with the larger return
  wins (the mean over its seats); equal returns are a draw. Each player of a team has the team's
  result.
- In a forfeited episode the offending team has lost against every other team, whatever the payoffs
  are. Pairs of other teams have no result.
- A truncated episode (``rollout.max_turns`` or ``model.context``) has no result.
- If all seats are one team nobody wins or loses; a pair of seats has only games and returns.
- Two members may have exact results (``run.payoff_plays``). Episodes and ``payoff_decay`` do not
  change these.

The learner's rows count the episodes of all its weights so far. With ``league.payoff_decay`` older
episodes count less: the book's numbers are then sums of weights

    weight of an episode k steps ago = (1 - payoff_decay)^k

Episodes of a group share a deal, and are not independent. A row whose groups have several episodes
also has sums over groups, for the intervals. Old books lack these sums, so their episodes count as
independent.

If a run has a policy per role, all policies together are the learner, and their snapshots of one
step are one member; the seat tells which policy played. If several policies learn in one league
(``league.learners``), each is a player.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import permutations
from typing import Any, Generic, NamedTuple, TypeVar

from sparring.core.errors import CheckpointError, ConfigError
from sparring.core.records import MAIN, Episode, PlayerRef
from sparring.environments.base import seats_by_player, seats_by_team
from sparring.ops.statistics import student_margin, student_quantile, wilson_ends

GROUP_SUM_FIELDS = ("return_groups", "win_groups")  # fields that are sums over groups
TOLERANCE = 1e-9  # tolerance of equal numbers, relative or absolute


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSums:
    """Sums over groups of episodes that share a deal, for the error of a mean over all episodes.

    S is the sum of a figure over the episodes of a group, and n the number of these episodes.

    Args:
        count: number of groups.
        sizes: sum of n^2.
        products: sum of n S.
        squares: sum of S^2.
    """

    count: float = 0
    sizes: float = 0
    products: float = 0.0
    squares: float = 0.0

    def plus(self, other: GroupSums, factor: float = 1.0) -> GroupSums:
        """Return these sums plus ``factor`` times the other sums."""
        return GroupSums(
            count=self.count + factor * other.count,
            sizes=self.sizes + factor * other.sizes,
            products=self.products + factor * other.products,
            squares=self.squares + factor * other.squares,
        )

    def variation(self, mean: float) -> float:
        """Return the sum over groups of (S - mean n)^2, with the mean of all episodes."""
        return max(self.squares - 2 * mean * self.products + mean * mean * self.sizes, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """The results of one player against another, which may be added.

    In exact results wins, draws and losses are probabilities, ``returns`` is the expected return,
    ``games`` is 1, and ``squares`` has no meaning. Adding episodes to exact results has no effect.

    Args:
        games: number of episodes that count.
        wins: number of episodes that the player won.
        draws: number of draws.
        losses: number of episodes that the player lost.
        returns: sum of the player's returns, in the environment's units.
        squares: sum of the squares of these returns; None: unknown, in old checkpoints.
        exact: whether the results were computed from the players' policies.
        return_groups: sums of returns over groups that share a deal; None: each episode is a group,
            or ``squares`` is unknown.
        win_groups: sums of wins over the same groups, where a draw is half a win and episodes that
            nobody can win are left out; None: each episode is a group.
    """

    games: float = 0
    wins: float = 0
    draws: float = 0
    losses: float = 0
    returns: float = 0.0
    squares: float | None = 0.0
    exact: bool = False
    return_groups: GroupSums | None = None
    win_groups: GroupSums | None = None

    def __add__(self, other: Results) -> Results:
        """Return the sum of both results."""
        if self.exact != other.exact:
            return self if self.exact else other
        is_unknown = self.squares is None or other.squares is None
        win_groups = return_groups = None
        if self.win_groups or other.win_groups:
            win_groups = self.sums_of_wins().plus(other.sums_of_wins())
        if (self.return_groups or other.return_groups) and not is_unknown:
            return_groups = self.sums_of_returns().plus(other.sums_of_returns())
        return Results(
            games=self.games + other.games,
            wins=self.wins + other.wins,
            draws=self.draws + other.draws,
            losses=self.losses + other.losses,
            returns=self.returns + other.returns,
            squares=None if is_unknown else (self.squares or 0.0) + (other.squares or 0.0),
            exact=self.exact,
            return_groups=return_groups,
            win_groups=win_groups,
        )

    def with_decay(self, decay: float) -> Results:
        """Return the results with the smaller weight that they have one step later.

        Exact results do not change.

        Args:
            decay: share of the weight that is lost, in [0, 1).
        """
        if self.exact:
            return self
        share = 1.0 - decay
        return Results(
            games=share * self.games,
            wins=share * self.wins,
            draws=share * self.draws,
            losses=share * self.losses,
            returns=share * self.returns,
            squares=None if self.squares is None else share * self.squares,
            return_groups=self.return_groups and GroupSums().plus(self.return_groups, share),
            win_groups=self.win_groups and GroupSums().plus(self.win_groups, share),
        )

    def sums_of_returns(self) -> GroupSums:
        """Return the sums of returns by groups; by default each episode is a group."""
        if self.return_groups is not None:
            return self.return_groups
        sums = {"sizes": self.games, "products": self.returns, "squares": self.squares or 0.0}
        return GroupSums(count=self.games, **sums)

    def sums_of_wins(self) -> GroupSums:
        """Return the sums of wins by groups; by default each episode is a group."""
        if self.win_groups is not None:
            return self.win_groups
        wins, squares = self.wins + self.draws / 2, self.wins + self.draws / 4
        return GroupSums(
            count=self.num_decided, sizes=self.num_decided, products=wins, squares=squares
        )

    @property
    def num_decided(self) -> float:
        """Number of episodes that were won, drawn or lost."""
        return self.wins + self.draws + self.losses

    @property
    def mean_return(self) -> float:
        """Mean of the player's returns, in the environment's units; 0 without games."""
        return self.returns / self.games if self.games else 0.0

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the player's returns; None with fewer than two games."""
        if self.exact or self.squares is None or self.games <= 1:
            return None
        variation = self.squares - self.games * self.mean_return**2
        return math.sqrt(max(variation, 0.0) / (self.games - 1))

    def return_interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return the ends of Student's interval of the mean return, or None if it is undefined.

        Episodes of a group share a deal, so only the groups are independent (Cochran, 1977). With G
        groups of n episodes each, whose returns sum to S, and mean r,

            standard error^2 = G / (G - 1) * sum of (S - r n)^2 / (sum of n)^2

        with G - 1 degrees of freedom. There is no interval without a deviation, or with fewer than
        two groups. For exact results both ends are the return. With decay the interval is
        conservative.
        """
        if self.exact:
            return self.mean_return, self.mean_return
        if self.deviation is None:
            return None
        groups = self.return_groups
        if groups is None:
            half = student_margin(self.deviation, self.games, level)
        elif groups.count <= 1:
            return None
        else:
            variation = groups.variation(self.mean_return) * groups.count / (groups.count - 1)
            half = student_quantile(groups.count - 1, level) * math.sqrt(variation) / self.games
        return self.mean_return - half, self.mean_return + half

    def rate_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of Wilson's interval of the win rate; [0, 1] without decided episodes.

        A draw is half a win; the interval is conservative with draws and with decay. Episodes of a
        group share a deal, so they count as fewer episodes (``_num_independent``). For exact
        results both ends are the rate.
        """
        if self.exact and self.num_decided:
            return self.win_rate(), self.win_rate()
        count = self._num_independent(level)
        return wilson_ends(self.win_rate(), count, level) if count > TOLERANCE else (0.0, 1.0)

    def _num_independent(self, level: float) -> float:
        """Return the effective number of independent episodes for the win rate.

        p is the win rate of n episodes in G groups, w in {0, 1/2, 1} the result of an episode, and
        W the sum of w over a group of n_g episodes:

            design effect = [G / (G - 1) sum over groups of (W - p n_g)^2]
                            / [n / (n - 1) sum over episodes of (w - p)^2], at least 1
            episodes = n / design effect * (t_{n - 1} / t_{G - 1})^2

        (Korn and Graubard, 1998). If all episodes have one result, the correlation in groups is
        unknown, and each group counts as one episode. A single group counts 0.
        """
        groups, count, rate = self.win_groups, self.num_decided, self.win_rate()
        if groups is None or not count:
            return count
        if groups.count <= 1 or count <= 1:
            return 0.0
        effect = count / groups.count
        if 0 < rate < 1:
            spread = self.wins + self.draws / 4 - count * rate * rate
            group_spread = groups.variation(rate) * groups.count / (groups.count - 1)
            effect = max(group_spread / (spread * count / (count - 1)), 1.0) if spread > 0 else 1.0
        ratio = student_quantile(count - 1, level) / student_quantile(groups.count - 1, level)
        return count / effect * ratio**2

    def win_rate(self, prior: float = 0.0) -> float:
        """Return the share of wins, where a draw is half a win; 0.5 without decided episodes.

        Args:
            prior: number of draws that are added, unless the results are exact.
        """
        extra_draws = 0.0 if self.exact else prior
        num_decided = self.wins + self.draws + self.losses + extra_draws
        return (self.wins + (self.draws + extra_draws) / 2) / num_decided if num_decided else 0.5

    def to_json(self) -> dict[str, Any]:
        """Return the results as JSON values."""
        record = asdict(self)
        if self.exact or self.squares is None:
            del record["squares"]
        if not self.exact:
            del record["exact"]
        for name in GROUP_SUM_FIELDS:
            if record[name] is None:
                del record[name]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Results:
        """Return the results that ``to_json`` stored.

        Raises:
            TypeError, ValueError: the value has another form.
        """
        default = 0.0 if record.get("exact") else None
        sums_by_name = {
            name: GroupSums(**record[name]) for name in GROUP_SUM_FIELDS if name in record
        }
        results = cls(**{"squares": default, **record, **sums_by_name})
        counts = (results.wins, results.draws, results.losses)
        squares = 0.0 if results.squares is None else results.squares
        numbers = [results.games, results.returns, squares, *counts]
        for groups in sums_by_name.values():
            numbers += [groups.count, groups.sizes, groups.products, groups.squares]
        if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
            raise ValueError("a number is not finite")
        if type(results.exact) is not bool:
            raise TypeError("exact must be true or false")
        if min(*counts, squares) < 0 or sum(counts) > results.games * (1 + TOLERANCE):
            raise ValueError("more games were decided than played")
        if any(
            min(group_sums.count, group_sums.sizes, group_sums.squares) < 0
            for group_sums in sums_by_name.values()
        ):
            raise ValueError("a sum over groups is below 0")
        return results


WEIGHTINGS = {  # name in AlphaStar's pseudo-code -> weighting, power
    "squared": ("hard", 2.0),
    "linear": ("hard", 1.0),
    "linear_capped": ("capped", 1.0),
    "variance": ("variance", 1.0),
}


def opponent_weight(rate: float, weighting: str, power: float) -> float:
    """Return f(p), the weight of an opponent against which the win rate is p.

        f(p) = (1 - p)^power     "hard"
        f(p) = min(1/2, 1 - p)   "capped"
        f(p) = p (1 - p)         "variance"

    Args:
        rate: win rate against the opponent, in [0, 1].
        weighting: "hard", "capped" or "variance".
        power: the exponent of "hard", at least 0.
    """
    if weighting == "variance":
        return rate * (1 - rate)
    return min(0.5, 1 - rate) if weighting == "capped" else float((1 - rate) ** power)


def opponent_weights(rates: Sequence[float], weighting: str, power: float) -> list[float]:
    """Return the weight f of each rate; if all are 0, equal weights.

    Args:
        rates: win rates against each opponent.
        weighting, power: see ``opponent_weight``.
    """
    values = [opponent_weight(rate, weighting, power) for rate in rates]
    return values if sum(values) > 0 else [1.0] * len(values)


V = TypeVar("V")

__all__ = ["Payoffs", "Results", "RowKey"]


class RowKey(NamedTuple):
    """The key of a row of the payoff book."""

    environment: str  # the environment's label, as in metrics
    seat: int  # the first seat of the player's side
    player: PlayerRef
    opponent: PlayerRef


@dataclass(frozen=True, slots=True)
class Payoffs:
    """The payoff book, an immutable value; ``Payoffs()`` is empty."""

    rows: Mapping[RowKey, Results] = field(default_factory=dict)
    _rows_of_pair: dict[tuple[PlayerRef, PlayerRef], list[RowKey]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )  # the rows of each pair, filled at the first call of ``results``

    def results(
        self,
        player: PlayerRef,
        opponent: PlayerRef,
        *,
        environment: str | None = None,
        seat: int | None = None,
    ) -> Results:
        """Return the results of a player against an opponent; 0 games if they have not played.

        Args:
            player: the player whose results are returned.
            opponent: the other player.
            environment: the environment's label; None: all environments.
            seat: the first seat of the player's side; None: any seat.
        """
        if not self._rows_of_pair:
            for row in self.rows:
                self._rows_of_pair.setdefault((row.player, row.opponent), []).append(row)
        total = Results()
        for row in self._rows_of_pair.get((player, opponent), ()):
            if environment in (None, row.environment) and seat in (None, row.seat):
                total += self.rows[row]
        return total

    def with_episodes(
        self,
        episodes: Iterable[Episode],
        teams: Mapping[str, Sequence[int]] | None = None,
        *,
        decay: float = 0.0,
        by_policy: bool = False,
    ) -> Payoffs:
        """Return the book after one more step with these episodes.

        Args:
            episodes: finished episodes.
            teams: the team of each seat, by the environment's label; by default every seat is a
                team.
            decay: share of the weight that earlier results lose, in [0, 1).
            by_policy: whether each policy of the run is a player, as if several learn in
                one league; otherwise all policies are one player.
        """
        rows = dict(self.rows)
        if decay:
            rows = {row: results.with_decay(decay) for row, results in rows.items()}
        row_numbers: dict[RowKey, list[float]] = {}  # rows that change, as lists for speed
        # by row and group: games, returns, decided games, wins
        row_groups: dict[RowKey, dict[int, list[float]]] = {}
        for episode in episodes:
            teams_of_seats = (teams or {}).get(episode.game) or range(len(episode.returns))
            for row, outcome, returns in _outcomes(episode, tuple(teams_of_seats), by_policy):
                if row not in row_numbers:
                    row_numbers[row] = _to_numbers(rows.get(row, Results()))
                    row_groups[row] = {}
                row_sums = row_numbers[row]
                group_sums = row_groups[row].setdefault(episode.group_id, [0, 0.0, 0, 0.0])
                row_sums[0] += 1
                group_sums[0] += 1
                if outcome is not None:
                    row_sums[2 - outcome] += 1  # index 1, 2, 3: wins, draws, losses
                    group_sums[2] += 1
                    group_sums[3] += (1 + outcome) / 2
                row_sums[4] += returns
                group_sums[1] += returns
                row_sums[5] += returns * returns
        for row, numbers in row_numbers.items():
            earlier_results = rows.get(row, Results())
            if not earlier_results.exact:
                groups = list(row_groups[row].values())
                rows[row] = _add_groups(_from_numbers(numbers), earlier_results, groups)
        return Payoffs(rows)

    def with_exact(self, exact: Mapping[RowKey, Results]) -> Payoffs:
        """Return the book with these rows replaced by exact results."""
        return Payoffs({**self.rows, **exact})

    def restricted_to(self, members: Iterable[PlayerRef]) -> Payoffs:
        """Return the book without the rows of snapshots that are not in ``members``."""
        snapshots = set(members)

        def is_relevant(player: PlayerRef) -> bool:
            return player.kind != "snapshot" or player in snapshots

        rows = [row for row in self.rows if is_relevant(row.player) and is_relevant(row.opponent)]
        return Payoffs({row: self.rows[row] for row in rows})

    def to_json(self) -> dict[str, Any]:
        """Return the book as JSON values: the rows of each environment."""
        records: dict[str, Any] = {}
        for row, results in self.rows.items():
            players = {"player": row.player.to_json(), "opponent": row.opponent.to_json()}
            records.setdefault(row.environment, []).append(
                {"seat": row.seat, **players, **results.to_json()}
            )
        return records

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Payoffs:
        """Return the book that ``to_json`` stored.

        Raises:
            CheckpointError: the value has another form.
        """
        rows: dict[RowKey, Results] = {}
        try:
            for environment, entries in value.items():
                for entry in entries:
                    numbers = dict(entry)
                    seat = numbers.pop("seat")
                    player = PlayerRef.from_json(numbers.pop("player"))
                    opponent = PlayerRef.from_json(numbers.pop("opponent"))
                    row = RowKey(environment, seat, player, opponent)
                    rows[row] = Results.from_json(numbers)
        except (TypeError, KeyError, ValueError, AttributeError, ConfigError):
            raise CheckpointError(
                "The checkpoint's payoff book cannot be read; take another checkpoint, or start "
                "anew with --overwrite."
            ) from None
        return cls(rows)


def _to_numbers(results: Results) -> list[float]:
    """Return the numbers that ``Payoffs.with_episodes`` adds to, in its order."""
    squares = math.nan if results.squares is None else results.squares
    return [results.games, results.wins, results.draws, results.losses, results.returns, squares]


def _from_numbers(numbers: Sequence[float]) -> Results:
    games, wins, draws, losses, returns, squares = numbers
    return Results(
        games=games,
        wins=wins,
        draws=draws,
        losses=losses,
        returns=returns,
        squares=None if math.isnan(squares) else squares,
    )


def _add_groups(results: Results, earlier: Results, groups: Sequence[Sequence[float]]) -> Results:
    """Return results with sums over groups, unless each episode is a group.

    Args:
        results: results with the episodes of all groups.
        earlier: results without these episodes.
        groups: number of episodes, sum of returns, decided episodes, and wins of each new group.
    """
    if earlier.win_groups is None and all(group[0] == 1 for group in groups):
        return results
    return_groups = GroupSums(
        count=len(groups),
        sizes=sum(size * size for size, _, _, _ in groups),
        products=math.fsum(size * returns_sum for size, returns_sum, _, _ in groups),
        squares=math.fsum(returns_sum * returns_sum for _, returns_sum, _, _ in groups),
    )
    win_groups = GroupSums(
        count=sum(num_decided > 0 for _, _, num_decided, _ in groups),
        sizes=sum(num_decided * num_decided for _, _, num_decided, _ in groups),
        products=sum(num_decided * wins_sum for _, _, num_decided, wins_sum in groups),
        squares=sum(wins_sum * wins_sum for _, _, _, wins_sum in groups),
    )
    has_squares = results.squares is not None
    return replace(
        results,
        return_groups=earlier.sums_of_returns().plus(return_groups) if has_squares else None,
        win_groups=earlier.sums_of_wins().plus(win_groups),
    )


def _outcomes(
    episode: Episode, teams: tuple[int, ...], by_policy: bool
) -> Iterator[tuple[RowKey, int | None, float]]:
    """Yield each ordered pair's row, outcome (1, 0, -1; None in one team), and return."""
    if episode.cut:
        return
    sides, returns = seats_by_team(teams), episode.returns
    pairs = pair_row_keys(episode.game, episode.players, teams, by_policy)
    if len(sides) == 1:
        for row, seat, _ in pairs:
            yield row, None, returns[seat]
        return
    means = returns
    if len(sides) < len(teams):
        means = tuple(math.fsum(returns[seat] for seat in side) / len(side) for side in sides)
    loser = None if episode.forfeited_by is None else _side_of_seat(episode.forfeited_by, sides)
    for row, own_side, other_side in pairs:
        if loser is None:
            yield row, _compare(means[own_side], means[other_side]), means[own_side]
        elif loser in (own_side, other_side):
            yield row, 1 if loser == other_side else -1, means[own_side]


@lru_cache(maxsize=4096)
def pair_row_keys(
    game: str, players: tuple[PlayerRef, ...], teams: tuple[int, ...], by_policy: bool
) -> tuple[tuple[RowKey, int, int], ...]:
    """Return the rows of an episode's ordered pairs, with the numbers of their sides.

    If all seats are one team, each seat counts as a side.

    Args:
        game: the environment's label.
        players: the player of each seat.
        teams: the team of each seat.
        by_policy: as for ``Payoffs.with_episodes``.
    """
    keyed_players = players if by_policy else tuple(player.for_policy(MAIN) for player in players)
    sides = seats_by_player(teams)
    return tuple(
        (RowKey(game, sides[side][0], player, opponent), side, other_side)
        for side, other_side in permutations(range(len(sides)), 2)
        for player in dict.fromkeys(keyed_players[seat] for seat in sides[side])
        for opponent in dict.fromkeys(keyed_players[seat] for seat in sides[other_side])
    )


def _side_of_seat(seat: int, sides: Sequence[Sequence[int]]) -> int:
    return next(number for number, side in enumerate(sides) if seat in side)


def _compare(first: float, second: float) -> int:
    """Return 1 if the first return is larger, -1 if it is smaller, and 0 if they are equal."""
    if math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return 0
    return 1 if first > second else -1


class IdentityKey(Generic[V]):
    """A cache key that compares an object by identity, and keeps the object alive.

    Args:
        value: the object, hashable or not.
    """

    def __init__(self, value: V) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other.value is self.value
