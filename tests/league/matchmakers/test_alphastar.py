import pytest

from sparring.config.plugins.registry import bind
from sparring.core.records import ref
from sparring.core.rng import Stream
from sparring.league.matchmakers.alphastar import draw_opponent, num_before_falling_rates
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.testing import match_request

TAGS = {"main": "main", "exploiter": "main_exploiter", "league": "league_exploiter"}
MAINS = ["past-000010", "past-000020", "past-000030"]
EXPLOITERS = ["past-exploiter-000010", "past-exploiter-000020"]
MEMBERS = [*MAINS, *EXPLOITERS]
NUM_GAMES = 3000


def opponent_shares(learner, rates, num_games=NUM_GAMES, members=MEMBERS):
    rows = {
        RowKey("kuhn_poker", 0, ref(learner), ref(player)): Results(
            games=1000, wins=1000 * rate, losses=1000 * (1 - rate)
        )
        for player, rate in rates.items()
    }
    matchmaker, opponents = bind("league.matchmakers", "alphastar", preset="paper"), []
    for number in range(num_games):
        seating = matchmaker(
            match_request(2, number=number, learner=learner, members=members, tags=TAGS, payoffs=Payoffs(rows))
        )
        opponents.append(str(next((player for player in seating.players if player != ref(learner)), ref(learner))))
    return {player: opponents.count(player) / num_games for player in dict.fromkeys(opponents)}


def test_a_main_that_beats_all_plays_half_pfsp_and_half_itself():
    rates = {**dict.fromkeys(MAINS, 0.8), **dict.fromkeys(EXPLOITERS, 0.6)}
    by_player = opponent_shares("learner", rates)
    # (1 - p)^2: .04 for each of 3 mains and .16 for each of 2 exploiters, .44 in total
    assert by_player["learner"] == pytest.approx(0.5, abs=0.03)
    assert [by_player[player] for player in MAINS] == pytest.approx([0.5 * 0.04 / 0.44] * 3, abs=0.02)
    assert [by_player[player] for player in EXPLOITERS] == pytest.approx([0.5 * 0.16 / 0.44] * 2, abs=0.02)


def test_a_main_often_plays_against_an_exploiter_that_beats_it():
    rates = {**dict.fromkeys(MAINS, 1.0), EXPLOITERS[0]: 0.2, EXPLOITERS[1]: 1.0}
    by_player = opponent_shares("learner", rates)
    assert by_player == pytest.approx({EXPLOITERS[0]: 0.65, "learner": 0.35}, abs=0.03)


def test_a_main_often_plays_against_an_old_snapshot_that_it_forgot_to_beat():
    # without the decreasing end the rates 0.5 and 1.0 are left, and 0.5 is below 0.7
    rates = {MAINS[0]: 0.5, MAINS[1]: 1.0, MAINS[2]: 0.9, **dict.fromkeys(EXPLOITERS, 1.0)}
    by_player = opponent_shares("learner", rates)
    assert by_player["learner"] == pytest.approx(0.35, abs=0.03)
    assert by_player[MAINS[0]] == pytest.approx(0.15 + 0.5 * 0.25 / 0.26, abs=0.03)
    falling_rates = {MAINS[0]: 0.6, MAINS[1]: 0.55, MAINS[2]: 0.5, **dict.fromkeys(EXPLOITERS, 1.0)}
    assert opponent_shares("learner", falling_rates)["learner"] == pytest.approx(0.5, abs=0.03)


def test_a_main_exploiter_plays_against_the_main_unless_it_hardly_ever_wins():
    assert opponent_shares("learner-exploiter", {"learner": 0.11}, 200) == {"learner": 1.0}
    rates = {"learner": 0.1, MAINS[0]: 0.5, MAINS[1]: 0.5, MAINS[2]: 1.0}
    by_player = opponent_shares("learner-exploiter", rates)  # p (1 - p): .25, .25, 0
    assert by_player == pytest.approx({MAINS[0]: 0.5, MAINS[1]: 0.5}, abs=0.03)
    assert opponent_shares("learner-exploiter", {"learner": 0.1}, 50, members=[]) == {"learner": 1.0}


def test_a_league_exploiter_plays_against_members_by_capped_weights():
    rates = {**dict.fromkeys(MAINS, 0.2), EXPLOITERS[0]: 0.75, EXPLOITERS[1]: 1.0}
    by_player = opponent_shares("learner-league", rates)  # min(1/2, 1 - p): .5 three times, .25, 0
    assert by_player == pytest.approx({**dict.fromkeys(MAINS, 2 / 7), EXPLOITERS[0]: 1 / 7}, abs=0.03)
    assert opponent_shares("learner-league", {}, 50, members=[]) == {"learner-league": 1.0}


def test_with_a_second_main_half_of_the_games_are_against_either_main():
    opponents = [
        draw_opponent(
            "main",
            mains=["a", "b"],
            snapshots=["x"],
            tag_of=lambda _: "main",
            past_of=lambda main: [f"{main}0"],
            rate=lambda player: {"b": 0.2}.get(player, 0.8),
            stream=Stream.from_seed(0).child(number),
        )
        for number in range(NUM_GAMES)
    ]
    # the rate against b is 0.2, so its snapshot b0 plays in its place
    assert [opponents.count(player) / NUM_GAMES for player in ("x", "a", "b", "b0")] == pytest.approx(
        [0.5, 0.25, 0, 0.25], abs=0.03
    )


@pytest.mark.parametrize(
    ("rates", "length"), [([], 0), ([0.5], 0), ([0.9, 0.8], 0), ([0.8, 0.9], 2), ([0.8, 0.9, 0.7, 0.6], 2)]
)
def test_the_length_without_the_decreasing_suffix(rates, length):
    assert num_before_falling_rates(rates) == length
