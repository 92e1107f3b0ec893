"""Initial states for measurements: states not seen in training, and states seen in training.

An initial state is the outcome of chance before the first decision: a puzzle of a bank, a deal of
cards. Training sees only some of them if a game draws from a bank, or if ``rollout.starts`` fixes
the deals; a policy can then memorise them.
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
from sparring.environments.catalogue import another_bank, with_options
from sparring.environments.foreign import environment_call
from sparring.environments.openspiel.banks import BANK_OPTIONS

Label = Literal["unseen", "seen", "all"]

NUM_PROBES = 400  # deals that estimate the share of a game's initial states seen in training
MIN_SHARE = 0.05  # smallest share of unseen (or seen) states that are measured separately
MAX_DEALS = 5000  # number of deals that are drawn before the search for a fitting one fails
WORDING = ("style", "outcome")  # options of a game that do not change its initial states


@dataclass(frozen=True, kw_only=True, slots=True)
class Starts:
    """Initial states to play from, and whether training saw them.

    Args:
        label: "unseen": none was seen in training. "seen": all were. "all": training may draw all
            initial states or nearly all, so there are too few unseen ones.
        game: the game, with the bank to draw from.
        seen: initial states seen in training.
        is_seen: whether states to play from must be seen (True) or unseen (False); None: either.
        deals: the fixed deals of training, which replace draws and are used in turn.
    """

    label: Label
    game: Environment
    seen: frozenset[Hashable] = frozenset()
    is_seen: bool | None = None
    deals: tuple[Stream, ...] = ()

    def deal(self, stream: Stream, number: int) -> Stream:
        """Return the deal of episode ``number``: the first draw of ``stream`` that fits.

        Raises:
            GameError: none of ``MAX_DEALS`` deals fits.
        """
        deal_stream = stream.child("deal")
        if self.deals:
            return self.deals[number % len(self.deals)]
        if self.is_seen is None:
            return deal_stream
        for attempt in range(MAX_DEALS):
            deal = deal_stream.child(attempt) if attempt else deal_stream
            if (_initial_state(self.game, deal) in self.seen) == self.is_seen:
                return deal
        raise GameError(
            f"{self.game.name}: none of {MAX_DEALS} deals is {self.label}; write a larger "
            "bank for the game."
        )


def all_starts(game: Environment) -> Starts:
    """Return all initial states of a game, drawn by the game's distribution."""
    return Starts(label="all", game=game)


class SeenInitialStates:
    """The initial states that training and its warm-up can use, by the run's configuration.

    Args:
        config: the run's configuration; None: no training.
        games: the run's games in the order of the configuration, with games of weight 0.
    """

    def __init__(self, config: RunConfig | None, games: Sequence[Environment] = ()) -> None:
        self.config, self.games = config, list(games)
        weights = [section.weight for section in config.environments] if config is not None else []
        has_warmup = config is not None and config.warmup.updates > 0
        self.trained_games = [
            game for game, weight in zip(self.games, weights, strict=True) if weight or has_warmup
        ]
        self._banks: dict[int, frozenset[Hashable]] = {}
        self._fixed_states: dict[str, frozenset[Hashable]] = {}

    def states_of(self, game: Environment) -> frozenset[Hashable] | None:
        """Return the initial states that training can use in a game; None: unlimited."""
        if is_banked(game):
            name = _environment_name(game)
            same_games = [other for other in self.trained_games if _environment_name(other) == name]
            return frozenset().union(*(self._bank(other) for other in same_games))
        trained_game = self.training_game(game)
        has_fixed_states = self.config is not None and self.config.rollout.starts > 0
        if trained_game is None or not has_fixed_states or not hasattr(trained_game, "start_of"):
            return None
        if trained_game.name not in self._fixed_states:
            deals = (*self.deals(trained_game), *self._warmup_deals(trained_game))
            self._fixed_states[trained_game.name] = frozenset(
                _initial_state(trained_game, deal) for deal in deals
            )
        return self._fixed_states[trained_game.name]

    def training_game(self, game: Environment) -> Environment | None:
        """Return the training game with the same rules; bank and wording may differ."""
        return next((other for other in self.trained_games if _rules(other) == _rules(game)), None)

    def deals(self, game: Environment) -> tuple[Stream, ...]:
        """Return the fixed deals of a training game; empty if every group has a new deal."""
        if self.config is None:
            return ()
        root = Stream.from_seed(self.config.seed).child("starts").child(game.name)
        return tuple(root.child(number) for number in range(self.config.rollout.starts))

    def _bank(self, game: Environment) -> frozenset[Hashable]:
        index = self.games.index(game)
        if index not in self._banks:
            with environment_call(game):
                self._banks[index] = cast(HasStarts, game).starts() or frozenset()
        return self._banks[index]

    def _warmup_deals(self, game: Environment) -> list[Stream]:
        assert self.config is not None
        warmup, first_number = self.config.warmup, self.games.index(game)
        root = Stream.from_seed(self.config.seed).child("warmup")
        numbers = range(first_number, warmup.games, len(self.games))
        return [
            root.child(update).child(number).child("deal")
            for update in range(warmup.updates)
            for number in numbers
        ]


