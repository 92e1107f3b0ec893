"""Repeated dilemma: the prisoner's dilemma over several rounds, with simultaneous choices."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, seats, table
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import TERMINAL, Rules, Table, register
from sparring.environments.options import check_range, entry_of

NAME = "repeated_dilemma"  # the name registered with OpenSpiel
ACTIONS = ("cooperate", "defect")
Choices = tuple[int, int]


Payoff = Annotated[float, Field(ge=-1e6, le=1e6)]


@dataclass(frozen=True, kw_only=True)
class DilemmaOptions:
    """Options of ``repeated_dilemma`` except those of its wording."""

    rounds: int = 2
    temptation: Payoff = 5.0
    reward: Payoff = 3.0
    punishment: Payoff = 1.0
    sucker: Payoff = 0.0


@dataclass(frozen=True, slots=True)
class DilemmaTable(Table):
    """A position: the action ids so far, seat 0's and seat 1's in turn, two a round."""

    total: int
    payoffs: tuple[tuple[float, float], tuple[float, float]]  # by own action and the other seat's
    moves: tuple[int, ...] = ()

    @property
    def player(self) -> int:
        return TERMINAL if len(self.moves) == 2 * self.total else len(self.moves) % 2

    def finished_rounds(self) -> list[Choices]:
        """Return the choices of seats 0 and 1 in every round that has ended."""
        return list(zip(self.moves[::2], self.moves[1::2], strict=False))

    def pay(self, choices: Choices) -> tuple[float, float]:
        """Return the payoffs of a round for seats 0 and 1."""
        first, second = choices
        return self.payoffs[first][second], self.payoffs[second][first]

    def legal(self) -> list[int]:
        return [0, 1]

    def after(self, index: int) -> DilemmaTable:
        return replace(self, moves=(*self.moves, index))

    def returns(self) -> list[float]:
        """Return the payoffs of the finished rounds."""
        payoffs = [self.pay(choices) for choices in self.finished_rounds()]
        return [float(sum(pair[seat] for pair in payoffs)) for seat in (0, 1)]

    def rewards(self) -> list[float]:
        """Return the payoffs of the last choice: those of the round if it ended the round."""
        return (
            list(self.pay(self.finished_rounds()[-1]))
            if self.moves and len(self.moves) % 2 == 0
            else [0.0, 0.0]
        )

    def name_of(self, player: int, index: int) -> str:
        return ACTIONS[index]

    def key(self, seat: int) -> str:
        """Return the choices of all finished rounds, and for seat 0 its open choice."""
        return f"{seat}: {'/'.join([*map(_letters, self.finished_rounds()), *self._open(seat)])}"

    def view(self, seat: int) -> str:
        """Return the round's number, the last choices, and for seat 0 its open choice."""
        parts = [*map(_letters, self.finished_rounds()[-1:]), *self._open(seat)]
        return f"round {len(self.moves) // 2 + 1}: {'/'.join(parts)}"

    def _open(self, seat: int) -> list[str]:
        return [_letters(self.moves[-1:])] if seat == 0 and len(self.moves) % 2 else []

    def __str__(self) -> str:
        """Return all choices."""
        return self.key(0)


def _letters(choices: tuple[int, ...]) -> str:
    """Return choices as letters, c(ooperate) or d(efect)."""
    return "".join("cd"[choice] for choice in choices)


def rules(options: DilemmaOptions) -> Rules:
    """Return the facts of the game."""
    cooperating = (options.reward, options.sucker)
    defecting = (options.temptation, options.punishment)
    return Rules(
        opening=DilemmaTable(options.rounds, (cooperating, defecting)),
        actions=len(ACTIONS),
        length=2 * options.rounds,
        least=options.rounds * options.sucker,
        most=options.rounds * options.temptation,
        utility="general_sum",
        stepwise=True,
        views=True,
    )


register(NAME, DilemmaOptions, rules)


