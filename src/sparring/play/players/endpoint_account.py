"""An account at an endpoint of chat completions: budget, spending, and a cache of answers."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from sparring.core.endpoint_connection import OPENAI, Connection, MalformedError
from sparring.core.errors import ConfigError, RolloutError
from sparring.core.files import disk_errors
from sparring.core.trust import cache_file, parse_address
from sparring.environments.options import check_range

log = logging.getLogger(__name__)
_LINE_PREFIX = b'{"request": "'  # the first bytes of every line of a cache
_MILLION = 1_000_000
_MAX_TOKENS = 10**9  # a larger number of tokens of one reply is implausible
_ADVICE = {
    400: (
        "It may not know an option of the request: see its message, and try seed_requests=false, "
        "temperature=null or top_p=null."
    )
}


class BudgetError(RolloutError):
    """The budget is spent, or cannot be enforced."""


class Answer(NamedTuple):
    """An endpoint's answer with the token counts that it reports; None: it reports no count."""

    text: str
    truncated: bool = False
    tokens_in: int | None = None
    tokens_out: int | None = None


class AnswerCache:
    """A file with one answered request per line: its digest, the reply and the token counts.

    Each line is appended in one write and flushed; an incomplete line is skipped. Several agents
    and processes may share a file. Each of them knows the lines from before its start,
    and its own answers.

    Args:
        path: the file, which is made with its folder if it is missing. ``core.trust`` lists the
            allowed folders.

    Raises:
        ConfigError: the path is a folder or a device, or a file with other content.
        RunError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._answers: dict[str, Answer] = {}
        self._lock = Lock()
        if self.path.exists() and not self.path.is_file():
            kind = "a folder" if self.path.is_dir() else "not a regular file"
            raise ConfigError(
                f"endpoint: cache={str(path)!r} is {kind}; write the path of a file, such as "
                "answers.jsonl."
            )
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+b") as file:
                file.seek(0)
                lines = file.read().split(b"\n")
        self._read_lines(lines)

    def get(self, digest: str) -> Answer | None:
        """Return the answer to the request of this digest, or None."""
        return self._answers.get(digest)

    def add(self, digest: str, answer: Answer) -> None:
        """Store an answer and append it to the file.

        Raises:
            RunError: the file cannot be written.
        """
        line = json.dumps({"request": digest, **answer._asdict()}).encode() + b"\n"
        with self._lock, disk_errors(self.path), open(self.path, "a+b") as file:
            self._answers[digest] = answer
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                ends_with_newline = file.read(1) == b"\n"  # otherwise the last line is incomplete
                line = line if ends_with_newline else b"\n" + line
            file.write(line)

    def _read_lines(self, lines: list[bytes]) -> None:
        full_lines = [line for line in lines if line.strip()]
        for line in full_lines:
            try:
                record = json.loads(line)
                answer = Answer(
                    str(record["text"]),
                    record["truncated"] is True,
                    record["tokens_in"],
                    record["tokens_out"],
                )
                self._answers[record["request"]] = answer
            except (ValueError, KeyError, TypeError, RecursionError):
                log.warning(
                    "Cache %s: a damaged line was skipped; its request will be sent again.",
                    self.path,
                )
        if (
            full_lines
            and not self._answers
            and not (
                len(full_lines) == 1 and _LINE_PREFIX.startswith(full_lines[0][: len(_LINE_PREFIX)])
            )
        ):
            raise ConfigError(
                f"endpoint: cache={str(self.path)!r} is not a file of answers; write the path of "
                "a new file."
            )


@dataclass(kw_only=True, slots=True)
class Counters:
    """Counts of requests and tokens; answers from the cache count only in ``from_cache``."""

    price_in: float = 0.0  # price of a million tokens
    price_out: float = 0.0
    requests: int = 0  # requests that the endpoint answered
    tokens_in: int = 0
    tokens_out: int = 0
    from_cache: int = 0  # requests that the cache answered

    @property
    def cost(self) -> float:
        """Money spent, in the currency of the prices."""
        return (self.tokens_in * self.price_in + self.tokens_out * self.price_out) / _MILLION


class Account:
    """A thread-safe client of an endpoint with a budget and a cache of answers.

    Args:
        owner: name of the owner for errors, such as "Agent 'endpoint'".
        base_url, key_variable, timeout, retries: see ``Connection``.
        budget_tokens: largest number of tokens in and out; 0: no limit.
        budget_cost: largest cost; 0: no limit. Needs a price.
        price_in: price of a million prompt tokens.
        price_out: price of a million reply tokens.
        cache: file of answers, to which new answers are appended; None: no file.

    Raises:
        ConfigError: a number is out of range, a budget has no price, the address or the file is not
            allowed, or the key or the package openai is missing.
        RunError: the file of answers cannot be written.
    """

    def __init__(
        self,
        owner: str,
        *,
        base_url: str,
        key_variable: str,
        timeout: float,
        retries: int,
        budget_tokens: int,
        budget_cost: float,
        price_in: float,
        price_out: float,
        cache: str | None,
    ) -> None:
        for name, value in (
            ("budget_tokens", budget_tokens),
            ("budget_cost", budget_cost),
            ("price_in", price_in),
            ("price_out", price_out),
            ("retries", retries),
        ):
            check_range(f"endpoint: {name}", value, 0)
        check_range("endpoint: timeout", timeout, 0.001)
        if budget_cost and not (price_in or price_out):
            raise ConfigError(
                f"endpoint: budget_cost={budget_cost:g} needs prices; write price_in and "
                "price_out, per million tokens."
            )
        self.owner, self.budget_tokens, self.budget_cost = owner, budget_tokens, budget_cost
        self.counters = Counters(price_in=price_in, price_out=price_out)
        self.connection = Connection(
            base_url=base_url,
            key_variable=key_variable,
            timeout=timeout,
            retries=retries,
            advice=_ADVICE,
        )
        # OpenAI's new models refuse the name max_tokens
        is_openai = parse_address(base_url).host == OPENAI
        self.limit_name = "max_completion_tokens" if is_openai else "max_tokens"
        self.cache = None if cache is None else AnswerCache(cache_file(cache))
        self._lock = Lock()

    def ask(self, request: Mapping[str, Any], stream: int | str) -> Answer:
        """Return the answer to a request, from the cache or the endpoint.

        Args:
            request: the fields of a chat completion.
            stream: key of the turn's stream; requests that differ only in it get other answers.

        Raises:
            BudgetError: the budget is spent, or the endpoint reports no token counts.
            RolloutError: the endpoint failed.
            RunError: the cache cannot be written.
        """
        key = json.dumps([self.connection.base_url, request, stream], sort_keys=True)
        digest = hashlib.sha256(key.encode()).hexdigest()
        cached_answer = self.cache.get(digest) if self.cache is not None else None
        with self._lock:
            if cached_answer is not None:
                self.counters.from_cache += 1
                return cached_answer
            self._check_budget()
        try:
            answer = self.connection.send(
                "/chat/completions", request, _parse_answer, "a chat completion"
            )
        except RolloutError as error:
            raise RolloutError(f"{error} {self._cache_advice()}") from None
        answer = answer._replace(text=self.connection.mask_key(answer.text))
        if self.cache is not None:
            self.cache.add(digest, answer)
        with self._lock:
            self.counters.requests += 1
            self.counters.tokens_in += answer.tokens_in or 0
            self.counters.tokens_out += answer.tokens_out or 0
        if (self.budget_tokens or self.budget_cost) and None in answer[2:]:
            raise BudgetError(
                f"Endpoint {self.connection.base_url} reports no token counts, so that no budget "
                f"can be enforced; write budget_tokens=0 and budget_cost=0. {self._cache_advice()}"
            )
        return answer

    def _check_budget(self) -> None:
        counters = self.counters
        if 0 < self.budget_tokens <= counters.tokens_in + counters.tokens_out:
            name, value = "budget_tokens", str(self.budget_tokens)
        elif 0 < self.budget_cost <= counters.cost:
            name, value = "budget_cost", f"{self.budget_cost:g}"
        else:
            return
        has_price = counters.price_in or counters.price_out
        cost = f", {counters.cost:.6g} in money" if has_price else ""
        raise BudgetError(
            f"{self.owner}: {name}={value} is spent: {counters.requests} requests took "
            f"{counters.tokens_in} tokens in and {counters.tokens_out} out{cost}. To go on, write "
            f"a larger {name}. {self._cache_advice()}"
        )

    def _cache_advice(self) -> str:
        if self.cache is None:
            return "Write cache=NAME.jsonl to store answers for the next run."
        return (
            f"Every answer so far is in {self.cache.path}: run again with this cache, and only "
            "the other requests are sent."
        )


def _parse_answer(body: str) -> Answer:
    """Return the answer in a response's body, with text "" if its content is missing or null."""
    try:
        data = json.loads(body)
        choice, usage = data["choices"][0], data.get("usage") or {}
        text = _content_text(choice["message"].get("content"))
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        truncated = choice.get("finish_reason") == "length"
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise MalformedError(body.strip() or "an empty body") from None
    tokens_in, tokens_out = (
        count if type(count) is int and 0 <= count <= _MAX_TOKENS else None for count in counts
    )
    return Answer(text=text, truncated=truncated, tokens_in=tokens_in, tokens_out=tokens_out)


def _content_text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError
    return content.encode("utf-8", "replace").decode("utf-8")
