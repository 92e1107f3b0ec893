"""The protocols ``Environment`` (rules and wording) and ``Play`` (one live episode in text).

A play names the seats that are due: the seats that reply next. The play gives each due seat its new
observation, and applies the replies. Several seats may be due at once (simultaneous moves). A seat
chooses from a finite list of actions, or replies with any text.

Every optional capability is a small protocol in this file: a class with the methods has the
capability. ``Searchable`` environments, such as OpenSpiel games, have a tree for exact solvers.
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

SPIRAL_OFFENDER, SPIRAL_OTHERS = -1.5, 0.5  # payoffs in the code of SPIRAL's authors
MARS_FINE = 10.0  # the code of MARS's authors charges the stake and 10 more


class HasUtilities(Protocol):
    """The payoff attributes of an environment; see ``Environment``."""

    name: str
    num_seats: int
    min_utility: float
    utility_sum: float | None
    cooperative: bool


class HasReturns(Protocol):
    """A play with payoffs so far."""

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far, [num_seats], cumulative."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IllegalRule:
    """The rule for illegal and unparsable replies, and the payoff of a forfeit.

    ``rule``: "forfeit" ends the episode; "retry" asks again up to ``retries`` times and then plays
    a random legal action; "random" plays a random legal action at once. Under every rule the seat
    that made such a reply, the offender, loses ``penalty``, as the reward component "illegal". If
    the episode continues, the penalty is a bounded shaping reward: a win with illegal replies stays
    better than a draw without them (``reorder_outcomes`` lifts the bound). ``payoff`` is the payoff
    rule of a forfeit:

    - "zero_sum": the offender gets the least utility, and the other seats share the remaining part
      of the sum. In a cooperative environment every seat gets the least utility. In a general-sum
      environment the other seats keep their payoffs so far.
    - "offender_only": the offender gets the least utility, the others 0.
    - "spiral": -1.5 for the offender, +0.5 for each other seat (as SPIRAL's code does).
    - "mars": minus the offender's stake minus 10, the others 0 (as MARS's code does).
    """

    rule: Rule = "forfeit"
    penalty: float = 0.0
    retries: int = 2
    payoff: Payoff = "zero_sum"

    def __post_init__(self) -> None:
        for field, choices in (("rule", Rule), ("payoff", Payoff)):
            if getattr(self, field) not in get_args(choices):
                raise UnknownNameError(
                    f"value of illegal.{field}", str(getattr(self, field)), get_args(choices)
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
            UnknownNameError: there is no such option, rule or payoff.
            ConfigError: a number out of range.
        """
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                raise UnknownNameError("option of illegal", name, names)
        return cls(**options)

    def check(self, game: HasUtilities) -> None:
        """Check that the environment has the utilities that this rule needs.

        Raises:
            GameError: a forfeit pays the least utility, and the environment has none.
        """
        if self.rule != "forfeit" or self.payoff in ("spiral", "mars"):
            return
        if not math.isfinite(game.min_utility):
            raise GameError(
                f"Environment {game.name!r} has no min_utility, which a forfeit pays; write "
                "min_utility = -1.0 (its least return), or illegal: {rule: retry}."
            )

    def forfeit_returns(
        self, game: HasUtilities, state: HasReturns, offender: int
    ) -> tuple[float, ...]:
        """Return the final returns, [num_seats], when ``offender`` forfeits in ``state``."""
        if self.payoff == "spiral":
            offender_payoff, other_payoff = SPIRAL_OFFENDER, SPIRAL_OTHERS
        elif self.payoff == "mars":
            stake_of = getattr(game, "stake", None)  # some environments have a number, not a method
            stake = stake_of(state, offender) if callable(stake_of) else 1.0
            offender_payoff, other_payoff = -stake - MARS_FINE, 0.0
        elif self.payoff == "offender_only":
            offender_payoff, other_payoff = game.min_utility, 0.0
        else:
            return _zero_sum_returns(game, state, offender)
        return tuple(
            offender_payoff if seat == offender else other_payoff for seat in range(game.num_seats)
        )


