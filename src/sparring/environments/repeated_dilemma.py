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
    """Options of ``repeated_dilemma`` except ``told`` and ``style``."""

    rounds: int = 2
    temptation: Payoff = 5.0
    reward: Payoff = 3.0
    punishment: Payoff = 1.0
    sucker: Payoff = 0.0


@dataclass(frozen=True, slots=True)
class DilemmaTable(Table):
    """A position: the action ids so far; in every round seat 0's id comes first."""

    num_rounds: int
    payoffs: tuple[tuple[float, float], tuple[float, float]]  # [own action][other seat's action]
    moves: tuple[int, ...] = ()

    @property
    def player(self) -> int:
        return TERMINAL if len(self.moves) == 2 * self.num_rounds else len(self.moves) % 2

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
        """Return the sums of the payoffs of the finished rounds."""
        payoffs = [self.pay(choices) for choices in self.finished_rounds()]
        return [float(sum(pair[seat] for pair in payoffs)) for seat in (0, 1)]

    def rewards(self) -> list[float]:
        """Return the payoffs of a round after its second choice, else zeros."""
        return (
            list(self.pay(self.finished_rounds()[-1]))
            if self.moves and len(self.moves) % 2 == 0
            else [0.0, 0.0]
        )

    def name_of(self, player: int, index: int) -> str:
        return ACTIONS[index]

    def key(self, seat: int) -> str:
        """Return the choices of all finished rounds; for seat 0 also its choice in this round."""
        parts = [*map(_choice_letters, self.finished_rounds()), *self._current_choice(seat)]
        return f"{seat}: {'/'.join(parts)}"

    def view(self, seat: int) -> str:
        """Return the round's number, the last choices, and for seat 0 its current choice."""
        parts = [*map(_choice_letters, self.finished_rounds()[-1:]), *self._current_choice(seat)]
        return f"round {len(self.moves) // 2 + 1}: {'/'.join(parts)}"

    def _current_choice(self, seat: int) -> list[str]:
        return [_choice_letters(self.moves[-1:])] if seat == 0 and len(self.moves) % 2 else []

    def __str__(self) -> str:
        """Return all choices."""
        return self.key(0)


def _choice_letters(choices: tuple[int, ...]) -> str:
    """Return choices as letters, c(ooperate) or d(efect)."""
    return "".join("cd"[choice] for choice in choices)


