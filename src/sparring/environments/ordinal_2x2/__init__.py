"""Ordinal 2x2 games: two seats, two choices each, and a strict ranking of the four outcomes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Literal

from sparring.core.errors import ConfigError
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, seats, table
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import entry_of
from sparring.environments.ordinal_2x2.games import (
    CELLS,
    FAMILIES,
    NAMED,
    Ordinal,
    all_games,
    is_best_response,
    is_equilibrium,
    is_joint_maximum,
    rank,
    select_games,
    swap_choices,
)

NAME = "ordinal_2x2"  # the name registered with OpenSpiel
ACTIONS = ("one", "two")
Pay = Literal["own", "response", "equilibrium", "joint"]


@dataclass(frozen=True, kw_only=True)
class OrdinalOptions:
    """Options of ``ordinal_2x2``."""

    game: int | str = "all"
    drawn: bool = True
    pay: Pay = "own"


@dataclass(frozen=True, slots=True)
class OrdinalTable(Table):
    """A position.

    Args:
        games: the games that chance draws from, each with its order of choices.
        pay: the payoff rule.
        index: index of the drawn game in ``games``, -1 before the draw.
        moves: the choices of seats 0 and 1 so far.
    """

    games: tuple[Ordinal, ...]
    pay: Pay
    index: int = -1
    moves: tuple[int, ...] = ()

    @property
    def game(self) -> Ordinal:
        """The drawn game."""
        return self.games[self.index]

    @property
    def player(self) -> int:
        if self.index < 0:
            return CHANCE
        return TERMINAL if len(self.moves) == 2 else len(self.moves)

    def legal(self) -> list[int]:
        return [0, 1]

    def draws(self) -> range:
        return range(len(self.games))

    def after(self, index: int) -> OrdinalTable:
        if self.index < 0:
            return replace(self, index=index)
        return replace(self, moves=(*self.moves, index))

    def returns(self) -> list[float]:
        """Return the payoffs of both seats; 0 before both have chosen."""
        if len(self.moves) < 2:
            return [0.0, 0.0]
        return [float(payoff(self.game, seat, self.moves, self.pay)) for seat in (0, 1)]

    def name_of(self, player: int, index: int) -> str:
        return f"game {index}" if player < 0 else ACTIONS[index]

    def key(self, seat: int) -> str:
        """Return both seats' ranks as the seat sees them, and the choices that it knows."""
        moves = self.moves if len(self.moves) == 2 else self.moves[: 1 - seat]
        choices = moves if seat == 0 else moves[::-1]
        return f"{seat}: {' '.join([*self.ranks_of(seat), *map(self._word, choices)])}"

    @staticmethod
    def _word(choice: int) -> str:
        return ACTIONS[choice]

    def ranks_of(self, seat: int) -> list[str]:
        """Return the seat's four ranks, then the other seat's, by (own, other's) choice."""
        if self.index < 0:
            return []
        ranks, other_ranks = self.game[seat], self.game[1 - seat]
        other_view = [other_ranks[2 * second + first] for first, second in CELLS]
        return [str(value) for value in (*ranks, *other_view)]

    def __str__(self) -> str:
        """Return the ranks as seat 0 sees them, and all choices."""
        return " ".join([*self.ranks_of(0), *map(self._word, self.moves)])


def payoff(game: Ordinal, seat: int, choices: tuple[int, ...], pay: Pay) -> float:
    """Return the payoff of a seat.

    Args:
        game: the game.
        seat: the seat.
        choices: choices of seats 0 and 1.
        pay: "own": the seat's rank of the outcome. The others are 1 or 0: "response", whether the
            seat's choice is the best response to the other's; "equilibrium", whether the outcome is
            a pure equilibrium; "joint", whether it has the largest sum of ranks.
    """
    if pay == "own":
        return rank(game, seat, choices)
    if pay == "response":
        return is_best_response(game, seat, choices)
    return (is_equilibrium if pay == "equilibrium" else is_joint_maximum)(game, choices)


@cache
def games_of(selection: str, is_drawn: bool) -> tuple[Ordinal, ...]:
    """Return the games that chance draws from.

    Args:
        selection: see ``games.select_games``.
        is_drawn: whether to take all four orders of the choices; else only the canonical order.
    """
    games = [all_games()[number - 1] for number in select_games(selection)]
    return tuple(
        swap_choices(game, cell) for game in games for cell in (CELLS if is_drawn else CELLS[:1])
    )


def rules(options: OrdinalOptions) -> Rules:
    """Return the payoffs and the number of choices of the game, and its first table."""
    games, pay = games_of(str(options.game), options.drawn), options.pay
    return Rules(
        opening=OrdinalTable(games, pay),
        actions=len(ACTIONS),
        length=2,
        least=1.0 if pay == "own" else 0.0,
        most=4.0 if pay == "own" else 1.0,
        utility="identical" if pay in ("equilibrium", "joint") else "general_sum",
        outcomes=len(games),
    )


register(NAME, OrdinalOptions, rules)


RULES = (
    "You and another player each choose 'one' or 'two', without seeing the other's choice. Each "
    "of you ranks the four outcomes from 1, the worst, to 4, the best. Your result is your rank "
    "of the outcome, whatever the other player's is."
)


