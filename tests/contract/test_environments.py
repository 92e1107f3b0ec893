"""The contract of built-in environments beyond the public check: specs, vocabulary, banks and option ranges."""

import json
import math
import typing
from dataclasses import asdict

import annotated_types
import pyspiel
import pytest
from pydantic.fields import FieldInfo

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.records import EnvironmentSpec
from sparring.core.rng import Stream
from sparring.environments.bank import is_banked
from sparring.environments.base import spec_of
from sparring.environments.catalogue import another_bank, from_spec, make_game, searchable_names
from sparring.measure.initial_states import SeenInitialStates, measured_starts
from sparring.play.players.random import random
from tests.cases import every_case
from tests.contract.test_pictures import OPTIONS

NAMES = registry.built_in("environments")
CASES = [(name, options) for name in NAMES for options in [{}, *OPTIONS.get(name, ())]]
AUCTION = {"environment": {"name": "sealed_auction", "options": {"deals": 20}}}
BANKED = {name: {} for name in NAMES if is_banked(make_game(name))} | dict.fromkeys(
    ("repeated", "talk", "tools", "trial", "choose"), AUCTION
)


def random_play(rules, seed):
    """Yield a play and its random replies before each step, then the finished play with no replies."""
    play, stream, moment = rules.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play"), 0
    while not play.done:
        replies = {seat: random().choose(play, seat, stream.child(moment).child(seat)) for seat in play.due()}
        yield play, replies
        play.step(replies)
        moment += 1
    yield play, {}


@every_case(("name", "options"), CASES, parts=2)
def test_a_spec_survives_json_and_gives_the_same_episode(name, options):
    game = make_game(name, options=options, illegal={"penalty": 0.5})
    restored_game = from_spec(EnvironmentSpec(**json.loads(json.dumps(asdict(spec_of(game))))))
    assert spec_of(restored_game) == spec_of(game) and (
        restored_game.illegal,
        restored_game.roles,
        restored_game.max_turns,
    ) == (
        game.illegal,
        game.roles,
        game.max_turns,
    )
    for (play, replies), (restored_play, restored_replies) in zip(
        random_play(game, 5), random_play(restored_game, 5), strict=True
    ):
        assert [play.observe(seat) for seat in replies] == [restored_play.observe(seat) for seat in restored_replies]
        assert (play.returns, replies) == (restored_play.returns, restored_replies)


@every_case(("name", "options"), [case for case in CASES if make_game(case[0], options=case[1]).brief], parts=2)
def test_every_brief_word_is_in_the_vocabulary(name, options):
    game = make_game(name, options=options)
    words = set(game.vocabulary())
    assert list(game.vocabulary()) == sorted(words)
    for seed in range(20):
        for play, replies in random_play(game, seed):
            texts = [play.observe(seat).text for seat in replies]
            endings = (
                [play.ending(seat) for seat in range(game.num_seats)] if play.done and hasattr(play, "ending") else []
            )
            assert {word for text in (*texts, *replies.values(), *endings) for word in text.split()} <= words


@pytest.mark.parametrize("name", BANKED)
def test_a_bank_has_its_initial_states_and_evaluation_uses_others(name):
    options = BANKED[name] or {make_game(name).size_option: 20}
    game = make_game(name, options=options)
    initial_states, second_bank = game.starts(), another_bank(game)
    assert 1 < len(initial_states) <= 20 and second_bank.starts() != initial_states
    assert {game.start_of(game.reset(Stream.from_seed(seed))) for seed in range(200)} == initial_states
    config = resolve({"environments": [{"name": name, "options": options}], "warmup": {"updates": 0}})
    unseen, num_seen = measured_starts(game, SeenInitialStates(config, [game]))
    assert (unseen.label, num_seen.label) == ("unseen", "seen")
    for number in range(30):
        for column, is_inside in ((unseen, False), (num_seen, True)):
            play = column.game.reset(column.deal(Stream.from_seed(number), number))
            assert (column.game.start_of(play) in initial_states) == is_inside


def out_of_range(hint):
    """Yield values that the type of an option forbids: beyond its bounds, not in its list, or NaN."""
    if typing.get_origin(hint) is typing.Literal:
        yield "none of these"
    if hint is float:
        yield math.nan
    for field in getattr(hint, "__metadata__", ()):
        for bound in field.metadata if isinstance(field, FieldInfo) else ():
            if isinstance(bound, annotated_types.Ge):
                yield bound.ge - 1
            if isinstance(bound, annotated_types.Le):
                yield bound.le + 1
    for argument in typing.get_args(hint):
        yield from out_of_range(argument)


@every_case("name", NAMES)
def test_options_out_of_range_are_refused_by_name(name):
    hints = typing.get_type_hints(registry.load("environments", name).function, include_extras=True)
    for option in registry.load("environments", name).options:
        for value in out_of_range(hints[option]):
            with pytest.raises(ConfigError, match=option):
                make_game(name, options={option: value})


@every_case(("name", "options"), [case for case in CASES if case[0] in searchable_names()])
def test_openspiels_own_checks_of_a_game_pass(name, options):
    pyspiel.random_sim_test(make_game(name, options=options).spiel, num_sims=3, serialize=True, verbose=False)
