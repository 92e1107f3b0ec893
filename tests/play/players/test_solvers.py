import pyspiel
import pytest
from open_spiel.python.algorithms import expected_game_score, exploitability

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel import solvers


def cfr_made(**options):
    return registry.bind("players", "cfr", options)()


@pytest.mark.parametrize(("variant", "most"), [("cfr", 0.01), ("cfr_plus", 0.001)])
def test_kuhn_poker_is_nearly_solved_and_worth_minus_one_eighteenth(variant, most):
    game = make_game("kuhn_poker")
    policy = cfr_made(variant=variant, iterations=400).policy(game)
    assert exploitability.nash_conv(game.spiel, policy) < most
    value = expected_game_score.policy_value(game.spiel.new_initial_state(), [policy, policy])
    assert value[0] == pytest.approx(-1 / 18, abs=most)


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
def test_the_policy_is_that_of_openspiels_solver(name, options, variant):
    game = make_game(name, options=options)
    solver = {"cfr": pyspiel.CFRSolver, "cfr_plus": pyspiel.CFRPlusSolver}[variant](game.spiel)
    for _ in range(25):
        solver.evaluate_and_update_policy()
    theirs = solver.tabular_average_policy()
    ours = cfr_made(variant=variant, iterations=25).policy(game)
    stack, visited = [game.spiel.new_initial_state()], set()
    while stack:
        state = stack.pop()
        if not (state.is_terminal() or state.is_chance_node()):
            visited.add(state.information_state_string())
            assert ours.action_probabilities(state) == pytest.approx(theirs.action_probabilities(state), abs=1e-9)
        stack += [state.child(action) for action in state.legal_actions()]
    assert len(visited) > 1


def test_a_game_of_one_seat_is_solved():
    """OpenSpiel's solver comes to 0.5 here: it does not look below actions that no seat takes, and one seat is all of them."""
    game = make_game("urn", options={"urns": 2, "draws": 2})
    policy = cfr_made(iterations=200).policy(game)
    (value,) = expected_game_score.policy_value(game.spiel.new_initial_state(), [policy])
    best = solvers.best_response_value(game, 0, policy)
    assert best == pytest.approx(0.742125) and value == pytest.approx(best, abs=1e-3)


def test_a_game_is_solved_once_per_rules_not_per_object():
    agent = cfr_made(iterations=2)
    assert agent.policy(make_game("kuhn_poker")) is agent.policy(make_game("kuhn_poker", options={"style": "full"}))
    assert agent.policy(make_game("kuhn_poker")) is not agent.policy(make_game("kuhn_poker", options={"players": 3}))


def test_cfr_games_it_does_not_fit_are_refused():
    with pytest.raises(TooLargeError, match="max_histories=1000"):
        cfr_made(max_histories=1000).policy(make_game("connect_four"))
    with pytest.raises(GameError, match="information states"):
        cfr_made().policy(make_game("hanabi"))
    with pytest.raises(ConfigError, match="iterations"):
        cfr_made(iterations=0)
    with pytest.raises(ConfigError, match="variant"):
        cfr_made(variant="cfr++")


def test_the_size_limit_counts_histories():
    from sparring.play.players.cfr import fits

    game = make_game("kuhn_poker")
    # 1 + 3 + 6 deals, then 8 action sequences and their openings per deal
    assert (fits(game, 58), fits(game, 57)) == (
        True,
        False,
    )


def mcts_made(**options):
    return registry.bind("players", "mcts", options)()


def after(*moves, name="tic_tac_toe"):
    state = make_game(name).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


@pytest.mark.parametrize("options", [{}, {"solve": True}, {"rollouts": 4, "uct_c": 1.4}])
def test_it_takes_a_win_and_blocks_a_loss(options):
    agent = mcts_made(simulations=1000, **options)
    for seed in range(5):
        stream = Stream.from_seed(seed)
        assert agent.choose(after("a1", "a2", "b1", "b2"), 0, stream) == "c1"
        assert agent.choose(after("a1", "b2", "b1"), 1, stream) == "c1"
        assert agent.choose(after(*"112233", name="connect_four"), 0, stream) == "4"


def test_search_and_rollouts_are_both_seeded_by_the_stream(monkeypatch):
    seeds, bot, evaluator = [], pyspiel.MCTSBot, pyspiel.RandomRolloutEvaluator
    monkeypatch.setattr(pyspiel, "MCTSBot", lambda *args: seeds.append(args[6]) or bot(*args))
    monkeypatch.setattr(pyspiel, "RandomRolloutEvaluator", lambda *args: seeds.append(args[1]) or evaluator(*args))
    for seed in (0, 1, 0):
        mcts_made(simulations=2).choose(after(), 0, Stream.from_seed(seed))
    assert seeds[:2] == seeds[4:]
    assert len(set(seeds)) == 4


def test_hidden_information_is_refused():
    with pytest.raises(GameError, match="write agent cfr or random"):
        mcts_made().choose(make_game("kuhn_poker").reset(Stream.from_seed(0)), 0, Stream.from_seed(0))


def minimax_made(**options):
    return registry.bind("players", "minimax", options)()


AGENT = minimax_made()


def test_tic_tac_toe_is_a_draw_from_every_first_cell():
    assert set(AGENT.action_values(after()).values()) == {0.0}


def test_values_are_the_moving_seats():
    assert AGENT.action_values(after("a1", "b1")) == {
        "c1": 0.0,
        "a2": 1.0,
        "b2": 1.0,
        "c2": 0.0,
        "a3": 1.0,
        "b3": 0.0,
        "c3": 0.0,
    }
    values = AGENT.action_values(after("b2"))  # the centre is answered by a corner
    assert {action for action, value in values.items() if value == 0.0} == {"a1", "c1", "a3", "c3"}
    assert {value for action, value in values.items() if action[0] == "b" or action[1] == "2"} == {-1.0}


def test_random_moves_are_as_many_as_asked_for():
    state, root, agent = after("a1", "b1"), Stream.from_seed(1), minimax_made(random_moves=0.4)
    actions = [agent.choose(state, 0, root.child(number)) for number in range(4000)]
    for action, share in {"a2": 0.6 / 3 + 0.4 / 7, "c1": 0.4 / 7}.items():
        assert actions.count(action) / 4000 == pytest.approx(share, abs=0.03)
    assert {agent.choose(state, 0, root.child(number)) for number in range(200)} == set(state.legal_actions())
    with pytest.raises(
        ConfigError,
        match=r"players 'minimax', option 'random_moves': Input should be less than or equal to 1, got 2\.0",
    ):
        minimax_made(random_moves=2.0)


def test_minimax_games_it_does_not_fit_are_refused():
    with pytest.raises(GameError, match="write agent mcts or cfr"):
        AGENT.choose(make_game("kuhn_poker").reset(Stream.from_seed(0)), 0, Stream.from_seed(0))
    with pytest.raises(TooLargeError, match="max_states=500"):
        minimax_made(max_states=500).choose(after(), 0, Stream.from_seed(0))
    with pytest.raises(ConfigError, match="max_states"):
        minimax_made(max_states=0)
