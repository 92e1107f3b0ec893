"""Replies of any shape are read in time that grows with their length alone: a model cannot stall a run by what it says."""

import random
import re
import time

import pytest

from sparring.environments.reply import ReplyParser
from sparring.models.render.answers import answer_format
from sparring.ops.matching import calls_of

LENGTH = 60_000  # a pattern that goes back over them takes tens of seconds
WORDS = [f"wood{give}-gold{ask}" for give in range(1, 11) for ask in range(1, 11)] + ["accept", "deny", "r1c2=3"]
UNITS = ["[", "**", " ", "answer:[", "</think><answer>", "</think> ", "\\boxed{", "wood1"]
MARKED = ["answer is ", "boxed {", "my move is (", "to a ", "a("]  # of the parser of replies alone
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
def test_no_reply_takes_long_to_read(reader):
    for head in [*HEADS, *["answer: a"] * (reader == "reply")]:
        for unit in UNITS + MARKED * (reader == "reply"):
            text = head + unit * (LENGTH // len(unit)) + "x"
            began = time.process_time()
            READERS[reader](text)
            assert time.process_time() - began < 3, (head, unit)


def test_thoughts_and_action_are_parted_as_by_the_pattern_of_the_whole():
    pattern = re.compile(r"<think>(.*?)</think>\s*<answer>(.*?)</answer>", re.DOTALL)
    parts = ["<think>", "</think>", "<answer>", "</answer>", " ", "\n", "a", "</think><answer>"]
    generator, read, num_matches = random.Random(0), answer_format("tagged", thinking=True).read, 0
    for _ in range(20_000):
        text = "".join(generator.choices(parts, k=generator.randrange(9))) + generator.choice(["", "</answer>"])
        match = pattern.fullmatch(("<think>\n" + text).strip())
        assert read(text) == (match[2].strip() if match else None), text
        num_matches += match is not None
    assert num_matches > 1000
