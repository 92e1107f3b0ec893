"""Repeated dilemma: payoffs, what is hidden until a round ends, equilibrium and uniform play by hand, agreement with OpenSpiel."""

import itertools

import pyspiel
import pytest

from sparring import make_environment, play_episodes, turn_table
from sparring.core.errors import ConfigError
from sparring.measure.exploitability import nash_conv
from sparring.measure.info_states import TabularScorer, UniformScorer, enumerate_info_states
from tests.environments.worlds import check_contains, make_game_factory, make_refusal_test, state_after

C, D = "cooperate", "defect"
game = make_game_factory("repeated_dilemma")


@pytest.mark.parametrize(("words", "pay"), [((C, C), (3, 3)), ((C, D), (0, 5)), ((D, C), (5, 0)), ((D, D), (1, 1))])
def test_payoffs_of_a_round(words, pay):
    assert state_after(game(rounds=1), *words).returns == pay
    assert state_after(game(), *words).returns == pay
    assert state_after(game(), *words, D, C).returns == (pay[0] + 5, pay[1])
    other = game(rounds=1, temptation=2, reward=1.5, punishment=0, sucker=-1)
    assert state_after(other, *words).returns == tuple({3: 1.5, 0: -1, 5: 2, 1: 0}[value] for value in pay)


