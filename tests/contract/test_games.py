"""The contract of games over OpenSpiel, in both styles and for every number of seats."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game, searchable_names
from sparring.testing import check_environment
from tests.cases import every_case

SEATS = {"kuhn_poker": (2, 3), "leduc_poker": (2, 3), "hanabi": (2, 3, 4)}
MORE_OPTIONS = {
    "hanabi": [{"size": "simple", "players": 2}, {"size": "simple", "players": 4}],
    "liars_dice": [{"dice": 2, "sides": 4}],
    "kuhn_rounds": [{"rounds": 2, "outcome": "sign"}, {"rounds": 3, "outcome": "last_round"}],
    "simple_negotiation": [{"turns": 5, "largest": 3, "values": "drawn", "outcome": "gain"}],
    "needle_chain": [{"length": 4, "actions": 3, "needle": 2, "stop": True}],
    "signalling": [{"types": 3, "signals": 2, "rounds": 2}],
    "repeated_dilemma": [{"rounds": 3}, {"rounds": 20, "told": False}],
    "ordinal_2x2": [{"game": "dilemma", "drawn": False}, {"pay": "joint"}],
    "tic_tac_toe": [{"start": "a1 b2 c3"}],
    "sudoku": [{"blanks": 10, "wrong": "continues", "pay": "share", "puzzles": 16}],
    "zebra": [{"attributes": 2, "wrong": "continues", "pay": "share", "puzzles": 16, "level": "search"}],
    "minesweeper": [{"rows": 3, "columns": 5, "mines": 4, "flags": True, "pay": "share"}],
    "twenty_questions": [{"objects": 5, "attributes": 2, "questions": 3, "noise": 0.2, "cost": 0.05, "tables": 1}],
    "urn": [{"urns": 3, "colours": 3, "draws": 4, "sets": 1}],
    "sokoban": [
        {"rows": 4, "columns": 5, "boxes": 2, "walls": 3, "moves": 10, "blocked": "waits", "pay": "share", "cost": 0.01}
    ],
    "battleship_hunt": [{"rows": 3, "columns": 5, "fleet": "3 2", "shots": 9, "touch": False, "pay": "share"}],
    "mastermind": [{"pegs": 2, "colours": 5, "guesses": 3, "pay": "left", "codes": 12}],
    "nim": [{"pile_sizes": "2;3", "is_misere": False}],
}
# games with more than 48 words: about 200 offers; one word per cell and digit of a sudoku
MAX_WORDS = {
    "simple_negotiation": 211,
    "sudoku": 68,
}
VARIANTS = [
    (name, options)
    for name in searchable_names()
    for options in [
        *({"players": seats} for seats in SEATS.get(name, ())),
        *MORE_OPTIONS.get(name, ()),
        *([] if name in SEATS else [{}]),
    ]
]
OF_OPENSPIEL = [
    ("matrix_pd", {}),
    ("matrix_rps", {}),
    ("goofspiel", {"num_cards": 4, "imp_info": True}),
    ("dots_and_boxes", {"num_rows": 1, "num_cols": 1}),
    ("phantom_ttt", {}),
]
ALL = [pytest.param(name, options, id=f"{name}-{options}") for name, options in VARIANTS + OF_OPENSPIEL]
WITH_WORDING = [pytest.param(name, options, id=f"{name}-{options}") for name, options in VARIANTS]


def positions(game, seed, choose=None):
    """Yield the states of one random episode before every action, then the final one."""
    state, stream = game.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
    while not state.done:
        yield state
        legal = state.legal_actions()
        state.apply(legal[stream.integer(state.plies, len(legal))])
    yield state


@every_case("style", ["brief", "full"])
@every_case(("name", "options"), ALL, parts=2)
def test_a_game_has_valid_seats_observations_and_returns(name, options, style):
    game = make_game(name, options={**options, "style": style})
    assert game.name == name
    assert len(game.roles) == game.num_seats == len(set(game.roles))
    for seed in range(10):
        for state in positions(game, seed):
            assert state.plies <= game.max_turns
            assert len(state.returns) == game.num_seats
            assert (state.seat == -1) == state.done
            for seat, first_ply in itertools.product(range(game.num_seats), {0, max(state.plies - 1, 0), state.plies}):
                observation = state.observe(seat, first_ply)
                assert isinstance(observation, Observation)
                assert observation.text.strip() == observation.text != ""
        assert all(game.min_utility <= value <= game.max_utility for value in state.returns)
        assert game.utility_sum is None or sum(state.returns) == pytest.approx(game.utility_sum)
        assert not game.cooperative or len(set(state.returns)) == 1
        assert state.legal_actions() == ()


@every_case(("name", "options"), WITH_WORDING)
def test_the_public_check_passes(name, options):
    check_environment(registry.bind("environments", name, options), plays=3)


@every_case(("name", "options"), ALL)
def test_full_style_lists_legal_actions_and_an_example(name, options):
    game = make_game(name, options={**options, "style": "full"})
    for state in positions(game, 3):
        if not state.done:
            for first_ply in {0, state.plies}:
                text = state.observe(state.seat, first_ply).text
                assert f"Legal actions: {', '.join(state.legal_actions())}." in text
                assert text.rsplit("for example: ", 1)[1] in state.legal_actions()
                assert game.rules[:40] in text or first_ply


@pytest.mark.parametrize("plays", [50, pytest.param(200, marks=pytest.mark.slow)])
@every_case(("name", "options"), ALL, parts=4)
def test_vocabulary_covers_random_games(name, options, plays):
    game = make_game(name, options=options)
    vocabulary = set(game.vocabulary())
    assert list(game.vocabulary()) == sorted(vocabulary)
    for seed in range(plays):
        counts = [0] * game.num_seats
        for state in positions(game, seed):
            words = set(state.legal_actions()) | set(game.correction(state, None).split())
            for seat in range(game.num_seats):
                words |= {
                    word for first_ply in (0, counts[seat]) for word in state.observe(seat, first_ply).text.split()
                }
            assert words <= vocabulary
            if not state.done:
                counts[state.seat] = state.plies + 1


@every_case(("name", "options"), WITH_WORDING)
def test_the_vocabulary_of_a_game_with_wording_is_small(name, options):
    assert len(make_game(name, options=options).vocabulary()) <= MAX_WORDS.get(name, 48)


@pytest.mark.parametrize(("name", "options"), ALL)
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    prefix=st.sampled_from(["", "I choose ", "Let me think. [", "**"]),
    suffix=st.sampled_from(["", ".", "]", "!"]),
)
def test_every_legal_action_is_parsed_and_can_be_applied(name, options, seed, prefix, suffix):
    game, full_game = make_game(name, options=options), make_game(name, options={**options, "style": "full"})
    for state in positions(game, seed):
        legal = state.legal_actions()
        assert len(set(legal)) == len(legal)
        for action in legal:
            assert " " not in action
            reply = f"{prefix}{action}{suffix}"
            assert state.parse(action) == full_game.parse(state, reply) == action
            assert state.parse(reply) == (action if reply == action else None)
            copy = state.clone()
            copy.apply(action)
            assert copy.plies == state.plies + 1
            assert copy.spiel.history() != state.spiel.history()


@every_case(("name", "options"), ALL)
def test_a_reply_without_an_action_is_parsed_as_none(name, options):
    state = make_game(name, options=options).reset(Stream.from_seed(0))
    assert state.parse("") is None
    assert state.parse("zzzqqq") is None
    with pytest.raises(GameError, match="legal actions: "):
        state.apply("zzzqqq")
    with pytest.raises(GameError, match="legal ids: "):
        state.apply_index(10**6)


@every_case(("name", "options"), ALL)
def test_a_clone_is_independent_and_draws_the_same_chance(name, options):
    game = make_game(name, options=options)
    for state in positions(game, 1):
        if state.done:
            continue
        state_before = (state.spiel.history(), state.plies, list(state.trail), state.draws, state.observe(0).text)
        copy, second_copy, action = state.clone(), state.clone(), state.legal_actions()[-1]
        copy.apply(action)
        second_copy.apply(action)
        assert copy.spiel.history() == second_copy.spiel.history()
        assert copy.draws == sum(event.player < 0 for event in copy.trail)
        assert (
            state.spiel.history(),
            state.plies,
            list(state.trail),
            state.draws,
            state.observe(0).text,
        ) == state_before


@every_case(("name", "options"), ALL)
def test_equal_streams_give_equal_episodes_and_others_give_other_deals(name, options):
    game = make_game(name, options=options)
    histories = [[tuple(state.spiel.history()) for state in positions(game, seed)][-1] for seed in (5, 5)]
    assert histories[0] == histories[1]
    deals = {tuple(game.reset(Stream.from_seed(seed)).spiel.history()) for seed in range(40)}
    assert (len(deals) > 1) == game.spiel.new_initial_state().is_chance_node()


@every_case("style", ["brief", "full"])
@every_case(("name", "options"), ALL)
def test_a_state_wrapped_from_openspiel_equals_the_played_one(name, options, style):
    game = make_game(name, options={**options, "style": style})
    for state in positions(game, 2):
        wrapped = game.state_of(state.spiel)
        assert (wrapped.seat, wrapped.done, wrapped.plies, wrapped.trail) == (
            state.seat,
            state.done,
            state.plies,
            state.trail,
        )
        assert wrapped.legal_actions() == state.legal_actions()
        for seat, first_ply in itertools.product(range(game.num_seats), (0, state.plies)):
            assert wrapped.observe(seat, first_ply) == state.observe(seat, first_ply)


@every_case(("name", "options"), ALL, parts=2)
def test_keys_are_equal_exactly_if_the_information_states_are(name, options):
    game = make_game(name, options=options)
    spiel_has_them = game.spiel.get_type().provides_information_state_string
    key_of_info_state, info_state_of_key = {}, {}
    for seed in range(60):
        observations = [()] * game.num_seats
        for state in positions(game, seed):
            seat = state.seat
            if seat < 0:
                continue
            observations[seat] += (state.spiel.observation_string(seat),) if not spiel_has_them else ()
            info_state = (seat, state.spiel.information_state_string(seat) if spiel_has_them else observations[seat])
            key = (seat, state.observe(seat).key)
            assert key_of_info_state.setdefault(info_state, key) == key or not spiel_has_them
            assert info_state_of_key.setdefault(key, info_state) == info_state


@every_case(("name", "options"), WITH_WORDING, parts=3)
def test_texts_distinguish_all_information_states_of_a_seat(name, options):
    """Equal texts in brief style imply equal keys, whether shown turn by turn or at once."""
    game = make_game(name, options=options)
    assert game.words
    key_of_parts, key_of_text = {}, {}
    for seed in range(80):
        texts, first_ply = [()] * game.num_seats, [0] * game.num_seats
        for state in positions(game, seed):
            if state.done:
                continue
            seat = state.seat
            observation = state.observe(seat, first_ply[seat])
            texts[seat] += (observation.text,)
            assert key_of_parts.setdefault((seat, texts[seat]), observation.key) == observation.key
            assert key_of_text.setdefault((seat, state.observe(seat).text), observation.key) == observation.key
            legal = state.legal_actions()
            texts[seat] += (legal[Stream.from_seed(seed).child("play").integer(state.plies, len(legal))],)
            first_ply[seat] = state.plies + 1


@every_case(("name", "options"), ALL)
def test_returns_are_the_sum_of_the_rewards(name, options):
    game = make_game(name, options=options)
    for seed in range(5):
        total = [0.0] * game.num_seats
        for state in positions(game, seed):
            if state.plies:
                total = (
                    [a + b for a, b in zip(total, state.spiel.rewards(), strict=True)]
                    if not state.trail[-1].player < 0
                    else total
                )
        if game.spiel.get_type().reward_model.name == "TERMINAL":
            assert tuple(total) == state.returns


def chances(spiel, depth):
    """Return {outcomes: probability} of the first ``depth`` chance nodes before any decision."""
    if depth == 0 or not spiel.is_chance_node():
        return {(): 1.0}
    probabilities = {}
    for action, probability in spiel.chance_outcomes():
        for later_actions, later_probability in chances(spiel.child(action), depth - 1).items():
            probabilities[(action, *later_actions)] = probability * later_probability
    return probabilities


@every_case(("name", "options"), WITH_WORDING, parts=3)
def test_deals_follow_the_true_chance_probabilities(name, options):
    game, root, number = make_game(name, options=options), Stream.from_seed(11), 3000
    expected = chances(game.spiel.new_initial_state(), 2)
    if len(expected) < 2:  # without chance at the start all deals are equal
        assert len({game.reset(root.child(deal)).observe(0).key for deal in range(20)}) == 1
        return
    depth = len(next(iter(expected)))
    count = Counter(
        tuple(event.action for event in game.reset(root.child(deal)).trail[:depth]) for deal in range(number)
    )
    assert set(count) <= set(expected)
    result = stats.chisquare([count[key] for key in expected], [number * share for share in expected.values()])
    assert result.pvalue > 0.005
