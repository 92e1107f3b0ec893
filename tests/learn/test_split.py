"""Weights split among learners: their rows, their sums along the tree, and files written one tensor at a time."""

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import DivergedError
from sparring.learn.gradient_step import GradientTree, leaves
from sparring.learn.split import DTYPE_NAMES, SplitGradientTree, TreeReduceScatter, _copy_rows, save_streamed

POWERS = st.sampled_from([2, 4, 8])


class Data:
    def __init__(self, count):
        self.sequences = [(index,) for index in range(count)]
        self.distinct = np.arange(count)


class Local:
    def __init__(self, tensor):
        self.tensor = tensor

    def to_local(self):
        return self.tensor


class Rows:
    def __init__(self, tensor):
        self.tensor = tensor

    def get_shape(self):
        return list(self.tensor.shape)

    def __getitem__(self, rows):
        return self.tensor[rows]


def sum_of_one_learner(gradients):
    parameter = torch.nn.Parameter(torch.zeros_like(gradients[0]))
    tree = GradientTree([parameter], len(gradients))
    for (leaf,) in tree.leaves(Data(len(gradients)), np.arange(len(gradients))):
        parameter.grad = gradients[leaf].clone()
        tree.add()
    tree.finish()
    return parameter.grad


def sum_of_several_learners(gradients, ranks, monkeypatch):
    data, other_ranks = (
        Data(len(gradients)),
        [type("One", (), {"rank": rank, "num_ranks": ranks}) for rank in range(ranks)],
    )
    sums = []
    for rank, share in enumerate(other_ranks):
        tree = SplitGradientTree([], len(gradients), share, (100, 1))
        peers = [
            SplitGradientTree([], len(gradients), peer, (100, 1)).leaves(data, np.arange(len(gradients)))
            for peer in other_ranks
        ]
        rows = gradients[0].view(ranks, -1)[rank]
        tree._take_gradients = lambda: summed  # noqa: B023, called in the loop
        for _ in tree.leaves(data, np.arange(len(gradients))):
            expected_rows = torch.cat([gradients[int(next(share)[0])].view(ranks, -1)[rank] for share in peers])
            monkeypatch.setattr(
                torch.distributed,
                "all_to_all_single",
                lambda out, inputs, group, expected_rows=expected_rows: out.copy_(expected_rows),
            )
            summed = torch.empty_like(rows)
            TreeReduceScatter()(summed, expected_rows.clone(), None, None)
            tree.add()
        ((_, total),) = tree._sums
        sums.append(total)
    return torch.cat(sums)


@given(seed=st.integers(0, 999), ranks=POWERS, num_more=st.sampled_from([1, 2, 4]))
def test_the_tree_over_learners_and_leaves_has_the_bits_of_one_learner(seed, ranks, num_more):
    draw = torch.Generator().manual_seed(seed)
    gradients = [
        torch.randn(8, generator=draw) * 10.0 ** torch.randint(-6, 6, (8,), generator=draw)
        for _ in range(ranks * num_more)
    ]
    with pytest.MonkeyPatch.context() as patch:
        assert sum_of_several_learners(gradients, ranks, patch).equal(sum_of_one_learner(gradients))


@given(seed=st.integers(0, 99), ranks=POWERS)
def test_gradients_of_16_bits_are_added_in_float32_and_rounded_once(seed, ranks):
    inputs = torch.randn(ranks, 8, generator=torch.Generator().manual_seed(seed)).bfloat16()
    result = torch.empty(8, dtype=torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "all_to_all_single", lambda out, inputs, group: out.copy_(inputs))
        TreeReduceScatter()(result, inputs.flatten(), None, None)
    sums = list(inputs.float())
    while len(sums) > 1:
        sums = [left + right for left, right in zip(sums[::2], sums[1::2], strict=True)]
    assert result.equal(sums[0].bfloat16())


@given(rows=st.integers(1, 9), ranks=POWERS)
def test_each_learner_reads_its_rows_and_together_they_are_complete(rows, ranks):
    full_tensor = torch.arange(3.0 * rows).view(rows, 3)
    blocks = full_tensor.chunk(ranks)  # as fully_shard cuts them
    for rank in range(ranks):
        target = torch.zeros_like(blocks[rank] if rank < len(blocks) else full_tensor[:0])
        _copy_rows(Local(target), Rows(full_tensor), rank, ranks)
        assert target.equal(blocks[rank] if rank < len(blocks) else full_tensor[:0])


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_all_learners_make_the_same_number_of_passes(ranks):
    data = Data(23)
    other_ranks = [type("One", (), {"rank": rank, "num_ranks": ranks}) for rank in range(ranks)]
    trees = [SplitGradientTree([], 4, share, (3, 8)) for share in other_ranks]
    walks = [tree.leaves(data, np.arange(23)) for tree in trees]
    leaves_seen = []
    for index in range(4 // ranks):
        leaves_of_ranks = [next(walk) for walk in walks]
        num_passes = {tree.passes(data) for tree in trees}
        assert num_passes == {max(-(-len(leaf) // 3) for leaf in leaves_of_ranks)}
        leaves_seen += [leaf.tolist() for leaf in leaves_of_ranks]
        assert len(leaves_seen) == (index + 1) * ranks
    assert leaves_seen == [leaf.tolist() for leaf in leaves(data, np.arange(23), 4)]
    assert [len(tree.select_rows(data, np.arange(23))) for tree in trees] == [23, *[0] * (ranks - 1)]
    assert {tree.passes(data) for tree in trees} == {8}


SHAPES = st.lists(st.tuples(st.sampled_from(list(DTYPE_NAMES)), st.lists(st.integers(0, 3), max_size=3)), max_size=5)


@given(shapes=SHAPES)
def test_a_file_written_tensor_by_tensor_has_the_bytes_of_the_library(shapes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    draw = torch.Generator().manual_seed(len(shapes))
    tensors = {
        f"{index % 2}.{'é' * index}{index}": torch.randn(shape, generator=draw).to(dtype)
        for index, (dtype, shape) in enumerate(shapes)
    }
    safetensors.torch.save_file(tensors, folder / "library")
    order = []
    calls = {name: lambda name=name: order.append(name) or tensors[name] for name in tensors}
    dtypes_and_shapes = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    save_streamed(calls, dtypes_and_shapes, folder / "ours", "The weight")
    assert (folder / "ours").read_bytes() == (folder / "library").read_bytes()
    written_names, order[:] = list(order), []
    save_streamed(calls, dtypes_and_shapes, None, "The weight")
    assert order == written_names, "a learner that writes nothing calls in the same order"


def test_values_that_are_not_finite_are_not_written(tmp_path):
    with pytest.raises(DivergedError, match="The weight a is not finite"):
        save_streamed({"a": lambda: torch.tensor([np.nan])}, {"a": (torch.float32, (1,))}, tmp_path / "a", "The weight")
