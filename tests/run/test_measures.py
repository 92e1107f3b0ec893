"""Figures of a batch by hand."""

import dataclasses
import math

import pytest

from sparring.core.records import Episode, Segment, Turn
from sparring.core.refs import bot
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.random import RandomAgent
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import turn_table
from sparring.run.step import environment_metrics, group_metrics, rollout_metrics


def turn(seat, index, event="ok", tokens=1, truncated=False):
    segments = (Segment(kind="prompt", ids=(1, 2, 3)), Segment(kind="sampled", ids=(5,) * tokens, logprobs=(-0.5,) * tokens))
    action = "bet" if event == "ok" else None
    return Turn(
        seat=seat, turn_index=index, agent="learner", state_key="k", legal_actions=("bet",), reply="bet", action=action, event=event, rewards={},
        segments=segments, truncated=truncated,
    )


def episode(number, turns, returns, *, trained=(True, True), game="g", roles=("first", "second"), forfeited_by=None):
    return Episode(
        episode_id=number, group_id=number, game=game, seed=0, roles=roles, agents=("learner", "learner"), trained=trained, turns=tuple(turns), returns=returns,
        forfeited_by=forfeited_by,
    )


def test_shares_are_over_trained_turns_and_returns_over_trained_seats():
    batch = [
        episode(0, [turn(0, 0, tokens=2), turn(1, 0, "illegal"), turn(0, 1, "unparsable", 3, True)], (2.0, -2.0), forfeited_by=0),
        episode(1, [turn(0, 0, "illegal", 9, True), turn(1, 0)], (-1.0, 1.0), trained=(False, True)),
    ]
    assert rollout_metrics(batch) == {
        "legal_rate": 2 / 4, "legal_rate/g": 2 / 4, "unparsable_rate": 1 / 4, "truncated_rate": 1 / 4, "overlong_rate": 0.0,
        "reply_tokens": (2 + 1 + 3 + 1) / 4, "sampled_entropy": 0.5, "turns_per_game": 5 / 2, "forfeit_rate": 1 / 2, "return/g/first": 2.0,
        "return/g/second": -0.5, "seat_asymmetry/g": 2.5,
    }


def test_games_are_kept_apart_and_seats_of_one_role_together():
    batch = [episode(0, [turn(0, 0)], (1.0, 3.0), game="a", roles=("player", "player")), episode(1, [turn(0, 0), turn(1, 0, "illegal")], (7.0, 0.0), game="b")]
    metrics = rollout_metrics(batch)
    assert (metrics["legal_rate"], metrics["legal_rate/a"], metrics["legal_rate/b"]) == (2 / 3, 1.0, 1 / 2)
    assert (metrics["return/a/player"], metrics["seat_asymmetry/a"]) == (2.0, 0.0)
    assert (metrics["return/b/first"], metrics["return/b/second"], metrics["seat_asymmetry/b"]) == (7.0, 0.0, 7.0)


def test_where_any_text_is_legal_nothing_is_said_of_legal_replies():
    free = turn(0, 0)._replace(legal_actions=())
    alone = rollout_metrics([episode(0, [free, free], (1.0, 0.0), game="talk")])
    assert not any(name.startswith("legal_rate") for name in alone) and alone["unparsable_rate"] == 0.0
    mixed = rollout_metrics([episode(0, [free, turn(1, 0), turn(0, 1, "illegal"), turn(1, 1, "unparsable")], (1.0, 0.0)), episode(1, [free], (1.0, 0.0), game="talk")])
    assert mixed["legal_rate"] == mixed["legal_rate/g"] == 1 / 3 and "legal_rate/talk" not in mixed
    assert mixed["unparsable_rate"] == 1 / 5  # of all replies
    unread = rollout_metrics([episode(0, [free._replace(event="unparsable"), free], (1.0, 0.0))])
    assert unread["unparsable_rate"] == 0.5 and "legal_rate" not in unread


def test_a_batch_in_which_nobody_is_trained_has_figures_too():
    metrics = rollout_metrics([episode(0, [turn(0, 0)], (1.0, -1.0), trained=(False, False))])
    assert (metrics["legal_rate"], metrics["turns_per_game"]) == (0.0, 1.0)
    assert not any(name.startswith("return/") for name in metrics)
    assert pytest.approx(0.0) == metrics["forfeit_rate"]


