"""Turns what happened in a game into words.

The hooks a game's file overrides, and the frame around them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sparring.environments.openspiel.events import CHANCE, Event, recent

if TYPE_CHECKING:
    from sparring.environments.openspiel.base import State

Style = Literal["brief", "full"]
"""Wording: "brief" for a tiny model with a word-level vocabulary, "full" for a language model."""

REPLY = "Please reply with exactly one legal action, for example:"
# where the reply is to hold more than the action, such as tags
CHOOSE = "Choose exactly one legal action, for example:"
NOTHING = "."  # what a seat is told in brief style when nothing happened
ILLEGAL = "illegal"  # what a seat is told in brief style after an illegal reply


class Wording:
    """What the seats of a game are told, in brief or full style.

    Subclasses set ``title`` (the word that names the game in brief style) and ``rules`` (for full
    style) and override the hooks ``private``, ``private_words``, ``position`` and ``chance_event``;
    for people ``picture``, ``on_table`` and ``revealed``.
    """

    title: str = ""
    rules: str = ""
    brief: bool
    num_seats: int
    roles: tuple[str, ...]
    words: tuple[str, ...]

    def word_of(self, state: State, player: int, index: int) -> str:
        """Return the word of an action id in ``state``."""
        return self.words[index]

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word, sorted, that the brief wording and the actions can contain.

        Words are separated by whitespace.
        """
        return tuple(
            sorted({self.title, NOTHING, ILLEGAL, *self.roles, *self.words, *self.private_words()})
        )

    def private_words(self) -> tuple[str, ...]:
        """Return the words that ``private`` and ``chance_event`` can use in brief style."""
        return ()

    def private(self, state: State, seat: int) -> str:
        """Return what the seat alone knew at the start (style of the game), or ""."""
        return ""

    def position(self, state: State, seat: int) -> str:
        """Return a picture of the position for full style, or ""."""
        return ""

    def picture(self, state: State, seat: int) -> str:
        """Return the position as a person sees it.

        That of full style, with coordinates where it has none.
        """
        return self.position(state, seat)

    def on_table(self, state: State, seat: int) -> str:
        """Return what a person in the seat is shown besides ``picture``, such as the pot, or "".

        No model is told it: what models read, and so what was trained before, stays as it is.
        """
        return ""

    def revealed(self, state: State) -> str:
        """Return what was hidden from a seat, in full style, or "".

        It is for people when the play is over.
        """
        return ""

    def shown(self, state: State, seat: int) -> str:
        """Return what the rules show a seat at the end that it is not told else, in its style.

        Such as the cards of a show-down; "" where they show nothing.
        """
        return ""

    def scene(self, state: State, seat: int, since: int) -> str:
        """Return what a person in the seat is shown.

        What it knows, the news since ply ``since``, the position.
        """
        news = " ".join(self.events(state, seat, since))
        parts = (
            self.private(state, seat),
            news,
            self.picture(state, seat),
            self.on_table(state, seat),
        )
        return "\n\n".join(part for part in parts if part)

    def chance_event(self, state: State, seat: int, event: Event) -> str:
        """Return the wording of a chance outcome that ``seat`` sees, or ""."""
        return ""

    def action_event(self, state: State, seat: int, event: Event) -> str:
        """Return the wording of a seat's action, as ``seat`` sees it."""
        word = self.word_of(state, event.player, event.action)
        if self.brief:
            return word if self.num_seats <= 2 else f"{self.roles[event.player]} {word}"
        return (
            f"You chose {word}."
            if event.player == seat
            else f"The player {self.roles[event.player]!r} chose {word}."
        )

    def told(self, state: State, seat: int, since: int) -> tuple[str, str]:
        """Return what ``seat`` is to be told, and the question that closes it.

        See ``State.observe``.
        """
        events = self.events(state, seat, since)
        if self.brief:
            if since:
                return " ".join(events) or NOTHING, ""
            private = self.private(state, seat)
            opening = [self.title, self.roles[seat], *([private] if private else []), *events]
            return " ".join(opening), ""
        parts = (
            []
            if since
            else [self.rules, f"You play as {self.roles[seat]!r}.", self.private(state, seat)]
        )
        parts += [" ".join(events), self.position(state, seat)]
        return "\n\n".join(part for part in parts if part), self.call(state, seat)

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the wordings of all events from ply ``since`` on that the seat is to be told."""
        out = []
        for event in recent(state.trail, since):
            if event[1] == CHANCE:
                said = self.chance_event(state, seat, event)
                if said:
                    out.append(said)
            elif not since or event[1] != seat:
                out.append(self.action_event(state, seat, event))
        return out

    def actions_so_far(self, state: State) -> str:
        """Return all actions of the seats in order, such as "first pass, second bet".

        "none" before the first.
        """
        acted = [event for event in state.trail if event.player != CHANCE]
        said = [
            f"{self.roles[event.player]} {self.word_of(state, event.player, event.action)}"
            for event in acted
        ]
        return ", ".join(said) or "none"

    def call(self, state: State, seat: int) -> str:
        """Return the closing lines of full style.

        Whose turn it is, the legal actions and the form of an answer.
        """
        if state.done:
            return "The game is over."
        if state.seat != seat:
            return "It is not your turn yet; please wait."
        legal = state.legal_actions()
        example = legal[self.example(state) % len(legal)]
        return f"It is your turn. Legal actions: {', '.join(legal)}.\n{REPLY} {example}"

    def example(self, state: State) -> int:
        """Return a number that chooses the action named as an example.

        The seat to act must know it.

        It is the number of events so far. A game with events that the seat is not told of must give
        another.
        """
        return len(state.trail)

    def correction(self, state: State, reply_action: str | None, played: str | None = None) -> str:
        """Return what a seat is told after an illegal or unparsable reply.

        Args:
            state: the state before the reply took effect.
            reply_action: the illegal action of the reply, or None if it held none.
            played: the random legal action that was played in its place, or None if the seat may
                try again.
        """
        if self.brief:
            return ILLEGAL if played is None else f"{ILLEGAL} {played}"
        wrong = (
            "Your reply contained no action."
            if reply_action is None
            else f"The action {reply_action} is not legal now."
        )
        if played is not None:
            return f"{wrong} The action {played} was played for you."
        return f"{wrong} {self.call(state, state.seat)}"
