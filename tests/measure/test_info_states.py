from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError, SparringError, TooLargeError
from sparring.core.records import SamplingParams
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.environments.kuhn_poker import KuhnPoker
from sparring.measure.exploitability import history_reach, info_state_reach
from sparring.measure.info_states import (
    Query,
    TabularScorer,
    enumerate_info_states,
    estimate_histories,
    exact_values,
    renormalise,
)
from sparring.measure.lab_episodes import TablePolicy, exact_gradient, play_table, random_table
from sparring.measure.matches import play_matches
from sparring.models.language_model import LanguageModel
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.ops.statistics import wilson_interval
from sparring.play.players.base import Reply, TextAgent
from sparring.play.players.policy import policy
from sparring.play.players.random import RandomAgent
from sparring.play.rollout import play
from tests.play.plays import make_specs

SMALL = {"kuhn_poker": {}, "kuhn_poker_3": {"players": 3}, "tiny_hanabi": {}, "matrix_mp": {}}


def small_game(label):
    return make_game(label.removesuffix("_3"), options=SMALL[label])


@pytest.mark.parametrize(
    ("name", "options", "info_states", "histories", "ends"),
    [
        ("kuhn_poker", {}, 12, 58, 30),
        ("kuhn_poker", {"players": 3}, 48, 617, 312),
        ("leduc_poker", {}, 288, 1939, 1116),
        ("tiny_hanabi", {}, 8, 55, 36),
        ("liars_dice", {"dice": 1, "sides": 4}, 1024, 8181, 4080),
        ("matrix_mp", {}, 2, 7, 4),
    ],
)
def test_numbers_of_information_states_and_histories(name, options, info_states, histories, ends):
    states = enumerate_info_states(make_game(name, options=options))
    assert (len(states), len(states.tree.parent), len(states.tree.terminal)) == (info_states, histories, ends)
    assert len({(query.seat, query.key) for query in states.queries}) == info_states


def test_kuhn_conversations():
    states = enumerate_info_states(make_game("kuhn_poker"))
    conversations = {query.key: (query.seat, query.observations, query.actions) for query in states.queries}
    assert conversations["0"] == (0, ("kuhn first J",), ())
    assert conversations["1b"] == (1, ("kuhn second Q bet",), ())
    assert conversations["2pb"] == (0, ("kuhn first K", "bet"), ("pass",))
    assert all(query.legal_actions == ("pass", "bet") for query in states.queries)
    assert states.legal_ids == ((0, 1),) * 12


def test_three_seats_observe_what_happened_since_their_turn():
    states = enumerate_info_states(make_game("kuhn_poker", options={"players": 3}))
    (query,) = [query for query in states.queries if query.key == "3pbb"]
    assert (query.observations, query.actions) == (("kuhn first A", "second bet third bet"), ("pass",))


class _LeakingKuhnPoker(KuhnPoker):
    def tell_seat(self, state, seat, since):
        text, question = super().tell_seat(state, seat, since)
        return text + (f" {state.trail[0].action}" if seat == 1 else ""), question


def test_a_wording_that_breaks_perfect_recall_is_refused():
    with pytest.raises(GameError, match="breaks perfect recall: seat 1"):
        enumerate_info_states(_LeakingKuhnPoker(players=2))


def test_too_many_information_states_report_progress_and_the_fix():
    with pytest.raises(
        TooLargeError, match=r"stopped after 2,000 information states.*limit is 2,000.*sparring evaluate RUN"
    ):
        enumerate_info_states(make_game("tic_tac_toe"), limit=2000)


def test_the_limit_itself_is_allowed():
    assert len(enumerate_info_states(make_game("kuhn_poker"), limit=12)) == 12
    with pytest.raises(TooLargeError):
        enumerate_info_states(make_game("kuhn_poker"), limit=11)


