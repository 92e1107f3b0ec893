"""The canvas and its parts: any text is escaped, shortened to its space, and readable."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import UnknownNameError
from sparring.environments.drawing.boards import BoardCell, Card, cards, dice, discs, grid
from sparring.environments.drawing.canvas import HUES, THEMES, Canvas, text_hue
from sparring.environments.drawing.pieces import (
    MAX_MOVES,
    TimelineMessage,
    heading,
    paragraph,
    printed_lines,
    seats,
    strip,
    table,
    timeline,
)
from sparring.environments.drawing.words import MAX_CHARACTERS, shorten, visible_text, width_of, wrap_text
from sparring.testing.pictures import HOSTILE, check_svg

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=60) | st.sampled_from(
    [HOSTILE, "\ud800", "\x00", ""]
)


def draw_everything(text, theme="light"):
    canvas = Canvas(theme)
    heading(canvas, text, text)
    paragraph(canvas, text)
    printed_lines(canvas, text.split("\n"))
    seats(canvas, (text, text, text), (1,), {0: text})
    strip(canvas, [(text, "blue")] * 3)
    table(canvas, [("", text), (text, text)], marked=[(1, 1)], colours={(1, 1): "blue"})
    timeline(canvas, [TimelineMessage(text, text, "red", text)] * 2)
    grid(canvas, [[BoardCell(text, shape="disc", colour="green", marked=True)]], rows=(text,), columns=(text,))
    cards(canvas, text, [Card(text, "red", text), Card("")])
    dice(canvas, text, [1, None, 12])
    discs(canvas, text, [(text, "sky"), ("", "none")], after=text)
    return canvas.svg(text or "nothing")


@given(ANY_TEXT)
def test_any_text_is_escaped(text):
    svg = draw_everything(text)
    drawn_text = "".join(ElementTree.fromstring(svg).itertext())
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", drawn_text)
    if visible_text(text):
        check_svg(svg)


def test_control_characters_and_long_texts():
    assert (
        visible_text("a\u202eb\x1b[31m\x00\u2066\u200b\ud800\nc\td")
        == "a[U+202E]b[U+001B][31m[U+0000][U+2066][U+200B][U+D800] c d"
    )
    assert visible_text("e\u0301\u0301\u0301") == "e\u0301\u0301[U+0301]"
    assert "".join(wrap_text("<b>\u202e", 15, 300, 1)) == "<b>[U+202E]"
    text = "word " * 2_000_000
    assert len("".join(wrap_text(text, 15, 300, 4))) < 400 and len(visible_text(text)) <= MAX_CHARACTERS
    assert len(draw_everything(text)) < 20_000
    canvas = Canvas("light")
    strip(canvas, [(f"move{number}", "blue") for number in range(200)])
    timeline(canvas, [TimelineMessage("who", f"word{number}") for number in range(200)])
    svg = canvas.svg("long")
    assert f"{200 - MAX_MOVES} before" in svg and "move199" in svg and "move0<" not in svg
    assert "190 before" in svg and "word199" in svg and "word0<" not in svg


@given(ANY_TEXT, st.floats(20, 400), st.integers(1, 5))
def test_texts_are_shortened_to_their_width(text, width, max_lines):
    assert width_of(shorten(text, 15, width), 15) <= width + 15
    lines = wrap_text(text, 15, width, max_lines)
    assert 1 <= len(lines) <= max_lines
    assert all(width_of(line, 15) <= width + 15 for line in lines)


@given(st.text("ab <&", max_size=40))
def test_wrapping_loses_no_text_if_there_is_space(text):
    assert " ".join(wrap_text(text, 15, 1e9, 9)) == " ".join(text.split())
    assert "".join("".join(wrap_text(text, 15, 60, 99)).split()) == "".join(text.split())


def test_themes_and_nested_pictures():
    light, dark = draw_everything("words", "light"), draw_everything("words", "dark")
    assert re.sub("#[0-9a-f]{6}", "", light) == re.sub("#[0-9a-f]{6}", "", dark) and light != dark
    assert THEMES["light"].keys() == THEMES["dark"].keys()
    with pytest.raises(UnknownNameError, match="theme"):
        Canvas("sepia")
    inner_canvas = Canvas("light")
    paragraph(inner_canvas, "inside")
    outer_canvas = Canvas("light")
    heading(outer_canvas, "outside")
    outer_canvas.inset(inner_canvas.svg("inside"))
    svg = outer_canvas.svg("outside")
    check_svg(svg)
    root = ElementTree.fromstring(svg)
    (nested,) = root.findall("{http://www.w3.org/2000/svg}svg")
    assert "".join(nested.itertext()) == "inside" and float(nested.get("height")) == pytest.approx(
        inner_canvas.y - 8 + 12, abs=0.06
    )
    assert "role" not in nested.attrib
    outer_canvas.inset("<svg onload='x'></svg>")
    assert "onload" not in outer_canvas.svg("outside") and "cannot be shown" in outer_canvas.svg("outside")


def luminance(colour):
    channels = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour, background):
    darker, brighter = sorted((luminance(colour), luminance(background)))
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_text_has_enough_contrast_with_its_background(theme):
    colours = THEMES[theme]
    for text in ("ink", "dim"):
        for background in ("paper", "panel"):
            assert contrast(colours[text], colours[background]) >= 4.5
    for hue in HUES:  # signs of at least 18 units, bold: 3 is enough
        assert contrast(colours[text_hue(hue)], colours[hue]) >= 3.3