def _zero_sum_returns(game: HasUtilities, state: HasReturns, offender: int) -> tuple[float, ...]:
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

ConversationEnd = Literal["answered", "turns", "malformed", "limit"]
"""How the conversation of a seat ended.

"answered": the seat ended it, or finished its task. "turns": the seat had no turns left.
"malformed": the seat's last reply was unparsable. "limit": a limit of the environment ended it.
"""


class Play(Protocol):
    """One live episode of an environment.

    Attributes:
        done: whether the episode is over.
        returns: payoffs so far, [num_seats], cumulative.
    """

    @property
    def done(self) -> bool:
        """Whether the episode is over."""

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far, [num_seats], cumulative."""

    def due(self) -> tuple[int, ...]:
        """Return the seats whose replies are due now, ascending; () when the episode is over."""

    def observe(self, seat: int) -> Observation:
        """Return the new observation of a seat, the same until its reply is applied."""

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the finite list of a seat's legal actions, or None if any text is legal."""

    def step(self, replies: Mapping[int, str]) -> None:
        """Apply one reply of each seat that is due: a legal action, or any text."""


class Environment(Protocol):
    """Constant rules, roles and wording, from which each episode makes a play.

    Only ``roles``, ``max_turns`` and ``reset`` are required: ``make_game`` sets every other missing
    attribute to the default below.

    Attributes:
        name: name in metrics and records.
        roles: name of each seat, [num_seats].
        num_seats: number of seats.
        max_turns: largest number of replies of all seats together in one episode.
        min_utility: the least return of a seat.
        max_utility: the greatest return of a seat.
        utility_sum: sum of the returns of all seats; None: the sum varies.
        zero_sum: whether the sum of the returns is 0.
        cooperative: whether all seats get the same return.
        teams: [num_seats] a name or number per seat, equal for seats that win together. None:
            every seat plays for itself, or all together if ``cooperative`` is true.
        style: "brief" or "full" wording.
        brief: whether the wording uses only the words of ``HasVocabulary.vocabulary``.
        notes: whether seats can write notes for a memory.
        figures: names of the figures that its plays report; see ``HasFigures``.
        version: version of rules and wording; a record of another version cannot be replayed.
        illegal: the rule for illegal replies.
        made_by: name and options for ``make_game``; None: it was made without ``make_game``.
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
        """Return a new play that draws all its chance from ``stream``."""


@runtime_checkable
class Cloneable(Protocol):
    """A play that can be copied; oracles, candidates and searches continue from the copy."""

    def clone(self) -> Self:
        """Return an independent copy that would go on in the same way."""


class CloneablePlay(Play, Cloneable, Protocol):
    """A play that can be copied, so that a search can visit all plays of an environment."""


@runtime_checkable
class Closeable(Protocol):
    """A play with a resource to release, such as a session of a server or a process."""

    def close(self) -> None:
        """Release the resource.

        The caller of ``reset`` or ``clone`` calls this once for each play that it got, when the
        play is over, forfeited, truncated, failed, interrupted or no longer needed. Afterwards only
        ``done`` and ``returns`` are read.
        """


@runtime_checkable
class HasConversationEnd(Protocol):
    """A play that knows how the conversations of its seats end."""

    def conversation_end(self, seat: int) -> ConversationEnd | None:
        """Return how a seat's latest conversation ended; None: not ended, or unknown."""


@runtime_checkable
class ReplyReader(Protocol):
    """A play that parses replies itself."""

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply, legal or not; None: unparsable.

        Args:
            seat: the seat that replied.
            reply: its text.
            exact: whether the reply must be the action and nothing else.
        """


@runtime_checkable
class HasRandomReply(Protocol):
    """A play that can draw a random reply for a seat that is due."""

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply of the required form, drawn from ``stream``."""


