import dataclasses

import numpy as np
import pytest
from tests.methods.credit.tables import table

from sparring.core.errors import CreditError
from sparring.methods.credit.base import component


def test_a_part_of_the_reward_by_name_and_what_is_wrong_by_name_too():
    turns = dataclasses.replace(table([[1.0, 2.0]]), components={"game": np.array([1.0, 1.0]), "odd": np.array([0.0, np.nan])})
    assert component(turns, "x", "game").tolist() == [1.0, 1.0]
    with pytest.raises(CreditError, match=r"'x': no reward component 'gain' \(there are: game, odd\)"):
        component(turns, "x", "gain")
    with pytest.raises(CreditError, match="'odd' is nan in row 1"):
        component(turns, "x", "odd")


def test_an_empty_table_has_every_part():
    assert component(table([]), "x", "game").shape == (0,)