def rules(options: DilemmaOptions) -> Rules:
    """Return the numbers of actions and turns, the bounds of payoffs, and the first table."""
    cooperate_payoffs = (options.reward, options.sucker)
    defect_payoffs = (options.temptation, options.punishment)
    return Rules(
        opening=DilemmaTable(options.rounds, (cooperate_payoffs, defect_payoffs)),
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
    the round ends. Each round pays at its end, so a turn's reward is the payoff of its round, and
    the return is the sum. With a known number of rounds, both seats always defect on the path of
    play of every equilibrium.

    With ``told: false`` no prompt gives the number of rounds, and the view (for the context
    strategy ``markov``) shows only the last round, without its number. A policy that reads the
    whole conversation (context ``full``) can still count rounds, and learn when episodes end.

    Args:
        rounds: number of rounds, 1 to 6, or 1 to 100 with ``told: false``. There are
            2 * (4^rounds - 1) / 3 information states, so exact figures need few rounds.
        temptation: payoff for defecting while the other seat cooperates.
        reward: payoff of each seat if both cooperate.
        punishment: payoff of each seat if both defect.
        sucker: payoff for cooperating while the other seat defects. The payoffs must satisfy
            temptation > reward > punishment > sucker.
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
        for (name, payoff), (next_name, next_payoff) in itertools.pairwise(payoffs):
            if not payoff > next_payoff:
                raise ConfigError(
                    f"repeated_dilemma: {name}={payoff:g} must exceed {next_name}={next_payoff:g}; "
                    f"write {name}={next_payoff + 1:g}."
                )
        spiel, rounds = load(NAME, asdict(options)), options.rounds
        super().__init__(spiel, name=NAME, roles=("row", "column"), words=ACTIONS, style=style)
        self.rounds = rounds
        self.shows_num_rounds = told  # whether seats know the number of rounds
        rounds_text = f"{rounds} round(s)" if told else "many rounds"
        self.rules = (
            f"We play {rounds_text} of a game for 2 players. In every round each player "
            "chooses 'cooperate' or 'defect' without seeing the other's choice of that round; at "
            "the end of the round both choices are told. If both cooperate, each gets {reward:g} "
            "point(s); if both defect, each gets {punishment:g}. If one defects and the other "
            "cooperates, the one who defects gets {temptation:g} and the other {sucker:g}. Your "
            "result is the sum of your points over all rounds, whatever the other player gets."
        ).format(**asdict(options))

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the rounds that ended from ply ``since`` on, then seat 0's current choice."""
        table, texts = state.table, []
        for index, choices in enumerate(table.finished_rounds()):
            if 2 * index + 2 >= since:
                texts += self._round_texts(table, index, choices, seat, since)
        if not since and seat == 0 and len(table.moves) % 2:
            word = ACTIONS[table.moves[-1]]
            texts.append(
                word if self.brief else f"Round {len(table.moves) // 2 + 1}: you chose {word}."
            )
        return texts

    def _round_texts(
        self, table: DilemmaTable, index: int, choices: Choices, seat: int, since: int
    ) -> list[str]:
        own_action, other_action = ACTIONS[choices[seat]], ACTIONS[choices[1 - seat]]
        if self.brief:
            return [other_action] if since else [own_action, other_action]
        pay = table.pay(choices)
        actions = f"you chose {own_action} and the other player chose {other_action}"
        points = f"You get {pay[seat]:g} point(s), the other player {pay[1 - seat]:g}."
        return [f"Round {index + 1}: {actions}. {points}"]

    def view(self, state: State, seat: int) -> str:
        """Return the seat's view, without the number of the round if ``told`` is false."""
        if self.shows_num_rounds:
            return super().view(state, seat)
        role, rounds = self.roles[seat], state.table.finished_rounds()
        actions = [ACTIONS[rounds[-1][player]] for player in (seat, 1 - seat)] if rounds else []
        if self.brief:
            return " ".join([self.title, role, *actions])
        template = "In the last round you chose {} and the other player chose {}."
        text = template.format(*actions) if actions else "No round has ended."
        return f"{self.rules}\n\nYou play as {role!r}.\n\n{text}"

    def position(self, state: State, seat: int) -> str:
        own_points, other_points = state.returns[seat], state.returns[1 - seat]
        total_text = f" of {self.rounds}" if self.shows_num_rounds else ""
        round_text = "" if state.done else f"This is round {state.plies // 2 + 1}{total_text}. "
        points = f"{own_points:g} for you, {other_points:g} for the other player"
        return f"{round_text}Points so far: {points}."

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        rounds, points = state.table.finished_rounds(), {0: state.returns[0], 1: state.returns[1]}
        notes = {player: f"{value:g} points" for player, value in points.items()}
        seats(canvas, self.roles, state.due(), notes)
        rows: list[tuple[str, ...]] = [("", *ACTIONS)]
        for action, name in enumerate(ACTIONS):
            pairs = (state.table.pay((action, other)) for other in (0, 1))
            rows.append((name, *(f"{first:g}, {second:g}" for first, second in pairs)))
        heading(canvas, "Payoffs", "row (rows), column (columns)")
        last_cell = [(rounds[-1][0] + 1, rounds[-1][1] + 1)] if rounds else []
        table(canvas, rows, marked=last_cell)
        total_text = f" of {self.rounds}" if self.shows_num_rounds or seat is None else ""
        heading(canvas, "Rounds", f"{len(rounds)}{total_text} ended")
        round_rows = [("", *self.roles, "points")]
        for number, choices in enumerate(rounds, start=1):
            pay = " and ".join(f"{value:g}" for value in state.table.pay(choices))
            round_rows.append((str(number), *(ACTIONS[choice] for choice in choices), pay))
        table(canvas, round_rows)
        if text := self._choice_sentence(state, seat):
            paragraph(canvas, text)

    def _choice_sentence(self, state: State, seat: int | None) -> str:
        """Return seat 0's choice in the current round as a sentence; "" if seat 1 reads."""
        moves = state.table.moves
        if len(moves) % 2 == 0 or seat == 1:
            return ""
        return f"In round {len(moves) // 2 + 1} {self.roles[0]} chose {ACTIONS[moves[-1]]}."

    def describe(self, state: State, seat: int | None) -> str:
        round_texts = (
            f"round {number}: {ACTIONS[first]} and {ACTIONS[second]}"
            for number, (first, second) in enumerate(state.table.finished_rounds(), start=1)
        )
        choice_text = "; ".join(round_texts)
        points = ", ".join(
            f"{role} {value:g}" for role, value in zip(self.roles, state.returns, strict=True)
        )
        parts = (
            self.due_text(state),
            f"Choices of row and column: {choice_text}." if choice_text else "No round has ended.",
            self._choice_sentence(state, seat),
            f"Points: {points}.",
        )
        return " ".join(part for part in parts if part)


repeated_dilemma = entry_of(RepeatedDilemma, DilemmaOptions)