@runtime_checkable
class HasFigures(Protocol):
    """A play that reports numbers about itself, named by the environment's ``figures``."""

    def figures(self) -> Mapping[str, tuple[float, ...]]:
        """Return the figures of a play that is over.

        Returns:
            [num_seats] numbers by name; means leave out seats with nan.
        """


@runtime_checkable
class HasCounterfactual(Protocol):
    """A play that can compute its return without the contributions of some seats."""

    def parts(self) -> tuple[int, ...]:
        """Return the seats that contribute, in order."""

    def worth(self, seats: Collection[int]) -> float:
        """Return the payoff that the play would have if only these seats had contributed."""

    def own_share(self, seat: int) -> float:
        """Return the completed share of a contributing seat's task."""


@runtime_checkable
class Redealable(Protocol):
    """A play whose remaining chance can be drawn from another stream."""

    def redeal(self, stream: Stream) -> None:
        """Draw all remaining chance from another stream."""


@runtime_checkable
class Drawable(Protocol):
    """A play that draws its position as a picture, as one seat sees it or with nothing hidden.

    The picture and the description for a seat contain only what the seat knows: they are equal in
    two plays with equal observations of the seat.
    """

    def draw(self, seat: int | None, theme: Theme = "light") -> str:
        """Return the position as a self-contained SVG.

        Args:
            seat: the seat that looks; None: nothing is hidden.
            theme: "light" or "dark".
        """

    def described(self, seat: int | None) -> str:
        """Return the position in one or two sentences; seat None: nothing is hidden."""


@runtime_checkable
class HasOverview(Protocol):
    """A play that can repeat everything for a seat."""

    def overview(self, seat: int) -> Observation:
        """Return everything that a seat may know, from the start on."""


@runtime_checkable
class HasEnding(Protocol):
    """A play that tells its seats the result."""

    def ending(self, seat: int) -> str:
        """Return a seat's last prompt, at the end of the play."""


@runtime_checkable
class HasShowdown(Protocol):
    """A play that reveals something to seats at the end, such as cards."""

    def shown(self, seat: int) -> str:
        """Return the information that the rules reveal to a seat after the ``ending``."""


@runtime_checkable
class HasVocabulary(Protocol):
    """An environment with a closed vocabulary in brief style."""

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of observations and replies in brief style."""


@runtime_checkable
class HasStarts(Protocol):
    """An environment with identifiable initial states."""

    def start_of(self, play: Play, /) -> Hashable:
        """Return the identity of a play's initial state."""

    def starts(self) -> frozenset[Hashable] | None:
        """Return all initial states of the bank; None: there is no bank."""


@runtime_checkable
class HasOtherBank(Protocol):
    """An environment whose initial states come from one of several banks."""

    def other_bank(self) -> dict[str, Any] | None:
        """Return options that make the environment with another bank; None: only one bank."""


@runtime_checkable
class HasOpenings(Protocol):
    """An environment with ``Cloneable`` plays, finite actions, and chance only at the start."""

    def openings(self) -> Sequence[tuple[float, Any]]:
        """Return every possible initial play as (probability, play)."""


@runtime_checkable
class Combination(Protocol):
    """An environment that wraps another one."""

    inner: Environment


@runtime_checkable
class HasLeads(Protocol):
    """An environment in which some seats lead the other seats."""

    def leads(self, seat: int, /) -> bool:
        """Return whether a seat is responsible for the result of the play."""


@runtime_checkable
class HasPlayerNames(Protocol):
    """An environment that gives names to its players."""

    player_names: tuple[str, ...]


@runtime_checkable
class HasCorrection(Protocol):
    """An environment with its own error notice after an illegal reply."""

    def correction(self, play: Any, action: str | None, played: str | None = None, /) -> str:
        """Return the error notice; ``played``: the random action that replaced the reply."""


@runtime_checkable
class PartnerPlay(Protocol):
    """A play with a scripted partner; the player ``house`` replies as this partner."""

    def house(self, seat: int, stream: Stream) -> str:
        """Return the partner's reply in a seat that is due."""