def test_too_many_histories_are_refused_even_with_few_information_states(monkeypatch):
    monkeypatch.setattr("sparring.measure.info_states.HISTORIES_PER_INFO_STATE", 2)
    with pytest.raises(TooLargeError, match="stopped after 24 histories"):
        enumerate_info_states(make_game("kuhn_poker"), limit=12)


@pytest.mark.parametrize("name", ["chess", "go", "connect_four"])
def test_far_too_large_games_are_refused(name):
    with pytest.raises(TooLargeError, match="random plays estimate at least"):
        enumerate_info_states(make_game(name), limit=1000)


def test_a_game_without_information_states_is_refused():
    with pytest.raises(GameError, match="needs information-state strings and OpenSpiel has none"):
        enumerate_info_states(make_game("backgammon"))


def test_the_estimate_of_the_number_of_histories_is_unbiased():
    game = make_game("kuhn_poker")  # 30 terminal histories; one episode estimates 3 * 2 * (2 * 2 or 2 * 2 * 2)
    assert estimate_histories(game, probes=4000) == pytest.approx(30, abs=0.6)  # standard error 0.16


class _CodePointRenderer:
    """A renderer whose token ids are code points, so that segments can be decoded."""

    prefix_stable, exact_answers, stop_ids = True, False, ()

    def read(self, text):
        return text

    def initial(self, text):
        return tuple(map(ord, text))

    append = initial

    def close(self, truncated):
        return ()


class _RandomWalker:
    name, renderer = "walker", _CodePointRenderer()

    def act(self, turns):
        actions = [
            turn.state.legal_actions()[turn.stream.integer(0, len(turn.state.legal_actions()))] for turn in turns
        ]
        return [Reply(text=text, ids=tuple(map(ord, text)), logprobs=(0.0,) * len(text)) for text in actions]


def conversations_of(episode, seat):
    prompts, replies, conversations = (), (), []
    for turn in (turn for turn in episode.turns if turn.seat == seat):
        prompts = (*prompts, "".join(chr(i) for s in turn.segments if s.kind in ("prompt", "context") for i in s.ids))
        conversations.append((turn.state_key, prompts, replies, turn.legal_actions))
        replies = (*replies, "".join(chr(i) for s in turn.segments if s.kind == "sampled" for i in s.ids))
    return conversations


@pytest.mark.parametrize("label", [*SMALL, "leduc_poker", "liars_dice"])
def test_queries_equal_the_conversations_of_rollouts(label):
    game = (
        small_game(label)
        if label in SMALL
        else make_game(label, options={"liars_dice": {"dice": 1, "sides": 4}}.get(label, {}))
    )
    states = enumerate_info_states(game)
    query_by_key = {
        (query.seat, query.key): (query.key, query.observations, query.actions, query.legal_actions)
        for query in states.queries
    }

    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 2**32))
    def check_conversations(seed):
        for episode in play(make_specs(game, 20, seed, "walker"), {"walker": _RandomWalker()}):
            for seat in range(game.num_seats):
                for conversation in conversations_of(episode, seat):
                    assert query_by_key[seat, conversation[0]] == conversation

    check_conversations()


QUERY = Query(
    game="kuhn_poker", seat=0, key="0", observations=("kuhn first J",), actions=(), legal_actions=("pass", "bet")
)
DISTRIBUTIONS = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=6).map(lambda w: np.array(w) / sum(w))


def test_a_table_is_read_by_seat_and_key_and_missing_actions_are_zero():
    scorer = TabularScorer({(0, "0"): {"bet": 0.25}, (1, "0"): {"bet": 1.0}})
    (row,) = scorer.action_logprobs([QUERY])
    np.testing.assert_array_equal(row, [-np.inf, np.log(0.25)])


def test_a_table_without_the_information_state_says_which_row_to_add():
    with pytest.raises(GameError, match=r"seat 0 of kuhn_poker in information state '0'.*\(0, '0'\): \{'pass': 1.0\}"):
        TabularScorer({(1, "0"): {"pass": 1.0}}).action_logprobs([QUERY])