class RepeatedDilemma(Game):
    """Repeated dilemma for 2 seats: the prisoner's dilemma over several rounds, general-sum.

    Choices of a round are simultaneous: seat 1 acts after seat 0 but sees seat 0's choice only when
    the round ends. Each round pays at its end, so that a turn's reward is the payoff of its round,
    and the return is the sum. With a known number of rounds both seats always defect on the path of
    every equilibrium.

    With ``told: false`` no prompt gives the number of rounds, and the view (for the context
    strategy ``markov``) is the last round alone, without its number. A policy that reads the whole
    conversation (context ``full``) can still count rounds, and learn when episodes end.

    Args:
        rounds: number of rounds, 1 to 6, or 1 to 100 with ``told: false``; there are
            2 * (4^rounds - 1) / 3 information states, too many for exact figures of many rounds.
        temptation: payoff for defecting while the other cooperates.
        reward: payoff of each when both cooperate.
        punishment: payoff of each when both defect.
        sucker: payoff for cooperating while the other defects; temptation > reward > punishment >
            sucker.
        told: true (default): the prompts give the number of rounds. false: they do not.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, or payoffs that do not make a dilemma.

    Reference: Axelrod, "The evolution of cooperation", 1984 (payoffs 5, 3, 1, 0).
    """

    title = "dilemma"

    def __init__(
        self, options: DilemmaOptions, *, told: bool = True, style: Style = "brief"
    ) -> None:
        check_range("repeated_dilemma: rounds", options.rounds, 1, 6 if told else 100)
        payoffs = list(asdict(options).items())[1:]
        for (higher, high), (lower, low) in itertools.pairwise(payoffs):
            if not high > low:
                raise ConfigError(
                    f"repeated_dilemma: {higher}={high:g} must exceed {lower}={low:g}; "
                    f"write {higher}={low + 1:g}."
                )
        spiel, rounds = load(NAME, asdict(options)), options.rounds
        super().__init__(spiel, name=NAME, roles=("row", "column"), words=ACTIONS, style=style)
        self.rounds = rounds
        self.told_rounds = told  # whether seats know the number of rounds
        many = f"{rounds} round(s)" if told else "many rounds"
        self.rules = (
            f"We play {many} of a game for 2 players. In every round each player "
            "chooses 'cooperate' or 'defect' without seeing the other's choice of that round; at "
            "the end of the round both choices are told. If both cooperate, each gets {reward:g} "
            "point(s); if both defect, each gets {punishment:g}. If one defects and the other "
            "cooperates, the one who defects gets {temptation:g} and the other {sucker:g}. Your "
            "result is the sum of your points over all rounds, whatever the other player gets."
        ).format(**asdict(options))

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the choices of rounds that ended from ply ``since`` on, then the open choice."""
        table, out = state.table, []
        for number, choices in enumerate(table.finished_rounds()):
            if 2 * number + 2 >= since:
                out += self._ended(table, number, choices, seat, since)
        if not since and seat == 0 and len(table.moves) % 2:
            word = ACTIONS[table.moves[-1]]
            out.append(
                word if self.brief else f"Round {len(table.moves) // 2 + 1}: you chose {word}."
            )
        return out

    def _ended(
        self, table: DilemmaTable, number: int, choices: Choices, seat: int, since: int
    ) -> list[str]:
        mine, theirs = ACTIONS[choices[seat]], ACTIONS[choices[1 - seat]]
        if self.brief:
            return [theirs] if since else [mine, theirs]
        pay = table.pay(choices)
        sentence = f"Round {number + 1}: you chose {mine} and the other player chose {theirs}."
        return [f"{sentence} You get {pay[seat]:g} point(s), the other player {pay[1 - seat]:g}."]

    def view(self, state: State, seat: int) -> str:
        """Return the seat's view, without the number of the round if ``told`` is false."""
        if self.told_rounds:
            return super().view(state, seat)
        role, ended = self.roles[seat], state.table.finished_rounds()
        last = [ACTIONS[ended[-1][player]] for player in (seat, 1 - seat)] if ended else []
        if self.brief:
            return " ".join([self.title, role, *last])
        template = "In the last round you chose {} and the other player chose {}."
        text = template.format(*last) if last else "No round has ended."
        return f"{self.rules}\n\nYou play as {role!r}.\n\n{text}"

    def position(self, state: State, seat: int) -> str:
        mine, theirs = state.returns[seat], state.returns[1 - seat]
        of = f" of {self.rounds}" if self.told_rounds else ""
        round_text = "" if state.done else f"This is round {state.plies // 2 + 1}{of}. "
        return f"{round_text}Points so far: {mine:g} for you, {theirs:g} for the other player."

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        rounds, points = state.table.finished_rounds(), {0: state.returns[0], 1: state.returns[1]}
        notes = {player: f"{value:g} points" for player, value in points.items()}
        seats(canvas, self.roles, state.due(), notes)
        rows: list[tuple[str, ...]] = [("", *ACTIONS)]
        for action, name in enumerate(ACTIONS):
            pairs = (state.table.pay((action, other)) for other in (0, 1))
            rows.append((name, *(f"{first:g}, {second:g}" for first, second in pairs)))
        heading(canvas, "Payoffs", "row (rows), column (columns)")
        last = [(rounds[-1][0] + 1, rounds[-1][1] + 1)] if rounds else []
        table(canvas, rows, marked=last)
        of = f" of {self.rounds}" if self.told_rounds or seat is None else ""
        heading(canvas, "Rounds", f"{len(rounds)}{of} ended")
        past = [("", *self.roles, "points")]
        for number, choices in enumerate(rounds, start=1):
            pay = " and ".join(f"{value:g}" for value in state.table.pay(choices))
            past.append((str(number), *(ACTIONS[choice] for choice in choices), pay))
        table(canvas, past)
        if text := self._open(state, seat):
            paragraph(canvas, text)

    def _open(self, state: State, seat: int | None) -> str:
        """Return the open choice of the current round in words, if the reader may know it."""
        moves = state.table.moves
        if len(moves) % 2 == 0 or seat == 1:
            return ""
        return f"In round {len(moves) // 2 + 1} {self.roles[0]} chose {ACTIONS[moves[-1]]}."

    def describe(self, state: State, seat: int | None) -> str:
        rounds = (
            f"round {number}: {ACTIONS[first]} and {ACTIONS[second]}"
            for number, (first, second) in enumerate(state.table.finished_rounds(), start=1)
        )
        past = "; ".join(rounds)
        points = ", ".join(
            f"{role} {value:g}" for role, value in zip(self.roles, state.returns, strict=True)
        )
        parts = (
            self.whose(state),
            f"Choices of row and column: {past}." if past else "No round has ended.",
            self._open(state, seat),
            f"Points: {points}.",
        )
        return " ".join(part for part in parts if part)


repeated_dilemma = entry_of(RepeatedDilemma, DilemmaOptions)
