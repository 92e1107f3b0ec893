"""Repeated dilemma: payoffs, hidden choices, equilibrium and uniform play by hand, agreement with OpenSpiel."""

import itertools

import pyspiel
import pytest

from sparring import make_environment, play_episodes, turn_table
from sparring.core.errors import ConfigError
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import TabularScorer, UniformScorer, enumerate_info_states
from tests.environments.worlds import check_contains, make_game_factory, make_refusal_test, state_after

C, D = "cooperate", "defect"
game = make_game_factory("repeated_dilemma")


@pytest.mark.parametrize(("words", "payoffs"), [((C, C), (3, 3)), ((C, D), (0, 5)), ((D, C), (5, 0)), ((D, D), (1, 1))])
def test_payoffs_of_a_round(words, payoffs):
    assert state_after(game(rounds=1), *words).returns == payoffs
    assert state_after(game(), *words).returns == payoffs
    assert state_after(game(), *words, D, C).returns == (payoffs[0] + 5, payoffs[1])
    other_rules = game(rounds=1, temptation=2, reward=1.5, punishment=0, sucker=-1)
    assert state_after(other_rules, *words).returns == tuple({3: 1.5, 0: -1, 5: 2, 1: 0}[value] for value in payoffs)


def test_a_round_is_paid_when_both_seats_have_chosen():
    spiel, rewards = game().spiel.new_initial_state(), []
    for index in (1, 0, 1, 1):
        spiel.apply_action(index)
        rewards.append(spiel.rewards())
    assert rewards == [[0.0, 0.0], [5.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    assert state_after(game(), C, D, C).returns == (0.0, 5.0)


def test_episodes_of_all_choices_match_openspiel():
    utilities = [[5.0, 0.0], [10.0, 1.0]]  # of matrix_pd
    rules = game(rounds=2, reward=5, sucker=0, temptation=10, punishment=1)
    openspiel_game = pyspiel.convert_to_turn_based(
        pyspiel.create_repeated_game(pyspiel.load_matrix_game("matrix_pd"), {"num_repetitions": 2})
    )
    assert pyspiel.load_matrix_game("matrix_pd").row_utilities().tolist() == utilities
    for indices in itertools.product((0, 1), repeat=4):
        our_state, openspiel_state = rules.spiel.new_initial_state(), openspiel_game.new_initial_state()
        for index in indices:
            assert our_state.current_player() == openspiel_state.current_player()
            our_state.apply_action(index)
            openspiel_state.apply_action(index)
        assert our_state.is_terminal() and openspiel_state.is_terminal()
        assert our_state.returns() == openspiel_state.returns()


def test_utilities_and_forfeit_returns_by_hand():
    rules = game(rounds=3, sucker=-1)
    assert (rules.cooperative, rules.zero_sum, rules.utility_sum, rules.min_utility, rules.max_utility) == (
        False,
        False,
        None,
        -3.0,
        15.0,
    )
    assert rules.illegal.forfeit_returns(rules, state_after(rules, C, D), 0) == (-3.0, 5.0)


def test_each_turn_has_the_reward_of_its_round():
    # although seat 1 replies after seat 0
    rules = make_environment("repeated_dilemma", rounds=3, told=False)
    (episode,) = play_episodes(rules, [f"scripted moves=[{','.join(words)}]" for words in ((D, C, C), (C, D, C))])
    turns = turn_table([episode])
    assert turns.seat.tolist() == [0, 0, 0, 1, 1, 1] and turns.turn_index.tolist() == [0, 1, 2, 0, 1, 2]
    assert turns.reward.tolist() == [5.0, 0.0, 3.0, 0.0, 5.0, 3.0]


def test_gains_of_fixed_policies_by_hand():
    report = evaluate_policy(game(), lambda query: D)
    assert (report.values, report.nash_conv) == ((2.0, 2.0), 0.0)
    report = evaluate_policy(game(), lambda query: C)
    assert (report.values, report.gains) == ((6.0, 6.0), (4.0, 4.0))  # defecting gains 5 - 3 in each of two rounds
    report = evaluate_policy(game(), tit_for_tat)
    assert (report.values, report.gains) == ((6.0, 6.0), (2.0, 2.0))  # defecting in the last round earns 3 + 5 = 8


@pytest.mark.parametrize("style", ["brief", "full"])
def test_the_second_seat_does_not_see_the_first_choice_of_a_round(style):
    rules = game(style=style, rounds=3)
    for earlier_words in ((), (C, D), (D, D, C, D)):
        states = [state_after(rules, *earlier_words, choice) for choice in (C, D)]
        for num_known in (0, len(earlier_words)):
            assert states[0].observe(1, num_known) == states[1].observe(1, num_known)
        assert states[0].observe(0).key != states[1].observe(0).key
        observations = [state_after(rules, *earlier_words, choice, C).observe(1) for choice in (C, D)]
        assert (
            observations[0].key != observations[1].key
            and observations[0].text != observations[1].text
            and observations[0].view != observations[1].view
        )


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_uniform_play_and_its_exploitability_by_hand(rounds):
    rules = game(rounds=rounds)
    states = enumerate_info_states(rules)
    report = evaluate_exploitability(rules, states, UniformScorer())
    assert len(states) == 2 * (4**rounds - 1) // 3
    assert report.values == pytest.approx((2.25 * rounds,) * 2)  # (5 + 3 + 1 + 0) / 4 in each round
    assert report.gains == pytest.approx((0.75 * rounds,) * 2)  # defecting earns (5 + 1) / 2 = 3 in each round
    assert report.best_joint_value is None


def evaluate_policy(rules, choose):
    states = enumerate_info_states(rules)
    return evaluate_exploitability(
        rules, states, TabularScorer({(query.seat, query.key): {choose(query): 1.0} for query in states.queries})
    )


def tit_for_tat(query):
    """Cooperate in the first round, then repeat the opponent's last choice."""
    return query.observations[-1] if query.actions else C


def test_views_and_prompts():
    rules = game(rounds=3)
    state, other_state = state_after(rules, C, C, D, C), state_after(rules, D, D, D, C)
    for seat in (0, 1):
        assert state.observe(seat).view == other_state.observe(seat).view == "round 3: dc"
        assert state.observe(seat).key != other_state.observe(seat).key
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
def test_the_number_of_rounds_is_hidden_if_it_is_not_told(style):
    """Episodes of 20 and 60 rounds have equal prompts, views and pictures while both go on."""
    short_rules, long_rules = (game(rounds=rounds, told=False, style=style) for rounds in (20, 60))
    assert short_rules.rules == long_rules.rules and short_rules.vocabulary() == long_rules.vocabulary()
    for words in ((), (C, D), (C, D) * 7, (C, D) * 7 + (D,)):
        short_state, long_state = state_after(short_rules, *words), state_after(long_rules, *words)
        for seat, num_known in itertools.product((0, 1), (0, len(words))):
            assert short_state.observe(seat, num_known) == long_state.observe(seat, num_known)
            assert short_state.described(seat) == long_state.described(seat)
            assert short_state.draw(seat) == long_state.draw(seat)
    assert "20" not in short_rules.rules and "many rounds" in short_rules.rules
    told_rules = [game(rounds=rounds, style="full") for rounds in (5, 6)]
    assert told_rules[0].rules != told_rules[1].rules and "round 1 of 5" in state_after(told_rules[0]).observe(0).text


@pytest.mark.parametrize("seat", [0, 1])
def test_the_view_holds_only_the_last_round_if_rounds_are_not_told(seat):
    """A seat reads its choice before the opponent's choice, and all rounds have one form."""
    rules, other_seat = game(rounds=20, told=False), 1 - seat
    last_choices = [(C, D)[seat], (C, D)[other_seat]]
    assert state_after(rules).observe(seat).view == f"dilemma {rules.roles[seat]}"
    for earlier_words in ((), (D, D), (C, C, D, C)):
        view = state_after(rules, *earlier_words, C, D).observe(seat).view
        assert view.split() == ["dilemma", rules.roles[seat], *last_choices] and set(view.split()) <= set(
            rules.vocabulary()
        )
        assert (
            state_after(rules, *earlier_words, C, D, C).observe(1).view
            == state_after(rules, *earlier_words, C, D, D).observe(1).view
        )
    full_rules = game(rounds=20, told=False, style="full")
    view = state_after(full_rules, D, D, C, D).observe(seat).view
    assert view.startswith(full_rules.rules) and view.endswith(
        f"In the last round you chose {last_choices[0]} and the other player chose {last_choices[1]}."
    )
    assert state_after(full_rules).observe(seat).view.endswith("No round has ended.")
