import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.core.records import LEARNER, snapshot
from sparring.engine.local import LocalEngine
from sparring.league.matchmakers.mixed import mixed
from sparring.league.matchmakers.pfsp import pfsp
from sparring.league.payoffs import Payoffs, Results, RowKey, opponent_weight
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.testing import match_request

MEMBERS = tuple(snapshot(step) for step in (10, 20, 30, 40))
RATES = (0.9, 0.5, 0.1, 0.3)  # win rates of the learner against MEMBERS
BY_HAND = {  # (weighting, power) -> shares for RATES, to four digits
    ("hard", 2.0): (0.0064, 0.1603, 0.5192, 0.3141),
    ("hard", 1.0): (0.0455, 0.2273, 0.4091, 0.3182),
    ("capped", 2.0): (0.0625, 0.3125, 0.3125, 0.3125),
    ("variance", 2.0): (0.1406, 0.3906, 0.1406, 0.3281),
    ("hard", 0.0): (0.25, 0.25, 0.25, 0.25),
}


def book_of_rates(rates, games=10, environment="kuhn_poker", seat=0):
    return Payoffs(
        {
            RowKey(environment, seat, LEARNER, member): Results(
                games=games, wins=round(games * rate), losses=games - round(games * rate)
            )
            for member, rate in zip(MEMBERS, rates, strict=True)
        }
    )


def seating_of(number, payoffs, seats=2, teams=None, **options):
    return pfsp(
        match_request(seats, members=MEMBERS, payoffs=payoffs, number=number, teams=teams),
        **{"past": 1.0, "prior": 0.0, **options},
    )


@pytest.mark.parametrize(("weighting_and_power", "shares"), BY_HAND.items())
def test_weights_and_shares_by_hand(weighting_and_power, shares):
    weights = [opponent_weight(rate, *weighting_and_power) for rate in RATES]
    assert [value / sum(weights) for value in weights] == pytest.approx(shares, abs=5e-5)
    seatings = [
        seating_of(number, book_of_rates(RATES), weighting=weighting_and_power[0], power=weighting_and_power[1])
        for number in range(3000)
    ]
    opponents = [next(player for player in seating.players if player != LEARNER) for seating in seatings]
    assert [opponents.count(member) / 3000 for member in MEMBERS] == pytest.approx(shares, abs=0.03)


def test_win_rates_use_draws_all_seats_and_only_the_environment():
    member, *_ = MEMBERS
    rows = {
        RowKey("kuhn_poker", 0, LEARNER, member): Results(games=2, draws=2),
        RowKey("kuhn_poker", 1, LEARNER, member): Results(games=2, wins=1, losses=1),
        RowKey("nim", 0, LEARNER, member): Results(games=9, losses=9),
        RowKey("kuhn_poker", 0, member, LEARNER): Results(games=9, wins=9),
    }
    assert match_request(payoffs=Payoffs(rows)).results(member).win_rate() == 0.5


def test_the_prior_counts_as_drawn_games():
    """One win and no loss: (1 - p)^2 is 0 without a prior, and (1 - 2/3)^2 with a prior of 2 games."""
    payoffs = Payoffs({RowKey("kuhn_poker", 0, LEARNER, MEMBERS[0]): Results(games=1, wins=1)})
    assert all(MEMBERS[0] not in seating_of(number, payoffs).players for number in range(300))
    count = sum(MEMBERS[0] in seating_of(number, payoffs, prior=2.0).players for number in range(3000))
    assert count / 3000 == pytest.approx((1 / 9) / (1 / 9 + 3 / 4), abs=0.02)


@pytest.mark.parametrize("weighting", ["hard", "capped"])
def test_if_all_members_always_lose_the_choice_is_uniform(weighting):
    for number in range(200):
        assert seating_of(number, book_of_rates((1.0,) * 4), weighting=weighting) == seating_of(
            number, Payoffs(), power=0.0
        )


@given(number=st.integers(0, 10**6), past=st.floats(0, 1), seats=st.integers(1, 5), is_one_team=st.booleans())
def test_with_power_0_pfsp_equals_mixed(number, past, seats, is_one_team):
    request = match_request(
        seats, members=MEMBERS, payoffs=book_of_rates(RATES), number=number, teams=(0,) * seats if is_one_team else None
    )
    assert pfsp(request, past=past, power=0.0) == mixed(request, past=past)


@given(
    rates=st.tuples(*[st.integers(0, 10).map(lambda wins: wins / 10)] * 4),
    number=st.integers(0, 10**6),
    weighting=st.sampled_from(["hard", "capped", "variance"]),
    teams=st.lists(st.integers(0, 2), min_size=1, max_size=6),
)
def test_each_team_has_one_player_and_members_of_weight_0_do_not_play(rates, number, weighting, teams):
    seating = seating_of(number, book_of_rates(rates), seats=len(teams), teams=teams, weighting=weighting)
    weights = [opponent_weight(rate, weighting, 2.0) for rate in rates]
    if len(set(teams)) > 1:
        assert len({(team, player) for team, player in zip(teams, seating.players, strict=True)}) == len(set(teams))
    for player, trained in zip(seating.players, seating.trained, strict=True):
        assert trained == (player == LEARNER)
        assert trained or sum(weights) == 0 or weights[MEMBERS.index(player)] > 0


@given(wins_of_one=st.integers(0, 10), wins_of_other=st.integers(0, 10), power=st.floats(0.1, 5))
def test_hard_weights_do_not_decrease_with_the_strength_of_a_member(wins_of_one, wins_of_other, power):
    fewer_wins, more_wins = sorted((wins_of_one, wins_of_other))
    assert opponent_weight(fewer_wins / 10, "hard", power) >= opponent_weight(more_wins / 10, "hard", power)


def test_a_run_plays_against_the_members_that_beat_it():
    config = resolve(
        {
            "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
            "steps": 9,
            "threads": 1,
            "rollout": {"games_per_step": 64},
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "matchmaker": {"name": "pfsp", "past": 1.0},
        }
    )
    engine = LocalEngine(config)
    weak_member, strong_member, *_ = MEMBERS
    engine.take_member(weak_member)
    engine.take_member(strong_member)
    rows = {
        RowKey("kuhn_poker", 0, LEARNER, weak_member): Results(games=98, wins=98),
        RowKey("kuhn_poker", 1, LEARNER, strong_member): Results(games=98, losses=98),
    }
    state = RunState(step=3).with_owners(payoffs=Payoffs(rows).to_json())
    result = play_round(config, engine, Methods.of(config), state)
    players = [player for episode in result.episodes for player in episode.players]
    assert (players.count(LEARNER), players.count(strong_member), players.count(weak_member)) == (64, 64, 0)
    assert result.state.payoffs.results(LEARNER, strong_member).games == 98 + 64