class Node(Protocol):
    """An immutable history of a game, with nothing hidden; each action leads to a child.

    ``str(node)`` is the printed position, equal for histories that lead to the same position.
    """

    def is_terminal(self) -> bool:
        """Return whether the game is over."""

    def is_chance_node(self) -> bool:
        """Return whether chance moves next."""

    def current_player(self) -> int:
        """Return the seat to act; a number below 0 if no seat acts."""

    def legal_actions(self) -> list[int]:
        """Return the ids of the legal actions or of the chance outcomes, ascending."""

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return the chance outcomes as (id, probability)."""

    def child(self, index: int, /) -> Node:
        """Return the history after an action or a chance outcome."""

    def returns(self) -> list[float]:
        """Return the payoffs so far, [num_seats]."""

    def information_state_string(self, seat: int, /) -> str:
        """Return the information state of a seat, if ``GameRules.has_info_states``."""


class Decision(Protocol):
    """A history as the seat to move sees it."""

    @property
    def node(self) -> Node:
        """The history, which other decisions may share."""

    @property
    def seat(self) -> int:
        """The seat to move."""

    @property
    def plies(self) -> int:
        """Number of seats' actions so far."""

    def observe(self, seat: int, since: int, /) -> Observation:
        """Return the observation of a seat: the events from ply ``since`` on; 0: everything."""

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions, as words."""

    def action_index(self, action: str, /) -> int:
        """Return the id of a legal action."""


class GameRules(Protocol):
    """Rules with a tree of histories that exact solvers can walk."""

    name: str
    num_seats: int

    @property
    def rules_key(self) -> str:
        """Rules and options as text; games with equal text have equal trees."""

    @property
    def perfect_information(self) -> bool:
        """Whether every seat sees everything."""

    @property
    def has_info_states(self) -> bool:
        """Whether nodes have information states."""

    def first_node(self) -> Node:
        """Return the empty history."""

    def state_of(self, node: Any, /) -> Decision:
        """Return a history as the seat to move sees it."""


class EnvironmentPlay(Play, Protocol):
    """A play that names its environment."""

    @property
    def game(self) -> Environment:
        """The environment."""


class SearchablePlay(EnvironmentPlay, Decision, Protocol):
    """A play in which one seat acts at a time, with actions as words or ids, and a history node.

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
        """The current table, in games made of tables (``openspiel/table.py``)."""

    def observe(self, seat: int, since: int | None = None) -> Observation:
        """Return the observation of a seat; see ``openspiel.base.State.observe``."""

    def overview(self, seat: int) -> Observation:
        """Return everything that a seat may know, from the start on."""

    def legal_indices(self) -> list[int]:
        """Return the ids of the legal actions, in the order of ``legal_actions``."""

    def apply(self, action: str) -> None:
        """Play an action word for the seat to act."""

    def apply_index(self, index: int) -> None:
        """Play an action id, or the id of a chance outcome if chance moves next."""

    def parse(self, reply: str, exact: bool = False) -> str | None:
        """Return the action word in a reply, legal or not; None: unparsable."""

    def redeal(self, stream: Stream) -> None:
        """Draw all remaining chance from another stream."""

    def clone(self) -> SearchablePlay:
        """Return an independent copy that would go on in the same way."""


class Searchable(Environment, GameRules, HasStarts, HasOtherBank, HasVocabulary, Protocol):
    """An environment with a tree that solvers can walk: a game over OpenSpiel.

    Attributes:
        words: the word of each action id; empty where words depend on the position.
    """

    words: tuple[str, ...]

    @property
    def rules_name(self) -> str:
        """Name of the rules, without options."""

    @property
    def first_table(self) -> Any:
        """The table of the initial state, in games made of tables."""

    def reset(self, stream: Stream) -> SearchablePlay:
        """Return a new play that draws all its chance from ``stream``."""

    def state_of(self, node: Any, /) -> SearchablePlay:
        """Return a play at a node; the caller applies chance outcomes by ``apply_index``."""

    def first_state(self) -> SearchablePlay:
        """Return a play at the empty history; the caller applies its chance outcomes."""

    def key(self, state: Play, seat: int) -> str:
        """Return the information state of a seat in a play, as text."""

    def word_of(self, state: Play, player: int, index: int) -> str:
        """Return the word of an action id in a play."""


