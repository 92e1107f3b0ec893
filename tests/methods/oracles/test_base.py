"""A judgement turned into a verdict."""

import pytest

from sparring.methods.oracles.base import Judgement, verdict_of


def test_the_best_are_those_of_the_largest_value_unless_the_judgement_says_otherwise():
    plain = verdict_of(("a", "b", "c"), Judgement(values=[1.0, 3, 3.0], bound=0.5, certainty=0.25))
    assert plain.best == {"b", "c"} and plain.values == (1.0, 3.0, 3.0)
    assert (plain.certainty, plain.bound, plain.entropy) == (0.25, 0.5, None)
    said = verdict_of(("a", "b", "c"), Judgement(values=[1.0, 3.0, 3.0], best=[True, False, False], entropy=0.7))
    assert said.best == {"a"} and said.entropy == 0.7 and (said.certainty, said.bound) == (1.0, 0.0)


@pytest.mark.parametrize("wrong", [Judgement(values=[1.0]), Judgement(values=[1.0, 2.0], best=[True])], ids=["values", "best"])
def test_a_judgement_of_another_length_is_refused(wrong):
    with pytest.raises(ValueError, match="argument"):
        verdict_of(("a", "b"), wrong)