@given(DISTRIBUTIONS, st.floats(1e-3, 1.0))
def test_renormalising_a_scaled_policy_gives_the_policy_and_the_missing_mass(policy, scale):
    result, illegal_mass = renormalise(np.log(policy * scale))
    np.testing.assert_allclose(result, policy, rtol=1e-12)
    assert illegal_mass == pytest.approx(1.0 - scale, abs=1e-12)


@pytest.mark.parametrize(
    ("logprobs", "policy", "illegal"),
    [
        ([0.0], [1.0], 0.0),
        ([-np.inf, -np.inf], [0.5, 0.5], 1.0),
        ([-1000.0, -1000.0 + np.log(3.0)], [0.25, 0.75], 1.0),  # both round to probability 0
        ([-np.inf, 0.0], [0.0, 1.0], 0.0),
        ([np.log(0.5) + 1e-7, np.log(0.5) + 1e-7], [0.5, 0.5], 0.0),  # float32 noise gives no negative illegal mass
    ],
)
def test_renormalising_rows_with_tiny_or_noisy_mass(logprobs, policy, illegal):
    result, illegal_mass = renormalise(np.array(logprobs))
    np.testing.assert_allclose(result, policy, rtol=1e-12)
    assert illegal_mass == pytest.approx(illegal, abs=1e-12)
    assert 0.0 <= illegal_mass <= 1.0


@pytest.mark.parametrize("logprobs", [[np.nan, 0.0], [np.inf, 0.0], [0.0, np.log(0.1)], [5000.0, 0.0]])
def test_values_that_cannot_be_log_probabilities_are_refused(logprobs):
    with pytest.raises(SparringError, match="og-probabilities"):
        renormalise(np.array(logprobs))


def game_and_random_table(name, seed=0):
    game = make_game(name)
    return game, random_table(enumerate_info_states(game), Stream.from_seed(seed))


def softmax_table(states, logits):
    rows = np.split(logits, np.cumsum([len(query.legal_actions) for query in states.queries])[:-1])
    return TablePolicy.of(states, [np.exp(row) / np.exp(row).sum() for row in rows])


# in this order: zero-sum with 2 actions, cooperative with 3 actions, general-sum, variable length, one seat
@pytest.mark.parametrize("name", ["kuhn_poker", "tiny_hanabi", "repeated_dilemma", "signalling", "needle_chain"])
def test_the_exact_gradient_equals_finite_differences(name):
    _, policy = game_and_random_table(name)
    logits, step = np.log(policy.flat), 1e-5
    differences = []
    for index, seat in enumerate(policy.seats):
        shifted_returns = []
        for sign in (1, -1):
            shifted_logits = logits.copy()
            shifted_logits[index] += sign * step
            table = softmax_table(policy.states, shifted_logits)
            shifted_returns.append(exact_values(table.states, table.rows).returns[seat])
        differences.append((shifted_returns[0] - shifted_returns[1]) / (2 * step))
    gradient = exact_gradient(policy)
    assert gradient == pytest.approx(np.array(differences), abs=1e-8)
    assert np.abs(gradient).max() > 0.01


def test_a_random_table_is_determined_by_its_seed_and_not_uniform():
    _, policy = game_and_random_table("leduc_poker")
    assert [row.sum() for row in policy.rows] == pytest.approx([1.0] * len(policy.states))
    assert np.array_equal(policy.flat, game_and_random_table("leduc_poker")[1].flat)
    assert not np.array_equal(policy.flat, game_and_random_table("leduc_poker", seed=1)[1].flat)
    assert policy.flat.min() > 1e-3
    assert np.mean([row.max() - row.min() for row in policy.rows]) > 0.3


