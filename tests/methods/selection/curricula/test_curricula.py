import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.methods.selection.curricula.requests import record, request

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.league.seating import make_arms, step_specs
from sparring.methods.selection.curricula.base import MAX_RECORDS, Arm, ArmBook, pick_by_weight
from sparring.methods.selection.curricula.by_weight import by_weight
from sparring.methods.selection.curricula.difficulty import difficulty
from sparring.methods.selection.curricula.prioritised import prioritised
from sparring.methods.selection.curricula.signals_triage import _signals, signals_triage
from sparring.methods.selection.curricula.vade import _posterior, vade
from sparring.methods.selection.curricula.xrpo_allocator import xrpo_allocator
from sparring.play.turn_table import turn_table


def make_engine(**rollout):
    games = [{"name": "kuhn_poker", "weight": 3}, {"name": "leduc_poker"}, {"name": "tic_tac_toe", "weight": 0}]
    sizes = {"hidden_size": 8, "layers": 1, "heads": 1}
    return LocalEngine(
        resolve(
            {
                "environments": games,
                "rollout": {"games_per_step": 48, "group_size": 2, **rollout},
                "model": sizes,
                "threads": 1,
            }
        )
    )


def specs_of(engine, step=0, **options):
    matchmaker = bind("league.matchmakers", "mirror")
    options_of_starts = {
        "games": engine.environments,
        "rollout": engine.config.rollout,
        "matchmaker": matchmaker,
        "members": (),
        "root": engine.root,
    }
    return step_specs(step, progress=0.0, **options_of_starts, **options)


def test_by_weight_shares_games_and_initial_states():
    book = ArmBook([Arm("a", 0, 3.0), Arm("a", 1, 3.0), Arm("a", 2, 3.0), Arm("b", 0, 1.0), Arm("b", 1, 1.0)])
    arms_chosen = by_weight(book.request(4000, 0, Stream.from_seed(0)))
    shares = np.bincount(arms_chosen, minlength=5) / 4000
    assert shares == pytest.approx([0.25, 0.25, 0.25, 0.125, 0.125], abs=0.03)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=6).filter(lambda w: sum(w) > 0.01), st.floats(0, 1))
def test_an_arm_without_weight_is_never_picked(weights, target):
    assert weights[pick_by_weight(range(len(weights)), weights, target)] > 0


def test_arms_exclude_held_out_games():
    engine = make_engine()
    assert [arm.name for arm in make_arms(engine.environments, 0)] == ["kuhn_poker", "leduc_poker"]
    assert [arm.name for arm in make_arms(engine.environments, 2)] == [
        "kuhn_poker#0",
        "kuhn_poker#1",
        "leduc_poker#0",
        "leduc_poker#1",
    ]


def test_fixed_initial_states_repeat_in_every_step_and_form_groups():
    engine = make_engine(starts=3)
    specs, specs_of_next_step = specs_of(engine), specs_of(engine, step=1)
    deals = {spec.arm: spec.deal.key for spec in specs}
    assert len(deals) == len(set(deals.values())) == 6
    assert all(deals[spec.arm] == spec.deal.key for spec in specs_of_next_step)
    groups = {}
    for spec in specs:
        groups.setdefault(spec.arm, set()).add(spec.group_id)
    assert all(len(ids) == 1 for ids in groups.values())
    assert len({spec.episode_id for spec in specs + specs_of_next_step}) == 96
    assert len({spec.stream.key for spec in specs}) == 48  # games of a group share only their initial state
    fresh_specs = specs_of(make_engine())
    assert len({spec.deal.key for spec in fresh_specs}) == 24


def test_records_of_arms_by_hand():
    engine = make_engine()
    specs = specs_of(engine)
    episodes = engine.play(specs).episodes
    book = ArmBook(make_arms(engine.environments, 0))
    arm_of = {spec.group_id: spec.arm for spec in specs}
    book.observe(turn_table(episodes), arm_of, 7)
    request = book.request(1, 8, Stream.from_seed(0))
    for arm, records in zip(request.arms, request.history, strict=True):
        groups = sorted({group for group, name in arm_of.items() if name == arm.name})
        assert len(records) == len(groups)
        for group, summary in zip(groups, records, strict=True):
            members = [episode for episode in episodes if episode.group_id == group]
            returns = np.array(
                [[sum(sum(t.rewards.values()) for t in e.turns if t.seat == s) for s in (0, 1)] for e in members]
            )
            has_turns = np.array([[any(t.seat == s for t in e.turns) for s in (0, 1)] for e in members])
            assert (summary.step, summary.size) == (7, has_turns.sum())
            assert summary.successes == (returns[has_turns] > 0).sum()
            assert summary.mean == pytest.approx(returns[has_turns].mean())
            if has_turns.all():
                assert summary.deviation == pytest.approx(np.sqrt(returns.var(axis=0).mean()))


