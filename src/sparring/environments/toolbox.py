"""Tools that seats may call: a calculator and a full-text search.

A result depends only on the arguments, and a model's text is never executed as code.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from functools import lru_cache
from threading import Lock

from sparring.core.errors import GameError

__all__ = ["ToolError", "calculate", "search"]

MAX_CHARACTERS = 200  # largest number of characters of an expression
MAX_DEPTH = 20  # largest number of nested parentheses and signs
NUMBER_BOUND = 10**15  # bound of every number, its numerator and its denominator
DECIMALS = 6  # decimal places of a result that is not a whole number
MAX_QUERY_CHARS, MAX_QUERY_WORDS, MAX_WORD_CHARS = 400, 16, 40
MAX_RESULTS = 20  # largest number of documents that a search returns
_TOKEN = re.compile(r"[ \t\n]*(?:(\d{1,15}(?:\.\d{1,15})?)(?![\d.])|([-+*/()]))", re.ASCII)
_WORD = re.compile(r"[^\W_]+")
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
NO_RESULT = "none"  # result in brief style when there is nothing to return
_TAGS = re.compile(r"<(search|calculate)>(.*?)(</\1>|(?=<(?:search|calculate)>)|\Z)", re.DOTALL)


class ToolError(Exception):
    """A tool call that failed; its text is the result for the caller."""


def calculate(expression: str) -> str:
    """Return the value of an expression of numbers, + - * / and parentheses.

    The computation uses exact fractions. Results that are not whole are rounded to 6 decimal
    places.

        sum = product (("+" | "-") product)*
        product = factor (("*" | "/") factor)*
        factor = "-" factor | "+" factor | "(" sum ")" | number

    Args:
        expression: an expression of at most 200 characters and 20 nested levels, in which every
            number and every result is below 10**15.

    Raises:
        ToolError: the expression has another form, is too long or too deep, divides by zero, or
            exceeds the bound of numbers.
    """
    parser = _ExpressionParser(_tokens(expression))
    value = parser.parse_sum(0)
    if parser.next_token is not None:
        raise ToolError("The calculator cannot read this; write an expression such as 2*(3+4).")
    if value.denominator == 1:
        return str(value.numerator)
    places = 10**DECIMALS
    integer_part, decimals = divmod(round(abs(value) * places), places)
    text = f"{integer_part}.{decimals:0{DECIMALS}d}".rstrip("0").rstrip(".")
    return f"-{text}" if value < 0 and text != "0" else text


def _tokens(expression: str) -> list[str]:
    if len(expression) > MAX_CHARACTERS:
        raise ToolError(f"The expression is longer than {MAX_CHARACTERS} characters.")
    tokens, position, text = [], 0, expression.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ToolError("The calculator knows numbers, + - * / and parentheses only.")
        tokens.append(match[1] or match[2])
        position = match.end()
    return tokens


class _ExpressionParser:
    """A recursive-descent parser that computes the value of an expression."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.position = tokens, 0

    @property
    def next_token(self) -> str | None:
        """The next token; None at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self) -> str | None:
        """Return the next token and move past it."""
        token = self.next_token
        self.position += 1
        return token

    def parse_sum(self, depth: int) -> Fraction:
        """Parse products that + and - join."""
        value = self.parse_product(depth)
        while self.next_token in ("+", "-"):
            sign = self.take()
            operand = self.parse_product(depth)
            value = _check_bounds(value + operand if sign == "+" else value - operand)
        return value

    def parse_product(self, depth: int) -> Fraction:
        """Parse factors that * and / join."""
        value = self.parse_factor(depth)
        while self.next_token in ("*", "/"):
            sign = self.take()
            operand = self.parse_factor(depth)
            if sign == "/" and not operand:
                raise ToolError("The calculator cannot divide by zero.")
            value = _check_bounds(value * operand if sign == "*" else value / operand)
        return value

    def parse_factor(self, depth: int) -> Fraction:
        """Parse a number, a sign before a factor, or a sum in parentheses."""
        if depth > MAX_DEPTH:
            raise ToolError(f"The expression has more than {MAX_DEPTH} levels.")
        token = self.take()
        if token in ("-", "+"):
            value = self.parse_factor(depth + 1)
            return -value if token == "-" else value
        if token == "(":
            value = self.parse_sum(depth + 1)
            if self.take() != ")":
                raise ToolError("A parenthesis is not closed.")
            return value
        if token is None or not token[0].isdigit():
            raise ToolError("The calculator cannot read this; write an expression such as 2*(3+4).")
        return _check_bounds(Fraction(token))


def _check_bounds(value: Fraction) -> Fraction:
    if abs(value.numerator) >= NUMBER_BOUND or value.denominator >= NUMBER_BOUND:
        raise ToolError("The numbers are too large for the calculator.")
    return value


def search(library: Sequence[str], query: str, *, limit: int = 3) -> tuple[str, ...]:
    """Return the documents of a library that contain any word of a query, best first.

    BM25 ranks the documents, and ties keep the library's order. Only letters and digits of a query
    count: at most 16 words in its first 400 characters, and 40 characters of each word.

    Args:
        library: the documents.
        query: the words to search for.
        limit: largest number of documents to return, 1 to 20.

    Raises:
        GameError: Python's SQLite was built without FTS5.
    """
    matches = _WORD.findall(query[:MAX_QUERY_CHARS])[:MAX_QUERY_WORDS]
    words = tuple(word[:MAX_WORD_CHARS].lower() for word in matches)
    if not words or not library:
        return ()
    return _index(tuple(library), os.getpid()).find(words, max(1, min(limit, MAX_RESULTS)))


class _Index:
    """A full-text index in the memory of one process.

    Episodes keep no reference to the index, so they can be pickled.
    """

    def __init__(self, library: tuple[str, ...]) -> None:
        self.library, self.lock = library, Lock()
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self.database.execute("CREATE VIRTUAL TABLE documents USING fts5(body)")
        except sqlite3.OperationalError as error:
            raise GameError(
                f"The search needs SQLite with FTS5, which this Python's sqlite3 lacks ({error}); "
                "install a Python whose sqlite3 has it."
            ) from None
        rows = [(number, text) for number, text in enumerate(library)]
        self.database.executemany("INSERT INTO documents(rowid, body) VALUES (?, ?)", rows)

    def find(self, words: tuple[str, ...], limit: int) -> tuple[str, ...]:
        """Return the documents with any of the words, which are letters and digits only."""
        query = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        statement = (
            "SELECT rowid FROM documents WHERE documents MATCH ? ORDER BY rank, rowid LIMIT ?"
        )
        with self.lock, closing(self.database.execute(statement, (query, limit))) as rows:
            return tuple(self.library[row[0]] for row in rows.fetchall())


@lru_cache(maxsize=128)
def _index(library: tuple[str, ...], process: int) -> _Index:
    return _Index(library)


def parse_call(reply: str, *, brief: bool) -> tuple[str, str] | None:
    """Return (tool, argument) of the first call in a reply; an open tag gives the argument ""."""
    if not brief:
        match = _TAGS.search(reply)
        return None if match is None else (match[1], match[2].strip() if match[3] else "")
    tool, argument = [*reply.split(None, 1), "", ""][:2]
    return (tool, argument.strip()) if tool == "search" or tool in SIGNS else None


def write_call(tool: str, argument: str, *, brief: bool) -> str:
    """Return the text of a call, which ``parse_call`` can parse."""
    return f"{tool} {argument}".strip() if brief else f"<{tool}>{argument}</{tool}>"


def search_result(library: Sequence[str], query: str, *, limit: int, brief: bool) -> str:
    """Return the result of a search as text for the prompt."""
    if brief:
        return " ; ".join(search(library, query, limit=limit)) or NO_RESULT
    if not library:
        return "There is no library here."
    if not query:
        return "The search has no words; write <search>words</search>."
    documents = search(library, query, limit=limit)
    return "Found: " + " ".join(documents) if documents else "Nothing was found."


def calculator_result(tool: str, argument: str, *, max_result: int | None) -> str:
    """Return the result of the calculator as text for the prompt.

    Args:
        tool: "calculate"; in brief style the name of an operation, such as "add".
        argument: an expression, or two numbers in brief style.
        max_result: in brief style, the largest result that is returned; None: full style.
    """
    try:
        value = calculate(argument if max_result is None else _brief_expression(tool, argument))
    except ToolError as error:
        return str(error) if max_result is None else NO_RESULT
    if max_result is None:
        return f"The result is {value}."
    return value if value.isdecimal() and int(value) <= max_result else NO_RESULT


def _brief_expression(tool: str, argument: str) -> str:
    words = argument.split()
    is_valid = len(words) == 2 and all(word.isdecimal() for word in words)
    return f"{words[0]} {SIGNS[tool]} {words[1]}" if is_valid else ""
