"""Checks the contract of pictures of environments."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from typing import Any, get_args

from sparring.config.plugins.guard import with_watch
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.rng import Stream
from sparring.environments.base import Play, random_reply, read_reply, temporary_play
from sparring.environments.drawing.canvas import Theme
from sparring.environments.drawing.pieces import PastTurn, describe_play, draw_play
from sparring.environments.foreign import complete_environment
from sparring.environments.random_episode import CheckedEnvironmentCall
from sparring.testing.bound_plugin import bind_plugin, require_equal

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = re.compile("svg|title|desc|g|text|tspan|rect|circle|ellipse|line|polyline|polygon|path")
ATTRIBUTES = re.compile(
    "viewBox|width|height|role|aria-label|x[12]?|y[12]?|c[xy]|r[xy]?|d|points|transform|fill|stroke"
    "|fill-opacity|stroke-(width|dasharray|linecap|linejoin|opacity)|opacity"
    "|font-(size|family|weight|style)|text-anchor|dominant-baseline|preserveAspectRatio"
)
MAX_BYTES = 100_000  # largest number of bytes of a picture
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
HOSTILE = (  # a reply with markup and control characters
    "</text></svg><script>alert(1)</script><img src=x onerror=alert(1)> ]]> <![CDATA[ & \" ' "
    "\x00\x1b[31m \u202egnp.exe \u2066\u200b \ud800 \ufffe javascript:alert(1) " + "long " * 2000
)


@with_watch
def check_picture(
    environment: Callable[..., Any] | BoundPlugin,
    /,
    *,
    plays: int = 3,
    deals: int = 20,
    seed: int = 0,
    every_seat: bool = False,
    **options: Any,
) -> int:
    """Check the pictures of an environment: for each seat, and for a viewer who sees everything.

    Random episodes are drawn in both themes, at their first moments, at some later moments and at
    the end. If any text is legal, one episode has hostile replies. A picture must be SVG of at most
    100 kB, without script, style, link or reference, but with ``role="img"``, a title and a
    sentence. Equal positions must give equal bytes. If a seat cannot distinguish two episodes, its
    pictures and sentences must be equal. The check therefore compares episodes of different
    deals. In these, all seats or all but one give the same replies.

    An environment without pictures is drawn as prompts and replies, and checked in the same way.

    Args:
        environment: the function that makes the environment, or the bound plug-in.
        plays: number of episodes that are drawn.
        deals: number of deals that are compared.
        seed: seed of the episodes.
        every_seat: whether to compare also seats that are not due; such a seat cannot distinguish
            two positions if the keys of its observations are equal.
        options: options of the function.

    Returns:
        The number of compared pairs of one seat's pictures. If it is 0, hidden facts were not
        tested; use more deals.

    Raises:
        AssertionError: the pictures break one of these rules.
        PluginError: the environment's own code raised, or did not return.
    """
    bound_environment = bind_plugin("environments", environment, options)
    rules = complete_environment(bound_environment.plugin.name, bound_environment())
    with CheckedEnvironmentCall(rules):
        root = Stream.from_seed(seed)
        for number in range(plays):
            stream = root.child(number)
            for play, past in _play_moments(rules, stream, stream, hostile=number == 1):
                _check_position(rules, bound_environment.plugin.name, play, past)
        return _compare_pictures(
            rules, bound_environment.plugin.name, root.child("deals"), deals, every_seat=every_seat
        )


def check_svg(svg: str, what: str = "the picture") -> None:
    """Check that a text is safe SVG, which runs no code and fetches nothing.

    Args:
        svg: the text.
        what: name of the picture in the message.

    Raises:
        AssertionError: the text is not safe SVG.
    """
    assert isinstance(svg, str) and svg.startswith("<svg "), f"{what}: it begins {svg!r:.60}."
    size = len(svg.encode())
    assert size <= MAX_BYTES, f"{what}: it has {size} bytes, more than {MAX_BYTES}."
    assert "<!" not in svg and "<?" not in svg, f"{what}: it has a declaration."
    invisible = INVISIBLE.search(svg)
    assert invisible is None, f"{what}: it holds the character U+{ord(invisible[0]):04X}."
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise AssertionError(f"{what}: it is not XML ({error}).") from None
    assert root.tag == f"{SVG}svg" and root.get("role") == "img", f'{what}: no role="img".'
    title = root.find(f"{SVG}title")
    assert title is not None and (title.text or "").strip(), f"{what}: it has no title."
    for element in root.iter():
        name = element.tag.removeprefix(SVG)
        assert ELEMENTS.fullmatch(name), f"{what}: it has an element {name!r}."
        for key, value in element.attrib.items():
            assert ATTRIBUTES.fullmatch(key), f"{what}: {name!r} has an attribute {key!r}."
            assert "url(" not in value.lower() or key == "aria-label", f"{what}: {value!r:.60}."


def _check_position(rules: Any, name: str, play: Play, past: list[PastTurn]) -> None:
    for seat in (None, *range(rules.num_seats)):
        label = f"{name}: the picture for {'all' if seat is None else rules.roles[seat]}"
        for theme in get_args(Theme):
            svg = draw_play(play, rules.roles, seat, theme, past)
            check_svg(svg, label)
            require_equal(
                svg, draw_play(play, rules.roles, seat, theme, past), f"{label}, drawn twice"
            )
        sentence = describe_play(play, rules.roles, seat, past)
        assert isinstance(sentence, str) and sentence.strip(), (
            f"{label}: the sentence is {sentence!r}."
        )


def _play_moments(
    rules: Any,
    deal_stream: Stream,
    replies: Stream,
    *,
    hostile: bool = False,
    varied_seat: int | None = None,
) -> Iterator[tuple[Any, list[PastTurn]]]:
    """Play at random; yield (play, past turns) at some moments and at the end.

    The moments are the first four, then those with numbers 4, 8, 16, ... ``replies`` is the stream
    of the random replies of all seats except ``varied_seat``, which draws from ``deal_stream``.
    """
    past_turns, shared, moment = list[PastTurn](), replies.child("play"), 0
    with temporary_play(rules, deal_stream.child("deal")) as play:
        while not play.done:
            if moment < 4 or moment.bit_count() == 1:
                yield play, past_turns
            moment += 1
            replies_by_seat = {}
            for seat in play.due():
                legal = play.legal(seat)
                stream = (deal_stream if seat == varied_seat else shared).child(moment).child(seat)
                reply = read_reply(play, seat, legal, HOSTILE, False) if hostile else None
                if reply is None or legal is not None:
                    reply = random_reply(play, seat, legal, stream)
                past_turns = [*past_turns, PastTurn(seat, play.observe(seat).prompt, reply)]
                replies_by_seat[seat] = reply
            play.step(replies_by_seat)
        yield play, past_turns


def _compare_pictures(rules: Any, name: str, root: Stream, deals: int, *, every_seat: bool) -> int:
    pictures: dict[Any, tuple[str, str]] = {}
    num_comparisons = 0
    for deal_index in range(deals):
        varied_seat = deal_index % (rules.num_seats + 1)  # num_seats: no seat varies
        for play, past in _play_moments(
            rules, root.child(deal_index), root, varied_seat=varied_seat
        ):
            for seat in range(rules.num_seats):
                knowledge = _knowledge_key(play, past, seat, every_seat=every_seat)
                if knowledge is None:
                    continue
                picture = (
                    draw_play(play, rules.roles, seat, "light", past),
                    describe_play(play, rules.roles, seat, past),
                )
                num_comparisons += knowledge in pictures
                what = f"{name}: pictures for {rules.roles[seat]} of plays it cannot tell apart"
                require_equal(pictures.setdefault(knowledge, picture), picture, what)
    return num_comparisons


def _knowledge_key(play: Play, past: list[PastTurn], seat: int, *, every_seat: bool) -> Any:
    due_seats = tuple(play.due())
    own_turns = tuple((turn.prompt, turn.reply) for turn in past if turn.seat == seat)
    if seat in due_seats:
        observation = play.observe(seat)
        return due_seats, seat, own_turns, observation.text, observation.key, play.legal(seat)
    ending = play.ending(seat) if play.done and hasattr(play, "ending") else None
    if every_seat:
        return due_seats, play.done, seat, own_turns, play.observe(seat).key, ending
    return None if ending is None else (due_seats, True, seat, own_turns, ending)
