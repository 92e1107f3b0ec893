"""The picture of several rounds of Kuhn poker: the round that is played, and those before."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import heading, paragraph, strip, table
from sparring.environments.drawing.rows import Card, cards
from sparring.environments.kuhn_rounds.rules import ACTIONS, CARDS, KuhnTable, Round

PAST = 8  # earlier rounds that are shown, the latest ones


def paint(canvas: Canvas, position: KuhnTable, seat: int | None, roles: Sequence[str]) -> None:
    """Draw the round that is played and a table of the rounds before.

    Args:
        canvas: to draw on.
        position: all rounds so far.
        seat: who looks: the other's card is seen where it was shown; None: nothing is hidden.
        roles: name of each seat.
    """
    *before, now = position.rounds
    pot = "" if now.over else f"pot {now.bets(0)} + {now.bets(1)}"
    heading(canvas, f"Round {len(position.rounds)} of {position.total}", pot)
    for one, role in enumerate(roles):
        cards(canvas, role, [Card(_card(now, one, seat))], colour=seat_colour(one), high=50)
    if now.actions:
        strip(canvas, [*_moves(now)])
    else:
        paragraph(canvas, f"{roles[now.starter]} acts first.", colour="dim")
    if before:
        first = max(0, len(before) - PAST)
        heading(canvas, "Rounds before", f"{first} more" if first else "")
        rows = [("", *roles, "actions", roles[0])]
        for number, item in enumerate(before[first:], start=first + 1):
            held = (_card(item, one, seat) or "?" for one in (0, 1))
            acted = " ".join(ACTIONS[action] for action in item.actions)
            rows.append((str(number), *held, acted, f"{item.gain():+d}"))
        table(canvas, rows, size=13, shares=(1, 1, 2.4, 1))


def describe(position: KuhnTable, seat: int | None, roles: Sequence[str]) -> str:
    """Return the chips, the cards that are seen and the actions of the round that is played."""
    now = position.rounds[-1]
    held = [
        f"{role} holds {card}." for one, role in enumerate(roles) if (card := _card(now, one, seat))
    ]
    acted = ", ".join(
        f"{roles[(now.starter + place) % 2]} {ACTIONS[action]}"
        for place, action in enumerate(now.actions)
    )
    return " ".join(
        [
            f"Round {len(position.rounds)} of {position.total}.",
            *held,
            f"Actions: {acted or 'none'}.",
            f"{roles[0]} has won {position.chips:+d} chips so far.",
        ]
    )


def _card(item: Round, one: int, seat: int | None) -> str:
    """Return the card of a seat as the reader sees it, "" for one that is face down."""
    if seat in (None, one) or item.shown:
        return CARDS[item.cards[one]] if len(item.cards) > one else ""
    return ""


def _moves(item: Round) -> list[tuple[str, str]]:
    """Return the actions of a round with the colours of who acted."""
    return [
        (ACTIONS[action], seat_colour((item.starter + place) % 2))
        for place, action in enumerate(item.actions)
    ]