def measured_starts(game: Environment, training: SeenInitialStates) -> tuple[Starts, ...]:
    """Return the initial states that a game is measured on: unseen ones first, then seen ones.

    If training can meet every initial state, or no others exist, the result is one entry "all".
    """
    seen_states = training.states_of(game)
    if seen_states is None:
        return (all_starts(game),)
    if not seen_states:
        return (Starts(label="unseen", game=game),)
    unseen_share = _unseen_share(game, seen_states)
    source = game if unseen_share >= MIN_SHARE else another_bank(game)
    if source is None or (source is not game and _unseen_share(source, seen_states) < MIN_SHARE):
        return (all_starts(game),)
    unseen_starts = Starts(label="unseen", game=source, seen=seen_states, is_seen=False)
    seen_starts = _seen_starts(game, training, seen_states, unseen_share)
    return (unseen_starts,) if seen_starts is None else (unseen_starts, seen_starts)


def _seen_starts(
    game: Environment,
    training: SeenInitialStates,
    seen_states: frozenset[Hashable],
    unseen_share: float,
) -> Starts | None:
    trained_game = training.training_game(game)
    if trained_game is not None and is_banked(game):
        bank = {key: value for key, value in _options(trained_game).items() if key in BANK_OPTIONS}
        has_bank = bank.items() <= _options(game).items()
        return Starts(
            label="seen", game=game if has_bank else with_options(game, {**_options(game), **bank})
        )
    if trained_game is not None:
        return Starts(label="seen", game=game, deals=training.deals(trained_game))
    return (
        Starts(label="seen", game=game, seen=seen_states, is_seen=True)
        if 1.0 - unseen_share >= MIN_SHARE
        else None
    )


def _unseen_share(game: Environment, seen_states: frozenset[Hashable]) -> float:
    root = Stream.from_seed(0).child("probes")
    return (
        sum(
            _initial_state(game, root.child(number)) not in seen_states
            for number in range(NUM_PROBES)
        )
        / NUM_PROBES
    )


def _initial_state(game: Environment, deal: Stream) -> Hashable:
    with environment_call(game), temporary_play(game, deal) as play:
        start: Hashable = cast(HasStarts, game).start_of(play)
        hash(start)  # must be hashable, for sets
    return start


def _environment_name(game: Environment) -> str:
    return str(game.made_by["name"]) if game.made_by is not None else game.name


def _options(game: Environment) -> dict[str, Any]:
    return known_options(
        _environment_name(game), game.made_by["options"] if game.made_by is not None else {}
    )


def _rules(game: Environment) -> tuple[str, dict[str, Any]]:
    return rules_of(_environment_name(game), _options(game))


def known_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a game, with known defaults filled in."""
    if registry.is_known("environments", name):
        return dict(registry.bind("environments", name, options).options)
    return dict(options)


def rules_of(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return (name, options without wording and bank), which are equal for games of equal rules."""
    all_options = known_options(name, options)
    ignored_options = (*WORDING, *BANK_OPTIONS) if "bank" in all_options else WORDING
    return name, {key: value for key, value in all_options.items() if key not in ignored_options}
