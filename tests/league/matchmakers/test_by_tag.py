import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.records import LEARNER, ref
from sparring.league.matchmakers.by_tag import by_tag
from sparring.league.matchmakers.mirror import mirror
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.testing import match_request

TAGS = {"main": "main", "counter": "counter", "other": "counter"}
MEMBERS = ["past-000010", "past-counter-000010", "past-000020", "past-counter-000020"]


def request(number, learner="learner", members=MEMBERS, **options):
    return match_request(2, number=number, learner=learner, members=members, tags=TAGS, **options)


def shares(count=2000, learner="learner", members=MEMBERS, payoffs=None, **options):
    """Return the share of games against each player, or against itself if it has both seats."""
    matchmaker, opponents = bind("league.matchmakers", "by_tag", options), []
    for number in range(count):
        seating = matchmaker(request(number, learner, members, payoffs=payoffs))
        learners_seats = [seat for seat, player in enumerate(seating.players) if player == ref(learner)]
        assert [seat for seat, trained in enumerate(seating.trained) if trained] == learners_seats
        opponents.append(str(next((player for player in seating.players if player != ref(learner)), ref(learner))))
    return {player: opponents.count(player) / count for player in dict.fromkeys(opponents)}


def test_snapshots_are_opponents_by_the_shares_of_their_tags():
    by_player = shares(past={"main": 0.4, "counter": 0.4})
    assert by_player == pytest.approx({**dict.fromkeys(MEMBERS, 0.2), "learner": 0.2}, abs=0.03)


def test_live_learners_are_opponents_by_the_shares_of_their_tags():
    assert shares(200, learner="learner-counter", live={"main": 1.0}) == {"learner": 1.0}
    by_player = shares(live={"counter": 0.6, "main": 0.4})  # no other learner is tagged main
    assert by_player == pytest.approx({"learner-counter": 0.3, "learner-other": 0.3, "learner": 0.4}, abs=0.03)
    assert shares(live={"any": 1.0}) == pytest.approx({"learner-counter": 0.5, "learner-other": 0.5}, abs=0.04)


def test_without_a_player_of_the_tag_the_learner_plays_itself():
    assert shares(50, past={"nobody": 1.0}) == {"learner": 1.0}
    assert shares(50, members=[], past={"any": 1.0}) == {"learner": 1.0}


def test_without_shares_by_tag_equals_mirror():
    assert all(
        by_tag(request(number, learner)) == mirror(request(number, learner))
        for number in range(20)
        for learner in ("learner", "learner-counter")
    )


def test_weightings_use_the_results_of_the_learner():
    rows = {
        RowKey("kuhn_poker", 0, ref("learner-counter"), ref(player)): Results(games=10, wins=wins, losses=10 - wins)
        for player, wins in zip(MEMBERS, (10, 5, 10, 0), strict=True)
    }
    # with prior 0 the rates p are 1, .5, 1, 0, and (1 - p)^2 is 0, .25, 0, 1
    by_player = shares(learner="learner-counter", payoffs=Payoffs(rows), past={"any": 1.0}, weighting="hard", prior=0.0)
    assert by_player == pytest.approx({MEMBERS[1]: 0.2, MEMBERS[3]: 0.8}, abs=0.03)
    # the learner with tag main has no results
    shares_of_main = shares(payoffs=Payoffs(rows), past={"any": 1.0}, weighting="hard", prior=0.0)
    assert shares_of_main == pytest.approx(dict.fromkeys(MEMBERS, 0.25), abs=0.04)


def test_presets_have_the_shares_of_fxp():
    main = bind("league.matchmakers", "by_tag", preset="fxp_main").options
    counter = bind("league.matchmakers", "by_tag", preset="fxp_counter").options
    assert main["past"] == {"main": 0.4, "counter": 0.4} and counter["past"] == {"main": 1.0}


@pytest.mark.parametrize(
    "options", [{"past": {"main": 1.2}}, {"live": {"main": -0.1}}, {"live": {"main": 0.6}, "past": {"any": 0.6}}]
)
def test_invalid_shares_are_refused(options):
    with pytest.raises(ConfigError, match="must be shares that sum to at most 1"):
        by_tag(request(0), **options)


@given(number=st.integers(0, 500), learner=st.sampled_from(["learner", "learner-counter"]))
def test_the_learner_alternates_seats_between_groups(number, learner):
    first_seating, second_seating = (
        by_tag(request(index, learner), past={"main": 1.0}) for index in (number, number + 1)
    )
    assert first_seating.trained == second_seating.trained[::-1]


def test_a_single_learner_plays_against_its_snapshots():
    request = match_request(2, members=["past-000010"])
    assert by_tag(request, past={"main": 1.0}).players in ((LEARNER, ref("past-000010")), (ref("past-000010"), LEARNER))
