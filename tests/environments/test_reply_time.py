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
    **{f"{name}-{thinking}": answer_format(name, thinking=thinking).read for name in ("tagged", "boxed", "exact") for thinking in (True, False)},
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
    generator, read, found = random.Random(0), answer_format("tagged", thinking=True).read, 0
    for _ in range(20_000):
        text = "".join(generator.choices(parts, k=generator.randrange(9))) + generator.choice(["", "</answer>"])
        match = pattern.fullmatch(("<think>\n" + text).strip())
        assert read(text) == (match[2].strip() if match else None), text
        found += match is not None
    assert found > 1000


def test_hints_and_words_are_found_as_before_where_no_answer_is_marked():
    """By a slower pattern of the whole; after a mark, nothing before it is found."""
    hint = r"(?:\b(?:answer|action|move)\b(?:\s+is)?\s*[\"'`*\[(<{]*|\[\s*|<\s*|\*\*\s*)"
    marked = re.compile(r"\bboxed\{|\banswer\**\s*(?:is\s*)?[:=]|\banswer\s+is\b")
    before, after = r"(?<!\w)(?<!\w-)(?<!\d[.,])(?<!-(?=\d))", r"(?!\w|-\w|[.,]\d|%)"
    words = ["bet", "pass", "(1,2)", "3", "is"]
    choice = "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
    old = [re.compile(f"{front}{before}({choice}){after}", re.IGNORECASE) for front in (hint, "")]
    generator, parser, hidden = random.Random(1), ReplyParser(words), 0
    parts = ["bet", "pass", "(1,2)", "3", "answer", "is", " ", "  ", ":", "=", "[", "(", "**", "BET", "-", ".", "boxed{", "x"]
    for _ in range(20_000):
        text = "".join(generator.choices(parts, k=generator.randrange(8))).strip()
        marks = list(marked.finditer(text))
        found = [pattern.findall(text[marks[-1].start() :] if marks else text) for pattern in old]
        expected = {word.lower() for word in found[1]} | {None}
        if not marks:
            expected = {next((words[-1].lower() for words in found if words), None)}
        hidden += bool(marks) and len(old[1].findall(text)) > len(found[1]) and parser.find(text) is None
        assert parser.find(text) in (expected if parser.word(text) is None else {parser.word(text)}), text
    assert hidden > 200