def test_the_arm_book_survives_json_and_drops_old_records():
    book = ArmBook(
        [Arm("a", None, 1.0)],
        {"a": [[step, 2, 1, 0.5, 0.5] for step in range(MAX_RECORDS)], "gone": [[0, 1, 1, 1.0, 0.0]]},
    )
    assert list(book.state) == ["a"]
    restored_book = ArmBook(book.arms, json.loads(json.dumps(book.state)))
    assert restored_book.request(1, 0, Stream.from_seed(0)).history == book.request(1, 0, Stream.from_seed(0)).history
    engine = make_engine()
    specs = [spec for spec in specs_of(engine) if spec.arm == "kuhn_poker"][:2]
    book.observe(turn_table(engine.play(specs).episodes), {specs[0].group_id: "a"}, 99)
    (records,) = book.request(1, 0, Stream.from_seed(0)).history
    assert (len(records), records[0].step, records[-1].step) == (MAX_RECORDS, 1, 99)


RATES = [[record(n, 10)] for n in (0, 3, 5, 7, 10)]


def arms_in_band(**options):
    groups = options.pop("groups", 400)
    history = options.pop("history", RATES)
    return set(difficulty(request(*history, groups=groups), **options).tolist())


def test_difficulty_by_hand():
    assert arms_in_band(floor=0.0) == {1, 2, 3}
    assert arms_in_band(floor=0.0, width=0.1) == {2}
    assert arms_in_band(floor=0.0, target=1.0, width=0.3) == {3, 4}
    assert arms_in_band(floor=0.0, target=0.4, width=0.0) == {1, 2}  # no arm is in the band: the nearest one
    assert arms_in_band(floor=0.0, width=0.1, history=[*RATES, []]) == {2, 5}  # never played


def test_the_floor_gives_every_arm_a_share():
    arms_chosen = difficulty(request(*RATES, groups=4000), floor=0.5, width=0.1)
    assert np.bincount(arms_chosen) / 4000 == pytest.approx([0.1, 0.1, 0.6, 0.1, 0.1], abs=0.03)


def test_records_outside_the_window_do_not_count():
    history = [[record(0, 10), record(5, 10), record(5, 10)], [record(5, 10)] * 3]
    assert arms_in_band(history=history, floor=0.0, width=0.0, window=2) == {0, 1}
    assert arms_in_band(history=history, floor=0.0, width=0.0, window=3) == {1}


def test_shares_of_games_hold_inside_the_band():
    arms = (Arm("a", 0, 3.0), Arm("a", 1, 3.0), Arm("b", 0, 1.0))
    arms_chosen = difficulty(
        request([record(5, 10)], [record(0, 10)], [record(5, 10)], groups=4000, arms=arms), floor=0.0
    )
    assert np.bincount(arms_chosen, minlength=3) / 4000 == pytest.approx([0.6, 0.0, 0.4], abs=0.03)


def test_the_target_can_be_a_schedule():
    rule = bind("selection.curricula", "difficulty", {"floor": 0.0, "width": 0.0}, preset="easy_to_hard")
    arm_request = request(*[[record(n, 10)] for n in (8, 3)], groups=20)
    assert set(rule(arm_request, progress=0.0).tolist()) == {0}
    assert set(rule(arm_request, progress=1.0).tolist()) == {1}


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 999))
def test_difficulty_with_an_unlimited_band_equals_by_weight(arms, seed):
    arm_request = request(*[[record(n, 5)] for n in range(arms)], groups=3000, seed=seed)
    difficulty_counts, weight_counts = (
        np.bincount(choose, minlength=arms) / 3000
        for choose in (difficulty(arm_request, width=1.0), by_weight(arm_request))
    )
    assert difficulty_counts == pytest.approx(weight_counts, abs=0.06)


HISTORY = [
    [record(deviation=9.0), record(deviation=0.1, step=9)],
    [record(deviation=0.3, step=5)],
    [record(deviation=0.0, step=4)],
]


