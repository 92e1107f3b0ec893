"""YAML is read with limits, by YAML 1.2's rule for numbers, and what is written reads back equal."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import yaml_text
from sparring.config.yaml_text import dump_yaml, parse_value, parse_yaml, read_text
from sparring.core.errors import ConfigError, quoted

BOMB = "{a0: &a0 [x, x, x, x, x, x, x, x], " + ", ".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 12)) + "}"
MERGES = "{m0: &m0 {x: 1, y: 2}, " + ", ".join(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}" for i in range(1, 9)) + "}"
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("-3e+2", -300.0),
        ("+1e2", 100.0),
        (".5e3", 500.0),
        ("1.5e3", 1500.0),
        ("1.0e-4", 1e-4),
        ("3.e2", 300.0),
        ("{learning_rate: {schedule: linear, start: 3e-3, end: 0.0}}", {"learning_rate": {"schedule": "linear", "start": 3e-3, "end": 0.0}}),
        ("[1e-8, 2]", [1e-8, 2]),
    ],
)
def test_numbers_with_exponents_are_numbers(text, value):
    assert parse_yaml(text, "x") == value


@pytest.mark.parametrize("text", ["1e4x", "e4", "1e", "1e-", "12e5f", "0x1e5z", "1_e", "'1e5'", '"12e5"', "1e5.0", "a1e5", "1-e5", "1e5e5"])
def test_what_only_looks_like_a_number_stays_text(text):
    assert parse_yaml(text, "x") == text.strip("'\"")


@pytest.mark.parametrize("text", ["1", "1.5", "true", "off", "null", "~", "0x1f", "1_000", "1:30", ".5", "a: {b: [c, 1]}", "plain words", "''", "-"])
def test_nothing_else_is_read_differently(text):
    assert parse_yaml(text, "x") == yaml.safe_load(text)


def test_dates_are_text_and_messages_say_why(tmp_path):
    assert parse_yaml("[2001-01-01, 2001-99-99, 2001-01-01 10:00:00]", "x") == ["2001-01-01", "2001-99-99", "2001-01-01 10:00:00"]
    assert [quoted(value) for value in ("a b", 3, 1.5, None, [1, "x"], {"a": 1})] == ["'a b'", "3", "1.5", "None", "[1, 'x']", "{'a': 1}"]
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    (tmp_path / "mark.yaml").write_bytes(b"\xef\xbb\xbfname: x")
    (tmp_path / "large.yaml").write_bytes(b"#" * 10_000_001)
    assert read_text(tmp_path / "mark.yaml", "x") == "name: x"
    for name, message in (("latin.yaml", "not UTF-8 text: byte 0xff at position 6"), (".", "directory"), ("large.yaml", "bytes"), ("none", "No such")):
        with pytest.raises(ConfigError, match=message):
            read_text(tmp_path / name, "Recipe 'r'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 2000, "more than 50 levels"),
        ("{a: " * 2000, "more than 50 levels"),
        ("- " * 200 + "x", "more than 50 levels"),
        ("!!int x", "does not fit its kind"),
        ("!!bool x", "does not fit its kind"),
        ("!!float x", "does not fit its kind"),
        ("!!timestamp x", "tag"),
        ("!!binary x", "tag"),
        ("!!set {a}", "tag"),
        ("!!omap [a: 1]", "tag"),
        ("!!python/object/apply:os.getcwd []", "tag"),
        ("!mine {a: 1}", "tag"),
        (BOMB, "aliases"),
        (MERGES, "<<"),
        (CHAIN, "aliases"),
        ("&a [*a]", "aliases"),
        ("&a {b: *a}", "aliases"),
        ("*a", "alias"),
        ("1" * 5000, "does not fit its kind"),
        ("0x" + "f" * 9000, "36000 bits"),
        ("{[1]: 2}", "unhashable"),
        ("a: [1", "line 1"),
        ("\x00", "unacceptable"),
        ("a: b: c", "mapping values"),
    ],
    ids=lambda text: quoted(text, 30),
)
def test_what_cannot_be_read_gets_one_short_line(text, message):
    for parse in (lambda: parse_yaml(text, "Recipe 'r'"), lambda: parse_value(text, "Override 'k=v'", "k")):
        with pytest.raises(ConfigError) as error:
            parse()
        assert message in str(error.value)
        assert "\n" not in str(error.value) and len(str(error.value)) < 500


@given(st.recursive(st.text(st.characters(codec="utf-8", exclude_categories=["C"])) | st.integers(-(2**63), 2**63) | st.floats() | st.booleans() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text("ab1e.-"), x)))
def test_what_is_written_reads_back_equal(value):
    assert repr(parse_yaml(dump_yaml(value), "x")) == repr(value)


@pytest.mark.parametrize("text", ["1e5", "12e5", "1e-4", "+1E2", "2001-01-01", "yes", "0x1", "1_0e3"])
def test_texts_that_look_like_numbers_are_quoted(text):
    assert parse_yaml(dump_yaml({"name": text}), "x") == {"name": text}
    assert yaml.safe_load(dump_yaml({"name": text})) == {"name": text}  # also for who reads YAML 1.1


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000, list(range(10_000)), {str(i): i for i in range(9999)}, 10**5000, -(10**400), [[[[[[1]]]]]], b"x" * 999, {1: {"a": ["b" * 500] * 500}}],
    ids=lambda value: type(value).__name__,
)
def test_messages_quote_large_values_shortened(value):
    assert len(quoted(value)) <= 130 and "\n" not in quoted(value)


def test_a_text_that_is_kept_is_given_as_a_copy_and_a_long_one_is_not_kept(monkeypatch):
    text, long = "a: [1, {b: 2}]", f"a: {'x' * yaml_text.MAX_KEPT}"
    first, _ = parse_yaml(text, "x"), parse_yaml(long, "x")
    monkeypatch.setattr(yaml_text, "_read", lambda text: text)
    first["a"][1]["b"] = 3
    assert parse_yaml(text, "x") == {"a": [1, {"b": 2}]}
    assert parse_yaml(long, "x") == long