class Ordinal2x2(Game):
    """Ordinal 2x2 games for 2 seats: each makes one of two choices, and ranks outcomes 1 to 4.

    If the order of the choices does not matter, there are 144 games in which each seat ranks the
    four outcomes without ties; there are 78 if seats may also be exchanged. An episode draws one of
    the games of ``game``. Choices are simultaneous: seat 1 replies after seat 0, but does not see
    seat 0's choice.

    Numbers: in the canonical order of a game each seat has rank 4 where the other seat makes its
    second choice. A seat then has one of 12 sorted patterns: its ranks of (own choice, other's
    choice) = (one, one), (one, two), (two, one), (two, two). With patterns i of seat 0 and j of
    seat 1, from 0,

        number = 12 i + j + 1

    An exchange of the seats gives (j, i), and symmetric games are 1, 14, 27, ..., 144. These
    numbers differ from those of Rapoport and Guyer and of Robinson and Goforth.

    Families; a game belongs to the first family that fits:

        win_win (36)         one outcome is best for both, as in the stag hunt
        cyclic (18)          no equilibrium in pure strategies, as in matching pennies
        dilemma (7)          both seats prefer another outcome to the only equilibrium
        coordination (9)     two equilibria, as in chicken and the battle of the sexes
        one_dominant (48)    one equilibrium; one seat has a dominant choice
        both_dominant (26)   one equilibrium; both seats have a dominant choice

    Pitfalls: the prompts do not depend on ``pay``; with ``pay`` other than "own" the return is a
    measure, not the aim that the prompts state. A cyclic game has no equilibrium in pure
    strategies, so ``pay: equilibrium`` is always 0 there.

    Args:
        game: "all" (default); a family, as above; "prisoners_dilemma", "chicken", "stag_hunt",
            "battle_of_the_sexes", "leader" or "deadlock"; a number, 1 to 144; or several: "1 17".
        drawn: true (default): each episode draws the order of both seats' choices, so that no
            action name is always the better one. false: the canonical order.
        pay: payoff rule. "own" (default): the seat's rank of the outcome, 1 to 4. The others pay 1
            or 0: "response", whether the seat's choice is the best response to the other's;
            "equilibrium", whether the outcome is a pure equilibrium; "joint", whether it has the
            largest sum of ranks. The last two pay both seats the same.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: ``game`` selects no game.

    Reference: Rapoport and Guyer, "A taxonomy of 2x2 games", 1966; Robinson and Goforth, "The
    topology of the 2x2 games", 2005.
    """

    title, rules = "ordinal", RULES

    def __init__(self, options: OrdinalOptions, *, style: Style = "brief") -> None:
        selection = str(options.game)
        try:
            select_games(selection)
        except ValueError:
            choices = ", ".join(("all", *FAMILIES, *NAMED))
            raise ConfigError(
                f"ordinal_2x2: game={selection!r} is none of {choices}, nor numbers from 1 to "
                f"{len(all_games())}; write game=prisoners_dilemma."
            ) from None
        options = replace(options, game=selection)
        spiel = load(NAME, asdict(options))
        super().__init__(spiel, name=NAME, roles=("row", "column"), words=ACTIONS, style=style)

    def private_words(self) -> tuple[str, ...]:
        return ("1", "2", "3", "4")

    def private(self, state: State, seat: int) -> str:
        """Return the seat's own four ranks and then the other's, by (own, other's) choice."""
        ranks = state.table.ranks_of(seat)
        if self.brief:
            return " ".join(ranks)
        lines = [
            f"If you choose {ACTIONS[outcome // 2]} and the other player chooses "
            f"{ACTIONS[outcome % 2]}: {ranks[outcome]} for you, {ranks[4 + outcome]} for the other "
            "player."
            for outcome in range(4)
        ]
        return "\n".join(lines)

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the seat's own choice in a first prompt, and at the end the other's choice."""
        moves, texts = state.table.moves, []
        if not since and len(moves) > seat:
            word = ACTIONS[moves[seat]]
            texts.append(word if self.brief else f"You chose {word}.")
        if len(moves) == 2:
            other_word = ACTIONS[moves[1 - seat]]
            game = state.table.game
            own_rank, other_rank = rank(game, seat, moves), rank(game, 1 - seat, moves)
            sentence = (
                f"The other player chose {other_word}. You rank this outcome {own_rank}, the other "
                f"player {other_rank}."
            )
            texts.append(other_word if self.brief else sentence)
        return texts

    def example(self, state: State) -> int:
        """Return the number of the game, which the seat to act knows."""
        return int(state.table.index)

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        board, viewer = state.table, seat or 0
        seats(canvas, self.roles, state.due())
        ranks = board.ranks_of(viewer)
        rows: list[tuple[str, ...]] = [("", *ACTIONS)]
        for choice, word in enumerate(ACTIONS):
            cells = (2 * choice, 2 * choice + 1)
            rows.append((word, *(f"{ranks[cell]}, {ranks[4 + cell]}" for cell in cells)))
        heading(canvas, "Ranks", f"{self.roles[viewer]} (rows), {self.roles[1 - viewer]} (columns)")
        outcome = [(board.moves[viewer] + 1, board.moves[1 - viewer] + 1)] if state.done else []
        table(canvas, rows, marked=outcome)

    def describe(self, state: State, seat: int | None) -> str:
        board, viewer = state.table, seat or 0
        sentences = [
            f"{self.roles[player]} chose {ACTIONS[choice]}"
            for player, choice in enumerate(board.moves)
            if state.done or seat in (None, player)
        ]
        ranks = board.ranks_of(viewer)
        outcomes = "; ".join(
            f"{ACTIONS[cell // 2]} and {ACTIONS[cell % 2]}: {ranks[cell]}, {ranks[4 + cell]}"
            for cell in range(4)
        )
        parts = (
            self.due_text(state),
            f"Ranks of {self.roles[viewer]} and {self.roles[1 - viewer]}: {outcomes}.",
            f"{', '.join(sentences)}." if sentences else "",
        )
        return " ".join(part for part in parts if part)


ordinal_2x2 = entry_of(Ordinal2x2, OrdinalOptions)
