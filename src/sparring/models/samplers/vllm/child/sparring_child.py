"""A replica's process: takes weights and requests from a pipe, and says what its engine finds.

It runs in an environment of its own and imports nothing of Sparring. The engine is a file that is
given by its path, whose class ``Engine`` has the methods that are called here:

    Engine(settings)             settings: as ``samplers.vllm.replica`` sends them
    about                        what it is, as values of JSON
    busy                         whether it has requests
    load(path, salt)             go on with the weights of a file of safetensors, which compute all
                                 that was said so far anew
    tokens                       of each reply that is begun, how many it has
    ask(number, ids, seed, way)  begin a reply
    score(number, ids, begin, way)  begin to score ids[begin:], each after those before it
    drop(numbers)                forget requests
    step()                       go on; return [number, ids, logprobs, truncated] of what is done
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

SIGN = 1.0  # seconds between two signs of life while it computes


class Refused(Exception):
    """A file of weights is not what it should be."""


class Replica:
    """An engine, asked over pipes.

    Args:
        engine: what finds replies.
        hear: messages come from it.
        say: answers go to it.
    """

    def __init__(self, engine: Any, hear: Connection, say: Connection) -> None:
        self._engine, self._hear, self._say = engine, hear, say
        self._signed = time.monotonic()
        self._salt, self._runs = "", dict[int, list[list[Any]]]()  # of each reply: [from, salt]
        self._whole = True  # whether the engine's weights are of one file

    def serve(self) -> None:
        """Answer until whoever asks is gone.

        Raises:
            EOFError: it is.
        """
        self.say({"ready": self._engine.about})
        while True:
            if self._hear.poll(0 if self._engine.busy and self._whole else None):
                self._take(heard(self._hear))
                continue
            done = self._engine.step()
            if done:
                self.say({"done": [self._named(one) for one in done]})
            elif time.monotonic() - self._signed > SIGN:
                self.say({"alive": True})

    def say(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self._say.send_bytes(json.dumps(message).encode())
        self._signed = time.monotonic()

    def _named(self, answer: list[Any]) -> list[Any]:
        """Return an answer; of a reply with where its runs begin, and the weights of each."""
        runs = self._runs.pop(answer[0], None)
        return answer if runs is None else [*answer, runs]

    def _take(self, message: dict[str, Any]) -> None:
        if "weights" in message:
            self.say(self._loaded(**message["weights"]))
        for request in message.get("ask", ()):
            self._runs[request[0]] = [[0, self._salt]]
            self._engine.ask(*request, message["way"])
        for request in message.get("score", ()):
            self._engine.score(*request, message["way"])
        if "drop" in message:
            self._engine.drop(message["drop"])
            for number in message["drop"]:
                self._runs.pop(number, None)

    def _loaded(self, path: str, digest: str, salt: str) -> dict[str, Any]:
        """Load weights between two tokens; return what is to be said of it. Where loading has
        failed on its way nothing goes on before other weights are there."""
        try:
            check(path, digest)
            self._whole, tokens = False, self._engine.tokens
            self._engine.load(path, salt)
            self._whole, self._salt = True, salt
            for number, runs in self._runs.items():
                begin = tokens.get(number, 0)
                self._runs[number] = [*(one for one in runs if one[0] < begin), [begin, salt]]
        except Exception as error:  # whoever asked writes the file anew, and in the end gives up
            traceback.print_exc()
            return {"refused": salt, "why": f"{type(error).__name__}: {error}"}
        return {"loaded": salt}


def check(path: str, digest: str) -> None:
    """Check that a file holds what was written.

    Raises:
        Refused: it does not.
    """
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        raise Refused(f"{path} is not what was written")


def heard(pipe: Connection) -> dict[str, Any]:
    """Return the next message.

    Raises:
        EOFError: there will be none.
    """
    pipe.recv_bytes()  # names of files that come along, of which there are none
    message: dict[str, Any] = json.loads(pipe.recv_bytes())
    return message


def end_with_parent(folder: str) -> None:
    """End this process as soon as the one that started it has ended.

    The kernel's signal for that would come when the thread ends that started it.

    Args:
        folder: of what they share, which is removed then.
    """
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=look, name="parent", daemon=True).start()


def engine_of(path: str, settings: dict[str, Any]) -> Any:
    """Return the engine of a file."""
    spec = importlib.util.spec_from_file_location("sparring_engine", path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules["sparring_engine"] = module
    spec.loader.exec_module(module)
    return module.Engine(settings)


def main(engine: str, hear: int, say: int) -> None:
    """Be a replica's process.

    Args:
        engine: file of what finds replies.
        hear: file descriptor of the pipe that messages come from.
        say: of the one that answers go to.
    """
    pipe, back = Connection(hear, writable=False), Connection(say, readable=False)
    with contextlib.suppress(EOFError, BrokenPipeError):
        settings = heard(pipe)
        end_with_parent(settings["folder"])
        try:
            Replica(engine_of(engine, settings), pipe, back).serve()
        except (EOFError, BrokenPipeError):
            raise
        except Exception as error:
            traceback.print_exc()
            why = f"{type(error).__name__}: {error}"
            back.send_bytes(json.dumps({"failed": why}).encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