def is_searchable(environment: object) -> TypeGuard[Searchable]:
    """Return whether an environment has a tree that solvers can walk."""
    cls: Any = type(environment)
    return _has_attributes(cls, "first_node", "reset")


def is_searchable_play(play: object) -> TypeGuard[SearchablePlay]:
    """Return whether a play belongs to a searchable environment."""
    cls: Any = type(play)
    return _has_attributes(cls, "apply_index", "step")


@cache
def _has_attributes(cls: Hashable, *names: str) -> bool:
    return all(hasattr(cls, name) for name in names)


def close_play(play: object) -> None:
    """Close a play if it is ``Closeable``, and log any exception that it raises."""
    close = getattr(play, "close", None)
    if close is None:
        return
    try:
        close()
    except Exception as error:
        log.warning("A play of %s could not be closed: %r", type(play).__module__, error)


@contextmanager
def temporary_play(environment: Environment, stream: Stream) -> Iterator[Any]:
    """Yield a new play of an environment, and close it on leaving."""
    play = environment.reset(stream)
    try:
        yield play
    finally:
        close_play(play)


def read_reply(
    play: Play, seat: int, legal: tuple[str, ...] | None, reply: str, exact: bool
) -> str | None:
    """Return the action in a seat's reply, legal or not; None: unparsable.

    Args:
        play: a ``ReplyReader`` parses the reply itself.
        seat: the seat that replied.
        legal: its legal actions; None: any text is an action, unchanged.
        reply: its text.
        exact: whether the reply must be the action and nothing else.
    """
    reader = getattr(play, "read", None)
    if reader is not None:
        action: str | None = reader(seat, reply, exact)
        return action
    return reply if legal is None else listed_reply(legal, reply, exact)


def random_reply(play: Play, seat: int, legal: tuple[str, ...] | None, stream: Stream) -> str:
    """Return a uniformly random legal action, or a text from the play's method ``sample``.

    Args:
        play: must be ``HasRandomReply`` if any text is legal.
        seat: the seat to reply.
        legal: its legal actions; None: any text.
        stream: the source of the draw.

    Raises:
        GameError: any text is legal, and the play has no ``sample`` that returns a text.
    """
    if legal is not None:
        return legal[stream.integer(0, len(legal))]
    if not isinstance(play, HasRandomReply):
        raise GameError(
            f"{type(play).__name__} in {type(play).__module__} takes any text and cannot draw a "
            "random reply; write a method sample(seat, stream) that returns a reply of the "
            "required form, or write warmup.updates=0 and use no random player."
        )
    reply = play.sample(seat, stream)
    if not isinstance(reply, str):
        raise GameError(
            f"{type(play).__name__} in {type(play).__module__}: sample({seat}) returned "
            f"{quoted(reply)}; return the reply as a text."
        )
    return reply


def random_replies(play: Play, stream: Stream) -> dict[int, str]:
    """Return a random reply of each due seat, by seat.

    Args:
        play: a play that is not over.
        stream: seat n draws from its child n.

    Raises:
        GameError: as for ``random_reply``.
    """
    return {
        seat: random_reply(play, seat, play.legal(seat), stream.child(seat)) for seat in play.due()
    }


