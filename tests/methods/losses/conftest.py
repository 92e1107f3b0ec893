import pytest
import torch

from sparring.methods.losses.base import LossBatch, WholeMinibatch


@pytest.fixture(scope="session")
def make_batch():

    def make_from_lists(logprobs, *, old_logprobs=None, sampler=None, advantages=None, sequence=None, **fields):
        leaf = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
        old = torch.tensor(old_logprobs if old_logprobs is not None else logprobs, dtype=torch.float64)
        size = len(logprobs)
        return LossBatch(
            logprobs=leaf,
            old_logprobs=old,
            sampler_logprobs=torch.tensor(sampler, dtype=torch.float64) if sampler is not None else old,
            advantages=torch.tensor(advantages if advantages is not None else [1.0] * size, dtype=torch.float64),
            sequence=torch.tensor(sequence if sequence is not None else [0] * size),
            turn=torch.zeros(size, dtype=torch.int64),
            num_sequences=max(sequence, default=0) + 1 if sequence is not None else 1,
            **fields,
        )

    return make_from_lists


@pytest.fixture(scope="session")
def make_minibatch():
    """Return a function that makes a minibatch from lists: its forward passes (split at ``splits``) and the leaf tensor of log-probabilities."""

    def make_from_lists(
        logprobs, *, old_logprobs=None, advantages=None, trajectory=None, group=None, outcome=None, splits=(), **columns
    ):
        def numbers(values):
            return torch.tensor(values, dtype=torch.float64)

        size = len(logprobs)
        trajectory = torch.tensor(trajectory if trajectory is not None else [0] * size)
        trajectories = int(trajectory.max()) + 1
        leaf = numbers(logprobs).requires_grad_(True)
        turn_index = torch.tensor(columns.pop("turn_index", [0] * size))
        uniform_numbers = numbers(columns.pop("uniform", [0.5] * size))
        prompt = torch.tensor(columns.pop("prompt", list(range(size))))
        extra = {name: numbers(values) for name, values in columns.items()}
        minibatch = WholeMinibatch(
            logprobs=leaf.detach().clone(),
            old_logprobs=numbers(old_logprobs if old_logprobs is not None else logprobs),
            advantages=numbers(advantages if advantages is not None else [1.0] * size),
            uniform=uniform_numbers,
            prompt=prompt,
            trajectory=trajectory,
            turn_index=turn_index,
            group=torch.tensor(group if group is not None else [0] * trajectories),
            outcome=numbers(outcome if outcome is not None else [0.0] * trajectories),
            **extra,
        )
        batches = []
        for index in torch.tensor_split(torch.arange(size), list(splits)):
            sequences, sequence = torch.unique(trajectory[index], return_inverse=True)
            batches.append(
                LossBatch(
                    logprobs=leaf[index],
                    old_logprobs=minibatch.old_logprobs[index],
                    sampler_logprobs=minibatch.old_logprobs[index],
                    advantages=minibatch.advantages[index],
                    sequence=sequence,
                    turn=trajectory[index] * 100 + turn_index[index],
                    num_sequences=len(sequences),
                    whole=minibatch,
                    index=index,
                    **{name: column[index] for name, column in extra.items()},
                )
            )
        return batches, leaf

    return make_from_lists


@pytest.fixture(scope="session")
def gradient_of():
    """Return a function that computes the gradient of a loss, summed over forward passes, in the leaf tensor."""

    def gradient(loss, batches, leaf):
        (slopes,) = torch.autograd.grad(sum(loss(batch).values.sum() for batch in batches), leaf, retain_graph=True)
        return slopes

    return gradient
