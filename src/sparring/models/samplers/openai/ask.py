"""One request to a server, and what it answers, read and checked."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from sparring.core.endpoint_connection import MalformedError
from sparring.core.errors import RunError
from sparring.core.records import SampleResult, SamplingParams
from sparring.models.samplers.base import Ids

MOST = 2**63 - 1  # of a seed
NEEDED = (
    "The sampler openai needs a server that takes and returns token ids with log-probabilities "
    "(return_token_ids, logprobs), such as vLLM's; or write sampler.name=vllm."
)


class Ask(NamedTuple):
    """One request; its ids are below ``vocabulary``."""

    name: str
    ids: Ids
    seed: int
    params: SamplingParams
    stop_ids: Ids
    vocabulary: int

    def fields(self) -> dict[str, Any]:
        """Return what is sent: nothing but the temperature shapes the distribution."""
        return {
            "model": self.name,
            "prompt": list(self.ids),
            "max_tokens": self.params.max_new_tokens,
            "temperature": self.params.temperature,
            "seed": self.seed & MOST,
            "logprobs": 1,
            "stop_token_ids": list(self.stop_ids),
            "ignore_eos": True,  # else a server's own end of text ends a reply too
            "return_token_ids": True,
            "skip_special_tokens": False,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
        }

    def read(self, body: str) -> SampleResult:
        """Return the reply in a body.

        Raises:
            MalformedError: there is none.
            RunError: it comes without token ids or log-probabilities, or cannot be one.
        """
        ids, logprobs, prompt = _choice(body)
        if not ids or not logprobs:
            missing = "log-probabilities" if ids else "token ids"
            raise RunError(f"The server gives no {missing} with a reply of {self.name!r}. {NEEDED}")
        if prompt not in (None, list(self.ids)):
            raise RunError(
                f"The server read a prompt of {len(self.ids)} token ids as {len(prompt)} others. "
                "It must neither add nor drop tokens."
            )
        if len(ids) != len(logprobs) or not all(self._known(one) for one in ids):
            raise RunError(
                f"The server gave {len(ids)} tokens and {len(logprobs)} log-probabilities for a "
                f"reply. Each token must have one, and be an id from 0 to {self.vocabulary - 1}; "
                "the server may have another model."
            )
        for value in logprobs:
            if not _is_finite(value):
                raise RunError(
                    f"The server gave {json.dumps(value)[:40]} as a log-probability of a reply of "
                    f"{self.name!r}. It must be a finite number; look at the server's log and at "
                    "the weights it has loaded."
                )
        return SampleResult(tuple(ids), tuple(map(float, logprobs)), not self._ended(ids))

    def _known(self, one: Any) -> bool:
        """Return whether this is the id of a token."""
        return type(one) is int and 0 <= one < self.vocabulary

    def _ended(self, ids: list[int]) -> bool:
        """Return whether a reply ends with a stop id, and not at the limit.

        Raises:
            RunError: it ends elsewhere.
        """
        most = self.params.max_new_tokens
        stop = next((n for n, one in enumerate(ids, start=1) if one in self.stop_ids), None)
        if len(ids) != (stop or most) or len(ids) > most:
            raise RunError(
                f"The server ended a reply after {len(ids)} tokens with id {ids[-1]}, and not with "
                f"the first stop id or after {most} tokens. It must obey max_tokens, "
                "stop_token_ids and ignore_eos."
            )
        return stop is not None


def _is_finite(value: Any) -> bool:
    """Return whether this is a number that a float holds."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _choice(body: str) -> tuple[list[Any], list[Any], Any]:
    """Return the token ids and log-probabilities in a body, and the prompt, None where it is not.

    Raises:
        MalformedError: it is no completion.
    """
    try:
        choice = json.loads(body)["choices"][0]
        ids, logprobs = choice.get("token_ids"), choice.get("logprobs")
        found = ids or [], (logprobs or {}).get("token_logprobs") or []
        prompt = choice.get("prompt_token_ids")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise MalformedError(body.strip() or "an empty body") from None
    if not all(isinstance(one, list) for one in (*found, prompt or [])):
        raise MalformedError(body.strip())
    return *found, prompt
