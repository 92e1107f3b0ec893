"""Pool split: simultaneous claims, private values, and items that both seats claim."""

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


def new_play(scenario=SCENARIO, **options):
    return SplitPlay(pool_split(kinds=2, **options), scenario)


test_environment_contract = make_contract_test(
    pool_split,
    [{}, {"style": "full", "over": "nothing", "kinds": 4}, {"kinds": 2, "most": 1, "scenarios": 1}],
    plays=10,
)


@pytest.mark.parametrize(
    ("over", "claims", "returns"),
    [
        ("share", ("0 3", "2 0"), (0.6, 1.0)),  # no item is claimed twice
        ("nothing", ("0 3", "2 0"), (0.6, 1.0)),
        ("share", ("2 3", "2 3"), (0.5, 0.5)),
        ("nothing", ("2 3", "2 3"), (0.0, 0.0)),
        ("share", ("2 3", "1 0"), ((2 * 4 / 3 + 6) / 10, 2 / 3 * 5 / 10)),
        ("nothing", ("2 3", "1 0"), (0.6, 0.0)),
        ("share", ("0 0", "0 0"), (0.0, 0.0)),
    ],
)
def test_items_claimed_twice_are_shared_or_lost(over, claims, returns):
    episode = new_play(over=over)
    assert episode.due() == (0, 1) and episode.returns == (0.0, 0.0)
    episode.step(dict(enumerate(claims)))
    assert episode.returns == pytest.approx(returns) and episode.done and episode.due() == ()


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4),
    st.sampled_from(["share", "nothing"]),
)
def test_shares_fit_the_pool_and_claiming_more_never_hurts(kinds, over):
    counts = tuple(count for count, _, _ in kinds)
    claim, other_claim = (tuple(min(kind[column], kind[0]) for kind in kinds) for column in (1, 2))
    shares = divide_items(counts, (claim, other_claim), over)
    assert all(share + other_share <= count + 1e-9 for count, share, other_share in zip(counts, *shares, strict=True))
    if over == "share":
        shares_of_full_claim = divide_items(counts, (counts, other_claim), over)[0]
        assert all(
            share <= larger_share + 1e-9 for share, larger_share in zip(shares[0], shares_of_full_claim, strict=True)
        )
    assert divide_items(counts, (other_claim, claim), over) == shares[::-1]


@pytest.mark.parametrize("style", ["brief", "full"])
def test_a_seat_sees_only_its_own_values(style):
    other_scenario = Scenario(SCENARIO.counts, (SCENARIO.values[0], (2, 2)))
    episodes = [new_play(scenario, style=style) for scenario in (SCENARIO, other_scenario)]
    assert episodes[0].observe(0) == episodes[1].observe(0) and episodes[0].observe(1) != episodes[1].observe(1)
    assert episodes[0].draw(0) == episodes[1].draw(0) and episodes[0].described(0) == episodes[1].described(0)
    for episode in episodes:
        episode.step({0: "0 3", 1: "2 0"})
    assert episodes[0].ending(0) == episodes[1].ending(0)
    assert episodes[0].draw(0) == episodes[1].draw(0) and episodes[0].described(0) == episodes[1].described(0)


def test_prompts_and_endings_by_hand():
    episode = new_play()
    assert (
        episode.observe(0).text == "first pool 2 3 worth 2 2 take"
        and episode.observe(1).text == "second pool 2 3 worth 5 0 take"
    )
    assert episode.legal(0) == tuple(f"{books} {hats}" for books, hats in itertools.product(range(3), range(4)))
    full_episode = new_play(style="full")
    check_contains(
        full_episode.observe(1).text,
        "2 books worth 5 each to you, 3 hats worth 0 each to you",
        "shared out in proportion",
        "(books, hats), for example: 1 1",
    )
    assert "goes to nobody" in new_play(style="full", over="nothing").observe(0).text
    for current_episode in (episode, full_episode):
        current_episode.step({0: "1 3", 1: "2 0"})
    assert (
        episode.ending(1) == "other took 1 3"
        and full_episode.ending(0) == "The other player named 2 books, 0 hats. You got 0.733333."
    )


def test_opposed_values_make_the_best_split_worth_more_than_the_total():
    for scenario in pool_split(kinds=2, most=1, total=6, values="opposed", scenarios=30).starts():
        episode = new_play(scenario, most=1, total=6)
        episode.step(
            {
                seat: " ".join("1" if value == max(values) else "0" for value in values)
                for seat, values in enumerate(scenario.values)
            }
        )
        assert sum(episode.returns) * 6 == sum(map(max, *scenario.values)) > 6


