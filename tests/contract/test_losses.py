"""The contract of losses, for every file in the slot."""

import dataclasses

import torch

from sparring.config.plugins import registry
from sparring.methods.losses.base import LossBatch, WholeMinibatch
from tests.cases import every_case


def batch(size, seed=0, *, low=0.0, equal=False):
    """Return the second half of a minibatch of 2 * size tokens.

    Args:
        size: tokens of this forward pass.
        seed: of the random numbers.
        low: subtracted from the new log-probability of odd tokens and from the old one of even tokens.
        equal: whether all advantages are 0 and all outcomes equal.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(count=2 * size):
        return torch.randn(count, generator=generator, dtype=torch.float64)

    shift = torch.arange(2 * size) % 2 * low
    columns = {name: -draw().abs() for name in ("logprobs", "old_logprobs", "sampler_logprobs", "reference_logprobs")}
    columns["logprobs"], columns["old_logprobs"] = columns["logprobs"] - shift, columns["old_logprobs"] - (low - shift)
    columns |= {"entropy": draw().abs(), "advantages": draw() * (not equal)}
    index = torch.arange(size, 2 * size)
    token_columns = {name: column[index] for name, column in columns.items()}
    minibatch_columns = {name: column for name, column in columns.items() if name != "sampler_logprobs"}
    num_trajectories = 2 * ((size + 1) // 2)
    values, targets, outcome, uniform_numbers = (
        draw((size + 1) // 2),
        draw((size + 1) // 2),
        draw(num_trajectories),
        draw().abs() % 1,
    )
    features = {name: draw(size).requires_grad_(True) for name in registry.names("features")}
    sequence_of_token = torch.arange(size) // 2
    whole_minibatch = WholeMinibatch(
        uniform=uniform_numbers,
        trajectory=torch.cat([sequence_of_token, sequence_of_token + num_trajectories // 2]),
        turn_index=torch.zeros(2 * size, dtype=torch.int64),
        group=torch.arange(num_trajectories) % 2,
        prompt=torch.cat([sequence_of_token, sequence_of_token]),
        outcome=outcome * (not equal),
        **minibatch_columns,
    )
    token_columns["logprobs"].requires_grad_(True)
    features["entropy"] = token_columns["entropy"].requires_grad_(True)
    legal = {name: draw(size).abs().requires_grad_(True) for name in ("forward", "reverse")}
    return LossBatch(
        sequence=sequence_of_token,
        turn=sequence_of_token,
        num_sequences=(size + 1) // 2,
        features=features,
        legal=legal,
        whole=whole_minibatch,
        index=index,
        values=values.requires_grad_(True),
        value_targets=targets,
        **token_columns,
    )


def with_presets(name):
    for preset in (None, *registry.load("losses", name).presets):
        yield registry.bind("losses", name, preset=preset)


@every_case("name", registry.names("losses"))
@every_case("size", [1, 2, 7])
def test_a_loss_is_finite_deterministic_and_of_its_shape(name, size):
    for loss in with_presets(name):
        data = batch(size)
        term = loss(data)
        rows = (size + 1) // 2 if term.level == "turn" else size
        assert term.values.shape == (rows,)
        assert torch.isfinite(term.values).all()
        assert all(torch.isfinite(torch.as_tensor(value)).all() for value in term.metrics.values())
        assert all(not torch.as_tensor(value).requires_grad for value in term.metrics.values())
        assert torch.equal(term.values, loss(batch(size)).values)
        if term.level == "weight":
            assert not term.values.requires_grad
        else:
            term.values.sum().backward()


@every_case("name", registry.names("losses"))
@every_case("changes", [{"low": 1e3}, {"low": 1e9}, {"equal": True}, {"low": 20.7, "equal": True}], ids=str)
def test_extreme_ratios_and_zero_advantages_stay_finite(name, changes):
    for loss in with_presets(name):
        data = batch(5, **changes)
        term = loss(data)
        assert torch.isfinite(term.values).all()
        assert all(torch.isfinite(torch.as_tensor(value)).all() for value in term.metrics.values())
        if term.level != "weight":
            term.values.sum().backward()
            assert data.logprobs.grad is None or torch.isfinite(data.logprobs.grad).all()


@every_case("name", registry.names("losses"))
def test_a_loss_changes_no_input_in_place(name):
    for loss in with_presets(name):
        data, equal_data = batch(6), batch(6)
        loss(data)
        for record, expected in ((data, equal_data), (data.whole, equal_data.whole)):
            for field in dataclasses.fields(record):
                if isinstance(value := getattr(record, field.name), torch.Tensor):
                    assert torch.equal(value, getattr(expected, field.name)), field.name
