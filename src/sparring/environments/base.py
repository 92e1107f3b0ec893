"""What an environment is: rules as a value, and plays of them that tell, ask and answer in text.

An environment has a name, roles and an end; a play of it says whose replies it wants now, what each
seat has not been told yet, and goes on when all of them are in. One seat may be due, or several at
once (simultaneous moves). A seat may choose from a finite list, or say any text.

What an environment or a play can do besides is a small protocol each, in this file: a class has a
capability if it has the methods. ``Searchable`` is an environment whose tree can be walked, as
exact solvers ask; the games over OpenSpiel are (``environments/openspiel``).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from typing import Any, Literal, Protocol, Self, TypeGuard, get_args, runtime_checkable

from sparring.core.errors import ConfigError, GameError, UnknownNameError, quoted
from sparring.core.foreign_text import check_label
from sparring.core.records import EnvironmentSpec, Observation
from sparring.core.rng import Stream
from sparring.environments.reply import listed_reply

Rule = Literal["forfeit", "retry", "random"]
Payoff = Literal["zero_sum", "offender_only", "spiral", "mars"]

SPIRAL_OFFENDER, SPIRAL_OTHERS = -1.5, 0.5  # the constants of the SPIRAL release
MARS_FINE = 10.0  # the MARS release charges the stake and 10 more


class HasUtilities(Protocol):
    """What an environment says of its payoffs; see ``Environment``."""

    name: str
    num_seats: int
    min_utility: float
    utility_sum: float | None
    cooperative: bool


class HasReturns(Protocol):
    """A play, as far as it has paid."""

    @property
    def returns(self) -> tuple[float, ...]:
        """HasUtilities so far, [num_seats], cumulative."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class IllegalRule:
    """What happens at a reply that is no legal action, and what a forfeiture pays.

    ``rule``: "forfeit" ends the game; "retry" asks again up to ``retries`` times and then plays a
    random legal action; "random" plays a random legal action at once. ``penalty`` is subtracted
    from the offender at every such reply, as the reward component "illegal", under every rule;
    where the game goes on it is shaping, and bounded as such, so that a win with illegal replies
    stays better than a clean draw (``reorder_outcomes`` lifts that). ``payoff`` says what a
    forfeiture pays:

    - "zero_sum": the offender gets the game's least utility and the other seats share the rest of
      the game's sum; in a cooperative game every seat gets the least utility; in a general-sum game
      the others keep what they have.
    - "offender_only": the offender gets the least utility, the others 0.
    - "spiral": -1.5 for the offender, +0.5 for each other seat (as SPIRAL's code does).
    - "mars": minus the offender's stake minus 10, the others 0 (as MARS's code does).
    """

    rule: Rule = "forfeit"
    penalty: float = 0.0
    retries: int = 2
    payoff: Payoff = "zero_sum"

    def __post_init__(self) -> None:
        for field, kind in (("rule", Rule), ("payoff", Payoff)):
            if getattr(self, field) not in get_args(kind):
                raise UnknownNameError(
                    f"value of illegal.{field}", str(getattr(self, field)), get_args(kind)
                )
        for field in ("penalty", "retries"):
            value = getattr(self, field)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 <= value < float("inf")
            ):
                raise ConfigError(
                    f"illegal.{field}={quoted(value)} must be a finite number, at least 0; write "
                    f"illegal.{field}=1."
                )
        if not isinstance(self.retries, int):
            raise ConfigError(
                f"illegal.retries={quoted(self.retries)} must be a whole number; write "
                "illegal.retries=2."
            )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> IllegalRule:
        """Return the rule that a configuration mapping describes.

        Raises:
            UnknownNameError: an option, a rule or a payoff that does not exist.
            ConfigError: a number out of range.
        """
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise UnknownNameError("option of illegal", name, known)
        return cls(**options)

    def check(self, game: HasUtilities) -> None:
        """Refuse a rule that asks an environment for what it does not say.

        Raises:
            GameError: a forfeit pays the least utility, and the environment names none.
        """
        if self.rule != "forfeit" or self.payoff in ("spiral", "mars"):
            return
        if not math.isfinite(game.min_utility):
            raise GameError(
                f"Environment {game.name!r} does not say what a seat can lose, which is what a "
                "forfeit costs; give it min_utility = -1.0 (its least return), or write "
                "illegal: {rule: retry}."
            )

    def forfeit_returns(
        self, game: HasUtilities, state: HasReturns, offender: int
    ) -> tuple[float, ...]:
        """Return the final returns, [num_seats], when ``offender`` forfeits in ``state``."""
        if self.payoff == "spiral":
            mine, others = SPIRAL_OFFENDER, SPIRAL_OTHERS
        elif self.payoff == "mars":
            staked = getattr(game, "stake", None)  # an option's number in some environments
            stake = staked(state, offender) if callable(staked) else 1.0
            mine, others = -stake - MARS_FINE, 0.0
        elif self.payoff == "offender_only":
            mine, others = game.min_utility, 0.0
        else:
            return _zero_sum(game, state, offender)
        return tuple(mine if seat == offender else others for seat in range(game.num_seats))


