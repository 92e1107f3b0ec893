"""A language model behind an OpenAI-compatible chat endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Any

from sparring.core.errors import SparringError
from sparring.environments.base import HasOverview
from sparring.environments.options import check_range
from sparring.play.players.base import Agent, PendingTurn, Reply
from sparring.play.players.endpoint_account import Account, Answer, Counters

ASKS_OTHERS = True  # requests cost money, so estimates and trials leave this player out
SYSTEM = (
    "You are playing a game. Decide on one of the legal actions and end your reply with that "
    "action."
)
_SEED_BITS = 31


class EndpointAgent:
    """A player that sends one stateless request per turn, several at a time.

    Args:
        account: the account at the endpoint, with the budget and the cache of answers.
        fields: fields of all requests, such as ``model``.
        system: the system message; empty: no system message.
        seed_requests: whether a request has a seed, drawn from its turn's stream.
        concurrency: limit of requests under way at a time.
    """

    renderer: Any = None
    name = "endpoint"

    def __init__(
        self,
        *,
        account: Account,
        fields: Mapping[str, Any],
        system: str,
        seed_requests: bool,
        concurrency: int,
    ) -> None:
        check_range("endpoint: concurrency", concurrency, 1)
        self.fields, self.system, self.seed_requests = dict(fields), system, seed_requests
        self.concurrency, self.account = concurrency, account
        self._threads: ThreadPoolExecutor | None = None  # shared by all calls
        self._batch = _RequestBatch()

    @property
    def counters(self) -> Counters:
        """The requests and tokens so far."""
        return self.account.counters

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order.

        When a request fails, no further requests are sent; answers under way are still cached.

        Raises:
            RolloutError: the endpoint failed, or the budget is spent.
            RunError: the cache cannot be written.
        """
        batch, futures = self._ask(turns)
        try:
            wait(futures)
        except BaseException:
            batch.stop(None)  # a person interrupted the call
            raise
        return [_reply(future) for future in futures]

    def submit(self, turns: Sequence[PendingTurn]) -> Iterator[list[tuple[int, Reply]]]:
        """Yield replies with the indices of their turns, as they arrive; [] while none arrives.

        Raises:
            RolloutError, RunError: as for ``act``.
        """
        return _yield_replies(*self._ask(turns))

    def _ask(self, turns: Sequence[PendingTurn]) -> tuple[_RequestBatch, list[Future[Answer]]]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.concurrency, thread_name_prefix="endpoint")
        if self._batch.is_over:
            self._batch = _RequestBatch()
        batch = self._batch
        # all request texts are built before the threads start: game states are not thread-safe
        requests = [(self._request(turn), turn.stream.key) for turn in turns]
        futures = [
            self._threads.submit(batch.answer, self.account, *request) for request in requests
        ]
        batch.futures += futures
        return batch, futures

    def _request(self, turn: PendingTurn) -> dict[str, Any]:
        messages = [{"role": "system", "content": self.system}] if self.system else []
        if isinstance(turn.state, HasOverview):
            prompt = turn.state.overview(turn.seat).text
            prompt = f"{prompt}\n\n{turn.notice}" if turn.notice else prompt
        else:  # the conversation so far, then the new prompt
            prompt = turn.prompt
            for past_prompt, reply in turn.past() if turn.past is not None else ():
                messages.append({"role": "user", "content": past_prompt})
                messages.append({"role": "assistant", "content": reply})
        messages.append({"role": "user", "content": prompt})
        seed = {"seed": turn.stream.integer(0, 1 << _SEED_BITS)} if self.seed_requests else {}
        return {**self.fields, "messages": messages, **seed}


class _RequestBatch:
    """Requests of one or more calls; after a request fails, no further ones are sent."""

    def __init__(self) -> None:
        self.futures: list[Future[Answer]] = []  # answers that may still be under way
        self.stopped = Event()
        self._error: SparringError | None = None

    @property
    def is_over(self) -> bool:
        """Whether no request is under way, or no caller waits."""
        self.futures = [future for future in self.futures if not future.done()]
        return not self.futures or (self.stopped.is_set() and self._error is None)

    def stop(self, error: SparringError | None) -> None:
        """Send no more requests, because of an error, or because no caller waits any longer."""
        self._error = self._error or error
        self.stopped.set()

    def answer(self, account: Account, request: Mapping[str, Any], stream: int) -> Answer:
        if self.stopped.is_set():
            raise self._error or CancelledError
        try:
            return account.ask(request, stream)
        except SparringError as error:
            self.stop(error)
            raise


