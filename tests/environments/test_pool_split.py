"""Splitting a pool: private values, what both name at once, and what becomes of what is named twice."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring import make_environment, play_episodes, turn_table
from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bargain.rules import Scenario
from sparring.environments.pool_split import SplitPlay, are_opposed, divide_items, pool_split
from tests.environments.worlds import check_contains, make_contract_test

# 2 books and 3 hats: to seat 0 worth 2 and 2 each, to seat 1 worth 5 and 0
SCENARIO = Scenario((2, 3), ((2, 2), (5, 0)))


def started(scenario=SCENARIO, **options):
    return SplitPlay(pool_split(kinds=2, **options), scenario)


test_it_keeps_the_contract = make_contract_test(
    pool_split,
    [{}, {"style": "full", "over": "nothing", "kinds": 4}, {"kinds": 2, "most": 1, "scenarios": 1}],
    plays=10,
)


@pytest.mark.parametrize(
    ("over", "claims", "returns"),
    [
        ("share", ("0 3", "2 0"), (0.6, 1.0)),  # each what it is for
        ("nothing", ("0 3", "2 0"), (0.6, 1.0)),
        ("share", ("2 3", "2 3"), (0.5, 0.5)),
        ("nothing", ("2 3", "2 3"), (0.0, 0.0)),
        ("share", ("2 3", "1 0"), ((2 * 4 / 3 + 6) / 10, 2 / 3 * 5 / 10)),
        ("nothing", ("2 3", "1 0"), (0.6, 0.0)),
        ("share", ("0 0", "0 0"), (0.0, 0.0)),
    ],
)
def test_what_is_named_is_got_and_what_is_named_twice_is_shared_or_lost(over, claims, returns):
    course = started(over=over)
    assert course.due() == (0, 1) and course.returns == (0.0, 0.0)
    course.step(dict(enumerate(claims)))
    assert course.returns == pytest.approx(returns) and course.done and course.due() == ()


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4),
    st.sampled_from(["share", "nothing"]),
)
def test_no_more_is_got_than_there_is_and_naming_more_is_never_worse_if_shared(kinds, over):
    counts = tuple(count for count, _, _ in kinds)
    claim, other = (tuple(min(kind[place], kind[0]) for kind in kinds) for place in (1, 2))
    got = divide_items(counts, (claim, other), over)
    assert all(a + b <= count + 1e-9 for count, a, b in zip(counts, *got, strict=True))
    if over == "share":
        assert all(a <= b + 1e-9 for a, b in zip(got[0], divide_items(counts, (counts, other), over)[0], strict=True))
    assert divide_items(counts, (other, claim), over) == got[::-1]


@pytest.mark.parametrize("style", ["brief", "full"])
def test_a_seat_is_told_its_own_values_and_never_the_other_s(style):
    other = Scenario(SCENARIO.counts, (SCENARIO.values[0], (2, 2)))
    courses = [started(scenario, style=style) for scenario in (SCENARIO, other)]
    assert courses[0].observe(0) == courses[1].observe(0) and courses[0].observe(1) != courses[1].observe(1)
    assert courses[0].draw(0) == courses[1].draw(0) and courses[0].described(0) == courses[1].described(0)
    for course in courses:
        course.step({0: "0 3", 1: "2 0"})
    assert courses[0].ending(0) == courses[1].ending(0)
    assert courses[0].draw(0) == courses[1].draw(0) and courses[0].described(0) == courses[1].described(0)


def test_pools_wording_and_repeated_plays():
    course = started()
    assert (
        course.observe(0).text == "first pool 2 3 worth 2 2 take"
        and course.observe(1).text == "second pool 2 3 worth 5 0 take"
    )
    assert course.legal(0) == tuple(f"{books} {hats}" for books, hats in itertools.product(range(3), range(4)))
    full = started(style="full")
    check_contains(
        full.observe(1).text,
        "2 books worth 5 each to you, 3 hats worth 0 each to you",
        "shared out in proportion",
        "(books, hats), for example: 1 1",
    )
    assert "goes to nobody" in started(style="full", over="nothing").observe(0).text
    for play in (course, full):
        play.step({0: "1 3", 1: "2 0"})
    assert (
        course.ending(1) == "other took 1 3"
        and full.ending(0) == "The other player named 2 books, 0 hats. You got 0.733333."
    )
    for scenario in pool_split(kinds=2, most=1, total=6, values="opposed", scenarios=30).starts():
        course = started(scenario, most=1, total=6)
        course.step(
            {
                seat: " ".join("1" if value == max(values) else "0" for value in values)
                for seat, values in enumerate(scenario.values)
            }
        )
        assert sum(course.returns) * 6 == sum(map(max, *scenario.values)) > 6
    inner = {"name": "pool_split", "options": {"kinds": 2}}
    rules = make_environment("repeated", environment=inner, rounds=3)
    episodes = play_episodes(rules, ["random", "random"], plays=4)
    turns = turn_table(episodes)
    assert turns.turn_index.tolist() == [0, 1, 2] * 8
    for episode in episodes:
        rewards = [[turn.rewards["game"] for turn in episode.turns if turn.seat == seat] for seat in (0, 1)]
        assert [sum(row) for row in rewards] == pytest.approx(list(episode.returns))
        assert all(0 <= value <= 1 for row in rewards for value in row)
    course = rules.reset(Stream.from_seed(0))
    course.step({0: course.legal(0)[-1], 1: course.legal(1)[0]})
    assert course.observe(1).text.startswith(
        f"other took {' '.join(map(str, course.before[0].start.counts))} zero second pool"
    )
    with pytest.raises(ConfigError, match="pool_split: no pool of 4 kinds"):
        pool_split(kinds=4, most=1, total=2)
    with pytest.raises(
        ConfigError, match=r"values='opposed' needs 4 different values, .* write total=20 or values=any"
    ):
        pool_split(kinds=4, most=1, total=4, values="opposed")


@pytest.mark.parametrize(
    ("values", "other", "opposed"),
    [
        ((5, 1), (0, 3), True),
        ((5, 1), (3, 0), False),
        ((5, 1), (3, 3), False),
        ((2, 2), (0, 3), False),
        ((3, 2, 0), (0, 1, 4), True),
        ((3, 2, 0), (1, 0, 4), False),
    ],
)
def test_opposed_values_rank_the_kinds_the_other_way_round(values, other, opposed):
    assert are_opposed(values, other) == are_opposed(other, values) == opposed


@pytest.mark.parametrize(("kinds", "most", "total"), [(2, 1, 6), (2, 3, 10), (3, 2, 10)])
def test_a_bank_of_opposed_values_has_no_others_and_one_of_any_is_as_it_was(kinds, most, total):
    rules = pool_split(kinds=kinds, most=most, total=total, values="opposed", scenarios=50)
    assert all(are_opposed(*scenario.values) for scenario in rules.starts()) and len(rules.starts()) > 5
    assert all(
        sum(n * v for n, v in zip(scenario.counts, values, strict=True)) == total
        for scenario in rules.starts()
        for values in scenario.values
    )
    anything = pool_split(kinds=kinds, most=most, total=total, scenarios=50)
    assert [anything.start(number) for number in range(50)] == [
        anything.source.scenario(number) for number in range(50)
    ]
    assert not all(are_opposed(*scenario.values) for scenario in anything.starts())
    same = [are_opposed(*anything.start(number).values) for number in range(50)]
    assert all(rules.start(number) == anything.start(number) for number in range(50) if same[number])
    later = next(
        number for number in range(50) if not same[number]
    )  # it is no neighbour's, but one of beyond the largest bank
    beyond = (anything.source.scenario(number) for number in itertools.count(later, 100_000))
    assert rules.start(later) == next(scenario for scenario in beyond if are_opposed(*scenario.values))


@pytest.mark.parametrize("recall", [False, True])
def test_the_view_of_a_repeated_split_has_the_play_before_where_it_recalls(recall):
    course = make_environment(
        "repeated", environment={"name": "pool_split", "options": {"kinds": 2, "most": 1}}, rounds=3, recall=recall
    ).reset(Stream.from_seed(0))
    for count in range(3):
        seen = [course.observe(seat) for seat in (0, 1)]
        news = "" if count == 0 else f"other took {count - 1} 1 "
        for observation, role in zip(seen, ("first", "second"), strict=True):
            assert observation.view.startswith(news if recall else "") and observation.prompt.startswith(news)
            assert ("other took" in observation.view) == (recall and count > 0)
            assert observation.view.endswith(observation.prompt[observation.prompt.index(role) :]) and (
                not recall or observation.view == observation.prompt
            )
        course.step({0: f"{count} 1" if count < 2 else "1 1", 1: f"{count} 1" if count < 2 else "1 1"})
