"""Initial states that a policy is measured on: those that training never met, and those it met.

An initial state is what chance settles before the first decision: a puzzle of a bank, a deal of
cards. Training meets only some where a game draws from a bank, or where ``rollout.starts`` fixes
the deals; a policy can then learn them by heart, which is no skill.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sparring.config import RunConfig
from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.bank import is_banked
from sparring.environments.base import Environment, HasStarts, temporary_play
from sparring.environments.catalogue import another_bank, like
from sparring.environments.foreign import environment_call
from sparring.environments.openspiel.banks import BANK_OPTIONS

Label = Literal["unseen", "seen", "all"]

PROBES = 400  # deals by which the share of a game's starts that training met is told
LEAST = 0.05  # of them at least must be unseen, or be seen, for games to be played on these alone
TRIES = 5000  # deals that are drawn until one is as asked for
WORDING = ("style", "outcome")  # options of a game that leave its starts as they are


@dataclass(frozen=True, kw_only=True, slots=True)
class Starts:
    """Starts to play from, and what they are to the policy that is measured.

    Args:
        label: "unseen": training met none of them; "seen": it met them all; "all": training draws
            from every start that there is, or from nearly every one, so that there are no others.
        game: the game, with the bank to draw from.
        known: starts that training met.
        inside: whether the starts played must be known (True) or must not be (False); None: as they
            are drawn.
        deals: the fixed deals of training, taken in turn, in place of drawing.
    """

    label: Label
    game: Environment
    known: frozenset[Hashable] = frozenset()
    inside: bool | None = None
    deals: tuple[Stream, ...] = ()

    def deal(self, stream: Stream, number: int) -> Stream:
        """Return the deal of game ``number`` whose draws derive from ``stream``.

        The first drawn that is as asked for.

        Raises:
            GameError: none of many deals is.
        """
        own = stream.child("deal")
        if self.deals:
            return self.deals[number % len(self.deals)]
        if self.inside is None:
            return own
        for attempt in range(TRIES):
            deal = own.child(attempt) if attempt else own
            if (_start(self.game, deal) in self.known) == self.inside:
                return deal
        raise GameError(
            f"{self.game.name}: none of {TRIES} deals is {self.label}; give the game a larger bank."
        )


def every(game: Environment) -> Starts:
    """Return the starts of a game as it draws them."""
    return Starts(label="all", game=game)


class SeenInitialStates:
    """The starts that training can meet, warm-up included.

    What is known without looking at what was played.

    Args:
        config: of the run; None: nothing was trained.
        games: the run's, in the order of the configuration, those of weight 0 included.
    """

    def __init__(self, config: RunConfig | None, games: Sequence[Environment] = ()) -> None:
        self.config, self.games = config, list(games)
        weights = [section.weight for section in config.environments] if config is not None else []
        warmed = config is not None and config.warmup.updates > 0
        self.trained = [
            game for game, weight in zip(self.games, weights, strict=True) if weight or warmed
        ]
        self._banks: dict[int, frozenset[Hashable]] = {}
        self._dealt: dict[str, frozenset[Hashable]] = {}

    def of(self, game: Environment) -> frozenset[Hashable] | None:
        """Return the starts of a game's kind that training can meet; None: nothing limits them."""
        if is_banked(game):
            alike = [other for other in self.trained if _kind(other) == _kind(game)]
            return frozenset().union(*(self._bank(other) for other in alike))
        twin = self.twin(game)
        fixed = self.config is not None and self.config.rollout.starts > 0
        if twin is None or not fixed or not hasattr(twin, "start_of"):
            return None
        if twin.name not in self._dealt:
            deals = (*self.deals(twin), *self._warmed(twin))
            self._dealt[twin.name] = frozenset(_start(twin, deal) for deal in deals)
        return self._dealt[twin.name]

    def twin(self, game: Environment) -> Environment | None:
        """Return the game of training that has the same rules, banks and wording apart."""
        return next((other for other in self.trained if _rules(other) == _rules(game)), None)

    def deals(self, game: Environment) -> tuple[Stream, ...]:
        """Return the fixed deals of a game of training; none where groups are dealt afresh."""
        if self.config is None:
            return ()
        root = Stream.from_seed(self.config.seed).child("starts").child(game.name)
        return tuple(root.child(number) for number in range(self.config.rollout.starts))

    def _bank(self, game: Environment) -> frozenset[Hashable]:
        """Return all starts of the bank of a game of training, which are made once."""
        place = self.games.index(game)
        if place not in self._banks:
            with environment_call(game):
                self._banks[place] = cast(HasStarts, game).starts() or frozenset()
        return self._banks[place]

    def _warmed(self, game: Environment) -> list[Stream]:
        assert self.config is not None
        warmup, place = self.config.warmup, self.games.index(game)
        root = Stream.from_seed(self.config.seed).child("warmup")
        own = range(place, warmup.games, len(self.games))
        return [
            root.child(update).child(number).child("deal")
            for update in range(warmup.updates)
            for number in own
        ]


