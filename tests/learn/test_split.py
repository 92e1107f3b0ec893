"""Weights split among learners: reading rows, summing gradients in tree order, and writing files tensor by tensor."""

from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import DivergedError
from sparring.learn.gradient_step import GradientTree, split_into_leaves
from sparring.learn.split import DTYPE_NAMES, SplitGradientTree, TreeReduceScatter, _copy_rows, save_streamed

NUM_RANKS = st.sampled_from([2, 4, 8])


class StubBatch:
    def __init__(self, count):
        self.sequences = [(index,) for index in range(count)]
        self.distinct = np.arange(count)


class StubShardedTensor:
    def __init__(self, tensor):
        self.tensor = tensor

    def to_local(self):
        return self.tensor


class StubFileSlice:
    def __init__(self, tensor):
        self.tensor = tensor

    def get_shape(self):
        return list(self.tensor.shape)

    def __getitem__(self, rows):
        return self.tensor[rows]


def gradient_of_one_learner(gradients):
    parameter = torch.nn.Parameter(torch.zeros_like(gradients[0]))
    tree = GradientTree([parameter], len(gradients))
    for (leaf,) in tree.leaves(StubBatch(len(gradients)), np.arange(len(gradients))):
        parameter.grad = gradients[leaf].clone()
        tree.add()
    tree.finish()
    return parameter.grad


def gradient_of_several_learners(gradients, num_ranks, monkeypatch):
    data = StubBatch(len(gradients))
    rank_groups = [SimpleNamespace(rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
    sums = []
    for rank, rank_group in enumerate(rank_groups):
        tree = SplitGradientTree([], len(gradients), rank_group, (100, 1))
        leaves_by_rank = [
            SplitGradientTree([], len(gradients), group, (100, 1)).leaves(data, np.arange(len(gradients)))
            for group in rank_groups
        ]
        rows = gradients[0].view(num_ranks, -1)[rank]
        tree._take_gradients = lambda: summed_rows  # noqa: B023, called in the loop
        for _ in tree.leaves(data, np.arange(len(gradients))):
            expected_rows = torch.cat(
                [gradients[int(next(leaves)[0])].view(num_ranks, -1)[rank] for leaves in leaves_by_rank]
            )
            monkeypatch.setattr(
                torch.distributed,
                "all_to_all_single",
                lambda out, inputs, group, expected_rows=expected_rows: out.copy_(expected_rows),
            )
            summed_rows = torch.empty_like(rows)
            TreeReduceScatter()(summed_rows, expected_rows.clone(), None, None)
            tree.add()
        ((_, total),) = tree._sums
        sums.append(total)
    return torch.cat(sums)


@given(seed=st.integers(0, 999), num_ranks=NUM_RANKS, leaves_per_rank=st.sampled_from([1, 2, 4]))
def test_split_sum_is_bit_equal_to_the_sum_of_one_learner(seed, num_ranks, leaves_per_rank):
    generator = torch.Generator().manual_seed(seed)
    gradients = [
        torch.randn(8, generator=generator) * 10.0 ** torch.randint(-6, 6, (8,), generator=generator)
        for _ in range(num_ranks * leaves_per_rank)
    ]
    with pytest.MonkeyPatch.context() as patch:
        assert gradient_of_several_learners(gradients, num_ranks, patch).equal(gradient_of_one_learner(gradients))


@given(seed=st.integers(0, 99), num_ranks=NUM_RANKS)
def test_gradients_of_16_bits_are_added_in_float32_and_rounded_once(seed, num_ranks):
    inputs = torch.randn(num_ranks, 8, generator=torch.Generator().manual_seed(seed)).bfloat16()
    result = torch.empty(8, dtype=torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "all_to_all_single", lambda out, inputs, group: out.copy_(inputs))
        TreeReduceScatter()(result, inputs.flatten(), None, None)
    sums = list(inputs.float())
    while len(sums) > 1:
        sums = [left + right for left, right in zip(sums[::2], sums[1::2], strict=True)]
    assert result.equal(sums[0].bfloat16())


@given(rows=st.integers(1, 9), num_ranks=NUM_RANKS)
def test_each_learner_reads_its_rows_and_together_they_read_all_rows(rows, num_ranks):
    full_tensor = torch.arange(3.0 * rows).view(rows, 3)
    blocks = full_tensor.chunk(num_ranks)  # as fully_shard splits the rows
    for rank in range(num_ranks):
        target = torch.zeros_like(blocks[rank] if rank < len(blocks) else full_tensor[:0])
        _copy_rows(StubShardedTensor(target), StubFileSlice(full_tensor), rank, num_ranks)
        assert target.equal(blocks[rank] if rank < len(blocks) else full_tensor[:0])


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_all_learners_run_the_same_number_of_passes(num_ranks):
    data = StubBatch(23)
    rank_groups = [SimpleNamespace(rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
    trees = [SplitGradientTree([], 4, rank_group, (3, 8)) for rank_group in rank_groups]
    leaf_iterators = [tree.leaves(data, np.arange(23)) for tree in trees]
    all_leaves = []
    for index in range(4 // num_ranks):
        leaves_of_ranks = [next(leaves_iterator) for leaves_iterator in leaf_iterators]
        num_passes = {tree.passes(data) for tree in trees}
        assert num_passes == {max(-(-len(leaf) // 3) for leaf in leaves_of_ranks)}
        all_leaves += [leaf.tolist() for leaf in leaves_of_ranks]
        assert len(all_leaves) == (index + 1) * num_ranks
    assert all_leaves == [leaf.tolist() for leaf in split_into_leaves(data, np.arange(23), 4)]
    assert [len(tree.select_rows(data, np.arange(23))) for tree in trees] == [23, *[0] * (num_ranks - 1)]
    assert {tree.passes(data) for tree in trees} == {8}


SHAPES = st.lists(st.tuples(st.sampled_from(list(DTYPE_NAMES)), st.lists(st.integers(0, 3), max_size=3)), max_size=5)


@given(shapes=SHAPES)
def test_streamed_file_equals_the_file_of_safetensors(shapes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    generator = torch.Generator().manual_seed(len(shapes))
    tensors = {
        f"{index % 2}.{'é' * index}{index}": torch.randn(shape, generator=generator).to(dtype)
        for index, (dtype, shape) in enumerate(shapes)
    }
    safetensors.torch.save_file(tensors, folder / "library")
    call_order = []
    tensor_getters = {name: lambda name=name: call_order.append(name) or tensors[name] for name in tensors}
    dtypes_and_shapes = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    save_streamed(tensor_getters, dtypes_and_shapes, folder / "streamed", "The weight")
    assert (folder / "streamed").read_bytes() == (folder / "library").read_bytes()
    written_names, call_order[:] = list(call_order), []
    save_streamed(tensor_getters, dtypes_and_shapes, None, "The weight")
    assert call_order == written_names, "a learner that writes nothing reads the tensors in the same order"


def test_values_that_are_not_finite_are_not_written(tmp_path):
    with pytest.raises(DivergedError, match="The weight a is not finite"):
        save_streamed({"a": lambda: torch.tensor([np.nan])}, {"a": (torch.float32, (1,))}, tmp_path / "a", "The weight")
