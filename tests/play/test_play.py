import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import GameError, RolloutError
from sparring.environments.catalogue import make_game
from sparring.play.players.base import Reply
from sparring.play.players.random import random
from sparring.play.players.scripted import scripted
from sparring.play.rollout import play, rollout
from sparring.play.turn_table import ordered_turns, turn_table
from tests.play.plays import make_specs, tiny_learner

GAMES = ["kuhn_poker", "tic_tac_toe", "leduc_poker"]


@pytest.mark.always
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(GAMES), st.sampled_from(["forfeit", "retry", "random"]), st.integers(0, 10**6), st.integers(1, 3)
)
def test_segments_concatenate_to_the_exact_ids_sent(name, rule, seed, max_new_tokens):
    game = make_game(name, illegal={"rule": rule, "penalty": 0.25})
    agent, recorder = tiny_learner(game, max_new_tokens)
    episodes = play(make_specs(game, 8, seed), {"learner": agent})
    sent_ids = set(recorder.sent)
    for episode in episodes:
        for seat in range(game.num_seats):
            ids = ()
            for turn in (turn for turn in episode.turns if turn.seat == seat):
                for segment in turn.segments:
                    if segment.kind == "sampled":
                        assert ids in sent_ids
                        assert len(segment.logprobs) == len(segment.ids)
                    ids += segment.ids
                assert turn.segments[0].kind == ("context" if turn.turn_index else "prompt")
        for seat, value in enumerate(episode.returns):
            total_reward = sum(turn.rewards["game"] for turn in episode.turns if turn.seat == seat)
            if any(turn.seat == seat for turn in episode.turns):
                assert total_reward == pytest.approx(value)


@pytest.mark.parametrize("name", GAMES)
def test_the_number_of_games_in_flight_changes_nothing(name):
    game = make_game(name, illegal={"rule": "random"})
    one_by_one, five_in_flight, all_at_once = (
        play(make_specs(game, 12), {"learner": tiny_learner(game)[0]}, in_flight=in_flight)
        for in_flight in (1, 5, 1000)
    )

    def turns_of_episodes(episodes):
        return [[(turn.seat, turn.reply, turn.action) for turn in episode.turns] for episode in episodes]

    assert turns_of_episodes(one_by_one) == turns_of_episodes(five_in_flight) == turns_of_episodes(all_at_once)
    assert [episode_.episode_id for episode_ in five_in_flight] == list(range(12))


def test_a_group_shares_its_deal_and_groups_have_different_deals():
    game = make_game("leduc_poker")
    bot = random()
    episodes = play(make_specs(game, 64, name="bot", group_size=8), {"bot": bot})
    first_keys = {}
    for episode in episodes:
        first_keys.setdefault(episode.group_id, set()).add(
            (episode.turns[0].state_key, episode.turns[1].state_key[:20])
        )
        assert episode.seed == episodes[episode.group_id * 8].seed
    assert all(len({key for key, _ in keys}) == 1 for keys in first_keys.values())
    assert len({next(iter(keys))[0] for keys in first_keys.values()}) > 1
    assert len({tuple(turn.action for turn in episode.turns) for episode in episodes[:8]}) > 1


@pytest.mark.parametrize("players", [2, 3])
def test_a_forfeiture_pays_the_others(players):
    game = make_game("kuhn_poker", options={"players": players}, illegal={"rule": "forfeit", "penalty": 0.5})
    mute = scripted(moves=["nonsense"])
    (episode,) = play(make_specs(game, 1, name="mute"), {"mute": mute})
    assert episode.forfeited_by == 0
    assert sum(episode.returns) == pytest.approx(0)
    assert episode.returns[0] == game.min_utility
    assert episode.turns[0].event == "unparsable"
    assert episode.turns[0].rewards == {"game": game.min_utility, "illegal": -0.5}


class IllegalAtFirst:
    renderer, name = None, "stutterer"

    def __init__(self, num_illegal):
        self.num_illegal = num_illegal

    def act(self, turns):
        replies = []
        for turn in turns:
            self.num_illegal -= 1
            replies.append(Reply(text="er" if self.num_illegal >= 0 else turn.state.legal_actions()[0]))
        return replies


