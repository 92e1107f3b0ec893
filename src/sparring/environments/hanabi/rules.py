"""The public bookkeeping of a Hanabi game, rebuilt from its events.

Hands, stacks, tokens, what each hint touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sparring.environments.openspiel.position import CHANCE, Event

COLOURS = "RYGWB"
COLOUR_NAMES = {"R": "red", "Y": "yellow", "G": "green", "W": "white", "B": "blue"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The numbers of a Hanabi variant."""

    players: int
    colours: int
    ranks: int
    hand: int
    information: int
    lives: int

    @property
    def deck(self) -> int:
        """Number of cards: per colour three of the lowest rank and one of the highest.

        Of the others there are two.
        """
        return self.colours * (4 + 2 * (self.ranks - 2) if self.ranks > 1 else 3)

    def card(self, index: int) -> str:
        """Return the name of a card id, such as "R1"."""
        return f"{COLOURS[index // self.ranks]}{index % self.ranks + 1}"

    def action(self, index: int) -> tuple[str, int, str]:
        """Return an action id as (kind, number, value).

        The card's position from 0, or the hint's seat offset and value.
        """
        if index < 2 * self.hand:
            return ("discard", index, "") if index < self.hand else ("play", index - self.hand, "")
        index -= 2 * self.hand
        hints = (self.players - 1) * self.colours
        if index < hints:
            return "tell", index // self.colours + 1, COLOURS[index % self.colours]
        index -= hints
        return "tell", index // self.ranks + 1, str(index % self.ranks + 1)


@dataclass(kw_only=True, slots=True)
class Step:
    """What one action did.

    That is the card it revealed, whether it fitted, the positions it touched, the card drawn after
    it.
    """

    event: Event
    kind: str
    target: int = -1
    card: str = ""
    fits: bool = False
    touched: tuple[int, ...] = ()
    drawn: str = ""


@dataclass(kw_only=True, slots=True)
class Table:
    """The table after all events.

    ``known`` holds per seat and card what its owner was told, as (colour, rank).
    """

    dealt: list[list[str]]
    hands: list[list[str]]
    known: list[list[list[str]]]
    stacks: dict[str, int]
    information: int
    lives: int
    deck: int
    discards: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def replay(sizes: Sizes, trail: Sequence[Event]) -> Table:
    """Return the table after the events of ``trail``.

    Deals go to the first hand that lacks a card.
    """
    seats = range(sizes.players)
    table = Table(
        dealt=[[] for _ in seats],
        hands=[[] for _ in seats],
        known=[[] for _ in seats],
        stacks=dict.fromkeys(COLOURS[: sizes.colours], 0),
        information=sizes.information,
        lives=sizes.lives,
        deck=sizes.deck,
    )
    for event in trail:
        if event.player == CHANCE:
            _deal(sizes, table, sizes.card(event.action))
        else:
            table.steps.append(_act(sizes, table, event))
    return table


def _deal(sizes: Sizes, table: Table, card: str) -> None:
    """Give a card to the first hand that is short of one, and note who drew it after which step."""
    seat = next(seat for seat, hand in enumerate(table.hands) if len(hand) < sizes.hand)
    if table.steps:
        seat = table.steps[-1].event.player
        table.steps[-1].drawn = card
    else:
        table.dealt[seat].append(card)
    table.hands[seat].append(card)
    table.known[seat].append(["?", "?"])
    table.deck -= 1


def _act(sizes: Sizes, table: Table, event: Event) -> Step:
    """Carry out an action and return what it did."""
    kind, number, value = sizes.action(event.action)
    step = Step(event=event, kind=kind)
    if kind == "tell":
        step.target = (event.player + number) % sizes.players
        step.touched = tuple(
            place for place, card in enumerate(table.hands[step.target]) if value in card
        )
        for place in step.touched:
            table.known[step.target][place][value.isdigit()] = value
        table.information -= 1
        return step
    step.card = table.hands[event.player].pop(number)
    table.known[event.player].pop(number)
    step.fits = kind == "play" and table.stacks[step.card[0]] == int(step.card[1]) - 1
    if step.fits:
        table.stacks[step.card[0]] += 1
    else:
        table.discards.append(step.card)
        table.lives -= kind == "play"
    if kind == "discard" or (step.fits and table.stacks[step.card[0]] == sizes.ranks):
        table.information = min(table.information + 1, sizes.information)
    return step
