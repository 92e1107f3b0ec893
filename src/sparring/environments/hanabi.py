"""Hanabi: players build stacks of cards together and see all hands except their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sparring.environments.drawing.boards import Card, cards, discs
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.base import CHANCE, Event, Game, State, Style
from sparring.environments.openspiel.load import load

COLOURS = "RYGWB"
COLOUR_NAMES = {"R": "red", "Y": "yellow", "G": "green", "W": "white", "B": "blue"}


@dataclass(frozen=True, kw_only=True, slots=True)
class HanabiSizes:
    """The numbers of a Hanabi variant."""

    players: int
    colours: int
    ranks: int
    hand: int  # number of cards in a hand
    information: int  # largest number of information tokens
    lives: int

    @property
    def deck(self) -> int:
        """Number of cards: three of the lowest rank of a colour, one of the highest, else two."""
        return self.colours * (4 + 2 * (self.ranks - 2) if self.ranks > 1 else 3)

    def card(self, index: int) -> str:
        """Return the name of a card id, such as "R1"."""
        return f"{COLOURS[index // self.ranks]}{index % self.ranks + 1}"

    def action(self, index: int) -> tuple[str, int, str]:
        """Return an action id as (kind, index of the card or distance of the seat, hint or "")."""
        if index < 2 * self.hand:
            return ("discard", index, "") if index < self.hand else ("play", index - self.hand, "")
        index -= 2 * self.hand
        num_colour_hints = (self.players - 1) * self.colours
        if index < num_colour_hints:
            return "tell", index // self.colours + 1, COLOURS[index % self.colours]
        index -= num_colour_hints
        return "tell", index // self.ranks + 1, str(index % self.ranks + 1)


@dataclass(kw_only=True, slots=True)
class HanabiStep:
    """An action and its result.

    Attributes:
        event: the action as an event.
        kind: "play", "discard" or "tell".
        target: the seat that gets a hint.
        card: the card played or discarded.
        is_playable: whether the played card fitted a stack.
        positions: positions in the hand of the cards to which the hint points.
        new_card: the card drawn after the action.
    """

    event: Event
    kind: str
    target: int = -1
    card: str = ""
    is_playable: bool = False
    positions: tuple[int, ...] = ()
    new_card: str = ""


@dataclass(kw_only=True, slots=True)
class HanabiTable:
    """The table after all events; ``hints``: each card's [colour, rank] as told, else "?"."""

    first_hands: list[list[str]]
    hands: list[list[str]]
    hints: list[list[list[str]]]
    stacks: dict[str, int]
    information: int
    lives: int
    deck: int
    discards: list[str] = field(default_factory=list)
    steps: list[HanabiStep] = field(default_factory=list)


def replay(sizes: HanabiSizes, trail: Sequence[Event]) -> HanabiTable:
    """Return the table after the events of ``trail``; cards go to the first hand with room."""
    seats = range(sizes.players)
    table = HanabiTable(
        first_hands=[[] for _ in seats],
        hands=[[] for _ in seats],
        hints=[[] for _ in seats],
        stacks=dict.fromkeys(COLOURS[: sizes.colours], 0),
        information=sizes.information,
        lives=sizes.lives,
        deck=sizes.deck,
    )
    for event in trail:
        if event.player == CHANCE:
            _deal_card(sizes, table, sizes.card(event.action))
        else:
            table.steps.append(_apply_action(sizes, table, event))
    return table


def _deal_card(sizes: HanabiSizes, table: HanabiTable, card: str) -> None:
    seat = next(seat for seat, hand in enumerate(table.hands) if len(hand) < sizes.hand)
    if table.steps:
        seat = table.steps[-1].event.player
        table.steps[-1].new_card = card
    else:
        table.first_hands[seat].append(card)
    table.hands[seat].append(card)
    table.hints[seat].append(["?", "?"])
    table.deck -= 1


def _apply_action(sizes: HanabiSizes, table: HanabiTable, event: Event) -> HanabiStep:
    kind, argument, hint = sizes.action(event.action)
    step = HanabiStep(event=event, kind=kind)
    if kind == "tell":
        step.target = (event.player + argument) % sizes.players
        step.positions = tuple(
            position for position, card in enumerate(table.hands[step.target]) if hint in card
        )
        for position in step.positions:
            table.hints[step.target][position][hint.isdigit()] = hint
        table.information -= 1
        return step
    step.card = table.hands[event.player].pop(argument)
    table.hints[event.player].pop(argument)
    step.is_playable = kind == "play" and table.stacks[step.card[0]] == int(step.card[1]) - 1
    if step.is_playable:
        table.stacks[step.card[0]] += 1
    else:
        table.discards.append(step.card)
        table.lives -= kind == "play"
    if kind == "discard" or (step.is_playable and table.stacks[step.card[0]] == sizes.ranks):
        table.information = min(table.information + 1, sizes.information)
    return step