def test_repeated_rounds_have_rewards_and_news():
    base_game = {"name": "pool_split", "options": {"kinds": 2}}
    rules = make_environment("repeated", environment=base_game, rounds=3)
    episodes = play_episodes(rules, ["random", "random"], plays=4)
    turns = turn_table(episodes)
    assert turns.turn_index.tolist() == [0, 1, 2] * 8
    for episode in episodes:
        rewards = [[turn.rewards["game"] for turn in episode.turns if turn.seat == seat] for seat in (0, 1)]
        assert [sum(rewards_of_seat) for rewards_of_seat in rewards] == pytest.approx(list(episode.returns))
        assert all(0 <= value <= 1 for rewards_of_seat in rewards for value in rewards_of_seat)
    episode = rules.reset(Stream.from_seed(0))
    episode.step({0: episode.legal(0)[-1], 1: episode.legal(1)[0]})
    assert episode.observe(1).text.startswith(
        f"other took {' '.join(map(str, episode.earlier_plays[0].start.counts))} zero second pool"
    )


def test_impossible_values_are_refused():
    with pytest.raises(ConfigError, match="pool_split: no pool of 4 kinds"):
        pool_split(kinds=4, most=1, total=2)
    with pytest.raises(
        ConfigError, match=r"values='opposed' needs 4 different values, .* write total=20 or values=any"
    ):
        pool_split(kinds=4, most=1, total=4, values="opposed")


@pytest.mark.parametrize(
    ("values", "other_values", "is_opposed"),
    [
        ((5, 1), (0, 3), True),
        ((5, 1), (3, 0), False),
        ((5, 1), (3, 3), False),
        ((2, 2), (0, 3), False),
        ((3, 2, 0), (0, 1, 4), True),
        ((3, 2, 0), (1, 0, 4), False),
    ],
)
def test_opposed_values_rank_the_kinds_in_opposite_order(values, other_values, is_opposed):
    assert are_opposed(values, other_values) == are_opposed(other_values, values) == is_opposed


@pytest.mark.parametrize(("kinds", "most", "total"), [(2, 1, 6), (2, 3, 10), (3, 2, 10)])
def test_opposed_banks_replace_only_scenarios_that_are_not_opposed(kinds, most, total):
    opposed_rules = pool_split(kinds=kinds, most=most, total=total, values="opposed", scenarios=50)
    assert all(are_opposed(*scenario.values) for scenario in opposed_rules.starts()) and len(opposed_rules.starts()) > 5
    assert all(
        sum(count * value for count, value in zip(scenario.counts, values, strict=True)) == total
        for scenario in opposed_rules.starts()
        for values in scenario.values
    )
    any_rules = pool_split(kinds=kinds, most=most, total=total, scenarios=50)
    assert [any_rules.start(index) for index in range(50)] == [any_rules.source.scenario(index) for index in range(50)]
    assert not all(are_opposed(*scenario.values) for scenario in any_rules.starts())
    is_opposed = [are_opposed(*any_rules.start(index).values) for index in range(50)]
    assert all(opposed_rules.start(index) == any_rules.start(index) for index in range(50) if is_opposed[index])
    replaced_index = next(
        index for index in range(50) if not is_opposed[index]
    )  # the replacement has a higher number than the largest bank
    later_scenarios = (any_rules.source.scenario(index) for index in itertools.count(replaced_index, 100_000))
    assert opposed_rules.start(replaced_index) == next(
        scenario for scenario in later_scenarios if are_opposed(*scenario.values)
    )


@pytest.mark.parametrize("recall", [False, True])
def test_view_of_a_repeated_split_holds_the_last_round_only_with_recall(recall):
    episode = make_environment(
        "repeated", environment={"name": "pool_split", "options": {"kinds": 2, "most": 1}}, rounds=3, recall=recall
    ).reset(Stream.from_seed(0))
    for books in range(3):
        observations = [episode.observe(seat) for seat in (0, 1)]
        news = "" if books == 0 else f"other took {books - 1} 1 "
        for observation, role in zip(observations, ("first", "second"), strict=True):
            assert observation.view.startswith(news if recall else "") and observation.prompt.startswith(news)
            assert ("other took" in observation.view) == (recall and books > 0)
            assert observation.view.endswith(observation.prompt[observation.prompt.index(role) :]) and (
                not recall or observation.view == observation.prompt
            )
        episode.step({0: f"{books} 1" if books < 2 else "1 1", 1: f"{books} 1" if books < 2 else "1 1"})