def _zero_sum(game: HasUtilities, state: HasReturns, offender: int) -> tuple[float, ...]:
    """Return the returns of a forfeiture.

    They keep the sum of the game's utilities where the game has one.
    """
    if game.cooperative:
        return (game.min_utility,) * game.num_seats
    if game.utility_sum is None:
        return tuple(
            game.min_utility if seat == offender else value
            for seat, value in enumerate(state.returns)
        )
    share = (game.utility_sum - game.min_utility) / max(game.num_seats - 1, 1)
    return tuple(game.min_utility if seat == offender else share for seat in range(game.num_seats))


log = logging.getLogger(__name__)

Theme = Literal["light", "dark"]
"""Colours of pictures."""

Closed = Literal["answered", "turns", "malformed", "limit"]
"""What an environment says of a conversation that is over.

"answered": its seat ended it, or had done all it was asked for. "turns": it had no turns left.
"malformed": what it ended with could not be read. "limit": the environment ended it at its work.
"""


class Play(Protocol):
    """One live course of an environment.

    Attributes:
        done: whether it is over.
        returns: payoffs so far, [num_seats], cumulative.
    """

    @property
    def done(self) -> bool:
        """Whether it is over."""
        ...

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far, [num_seats], cumulative."""
        ...

    def due(self) -> tuple[int, ...]:
        """Return the seats whose replies are wanted now, ascending; none when it is over."""
        ...

    def observe(self, seat: int) -> Observation:
        """Return what a seat has not been told yet, and the question that it is to answer.

        It is the same until the seat has replied and the play has gone on.
        """
        ...

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the finite list of a seat's actions, or None: any text is one."""
        ...

    def step(self, replies: Mapping[int, str]) -> None:
        """Go on with the replies of all seats that are due: a legal action each, or a text."""
        ...


class Environment(Protocol):
    """Rules, roles and wording; what never changes.

    Only ``roles``, ``max_turns`` and ``reset`` must be written: ``make_game`` sets what else is
    missing to the values that stand here.

    Attributes:
        name: under which metrics and records know it.
        roles: name of each seat, [num_seats].
        num_seats: how many.
        max_turns: most replies of all seats together that a play takes.
        min_utility: the least return of a seat.
        max_utility: the greatest.
        utility_sum: what the returns of all seats sum to; None: not always the same.
        zero_sum: whether it is 0.
        cooperative: whether all seats get the same return.
        teams: [num_seats] which seats win together: those of one name or number. None: every seat
            plays for itself, or all together where ``cooperative`` is true.
        style: "brief" or "full" wording.
        brief: whether it is brief: made of the words of ``HasVocabulary``.
        notes: whether it has a place for the notes of a memory.
        figures: names of what its plays count, see ``Counting``.
        version: of rules and wording; a record of another one is not played again.
        illegal: what an illegal reply costs.
        made_by: name and options that ``make_game`` made it from; None: it was made otherwise.
    """

    name: str
    roles: tuple[str, ...]
    num_seats: int
    max_turns: int
    min_utility: float = -math.inf
    max_utility: float = math.inf
    utility_sum: float | None = None
    zero_sum: bool = False
    cooperative: bool = False
    style: str = "full"
    brief: bool = False
    teams: Sequence[str | int] | None = None
    notes: bool = False
    figures: tuple[str, ...] = ()
    version: int = 1
    illegal: IllegalRule = IllegalRule()
    made_by: dict[str, Any] | None = None

    def reset(self, stream: Stream) -> Play:
        """Return a fresh play, all of whose chance is drawn from ``stream``."""
        ...


