"""A further learner of a run: a process that computes its leaves (parts) of every minibatch.

A learner that ends can be replaced without loss. Rank 0 sends a policy's weights and optimiser
(``take``) before a learner's first update, and again if something other than an update has changed
them.
Then rank 0 sends the batch (``learn``, see ``messages.py``).
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
from sparring.engine.ranks.messages import GradientSums, LearnMessage, LostError
from sparring.engine.workers.fleet.processes import end_with_parent
from sparring.engine.workers.worker import error_message, unexpected_error_message
from sparring.learn.gradient_step import Means
from sparring.learn.weight_files import fingerprint


class FurtherLearner:
    """A learner of a run in a separate process; the training process has rank 0.

    Args:
        settings: the first message that the training process sends.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.rank, self.num_ranks = settings["rank"], settings["ranks"]
        self._store = Path(settings["store"])
        config = resolve({**settings["config"], "threads": settings["threads"]})
        self.engine = LocalEngine(config)
        self._sums: GradientSums | None = None
        self.leaf_means: list[Means] = []

    def connect(self) -> None:
        """Connect to the other learners, which must be running.

        Raises:
            LostError: the learners have not found each other.
        """
        self._sums = GradientSums(self.rank, self.num_ranks, self._store)
        for name in self.engine.learners:
            self.engine.policies[name].trained.split_over(self)

    def sum_over_ranks(self, total: Any) -> Any:
        """Return the sum over all leaves; see ``RankGroup``."""
        assert self._sums is not None, "connect was called"
        return self._sums.sum_over_ranks(total)

    def collect_means(self, means: Means) -> None:
        """Store the means of this learner, which rank 0 collects; see ``RankGroup``."""
        self.leaf_means = list(means.parts)

    def answer(self, message: bytes) -> bytes:
        """Carry out a message, and return the answer, which is b"" for ``take``.

        Raises:
            SparringError: learning failed.
        """
        header, _, payload = message.partition(b"\n")
        request = json.loads(header)
        if "take" in request:
            name, folder, version = request["take"]
            self.engine.policies[name].restore_learner(Path(folder), version)
            return b""
        learn_message = LearnMessage.from_bytes(request["learn"], payload)
        policy = self.engine.policies[learn_message.policy]
        learn(policy, learn_message)
        parts = [means.to_bytes() for means in self.leaf_means]
        answer = {"weights": fingerprint(policy.model), "parts": [len(part) for part in parts]}
        return b"".join([json.dumps(answer).encode(), b"\n", *parts])


def learn(policy: Policy, message: LearnMessage) -> None:
    """Update a learner's copy of a policy."""
    pack, turns = policy.pack_episodes(message.episodes)
    is_trained = message.arrays.get("trained")
    policy.update(
        pack,
        message.arrays["advantages"],
        message.arrays.get("value_targets"),
        trained=None if is_trained is None else is_trained > 0.0,
        turns=turns,
        step=message.step,
        progress=message.progress,
    )


def main(read_fd: int, write_fd: int, learner_class: type[FurtherLearner] | None = None) -> None:
    """Run a further learner, until the training process has ended or an error is raised.

    Args:
        read_fd: file descriptor of the pipe for messages.
        write_fd: file descriptor of the pipe for answers.
        learner_class: class of the learner; None: ``FurtherLearner``.
    """
    end_with_parent()
    messages, answers = Connection(read_fd, writable=False), Connection(write_fd, readable=False)

    def receive() -> bytes:
        messages.recv_bytes()  # names of files, always empty
        return messages.recv_bytes()

    try:
        settings = json.loads(receive())
        learner = (learner_class or FurtherLearner)(settings)
        answers.send_bytes(b"{}\n")
        learner.connect()
        while True:
            answer = learner.answer(receive())
            if answer:
                answers.send_bytes(answer)
    except (EOFError, BrokenPipeError):
        return
    except LostError as error:  # another learner reports the cause
        answers.send_bytes(json.dumps({"lost": error.reason}).encode() + b"\n")
    except SparringError as error:
        answers.send_bytes(error_message(error) + b"\n")
    except Exception as error:
        answers.send_bytes(unexpected_error_message(error, "A learner", RunError) + b"\n")
