"""Tests of models compute on one thread, but for those that set more."""

import pytest
import torch


@pytest.fixture(autouse=True)
def reset_threads():
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
