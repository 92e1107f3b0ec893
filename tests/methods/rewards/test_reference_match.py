import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.small_runs import config_of, play_step

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.records import Episode, Turn
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.methods.rewards import reference_match as module
from sparring.methods.rewards.best_action import best_action
from sparring.methods.rewards.reference_match import reference_match
from sparring.run.warmup import warm_up

SUDOKU = {"puzzle": "12.4 34.. 2143 4321", "wrong": "continues"}  # r1c3=3, r2c3=1, r2c4=2


def episode_of(turns, game="sudoku"):
    return Episode(
        episode_id=0,
        group_id=0,
        game=game,
        seed=3,
        roles=("solver",),
        agents=("learner",),
        trained=(True,),
        turns=tuple(turns),
        returns=(0.0,),
    )


def rewards_of(name, options, words, **choices):
    """Return an episode's rewards; "!word" is an illegal reply for which the rules played the word, "!" one without a substitute."""
    game = make_game(name, options=options)
    state, turns = game.reset(Stream(3)), []
    for index, word in enumerate(words):
        legal, action = state.legal_actions(), word.strip("!") or None
        turns.append(
            Turn(0, index, "learner", "k", legal, word, action, "illegal" if "!" in word else "ok", {"game": 0.0})
        )
        if action:
            state.apply(action)
    rewards = reference_match(episode_of(turns, name), game, **choices)
    return [round(value, 6) for value in rewards]


THIRDS = round(2 / 3, 6)


@pytest.mark.parametrize("matching", ["km", "greedy"])
def test_by_hand_in_sudoku(matching):
    assert rewards_of("sudoku", SUDOKU, ["r2c4=2", "r1c3=3", "r2c3=1"], matching=matching) == [1.0, 1.0, 1.0]
    assert rewards_of("sudoku", SUDOKU, ["r2c4=2", "r1c3=1", "r2c3=1"], matching=matching) == [1.0, THIRDS, 1.0]
    assert rewards_of("sudoku", SUDOKU, ["r1c3=4"], matching=matching) == [THIRDS]
    assert rewards_of("sudoku", SUDOKU, ["!", "r1c3=3", "!r2c3=1", "!"], matching=matching) == [0.0, 1.0, 0.0, 0.0]
    assert rewards_of("sudoku", SUDOKU, ["!"], matching=matching) == [0.0]
    assert rewards_of("sudoku", SUDOKU, [], matching=matching) == []


def test_by_hand_in_zebra():
    clues = {"houses": 2, "attributes": 2, "puzzle": "h1=red; h2=tea", "wrong": "continues"}
    assert rewards_of("zebra", clues, ["h1=red", "h2=milk", "h1=milk", "h2=red"]) == [1.0, THIRDS, 1.0, THIRDS]


def test_a_plan_is_a_multiset_of_moves():
    options = {"room": "@-$-.", "moves": 9}  # the solution moves right three times
    words = ["right", "left", "right", "left", "right", "right"]
    assert rewards_of("sokoban", options, words) == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert rewards_of("sokoban", options, words, matching="greedy") == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert rewards_of("sokoban", options, words[:2]) == [1.0, 0.0]
    # all columns are equal, so each call is spread over all of them with weight 1/6
    sixth = round(1 / 6, 6)
    assert rewards_of("sokoban", options, words, matching="optimal_transport") == [sixth, 0.0, sixth, 0.0, sixth, sixth]


def match_rewards(actions, reference, **choices):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "has_reference", lambda game: True)
        patch.setattr(module, "replay", lambda game, episode: [None])
        patch.setattr(module, "reference_of", lambda state: None if reference is None else tuple(reference))
        turns = [Turn(0, index, "learner", "k", (), text, text, "ok", {}) for index, text in enumerate(actions)]
        return reference_match(episode_of(turns), None, **choices)


def test_tool_calls_match_exactly_and_as_released():
    calls = ["f(w=1, x=1, y=1, z=1)", "f(w=1, x=3, y=1, z=2)"]
    reference = ['{"name": "f", "arguments": {"w": 1, "x": 1, "y": 1, "z": 2}}', "f(w=2, x=1, y=1, z=1)"]
    assert match_rewards(calls, reference) == pytest.approx((5 / 6, 5 / 6))
    released = registry.bind("rewards", "reference_match", preset="as_released")
    assert released.at(0.0)["matching"] == "greedy"
    assert match_rewards(calls, reference, matching="greedy") == pytest.approx((5 / 6, 1 / 2))
    low_regularisation = match_rewards(calls, reference, matching="optimal_transport", regularisation=0.01)
    assert low_regularisation == pytest.approx((5 / 12, 5 / 12), abs=1e-3)
    high_regularisation = match_rewards(calls, reference, matching="optimal_transport", regularisation=1000.0)
    assert high_regularisation == pytest.approx(((5 + 5) / 24, (5 + 3) / 24), abs=1e-3)


