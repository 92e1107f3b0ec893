import pytest
from scipy.stats import ttest_1samp

from sparring.ops.statistics import mean_interval
from studies.common.significance import holm, zero_probability


def test_the_p_value_equals_the_t_test():
    values = [0.2, 0.31, 0.5, -0.1]
    expected = ttest_1samp(values, 0.0).pvalue
    assert zero_probability(mean_interval(values)) == pytest.approx(expected, abs=1e-12)
    assert zero_probability(mean_interval([0.3, 0.3])) == 0.0
    assert zero_probability(mean_interval([0.0, 0.0])) == zero_probability(mean_interval([0.7])) == 1.0


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.04, 0.9, 0.6]) == pytest.approx([0.12, 1.0, 1.0])
    assert holm([]) == []