@runtime_checkable
class Cloneable(Protocol):
    """A play that can be copied: oracles, candidates and searches go on from the copy."""

    def clone(self) -> Self:
        """Return an independent copy that would go on the same."""
        ...


class CloneablePlay(Play, Cloneable, Protocol):
    """A play that can be copied, as what walks all plays of an environment asks."""


@runtime_checkable
class Closeable(Protocol):
    """A play that holds something to be released, such as a session of a server or a process."""

    def close(self) -> None:
        """Release it.

        Whoever has called ``reset`` or ``clone`` calls this once for the play that came of it, when
        the play is over, forfeited, truncated, failed, interrupted or no longer needed. After it
        the play is not asked to go on; ``done`` and ``returns`` may be read.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """A play whose seats' conversations end by themselves, and that knows how."""

    def closed(self, seat: int) -> Closed | None:
        """Return how a seat's latest conversation has ended; None: it goes on, or is not known."""
        ...


@runtime_checkable
class Reading(Protocol):
    """A play that finds the action in a reply itself."""

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action written in a reply, legal or not; None where there is none.

        ``exact``: nothing but the action will do.
        """
        ...


@runtime_checkable
class Sampling(Protocol):
    """A play that can say something at random for a seat that is due."""

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply that has the form asked for, drawn from ``stream``."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A play that counts things of its own, under the names of its environment's ``figures``."""

    def figures(self) -> Mapping[str, tuple[float, ...]]:
        """Return of a play that is over a number per seat for each name; nan: none of this seat.

        Seats without a number count in no mean.
        """
        ...


@runtime_checkable
class HasCounterfactual(Protocol):
    """A play whose result is made of what some seats did apart, so that it is known without one."""

    def parts(self) -> tuple[int, ...]:
        """Return these seats, in order."""
        ...

    def worth(self, seats: Collection[int]) -> float:
        """Return what the play would have been worth with the work of these seats alone."""
        ...

    def own_share(self, seat: int) -> float:
        """Return how much of what it was asked for one of these seats did."""
        ...


@runtime_checkable
class Redealt(Protocol):
    """A play whose chance can be drawn anew from here on."""

    def redeal(self, stream: Stream) -> None:
        """Draw all chance from here on from another stream."""
        ...


@runtime_checkable
class Drawable(Protocol):
    """A play that shows its position as a picture, as one seat sees it or with nothing hidden.

    A seat's picture and sentence hold nothing that the seat does not know: they are the same in two
    plays that the seat cannot tell apart.
    """

    def draw(self, seat: int | None, theme: Theme = "light") -> str:
        """Return the position as SVG that needs nothing from outside.

        Args:
            seat: who looks; None: a reader from whom nothing is hidden.
            theme: "light" or "dark".
        """
        ...

    def described(self, seat: int | None) -> str:
        """Return a sentence or two that say the position in words, for the same reader."""
        ...


@runtime_checkable
class HasOverview(Protocol):
    """A play that can tell a seat everything anew."""

    def overview(self, seat: int) -> Observation:
        """Return everything that a seat may be told, from the start on."""
        ...


@runtime_checkable
class HasEnding(Protocol):
    """A play that tells its seats how it has ended."""

    def ending(self, seat: int) -> str:
        """Return what a seat has not been told of a play that is over."""
        ...


@runtime_checkable
class HasShowdown(Protocol):
    """A play whose rules show its seats something when it is over, such as cards."""

    def shown(self, seat: int) -> str:
        """Return what the rules show a seat beside the ``ending``."""
        ...


