"""`check_picture` refuses pictures that run scripts, fetch files, or show private information of other seats."""

import random

import pytest

from sparring.core.records import Observation
from sparring.testing import check_picture, check_svg

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" role="img"><title>t</title>'
BREACHES = {
    "script": ("<script>1</script>", "element 'script'"),
    "foreign": ("<foreignObject/>", "element 'foreignObject'"),
    "style": ("<style>*{}</style>", "element 'style'"),
    "handler": ('<rect onload="x()"/>', "attribute 'onload'"),
    "style attribute": ('<rect style="fill:red"/>', "attribute 'style'"),
    "link": ('<g xmlns:x="http://www.w3.org/1999/xlink" x:href="x"/>', "attribute"),
    "reference": ('<rect fill="url(http://example.org/x)"/>', "url"),
    "cdata": ("<text><![CDATA[x]]></text>", "declaration"),
    "direction": ("<text>\u202ex</text>", r"U\+202E"),
    "control": ("<text>\x07</text>", r"U\+0007"),
    "torn": ("<text>", "not XML"),
    "large": (f"<text>{'x' * 100_000}</text>", "bytes"),
    "foreign namespace": ('<x:a xmlns:x="http://www.w3.org/1999/xhtml"/>', "element"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_picture_with_a_forbidden_part_is_refused(breach):
    element, message = BREACHES[breach]
    check_svg(f"{HEAD}</svg>")
    with pytest.raises(AssertionError, match=message):
        check_svg(f"{HEAD}{element}</svg>", breach)


@pytest.mark.parametrize(
    "svg",
    [
        "<b/>",
        HEAD.replace(' role="img"', "") + "</svg>",
        HEAD.replace("<title>t</title>", "") + "</svg>",
        f"<?xml version='1.0'?>{HEAD}</svg>",
        HEAD.replace("2000/svg", "1999/xhtml") + "</svg>",
        None,
    ],
)
def test_a_text_that_is_no_accessible_svg_is_refused(svg):
    with pytest.raises(AssertionError):
        check_svg(svg)


class CoinGame:
    """An environment in which each of two seats knows one coin; ``picture`` and ``sentence`` select the shown parts."""

    roles, max_turns, min_utility, max_utility = ("left", "right"), 2, 0.0, 0.0

    def __init__(self, picture, sentence):
        self.picture, self.sentence = picture, sentence

    def reset(self, stream):
        return CoinPlay(self, [stream.integer(seat, 2) for seat in (0, 1)])


class CoinPlay:
    done, returns = False, (0.0, 0.0)

    def __init__(self, rules, coins):
        self.rules, self.coins = rules, coins

    def due(self):
        return () if self.done else (0, 1)

    def legal(self, seat):
        return ("yes", "no")

    def observe(self, seat):
        return Observation(prompt=f"coin {self.coins[seat]}", key=str(self.coins[seat]))

    def step(self, replies):
        self.done = True

    def draw(self, seat, theme="light"):
        return f"{HEAD}<text>{self.rules.picture(self.coins, seat)}</text></svg>"

    def described(self, seat):
        return self.rules.sentence(self.coins, seat)


def coins(*, picture: str = "own", sentence: str = "own"):
    kinds = {
        "own": lambda coins, seat: str(coins if seat is None else coins[seat]),
        "all": lambda coins, seat: str(coins),
        "none": lambda coins, seat: "",
        "random": lambda coins, seat: str(random.random()),
    }
    return CoinGame(kinds[picture], kinds[sentence])


@pytest.mark.parametrize(
    ("picture", "sentence", "message"),
    [
        ("all", "own", "cannot tell apart"),
        ("own", "all", "cannot tell apart"),
        ("own", "none", "the sentence is ''"),
        ("random", "own", "drawn twice"),
    ],
)
def test_a_picture_that_shows_too_much_or_nothing_is_refused(picture, sentence, message):
    assert check_picture(coins) > 0
    with pytest.raises(AssertionError, match=message):
        check_picture(coins, picture=picture, sentence=sentence)
