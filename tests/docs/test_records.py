"""docs/records.md describes every column that is stored, and no other."""

import pytest

from sparring.play import store
from tests.docs.loading import load

measured = load("tools", "measured")  # by which the page's script finds it
records = load("tools/tables", "records")


@pytest.mark.parametrize(
    ("schema", "descriptions"), [(store.SCHEMA, records.EPISODES), (store.CREDIT_SCHEMA, records.CREDIT)]
)
def test_every_column_is_described_and_no_other(schema, descriptions):
    assert sorted(schema.names) == sorted(descriptions)
    assert all(descriptions.values())


def test_types_are_written_readably():
    page = records.columns(store.SCHEMA, records.EPISODES)
    text = page if isinstance(page, str) else "\n".join(page)
    assert "| `kept` | list of list of int32 |" in text and "| `told` | text |" in text
    assert "<" not in text.replace("<!--", "")