VARIANTS = {
    "mini": {"colours": 2, "ranks": 2, "hand": 3, "information": 3, "lives": 3},
    "simple": {"colours": 3, "ranks": 2, "hand": 5, "information": 8, "lives": 3},
}
HUES = {"R": "red", "Y": "yellow", "G": "green", "W": "white", "B": "blue"}


@dataclass(kw_only=True, eq=False)
class Hanabi(Game):
    """Hanabi for 2 to 4 seats in small sizes: cooperative, imperfect information.

    Args:
        size: "mini" (2 colours, 2 ranks, hands of 3, 3 information tokens) or "simple" (3 colours,
            2 ranks, hands of 5, 8 tokens); 3 lives. With more than two seats the hands shrink until
            at least one card stays in the deck.
        players: number of seats.
        style: wording, "brief" for tiny models, "full" for language models.

    Reference: Bard et al., "The Hanabi challenge", 2020.
    """

    size: Literal["mini", "simple"] = "mini"
    players: Literal[2, 3, 4] = 2
    style: Style = "brief"

    title = "hanabi"

    def __post_init__(self) -> None:
        variant = HanabiSizes(players=self.players, **VARIANTS[self.size])
        largest_hand = (variant.deck - 1) // variant.players
        sizes = self.sizes = replace(variant, hand=min(variant.hand, largest_hand))
        spiel = load(
            "hanabi",
            {
                "players": sizes.players,
                "colors": sizes.colours,
                "ranks": sizes.ranks,
                "hand_size": sizes.hand,
                "max_information_tokens": sizes.information,
                "max_life_tokens": sizes.lives,
            },
        )
        words = []
        for kind, argument, value in map(sizes.action, range(spiel.num_distinct_actions())):
            hint = f"tell-{value}" if sizes.players == 2 else f"tell+{argument}-{value}"
            words.append(hint if kind == "tell" else f"{kind}{argument + 1}")
        roles = tuple(f"seat{seat}" for seat in range(sizes.players))
        super().__init__(spiel, name="hanabi", roles=roles, words=tuple(words), style=self.style)
        self.rules = _rules_text(sizes)
        self._cached_table: tuple[tuple[Event, ...], HanabiTable] | None = None

    def table(self, state: State) -> HanabiTable:
        """Return the table of ``state``; the latest table is cached for text and key."""
        cache_entry = self._cached_table
        if cache_entry is None or cache_entry[0] is not state.trail:
            cache_entry = self._cached_table = (state.trail, replay(self.sizes, state.trail))
        return cache_entry[1]

    def private_words(self) -> tuple[str, ...]:
        names = [self.sizes.card(index) for index in range(self.sizes.colours * self.sizes.ranks)]
        return (*names, *(str(position + 1) for position in range(self.sizes.hand)), "ok", "miss")

    def stake(self, state: State, seat: int) -> float:
        """Return the score so far."""
        return float(state.returns[seat])

    def key(self, state: State, seat: int) -> str:
        """Return all cards that the seat saw and all actions; OpenSpiel has no such key."""
        table = self.table(state)
        parts = [self._brief_text(step, seat, 0) for step in table.steps]
        return " ".join([self._first_hands(table, seat), *parts])

    def private(self, state: State, seat: int) -> str:
        """Return the first hands of the other seats in brief style, else ""."""
        return self._first_hands(self.table(state), seat) if self.brief else ""

    def _first_hands(self, table: HanabiTable, seat: int) -> str:
        parts = []
        for other, hand in enumerate(table.first_hands):
            if other != seat:
                parts += ([self.roles[other]] if self.num_seats > 2 else []) + hand
        return " ".join(parts)

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the events from ply ``since`` on, with the result of the seat's last action."""
        steps = [
            step
            for step in self.table(state).steps
            if step.event.ply >= since - (step.event.player == seat)
        ]
        describe_step = self._brief_text if self.brief else self._full_text
        return [text for step in steps if (text := describe_step(step, seat, since))]

    def _brief_text(self, step: HanabiStep, seat: int, since: int) -> str:
        is_own = step.event.player == seat
        parts = [] if is_own and since else [self.words[step.event.action]]
        if self.num_seats > 2 and not is_own:
            parts.insert(0, self.roles[step.event.player])
        if step.kind == "tell":
            return (
                " ".join([*parts, *(str(index + 1) for index in step.positions)]) if parts else ""
            )
        parts.append(step.card)
        if step.kind == "play":
            parts.append("ok" if step.is_playable else "miss")
        return " ".join(parts if is_own or not step.new_card else [*parts, step.new_card])

    def _full_text(self, step: HanabiStep, seat: int, since: int) -> str:
        is_own, word = step.event.player == seat, self.words[step.event.action]
        if step.kind == "tell" and is_own and since:
            return ""
        subject = "You" if is_own else f"The player {self.roles[step.event.player]!r}"
        if step.kind == "tell":
            owner = (
                "your own hand"
                if step.target == seat
                else f"the hand of {self.roles[step.target]!r}"
            )
            numbers = _card_numbers(step.positions)
            return f"{subject} chose {word}, which points at {numbers} of {owner}."
        result = " and it fitted" if step.is_playable else " and it did not fit"
        outcome = "" if step.kind == "discard" else result
        new_card = f" The new card is {step.new_card}." if step.new_card and not is_own else ""
        return f"{subject} chose {word}: the card was {step.card}{outcome}.{new_card}"

    def revealed(self, state: State) -> str:
        hands = (" ".join(hand) for hand in self.table(state).hands)
        lines = (f"{role} {hand}" for role, hand in zip(self.roles, hands, strict=True))
        return f"The hands: {', '.join(lines)}."

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        self.paint_seats(canvas, state, seat)
        table, roles = self.table(state), self.roles
        stacks = [
            Card(f"{colour}{height}", HUES[colour]) for colour, height in table.stacks.items()
        ]
        cards(canvas, "stacks", stacks)
        discs(canvas, "hints left", [("i", "sky")] * table.information, radius=10)
        deck = f"deck {table.deck}"
        discs(canvas, "lives left", [("", "red")] * table.lives, radius=10, after=deck)
        for owner, (role, hand) in enumerate(zip(roles, table.hands, strict=True)):
            hints = ["".join(marks).replace("??", "") for marks in table.hints[owner]]
            faces = [
                Card(
                    "" if seat == owner else card,
                    HUES.get(marks[:1], "ink") if seat == owner else HUES[card[0]],
                    marks.strip("?"),
                )
                for card, marks in zip(hand, hints, strict=True)
            ]
            cards(canvas, role, faces, colour=seat_colour(owner))
        paragraph(
            canvas, f"Discarded: {' '.join(table.discards) or 'none'}.", colour="dim", size=14
        )
        self.paint_moves(canvas, state)

    def describe(self, state: State, seat: int | None) -> str:
        table, roles = self.table(state), self.roles
        stacks = " ".join(f"{colour}{height}" for colour, height in table.stacks.items())
        sentences = [
            f"Stacks {stacks}; {table.information} hints, {table.lives} lives and {table.deck} "
            "cards in the deck are left."
        ]
        for owner, (role, hand) in enumerate(zip(roles, table.hands, strict=True)):
            if seat == owner:
                hints = " ".join("".join(marks) for marks in table.hints[owner])
                sentences.append(f"{role} knows of its own hand: {hints}.")
            else:
                sentences.append(f"{role} holds {' '.join(hand)}.")
        text = " ".join(sentences)
        parts = (self.due_text(state), self.last_move(state), text, self.payoff_line(state, seat))
        return " ".join(part for part in parts if part)

    def position(self, state: State, seat: int) -> str:
        table = self.table(state)
        stacks = " ".join(f"{colour}{height}" for colour, height in table.stacks.items())
        lines = [
            f"Stacks: {stacks}. Information tokens: {table.information}. Lives: {table.lives}. "
            f"Cards in the deck: {table.deck}. Discards: {' '.join(table.discards) or 'none'}."
        ]
        for other, hand in enumerate(table.hands):
            hints = " ".join("".join(marks) for marks in table.hints[other])
            if other == seat:
                lines.append(f"Your hand (what you were told of it): {hints}.")
            else:
                lines.append(
                    f"Hand of {self.roles[other]!r}: {' '.join(hand)} (told so far: {hints})."
                )
        return "\n".join(lines)


