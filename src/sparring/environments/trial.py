"""Combinator: several attempts at an environment, with reflections between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.combining import (
    REVEALED_WORD,
    CombinedEnvironment,
    CombinedPlay,
    inner_of,
    join_texts,
    with_news,
)
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import (
    TimelineMessage,
    finished_plays,
    heading,
    paragraph,
    timeline,
)
from sparring.environments.drawing.words import wrap_text
from sparring.environments.options import seats_of
from sparring.environments.repeated import MAX_PLAYS, RESULTS, result_text

REFLECT = "reflect"  # the question between attempts, in brief style
OVER_TEXT = "The attempt is over."
NEXT_ATTEMPT_TEXT = "A new attempt begins, by the same rules."
NOTE = "note"  # begins a reflection, in brief style
NOTE_QUESTION = (
    "Before the next attempt, write a short note to yourself: what you have learned, and what you "
    "will do differently."
)


class TrialPlay(CombinedPlay):
    """An episode of several attempts, one after the other.

    Attributes:
        attempt: number of the current attempt, from 0.
        past_returns: sum of the returns of earlier attempts, [num_seats].
        is_reflecting: whether the seats of option ``carry`` must write their notes now.
        notes: the notes of each seat so far.
        earlier_plays: the attempts that are over.
    """

    def __init__(self, rules: Any, stream: Stream) -> None:
        super().__init__(rules, rules.inner.reset(stream.child(0)))
        self.stream, self.attempt, self.is_reflecting, self.is_over = stream, 0, False, False
        self.past_returns = (0.0,) * rules.num_seats
        self.notes: dict[int, tuple[str, ...]] = {}
        self.earlier_plays: tuple[Any, ...] = ()
        self.replied_seats: frozenset[int] = frozenset()  # seats that have replied in this attempt
        self.keys = ("",) * rules.num_seats  # what each seat knows of earlier attempts
        self.last_turns: dict[int, str] = {}  # seat -> information state and reply of its turn

    @property
    def done(self) -> bool:
        return self.is_over

    @property
    def returns(self) -> tuple[float, ...]:
        """The sum of the payoffs of all attempts so far."""
        return tuple(a + b for a, b in zip(self.past_returns, self.play.returns, strict=True))

    def due(self) -> tuple[int, ...]:
        if self.is_over:
            return ()
        return tuple(sorted(self.rules.carriers)) if self.is_reflecting else super().due()

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the legal actions of the attempt; None if any text is legal, as for a note."""
        return None if self.is_reflecting else super().legal(seat)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply, or a note unchanged."""
        return reply if self.is_reflecting else super().read(seat, reply, exact)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random action; for a note the text of the news, or one word in brief style."""
        if not self.is_reflecting:
            return super().sample(seat, stream)
        news = "" if self.rules.brief else " ".join(self.news.get(seat, "").split())
        return news[: self.rules.note_limit] or NOTE

    def observe(self, seat: int) -> Observation:
        """Return the observation of the attempt, or the question for a note."""
        rules, news = self.rules, self.news.get(seat, "")
        if self.is_reflecting:
            ask = "" if rules.brief else NOTE_QUESTION
            prompt = join_texts([news, REFLECT], True) if rules.brief else news
            key = f"{self.keys[seat]}{self.last_turns.get(seat, '')}{news}|{REFLECT}"
            return Observation(prompt=prompt, ask=ask, key=key, attempt=self.attempt, note=True)
        is_new_attempt = self.attempt > 0 and seat not in self.replied_seats
        keeps_conversation = seat in rules.carriers and rules.memory == "all"
        observation = self.play.observe(seat)
        if is_new_attempt and keeps_conversation and rules.omitted_rules:
            text = observation.prompt.removeprefix(rules.omitted_rules).strip()
            observation = observation._replace(prompt=join_texts([NEXT_ATTEMPT_TEXT, text], False))
        fresh = (is_new_attempt or observation.fresh) and not keeps_conversation
        observation = with_news(observation, self._notes(seat) if fresh else news, rules.brief)
        key = f"{self.keys[seat]}{observation.key}" if seat in rules.carriers else observation.key
        return observation._replace(key=key, attempt=self.attempt, fresh=fresh)

    def _notes(self, seat: int) -> str:
        notes = self.notes.get(seat, ())
        if self.rules.brief or not notes:
            return join_texts(notes, True)
        lines = (f"{number}. {text}" for number, text in enumerate(notes, start=1))
        return join_texts(["Your notes from earlier attempts:", *lines], False)

    def step(self, replies: Mapping[int, str]) -> None:
        if self.is_reflecting:
            for seat, text in replies.items():
                note = text[: self.rules.note_limit]
                self.notes[seat] = (*self.notes.get(seat, ()), note)
                self._add_to_key(seat, self.news.pop(seat, ""))
                self.keys = _append_key(self.keys, seat, f"{note}|")
            self._begin_attempt()
            return
        key_parts = self.key_parts(replies)
        super().step(replies)
        self._record_replies(key_parts)

    def after(self, replies: Mapping[int, str], play: Any) -> TrialPlay:
        """Return a copy after replies of some seats, in which ``play`` is the current play.

        Exact solvers call this for every chance outcome, whereas ``step`` draws one outcome.

        Args:
            replies: replies to the current attempt; empty: only the play changes.
            play: a play of the inner environment after the replies; the copy owns it.
        """
        trial_copy, key_parts = self.clone(), self.key_parts(replies)
        trial_copy.play = play
        for seat in replies:
            trial_copy.news.pop(seat, None)
        trial_copy._record_replies(key_parts)
        return trial_copy

    def _add_to_key(self, seat: int, text: str) -> None:
        """Add a finished attempt to a seat's key, unless the seat remembers only its notes."""
        if self.rules.memory == "all":
            self.keys = _append_key(self.keys, seat, f"{self.last_turns.get(seat, '')}{text}|")

    def _record_replies(self, key_parts: Mapping[int, str]) -> None:
        """Record replies with the information states, and end the attempt if its play is over."""
        self.replied_seats |= set(key_parts)
        self.last_turns = {**self.last_turns, **key_parts}
        while self.play.done and not self.is_over and not self.is_reflecting:
            self._end_attempt()

    def _end_attempt(self) -> None:
        rules, results = self.rules, tuple(self.play.returns)
        has_won = any(results[seat] > 0 for seat in rules.carriers)
        if self.attempt + 1 == rules.attempts or (rules.stop_on_win and has_won):
            self.is_over = True
            return
        for seat in rules.carriers:
            text = result_text(self.play, seat, results[seat], rules.brief, rules.reveal)
            self.news[seat] = join_texts([self.news.get(seat, ""), text], rules.brief)
            if not rules.reflect:
                self._add_to_key(seat, text)
        if rules.reflect:
            self.is_reflecting = True
        else:
            self._begin_attempt()

    def _begin_attempt(self) -> None:
        self.earlier_plays = (*self.earlier_plays, self.play)
        self.past_returns, self.attempt = self.returns, self.attempt + 1
        self.is_reflecting, self.replied_seats, self.last_turns = False, frozenset(), {}
        number = 0 if self.rules.redeal == "same" else self.attempt
        self.begin_another(self.stream.child(number))

    def clone(self) -> TrialPlay:
        copy: TrialPlay = super().clone()
        copy.notes = dict(self.notes)
        return copy

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        rules, sees_attempts = self.rules, seat is None or seat in self.rules.carriers
        if sees_attempts:
            note = "notes are due" if self.is_reflecting else ""
            heading(canvas, f"Attempt {self.attempt + 1} of {rules.attempts}", note)
        if not sees_attempts and self.is_reflecting:
            paragraph(canvas, OVER_TEXT)  # only seats that remember attempts see the result
            return
        super().paint(canvas, seat)
        if not sees_attempts:
            return
        if self.earlier_plays:
            heading(canvas, "Attempts before")
            messages = finished_plays(self.earlier_plays, rules.roles, seat, "attempt", MAX_PLAYS)
            timeline(canvas, messages, most=MAX_PLAYS, lines=2)
        for player, notes in sorted(self.notes.items()):
            if seat in (None, player):
                name = f"note of {rules.roles[player]}"
                messages = [
                    TimelineMessage(name, note or "(nothing)", seat_colour(player))
                    for note in notes
                ]
                timeline(canvas, messages, most=3)

    def described(self, seat: int | None) -> str:
        rules, text = self.rules, super().described(seat)
        if seat is not None and seat not in rules.carriers:
            return OVER_TEXT if self.is_reflecting else text
        parts = [f"Attempt {self.attempt + 1} of {rules.attempts}.", text]
        if self.is_reflecting:
            parts.append("Notes are due.")
        for player, notes in sorted(self.notes.items()):
            if seat in (None, player):
                parts.append(f"{rules.roles[player]} noted: {wrap_text(notes[-1], 1, 60, 1)[0]}")
        return " ".join(parts)


