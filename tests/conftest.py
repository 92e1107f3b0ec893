"""One thread for torch in all tests: results do not depend on the machine's cores, and workers do not crowd each other."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)
