"""A further learner of a run: a process that computes its leaves of every minibatch.

It holds nothing that matters. It is sent a policy's weights and optimiser (``take``) before it
first learns from its plays, and whenever they have changed otherwise than by learning. Then it is
sent what to learn from (``learn``, see ``messages.py``).
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
from sparring.engine.workers.worker import failed, unexpected
from sparring.learn.gradient_step import Means
from sparring.learn.weight_files import fingerprint


class Rank:
    """A further learner; see the top of this file.

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
        """Find the other learners; all of them must be there by now.

        Raises:
            LostError: they have not found each other.
        """
        self._sums = Sums(self.rank, self.ranks, self._store)
        for name in self.engine.learners:
            self.engine.policies[name].trained.share(self)

    def added(self, own: Any) -> Any:
        """Return the sum over all leaves; see ``RankGroup``."""
        assert self._sums is not None, "met before"
        return self._sums.added(own)

    def counted(self, own: Means) -> None:
        """Keep one's own parts, which rank 0 counts; see ``RankGroup``."""
        self.parts = list(own.parts)

    def answer(self, data: bytes) -> bytes:
        """Do what a message asks for, and return what is said to it; nothing to ``take``.

        Raises:
            SparringError: as learning here would.
        """
        head, _, rest = data.partition(b"\n")
        said = json.loads(head)
        if "take" in said:
            name, folder, version = said["take"]
            self.engine.policies[name].restore_learner(Path(folder), version)
            return b""
        lesson = LearnMessage.from_bytes(said["learn"], rest)
        own = self.engine.policies[lesson.policy]
        learn(own, lesson)
        parts = [part.to_bytes() for part in self.parts]
        answer = {"weights": fingerprint(own.model), "parts": [len(part) for part in parts]}
        return b"".join([json.dumps(answer).encode(), b"\n", *parts])


def learn(own: Policy, lesson: LearnMessage) -> None:
    """Update what a learner holds of a policy."""
    pack, turns = own.packed(lesson.episodes)
    trained = lesson.arrays.get("trained")
    own.update(
        pack,
        lesson.arrays["advantages"],
        lesson.arrays.get("value_targets"),
        trained=None if trained is None else trained > 0.0,
        turns=turns,
        step=lesson.step,
        progress=lesson.progress,
    )


def main(hear: int, say: int, kind: type[Rank] | None = None) -> None:
    """Be a further learner, until the training process is gone or an error is met.

    Args:
        hear: file descriptor of the pipe that messages come from.
        say: of the one that answers go to.
        kind: of learner.
    """
    end_with_parent()
    pipe, back = Connection(hear, writable=False), Connection(say, readable=False)

    def heard() -> bytes:
        pipe.recv_bytes()  # names of files, of which there are none
        return pipe.recv_bytes()

    try:
        settings = json.loads(heard())
        rank = (kind or Rank)(settings)
        back.send_bytes(b"{}\n")
        rank.meet()
        while True:
            answer = rank.answer(heard())
            if answer:
                back.send_bytes(answer)
    except (EOFError, BrokenPipeError):
        return
    except LostError as error:  # not its fault: another one says what has happened
        back.send_bytes(json.dumps({"lost": error.why}).encode() + b"\n")
    except SparringError as error:
        back.send_bytes(failed(error) + b"\n")
    except Exception as error:
        back.send_bytes(unexpected(error, "A learner", RunError) + b"\n")
