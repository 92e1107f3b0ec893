"""Base classes of combinators: environments that wrap another environment.

The option ``environment`` of a combinator names the wrapped environment, with its options:

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
from sparring.environments.drawing.pieces import describe_play, draw_play
from sparring.environments.reply import actions_meant

REVEALED_WORD = "shows"  # the word before revealed information, in brief style
INHERITED = ("roles", "num_seats", "style", "brief", "zero_sum", "cooperative", "teams", "notes")


def inner_of(
    combinator: str,
    environment: Any,
    *,
    default: str = "rock_paper_scissors",
    style: str | None = None,
) -> Any:
    """Return the environment that the option ``environment`` of a combinator names.

    Args:
        combinator: name of the combinator, for errors.
        environment: ``{name: ..., options: {...}}``, or an environment; None: the default.
        default: name of the default environment.
        style: wording if the options have no ``style``; None: the environment's default.

    Raises:
        ConfigError: the option is not a mapping of this form, or an option in it is wrong.
        UnknownNameError: there is no such environment.
    """
    if hasattr(environment, "reset"):
        return environment
    environment = {"name": default} if environment is None else environment
    option = f"environments {combinator!r}, option 'environment'"
    example = f"write environment: {{name: {default}, options: {{}}}}"
    if not isinstance(environment, Mapping) or not isinstance(environment.get("name"), str):
        raise ConfigError(f"{option}: {quoted(environment)} names no environment; {example}.")
    for key in environment:
        if key not in ("name", "options"):
            raise ConfigError(f"{option}: unknown key {quoted(key)}; {example}.")
    name, options = environment["name"], environment.get("options", {})
    if not isinstance(options, Mapping):
        raise ConfigError(f"{option}: options={quoted(options)} is not a mapping; {example}.")
    if style is not None and _has_styles(name):
        options = {"style": style, **options}
    # the outer environment's rule handles illegal replies
    return make_game(name, options=options, illegal={"rule": "retry"})


def _has_styles(name: str) -> bool:
    is_plugin = registry.is_known("environments", name)
    return not is_plugin or "style" in registry.load("environments", name).options


def with_style(name: str, options: Mapping[str, Any], style: str) -> dict[str, Any]:
    """Return options with a style, for an environment or for the environment that it wraps.

    Args:
        name: name of the environment.
        options: its options; a ``style`` in them is not replaced.
        style: the wording; an environment without option ``style`` does not get it.
    """
    if _has_styles(name):
        return {"style": style, **options}
    if "environment" not in registry.load("environments", name).options:
        return dict(options)
    inner = options.get("environment")
    if inner is None:
        inner = getattr(getattr(make_game(name), "inner", None), "made_by", None)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        return dict(options)  # make_game raises the error
    inner_options = with_style(inner["name"], inner.get("options", {}), style)
    return {**options, "environment": {**inner, "options": inner_options}}


class CombinedEnvironment(Environment):
    """Base of environments that wrap another one, with its roles, style and bank.

    Attributes:
        inner: the wrapped environment.
    """

    roles: tuple[str, ...]
    num_seats: int

    def __init__(self, name: str, inner: Any) -> None:
        self.name, self.inner = name, inner
        for attribute in INHERITED:
            if hasattr(inner, attribute):
                setattr(self, attribute, getattr(inner, attribute))
        if hasattr(inner, "size_option"):
            self.size_option: str = inner.size_option

    def words(self) -> tuple[str, ...]:
        """Return the words that the combinator adds in brief style."""
        return ()

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of observations and replies in brief style."""
        return tuple(sorted({*self.inner.vocabulary(), *self.words()}))

    def start_of(self, play: Any) -> Any:
        """Return the initial state of the first play."""
        return self.inner.start_of(play.first_play)

    def starts(self) -> frozenset[Any] | None:
        """Return the initial states of the wrapped environment's bank."""
        starts: frozenset[Any] | None = self.inner.starts()
        return starts

    def other_bank(self) -> dict[str, Any] | None:
        """Return options that make the same environment with another bank."""
        inner_options = self.inner.other_bank() if hasattr(self.inner, "other_bank") else None
        if inner_options is None or self.made_by is None:
            return None
        options, name = self.made_by["options"], self.inner.made_by["name"]
        return {**options, "environment": {"name": name, "options": inner_options}}


