import pyspiel
import pytest
from open_spiel.python.algorithms import expected_game_score, exploitability

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel import solvers


def cfr_solver(**options):
    return registry.bind("players", "cfr", options)()


@pytest.mark.parametrize(("variant", "max_nash_conv"), [("cfr", 0.01), ("cfr_plus", 0.001)])
def test_kuhn_poker_is_nearly_solved_and_worth_minus_one_eighteenth(variant, max_nash_conv):
    game = make_game("kuhn_poker")
    policy = cfr_solver(variant=variant, iterations=400).policy(game)
    assert exploitability.nash_conv(game.spiel, policy) < max_nash_conv
    value = expected_game_score.policy_value(game.spiel.new_initial_state(), [policy, policy])
    assert value[0] == pytest.approx(-1 / 18, abs=max_nash_conv)


@pytest.mark.parametrize("variant", ["cfr", "cfr_plus"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kuhn_poker", {}),
        ("leduc_poker", {}),
        ("ordinal_2x2", {"game": "prisoners_dilemma"}),
        ("signalling", {}),
        ("repeated_dilemma", {}),
    ],
)
def test_the_policy_equals_that_of_openspiel(name, options, variant):
    game = make_game(name, options=options)
    solver = {"cfr": pyspiel.CFRSolver, "cfr_plus": pyspiel.CFRPlusSolver}[variant](game.spiel)
    for _ in range(25):
        solver.evaluate_and_update_policy()
    openspiel_policy = solver.tabular_average_policy()
    policy = cfr_solver(variant=variant, iterations=25).policy(game)
    states_to_visit, visited_keys = [game.spiel.new_initial_state()], set()
    while states_to_visit:
        state = states_to_visit.pop()
        if not (state.is_terminal() or state.is_chance_node()):
            visited_keys.add(state.information_state_string())
            assert policy.action_probabilities(state) == pytest.approx(
                openspiel_policy.action_probabilities(state), abs=1e-9
            )
        states_to_visit += [state.child(action) for action in state.legal_actions()]
    assert len(visited_keys) > 1


def test_a_game_of_one_seat_is_solved():
    """OpenSpiel's solver gives 0.5, because it skips actions of probability 0, which a deviating seat uses."""
    game = make_game("urn", options={"urns": 2, "draws": 2})
    policy = cfr_solver(iterations=200).policy(game)
    (value,) = expected_game_score.policy_value(game.spiel.new_initial_state(), [policy])
    best_value = solvers.best_response_value(game, 0, policy)
    assert best_value == pytest.approx(0.742125) and value == pytest.approx(best_value, abs=1e-3)


def test_equal_rules_are_solved_once():
    agent = cfr_solver(iterations=2)
    assert agent.policy(make_game("kuhn_poker")) is agent.policy(make_game("kuhn_poker", options={"style": "full"}))
    assert agent.policy(make_game("kuhn_poker")) is not agent.policy(make_game("kuhn_poker", options={"players": 3}))


def test_cfr_refuses_games_that_do_not_fit():
    with pytest.raises(TooLargeError, match="max_histories=1000"):
        cfr_solver(max_histories=1000).policy(make_game("connect_four"))
    with pytest.raises(GameError, match="information states"):
        cfr_solver().policy(make_game("hanabi"))
    with pytest.raises(ConfigError, match="iterations"):
        cfr_solver(iterations=0)
    with pytest.raises(ConfigError, match="variant"):
        cfr_solver(variant="cfr++")


def test_the_size_limit_counts_histories():
    from sparring.play.players.cfr import has_at_most_histories

    game = make_game("kuhn_poker")
    # 1 + 3 + 6 chance histories, then 8 action histories per deal
    assert (has_at_most_histories(game, 58), has_at_most_histories(game, 57)) == (
        True,
        False,
    )


def mcts_player(**options):
    return registry.bind("players", "mcts", options)()


def state_after(*moves, name="tic_tac_toe"):
    state = make_game(name).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


@pytest.mark.parametrize("options", [{}, {"solve": True}, {"rollouts": 4, "uct_c": 1.4}])
def test_mcts_takes_a_win_and_blocks_a_loss(options):
    agent = mcts_player(simulations=1000, **options)
    for seed in range(5):
        stream = Stream.from_seed(seed)
        assert agent.choose(state_after("a1", "a2", "b1", "b2"), 0, stream) == "c1"
        assert agent.choose(state_after("a1", "b2", "b1"), 1, stream) == "c1"
        assert agent.choose(state_after(*"112233", name="connect_four"), 0, stream) == "4"


def test_search_and_rollouts_are_both_seeded_by_the_stream(monkeypatch):
    seeds, bot, evaluator = [], pyspiel.MCTSBot, pyspiel.RandomRolloutEvaluator
    monkeypatch.setattr(pyspiel, "MCTSBot", lambda *args: seeds.append(args[6]) or bot(*args))
    monkeypatch.setattr(pyspiel, "RandomRolloutEvaluator", lambda *args: seeds.append(args[1]) or evaluator(*args))
    for seed in (0, 1, 0):
        mcts_player(simulations=2).choose(state_after(), 0, Stream.from_seed(seed))
    assert seeds[:2] == seeds[4:]
    assert len(set(seeds)) == 4


def test_hidden_information_is_refused():
    with pytest.raises(GameError, match="write agent cfr or random"):
        mcts_player().choose(make_game("kuhn_poker").reset(Stream.from_seed(0)), 0, Stream.from_seed(0))


def minimax_player(**options):
    return registry.bind("players", "minimax", options)()


AGENT = minimax_player()


def test_tic_tac_toe_is_a_draw_from_every_first_cell():
    assert set(AGENT.action_values(state_after()).values()) == {0.0}


def test_values_are_those_of_the_seat_to_move():
    assert AGENT.action_values(state_after("a1", "b1")) == {
        "c1": 0.0,
        "a2": 1.0,
        "b2": 1.0,
        "c2": 0.0,
        "a3": 1.0,
        "b3": 0.0,
        "c3": 0.0,
    }
    values = AGENT.action_values(state_after("b2"))  # after the centre only corners draw
    assert {action for action, value in values.items() if value == 0.0} == {"a1", "c1", "a3", "c3"}
    assert {value for action, value in values.items() if action[0] == "b" or action[1] == "2"} == {-1.0}


def test_the_share_of_random_moves_is_the_option():
    state, stream, agent = state_after("a1", "b1"), Stream.from_seed(1), minimax_player(random_moves=0.4)
    actions = [agent.choose(state, 0, stream.child(number)) for number in range(4000)]
    for action, probability in {"a2": 0.6 / 3 + 0.4 / 7, "c1": 0.4 / 7}.items():
        assert actions.count(action) / 4000 == pytest.approx(probability, abs=0.03)
    assert {agent.choose(state, 0, stream.child(number)) for number in range(200)} == set(state.legal_actions())
    with pytest.raises(
        ConfigError,
        match=r"players 'minimax', option 'random_moves': Input should be less than or equal to 1, got 2\.0",
    ):
        minimax_player(random_moves=2.0)


def test_minimax_refuses_games_that_do_not_fit():
    with pytest.raises(GameError, match="write agent mcts or cfr"):
        AGENT.choose(make_game("kuhn_poker").reset(Stream.from_seed(0)), 0, Stream.from_seed(0))
    with pytest.raises(TooLargeError, match="max_states=500"):
        minimax_player(max_states=500).choose(state_after(), 0, Stream.from_seed(0))
    with pytest.raises(ConfigError, match="max_states"):
        minimax_player(max_states=0)
