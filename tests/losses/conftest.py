import pytest
import torch

from sparring.losses.base import LossBatch


@pytest.fixture
def make_batch():
    """Return a function that makes a loss batch from plain lists."""

    def make(logprobs, *, old=None, sampler=None, advantages=None, sequence=None, **fields):
        new = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
        old = torch.tensor(old if old is not None else logprobs, dtype=torch.float64)
        size = len(logprobs)
        return LossBatch(
            logprobs=new,
            old_logprobs=old,
            sampler_logprobs=torch.tensor(sampler, dtype=torch.float64) if sampler is not None else old,
            advantages=torch.tensor(advantages if advantages is not None else [1.0] * size, dtype=torch.float64),
            sequence=torch.tensor(sequence if sequence is not None else [0] * size),
            turn=torch.zeros(size, dtype=torch.int64),
            num_sequences=max(sequence, default=0) + 1 if sequence is not None else 1,
            **fields,
        )

    return make