class CombinedPlay(PaintedPlay):
    """Base of plays that wrap a play of the wrapped environment.

    Attributes:
        rules: the combined environment.
        play: the current play of the wrapped environment.
        first_play: the first play of the wrapped environment.
        news: seat -> text that is put before its next observation.
    """

    def __init__(self, rules: Any, play: Any) -> None:
        self.rules, self.play, self.first_play = rules, play, play
        self.news: dict[int, str] = {}
        self.has_open_play = True

    @property
    def done(self) -> bool:
        """Whether the play is over."""
        is_over: bool = self.play.done
        return is_over

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far."""
        return tuple(self.play.returns)

    def inner_seat(self, seat: int) -> int:
        """Return the seat of the current play for which a seat acts; here the seat itself."""
        return seat

    def due(self) -> tuple[int, ...]:
        """Return the seats that are due in the current play."""
        return tuple(self.play.due())

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the legal actions of a seat."""
        actions: tuple[str, ...] | None = self.play.legal(seat)
        return actions

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply, as the current play parses it."""
        return read_reply(self.play, seat, self.legal(seat), reply, exact or self.rules.brief)

    def inner_actions(self, seat: int, legal: tuple[str, ...]) -> tuple[str, ...]:
        """Return the action of the current play that each reply in ``legal`` means."""
        return actions_meant(self.play, seat, legal)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply drawn at random."""
        return random_reply(self.play, seat, self.legal(seat), stream)

    def observe(self, seat: int) -> Observation:
        """Return the current play's observation, with the seat's news before it."""
        observation: Observation = self.play.observe(seat)
        return with_news(observation, self.news.get(seat, ""), self.rules.brief)

    def key_parts(self, replies: Mapping[int, str]) -> dict[int, str]:
        """Return seat -> information state and reply, as text for the keys of later plays."""
        return {seat: f"{self.play.observe(seat).key} {reply}|" for seat, reply in replies.items()}

    def step(self, replies: Mapping[int, str]) -> None:
        """Apply replies to the current play."""
        self.play.step(replies)
        for seat in replies:
            self.news.pop(seat, None)

    def ending(self, seat: int) -> str:
        """Return the final news of a seat."""
        return ending_of(self.play, seat)

    def shown(self, seat: int) -> str:
        """Return the information that the rules reveal to a seat at the end."""
        return shown_of(self.play, seat, brief=False)

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the current play."""
        canvas.inset(draw_play(self.play, self.rules.roles, seat, canvas.theme))

    def described(self, seat: int | None) -> str:
        """Return the position of the current play in words."""
        return describe_play(self.play, self.rules.roles, seat)

    def copy_inner(self) -> Any:
        """Return a copy of the current play.

        Raises:
            GameError: the play cannot be copied.
        """
        if not hasattr(self.play, "clone"):
            raise GameError(
                f"{self.rules.name}: its plays cannot be copied, as plays of "
                f"{self.rules.inner.name} cannot; write a method clone for plays of "
                f"{self.rules.inner.name}."
            )
        return self.play.clone()

    def close(self) -> None:
        """Close the current play; earlier plays were closed when they were over."""
        if self.has_open_play:
            close_play(self.play)

    def begin_another(self, stream: Stream) -> None:
        """Close the finished play, and begin another play in its place."""
        self.has_open_play = False  # if ``reset`` fails, ``close`` has nothing to close
        close_play(self.play)
        self.play = self.rules.inner.reset(stream)
        self.has_open_play = True

    def clone(self) -> Any:
        """Return an independent copy."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.play, copy.news = self.copy_inner(), dict(self.news)
        return copy


def innermost_play(play: Play) -> Any:
    """Return the innermost play of combinators, or the play itself."""
    while isinstance(play, CombinedPlay):
        play = play.play
    return play


def innermost_seat(play: Play, seat: int) -> tuple[Any, int]:
    """Return the innermost play, and the seat of that play for which ``seat`` acts."""
    inner: Any = play
    while isinstance(inner, CombinedPlay):
        inner, seat = inner.play, inner.inner_seat(seat)
    return inner, seat


def with_news(observation: Observation, news: str, brief: bool) -> Observation:
    """Return an observation whose prompt begins with the news."""
    if not news:
        return observation
    separator = " " if brief else "\n\n"
    prompt = f"{news}{separator}{observation.prompt}" if observation.prompt else news
    return observation._replace(prompt=prompt)


def ending_of(play: Play, seat: int) -> str:
    """Return the final news of a seat, or "" if the play has none."""
    return play.ending(seat) if isinstance(play, HasEnding) else ""


def shown_of(play: Play, seat: int, brief: bool) -> str:
    """Return the information that the rules reveal to a seat at the end, such as cards, or ""."""
    text = play.shown(seat) if isinstance(play, HasShowdown) else ""
    return f"{REVEALED_WORD} {text}" if brief and text else text


def join_texts(parts: Sequence[str], brief: bool) -> str:
    """Join texts with blanks in brief style, or as paragraphs in full style."""
    return (" " if brief else "\n\n").join(part for part in parts if part)
