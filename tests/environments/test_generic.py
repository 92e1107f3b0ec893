"""Any OpenSpiel game by name: action words, refused games, simultaneous moves."""

import pyspiel
import pytest

from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.generic import one_word
from tests.cases import every_case


def test_words_hidden_simultaneous_moves_and_refused_games():
    game = make_game("breakthrough")
    assert game._spell(["zebra", "é"]) == [*"zebra", "?"]
    assert (one_word("Play card 1", 3), one_word(" ", 3)) == ("Play-card-1", "3")
    game = make_game("matrix_rps")
    views = set()
    for action in ("Rock", "Paper", "Scissors"):
        state = game.reset(Stream.from_seed(0))
        state.apply(action)
        views.add((state.seat, state.observe(1).text, state.observe(1).key))
    assert len(views) == 1 and next(iter(views))[0] == 1
    text = make_game("matrix_pd", options={"style": "full"}).reset(Stream.from_seed(0)).observe(0).text
    assert "seat0 Cooperate, seat1 Defect: 0, 10" in text
    game = make_game("goofspiel", options={"num_cards": 4, "imp_info": True, "points_order": "descending"})
    keys = set()
    for index in range(4):
        state = game.reset(Stream.from_seed(0))
        state.apply_index(index)
        keys.add(state.observe(1).key)
    assert len(keys) == 1
    with pytest.raises(GameError, match="mean-field"):
        make_game("mfg_crowd_modelling")
    with pytest.raises(GameError, match="not numbered"):
        make_game("crossword")
    with pytest.raises(ConfigError, match="nfg_game"):
        make_game("nfg_game")
    sampled_stochastic_games = [
        game_type.short_name
        for game_type in pyspiel.registered_games()
        if game_type.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC
    ]
    for name in sampled_stochastic_games:
        with pytest.raises(GameError, match="chance"):
            make_game(name)


@every_case(
    "name",
    [
        "pig",
        "dots_and_boxes",
        "breakthrough",
        "goofspiel",
        "oshi_zumo",
        "blotto",
        "dark_chess",
        "chess",
        "2048",
        "sheriff",
    ],
)
@every_case("style", ["brief", "full"], parts=2)
def test_registered_games_play_through_the_adapter(name, style):
    game = make_game(name, options={"style": style})
    state, stream, plies = game.reset(Stream.from_seed(0)), Stream.from_seed(1), 0
    while not state.done and plies < 40:
        text, legal = state.observe(state.seat, plies and 1).text, state.legal_actions()
        assert text and (style == "brief" or legal[0] in text)
        action = legal[stream.integer(plies, len(legal))]
        assert state.parse(action) == action
        state.apply(action)
        plies += 1
    assert len(state.returns) == game.num_seats


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tic_tac_to", {}, "Did you mean 'tic_tac_toe'"),
        ("goofspeil", {}, "Did you mean 'goofspiel'"),
        ("goofspiel", {"num_card": 3}, "Did you mean 'num_cards'"),
        ("goofspiel", {"style": "breif"}, "Did you mean 'brief'"),
        ("kuhn_poker", {"player": 3}, "Did you mean 'players'"),
    ],
)
def test_unknown_names_get_a_suggestion(name, options, message):
    with pytest.raises(UnknownNameError, match=message):
        make_game(name, options=options)


@pytest.mark.parametrize(
    ("name", "options"), [("goofspiel", {"num_cards": "many"}), ("kuhn_poker", {"players": 4}), ("hanabi", {"size": 1})]
)
def test_invalid_values_are_refused(name, options):
    with pytest.raises(ConfigError, match=name):
        make_game(name, options=options)
