"""The survey's claims beside the figures of `sparring reproduce self-play`: verdicts in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sparring.core.records import Interval
from studies.common.result_figures import (
    Results,
    Row,
    interval,
    interval_text,
    mean,
    paired_difference,
    points,
    values,
    words_of_differences,
)

END, OWN, RISE = "NashConv, end", "NashConv, Nash of members", "largest rise"
AFTER = "NashConv after "
GAMES = {
    "matrix_rps": "RPS",
    "matrix_brps": "biased RPS",
    "kuhn_poker": "Kuhn",
    "leduc_poker": "Leduc",
}
DIGITS = {"matrix_brps": 2}  # its payoffs go to 50
LARGEST = {"matrix_rps": 1, "matrix_brps": 50, "kuhn_poker": 2, "leduc_poker": 13}
FALLEN, FAR = 0.5, 0.1  # shares of NashConv at the start
EQUAL = 1e-6
ABOVE = "confirmed"  # of a difference above 0


LATER = ("PFSP squared", "PFSP linear", "delta-uniform 0.5", "uniform past")
SMALL = ("PSRO rectified", "DCH")
Comparison = tuple[str, str, str]  # an algorithm, another one, and the figure that is compared
PLATEAU = ("pipeline PSRO, timer", "pipeline PSRO", END)
RESETS = ("AlphaStar's league, no reset", "AlphaStar's league", OWN)
COMPARED: tuple[Comparison, ...] = (
    *(("vanilla", name, END) for name in LATER),
    *((name, "PSRO Nash", END) for name in SMALL),
    *(PLATEAU, RESETS),
)


class Claim(NamedTuple):
    """A claim of the survey, what the figures say of it, and the figures."""

    claim: str
    verdict: str
    figures: str


def digits(game: str) -> int:
    """Return how many decimals a game's figures are shown with."""
    return DIGITS.get(game, 3)


def shown_at(row: Row, figure: str) -> str:
    """Return a figure of a row with its interval over seeds."""
    game = row["game"]
    return interval_text(interval(row, figure, low=0.0, high=2.0 * LARGEST[game]), digits(game))


def games(results: Results) -> list[str]:
    """Return the games that the results are of, in the order of the page."""
    games_with_results = {row["game"] for row in results.rows()}
    return [game for game in GAMES if game in games_with_results]


def answers(row: Row) -> list[int]:
    """Return the numbers of answers of each side after which a row was measured."""
    return [number for number, _ in points(row, AFTER)]


def falls(row: Row) -> float:
    """Return NashConv at the end as a share of NashConv at the start."""
    return mean(row, END) / mean(row, f"{AFTER}0")


def rounds_to_level(row: Row, level: float) -> int | None:
    """Return the first number of answers after which the mean over seeds is below a level."""
    for number in answers(row):
        if mean(row, f"{AFTER}{number}") < level:
            return number
    return None


def claims(results: Results) -> list[Claim]:
    """Return every claim with what the figures say."""
    checks: Sequence[Callable[[Results], Claim]] = (
        *(cycles, fewer_rounds, less_exploitable, monotone, small_failures),
        *(plateau, resets, one_solver),
    )
    return [claim(results) for claim in checks]


def verdict(outcomes: Sequence[bool]) -> str:
    """Return a word for how many of several comparisons hold."""
    if all(outcomes):
        return "confirmed"
    return f"confirmed in {sum(outcomes)} of {len(outcomes)}" if any(outcomes) else "refuted"