def test_it_is_openspiels_prisoners_dilemma_repeated():
    spiel, rewards = game().spiel.new_initial_state(), []
    for index in (1, 0, 1, 1):
        spiel.apply_action(index)
        rewards.append(spiel.rewards())
    assert rewards == [[0.0, 0.0], [5.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    assert state_after(game(), C, D, C).returns == (0.0, 5.0)
    utilities = [[5.0, 0.0], [10.0, 1.0]]  # of matrix_pd
    rules = game(rounds=2, reward=5, sucker=0, temptation=10, punishment=1)
    theirs = pyspiel.convert_to_turn_based(
        pyspiel.create_repeated_game(pyspiel.load_matrix_game("matrix_pd"), {"num_repetitions": 2})
    )
    assert pyspiel.load_matrix_game("matrix_pd").row_utilities().tolist() == utilities
    for moves in itertools.product((0, 1), repeat=4):
        mine, other = rules.spiel.new_initial_state(), theirs.new_initial_state()
        for index in moves:
            assert mine.current_player() == other.current_player()
            mine.apply_action(index)
            other.apply_action(index)
        assert mine.is_terminal() and other.is_terminal()
        assert mine.returns() == other.returns()
    rules = game(rounds=3, sucker=-1)
    assert (rules.cooperative, rules.zero_sum, rules.utility_sum, rules.min_utility, rules.max_utility) == (
        False,
        False,
        None,
        -3.0,
        15.0,
    )
    assert rules.illegal.forfeit_returns(rules, state_after(rules, C, D), 0) == (-3.0, 5.0)
    # Both seats' turns t have what round t paid them, though seat 1 replies after seat 0.
    rules = make_environment("repeated_dilemma", rounds=3, told=False)
    (episode,) = play_episodes(rules, [f"scripted moves=[{','.join(words)}]" for words in ((D, C, C), (C, D, C))])
    turns = turn_table([episode])
    assert turns.seat.tolist() == [0, 0, 0, 1, 1, 1] and turns.turn_index.tolist() == [0, 1, 2, 0, 1, 2]
    assert turns.reward.tolist() == [5.0, 0.0, 3.0, 0.0, 5.0, 3.0]
    report = fixed(game(), lambda query: D)
    assert (report.values, report.nash_conv) == ((2.0, 2.0), 0.0)
    report = fixed(game(), lambda query: C)
    assert (report.values, report.gains) == ((6.0, 6.0), (4.0, 4.0))  # 5 instead of 3, twice
    report = fixed(game(), tit_for_tat)
    assert (report.values, report.gains) == ((6.0, 6.0), (2.0, 2.0))  # defect in the last round: 3 + 5


@pytest.mark.parametrize("style", ["brief", "full"])
def test_the_second_seat_does_not_see_the_open_choice(style):
    rules = game(style=style, rounds=3)
    for before in ((), (C, D), (D, D, C, D)):
        seen = [state_after(rules, *before, choice) for choice in (C, D)]
        for since in (0, len(before)):
            assert seen[0].observe(1, since) == seen[1].observe(1, since)
        assert seen[0].observe(0).key != seen[1].observe(0).key
        later = [state_after(rules, *before, choice, C).observe(1) for choice in (C, D)]
        assert later[0].key != later[1].key and later[0].text != later[1].text and later[0].view != later[1].view


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_uniform_play_and_its_exploitability_by_hand(rounds):
    rules = game(rounds=rounds)
    states = enumerate_info_states(rules)
    report = nash_conv(rules, states, UniformScorer())
    assert len(states) == 2 * (4**rounds - 1) // 3
    assert report.values == pytest.approx((2.25 * rounds,) * 2)  # (5 + 3 + 1 + 0) / 4 in each round
    assert report.gains == pytest.approx((0.75 * rounds,) * 2)  # defecting earns (5 + 1) / 2
    assert report.best_joint_value is None


def fixed(rules, choose):
    states = enumerate_info_states(rules)
    return nash_conv(rules, states, TabularScorer({(q.seat, q.key): {choose(q): 1.0} for q in states.queries}))


def tit_for_tat(query):
    """Cooperate at first, then do what the other seat did in the round before."""
    return query.observations[-1] if query.actions else C


def test_views_and_wording():
    rules = game(rounds=3)
    state, other = state_after(rules, C, C, D, C), state_after(rules, D, D, D, C)
    for seat in (0, 1):
        assert state.observe(seat).view == other.observe(seat).view == "round 3: dc"
        assert state.observe(seat).key != other.observe(seat).key
    assert state_after(rules, D, C).observe(1).view == "round 2: dc"
    rules = game()
    assert state_after(rules, C, D).observe(0, 1).text == D
    assert state_after(rules, C, D, D).observe(1, 2).text == C
    assert state_after(rules, C, D, D).observe(1).text == "dilemma column defect cooperate"
    text = state_after(game(style="full"), C, D, D).observe(1, 2).text
    check_contains(
        text,
        "Round 1: you chose defect and the other player chose cooperate. You get 5 point(s), the other player 0.",
        "This is round 2 of 2. Points so far: 5 for you, 0 for the other player.",
        "Legal actions: cooperate, defect.",
    )
    assert "Round 2" not in text
    assert "Round 2: you chose defect." in state_after(game(style="full"), C, D, D).observe(0).text
    assert "each gets 2.5 point(s)" in game(style="full", reward=2.5).rules
    assert game(rounds=100, told=False).max_turns == 200
    with pytest.raises(ConfigError, match="rounds=101 must be at least 1 and at most 100"):
        game(rounds=101, told=False)


test_options_out_of_range_are_refused = make_refusal_test(
    "repeated_dilemma", {"rounds": 0}, {"rounds": 7}, {"reward": 5}, {"sucker": 1}, {"punishment": 4}
)


@pytest.mark.parametrize("style", ["brief", "full"])
def test_nothing_says_how_many_rounds_there_are_if_that_is_not_told(style):
    """Plays of 20 and of 60 rounds are told, shown and drawn alike, as long as both go on."""
    short, long = (game(rounds=rounds, told=False, style=style) for rounds in (20, 60))
    assert short.rules == long.rules and short.vocabulary() == long.vocabulary()
    for words in ((), (C, D), (C, D) * 7, (C, D) * 7 + (D,)):
        few, many = state_after(short, *words), state_after(long, *words)
        for seat, since in itertools.product((0, 1), (0, len(words))):
            assert few.observe(seat, since) == many.observe(seat, since)
            assert few.described(seat) == many.described(seat)
            assert few.draw(seat) == many.draw(seat)
    assert "20" not in short.rules and "many rounds" in short.rules
    known = [game(rounds=rounds, style="full") for rounds in (5, 6)]
    assert known[0].rules != known[1].rules and "round 1 of 5" in state_after(known[0]).observe(0).text


@pytest.mark.parametrize("seat", [0, 1])
def test_the_view_is_the_last_round_alone_if_rounds_are_not_told(seat):
    """In words of the vocabulary, own choice first, and alike in every round."""
    rules, other = game(rounds=20, told=False), 1 - seat
    last = [(C, D)[seat], (C, D)[other]]
    assert state_after(rules).observe(seat).view == f"dilemma {rules.roles[seat]}"
    for before in ((), (D, D), (C, C, D, C)):
        view = state_after(rules, *before, C, D).observe(seat).view
        assert view.split() == ["dilemma", rules.roles[seat], *last] and set(view.split()) <= set(rules.vocabulary())
        assert (
            state_after(rules, *before, C, D, C).observe(1).view == state_after(rules, *before, C, D, D).observe(1).view
        )
    full = game(rounds=20, told=False, style="full")
    view = state_after(full, D, D, C, D).observe(seat).view
    assert view.startswith(full.rules) and view.endswith(
        f"In the last round you chose {last[0]} and the other player chose {last[1]}."
    )
    assert state_after(full).observe(seat).view.endswith("No round has ended.")