@runtime_checkable
class HasVocabulary(Protocol):
    """An environment whose brief style is made of a closed list of words."""

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word that is told or replied in brief style."""
        ...


@runtime_checkable
class HasStarts(Protocol):
    """An environment that tells its starts apart."""

    def start_of(self, play: Play, /) -> Hashable:
        """Return what tells the start of a play from another."""
        ...

    def starts(self) -> frozenset[Hashable] | None:
        """Return all starts of the bank that chance draws from; None where there is no bank."""
        ...


@runtime_checkable
class HasOtherBank(Protocol):
    """An environment whose starts come from one of several banks."""

    def other_bank(self) -> dict[str, Any] | None:
        """Return options that make the same environment with another bank; None: there is none."""
        ...


@runtime_checkable
class HasOpenings(Protocol):
    """An environment in which nothing is left to chance once a play has begun.

    Its plays are ``Cloneable``, and every seat chooses from a list.
    """

    def openings(self) -> Sequence[tuple[float, Any]]:
        """Return every play that chance can begin with, and its probability."""
        ...


@runtime_checkable
class Combination(Protocol):
    """An environment that is made of another one."""

    inner: Environment


@runtime_checkable
class HasLeads(Protocol):
    """An environment some of whose seats lead the others."""

    def leads(self, seat: int, /) -> bool:
        """Return whether a seat answers for the play."""
        ...


@runtime_checkable
class HasPlayerNames(Protocol):
    """An environment that calls its players by names of their own."""

    called: tuple[str, ...]


@runtime_checkable
class HasCorrection(Protocol):
    """An environment with its own wording of what follows an illegal reply."""

    def correction(self, play: Any, action: str | None, played: str | None = None, /) -> str:
        """Return what a seat is told; ``played``: the random action in place of its reply."""
        ...


@runtime_checkable
class PartnerPlay(Protocol):
    """A play that has a scripted partner of its own."""

    def house(self, seat: int, stream: Stream) -> str:
        """Return what the partner says in a seat that is due."""
        ...


class Node(Protocol):
    """A history of a game, with nothing hidden. It is not to be changed, but left for a child.

    ``str`` of it is the position as it is printed, equal where two histories lead to one position.
    """

    def is_terminal(self) -> bool:
        """Return whether the game is over."""

    def is_chance_node(self) -> bool:
        """Return whether chance is to move."""

    def current_player(self) -> int:
        """Return the seat that is to act, below 0 where none is."""

    def legal_actions(self) -> list[int]:
        """Return the ids of the legal actions, or of what chance can do, ascending."""

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return what chance can do, with its probabilities."""

    def child(self, index: int, /) -> Node:
        """Return the history after an action or a chance outcome."""

    def returns(self) -> list[float]:
        """Return the payoffs so far, [num_seats]."""

    def information_state_string(self, seat: int, /) -> str:
        """Return all that a seat knows, where ``GameRules.has_info_states`` says there is one."""


class Decision(Protocol):
    """A history as the seat sees it that is to move in it."""

    @property
    def node(self) -> Node:
        """The history, shared with others that stand at it."""

    @property
    def seat(self) -> int:
        """The seat that is to move."""

    @property
    def plies(self) -> int:
        """Number of seats' actions so far."""

    def observe(self, seat: int, since: int, /) -> Observation:
        """Return what a seat is to be told: all of it, or what happened from ply ``since`` on."""

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions, as words."""

    def action_index(self, action: str, /) -> int:
        """Return the id of a legal action."""


class GameRules(Protocol):
    """Rules whose every history can be visited, as exact solvers ask."""

    name: str
    num_seats: int

    @property
    def rules_key(self) -> str:
        """Rules and options as text; games with one text have one tree."""

    @property
    def perfect_information(self) -> bool:
        """Whether nothing is hidden from any seat."""

    @property
    def has_info_states(self) -> bool:
        """Whether nodes say what a seat knows."""

    def first_node(self) -> Node:
        """Return the history in which nothing has happened."""

    def state_of(self, node: Any, /) -> Decision:
        """Return a history of these rules as the seat sees it that is to move."""


class EnvironmentPlay(Play, Protocol):
    """A play that names its environment."""

    @property
    def game(self) -> Environment:
        """The environment."""


class SearchablePlay(EnvironmentPlay, Decision, Protocol):
    """A play in which one seat acts at a time, by a word or by its id, and whose history is a node.

    Attributes:
        game: the environment.
        trail: every event so far, chance included.
    """

    @property
    def game(self) -> Searchable:
        """The environment."""

    @property
    def trail(self) -> tuple[Any, ...]:
        """Every event so far, chance included."""

    @property
    def table(self) -> Any:
        """The table it stands at, of games made of tables (``openspiel/table.py``)."""

    def observe(self, seat: int, since: int | None = None) -> Observation:
        """Return what a seat is to be told; see ``openspiel.base.State.observe``."""

    def overview(self, seat: int) -> Observation:
        """Return everything that a seat may be told, from the start on."""

    def legal_indices(self) -> list[int]:
        """Return the ids of the legal actions, in the order of ``legal_actions``."""

    def apply(self, action: str) -> None:
        """Play an action word for the seat to act."""

    def apply_index(self, index: int) -> None:
        """Play an action id, or a chance outcome's where chance is to move."""

    def parse(self, reply: str, exact: bool = False) -> str | None:
        """Return the action word written in a reply, legal or not, or None."""

    def redeal(self, stream: Stream) -> None:
        """Draw all chance from here on from another stream."""

    def clone(self) -> SearchablePlay:
        """Return an independent copy that would go on the same."""