def test_the_agent_plays_the_probabilities_of_the_table():
    game, policy = game_and_random_table("kuhn_poker")
    episodes = play_table(game, policy, batches=60, batch_size=64, group_size=8, stream=Stream.from_seed(3))
    action_counts = Counter((turn.seat, turn.state_key, turn.action) for episode in episodes for turn in episode.turns)
    for query, row in zip(policy.states.queries, policy.rows, strict=True):
        counts = np.array([action_counts[query.seat, query.key, action] for action in query.legal_actions])
        assert counts / counts.sum() == pytest.approx(row, abs=4 * np.sqrt(0.25 / counts.sum()))
    assert all(turn.event == "ok" for episode in episodes for turn in episode.turns)


def test_members_of_a_group_share_their_deal_and_act_independently():
    game, policy = game_and_random_table("kuhn_poker")
    episodes = play_table(game, policy, batches=4, batch_size=64, group_size=8, stream=Stream.from_seed(3))
    groups = [episodes[begin : begin + 8] for begin in range(0, len(episodes), 8)]
    assert all(
        len({(episode.seed, episode.group_id, episode.turns[0].state_key) for episode in group}) == 1
        for group in groups
    )
    assert len({group[0].seed for group in groups}) == len(groups)
    assert any(len({episode.returns for episode in group}) > 1 for group in groups)


KUHN = make_game("kuhn_poker")
STATES = enumerate_info_states(KUHN)


def random_policy(states, seed):
    generator = np.random.Generator(np.random.Philox(seed))
    return [generator.dirichlet(np.ones(len(query.legal_actions))) for query in states.queries]


def uniform_policy(states):
    return [np.full(len(query.legal_actions), 1 / len(query.legal_actions)) for query in states.queries]


def values_by_recursion(game, states, policy):
    """Return Q and V by a recursion over OpenSpiel's states; each information state sums over its histories."""
    index_by_key = {(query.seat, query.key): index for index, query in enumerate(states.queries)}
    sums = [np.zeros((len(row), 2)) for row in policy]

    def walk(state, reach):  # reach: probability of the moves of chance and all other seats
        if state.is_terminal():
            return np.array(state.returns())
        if state.is_chance_node():
            return sum(
                probability * walk(state.child(action), reach * probability)
                for action, probability in state.chance_outcomes()
            )
        seat = state.current_player()
        index = index_by_key[seat, game.state_of(state).observe(seat).key]
        values = np.zeros(game.num_seats)
        for choice, action in enumerate(states.legal_ids[index]):
            probability = policy[index][choice]
            factor = np.full(game.num_seats, probability)
            factor[seat] = 1.0
            child_values = walk(state.child(action), reach * factor)
            sums[index][choice] += reach[seat] * np.array([child_values[seat], 1.0])
            values = values + probability * child_values
        return values

    returns = walk(game.spiel.new_initial_state(), np.ones(game.num_seats))
    return [sums_of_state[:, 0] / sums_of_state[:, 1] for sums_of_state in sums], returns


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("name", ["kuhn_poker", "tiny_hanabi"])
def test_values_equal_a_plain_recursion(name, seed):
    game = make_game(name)
    states = enumerate_info_states(game)
    policy = random_policy(states, seed)
    values = exact_values(states, policy)
    action_values, returns = values_by_recursion(game, states, policy)
    for values_of_row, expected_values in zip(values.action, action_values, strict=True):
        assert values_of_row == pytest.approx(expected_values)
    assert values.returns == pytest.approx(returns)
    assert values.state == pytest.approx(
        [probabilities @ values_of_row for probabilities, values_of_row in zip(policy, action_values, strict=True)]
    )
    assert values.reach == pytest.approx(info_state_reach(states, history_reach(states, policy)))


def test_values_of_uniform_kuhn_by_hand():
    values = exact_values(STATES, uniform_policy(STATES))
    number = {(query.seat, query.key): index for index, query in enumerate(STATES.queries)}
    facing_bet = number[1, "2b"]  # the king faces a bet: folding loses the ante, calling wins 2
    assert values.action[facing_bet].tolist() == pytest.approx([-1.0, 2.0])
    assert values.state[facing_bet] == pytest.approx(0.5)
    assert values.returns == pytest.approx([0.125, -0.125])  # known value of uniform play


