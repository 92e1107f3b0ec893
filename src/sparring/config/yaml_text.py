"""Reads and writes YAML of recipes, overrides, suites and options, within limits of size.

Numbers follow YAML 1.2: ``1e-4`` is a number, and a text that looks like a number needs quotes
("12e5"). Dates are text. Only tags of plain values are allowed; it is an error if a text is nested
too deeply, or becomes too large through aliases.
"""

from __future__ import annotations

import copy
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from sparring.core.errors import ConfigError, quoted

MAX_DEPTH = 50  # largest number of nested levels of lists and mappings
MAX_VALUES = 100_000  # largest number of values after aliases are expanded
MAX_BITS = 200  # largest number of bits of a whole number
MAX_BYTES = 10_000_000  # largest number of bytes of a file
MAX_CACHED = 100_000  # largest number of characters of a text whose value is cached
FLOAT, TIMESTAMP = "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp"
TAGS = {
    f"tag:yaml.org,2002:{kind}"
    for kind in ("str", "int", "float", "bool", "null", "seq", "map", "merge", "value")
}
# numbers without a dot, or with an exponent without sign
EXPONENT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$")


class _Loader(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse too many levels, and tags that are not for plain values."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.depth >= MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"more than {MAX_DEPTH} nested levels", problem_mark=mark
            )
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if node is not None and node.tag not in TAGS:
            raise yaml.MarkedYAMLError(
                problem=f"the tag {node.tag!r} is not allowed; leave it out", problem_mark=mark
            )
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MAX_VALUES:
            raise yaml.MarkedYAMLError(
                problem="a mapping becomes too large by <<", problem_mark=node.start_mark
            )


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper; it quotes texts that ``_Loader`` would read as numbers."""


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(FLOAT, EXPONENT, list("-+0123456789."))
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != TIMESTAMP]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str, title: str) -> Any:
    """Parse a YAML text.

    Args:
        text: the YAML text.
        title: name of the text in the error.

    Raises:
        ConfigError: the text is not YAML, or exceeds the limits above.
    """
    try:
        return _parse_copy(text)
    except _YamlError as error:
        raise ConfigError(f"{title} is not valid YAML: {error}.") from None


def parse_value(text: str, title: str, key: str) -> Any:
    """Parse the value of ``key=value`` as YAML; ``title`` names the source in errors.

    Raises:
        ConfigError: the text is not a value, or exceeds the limits above.
    """
    try:
        return _parse_copy(text)
    except _YamlError as error:
        raise ConfigError(
            f"{title}: {quoted(text)} is not a value for {quoted(key)}: {error}."
        ) from None


class _YamlError(Exception):
    """The reason why a text cannot be parsed, as part of a sentence."""


def _parse_copy(text: str) -> Any:
    if len(text) > MAX_CACHED:
        return _parse_uncached(text)
    return copy.deepcopy(_parse_cached(text))


@lru_cache(maxsize=64)
def _parse_cached(text: str) -> Any:
    return _parse_uncached(text)


def _parse_uncached(text: str) -> Any:
    loader = None
    try:
        loader = _Loader(text)
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        advice = (
            "begin the lines of a section in the same column, and quote texts that contain ': '"
            if isinstance(error, (yaml.scanner.ScannerError, yaml.parser.ParserError))
            else "write texts in quotes"
        )
        raise _YamlError(f"{error.problem}{position}; {advice}") from None
    except yaml.YAMLError as error:
        raise _YamlError(" ".join(str(error).split())) from None
    except RecursionError:
        raise _YamlError(f"more than {MAX_DEPTH} nested levels") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # a tag that does not fit its value, or too many digits
        raise _YamlError(
            f"a value does not fit its kind ({' '.join(str(error).split())[:60]}); write a text "
            "in quotes"
        ) from None
    finally:
        if loader is not None:
            loader.dispose()
    _check_size(value, {})
    return value


def _check_size(value: Any, sizes_by_id: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return (number of values with aliases expanded, number of levels)."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _YamlError(
            f"a whole number has {value.bit_length()} bits, but at most {MAX_BITS} are allowed"
        )
    if not isinstance(value, (list, dict)):
        return 1, 0
    if id(value) not in sizes_by_id:
        sizes_by_id[id(value)] = (MAX_VALUES, MAX_DEPTH)  # for a value that contains itself
        items = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        sizes = [_check_size(part, sizes_by_id) for part in items]
        size, depth = (
            1 + sum(size for size, _ in sizes),
            1 + max((depth for _, depth in sizes), default=0),
        )
        if size > MAX_VALUES or depth > MAX_DEPTH:
            raise _YamlError(
                f"its aliases (*name) expand to more than {MAX_VALUES} values or {MAX_DEPTH} "
                "levels; leave some out"
            )
        sizes_by_id[id(value)] = (size, depth)
    return sizes_by_id[id(value)]


def dump_yaml(value: Any, *, width: int | None = None) -> str:
    """Return plain data as YAML with lines of this width; ``parse_yaml`` restores the data."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width)
    return text


def read_text(path: Path, title: str) -> str:
    """Return the text of a file.

    Args:
        path: path of the file.
        title: name of the file in the error.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or is too large.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"{title} has more than {MAX_BYTES} bytes; is it the right file?")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{title} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        message = (
            f"{title} is not UTF-8 text: byte {error.object[error.start]:#x} at "
            f"position {error.start}. Save it as UTF-8."
        )
        raise ConfigError(message) from None
    except ValueError as error:  # the path contains a NUL character
        raise ConfigError(f"{title} cannot be read: {error}.") from None