def prioritised_shares(*history, **options):
    arms = options.pop("arms", None)
    return np.bincount(prioritised(request(*history, groups=6000, arms=arms), **options), minlength=len(history)) / 6000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"staleness": 0.0}, [0.25, 0.75, 0.0]),  # the latest record counts
        ({"staleness": 0.0, "alpha": 2.0}, [0.1, 0.9, 0.0]),
        ({"staleness": 0.0, "alpha": 0.0}, [1 / 3, 1 / 3, 1 / 3]),
        ({"staleness": 0.0, "by": "rank"}, [3 / 11, 6 / 11, 2 / 11]),
        ({"staleness": 1.0}, [1 / 12, 5 / 12, 6 / 12]),
        ({"staleness": 0.5}, [0.125 + 1 / 24, 0.375 + 5 / 24, 6 / 24]),
    ],
)
def test_prioritised_by_hand(options, expected):
    assert prioritised_shares(*HISTORY, **options) == pytest.approx(expected, abs=0.025)


def test_arms_never_played_get_a_share():
    arms = (Arm("a", 0, 1.0), Arm("a", 1, 1.0), Arm("b", 0, 3.0), Arm("b", 1, 3.0))
    shares = prioritised_shares(HISTORY[1], [], [record(deviation=0.0)], [], arms=arms, staleness=0.0)
    assert shares == pytest.approx([0.5, 0.5 / 4, 0.0, 0.5 * 3 / 4], abs=0.025)
    assert prioritised_shares([], []) == pytest.approx([0.5, 0.5], abs=0.025)


def test_with_equal_arms_shares_are_equal():
    assert prioritised_shares([record()], [record()], staleness=0.0) == pytest.approx([0.5, 0.5], abs=0.025)
    assert prioritised_shares([record(step=10)], [record(step=10)], staleness=1.0) == pytest.approx(
        [0.5, 0.5], abs=0.025
    )


@pytest.mark.parametrize(
    ("rates", "signs"),
    [
        ([], (1.0, 0.0, 0.0)),
        ([1], (0.75, 0.0, 0.0)),
        ([2, 2], (0.5, 1.0, 0.0)),
        ([4, 4], (0.0, 0.0, 0.0)),  # a solved arm is not stuck
        ([4, 2, 1], (0.75, 0.0, 0.5)),
        ([1, 3], (0.25, 0.0, 0.0)),
    ],
)
def test_triage_signs_by_hand(rates, signs):
    assert _signals([record(rate, 4) for rate in rates]) == pytest.approx(signs)


def signals_triage_shares(*history, **options):
    return np.bincount(signals_triage(request(*history, groups=6000), **options), minlength=len(history)) / 6000


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({}, [0.1, 1.6, 1.35]),
        ({"failure": 0.0}, [0.1, 1.1, 0.6]),
        ({"stagnation": 0.0}, [0.1, 0.6, 1.35]),
        ({"decline": 0.0}, [0.1, 1.6, 0.85]),
        ({"floor": 5.0}, [5.0, 6.5, 6.25]),
        ({"window": 2}, [0.1, 1.6, 0.1 + 0.75 + 0.25]),
    ],
)
def test_shares_of_each_triage_sign_by_hand(options, weights):
    history = [[record(4), record(4)], [record(2), record(2)], [record(4), record(2), record(1)]]
    assert signals_triage_shares(*history, **options) == pytest.approx(np.array(weights) / sum(weights), abs=0.025)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=5), st.integers(0, 999))
def test_signals_triage_without_signs_is_by_weight(rates, seed):
    arm_request = request(*[[record(rate) for rate in arm] for arm in rates], groups=40, seed=seed)
    assert (
        signals_triage(arm_request, failure=0.0, stagnation=0.0, decline=0.0).tolist()
        == by_weight(arm_request).tolist()
    )


def test_the_beta_posterior_by_hand():
    records = (record(1, 4, step=2), record(3, 4, step=8))
    alpha, beta = _posterior(records, 10, 1.0, 0.5, 0.9)
    assert alpha == pytest.approx(1 + 3 * 0.9**2 + 1 * 0.5 * 0.9**8)
    assert beta == pytest.approx(1 + 1 * 0.9**2 + 3 * 0.5 * 0.9**8)
    assert _posterior(records, 10, 2.0, 1.0, 1.0) == (6.0, 6.0)
    assert _posterior((), 10, 0.5, 0.9, 0.9) == (0.5, 0.5)


def test_open_arms_are_played_once_each_if_there_are_enough():
    history = [[record(n, 400, step=9)] for n in (0, 40, 200, 360, 400, 180)]
    assert sorted(vade(request(*history, groups=2)).tolist()) == [2, 5]
    assert sorted(vade(request(*history, groups=6)).tolist()) == list(range(6))
    counts = np.bincount(vade(request(*history, groups=300)), minlength=6)
    assert set(np.flatnonzero(counts).tolist()) == {2, 5}
    assert counts.min(initial=999, where=counts > 0) > 50


