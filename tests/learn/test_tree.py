"""Gradients by leaves: the tree's order, the same bits by whoever computes a leaf, and the gradient of one pass."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins.registry import bind, built_in, load
from sparring.core.errors import ConfigError
from sparring.engine.local import LocalEngine
from sparring.league.seating import starts
from sparring.learn.gradient_step import GradientTree, leaves
from sparring.learn.pack import pack
from sparring.play.turn_table import turn_table

BASE = {"environments": [{"name": "kuhn_poker", "illegal": {"penalty": 1.0}}], "rollout": {"games_per_step": 48}, "threads": 1}


def updated(**changes):
    run = LocalEngine(resolve({**BASE, **changes}))
    matchmaker = bind("league.matchmakers", "mirror")
    specs = starts(0, games=run.environments, rollout=run.config.rollout, matchmaker=matchmaker, members=(), root=run.root, progress=0.0)
    played = run.play(specs).episodes
    data = pack(played)
    advantages = np.linspace(-1, 1, len(data.turn_of))
    return run.learner.update(data, advantages, None, turns=turn_table(played), progress=0.0, stream=run.root)


class Data:
    """What ``leaves`` reads of a pack."""

    def __init__(self, sequences, distinct):
        self.sequences, self.distinct = sequences, np.array(distinct)


class Sharing:
    def __init__(self, rank, ranks, sums):
        self.rank, self.ranks, self._sums = rank, ranks, sums

    def added(self, own):
        self._sums.append(own)
        return own


def summed(gradients, ranks=1):
    count = len(gradients)
    data = Data([(index,) for index in range(count)], range(count))
    sums = []
    for rank in range(ranks):
        own = torch.nn.Parameter(torch.zeros_like(gradients[0]))
        tree = GradientTree([own], count, Sharing(rank, ranks, sums))
        for leaf in tree.leaves(data, np.arange(count)):
            own.grad = None if gradients[leaf[0]] is None else gradients[leaf[0]].clone()
            tree.add()
        tree.finish()
    while len(sums) > 1:  # each level of the exchange: partners add what they have
        sums = [left + right for left, right in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0][: gradients[0].numel()]


def test_leaves_are_added_in_pairs_and_not_one_after_the_other():
    found = summed([torch.tensor([value]) for value in (1e8, 1.0, -1e8, 1.0)])
    assert found.item() == 0.0  # (1e8 + 1) + (-1e8 + 1), where 1e8 swallows each 1; one after the other gives 1


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=8, max_size=8))
def test_one_two_four_and_eight_learners_have_the_same_bits(values):
    gradients = [torch.tensor(own) for own in values]
    alone = summed(gradients)
    for ranks in (2, 4, 8):
        assert summed(gradients, ranks).equal(alone)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20, unique=True), st.sampled_from([1, 2, 4, 8]), st.data())
def test_every_sequence_is_in_one_leaf_with_those_that_equal_it(sequences, count, drawn):
    distinct = drawn.draw(st.lists(st.integers(0, len(sequences) - 1), min_size=1, max_size=40))
    chosen = np.sort(np.array(drawn.draw(st.lists(st.integers(0, len(distinct) - 1), min_size=1, unique=True))))
    found = leaves(Data(sequences, distinct), chosen, count)
    assert len(found) == count
    assert sorted(np.concatenate(found).tolist()) == chosen.tolist()
    homes = {}
    for number, leaf in enumerate(found):
        for one in leaf.tolist():
            assert homes.setdefault(distinct[one], number) == number
    order = [sequences[index] for number in range(count) for index in sorted({distinct[one] for one in found[number].tolist()}, key=sequences.__getitem__)]
    assert order == sorted(order)


def test_leaves_hold_about_as_many_distinct_prefixes():
    sequences = [(0, index, *range(index % 5)) for index in range(400)]
    found = leaves(Data(sequences, range(400)), np.arange(400), 8)
    sizes = [sum(len(sequences[one]) - 1 for one in leaf) for leaf in found]
    assert max(sizes) - min(sizes) <= 6


def test_a_parameter_that_takes_part_in_no_leaf_has_no_gradient():
    used, unused, late = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    tree = GradientTree([used, unused, late], 2)
    data = Data([(0,), (1,)], [0, 1])
    for number, _ in enumerate(tree.leaves(data, np.arange(2))):
        used.grad = torch.ones(2)
        late.grad = torch.full((2,), 3.0) if number else None
        tree.add()
    tree.finish()
    assert unused.grad is None
    assert used.grad.tolist() == [2.0, 2.0] and late.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("terms", [["policy_gradient"], ["ppo_clip", "entropy_bonus"]])
@pytest.mark.parametrize("reduction", ["token_mean", "sequence_mean", "constant"])
def test_the_gradient_is_that_of_one_pass(terms, reduction):
    named = [{"name": name} for name in terms]
    found = [updated(learner={"leaves": count, "reduction": reduction, "micro_tokens": 64}, losses=named) for count in (1, 4, 16)]
    for name in ("gradient_norm", "loss", "ratio_p99", "logprob_difference_mean"):
        assert [one[name] for one in found] == pytest.approx([found[0][name]] * 3, rel=1e-5, abs=1e-7)


def test_a_loss_of_the_whole_minibatch_sees_all_of_it_in_every_leaf():
    name = next(name for name in built_in("losses") if "whole" in load("losses", name).needs)
    one, four = (updated(learner={"leaves": count}, losses=[{"name": name}]) for count in (1, 4))
    assert one["gradient_norm"] == pytest.approx(four["gradient_norm"], rel=1e-5)


def test_leaves_are_a_power_of_two():
    with pytest.raises(ConfigError, match=r"leaves=6 is no power of 2; write 4 or 8"):
        resolve({"learner": {"leaves": 6}, "environments": [{"name": "kuhn_poker"}]})
