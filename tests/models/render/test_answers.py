import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.models.render.answers import answer_format


@pytest.mark.parametrize(
    ("name", "thinking", "reply", "expected_answer"),
    [
        ("free", False, " I would bet. ", "I would bet."),
        ("exact", False, " bet\n", "bet"),
        ("tagged", False, "bet</answer>", "bet"),
        ("tagged", False, "bet</answer> or so", None),
        ("tagged", True, "hm</think> <answer> bet </answer>", "bet"),
        ("tagged", True, "<answer>bet</answer>", None),
        ("tagged", True, "hm</think> so <answer>bet</answer>", None),
        ("boxed", False, "bet}", "bet"),
        ("boxed", False, "bet} or \\boxed{pass}.", None),
        ("boxed", True, "\\boxed{bet} or \\boxed{pass}.", "pass"),
        ("boxed", True, "I have a king, so \\boxed{bet}", "bet"),
        ("boxed", True, "I have a king, so bet", None),
        ("boxed", True, "\\boxed{bet}? No: \\boxed{\\text{raise}}", None),
        ("boxed", True, "\\boxed{bet}? No: \\boxed{rai", None),
    ],
)
def test_the_answer_is_read_from_the_reply(name, thinking, reply, expected_answer):
    assert answer_format(name, thinking=thinking).read(reply) == expected_answer


@pytest.mark.parametrize("game", ["kuhn_poker", "breakthrough"])
def test_exact_accepts_only_the_word_in_any_case(game):
    state = make_game(game, options={"style": "full"}).reset(Stream.from_seed(0))
    word = state.legal_actions()[0]
    assert state.parse(f" {word.upper()} ", exact=True) == word
    assert state.parse(f"I play {word}", exact=True) is None
    assert state.parse(f"I play {word}") == word
