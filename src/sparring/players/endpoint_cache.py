"""Answers of an endpoint, kept in a file of JSON lines.

What was paid for once is never asked again.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from sparring.errors import ConfigError
from sparring.system.files import disk_errors

log = logging.getLogger(__name__)
_BEGINNING = b'{"request": "'  # of every line


class Answer(NamedTuple):
    """What an endpoint replied. Token counts are the endpoint's own; None if it reports none."""

    text: str
    truncated: bool = False
    tokens_in: int | None = None
    tokens_out: int | None = None


class AnswerCache:
    """A file with one answered request per line.

    The request's digest, the reply and its token counts.

    Lines are appended in one write each and flushed. A line that a crash cut short is passed over
    and begins no other. Several agents and processes may share a file; each sees what was in it
    when it was made, and its own answers.

    Args:
        path: the file; it and its folder are made when missing. Where it may be is said in
            ``system.trust``.

    Raises:
        ConfigError: the path is a folder or a device, or a file of something else.
        RunError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._answers: dict[str, Answer] = {}
        self._lock = Lock()
        if self.path.exists() and not self.path.is_file():
            kind = "a folder" if self.path.is_dir() else "no regular file"
            raise ConfigError(
                f"endpoint: cache={str(path)!r} is {kind}; write the path of a file, such as "
                "answers.jsonl."
            )
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+b") as file:
                file.seek(0)
                lines = file.read().split(b"\n")
        self._read(lines)

    def get(self, digest: str) -> Answer | None:
        """Return the answer to the request of this digest, or None."""
        return self._answers.get(digest)

    def add(self, digest: str, answer: Answer) -> None:
        """Remember an answer and append it to the file.

        Raises:
            RunError: the file cannot be written.
        """
        line = json.dumps({"request": digest, **answer._asdict()}).encode() + b"\n"
        with self._lock, disk_errors(self.path), open(self.path, "a+b") as file:
            self._answers[digest] = answer
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                # the last line was cut short
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)

    def _read(self, lines: list[bytes]) -> None:
        """Take in the lines of the file."""
        written = [line for line in lines if line.strip()]
        for line in written:
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
                    "Cache %s: a damaged line was passed over; its request will be asked again.",
                    self.path,
                )
        if (
            written
            and not self._answers
            and not (len(written) == 1 and _BEGINNING.startswith(written[0][: len(_BEGINNING)]))
        ):
            raise ConfigError(
                f"endpoint: cache={str(self.path)!r} holds no answers but something else; write "
                "the path of a new file."
            )
