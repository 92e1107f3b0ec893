"""What every loss must hold, for every file found in the slot."""

import pytest
import torch

from sparring import registry
from sparring.losses.base import LossBatch


def batch(size, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(count=size):
        return torch.randn(count, generator=generator, dtype=torch.float64)

    logprobs = (-draw().abs()).requires_grad_(True)
    return LossBatch(
        logprobs=logprobs,
        old_logprobs=-draw().abs(),
        sampler_logprobs=-draw().abs(),
        advantages=draw(),
        sequence=torch.arange(size) // 2,
        turn=torch.arange(size) // 2,
        num_sequences=(size + 1) // 2,
        entropy=draw().abs().requires_grad_(True),
        reference_logprobs=-draw().abs(),
        values=draw((size + 1) // 2).requires_grad_(True),
        value_targets=draw((size + 1) // 2),
    )


@pytest.mark.parametrize("name", registry.names("losses"))
@pytest.mark.parametrize("size", [1, 2, 7])
def test_shape_finite_deterministic(name, size):
    plugin = registry.load("losses", name)
    for preset in (None, *plugin.presets):
        data = batch(size)
        term = registry.bind("losses", name, preset=preset)(data)
        rows = (size + 1) // 2 if term.level == "turn" else size
        assert term.values.shape == (rows,)
        assert torch.isfinite(term.values).all()
        assert all(torch.isfinite(torch.as_tensor(value)).all() for value in term.metrics.values())
        assert all(not torch.as_tensor(value).requires_grad for value in term.metrics.values())
        assert torch.equal(term.values, registry.bind("losses", name, preset=preset)(batch(size)).values)
        if term.level == "weight":
            assert not term.values.requires_grad
        else:
            term.values.sum().backward()
