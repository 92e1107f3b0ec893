"""Tests of models compute on one thread unless they set more."""

import pytest
import torch


@pytest.fixture(autouse=True)
def reset_threads():
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
