"""What is got in each attempt of a trial, by hand: returns, gains, pools, trials that end early."""

import math

import pytest

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.adaptation import PoolOpponent, adaptation, attempt_returns
from sparring.measure.initial_states import all_starts
from sparring.measure.matches import AGENT, OPPONENT, match_spec
from sparring.play.players.base import Reply, TextAgent
from sparring.play.players.scripted import scripted
from sparring.play.team import play_teams

BEATS = {"rock": "paper", "paper": "scissors", "scissors": "rock"}


class ByAttempt(TextAgent):
    def __init__(self, *says):
        super().__init__("by attempt")
        self.says = says

    def act(self, turns):
        return [Reply(text=self.says[turn.state.attempt]) for turn in turns]


def game(**options):
    made = {"environment": {"name": "rock_paper_scissors"}, "reflect": False, "carry": ["left"]}
    return make_game("trial", options={**made, **options})


def pool(**shares):
    return {
        name: PoolOpponent(agent=scripted(preference=(name.rstrip("_"),)), weight=weight, trained=not name.endswith("_"))
        for name, weight in shares.items()
    }


def rows(agent, opponents, trials=4, **options):
    return adaptation(all_starts(game(**options)), agent, opponents, trials=trials, stream=Stream.from_seed(0))


def test_each_attempt_has_its_own_return_and_the_gain_is_last_less_first():
    (one, all_of) = rows(ByAttempt("scissors", "rock", "paper"), pool(rock=1.0))
    assert [found.mean for found in one.returns] == [-1.0, 0.0, 1.0]
    assert one.gain.mean == 2.0 and one.gain.low == one.gain.high == 2.0
    assert (one.role, one.opponent, one.trained, one.forfeits) == ("left", "rock", True, 0.0)
    assert (all_of.opponent, [found.mean for found in all_of.returns]) == ("", [-1.0, 0.0, 1.0])


def test_a_pool_weighs_its_opponents_and_the_held_out_are_another():
    found = rows(ByAttempt("paper", "paper", "rock"), pool(rock=3.0, paper=1.0, scissors_=1.0))
    means = {(row.opponent, row.trained): [one.mean for one in row.returns] for row in found}
    assert means["rock", True] == [1.0, 1.0, 0.0]
    assert means["paper", True] == [0.0, 0.0, -1.0]
    assert means["", True] == [0.75, 0.75, -0.25]
    assert means["scissors_", False] == means["", False] == [-1.0, -1.0, 1.0]
    assert [row.gain.mean for row in found] == [-1.0, -1.0, 2.0, -1.0, 2.0]


def test_every_role_that_remembers_is_measured():
    found = rows(ByAttempt("paper", "paper", "paper"), pool(rock=1.0), carry=["left", "right"])
    assert [(row.role, row.opponent) for row in found] == [("left", "rock"), ("left", ""), ("right", "rock"), ("right", "")]
    assert {one.mean for row in found for one in row.returns} == {1.0}


def test_the_interval_of_a_pool_is_that_of_a_weighted_mean():
    dice = make_game("trial", options={"environment": {"name": "kuhn_poker"}, "reflect": False, "carry": ["first"]})
    opponents = {name: PoolOpponent(agent=scripted(preference=(name,)), weight=w, trained=True) for name, w in (("bet", 3.0), ("pass", 1.0))}
    bet, fold, both = adaptation(all_starts(dice), scripted(preference=("bet",)), opponents, trials=200, stream=Stream.from_seed(1))
    for at in range(3):
        halves = [(one.returns[at].high - one.returns[at].low) / 2 for one in (bet, fold)]
        wanted = math.hypot(0.75 * halves[0], 0.25 * halves[1])
        assert both.returns[at].mean == pytest.approx(0.75 * bet.returns[at].mean + 0.25 * fold.returns[at].mean)
        assert (both.returns[at].high - both.returns[at].low) / 2 == pytest.approx(wanted, rel=0.02)  # normal and t
    assert {one.mean for one in fold.returns} == {1.0}, "who always passes pays one chip for every bet"


def test_trials_that_stop_at_a_win_have_fewer_later_attempts():
    (one, _) = rows(ByAttempt("paper", "rock", "rock"), pool(rock=1.0), stop_on_win=True)
    assert [found.count for found in one.returns] == [4, 0, 0]
    assert one.returns[0].mean == 1.0 and math.isnan(one.returns[1].mean) and math.isnan(one.gain.mean)


def test_an_illegal_reply_ends_the_trial_and_its_attempt_pays():
    made = make_game("trial", options={"environment": {"name": "rock_paper_scissors"}, "reflect": False}, illegal={"rule": "forfeit", "penalty": 0.5})
    (one, _) = adaptation(all_starts(made), ByAttempt("paper", "lizard", "rock"), pool(rock=1.0), trials=3, stream=Stream.from_seed(0))
    assert one.forfeits == 1.0 and [found.count for found in one.returns] == [3, 3, 0]
    specs = [match_spec(all_starts(made), 0, 0, 1, Stream.from_seed(0))]
    (episode,) = play_teams(specs, {AGENT: ByAttempt("paper", "lizard", "rock"), OPPONENT: scripted(preference=("rock",))})
    own = attempt_returns(made, episode, 0)
    assert own[0] == 1.0 and sum(own) == pytest.approx(episode.returns[0]) and own[1] < 0.0


def test_what_cannot_be_measured_is_said():
    with pytest.raises(ConfigError, match="kuhn_poker is no trial"):
        adaptation(all_starts(make_game("kuhn_poker")), ByAttempt(), pool(rock=1.0), trials=4, stream=Stream.from_seed(0))
    with pytest.raises(ConfigError, match="one seat"):
        alone = make_game("trial", options={"environment": {"name": "mastermind"}})
        adaptation(all_starts(alone), ByAttempt(), pool(rock=1.0), trials=4, stream=Stream.from_seed(0))
    with pytest.raises(ConfigError, match="2 or more trials, got 1"):
        rows(ByAttempt("rock", "rock", "rock"), pool(rock=1.0), trials=1)
