"""The program of a replica's process: it passes weights and requests from a pipe to an engine.

The process runs in a separate environment and does not import Sparring. The engine is a Python file
whose class ``Engine`` has these attributes and methods:

    Engine(settings)                    settings: as ``samplers.vllm.replica`` sends them
    about                               description of the engine, as JSON values
    busy                                whether requests are open
    load(path, salt)                    load the weights of a file of safetensors, and recompute
                                        the keys and values of open replies
    tokens                              number of tokens of each open reply, by its number
    ask(number, ids, seed, options)     begin a reply
    score(number, ids, begin, options)  begin to score each id of ids[begin:] after the ids before
    drop(numbers)                       drop requests
    step()                              make one step; return [number, ids, logprobs, truncated]
                                        of finished requests
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

ALIVE_SECONDS = 1.0  # longest time between two messages while the engine works


class WeightFileError(Exception):
    """A file of weights has unexpected content."""


class ReplicaServer:
    """Serves an engine over pipes.

    Args:
        engine: draws and scores replies.
        inbox: pipe of incoming messages.
        outbox: pipe of answers.
    """

    def __init__(self, engine: Any, inbox: Connection, outbox: Connection) -> None:
        self._engine, self._inbox, self._outbox = engine, inbox, outbox
        self._last_sent = time.monotonic()
        self._salt = ""
        self._spans: dict[int, list[list[Any]]] = {}  # by reply: [first token, salt] of spans
        self._is_loaded = True  # False after a failed load, which may have changed some weights

    def serve(self) -> None:
        """Answer until the pipe is closed.

        Raises:
            EOFError: the pipe is closed.
        """
        self.send({"ready": self._engine.about})
        while True:
            if self._inbox.poll(0 if self._engine.busy and self._is_loaded else None):
                self._take(receive(self._inbox))
                continue
            answers = self._engine.step()
            if answers:
                self.send({"done": [self._add_spans(answer) for answer in answers]})
            elif time.monotonic() - self._last_sent > ALIVE_SECONDS:
                self.send({"alive": True})

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self._outbox.send_bytes(json.dumps(message).encode())
        self._last_sent = time.monotonic()

    def _add_spans(self, answer: list[Any]) -> list[Any]:
        """Return an answer; add [first token, salt of the weights] of each span to a reply's."""
        spans = self._spans.pop(answer[0], None)
        return answer if spans is None else [*answer, spans]

    def _take(self, message: dict[str, Any]) -> None:
        if "weights" in message:
            self.send(self._load(**message["weights"]))
        for request in message.get("ask", ()):
            self._spans[request[0]] = [[0, self._salt]]
            self._engine.ask(*request, message["options"])
        for request in message.get("score", ()):
            self._engine.score(*request, message["options"])
        if "drop" in message:
            self._engine.drop(message["drop"])
            for number in message["drop"]:
                self._spans.pop(number, None)

    def _load(self, path: str, digest: str, salt: str) -> dict[str, Any]:
        """Load weights between two tokens, and return the answer.

        After a failure the engine makes no step until other weights are loaded.
        """
        try:
            check_digest(path, digest)
            self._is_loaded, tokens = False, self._engine.tokens
            self._engine.load(path, salt)
            self._is_loaded, self._salt = True, salt
            for number, spans in self._spans.items():
                start = tokens.get(number, 0)
                self._spans[number] = [*(span for span in spans if span[0] < start), [start, salt]]
        except Exception as error:
            # the pool writes the file again, and ends the run after several failures
            traceback.print_exc()
            return {"refused": salt, "why": f"{type(error).__name__}: {error}"}
        return {"loaded": salt}


def check_digest(path: str, digest: str) -> None:
    """Check that a file has the content that was written.

    Raises:
        WeightFileError: the digest differs.
    """
    with open(path, "rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != digest:
        raise WeightFileError(f"the content of {path} differs from what was written")


def receive(pipe: Connection) -> dict[str, Any]:
    """Return the next message.

    Raises:
        EOFError: the pipe is closed.
    """
    pipe.recv_bytes()  # names of attached files, always empty
    message: dict[str, Any] = json.loads(pipe.recv_bytes())
    return message


def end_with_parent(folder: str) -> None:
    """End this process when its parent process has ended.

    The kernel has a signal for this, but sends it when the thread that started this process ends.

    Args:
        folder: the folder of shared files, which is then removed.
    """
    parent = os.getppid()

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch_parent, name="parent", daemon=True).start()


def load_engine(path: str, settings: dict[str, Any]) -> Any:
    """Return the engine that a Python file defines."""
    spec = importlib.util.spec_from_file_location("sparring_engine", path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules["sparring_engine"] = module
    spec.loader.exec_module(module)
    return module.Engine(settings)


def main(engine: str, input_fd: int, output_fd: int) -> None:
    """Run a replica's process.

    Args:
        engine: file of the engine.
        input_fd: file descriptor of the pipe of incoming messages.
        output_fd: file descriptor of the pipe of answers.
    """
    inbox = Connection(input_fd, writable=False)
    outbox = Connection(output_fd, readable=False)
    with contextlib.suppress(EOFError, BrokenPipeError):
        settings = receive(inbox)
        end_with_parent(settings["folder"])
        try:
            ReplicaServer(load_engine(engine, settings), inbox, outbox).serve()
        except (EOFError, BrokenPipeError):
            raise
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
            outbox.send_bytes(json.dumps({"failed": reason}).encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
