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


class PlayerByAttempt(TextAgent):
    def __init__(self, *replies_by_attempt):
        super().__init__("by attempt")
        self.replies_by_attempt = replies_by_attempt

    def act(self, turns):
        return [Reply(text=self.replies_by_attempt[turn.state.attempt]) for turn in turns]


def make_trial(**options):
    defaults = {"environment": {"name": "rock_paper_scissors"}, "reflect": False, "carry": ["left"]}
    return make_game("trial", options={**defaults, **options})


def make_pool(**weights):
    """Return opponents that always play the move of their name; a name that ends in _ is held out of training."""
    return {
        name: PoolOpponent(
            agent=scripted(preference=(name.rstrip("_"),)), weight=weight, trained=not name.endswith("_")
        )
        for name, weight in weights.items()
    }


def measure_adaptation(agent, opponents, trials=4, **options):
    return adaptation(all_starts(make_trial(**options)), agent, opponents, trials=trials, stream=Stream.from_seed(0))


def test_each_attempt_has_a_return_and_the_gain_is_last_minus_first():
    (rock, all_opponents) = measure_adaptation(PlayerByAttempt("scissors", "rock", "paper"), make_pool(rock=1.0))
    assert [interval.mean for interval in rock.returns] == [-1.0, 0.0, 1.0]
    assert rock.gain.mean == 2.0 and rock.gain.low == rock.gain.high == 2.0
    assert (rock.role, rock.opponent, rock.trained, rock.forfeits) == ("left", "rock", True, 0.0)
    assert (all_opponents.opponent, [interval.mean for interval in all_opponents.returns]) == ("", [-1.0, 0.0, 1.0])


def test_means_over_a_pool_are_weighted_and_held_out_opponents_are_separate():
    table = measure_adaptation(PlayerByAttempt("paper", "paper", "rock"), make_pool(rock=3.0, paper=1.0, scissors_=1.0))
    means = {(row.opponent, row.trained): [interval.mean for interval in row.returns] for row in table}
    assert means["rock", True] == [1.0, 1.0, 0.0]
    assert means["paper", True] == [0.0, 0.0, -1.0]
    assert means["", True] == [0.75, 0.75, -0.25]
    assert means["scissors_", False] == means["", False] == [-1.0, -1.0, 1.0]
    assert [row.gain.mean for row in table] == [-1.0, -1.0, 2.0, -1.0, 2.0]


def test_every_role_that_remembers_is_measured():
    table = measure_adaptation(PlayerByAttempt("paper", "paper", "paper"), make_pool(rock=1.0), carry=["left", "right"])
    assert [(row.role, row.opponent) for row in table] == [
        ("left", "rock"),
        ("left", ""),
        ("right", "rock"),
        ("right", ""),
    ]
    assert {interval.mean for row in table for interval in row.returns} == {1.0}


def test_the_interval_of_a_pool_is_that_of_a_weighted_mean():
    kuhn_trial = make_game(
        "trial", options={"environment": {"name": "kuhn_poker"}, "reflect": False, "carry": ["first"]}
    )
    opponents = {
        name: PoolOpponent(agent=scripted(preference=(name,)), weight=weight, trained=True)
        for name, weight in (("bet", 3.0), ("pass", 1.0))
    }
    betting_row, passing_row, pool_row = adaptation(
        all_starts(kuhn_trial), scripted(preference=("bet",)), opponents, trials=200, stream=Stream.from_seed(1)
    )
    for attempt in range(3):
        half_widths = [(row.returns[attempt].high - row.returns[attempt].low) / 2 for row in (betting_row, passing_row)]
        expected_half_width = math.hypot(0.75 * half_widths[0], 0.25 * half_widths[1])
        assert pool_row.returns[attempt].mean == pytest.approx(
            0.75 * betting_row.returns[attempt].mean + 0.25 * passing_row.returns[attempt].mean
        )
        assert (pool_row.returns[attempt].high - pool_row.returns[attempt].low) / 2 == pytest.approx(
            expected_half_width, rel=0.02
        )  # the pool uses a normal interval, the opponents t intervals
    assert {interval.mean for interval in passing_row.returns} == {1.0}, (
        "an opponent that always passes loses one chip to every bet"
    )


def test_with_stop_on_win_a_won_trial_has_no_later_attempts():
    (rock, _) = measure_adaptation(PlayerByAttempt("paper", "rock", "rock"), make_pool(rock=1.0), stop_on_win=True)
    assert [interval.count for interval in rock.returns] == [4, 0, 0]
    assert rock.returns[0].mean == 1.0 and math.isnan(rock.returns[1].mean) and math.isnan(rock.gain.mean)


def test_an_illegal_reply_ends_the_trial_and_its_attempt_has_the_penalty():
    trial_with_forfeit = make_game(
        "trial",
        options={"environment": {"name": "rock_paper_scissors"}, "reflect": False},
        illegal={"rule": "forfeit", "penalty": 0.5},
    )
    (row, _) = adaptation(
        all_starts(trial_with_forfeit),
        PlayerByAttempt("paper", "lizard", "rock"),
        make_pool(rock=1.0),
        trials=3,
        stream=Stream.from_seed(0),
    )
    assert row.forfeits == 1.0 and [interval.count for interval in row.returns] == [3, 3, 0]
    specs = [match_spec(all_starts(trial_with_forfeit), 0, 0, 1, Stream.from_seed(0))]
    (episode,) = play_teams(
        specs, {AGENT: PlayerByAttempt("paper", "lizard", "rock"), OPPONENT: scripted(preference=("rock",))}
    )
    returns = attempt_returns(trial_with_forfeit, episode, 0)
    assert returns[0] == 1.0 and sum(returns) == pytest.approx(episode.returns[0]) and returns[1] < 0.0


def test_trials_that_cannot_be_measured_are_refused():
    with pytest.raises(ConfigError, match="kuhn_poker is not a trial"):
        adaptation(
            all_starts(make_game("kuhn_poker")),
            PlayerByAttempt(),
            make_pool(rock=1.0),
            trials=4,
            stream=Stream.from_seed(0),
        )
    with pytest.raises(ConfigError, match="one seat"):
        single_player_trial = make_game("trial", options={"environment": {"name": "mastermind"}})
        adaptation(
            all_starts(single_player_trial),
            PlayerByAttempt(),
            make_pool(rock=1.0),
            trials=4,
            stream=Stream.from_seed(0),
        )
    with pytest.raises(ConfigError, match="2 or more trials, got 1"):
        measure_adaptation(PlayerByAttempt("rock", "rock", "rock"), make_pool(rock=1.0), trials=1)
