"""Reading a reply takes time linear in its length, so that no reply of a model can stall a run."""

import random
import re
import time

import pytest

from sparring.environments.reply import ReplyParser
from sparring.models.render.answers import answer_format
from sparring.ops.matching import calls_of

LENGTH = 60_000  # a pattern with quadratic backtracking takes tens of seconds
WORDS = [f"wood{give}-gold{ask}" for give in range(1, 11) for ask in range(1, 11)] + ["accept", "deny", "r1c2=3"]
UNITS = ["[", "**", " ", "answer:[", "</think><answer>", "</think> ", "\\boxed{", "wood1"]
REPLY_UNITS = ["answer is ", "boxed {", "my move is (", "to a ", "a("]  # only for the reply parser
HEADS = ["", "answer", "<answer>"]
READERS = {
    "reply": ReplyParser(WORDS).find,
    "calls": calls_of,
    **{
        f"{name}-{thinking}": answer_format(name, thinking=thinking).read
        for name in ("tagged", "boxed", "exact")
        for thinking in (True, False)
    },
}


@pytest.mark.parametrize("reader", READERS)
def test_no_reply_takes_long_to_parse(reader):
    for head in [*HEADS, *["answer: a"] * (reader == "reply")]:
        for unit in UNITS + REPLY_UNITS * (reader == "reply"):
            text = head + unit * (LENGTH // len(unit)) + "x"
            start_time = time.process_time()
            READERS[reader](text)
            assert time.process_time() - start_time < 3, (head, unit)


def test_tagged_answers_match_one_regular_expression():
    pattern = re.compile(r"<think>(.*?)</think>\s*<answer>(.*?)</answer>", re.DOTALL)
    parts = ["<think>", "</think>", "<answer>", "</answer>", " ", "\n", "a", "</think><answer>"]
    random_generator, read_answer, num_matches = random.Random(0), answer_format("tagged", thinking=True).read, 0
    for _ in range(20_000):
        text = "".join(random_generator.choices(parts, k=random_generator.randrange(9))) + random_generator.choice(
            ["", "</answer>"]
        )
        match = pattern.fullmatch(("<think>\n" + text).strip())
        assert read_answer(text) == (match[2].strip() if match else None), text
        num_matches += match is not None
    assert num_matches > 1000