def test_evidence_decays_with_visits_and_with_steps():
    solved = [record(40, 40, step=1)]
    half_solved = [record(20, 40, step=9)]

    def share_of_solved_arm(**options):
        return np.mean([vade(request(solved, half_solved, seed=seed), **options)[0] == 0 for seed in range(60)])

    assert share_of_solved_arm(visit_decay=1.0, step_decay=1.0) == 0.0
    assert share_of_solved_arm(step_decay=0.5) > 0.05  # the old record has almost no weight: Beta(1.08, 1)
    was_solved = [record(40, 40), *[record(20, 40)] * 3]
    assert _posterior(was_solved, 0, 1.0, 1.0, 1.0)[0] / sum(_posterior(was_solved, 0, 1.0, 1.0, 1.0)) > 0.6
    assert _posterior(was_solved, 0, 1.0, 0.1, 1.0)[0] / sum(_posterior(was_solved, 0, 1.0, 0.1, 1.0)) < 0.51


def greedy_allocation(records, groups, size, exploration, confidence):
    """Return the greedy allocation over (n, s) pairs, all priorities different."""
    counts, allocation = [n for n, _ in records], []
    for _ in range(groups):

        def half_width(n, s):
            return stats.t.ppf((1 + confidence) / 2, n - 1) * s / np.sqrt(n)

        total = sum(counts)
        priorities = [
            half_width(n, s) - half_width(n + 1, s) + exploration * np.sqrt(np.log(1 + total) / n)
            for n, (_, s) in zip(counts, records, strict=True)
        ]
        best_arm = int(np.argmax(priorities))
        allocation.append(best_arm)
        counts[best_arm] += size
    return allocation


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(2, 30), st.floats(0.01, 5)),
        min_size=1,
        max_size=5,
        unique_by=(lambda a: a[0], lambda a: round(a[1], 2)),
    ),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([0.5, 0.95]),
)
def test_the_xrpo_allocator_equals_the_greedy_loop(records, groups, exploration, confidence):
    history = [[record(size=n, deviation=s * np.sqrt((n - 1) / n))] for n, s in records]
    size = max(1, round(sum(n for n, _ in records) / len(records)))
    arms_chosen = xrpo_allocator(request(*history, groups=groups), exploration=exploration, confidence=confidence)
    assert arms_chosen.tolist() == greedy_allocation(records, groups, size, exploration, confidence)


def test_xrpo_allocator_by_hand():
    """h(4) - h(5) at deviation 2: 3.1824 * 1 - 2.7764 * 0.8944 = 0.6991."""
    varied, settled, few_records = (
        [record(size=4, deviation=np.sqrt(3.0))],
        [record(size=4, deviation=0.0)],
        [record(size=2, deviation=0.0)],
    )
    assert xrpo_allocator(request(varied, settled, groups=5), exploration=0.0).tolist() == [0] * 5
    bonus = np.sqrt(np.log(7.0)) * (
        np.sqrt(1 / 2) - np.sqrt(1 / 4)
    )  # the bonus difference of the arm with fewer records
    for exploration, first_arm in ((0.6991 / bonus * 0.99, 0), (0.6991 / bonus * 1.01, 1)):
        assert xrpo_allocator(request(varied, few_records), exploration=exploration).tolist() == [first_arm]


def test_arms_never_played_come_first_and_equal_arms_alternate():
    varied = [record(size=4, deviation=5.0)]
    assert xrpo_allocator(request(varied, [], [record(size=1)], groups=2)).tolist() != [0, 0]
    assert set(xrpo_allocator(request(varied, [], [record(size=1)], groups=2)).tolist()) == {1, 2}
    assert sorted(xrpo_allocator(request([], [], [], groups=6, step=0)).tolist()) == [0, 0, 1, 1, 2, 2]
    assert sorted(xrpo_allocator(request([], [], [], groups=3, step=0)).tolist()) == [0, 1, 2]
    assert len({xrpo_allocator(request([], [], [], seed=seed))[0] for seed in range(20)}) == 3


def test_only_the_latest_records_count():
    history = [[record(size=4, deviation=9.0), record(size=4, deviation=0.0)], [record(size=4, deviation=1.0)]]
    assert xrpo_allocator(request(*history), window=1, exploration=0.0).tolist() == [1]
    assert xrpo_allocator(request(*history), window=2, exploration=0.0).tolist() == [0]
