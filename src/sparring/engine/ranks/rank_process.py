"""A further learner of a run: a process that computes its leaves of every minibatch.

A learner holds no state that matters. Rank 0 sends it a policy's weights and optimiser (``take``)
before its first update, and whenever they changed by other means than an update. Then rank 0 sends
the batch (``learn``, see ``messages.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sparring.config import resolve
from sparring.core.errors import RunError, SparringError
from sparring.engine.local import LocalEngine, Policy
from sparring.engine.ranks.messages import LearnMessage, LostError, Sums
from sparring.engine.workers.fleet.processes import end_with_parent
from sparring.engine.workers.worker import error_message, unexpected_error_message
from sparring.learn.gradient_step import Means
from sparring.learn.weight_files import fingerprint


class Rank:
    """A further learner.

    Args:
        settings: the first message, as ``engine.ranks`` sends it.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.rank, self.ranks = settings["rank"], settings["ranks"]
        self._store = Path(settings["store"])
        config = resolve({**settings["config"], "threads": settings["threads"]})
        self.engine = LocalEngine(config)
        self._sums: Sums | None = None
        self.parts: list[Means] = []

    def meet(self) -> None:
        """Connect to the other learners, which must be running.

        Raises:
            LostError: the learners have not found each other.
        """
        self._sums = Sums(self.rank, self.ranks, self._store)
        for name in self.engine.learners:
            self.engine.policies[name].trained.share(self)

    def added(self, total: Any) -> Any:
        """Return the sum over all leaves; see ``RankGroup``."""
        assert self._sums is not None, "connected before"
        return self._sums.added(total)

    def counted(self, means: Means) -> None:
        """Keep the parts of this learner, which rank 0 collects; see ``RankGroup``."""
        self.parts = list(means.parts)

    def answer(self, data: bytes) -> bytes:
        """Carry out a message, and return the reply; empty for ``take``.

        Raises:
            SparringError: as learning raises it.
        """
        head, _, payload = data.partition(b"\n")
        request = json.loads(head)
        if "take" in request:
            name, folder, version = request["take"]
            self.engine.policies[name].restore_learner(Path(folder), version)
            return b""
        message = LearnMessage.from_bytes(request["learn"], payload)
        policy = self.engine.policies[message.policy]
        learn(policy, message)
        parts = [part.to_bytes() for part in self.parts]
        answer = {"weights": fingerprint(policy.model), "parts": [len(part) for part in parts]}
        return b"".join([json.dumps(answer).encode(), b"\n", *parts])


def learn(policy: Policy, message: LearnMessage) -> None:
    """Update a learner's copy of a policy."""
    pack, turns = policy.packed(message.episodes)
    trained = message.arrays.get("trained")
    policy.update(
        pack,
        message.arrays["advantages"],
        message.arrays.get("value_targets"),
        trained=None if trained is None else trained > 0.0,
        turns=turns,
        step=message.step,
        progress=message.progress,
    )


def main(hear: int, say: int, kind: type[Rank] | None = None) -> None:
    """Run a further learner, until the training process is gone or an error is raised.

    Args:
        hear: file descriptor of the pipe for messages.
        say: file descriptor of the pipe for replies.
        kind: class of the learner.
    """
    end_with_parent()
    pipe, replies = Connection(hear, writable=False), Connection(say, readable=False)

    def receive() -> bytes:
        pipe.recv_bytes()  # names of files, always empty
        return pipe.recv_bytes()

    try:
        settings = json.loads(receive())
        rank = (kind or Rank)(settings)
        replies.send_bytes(b"{}\n")
        rank.meet()
        while True:
            answer = rank.answer(receive())
            if answer:
                replies.send_bytes(answer)
    except (EOFError, BrokenPipeError):
        return
    except LostError as error:  # another learner reports the cause
        replies.send_bytes(json.dumps({"lost": error.why}).encode() + b"\n")
    except SparringError as error:
        replies.send_bytes(error_message(error) + b"\n")
    except Exception as error:
        replies.send_bytes(unexpected_error_message(error, "A learner", RunError) + b"\n")