def test_with_retries_the_episode_continues_after_an_illegal_reply():
    game = make_game("kuhn_poker", illegal={"rule": "retry", "retries": 5, "penalty": 0.1})
    (episode,) = play(make_specs(game, 1, name="s"), {"s": IllegalAtFirst(4)})
    assert [turn.event for turn in episode.turns[:5]] == ["unparsable"] * 4 + ["ok"]
    assert [turn.action for turn in episode.turns[:5]] == [None] * 4 + [episode.turns[4].action]
    assert {turn.seat for turn in episode.turns[:5]} == {0}
    assert sum(turn.rewards.get("illegal", 0) for turn in episode.turns) == pytest.approx(-0.4)
    assert any(episode.returns)  # the episode reached its end, so one player won the pot


def test_after_the_last_retry_a_random_legal_move_is_played():
    game = make_game("kuhn_poker", illegal={"rule": "retry", "retries": 1})
    (episode,) = play(make_specs(game, 1, name="s"), {"s": IllegalAtFirst(2)})
    assert [turn.event for turn in episode.turns[:2]] == ["unparsable", "unparsable"]
    assert episode.turns[1].action in episode.turns[1].legal_actions


class FailingRules:
    """A game whose first ``failures`` episodes raise an error."""

    def __init__(self, game, failures):
        self.game, self.failures = game, failures

    def __getattr__(self, name):
        return getattr(self.game, name)

    def reset(self, deal):
        state = self.game.reset(deal)
        if self.failures > 0:
            self.failures -= 1
            state._position = None  # every call of this state raises
        return state


def test_a_failed_episode_is_repeated_with_the_same_seed():
    game = make_game("kuhn_poker")
    episodes, counts = rollout(make_specs(FailingRules(game, 1), 4, name="bot"), {"bot": random()})
    assert episodes == play(make_specs(game, 4, name="bot"), {"bot": random()})
    assert counts.retried == 1 and not counts.dropped_groups


def test_a_group_that_fails_after_all_retries_is_dropped():
    game = make_game("kuhn_poker")
    failing_specs = make_specs(FailingRules(game, 10**6), 2, name="bot", group_size=2)
    good_specs = make_specs(game, 4, name="bot", group_size=2)[2:]
    good_spec = make_specs(game, 2, name="bot", group_size=2)[1]
    episodes, counts = rollout([failing_specs[0], good_spec, *good_specs], {"bot": random()})
    assert {episode.group_id for episode in episodes} == {1}
    assert counts.dropped_groups == {0}


def test_an_error_is_raised_if_all_groups_fail():
    with pytest.raises(RolloutError, match="2 groups failed beyond their retries"):
        play(make_specs(FailingRules(make_game("kuhn_poker"), 10**6), 2, name="bot"), {"bot": random()}, retries=1)


def test_errors_of_configuration_are_not_retried():
    class AgentWithError(IllegalAtFirst):
        def act(self, turns):
            raise GameError("agents may not raise this") from None

    with pytest.raises(GameError):
        play(make_specs(make_game("kuhn_poker"), 1, name="w"), {"w": AgentWithError(0)})


def test_rows_of_the_turn_table_match_the_turns_of_episodes():
    game = make_game("kuhn_poker", illegal={"rule": "forfeit", "penalty": 1.0})
    agent, _ = tiny_learner(game)
    episodes = play(
        make_specs(game, 30, seats=("learner", "bot"), trained=(True, False)), {"learner": agent, "bot": random()}
    )
    turns = turn_table(episodes)
    rows = list(ordered_turns(episodes))
    assert len(rows) == len(turns.reward) == sum(turn.seat == 0 for episode in episodes for turn in episode.turns)
    assert turns.reward.tolist() == [sum(turn.rewards.values()) for _, turn in rows]
    assert set(turns.components) == {"game", "illegal"}
    assert sum(turns.components.values()) == pytest.approx(turns.reward)
    assert [turns.action_names[action] if action >= 0 else None for action in turns.action] == [
        turn.action for _, turn in rows
    ]
    assert [turns.view_names[view] for view in turns.view] == [turn.view for _, turn in rows]
    assert turns.logprob.tolist() == [
        sum(sum(segment.logprobs) for segment in turn.segments if segment.kind == "sampled") for _, turn in rows
    ]
    assert set(turns.seat.tolist()) == {0}
    assert turns.done.sum() == len(set(turns.trajectory.tolist()))
    assert turns.n_tokens.tolist() == [
        sum(len(segment.ids) for segment in turn.segments if segment.kind == "sampled") for _, turn in rows
    ]
    keys = {}
    for (_, turn), key in zip(rows, turns.state_key.tolist(), strict=True):
        assert keys.setdefault(turn.state_key, key) == key
    assert len(set(keys.values())) == len(keys)
    assert turn_table([]).reward.shape == (0,)