def cycles(results: Results) -> Claim:
    """Vanilla cycles; the averages and mixtures fall."""
    parts: list[str] = []
    outcomes: list[bool] = []
    strict: list[bool] = []
    for name in ("vanilla", "fictitious play", "fictitious self-play", "PSRO Nash"):
        shares_text = []
        for game in games(results):
            row = results.row(algorithm=name, game=game)
            for level, outcomes_at_level in ((FALLEN, outcomes), (FAR, strict)):
                outcomes_at_level.append(
                    falls(row) > level if name == "vanilla" else falls(row) < level
                )
            shares_text.append(f"{GAMES[game]} {falls(row):.0%}")
        parts.append(f"{name}: {', '.join(shares_text)}")
    return Claim(
        "Vanilla self-play does not settle; the answers of fictitious play, fictitious self-play "
        "and PSRO fall",
        verdict(outcomes),
        f"NashConv at the end as a share of NashConv at the start. {'; '.join(parts)}. NashConv "
        f"has fallen if this share is below {FALLEN:.0%}, a limit that was chosen after a first "
        f"look; with {FAR:.0%}, the first choice, the claim holds in {sum(strict)} of "
        f"{len(strict)}.",
    )


def fewer_rounds(results: Results) -> Claim:
    """XDO needs fewer rounds than double oracle."""
    parts, outcomes = [], []
    for game in games(results):
        start = mean(results.row(algorithm="double oracle", game=game), f"{AFTER}0")
        level = start / 100
        needed = [
            rounds_to_level(results.row(algorithm=name, game=game), level)
            for name in ("XDO", "double oracle")
        ]
        last = answers(results.row(algorithm="double oracle", game=game))[-1]
        words = [f"more than {last}" if number is None else str(number) for number in needed]
        parts.append(f"{GAMES[game]} {words[0]} against {words[1]}")
        first, other = (last + 1 if number is None else number for number in needed)
        outcomes.append(first < other)
    return Claim(
        "XDO needs fewer rounds than PSRO (both with best responses: PSRO is then double oracle)",
        verdict(outcomes),
        f"Rounds until NashConv is below 1 % of its first value in double oracle: "
        f"{'; '.join(parts)}.",
    )


def less_exploitable(results: Results) -> Claim:
    """The last policy of PFSP or delta-uniform is less exploitable than vanilla's."""
    parts, words = [], []
    for name in LATER:
        comparison = ("vanilla", name, END)
        words.append(f"{name}: {by_word(results, comparison)}")
        parts.append(f"{name}: {listed(differences(results, *comparison))}")
    return Claim(
        "The last policy of PFSP or delta-uniform is less exploitable than vanilla's last, at "
        "equal plays",
        "; ".join(words),
        f"NashConv of vanilla's last minus that of the other, by seed. {'; '.join(parts)}.",
    )


def monotone(results: Results) -> Claim:
    """PSRO's exploitability sometimes rises; that of anytime PSRO never does."""
    parts, outcomes = [], []
    for game in games(results):
        psro, anytime = (
            max(values(results.row(algorithm=name, game=game), RISE))
            for name in ("PSRO Nash", "anytime PSRO")
        )
        outcomes.append(psro > EQUAL >= anytime)
        parts.append(f"{GAMES[game]} {psro:.3g} against {anytime if anytime > EQUAL else 0:.3g}")
    return Claim(
        "PSRO's exploitability is not monotone, anytime PSRO's is",
        verdict(outcomes),
        f"Largest rise between two measured points in any seed: {'; '.join(parts)}.",
    )


def small_failures(results: Results) -> Claim:
    """Rectified PSRO and deep cognitive hierarchies fail somewhere."""
    parts, verdict_texts = [], []
    for name in SMALL:
        comparison = (name, "PSRO Nash", END)
        words = verdicts(results)[comparison]
        worse = [GAMES[game] for game, word in words.items() if word == ABOVE]
        verdict_texts.append(
            f"{name}: {'in ' + ', '.join(worse) if worse else 'decided in no game'}"
        )
        parts.append(f"{name}: {listed(differences(results, *comparison))}")
    return Claim(
        "PSRO-rectified and deep cognitive hierarchies fail in a small game",
        "; ".join(verdict_texts),
        f"NashConv at the end minus that of PSRO Nash, at equal answers. {'; '.join(parts)}. "
        "Counted as failing: above 0, corrected for the number of comparisons.",
    )


