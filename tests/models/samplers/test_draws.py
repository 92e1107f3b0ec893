import numpy as np
import pytest
import torch

from sparring.models.samplers import in_process


@pytest.mark.parametrize("large", [0, in_process.MIN_TO_SORT])
def test_a_draw_by_hand(large, monkeypatch):
    monkeypatch.setattr(in_process, "MIN_TO_SORT", large)
    log_p = torch.tensor([[0.25, 0.0, 0.75], [0.5, 0.5, 0.0]]).log()
    node = np.array([1, 0, 0, 1, 0, 0])
    tokens, values = in_process.draw(log_p, node, np.array([0.6, 0.2, 0.26, 0.1, 0.999, 0.0]))
    assert tokens.tolist() == [1, 0, 2, 0, 2, 0]
    assert np.exp(values).tolist() == pytest.approx([0.5, 0.25, 0.75, 0.5, 0.75, 0.25])


@pytest.mark.parametrize("rows, count", [(1, 1), (1, 50), (7, 50), (50, 50), (50, 9)])
def test_shared_and_copied_rows_give_the_same_draws(rows, count, monkeypatch):
    generator = np.random.default_rng(rows + count)
    log_p = torch.from_numpy(generator.normal(size=(rows, 40)) * 4).float()
    log_p = log_p.masked_fill(log_p < -1, -torch.inf).log_softmax(-1)
    node = generator.integers(0, rows, count)
    uniforms = np.concatenate([[0.0, np.nextafter(1, 0)], generator.random(count)])[:count]
    expected = in_process.draw(log_p, node, uniforms)
    monkeypatch.setattr(in_process, "MIN_TO_SORT", 0)
    draws_of_copies = in_process.draw(log_p, node, uniforms)
    for draw, expected_draw in zip(draws_of_copies, expected, strict=True):
        assert draw.tolist() == expected_draw.tolist()
