import torch

from sparring.methods.losses.surrogate import (
    clipped,
    dual_clipped,
    segment_mean,
    segment_sum,
    segments,
)


def test_widths_may_differ_by_token():
    ratio, ones = torch.tensor([2.0, 2.0, 0.1]), torch.tensor([1.0, 1.0, -1.0])
    loss, cut = clipped(ratio, ones, torch.tensor([0.2, 0.2, 0.5]), torch.tensor([0.5, 2.0, 0.2]))
    assert (loss.tolist(), cut.tolist()) == ([-1.5, -2.0, 0.5], [True, False, True])


def test_dual_clip_leaves_positive_advantages():
    loss, cut = dual_clipped(torch.tensor([9.0, -1.0, 2.0]), torch.tensor([-1.0, 1.0, -1.0]), 3.0)
    assert (loss.tolist(), cut.tolist()) == ([3.0, -1.0, 2.0], [True, False, False])


def test_sums_and_means_over_segments():
    values, segment = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 1, 1])
    assert segment_sum(values, segment).tolist() == [1.0, 8.0, 8.0]
    assert segment_mean(values, segment).tolist() == [1.0, 4.0, 4.0]
    assert segment_sum(values[:0], segment[:0]).tolist() == []


def test_segments_are_sequences_or_turns(make_whole):
    (batch,), _ = make_whole([0.0] * 4, trajectory=[0, 0, 0, 1], turn_index=[0, 3, 3, 0])
    assert segments(batch, "sequence").tolist() == [0, 0, 0, 1]
    assert segments(batch, "turn").tolist() == [0, 1, 1, 2]
