"""The walk of the whole tree: counts, wording, perfect recall, and games that are too large."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import GameError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.kuhn_poker import KuhnPoker
from sparring.measure.info_states import enumerate_info_states, estimate_histories
from sparring.play.players.base import Reply
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

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
def test_counts(name, options, info_states, histories, ends):
    found = enumerate_info_states(make_game(name, options=options))
    assert (len(found), len(found.tree.parent), len(found.tree.terminal)) == (info_states, histories, ends)
    assert len({(query.seat, query.key) for query in found.queries}) == info_states


def test_kuhn_conversations():
    found = enumerate_info_states(make_game("kuhn_poker"))
    conversations = {query.key: (query.seat, query.observations, query.actions) for query in found.queries}
    assert conversations["0"] == (0, ("kuhn first J",), ())
    assert conversations["1b"] == (1, ("kuhn second Q bet",), ())
    assert conversations["2pb"] == (0, ("kuhn first K", "bet"), ("pass",))
    assert all(query.legal_actions == ("pass", "bet") for query in found.queries)
    assert found.legal_ids == ((0, 1),) * 12


def test_three_seats_are_told_what_happened_since_their_own_turn():
    found = enumerate_info_states(make_game("kuhn_poker", options={"players": 3}))
    (query,) = [query for query in found.queries if query.key == "3pbb"]
    assert (query.observations, query.actions) == (("kuhn first A", "second bet third bet"), ("pass",))


@pytest.mark.parametrize("label", SMALL)
def test_the_tree_has_parents_before_children_and_probabilities_that_sum_to_one(label):
    game = small_game(label)
    found = enumerate_info_states(game)
    tree = found.tree
    assert tree.parent[0] == -1
    assert (tree.parent[1:] < np.arange(1, len(tree.parent))).all()
    assert tree.returns.shape == (len(tree.terminal), game.num_seats)
    children = np.bincount(tree.parent[1:], minlength=len(tree.parent))
    by_chance = np.bincount(tree.parent[1:], weights=np.where(tree.info_state[1:] < 0, tree.chance[1:], 0.0), minlength=len(tree.parent))
    is_chance = np.isin(np.arange(len(tree.parent)), tree.parent[1:][tree.info_state[1:] < 0])
    np.testing.assert_allclose(by_chance[is_chance], 1.0)
    for node in np.flatnonzero(~is_chance & (children > 0)):
        (number,) = set(tree.info_state[tree.parent == node].tolist())
        assert tree.choice[tree.parent == node].tolist() == list(range(len(found.queries[number].legal_actions)))
    assert (children[tree.terminal] == 0).all()


class _Leak(KuhnPoker):
    def told(self, state, seat, since):
        told, ask = super().told(state, seat, since)
        return told + (f" {state.trail[0].action}" if seat == 1 else ""), ask


def test_a_wording_that_breaks_perfect_recall_is_refused():
    with pytest.raises(GameError, match="breaks perfect recall: seat 1"):
        enumerate_info_states(_Leak(players=2))


def test_too_many_information_states_say_how_far_the_walk_came_and_what_to_do():
    with pytest.raises(TooLargeError, match=r"stopped after 2,000 information states.*limit is 2,000.*sparring evaluate RUN"):
        enumerate_info_states(make_game("tic_tac_toe"), limit=2000)


def test_the_limit_itself_is_allowed():
    assert len(enumerate_info_states(make_game("kuhn_poker"), limit=12)) == 12
    with pytest.raises(TooLargeError):
        enumerate_info_states(make_game("kuhn_poker"), limit=11)


def test_many_histories_on_few_information_states_are_too_large_too(monkeypatch):
    monkeypatch.setattr("sparring.measure.info_states.HISTORIES_PER_INFO_STATE", 2)
    with pytest.raises(TooLargeError, match="stopped after 24 histories"):
        enumerate_info_states(make_game("kuhn_poker"), limit=12)


@pytest.mark.parametrize("name", ["chess", "go", "connect_four"])
def test_hopeless_games_are_refused(name):
    with pytest.raises(TooLargeError, match="random plays estimate at least"):
        enumerate_info_states(make_game(name), limit=1000)


def test_a_game_without_information_states_is_refused():
    with pytest.raises(GameError, match="needs information-state strings and OpenSpiel has none"):
        enumerate_info_states(make_game("backgammon"))


def test_the_estimate_of_the_number_of_histories_is_unbiased():
    game = make_game("kuhn_poker")  # 30 ends; plays estimate 3 * 2 * (2 * 2 or 2 * 2 * 2)
    assert estimate_histories(game, probes=4000) == pytest.approx(30, abs=0.6)  # standard error 0.16


class _Letters:
    """A renderer whose ids are code points, so that segments can be read back."""

    prefix_stable, exact_answers, stop_ids = True, False, ()

    def read(self, text):
        return text

    def initial(self, text):
        return tuple(map(ord, text))

    append = initial

    def close(self, truncated):
        return ()


class _Walker:
    name, renderer = "walker", _Letters()

    def act(self, turns):
        chosen = [turn.state.legal_actions()[turn.stream.integer(0, len(turn.state.legal_actions()))] for turn in turns]
        return [Reply(text=text, ids=tuple(map(ord, text)), logprobs=(0.0,) * len(text)) for text in chosen]


def conversations_of(episode, seat):
    told, said, out = (), (), []
    for turn in (turn for turn in episode.turns if turn.seat == seat):
        told = (*told, "".join(chr(i) for s in turn.segments if s.kind in ("prompt", "context") for i in s.ids))
        out.append((turn.state_key, told, said, turn.legal_actions))
        said = (*said, "".join(chr(i) for s in turn.segments if s.kind == "sampled" for i in s.ids))
    return out


@pytest.mark.parametrize("label", [*SMALL, "leduc_poker", "liars_dice"])
def test_queries_are_what_a_rollout_tells(label):
    game = small_game(label) if label in SMALL else make_game(label, options={"liars_dice": {"dice": 1, "sides": 4}}.get(label, {}))
    found = enumerate_info_states(game)
    known = {(q.seat, q.key): (q.key, q.observations, q.actions, q.legal_actions) for q in found.queries}

    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 2**32))
    def check(seed):
        stream = Stream.from_seed(seed)
        seats, trained = ("walker",) * game.num_seats, (True,) * game.num_seats
        specs = [
            EpisodeSpec(
                game=game, episode_id=i, group_id=i, deal=stream.child("deal").child(i), stream=stream.child("play").child(i), seats=seats, trained=trained,
            )
            for i in range(20)
        ]
        for episode in play(specs, {"walker": _Walker()}):
            for seat in range(game.num_seats):
                for conversation in conversations_of(episode, seat):
                    assert known[seat, conversation[0]] == conversation

    check()
