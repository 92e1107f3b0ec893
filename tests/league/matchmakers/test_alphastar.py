import pytest

from sparring.config.plugins.registry import bind
from sparring.core.records import ref
from sparring.core.rng import Stream
from sparring.league.matchmakers.alphastar import opponent, without_monotonic_suffix
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.testing import match_request

TAGS = {"main": "main", "exploiter": "main_exploiter", "league": "league_exploiter"}
MAINS = ["past-000010", "past-000020", "past-000030"]
EXPLOITERS = ["past-exploiter-000010", "past-exploiter-000020"]
MEMBERS = [*MAINS, *EXPLOITERS]
COUNT = 3000


def shares(learner, rates, count=COUNT, members=MEMBERS):
    rows = {
        Row("kuhn_poker", 0, ref(learner), ref(who)): Results(games=1000, wins=1000 * rate, losses=1000 * (1 - rate))
        for who, rate in rates.items()
    }
    matchmaker, opponents = bind("league.matchmakers", "alphastar", preset="paper"), []
    for number in range(count):
        seating = matchmaker(
            match_request(2, number=number, learner=learner, members=members, tags=TAGS, payoffs=Payoffs(rows))
        )
        opponents.append(str(next((who for who in seating.players if who != ref(learner)), ref(learner))))
    return {who: opponents.count(who) / count for who in dict.fromkeys(opponents)}


def test_a_main_that_beats_all_meets_them_by_half_and_itself():
    rates = {**dict.fromkeys(MAINS, 0.8), **dict.fromkeys(EXPLOITERS, 0.6)}
    by_player = shares("learner", rates)
    # squares of what is lost: .04 for each main, .16 for each exploiter, of .44 in all
    assert by_player["learner"] == pytest.approx(0.5, abs=0.03)
    assert [by_player[who] for who in MAINS] == pytest.approx([0.5 * 0.04 / 0.44] * 3, abs=0.02)
    assert [by_player[who] for who in EXPLOITERS] == pytest.approx([0.5 * 0.16 / 0.44] * 2, abs=0.02)


def test_an_exploiter_that_wins_is_verified():
    rates = {**dict.fromkeys(MAINS, 1.0), EXPLOITERS[0]: 0.2, EXPLOITERS[1]: 1.0}
    by_player = shares("learner", rates)
    assert by_player == pytest.approx({EXPLOITERS[0]: 0.65, "learner": 0.35}, abs=0.03)


def test_a_past_that_wins_again_is_verified_without_the_newest():
    # rates fall over the last two alone, so that the oldest two are left, and 0.5 is below 0.7
    rates = {MAINS[0]: 0.5, MAINS[1]: 1.0, MAINS[2]: 0.9, **dict.fromkeys(EXPLOITERS, 1.0)}
    by_player = shares("learner", rates)
    assert by_player["learner"] == pytest.approx(0.35, abs=0.03)
    assert by_player[MAINS[0]] == pytest.approx(0.15 + 0.5 * 0.25 / 0.26, abs=0.03)
    falling = {MAINS[0]: 0.6, MAINS[1]: 0.55, MAINS[2]: 0.5, **dict.fromkeys(EXPLOITERS, 1.0)}
    assert shares("learner", falling)["learner"] == pytest.approx(0.5, abs=0.03)


def test_a_main_exploiter_meets_the_main_until_it_never_wins():
    assert shares("learner-exploiter", {"learner": 0.11}, 200) == {"learner": 1.0}
    rates = {"learner": 0.1, MAINS[0]: 0.5, MAINS[1]: 0.5, MAINS[2]: 1.0}
    by_player = shares("learner-exploiter", rates)  # p (1 - p): .25, .25, 0
    assert by_player == pytest.approx({MAINS[0]: 0.5, MAINS[1]: 0.5}, abs=0.03)
    assert shares("learner-exploiter", {"learner": 0.1}, 50, members=[]) == {"learner": 1.0}


def test_a_league_exploiter_meets_all_that_are_not_beaten_alike():
    rates = {**dict.fromkeys(MAINS, 0.2), EXPLOITERS[0]: 0.75, EXPLOITERS[1]: 1.0}
    by_player = shares("learner-league", rates)  # min(1/2, 1 - p): .5 three times, .25, 0
    assert by_player == pytest.approx({**dict.fromkeys(MAINS, 2 / 7), EXPLOITERS[0]: 1 / 7}, abs=0.03)
    assert shares("learner-league", {}, 50, members=[]) == {"learner-league": 1.0}


def test_with_a_second_main_the_rest_is_played_against_either():
    draws = [
        opponent(
            "main",
            mains=["a", "b"],
            frozen=["x"],
            tag=lambda _: "main",
            past=lambda main: [f"{main}0"],
            rate=lambda who: {"b": 0.2}.get(who, 0.8),
            stream=Stream.from_seed(0).child(number),
        )
        for number in range(COUNT)
    ]
    # against b the rate is 0.2: its checkpoint in its place, which the agent beats as all others
    assert [draws.count(who) / COUNT for who in ("x", "a", "b", "b0")] == pytest.approx([0.5, 0.25, 0, 0.25], abs=0.03)


@pytest.mark.parametrize(
    ("rates", "length"), [([], 0), ([0.5], 0), ([0.9, 0.8], 0), ([0.8, 0.9], 2), ([0.8, 0.9, 0.7, 0.6], 2)]
)
def test_the_suffix_over_which_rates_fall(rates, length):
    assert without_monotonic_suffix(rates) == length
