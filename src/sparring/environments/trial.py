"""Combinator: several attempts at an environment, with reflections between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.combining import SHOWS, Combined, inner_of
from sparring.environments.options import seats_of
from sparring.environments.repeated import RESULTS
from sparring.environments.trial_play import NOTE, REFLECT, TrialPlay


@dataclass(kw_only=True, eq=False)
class Trial(Combined):
    """Several attempts at an environment in one episode: meta-RL, learning within an episode.

    What: the seats named in ``carry`` remember from attempt to attempt, and write a note (any text)
    between two of them. All other seats begin a fresh conversation at every attempt, so that they
    are the same opponent again. Turns are numbered by attempt (record ``attempt``); a note belongs
    to the attempt before it.
    When to use: to train agents that learn about a task or an opponent while they play it (MAGE,
    LaMer), with an estimator that reads attempts.
    Mathematics:
        return of a seat = sum over attempts of its return
    Pitfalls: with ``redeal: same`` (as MAGE's release) a note may give away what chance will do
    again, so that the next attempt is recall. With ``stop_on_win`` an early win ends the episode,
    and later attempts are missing, not lost. A note is a turn, and is trained on like any other.
    Reference: MAGE (arXiv 2603.03680); LaMer (arXiv 2512.16848).
    Verified by: tests/environments/test_combinators.py.

    Args:
        environment: the other environment, {name: ..., options: {...}}. null (default):
            rock_paper_scissors, to look at.
        attempts: number of attempts, 1 to 100.
        carry: roles that remember. Empty (default): the first role alone.
        reflect: whether these write a note between attempts. true by default.
        memory: what they keep: "all" (default), their whole conversation; "notes", their notes
            alone, in a fresh conversation at every attempt.
        redeal: "fresh" (default): chance is drawn anew at every attempt. "same": every attempt has
            the chance of the first, as far as the play goes the same way.
        stop_on_win: whether an attempt with a positive return of a carried seat is the last.
        note_limit: characters of a note that are kept, 1 to 100,000.
        reveal: whether those who remember are told at the end of an attempt what the rules show
            then, such as the cards of a show-down in kuhn_poker (no card after a fold). false by
            default: the actions and the result alone.
        retell: whether those who keep their whole conversation are told the rules at every attempt.
            true by default. false: at the first one alone, so that a conversation has fewer tokens;
            for an environment in full style whose rules are one text.

    Raises:
        ConfigError: the option ``environment`` names none, a role is carried twice, or there are no
            rules to leave out.
        UnknownNameError: the environment has no role of a name in ``carry``.
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
        inner, attempts, reflect = self.inner, self.attempts, self.reflect
        self.carried = seats_of("trial", "carry", self.carry, inner.roles, inner.name) or (0,)
        self.told_once = "" if self.retell else _rules_of(inner)
        notes = (attempts - 1) * len(self.carried) if reflect else 0
        self.notes = notes > 0 or getattr(inner, "notes", False)
        self.max_turns = attempts * inner.max_turns + notes
        ends = (inner.min_utility, inner.max_utility)
        self.min_utility, self.max_utility = (attempts * end for end in ends)
        if self.stop_on_win:  # a win may be the first attempt's, and nothing follows it
            self.max_utility = max(self.max_utility, inner.max_utility)
            self.min_utility = min(self.min_utility, inner.min_utility)
        total = inner.utility_sum
        self.utility_sum = (
            None if total is None or (self.stop_on_win and total) else attempts * total
        )

    def words(self) -> tuple[str, ...]:
        """Return the words between attempts."""
        return (*RESULTS, REFLECT, NOTE, *([SHOWS] if self.reveal else []))

    def reset(self, stream: Stream) -> TrialPlay:
        """Return the first attempt at its start."""
        return TrialPlay(self, stream)


def _rules_of(inner: Any) -> str:
    """Return the text in which an environment tells its rules.

    Raises:
        ConfigError: it has none.
    """
    rules = getattr(inner, "rules", "")
    if inner.brief or not isinstance(rules, str) or not rules:
        has, other = "holds its rules in no one text", ""
        if inner.brief:
            has, other = "tells no rules in brief style", ", or an environment in style: full"
        raise ConfigError(
            f"environments 'trial': retell=false leaves the rules out, and {inner.name} {has}; "
            f"write retell: true{other}."
        )
    return rules


trial = Trial
