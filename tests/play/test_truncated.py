from dataclasses import replace

import numpy as np
import pytest

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import IllegalRule
from sparring.environments.foreign import complete_environment
from sparring.league.payoffs import Payoffs
from sparring.measure.initial_states import all_starts
from sparring.measure.matches import play_matches, self_plays
from sparring.methods.rewards.draw_bonus import draw_bonus
from sparring.play import store
from sparring.play.episode import Candidates
from sparring.play.players.base import Reply
from sparring.play.replay import conversations, replay_states
from sparring.play.rollout import play
from sparring.play.turn_table import turn_table
from sparring.report.episode_text import episode_lines
from sparring.run.step import rollout_metrics
from sparring.testing.context import Letters
from tests.play.plays import make_specs

PAY_BY_SEAT = (1.0, 2.0)  # reward of a move, by seat


class PayingRules:
    """An environment of four moves: one after another or two at once. Each move pays its seat immediately."""

    name, roles, max_turns, min_utility, max_utility = "paid", ("one", "two"), 4, 0.0, 8.0

    def __init__(self, is_simultaneous=False, rule="forfeit"):
        self.together, self.illegal = is_simultaneous, IllegalRule(rule=rule, penalty=0.5)

    def reset(self, stream):
        return PayingPlay(self.together)


class PayingPlay:
    def __init__(self, is_simultaneous):
        self.together, self.moves, self.returns = is_simultaneous, 0, (0.0, 0.0)

    @property
    def done(self):
        return self.moves >= 4

    def due(self):
        return () if self.done else (0, 1) if self.together else (self.moves % 2,)

    def legal(self, seat):
        return ("a",)

    def observe(self, seat):
        return Observation(prompt="x", key=f"{seat}|{self.moves}")

    def step(self, replies):
        self.moves += len(replies)
        self.returns = tuple(value + PAY_BY_SEAT[seat] * (seat in replies) for seat, value in enumerate(self.returns))


class LetterRenderer(Letters):
    exact_answers = False

    def read(self, text):
        return text


class ShortContext:
    """Replies "a" while its conversation has at most ``max_tokens`` tokens; a seat's turns have 3, 7 and 11."""

    def __init__(self, max_tokens=100, text="a"):
        self.name, self.max_tokens, self.text, self.renderer = "short", max_tokens, text, LetterRenderer()

    def act(self, turns):
        reply = Reply(self.text, (*map(ord, self.text), 2), (-0.5,) * (len(self.text) + 1))
        return [reply if len(turn.ids) <= self.max_tokens else Reply("", truncated=True) for turn in turns]


def make_spec(game, *seats, episode_id=0):
    return replace(make_specs(complete_environment("paid", game), 1, seats=seats)[0], episode_id=episode_id)


def play_truncated(game, **options):
    (episode,) = play([make_spec(game, "x", "y")], {"x": ShortContext(3), "y": ShortContext()}, **options)
    return episode


@pytest.mark.parametrize("rule", ["forfeit", "retry", "random"])
def test_a_truncated_episode_keeps_its_rewards_without_outcome_or_penalty(rule):
    episode = play_truncated(PayingRules(rule=rule))
    assert [turn.event for turn in episode.turns] == ["ok", "ok", "unsent"]
    assert episode.returns == (1.0, 2.0) and episode.forfeited_by is None
    assert episode.cut and episode.has_outgrown_context
    assert [turn.rewards for turn in episode.turns] == [{"game": 1.0}, {"game": 2.0}, {"game": 0.0}]
    table = turn_table([episode])
    assert table.reward.tolist() == [1.0, 2.0] and table.seat.tolist() == [0, 1]
    assert table.cut.tolist() == table.done.tolist() == [True, True]
    assert table.n_tokens.tolist() == [2, 2] and table.legal.all()


def test_an_episode_at_its_limit_of_turns_also_has_results():
    limited_episodes = play([replace(make_spec(PayingRules(), "y", "y"), max_turns=2)], {"y": ShortContext()})
    table = turn_table([play_truncated(PayingRules()), *limited_episodes])
    assert table.cut.tolist() == [True] * 4 and table.reward.tolist() == [1.0, 2.0] * 2
    assert limited_episodes[0].cut and not limited_episodes[0].has_outgrown_context


def test_replies_of_the_same_moment_are_not_played():
    episode = play_truncated(PayingRules(is_simultaneous=True))
    assert [(turn.seat, turn.event, turn.action) for turn in episode.turns[2:]] == [
        (0, "unsent", None),
        (1, "ok", None),
    ]
    assert episode.returns == PAY_BY_SEAT and turn_table([episode]).reward.tolist() == [1.0, 2.0, 0.0]


