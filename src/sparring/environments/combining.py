"""What the environments that are made of another environment share.

A combinator's option ``environment`` names the other one, with its options:

    environments:
      - name: repeated
        options: {environment: {name: rock_paper_scissors}, rounds: 5}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import (
    Environment,
    HasEnding,
    HasShowdown,
    Play,
    close_play,
    random_reply,
    read_reply,
)
from sparring.environments.catalogue import make_game
from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import describe_told, draw_told
from sparring.environments.reply import meant

SHOWS = "shows"  # what the rules show at the end, in brief style
TAKEN = ("roles", "num_seats", "style", "brief", "zero_sum", "cooperative", "teams", "notes")


def inner_of(
    combinator: str,
    environment: Any,
    *,
    default: str = "rock_paper_scissors",
    style: str | None = None,
) -> Any:
    """Return the environment that an option names.

    Args:
        combinator: whose option it is, for errors.
        environment: ``{name: ..., options: {...}}``, or one that is made; None: the default.
        default: name of the environment to look at.
        style: wording of an environment that has this option and is given none; None: its own.

    Raises:
        ConfigError: it is no such mapping, or an option is wrong.
        UnknownNameError: there is no such environment.
    """
    if hasattr(environment, "reset"):
        return environment
    environment = {"name": default} if environment is None else environment
    where = f"environments {combinator!r}, option 'environment'"
    example = f"write environment: {{name: {default}, options: {{}}}}"
    if not isinstance(environment, Mapping) or not isinstance(environment.get("name"), str):
        raise ConfigError(f"{where}: {quoted(environment)} names none; {example}.")
    for key in environment:
        if key not in ("name", "options"):
            raise ConfigError(f"{where}: it has no key {quoted(key)}; {example}.")
    name, options = environment["name"], environment.get("options", {})
    if not isinstance(options, Mapping):
        raise ConfigError(f"{where}: options={quoted(options)} is no mapping; {example}.")
    if style is not None and _has_styles(name):
        options = {"style": style, **options}
    # a seat's illegal replies are the outer play's matter
    return make_game(name, options=options, illegal={"rule": "retry"})


def _has_styles(name: str) -> bool:
    known = registry.known("environments", name)
    return not known or "style" in registry.load("environments", name).options


def styled(name: str, options: Mapping[str, Any], style: str) -> dict[str, Any]:
    """Return options of an environment with a wording, for itself or for what it is made of.

    Args:
        name: of the environment.
        options: as written; a style that they name stays.
        style: the wording, where the environment has several.
    """
    if _has_styles(name):
        return {"style": style, **options}
    if "environment" not in registry.load("environments", name).options:
        return dict(options)
    inner = options.get("environment")
    if inner is None:
        inner = getattr(getattr(make_game(name), "inner", None), "made_by", None)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        return dict(options)  # the environment says what is wrong
    within = styled(inner["name"], inner.get("options", {}), style)
    return {**options, "environment": {**inner, "options": within}}


class CombinedEnvironment(Environment):
    """Base of environments made of another, ``inner``: its roles, style and bank of starts.

    Attributes:
        inner: the other environment.
    """

    roles: tuple[str, ...]
    num_seats: int

    def __init__(self, name: str, inner: Any) -> None:
        self.name, self.inner = name, inner
        for part in TAKEN:
            if hasattr(inner, part):
                setattr(self, part, getattr(inner, part))
        if hasattr(inner, "counted"):
            self.counted: str = inner.counted

    def words(self) -> tuple[str, ...]:
        """Return the words that the combinator itself says in brief style."""
        return ()

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word that is told or replied in brief style."""
        return tuple(sorted({*self.inner.vocabulary(), *self.words()}))

    def start_of(self, play: Any) -> Any:
        """Return the start of the first play."""
        return self.inner.start_of(play.first)

    def starts(self) -> frozenset[Any] | None:
        """Return the starts of the other environment's bank."""
        starts: frozenset[Any] | None = self.inner.starts()
        return starts

    def other_bank(self) -> dict[str, Any] | None:
        """Return options that make the same environment with another bank."""
        other = self.inner.other_bank() if hasattr(self.inner, "other_bank") else None
        if other is None or self.made_by is None:
            return None
        options, inner = self.made_by["options"], self.inner.made_by
        return {**options, "environment": {"name": inner["name"], "options": other}}