def plateau(results: Results) -> Claim:
    """Freezing on a plateau beats a timer."""
    return compared(
        results,
        "Freezing on a plateau beats a timer",
        PLATEAU,
        "NashConv of pipeline PSRO with a timer minus that with the plateau",
    )


def resets(results: Results) -> Claim:
    """Exploiters' reset matters."""
    return compared(
        results,
        "The exploiters' reset matters (AlphaStar's league)",
        RESETS,
        "NashConv of the Nash mixture of all checkpoints without reset minus that with reset",
    )


def compared(results: Results, claim: str, comparison: Comparison, description: str) -> Claim:
    """Return whether one algorithm ends below another in every game, seed by seed."""
    figures = f"{description}: {listed(differences(results, *comparison))}."
    return Claim(claim, by_word(results, comparison), figures)


def verdicts(results: Results) -> dict[Comparison, dict[str, str]]:
    """Return the word of each comparison by game, corrected for the number of all (Holm)."""
    algorithms = {row["algorithm"] for row in results.rows()}
    gaps = {
        (comparison, game): gap
        for comparison in COMPARED
        if {*comparison[:2]} <= algorithms
        for game, gap in differences(results, *comparison).items()
    }
    zero_gap = Interval(mean=0.0, low=0.0, high=0.0, count=2)
    gap_values = [gap if abs(gap.mean) > EQUAL else zero_gap for gap in gaps.values()]
    words = words_of_differences(gap_values, ABOVE, "the reverse", "not decided")
    words_of: dict[Comparison, dict[str, str]] = {}
    for (comparison, game), word in zip(gaps, words, strict=True):
        words_of.setdefault(comparison, {})[game] = word
    return words_of


def differences(results: Results, first_name: str, other: str, figure: str) -> dict[str, Interval]:
    """Return a figure of one algorithm minus that of another, by game."""
    result = {}
    for game in games(results):
        first, second = (results.row(algorithm=name, game=game) for name in (first_name, other))
        result[game] = paired_difference(first, second, figure)
    return result


def by_word(results: Results, comparison: Comparison) -> str:
    """Return the games in which a difference is above 0, below 0, or not decided, as text."""
    words: dict[str, list[str]] = {ABOVE: [], "the reverse": [], "not decided": []}
    for game, word in verdicts(results)[comparison].items():
        words[word].append(GAMES[game])
    return "; ".join(
        f"{word} in {', '.join(game_names)}" for word, game_names in words.items() if game_names
    )


def listed(differences_by_game: Mapping[str, Interval]) -> str:
    """Return a difference by game."""
    return ", ".join(
        f"{GAMES[game]} {interval_text(difference, digits(game))}"
        for game, difference in differences_by_game.items()
    )


def one_solver(results: Results) -> Claim:
    """One evaluation solver for all algorithms ranks them differently than each one's own."""
    parts, outcomes = [], []
    for game in games(results):
        rows = [row for row in results.rows(game=game) if OWN in row["values"]]
        order = {key: _order(rows, key) for key in (END, OWN)}
        largest_move = max(abs(order[END][name] - order[OWN][name]) for name in order[END])
        name = max(order[END], key=lambda arm: abs(order[END][arm] - order[OWN][arm]))
        outcomes.append(largest_move > len(rows) / 4)
        parts.append(
            f"{GAMES[game]} {name}, {order[END][name]} to {order[OWN][name]} of {len(rows)}"
        )
    return Claim(
        "Compare algorithms by one fixed evaluation solver, not each by its own",
        f"{verdict(outcomes)}: the order changes" if any(outcomes) else verdict(outcomes),
        f"The rank that moves most, by its own answer and by the Nash mixture of its members: "
        f"{'; '.join(parts)}.",
    )


def _order(rows: Sequence[Row], figure: str) -> dict[str, int]:
    """Return the ranks of algorithms by a figure; rank 1 has the smallest."""
    ordered = sorted(rows, key=lambda row: mean(row, figure))
    return {row["algorithm"]: index for index, row in enumerate(ordered, start=1)}