def test_a_turn_of_several_calls_gets_their_mean():
    turn = '[{"name": "f"}, {"name": "g"}, {"name": "f"}]'
    assert match_rewards([turn, "f"], ["f", "f"]) == pytest.approx((2 / 3, 0.0))
    assert match_rewards(["", "g"], ["g"]) == (0.0, 1.0)  # a turn without a call


def test_empty_unmatched_and_unsolved_inputs():
    for matching in ("km", "greedy", "optimal_transport"):
        assert match_rewards([], ["f"], matching=matching) == ()
        assert match_rewards(["f", "f"], [], matching=matching) == (0.0, 0.0)
        assert match_rewards(["f", "g"], None, matching=matching) == (None, None)  # a room too large to solve
        assert match_rewards(["f"], ["f", "g", "h"], matching=matching)[0] == pytest.approx(
            1.0 if matching != "optimal_transport" else 1 / 3
        )
        assert match_rewards(["g"], ["f"], matching=matching) == (0.0,)
    assert match_rewards(["f", "f", "f"], ["f"]) == (1.0, 0.0, 0.0)


TEXTS = st.lists(st.sampled_from(["f", "g", "f(1)", "f(2)", "f(1, 2)", "f(x=1)", "g 1", "g=2"]), max_size=5)


@settings(max_examples=80, deadline=None)
@given(actions=TEXTS, reference=TEXTS, data=st.data())
def test_rewards_are_between_0_and_1_and_ignore_the_references_order(actions, reference, data):
    permuted = data.draw(st.permutations(reference))
    rewards_by_matching = {
        matching_name: match_rewards(actions, reference, matching=matching_name)
        for matching_name in ("km", "greedy", "optimal_transport")
    }
    assert all(0.0 <= value <= 1.0 + 1e-9 for values in rewards_by_matching.values() for value in values)
    assert sum(rewards_by_matching["km"]) >= sum(rewards_by_matching["greedy"]) - 1e-8
    assert sum(rewards_by_matching["optimal_transport"]) <= 1.0 + 1e-6
    assert sum(match_rewards(actions, permuted)) == pytest.approx(sum(rewards_by_matching["km"]), abs=1e-8)
    assert match_rewards(actions, permuted, matching="optimal_transport") == pytest.approx(
        rewards_by_matching["optimal_transport"], abs=1e-6
    )
    assert match_rewards(reference, permuted) == (1.0,) * len(reference)


def test_in_sudoku_reference_match_is_best_action_rescaled():
    game = make_game("sudoku", options={"blanks": 5, "wrong": "continues"})
    judge, root, reward_values = (
        registry.bind("oracles", "constraint", {"lost": "solution"})(),
        Stream.from_seed(0),
        set(),
    )
    for index in range(4):
        state, turns = game.reset(Stream(3)), []
        while not state.done:
            legal = state.legal_actions()
            word = legal[root.child(index).integer(len(turns), len(legal))]
            verdict = judge.judge([state])[0]
            turns.append(Turn(0, len(turns), "learner", "k", legal, word, word, "ok", {}, verdict=verdict))
            state.apply(word)
        episode = episode_of(turns)
        best_action_rewards = best_action(episode)
        assert reference_match(episode, game) == pytest.approx([(2 + value) / 3 for value in best_action_rewards])
        reward_values |= set(best_action_rewards)
    assert reward_values == {0.0, 1.0}


SOKOBAN = {"name": "sokoban", "options": {"rooms": 4, "blocked": "waits"}, "illegal": {"rule": "random"}}
SETTINGS = {
    "rollout": {"games_per_step": 16, "group_size": 4},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1, "context": 512},
    "warmup": {"updates": 25, "games": 16, "learning_rate": 0.03},
    "rewards": [{"name": "reference_match"}],
    "credit": {"name": "match_tir"},
}


def test_a_run_learns_from_reference_match():
    config = config_of(SOKOBAN, **SETTINGS)
    engine = LocalEngine(config)
    warm_up(config, engine)  # some legal replies
    outcome = play_step(config, engine)
    rewards = [[turn.rewards["reference_match"] for turn in episode.turns] for episode in outcome.episodes]
    assert rewards == [list(reference_match(episode, engine.environments[0][0])) for episode in outcome.episodes]
    assert {0.0, 1.0} == {value for values in rewards for value in values}
    assert outcome.metrics["gradient_norm"] > 0 and "abstained/reference_match" not in outcome.metrics


def test_a_game_without_a_reference_is_refused_and_its_reward_is_none(make_episode):
    with pytest.raises(
        ConfigError, match=r"'reference_match' needs a reference.*'tic_tac_toe' has none; play sokoban, sudoku, zebra"
    ):
        config_of(SOKOBAN, {"name": "tic_tac_toe"}, **SETTINGS)
    config_of(SOKOBAN, {"name": "tic_tac_toe", "weight": 0}, **SETTINGS)  # held out
    assert reference_match(make_episode([(0, "ok", 2, 0.0)]), make_game("tic_tac_toe")) == (None,)
