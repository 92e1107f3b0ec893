"""Arms, their records, and the curriculum that ignores them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.league.seating import arms, starts
from sparring.methods.selection.curricula.base import KEPT, Arm, ArmBook, pick_by_weight
from sparring.methods.selection.curricula.by_weight import by_weight
from sparring.play.turn_table import turn_table


def setting(**rollout):
    games = [{"name": "kuhn_poker", "weight": 3}, {"name": "leduc_poker"}, {"name": "tic_tac_toe", "weight": 0}]
    sizes = {"hidden_size": 8, "layers": 1, "heads": 1}
    return LocalEngine(
        resolve({"environments": games, "rollout": {"games_per_step": 48, "group_size": 2, **rollout}, "model": sizes, "threads": 1})
    )


def specs_of(engine, step=0, **more):
    matchmaker = bind("league.matchmakers", "mirror")
    fixed = {"games": engine.environments, "rollout": engine.config.rollout, "matchmaker": matchmaker, "members": (), "root": engine.root}
    return starts(step, progress=0.0, **fixed, **more)


def test_shares_of_games_and_of_starts():
    book = ArmBook([Arm("a", 0, 3.0), Arm("a", 1, 3.0), Arm("a", 2, 3.0), Arm("b", 0, 1.0), Arm("b", 1, 1.0)])
    chosen = by_weight(book.request(4000, 0, Stream.from_seed(0)))
    shares = np.bincount(chosen, minlength=5) / 4000
    assert shares == pytest.approx([0.25, 0.25, 0.25, 0.125, 0.125], abs=0.03)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=6).filter(lambda w: sum(w) > 0.01), st.floats(0, 1))
def test_an_arm_without_weight_is_never_picked(weights, target):
    assert weights[pick_by_weight(range(len(weights)), weights, target)] > 0


def test_arms_leave_out_what_is_held_out():
    engine = setting()
    assert [arm.name for arm in arms(engine.environments, 0)] == ["kuhn_poker", "leduc_poker"]
    assert [arm.name for arm in arms(engine.environments, 2)] == ["kuhn_poker#0", "kuhn_poker#1", "leduc_poker#0", "leduc_poker#1"]


def test_fixed_starts_deal_the_same_cards_in_every_step_and_games_of_one_start_are_one_group():
    engine = setting(starts=3)
    first, second = specs_of(engine), specs_of(engine, step=1)
    deals = {spec.arm: spec.deal.key for spec in first}
    assert len(deals) == len(set(deals.values())) == 6
    assert all(deals[spec.arm] == spec.deal.key for spec in second)
    groups = {}
    for spec in first:
        groups.setdefault(spec.arm, set()).add(spec.group_id)
    assert all(len(ids) == 1 for ids in groups.values())
    assert len({spec.episode_id for spec in first + second}) == 96
    assert len({spec.stream.key for spec in first}) == 48  # games of a group differ in everything but their start
    fresh = specs_of(setting())
    assert len({spec.deal.key for spec in fresh}) == 24


def test_records_by_hand():
    engine = setting()
    specs = specs_of(engine)
    episodes = engine.play(specs).episodes
    book = ArmBook(arms(engine.environments, 0))
    arm_of = {spec.group_id: spec.arm for spec in specs}
    book.observe(turn_table(episodes), arm_of, 7)
    request = book.request(1, 8, Stream.from_seed(0))
    for arm, records in zip(request.arms, request.history, strict=True):
        groups = sorted({group for group, name in arm_of.items() if name == arm.name})
        assert len(records) == len(groups)
        for group, record in zip(groups, records, strict=True):
            own = [episode for episode in episodes if episode.group_id == group]
            returns = np.array([[sum(sum(t.rewards.values()) for t in e.turns if t.seat == s) for s in (0, 1)] for e in own])
            asked = np.array([[any(t.seat == s for t in e.turns) for s in (0, 1)] for e in own])
            assert (record.step, record.size) == (7, asked.sum())
            assert record.successes == (returns[asked] > 0).sum()
            assert record.mean == pytest.approx(returns[asked].mean())
            if asked.all():
                assert record.deviation == pytest.approx(np.sqrt(returns.var(axis=0).mean()))


def test_the_book_survives_json_and_forgets_what_is_old():
    book = ArmBook([Arm("a", None, 1.0)], {"a": [[step, 2, 1, 0.5, 0.5] for step in range(KEPT)], "gone": [[0, 1, 1, 1.0, 0.0]]})
    assert list(book.state) == ["a"]
    again = ArmBook(book.arms, json.loads(json.dumps(book.state)))
    assert again.request(1, 0, Stream.from_seed(0)).history == book.request(1, 0, Stream.from_seed(0)).history
    engine = setting()
    specs = [spec for spec in specs_of(engine) if spec.arm == "kuhn_poker"][:2]
    book.observe(turn_table(engine.play(specs).episodes), {specs[0].group_id: "a"}, 99)
    (records,) = book.request(1, 0, Stream.from_seed(0)).history
    assert (len(records), records[0].step, records[-1].step) == (KEPT, 1, 99)