def _yield_replies(
    batch: _RequestBatch, futures: Sequence[Future[Answer]]
) -> Iterator[list[tuple[int, Reply]]]:
    queue = dict(enumerate(futures))
    try:
        while queue:
            if batch.stopped.is_set():
                wait(queue.values())  # answers under way are cached
            indices = [index for index, future in queue.items() if future.done()]
            yield [(index, _reply(queue.pop(index))) for index in indices]
    finally:
        if queue:
            batch.stop(None)


def _reply(future: Future[Answer]) -> Reply:
    answer = future.result()
    return Reply(text=answer.text, truncated=answer.truncated)


def endpoint(
    *,
    model: str,
    base_url: str = "https://api.openai.com/v1",
    key_variable: str = "OPENAI_API_KEY",
    system: str = SYSTEM,
    temperature: float | None = 1.0,
    top_p: float | None = 1.0,
    max_new_tokens: int = 1024,
    seed_requests: bool = True,
    concurrency: int = 8,
    timeout: float = 120.0,
    retries: int = 5,
    budget_tokens: int = 0,
    budget_cost: float = 0.0,
    price_in: float = 0.0,
    price_out: float = 0.0,
    cache: str | None = None,
) -> Agent:
    """A language model behind any OpenAI-compatible chat endpoint, within a budget and resumable.

    Each turn is one request without memory. The request has a system message and the complete
    observation of the seat: rules, secrets, all public information and legal actions. If an
    environment observes only new information, the request has the whole conversation so far. The
    environment finds the action in the reply. An empty reply is a reply without an action.

    When to use: to measure a trained policy against a hosted or locally served model (vLLM, SGLang,
    llama.cpp, Ollama). Play the games in style "full"; the brief words of style "brief" explain
    nothing. Needs the extra ``endpoint``.
    Pitfalls: cached answers are found by address, model, messages, options and turn. So two
    checkpoints that are served under one name and address need two cache files. If a seat may try
    again after an illegal reply, its request ends with a notice of that reply. Budgets count what
    this agent spends; answers from the cache are free. Requests under way when a budget runs out
    are still paid, so the spending can exceed it by up to ``concurrency`` requests.
    Sampling is reproducible only as far as the endpoint honours seeds.

    Args:
        model: the model's name at the endpoint.
        base_url: address of the API, without "/chat/completions". Allowed hosts: this machine, the
            provider of the key, and those in the environment variable SPARRING_ENDPOINT_HOSTS.
        key_variable: name of the environment variable that holds the key, such as MY_API_KEY.
            An address on this machine needs no key.
        system: the system message. Empty: no system message, for models whose template has none.
        temperature: temperature of sampling, at least 0. null leaves it to the endpoint.
        top_p: probability mass of nucleus sampling, in [0, 1]. null leaves it to the endpoint.
        max_new_tokens: length limit of a reply, in tokens, at least 1.
        seed_requests: true (default): a seed from the turn's stream is sent along. false: none is
            sent, for endpoints that refuse seeds.
        concurrency: limit of requests under way at a time, at least 1.
        timeout: time limit of one try, in seconds.
        retries: largest number of tries after the first, at least 0. The waits between them are
            0.5, 1, 2, 4, then always 8 seconds, or as long as the endpoint demands.
        budget_tokens: tokens in and out after which the agent stops with an error. 0 (default): no
            limit.
        budget_cost: money after which the agent stops with an error. 0 (default): no limit. Needs a
            price.
        price_in: price of a million prompt tokens, in any currency.
        price_out: price of a million reply tokens, in the same currency.
        cache: a file of JSON lines, such as answers.jsonl. Every answer is appended to it, and a
            repeated request is answered from it. A plain name is a file in answers/ of the cache
            folder. A path is accepted if the user typed it on the command line, or if it lies in a
            folder that SPARRING_ENDPOINT_FILES names. null (default): no file.

    Raises:
        ConfigError: a number is out of range, a budget has no price, the key or the package openai
            is missing, or the user has not named the address or the file.

    Reference: OpenAI API reference, "Create chat completion".
    """
    check_range("endpoint: max_new_tokens", max_new_tokens, 1)
    check_range("endpoint: temperature", temperature or 0.0, 0)
    check_range("endpoint: top_p", 1.0 if top_p is None else top_p, 0, 1)
    account = Account(
        "Agent 'endpoint'",
        base_url=base_url,
        key_variable=key_variable,
        timeout=timeout,
        retries=retries,
        budget_tokens=budget_tokens,
        budget_cost=budget_cost,
        price_in=price_in,
        price_out=price_out,
        cache=cache,
    )
    options = {"temperature": temperature, "top_p": top_p, account.limit_name: max_new_tokens}
    return EndpointAgent(
        account=account,
        fields={
            "model": model,
            **{name: value for name, value in options.items() if value is not None},
        },
        system=system,
        seed_requests=seed_requests,
        concurrency=concurrency,
    )