def columns(game: Environment, met: SeenInitialStates) -> tuple[Starts, ...]:
    """Return the starts that a game is measured on, the default first.

    Unseen ones, then those that training met.

    Where training can meet every start, or none but these could be found, there is one column of
    "all".
    """
    known = met.of(game)
    if known is None:
        return (every(game),)
    if not known:
        return (Starts(label="unseen", game=game),)
    own = _unseen_share(game, known)
    other = game if own >= LEAST else another_bank(game)
    if other is None or (other is not game and _unseen_share(other, known) < LEAST):
        return (every(game),)
    unseen = Starts(label="unseen", game=other, known=known, inside=False)
    seen = _seen(game, met, known, own)
    return (unseen,) if seen is None else (unseen, seen)


def _seen(
    game: Environment, met: SeenInitialStates, known: frozenset[Hashable], unseen: float
) -> Starts | None:
    """Return the starts that training met; None where the game has too few of them."""
    twin = met.twin(game)
    if twin is not None and is_banked(game):
        bank = {key: value for key, value in _options(twin).items() if key in BANK_OPTIONS}
        same = bank.items() <= _options(game).items()
        return Starts(label="seen", game=game if same else like(game, {**_options(game), **bank}))
    if twin is not None:
        return Starts(label="seen", game=game, deals=met.deals(twin))
    return (
        Starts(label="seen", game=game, known=known, inside=True) if 1.0 - unseen >= LEAST else None
    )


def _unseen_share(game: Environment, known: frozenset[Hashable]) -> float:
    """Return the share of a game's deals whose start training did not meet."""
    root = Stream.from_seed(0).child("probes")
    return sum(_start(game, root.child(number)) not in known for number in range(PROBES)) / PROBES


def _start(game: Environment, deal: Stream) -> Hashable:
    with environment_call(game), temporary_play(game, deal) as play:
        found: Hashable = cast(HasStarts, game).start_of(play)
        hash(found)  # what tells starts apart is looked up in sets
    return found


def _kind(game: Environment) -> str:
    return str(game.made_by["name"]) if game.made_by is not None else game.name


def _options(game: Environment) -> dict[str, Any]:
    """Return the options that a game is made from, defaults filled in where they are known."""
    return known_options(_kind(game), game.made_by["options"] if game.made_by is not None else {})


def _rules(game: Environment) -> tuple[str, dict[str, Any]]:
    """Return what two games of the same rules share."""
    return rules_of(_kind(game), _options(game))


def known_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a game, defaults filled in where they are known."""
    if registry.known("environments", name):
        return dict(registry.bind("environments", name, options).options)
    return dict(options)


def rules_of(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return what games of the same rules share: name and options, but wording and bank."""
    known = known_options(name, options)
    apart = (*WORDING, *BANK_OPTIONS) if "bank" in known else WORDING
    return name, {key: value for key, value in known.items() if key not in apart}