def _append_key(keys: tuple[str, ...], seat: int, text: str) -> tuple[str, ...]:
    return (*keys[:seat], keys[seat] + text, *keys[seat + 1 :])


@dataclass(kw_only=True, eq=False)
class Trial(CombinedEnvironment):
    """Several attempts at an environment in one episode: meta-RL, learning within an episode.

    What: the seats in ``carry`` remember earlier attempts, and write a note (any text) between two
    attempts. All other seats begin a new conversation at every attempt, so the opponents of all
    attempts behave alike. A turn records the number of its attempt in ``attempt``; a note belongs
    to the attempt before it.
    When to use: to train players that learn about a task or an opponent while they play (MAGE,
    LaMer), with a credit estimator that uses attempts.
    Mathematics:
        return of a seat = sum over attempts of its return
    Pitfalls: with ``redeal: same`` (as in MAGE's code) a note can reveal chance outcomes that
    repeat, so the next attempt needs only memory. With ``stop_on_win`` an early win ends the
    episode: later attempts do not exist, and do not count as losses. A note is a turn, and is
    trained like other turns.
    Reference: MAGE (arXiv 2603.03680); LaMer (arXiv 2512.16848).
    Verified by: tests/environments/test_combinators.py.

    Args:
        environment: the environment to attempt, {name: ..., options: {...}}. null (default):
            rock_paper_scissors, as an example.
        attempts: number of attempts, 1 to 100.
        carry: roles that remember earlier attempts. Empty (default): only the first role.
        reflect: whether these roles write a note between attempts. true by default.
        memory: the memory of these roles: "all" (default), their whole conversation; "notes", only
            their notes, in a new conversation at every attempt.
        redeal: "fresh" (default): every attempt draws new chance outcomes. "same": every attempt
            has the chance outcomes of the first, as long as the actions are the same.
        stop_on_win: whether the episode ends after a positive return of a role in ``carry``.
        note_limit: largest number of characters of a note, 1 to 100,000.
        reveal: whether roles in ``carry`` see at the end of an attempt what the rules reveal, such
            as the cards of a show-down in kuhn_poker (no card after a fold). false (default): only
            the actions and the result.
        retell: whether roles with ``memory: all`` see the rules at every attempt. true by default.
            false: only at the first attempt, which saves tokens; for an environment in full style
            with its rules as one text.

    Raises:
        ConfigError: the option ``environment`` names no environment, ``carry`` names a role twice,
            or ``retell: false`` finds no rules to leave out.
        UnknownNameError: a name in ``carry`` is not a role.
    """

    environment: dict[str, Any] | None = None
    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    carry: tuple[str, ...] = ()
    reflect: bool = True
    memory: Literal["all", "notes"] = "all"
    redeal: Literal["fresh", "same"] = "fresh"
    stop_on_win: bool = False
    note_limit: Annotated[int, Field(ge=1, le=100_000)] = 2000
    reveal: bool = False
    retell: bool = True

    def __post_init__(self) -> None:
        super().__init__("trial", inner_of("trial", self.environment))
        inner, attempts = self.inner, self.attempts
        self.carriers = seats_of("trial", "carry", self.carry, inner.roles, inner.name) or (0,)
        self.omitted_rules = "" if self.retell else _rules_of(inner)
        num_notes = (attempts - 1) * len(self.carriers) if self.reflect else 0
        self.notes = num_notes > 0 or inner.notes
        self.max_turns = attempts * inner.max_turns + num_notes
        bounds = (inner.min_utility, inner.max_utility)
        self.min_utility, self.max_utility = (attempts * bound for bound in bounds)
        if self.stop_on_win:  # the episode may end after a first attempt that is a win
            self.max_utility = max(self.max_utility, inner.max_utility)
            self.min_utility = min(self.min_utility, inner.min_utility)
        inner_sum = inner.utility_sum
        self.utility_sum = (
            None if inner_sum is None or (self.stop_on_win and inner_sum) else attempts * inner_sum
        )

    def words(self) -> tuple[str, ...]:
        """Return the words between attempts."""
        return (*RESULTS, REFLECT, NOTE, *([REVEALED_WORD] if self.reveal else []))

    def reset(self, stream: Stream) -> TrialPlay:
        return TrialPlay(self, stream)


def _rules_of(inner: Any) -> str:
    rules = getattr(inner, "rules", "")
    if inner.brief or not isinstance(rules, str) or not rules:
        reason, advice = "does not have its rules as one text", ""
        if inner.brief:
            reason, advice = "has no rules in brief style", ", or an environment in style: full"
        raise ConfigError(
            f"environments 'trial': retell=false leaves the rules out, and {inner.name} {reason}; "
            f"write retell: true{advice}."
        )
    return rules


trial = Trial