def test_an_illegal_reply_of_the_same_moment_is_no_forfeit():
    (episode,) = play(
        [make_spec(PayingRules(is_simultaneous=True), "x", "y")], {"x": ShortContext(2), "y": ShortContext(text="b")}
    )
    assert [turn.event for turn in episode.turns] == ["unsent", "unparsable"]
    assert (episode.forfeited_by, episode.returns) == (None, (0.0, 0.0))
    assert episode.turns[1].rewards == {"game": 0.0, "illegal": -0.5}  # an illegal reply is still trained on


def test_a_truncated_episode_is_in_no_payoff_and_no_win_rate():
    game = complete_environment("paid", PayingRules())
    book = Payoffs().with_episodes([play_truncated(game)])
    assert not book.rows
    report = play_matches(game, ShortContext(3), ShortContext(), games_per_seat=2, stream=Stream.from_seed(0))
    assert [(seat.games, seat.truncated) for seat in report.seats] == [(0, 2), (0, 2)]
    assert (report.overall.games, report.overall.truncated, report.overall.losses) == (0, 4, 0)
    assert "paid: in 4 of 4 games a conversation outgrew the model's context" in report.notes[0]
    complete_report = play_matches(game, ShortContext(7), ShortContext(), games_per_seat=2, stream=Stream.from_seed(0))
    assert (
        complete_report.overall.games,
        complete_report.overall.losses,
        complete_report.overall.wins,
        complete_report.notes,
    ) == (4, 2, 2, ())
    self_play_report = self_plays(all_starts(game), ShortContext(3), plays=2, stream=Stream.from_seed(0))
    assert (
        self_play_report.returns["one"].count == 0
        and self_play_report.illegal.mean == 0.0
        and self_play_report.turns == 2.0
    )


def test_metrics_of_a_batch_with_truncated_episodes():
    game = complete_environment("paid", PayingRules())
    complete_episodes = play([make_spec(game, "y", "y", episode_id=1)], {"y": ShortContext()})
    metrics = rollout_metrics([play_truncated(game), *complete_episodes])
    # counted over the complete episode only
    assert metrics["return/paid/one"] == 2.0 and metrics["return/paid/two"] == 4.0
    assert metrics["seat_asymmetry/paid"] == 2.0
    assert metrics["legal_rate"] == 1.0 and metrics["unparsable_rate"] == 0.0 and metrics["forfeit_rate"] == 0.0
    # 2 + 4 replies, and the prompt that was not sent
    assert metrics["overlong_rate"] == metrics["truncated_rate"] == 1 / 7
    assert metrics["cut_rate"] == 0.5 and metrics["reply_tokens"] == 2.0 and metrics["turns_per_game"] == 3.0
    metrics_without_replies = rollout_metrics(play([make_spec(game, "x", "x")], {"x": ShortContext(2)}))
    assert "legal_rate" not in metrics_without_replies and metrics_without_replies["overlong_rate"] == 1.0
    assert not any(name.startswith(("return/", "seat_asymmetry/")) for name in metrics_without_replies)


def test_a_prompt_that_was_not_sent_is_one_turn_without_candidates():
    candidates = Candidates(count=3, grade=lambda episodes: [[0.0] * len(episode.turns) for episode in episodes])
    episode = play_truncated(PayingRules(), candidates=candidates)
    assert [(turn.event, len(turn.candidates)) for turn in episode.turns] == [("ok", 2), ("ok", 2), ("unsent", 0)]


def test_a_truncated_episode_is_stored_replayed_and_shown():
    game = complete_environment("paid", PayingRules())
    episode = replace(play_truncated(game), environment=None)
    assert store.from_bytes(store.to_bytes([(0, episode)])) == [(0, episode)]
    assert [state.returns for state in replay_states(game, episode)][-1] == (1.0, 2.0)
    assert [(conversation.seat, conversation.end) for conversation in conversations(game, episode)] == [
        (0, "context"),
        (1, "cut"),
    ]
    lines = episode_lines(0, episode, {}, None)
    assert "  truncated, without a result: the prompt of one outgrew the model's context" in lines
    limited_episode = replace(
        play([replace(make_spec(game, "y", "y"), max_turns=2)], {"y": ShortContext()})[0], environment=None
    )
    assert "  truncated by the limit of turns" in episode_lines(0, limited_episode, {}, None)


def test_a_truncated_episode_gets_no_draw_bonus():
    drawn_episode = replace(play_truncated(PayingRules()), returns=(0.0, 0.0))
    assert not any(draw_bonus(replace(drawn_episode, turns=drawn_episode.decisions)))
    assert any(draw_bonus(replace(drawn_episode, has_outgrown_context=False)))
    assert np.sum(draw_bonus(replace(drawn_episode, cut=False, has_outgrown_context=False))) == pytest.approx(0.2)