def _card_numbers(positions: tuple[int, ...]) -> str:
    numbers = ", ".join(str(position + 1) for position in positions)
    return f"card{'s' if len(positions) != 1 else ''} {numbers or 'none'}"


def _rules_text(sizes: HanabiSizes) -> str:
    colours = ", ".join(f"{colour} ({COLOUR_NAMES[colour]})" for colour in COLOURS[: sizes.colours])
    hint = (
        "tell-R or tell-1"
        if sizes.players == 2
        else "tell+1-R or tell+2-1 (+1 is the player after you, +2 the one after that)"
    )
    return (
        f"We play Hanabi, a cooperative game, with {sizes.players} players, colours {colours} and "
        f"ranks 1 to {sizes.ranks}; there are three cards of rank 1, one of rank {sizes.ranks} "
        f"and two of any other, per colour. Each player holds {sizes.hand} card(s), sees the "
        "hands of the others and not the own one; cards are numbered from 1, oldest first, and a "
        "new card comes last. Together you build one stack per colour, from rank 1 upwards; "
        "everybody scores one point per card on the stacks. On your turn you play a card (such as "
        "play1; a card that does not fit costs a life and is discarded), discard a card (such as "
        "discard1; this returns an information token), or spend an information token on a hint "
        "that names a colour or a rank in another player's hand and points at all such cards "
        f"({hint}). The game ends when all stacks are complete, when the last life is lost (the "
        "score is then 0), or when each player had one more turn after the last card was drawn."
    )


hanabi = Hanabi