def test_what_an_environment_counts_is_a_mean_over_trained_seats_of_plays_that_ended():
    """By hand, from the replies and the deal of each play; team b is not trained."""
    game = make_game("code_words", options={"words": 2}, illegal={"rule": "forfeit"})
    root, trained = Stream.from_seed(1), (True, True, False, False)
    seats = (bot("random"),) * 4
    specs = [
        EpisodeSpec(game=game, episode_id=n, group_id=n, deal=root.child(n), stream=root.child("play").child(n), seats=seats, trained=trained)
        for n in range(40)
    ]
    batch = play(specs, {str(seats[0]): RandomAgent("random")})
    understood, clear = [], []
    for one in batch:
        secret = game.reset(Stream(one.seed)).position.deal.secret[0]
        said = {turn.seat: turn.action.split() for turn in one.turns}
        understood.append(said[1][0] == game.words[secret])
        clear.append(said[0][0] == game.words[secret])
    found = environment_metrics(batch, [game, make_game("kuhn_poker")])
    assert set(found) == {f"figure/code_words/{name}" for name in ("understood", "leaked", "clear", "by_key")}
    assert found["figure/code_words/understood"] == pytest.approx(sum(understood) / 40) and 0 < sum(understood) < 40
    assert found["figure/code_words/clear"] == pytest.approx(sum(clear) / 40)
    lost = dataclasses.replace(batch[0], forfeited_by=0, turns=batch[0].turns[:1])
    assert environment_metrics([lost, batch[1]], [game]) == environment_metrics([batch[1]], [game])
    unseen = [dataclasses.replace(one, trained=(False,) * 4) for one in batch]
    assert environment_metrics(unseen, [game]) == {} == environment_metrics(batch, [make_game("kuhn_poker")])


def test_entropy_is_estimated_from_the_sampled_tokens():
    """Tokens of probability 1/2 and 1/8, three of the one and one of the other: (3 log 2 + log 8) / 4."""
    segments = [Segment(kind="sampled", ids=(5,) * n, logprobs=(logprob,) * n) for n, logprob in ((3, -math.log(2)), (1, -math.log(8)))]
    turns = [turn(0, 0)._replace(segments=(Segment(kind="prompt", ids=(1,)), segments[0])), turn(1, 0)._replace(segments=(segments[1],))]
    assert rollout_metrics([episode(0, turns, (0.0, 0.0))])["sampled_entropy"] == pytest.approx(6 * math.log(2) / 4)
    assert "sampled_entropy" not in rollout_metrics([episode(0, [turn(0, 0)._replace(segments=())], (0.0, 0.0))])


def rewarded(number, group, first, second):
    turns = [turn(0, 0)._replace(rewards={"outcome": first}), turn(1, 0)._replace(rewards={"outcome": second - 1.0, "bonus": 1.0})]
    return dataclasses.replace(episode(number, turns, (9.0, 9.0)), group_id=group)


def test_the_spread_of_rewards_is_within_groups_of_one_start_and_role():
    """Group 0: first seat (1, -1), second (2, 2); group 1: first (3, 3), second (0, 4)."""
    table = turn_table([rewarded(0, 0, 1, 2), rewarded(1, 0, -1, 2), rewarded(2, 1, 3, 0), rewarded(3, 1, 3, 4)])
    assert group_metrics(table) == {"group_deviation": pytest.approx((1 + 0 + 0 + 2) / 4), "group_equal_share": 1 / 2}


def test_groups_of_one_and_an_empty_table_have_no_spread():
    assert group_metrics(turn_table([rewarded(0, 0, 1, 2), rewarded(1, 1, -1, 2)])) == {}
    assert group_metrics(turn_table([])) == {}
    with_single = turn_table([rewarded(0, 0, 1, 2), rewarded(1, 1, -1, 2), rewarded(2, 1, 1, 2)])
    assert group_metrics(with_single) == {"group_deviation": pytest.approx(0.5), "group_equal_share": 1 / 2}


def test_what_attempts_paid_is_over_the_seats_that_had_them():
    def paid(seat, attempt, **rewards):
        return turn(seat, 0)._replace(attempt=attempt, rewards=rewards)

    batch = [
        episode(0, [paid(0, 0, game=1.0), paid(0, 0, game=2.0, illegal=-9.0), paid(1, 0, game=5.0), paid(0, 2, game=-1.0)], (2.0, 5.0)),
        episode(1, [paid(0, 0, game=4.0), paid(1, 1, game=7.0)], (4.0, 7.0), trained=(True, False)),
        episode(2, [paid(0, 0, game=8.0)], (8.0, 0.0), game="no trial"),
    ]
    found = {name: value for name, value in rollout_metrics(batch).items() if name.startswith("attempt/")}
    assert found == {"attempt/g/1": (3.0 + 5.0 + 4.0) / 3, "attempt/g/3": -1.0}
