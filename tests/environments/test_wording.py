"""Prompts depend only on the information state, in games with hidden events."""

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from tests.cases import every_case

GAMES = [
    ("phantom_ttt", {}),
    ("dark_hex", {"num_rows": 3, "num_cols": 3}),
    ("goofspiel", {"num_cards": 4, "imp_info": True}),
    ("oshi_zumo", {"coins": 4, "size": 1, "horizon": 6}),
    ("battleship", {"board_width": 2, "board_height": 2, "ship_sizes": "[1]", "ship_values": "[1]"}),
    ("kuhn_poker", {}),
    ("leduc_poker", {}),
    ("liars_dice", {}),
    ("tiny_hanabi", {}),
    ("signalling", {"types": 3, "signals": 2, "rounds": 2}),
]


def prompts_of_random_episodes(name, options, style, games):
    """Yield ((seat, information state, whether it had a prompt before), prompt) of each turn of random episodes."""
    game = make_game(name, options={**options, "style": style})
    for seed in range(games):
        state, seen_plies, stream = game.reset(Stream.from_seed(seed)), {}, Stream.from_seed(1000 + seed)
        while not state.done:
            seat, legal = state.seat, state.legal_actions()
            observation = state.observe(seat, seen_plies.get(seat, 0))
            yield (seat, observation.key, seat in seen_plies), observation.text
            seen_plies[seat] = state.plies + 1
            state.apply(legal[stream.integer(state.plies, len(legal))])


@every_case("style", ["brief", "full"])
@every_case(("name", "options"), GAMES)
def test_states_of_one_information_state_have_equal_prompts(name, options, style):
    texts, repeats = {}, 0
    for information, text in prompts_of_random_episodes(name, options, style, games=40):
        repeats += information in texts
        assert texts.setdefault(information, text) == text
    assert repeats > 20


def test_hidden_attempts_of_phantom_tic_tac_toe_stay_hidden():
    game = make_game("phantom_ttt", options={"style": "full"})
    texts = []
    for history in ((6, 6, 0), (6, 5)):  # with and without an attempt of the second player at a taken field
        state = game.reset(Stream.from_seed(0))
        for index in history:
            state.apply(state.legal_actions()[state.spiel.legal_actions().index(index)])
        seat = state.seat
        texts.append((seat, state.observe(seat, 0).key, state.observe(seat, 0).text))
    assert texts[0] == texts[1]