class Searchable(Environment, GameRules, HasStarts, HasOtherBank, HasVocabulary, Protocol):
    """An environment whose tree can be walked: a game over OpenSpiel.

    Attributes:
        words: the word of each action id; empty where words depend on the position.
    """

    words: tuple[str, ...]

    @property
    def rules_name(self) -> str:
        """Name of the rules, without options."""

    @property
    def first_table(self) -> Any:
        """The table that a play begins with, of games made of tables."""

    def reset(self, stream: Stream) -> SearchablePlay:
        """Return a fresh play, all of whose chance is drawn from ``stream``."""

    def state_of(self, node: Any, /) -> SearchablePlay:
        """Return a play that stands at a node; chance outcomes are given to ``apply_index``."""

    def first_state(self) -> SearchablePlay:
        """Return a play in which nothing has happened; chance outcomes are given to it too."""

    def key(self, state: Play, seat: int) -> str:
        """Return all that a seat knows in a play, as text."""

    def word_of(self, state: Play, player: int, index: int) -> str:
        """Return the word of an action id in a play."""


def is_searchable(environment: object) -> TypeGuard[Searchable]:
    """Return whether an environment's tree can be walked."""
    kind: Any = type(environment)
    return _has(kind, "first_node", "reset")


def is_searchable_play(play: object) -> TypeGuard[SearchablePlay]:
    """Return whether a play is one of a searchable environment."""
    kind: Any = type(play)
    return _has(kind, "apply_index", "step")


@cache
def _has(kind: Hashable, *names: str) -> bool:
    return all(hasattr(kind, name) for name in names)


def close_play(play: object) -> None:
    """Close a play if it is ``Closeable``; an exception of its own is logged and passed over."""
    close = getattr(play, "close", None)
    if close is None:
        return
    try:
        close()
    except Exception as error:
        log.warning("A play of %s could not be closed: %r", type(play).__module__, error)


@contextmanager
def temporary_play(environment: Environment, stream: Stream) -> Iterator[Any]:
    """Give a fresh play of an environment, and close it on leaving."""
    play = environment.reset(stream)
    try:
        yield play
    finally:
        close_play(play)


def read_reply(
    play: Play, seat: int, legal: tuple[str, ...] | None, reply: str, exact: bool
) -> str | None:
    """Return the action in a seat's reply, legal or not, or None.

    Args:
        play: it reads replies itself if it is ``Reading``.
        seat: who has replied.
        legal: what it may choose from; None: any text is an action, as it stands.
        reply: what it has said.
        exact: whether nothing but the action will do.
    """
    reader = getattr(play, "read", None)
    if reader is not None:
        action: str | None = reader(seat, reply, exact)
        return action
    return reply if legal is None else listed_reply(legal, reply, exact)


def random_reply(play: Play, seat: int, legal: tuple[str, ...] | None, stream: Stream) -> str:
    """Return a legal action drawn uniformly, or a text that the play itself draws.

    Args:
        play: where any text is allowed it must be ``Sampling``.
        seat: who is to reply.
        legal: what it may choose from; None: any text.
        stream: what is drawn from.

    Raises:
        GameError: any text is allowed, and the play has no method ``sample``, or it gives no text.
    """
    if legal is not None:
        return legal[stream.integer(0, len(legal))]
    if not isinstance(play, Sampling):
        raise GameError(
            f"{type(play).__name__} in {type(play).__module__} takes any text, and nothing can be "
            "said at random in it; give it a method sample(seat, stream) that returns a reply of "
            "the form asked for, or warmup.updates=0 and no random player."
        )
    reply = play.sample(seat, stream)
    if not isinstance(reply, str):
        raise GameError(
            f"{type(play).__name__} in {type(play).__module__}: sample({seat}) gave "
            f"{quoted(reply)}; give a reply as a text."
        )
    return reply


