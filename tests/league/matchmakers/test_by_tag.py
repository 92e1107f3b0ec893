import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.records import LEARNER, ref
from sparring.league.matchmakers.by_tag import by_tag
from sparring.league.matchmakers.mirror import mirror
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.testing import match_request

TAGS = {"main": "main", "counter": "counter", "other": "counter"}
MEMBERS = ["past-000010", "past-counter-000010", "past-000020", "past-counter-000020"]


def request(number, learner="learner", members=MEMBERS, **more):
    return match_request(2, number=number, learner=learner, members=members, tags=TAGS, **more)


def shares(count=2000, learner="learner", members=MEMBERS, payoffs=None, **options):
    """Return how often each player is met; itself where it sits in both seats."""
    matchmaker, opponents = bind("league.matchmakers", "by_tag", options), []
    for number in range(count):
        seating = matchmaker(request(number, learner, members, payoffs=payoffs))
        learners_seats = [seat for seat, who in enumerate(seating.players) if who == ref(learner)]
        assert [seat for seat, trained in enumerate(seating.trained) if trained] == learners_seats
        opponents.append(str(next((who for who in seating.players if who != ref(learner)), ref(learner))))
    return {who: opponents.count(who) / count for who in dict.fromkeys(opponents)}


def test_shares_of_the_past_by_tag():
    by_player = shares(past={"main": 0.4, "counter": 0.4})
    assert by_player == pytest.approx({**dict.fromkeys(MEMBERS, 0.2), "learner": 0.2}, abs=0.03)


def test_live_learners_by_tag():
    assert shares(200, learner="learner-counter", live={"main": 1.0}) == {"learner": 1.0}
    by_player = shares(live={"counter": 0.6, "main": 0.4})  # there is no other main
    assert by_player == pytest.approx({"learner-counter": 0.3, "learner-other": 0.3, "learner": 0.4}, abs=0.03)
    assert shares(live={"any": 1.0}) == pytest.approx({"learner-counter": 0.5, "learner-other": 0.5}, abs=0.04)


def test_where_nobody_has_the_tag_the_learner_plays_itself():
    assert shares(50, past={"nobody": 1.0}) == {"learner": 1.0}
    assert shares(50, members=[], past={"any": 1.0}) == {"learner": 1.0}


def test_without_shares_it_is_the_mirror():
    assert all(
        by_tag(request(number, learner)) == mirror(request(number, learner))
        for number in range(20)
        for learner in ("learner", "learner-counter")
    )


def test_weightings_look_at_the_learner_s_own_results():
    rows = {
        Row("kuhn_poker", 0, ref("learner-counter"), ref(who)): Results(games=10, wins=wins, losses=10 - wins)
        for who, wins in zip(MEMBERS, (10, 5, 10, 0), strict=True)
    }
    # with prior 0 the rates are 1, .5, 1, 0: squares of what is lost are 0, .25, 0, 1
    by_player = shares(learner="learner-counter", payoffs=Payoffs(rows), past={"any": 1.0}, weighting="hard", prior=0.0)
    assert by_player == pytest.approx({MEMBERS[1]: 0.2, MEMBERS[3]: 0.8}, abs=0.03)
    even = shares(payoffs=Payoffs(rows), past={"any": 1.0}, weighting="hard", prior=0.0)  # the main has met nobody
    assert even == pytest.approx(dict.fromkeys(MEMBERS, 0.25), abs=0.04)


def test_presets_are_the_gridworld_s():
    main = bind("league.matchmakers", "by_tag", preset="fxp_main").options
    counter = bind("league.matchmakers", "by_tag", preset="fxp_counter").options
    assert main["past"] == {"main": 0.4, "counter": 0.4} and counter["past"] == {"main": 1.0}


@pytest.mark.parametrize(
    "options", [{"past": {"main": 1.2}}, {"live": {"main": -0.1}}, {"live": {"main": 0.6}, "past": {"any": 0.6}}]
)
def test_shares_that_are_none_are_refused(options):
    with pytest.raises(ConfigError, match="must be shares that sum to at most 1"):
        by_tag(request(0), **options)


@given(number=st.integers(0, 500), learner=st.sampled_from(["learner", "learner-counter"]))
def test_the_learner_s_side_changes_from_state_to_state(number, learner):
    first, second = (by_tag(request(n, learner), past={"main": 1.0}) for n in (number, number + 1))
    assert first.trained == second.trained[::-1]


def test_a_league_of_one_is_as_any_run():
    request = match_request(2, members=["past-000010"])
    assert by_tag(request, past={"main": 1.0}).players in ((LEARNER, ref("past-000010")), (ref("past-000010"), LEARNER))
