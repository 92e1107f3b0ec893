"""Calls as text: what is read from them, and how alike they are, by hand and for any text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.ops.calls import Call, calls_of, likeness, likenesses
from tests.cases import every_case

MOVE = (Call("move", {"x": "1", "y": "2"}),)


@every_case(
    ("text", "found"),
    [
        ("move(x=1, y=2)", MOVE),
        (" move( y=2,x=1 ) ", MOVE),
        ('{"name": "move", "arguments": {"x": 1, "y": 2}}', MOVE),
        ('{"name": "move", "parameters": {"y": 2, "x": 1}}', MOVE),
        ('{"name": "move", "arguments": "{\\"x\\": 1, \\"y\\": 2}"}', MOVE),
        ('[{"name": "move", "arguments": {"x": 1, "y": 2}}, {"name": "end"}]', (*MOVE, Call("end", {}))),
        ("up", (Call("up", {}),)),
        ("up()", (Call("up", {}),)),
        ("r1c2=3", (Call("r1c2", {"1": "3"}),)),
        ("h2=red", (Call("h2", {"1": '"red"'}),)),
        ("a1 4", (Call("a1", {"1": "4"}),)),
        ("offer:3wood-2gold", (Call("offer", {"1": '"3wood-2gold"'}),)),
        ("x(0,1)", (Call("x", {"1": "0", "2": "1"}),)),
        ("say('a, b', to=bob, loud=true)", (Call("say", {"1": '"a, b"', "to": '"bob"', "loud": "true"}),)),
        ("say(a=[1, 'x'], **more)", (Call("say", {"a": '[1, "x"]', "**": '"more"'}),)),
        ("say(a={'to': 1, 'by': 2})", (Call("say", {"a": '{"by": 2, "to": 1}'}),)),
        ("a1,b2", (Call("a1", {"1": '"b2"'}),)),
        ("say(a={1, 2})", (Call("say", {"a": "{1, 2}"}),)),
        ('{"name": "go", "arguments": ["north", 2]}', (Call("go", {"1": '"north"', "2": "2"}),)),
        ('{"name": "go", "arguments": "north"}', (Call("go", {"1": '"north"'}),)),
        ('{"move": 1}', (Call('{"move"', {"1": '"1}"'}),)),  # JSON, but no call: words
        ("move(x=", (Call("move(x", {}),)),
        ("7", (Call("7", {}),)),
        ("", ()),
        (" = ", ()),
    ],
)
def test_what_a_text_calls(text, found):
    assert calls_of(text) == found


def test_texts_that_are_hard_to_read_are_words():
    for text in ("(" * 5000, "f(" + "-" * 5000 + "1)", "f(x=0x" + "f" * 9000 + ")", "a\0b", "\ud800"):
        assert len(calls_of(text)) == 1


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="ab1(){}[]=,:'\"* \n", max_size=20))
def test_any_text_is_read_and_like_itself(text):
    for call in calls_of(text):
        assert likeness(call, call) == 1.0


def test_likeness_by_hand():
    (one,) = calls_of("f(x=1, y=2)")
    assert likeness(one, *calls_of("g(x=1, y=2)")) == 0.0
    assert likeness(one, *calls_of("F(y=2, x=1)")) == 1.0
    assert likeness(one, *calls_of("f(x=1, y=3)")) == pytest.approx((1 + 1 + 1) / 4)
    assert likeness(one, *calls_of("f(x=1)")) == pytest.approx((1 + 1 / 2 + 1) / 3)  # a parameter too many
    assert likeness(*calls_of("f(x=1)"), one) == pytest.approx((1 + 1 / 2 + 1) / 4)  # and one too few
    assert likeness(one, *calls_of("f")) == pytest.approx((1 + 0) / 2)
    assert likeness(*calls_of("f"), *calls_of("f()")) == 1.0
    assert likeness(one, *calls_of("f(x='1', y=2)")) == pytest.approx(3 / 4)  # a string is no number
    assert likeness(*calls_of("r1c2=3"), *calls_of("r1c2=4")) == pytest.approx(2 / 3)


def test_the_table_of_likenesses():
    calls, references = [*calls_of("f(1)"), *calls_of("g(1)")], [*calls_of("g(1)"), *calls_of("f(2)"), *calls_of("h")]
    assert likenesses(calls, references) == pytest.approx(np.array([[0, 2 / 3, 0], [1, 0, 0]]))
    assert likenesses([], references).shape == (0, 3) and likenesses(calls, []).shape == (2, 0)