def teams_of(environment: Environment) -> tuple[int, ...]:
    """Return the number of the team of each seat, [num_seats], from 0.

    An environment says it by ``teams``, a name or number per seat. Without that every seat is a
    team of its own, and all are one where the environment is cooperative.

    Raises:
        GameError: ``teams`` has another number of seats.
    """
    teams = environment.teams
    if teams is None:
        seats = environment.num_seats
        alone = not environment.cooperative
        return tuple(range(seats)) if alone else (0,) * seats
    if isinstance(teams, str) or len(teams) != environment.num_seats:
        raise GameError(
            f"{environment.name}: teams={quoted(teams)} must name a team for each of its "
            f"{environment.num_seats} seats; write one per seat, such as (0, 1, 0, 1)."
        )
    numbers = {team: number for number, team in enumerate(dict.fromkeys(teams))}
    return tuple(numbers[team] for team in teams)


@lru_cache(maxsize=1024)
def sides_of(teams: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the seats of each team, in order of the teams' first seats."""
    seats: dict[int, list[int]] = {}
    for seat, team in enumerate(teams):
        seats.setdefault(team, []).append(seat)
    return tuple(map(tuple, seats.values()))


def first_seats(teams: tuple[int, ...]) -> tuple[int, ...]:
    """Return of each seat the first one that the same player fills, [num_seats]."""
    first = {seat: side[0] for side in filled_together(teams) for seat in side}
    return tuple(first[seat] for seat in range(len(teams)))


def side_numbers(teams: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of each seat's side among those that one player fills, [num_seats]."""
    sides = filled_together(teams)
    number = {seat: place for place, side in enumerate(sides) for seat in side}
    return tuple(number[seat] for seat in range(len(teams)))


def filled_together(teams: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the seats that one player fills: those of a team; each by itself where all are one."""
    sides = sides_of(teams)
    return sides if len(sides) > 1 else tuple((seat,) for seat in range(len(teams)))


WORDS: Mapping[type, str] = {str: "text", Mapping: "mapping", int: "whole number"}
KEPT = "_spec_of"  # where a game keeps its spec, and what it was made from


def spec_of(game: Environment) -> EnvironmentSpec | None:
    """Return the value that a game was made from, or None for rules that no name makes.

    The same object at every call.
    """
    made_by = game.made_by
    if made_by is None:
        return None
    key = (id(made_by), game.illegal, game.name)
    known, spec = vars(game).get(KEPT, (None, None)) if hasattr(game, "__dict__") else (None, None)
    if known == key:
        return spec
    name = str(made_by["name"])
    spec = EnvironmentSpec(
        name=name,
        options=plain(made_by["options"]),
        illegal=asdict(game.illegal),
        label="" if game.name == name else str(game.name),
        version=version_of(game),
    )
    if hasattr(game, "__dict__"):
        vars(game)[KEPT] = (key, spec)
    return spec


def check_spec(spec: EnvironmentSpec) -> None:
    """Check the fields of a spec, which may come from a file.

    Raises:
        ConfigError: one of them is of the wrong kind.
    """
    kinds = {"name": str, "options": Mapping, "illegal": Mapping, "label": str, "version": int}
    for field, kind in kinds.items():
        value = getattr(spec, field)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ConfigError(
                f"EnvironmentSpec.{field}={quoted(value)} is no {WORDS[kind]}; take it from an "
                "episode, or write one."
            )
    try:
        _ = spec.label and check_label(spec.label)
    except ValueError as error:
        raise ConfigError(
            f"EnvironmentSpec.label={quoted(spec.label)} is no label: {error}."
        ) from None


def version_of(game: Environment) -> int:
    """Return the version of a game's rules and wording; 1 where it is no whole number."""
    return game.version if type(game.version) is int else 1


def plain(value: Any) -> Any:
    """Return a value as JSON gives it back.

    Tuples as lists, keys as texts, and what JSON has no form for as text.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