def test_unreached_states_have_values_from_the_other_seats_reach():
    policy = uniform_policy(STATES)
    for index, query in enumerate(STATES.queries):
        if query.seat == 0 and len(query.actions) == 0:
            policy[index] = np.array([0.0, 1.0])  # the first player always bets, so it never acts a second time
    values = exact_values(STATES, policy)
    second_decisions = [index for index, query in enumerate(STATES.queries) if query.seat == 0 and query.actions]
    assert values.reach[second_decisions] == pytest.approx(np.zeros(3))
    assert values.action[second_decisions[0]].tolist() == pytest.approx([-1.0, -2.0])  # the jack that faces a bet


class AlwaysPasses(TextAgent):
    def choose(self, state, seat, stream):
        return "pass"


def untrained(game, *, seed=3, **params):
    tokenizer = tiny_tokenizer(game.vocabulary())
    network = tiny_model(
        vocabulary_size=len(tokenizer), stream=Stream.from_seed(seed), hidden_size=16, layers=1, heads=2, context=64
    )
    model = LanguageModel(network, tokenizer)
    renderer = bind("render", "plain")(tokenizer)
    return policy(
        sampler=bind("samplers", "in_process")(model),
        renderer=renderer,
        params=SamplingParams(max_new_tokens=2, **params),
    )


@pytest.mark.always
@pytest.mark.parametrize("temperature", [1.0, 0.2])  # with seed 186 and temperature 0.2 the model often plays "bet"
def test_probabilities_of_actions_are_the_frequencies_of_play(temperature):
    game = make_game("kuhn_poker")
    agent = untrained(game, seed=186, temperature=temperature)
    seats = ("you", "me")
    match_specs = [
        replace(spec, seats=seats[::-1] if i % 2 else seats) for i, spec in enumerate(make_specs(game, 12_000))
    ]
    replies = {}
    for episode in play(match_specs, {"me": agent, "you": AlwaysPasses("you")}):
        seat = episode.agents.index("me")
        turn = next(turn for turn in episode.turns if turn.seat == seat)
        replies.setdefault((seat, turn.state_key), []).append(None if turn.truncated else turn.reply)
    assert len(replies) == 6  # each card, first to act and after a pass
    queries = [query for query in enumerate_info_states(game).queries if (query.seat, query.key) in replies]
    for query, row in zip(queries, agent.action_logprobs(queries), strict=True):
        texts = replies[query.seat, query.key]
        for action, logprob in zip(query.legal_actions, row, strict=True):
            interval = wilson_interval(texts.count(action), len(texts), level=0.9999)
            assert interval.low < np.exp(logprob) < interval.high


def test_a_match_plays_as_few_games_at_once_as_the_run():
    """With 200 simultaneous games, a small KV cache evicts each game before its next turn; results are unchanged."""
    model = {"hidden_size": 16, "layers": 1, "heads": 1}
    changes = {"threads": 1, "sampler": {"name": "in_process", "cache_bytes": 40_000}, "rollout": {"in_flight": 8}}
    engine = LocalEngine(
        resolve({"environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}}], "model": model, **changes})
    )
    agent, results = engine.agent("policy"), {}
    for in_flight in (agent.in_flight, None):
        agent.in_flight = in_flight
        agent.sampler.refresh()
        tokens_before = agent.sampler.tokens_computed
        report = play_matches(
            engine.environments[0][0], agent, RandomAgent("random"), games_per_seat=100, stream=Stream.from_seed(0)
        )
        results[in_flight] = agent.sampler.tokens_computed - tokens_before, report
    assert results[8][1] == results[None][1] and results[8][0] < 0.7 * results[None][0]
