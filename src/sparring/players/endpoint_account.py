"""An account at an endpoint: a budget, what was spent of it, and the answers that are kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from sparring.environments.options import check_range
from sparring.errors import ConfigError, RolloutError
from sparring.players.endpoint_cache import Answer, AnswerCache
from sparring.players.endpoint_client import Client
from sparring.system.trust import cache_file

_MILLION = 1_000_000


class BudgetError(RolloutError):
    """The budget is spent, or it cannot be kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What may be spent, 0 for no limit, and the prices per million tokens.

    Raises:
        ConfigError: a number below 0, or a limit on money without a price.
    """

    tokens: int = 0
    cost: float = 0.0
    price_in: float = 0.0
    price_out: float = 0.0

    def __post_init__(self) -> None:
        options = {
            "budget_tokens": self.tokens,
            "budget_cost": self.cost,
            "price_in": self.price_in,
            "price_out": self.price_out,
        }
        for name, value in options.items():
            check_range(f"endpoint: {name}", value, 0)
        if self.cost and not (self.price_in or self.price_out):
            raise ConfigError(
                f"endpoint: budget_cost={self.cost:g} needs prices; write price_in and price_out, "
                "per million tokens."
            )


@dataclass(kw_only=True, slots=True)
class Counters:
    """What an agent has asked and spent. Answers from the cache count in ``from_cache`` only."""

    budget: Budget
    requests: int = 0  # answered by the endpoint
    tokens_in: int = 0
    tokens_out: int = 0
    from_cache: int = 0

    @property
    def cost(self) -> float:
        """Money spent, in the currency of the prices."""
        return (
            self.tokens_in * self.budget.price_in + self.tokens_out * self.budget.price_out
        ) / _MILLION

    @property
    def spent(self) -> str:
        """Name and value of the budget that is spent, or ""."""
        if self.budget.tokens and self.tokens_in + self.tokens_out >= self.budget.tokens:
            return f"budget_tokens={self.budget.tokens}"
        if self.budget.cost and self.cost >= self.budget.cost:
            return f"budget_cost={self.budget.cost:g}"
        return ""


def open_account(
    who: str,
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
) -> Account:
    """Return an account at an endpoint from the options that all who ask one share.

    Raises:
        ConfigError: a number out of range, a budget without a price, no key, no address or file
            that may be used, or the package openai is missing.
        RunError: the file of answers cannot be written.
    """
    budget = Budget(tokens=budget_tokens, cost=budget_cost, price_in=price_in, price_out=price_out)
    client = Client(base_url=base_url, key_variable=key_variable, timeout=timeout, retries=retries)
    return Account(
        who=who,
        client=client,
        budget=budget,
        cache=None if cache is None else AnswerCache(cache_file(cache)),
    )


class Account:
    """Asks an endpoint from many threads, never twice for what is kept, and never beyond a budget.

    Args:
        who: whose account it is, for errors.
        client: the endpoint.
        budget: what may be spent.
        cache: answers to be used and added to, or None.
    """

    def __init__(
        self, *, who: str, client: Client, budget: Budget, cache: AnswerCache | None
    ) -> None:
        self.who, self.client, self.budget, self.cache = who, client, budget, cache
        self.counters = Counters(budget=budget)
        self._lock = Lock()

    def ask(self, request: Mapping[str, Any], stream: int | str) -> Answer:
        """Return the answer to a request, from the cache or the endpoint.

        Args:
            request: the fields of a chat completion.
            stream: tells requests apart that are equal but want answers of their own.

        Raises:
            BudgetError: the budget is spent, or the endpoint does not say what it spends.
            RolloutError: the endpoint failed.
            RunError: the cache cannot be written.
        """
        digest = hashlib.sha256(
            json.dumps([self.client.base_url, request, stream], sort_keys=True).encode()
        ).hexdigest()
        known = self.cache.get(digest) if self.cache is not None else None
        with self._lock:
            if known is not None:
                self.counters.from_cache += 1
                return known
            if self.counters.spent:
                raise BudgetError(self._spent())
        try:
            answer = self.client.ask(request)
        except RolloutError as error:
            raise RolloutError(f"{error} {self._kept()}") from None
        if self.cache is not None:
            self.cache.add(digest, answer)
        self._count(answer)
        return answer

    def _count(self, answer: Answer) -> None:
        """Add an answer of the endpoint to the counters."""
        with self._lock:
            self.counters.requests += 1
            self.counters.tokens_in += answer.tokens_in or 0
            self.counters.tokens_out += answer.tokens_out or 0
        if (self.budget.tokens or self.budget.cost) and (
            answer.tokens_in is None or answer.tokens_out is None
        ):
            raise BudgetError(
                f"Endpoint {self.client.base_url} reports no token counts, so that no budget can "
                f"be kept; write budget_tokens=0 and budget_cost=0. {self._kept()}"
            )

    def _spent(self) -> str:
        """Return what was spent and how to go on."""
        counters, name = self.counters, self.counters.spent
        cost = (
            f", {counters.cost:.6g} in money"
            if self.budget.price_in or self.budget.price_out
            else ""
        )
        return (
            f"{self.who}: {name} is spent: {counters.requests} requests took {counters.tokens_in} "
            f"tokens in and {counters.tokens_out} out{cost}. To go on, write a "
            f"larger {name.partition('=')[0]}. {self._kept()}"
        )

    def _kept(self) -> str:
        """Return what becomes of the answers so far."""
        if self.cache is None:
            return "Write cache=NAME.jsonl, and answers are kept for the next run."
        return (
            f"Every answer so far is in {self.cache.path}: run again with this cache and only the "
            "rest is asked."
        )