class CombinedPlay(PaintedPlay):
    """Base of plays of such an environment: ``play`` is the other one's, ``news`` what is added.

    Attributes:
        rules: the combined environment.
        play: the play that goes on now.
        first: the first play, as it began.
        news: what a seat is told before the play's own words, by seat.
    """

    def __init__(self, rules: Any, play: Any) -> None:
        self.rules, self.play, self.first = rules, play, play
        self.news: dict[int, str] = {}
        self.has_open_play = True

    @property
    def done(self) -> bool:
        """Whether it is over."""
        over: bool = self.play.done
        return over

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far."""
        return tuple(self.play.returns)

    def within(self, seat: int) -> int:
        """Return the seat of the play that a seat acts for: itself."""
        return seat

    def due(self) -> tuple[int, ...]:
        """Return the seats that the play wants replies of."""
        return tuple(self.play.due())

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the actions of a seat."""
        actions: tuple[str, ...] | None = self.play.legal(seat)
        return actions

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply, as the play reads it."""
        return read_reply(self.play, seat, self.legal(seat), reply, exact or self.rules.brief)

    def meant(self, seat: int, legal: tuple[str, ...]) -> tuple[str, ...]:
        """Return the action that each reply of a list stands for, as the play has it."""
        return meant(self.play, seat, legal)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply drawn at random."""
        return random_reply(self.play, seat, self.legal(seat), stream)

    def observe(self, seat: int) -> Observation:
        """Return what the play tells a seat, after the news."""
        seen: Observation = self.play.observe(seat)
        return with_news(seen, self.news.get(seat, ""), self.rules.brief)

    def known(self, replies: Mapping[int, str]) -> dict[int, str]:
        """Return by seat what it knows of the play that goes on when it replies, and the reply.

        For the keys of plays after it: a seat remembers no more of one than it knew and did last.
        """
        return {seat: f"{self.play.observe(seat).key} {reply}|" for seat, reply in replies.items()}

    def step(self, replies: Mapping[int, str]) -> None:
        """Go on with the play."""
        self.play.step(replies)
        for seat in replies:
            self.news.pop(seat, None)

    def ending(self, seat: int) -> str:
        """Return what a seat learns at the end."""
        return ending_of(self.play, seat)

    def shown(self, seat: int) -> str:
        """Return what the rules show a seat at the end."""
        return shown_of(self.play, seat, brief=False)

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the play that goes on now."""
        canvas.inset(draw_told(self.play, self.rules.roles, seat, canvas.theme))

    def described(self, seat: int | None) -> str:
        """Return the position of the play that goes on now."""
        return describe_told(self.play, self.rules.roles, seat)

    def copied(self) -> Any:
        """Return a copy of the play that goes on now.

        Raises:
            GameError: it cannot be copied.
        """
        if not hasattr(self.play, "clone"):
            raise GameError(
                f"{self.rules.inner.name}: its plays cannot be copied, so neither can those of "
                f"{self.rules.name}; give them a method clone."
            )
        return self.play.clone()

    def close(self) -> None:
        """Close the play that goes on now; those before were closed when they were over."""
        if self.has_open_play:
            close_play(self.play)

    def begin_another(self, stream: Stream) -> None:
        """Close the play that is over, and begin another one in its place."""
        self.has_open_play = False  # also where no other one can begin
        close_play(self.play)
        self.play = self.rules.inner.reset(stream)
        self.has_open_play = True

    def clone(self) -> Any:
        """Return an independent copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.play, twin.news = self.copied(), dict(self.news)
        return twin


def played(play: Play) -> Any:
    """Return the play that goes on inside combinators; of any other play, itself."""
    while isinstance(play, CombinedPlay):
        play = play.play
    return play


def seated(play: Play, seat: int) -> tuple[Any, int]:
    """Return ``played``, and the seat of it that a seat acts for: a proposer's is its chooser's."""
    inner: Any = play
    while isinstance(inner, CombinedPlay):
        inner, seat = inner.play, inner.within(seat)
    return inner, seat


def with_news(seen: Observation, news: str, brief: bool) -> Observation:
    """Return an observation with something told before it."""
    if not news:
        return seen
    between = " " if brief else "\n\n"
    return seen._replace(told=f"{news}{between}{seen.told}" if seen.told else news)


def ending_of(play: Play, seat: int) -> str:
    """Return what a play that is over tells a seat of its end; "" where it says nothing of it."""
    return play.ending(seat) if isinstance(play, HasEnding) else ""


def shown_of(play: Play, seat: int, brief: bool) -> str:
    """Return what the rules show a seat of a play that is over, such as cards; "" where nothing."""
    text = play.shown(seat) if isinstance(play, HasShowdown) else ""
    return f"{SHOWS} {text}" if brief and text else text


def joined(parts: Sequence[str], brief: bool) -> str:
    """Return texts as one: words in brief style, else paragraphs."""
    return (" " if brief else "\n\n").join(part for part in parts if part)
