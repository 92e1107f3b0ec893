import importlib.util
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("tables_for_selection", Path(__file__).parents[1] / "credit" / "tables.py")
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)

from sparring.rng import Stream  # noqa: E402
from sparring.selection.equal_groups import equal_groups  # noqa: E402


def test_keep_keeps_everything():
    assert equal_groups(tables.table([[1.0], [1.0]], groups=[0, 0]), Stream.from_seed(0)).all()


def test_drop_takes_out_groups_without_differences():
    turns = tables.table([[1.0], [0.5, 0.5], [1.0], [2.0], [9.0]], groups=[0, 0, 1, 1, 2])
    assert equal_groups(turns, Stream.from_seed(0), policy="drop").tolist() == [False, False, False, True, True, True]


def test_roles_are_judged_apart():
    turns = tables.table([[1.0], [1.0], [0.0], [1.0]], seats=[0, 0, 1, 1], groups=[0] * 4)
    assert equal_groups(turns, Stream.from_seed(0), policy="drop").tolist() == [False, False, True, True]


def test_rounding_is_no_difference_and_an_empty_table_is_fine():
    turns = tables.table([[0.1, 0.2], [0.3]], groups=[0, 0])
    assert not equal_groups(turns, Stream.from_seed(0), policy="drop").any()
    assert equal_groups(tables.table([]), Stream.from_seed(0), policy="drop").shape == (0,)
