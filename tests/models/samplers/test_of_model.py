import pytest

from sparring.models.samplers.in_process import describe_difference

LEARNER_LOGPROBS = [-0.5, -4.0, -16.0]


@pytest.mark.parametrize(
    ("values", "dtype", "error"),
    [
        (LEARNER_LOGPROBS, "float32", None),
        ([-0.50009, -4.00009, -16.00039], "float32", None),
        ([-0.50011, -4.0, -16.0], "float32", "by 0.00011 from the learner's value -0.5; 0.0001 is allowed"),
        ([-0.5, -4.00011, -16.0], "float32", "by 0.00011 from the learner's value -4.0; 0.0001 is allowed"),
        ([-0.5, -4.0, -16.00041], "float32", "by 0.00041 from the learner's value -16.0; 0.0004 is allowed"),
        ([-0.7, -4.0, -16.9], "bfloat16", None),
        ([-0.76, -4.0, -16.0], "bfloat16", "by 0.26 from the learner's value -0.5; 0.25 is allowed"),
        ([-0.5, float("nan"), -16.0], "float32", "by nan from the learner's value -4.0"),
        ([-0.5, float("-inf"), -16.0], "float32", "by inf from the learner's value -4.0"),
        (LEARNER_LOGPROBS[:2], "float32", "there are 2 of them, not 3"),
        ([], "float32", "there are 0 of them, not 3"),
    ],
)
def test_log_probabilities_may_differ_only_by_rounding(values, dtype, error):
    difference = describe_difference(values, LEARNER_LOGPROBS, dtype)
    assert difference is None if error is None else error in difference
