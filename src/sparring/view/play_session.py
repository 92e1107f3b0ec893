"""What the server knows of a person's session."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any

from sparring.errors import RolloutError
from sparring.system.pool import Job
from sparring.view.answers import one_line

Answer = dict[str, Any]


@dataclass(slots=True)
class Session:
    """What the server knows of a session."""

    key: str  # that the page gave it
    run: str  # its name, or ""
    state: Answer = field(default_factory=dict)
    job: Job | None = None  # the one that goes on
    coming: Future[Answer] | None = None
    waits: str = ""  # what for, in words
    since: float = 0.0
    used: float = 0.0

    @property
    def judging(self) -> bool:
        """Whether nothing but the judgement of a finished play is waited for."""
        return self.job is not None and self.job[0] == "judge"

    def collect(self) -> None:
        """Take the answer that has come, if one has; the caller holds the lock."""
        if self.coming is None or not self.coming.done():
            return
        coming, self.coming, self.job = self.coming, None, None
        try:
            found = coming.result()
        except CancelledError:
            return  # it was left
        except RolloutError as error:
            self.state = {**self.state, "phase": "failed", "trouble": one_line(error)}
            return
        if "error" not in found:
            self.state = found
        elif self.state:
            self.state = {**self.state, "trouble": found["error"]}
        else:  # it never began
            self.state = {"phase": "failed", "trouble": found["error"]}