def teams_of(environment: Environment) -> tuple[int, ...]:
    """Return the team number of each seat, [num_seats], from 0.

    Without ``teams`` every seat is a team; in a cooperative environment all seats are one team.

    Raises:
        GameError: ``teams`` does not name one team per seat.
    """
    teams = environment.teams
    if teams is None:
        num_seats = environment.num_seats
        return (0,) * num_seats if environment.cooperative else tuple(range(num_seats))
    if isinstance(teams, str) or len(teams) != environment.num_seats:
        raise GameError(
            f"{environment.name}: teams={quoted(teams)} must name a team for each of its "
            f"{environment.num_seats} seats; write one per seat, such as (0, 1, 0, 1)."
        )
    numbers = {team: number for number, team in enumerate(dict.fromkeys(teams))}
    return tuple(numbers[team] for team in teams)


@lru_cache(maxsize=1024)
def seats_by_team(teams: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the seats of each team, in order of the teams' first seats."""
    seats: dict[int, list[int]] = {}
    for seat, team in enumerate(teams):
        seats.setdefault(team, []).append(seat)
    return tuple(map(tuple, seats.values()))


def first_seats(teams: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first seat of the player in each seat, [num_seats]."""
    first_seat_of = {seat: side[0] for side in seats_by_player(teams) for seat in side}
    return tuple(first_seat_of[seat] for seat in range(len(teams)))


def side_numbers(teams: tuple[int, ...]) -> tuple[int, ...]:
    """Return the player's number of each seat, [num_seats]; seats with one player are a side."""
    sides = seats_by_player(teams)
    side_number = {seat: number for number, side in enumerate(sides) for seat in side}
    return tuple(side_number[seat] for seat in range(len(teams)))


def seats_by_player(teams: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the seats of each player: a team, or a single seat if all seats are one team."""
    sides = seats_by_team(teams)
    return sides if len(sides) > 1 else tuple((seat,) for seat in range(len(teams)))


TYPE_NAMES: Mapping[type, str] = {str: "text", Mapping: "mapping", int: "whole number"}
SPEC_ATTRIBUTE = "_spec_of"  # a game keeps the pair (key, spec) in this attribute


def spec_of(game: Environment) -> EnvironmentSpec | None:
    """Return the spec from which ``make_game`` rebuilds a game; None: it was made otherwise."""
    made_by = game.made_by
    if made_by is None:
        return None
    key = (id(made_by), game.illegal, game.name)
    cache_entry = vars(game).get(SPEC_ATTRIBUTE) if hasattr(game, "__dict__") else None
    if cache_entry is not None and cache_entry[0] == key:
        spec: EnvironmentSpec = cache_entry[1]
        return spec
    name = str(made_by["name"])
    spec = EnvironmentSpec(
        name=name,
        options=to_json_data(made_by["options"]),
        illegal=asdict(game.illegal),
        label="" if game.name == name else str(game.name),
        version=version_of(game),
    )
    if hasattr(game, "__dict__"):
        vars(game)[SPEC_ATTRIBUTE] = (key, spec)
    return spec


def check_spec(spec: EnvironmentSpec) -> None:
    """Check the fields of a spec, which may come from a file.

    Raises:
        ConfigError: a field has the wrong type.
    """
    types = {"name": str, "options": Mapping, "illegal": Mapping, "label": str, "version": int}
    for field, field_type in types.items():
        value = getattr(spec, field)
        if not isinstance(value, field_type) or isinstance(value, bool):
            raise ConfigError(
                f"EnvironmentSpec.{field}={quoted(value)} is not a {TYPE_NAMES[field_type]}; take "
                "it from an episode, or write one."
            )
    try:
        _ = spec.label and check_label(spec.label)
    except ValueError as error:
        raise ConfigError(
            f"EnvironmentSpec.label={quoted(spec.label)} is not a label: {error}."
        ) from None


def version_of(game: Environment) -> int:
    """Return the version of a game's rules and wording; 1 if it is not a whole number."""
    return game.version if type(game.version) is int else 1


def to_json_data(value: Any) -> Any:
    """Return a value as JSON would store it: tuples as lists, keys and unknown types as text."""
    if isinstance(value, Mapping):
        return {str(key): to_json_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_data(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
