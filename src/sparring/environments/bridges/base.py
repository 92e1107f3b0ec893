"""Base of bridges: plays whose rules are the code of another library.

A play of a bridge owns a state of the process-wide random streams (``random`` and
``numpy.random``) that its library draws from. ``library_call`` swaps this state in for every call
and restores the caller's state afterwards, so plays of one process do not disturb one another, and
equal seeds give equal plays. The same context limits the time of a call, hides what the library
prints, and turns its exceptions into a ``LibraryError``, which fails one episode only.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import importlib.util
import math
import os
import random
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self, TextIO

import numpy as np
from numpy.random import mtrand

from sparring.config.plugins.guard import CallWatch, PluginCall, call_limit_seconds
from sparring.config.plugins.outside import find
from sparring.config.plugins.plugin import named
from sparring.core.errors import (
    ConfigError,
    GameError,
    HungError,
    SparringError,
    UnknownNameError,
    quoted,
)
from sparring.core.rng import Stream
from sparring.environments.base import Environment

CALL_SECONDS = 20.0  # default limit of one call into a library, in seconds
SEEDS = 2**31  # seeds of libraries are below this number
MAX_MESSAGE = 300  # largest number of characters of a library's message


PASSED_ON = (SparringError, KeyboardInterrupt, GeneratorExit)  # not errors of a library


class LibraryError(GameError):
    """A library raised an exception in an episode."""


def import_library(module: str, bridge: str, version: str) -> ModuleType:
    """Return a module of a library."""
    remedy = f"Write pip install 'sparring[{bridge}]' (tested with version {version})."
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        reason = f"the package {missing!r} is not installed"
    except (Exception, SystemExit) as error:
        reason = f"importing {module!r} failed: {type(error).__name__}: {_one_line(error)}"
    raise ConfigError(f"environments {bridge!r}: {reason}. {remedy}")


def check_id(bridge: str, name: str, known: Iterable[str]) -> None:
    """Check that a library has an environment."""
    if name not in (names := set(known)):
        raise UnknownNameError(
            f"id of {bridge}", name, names, f"See `sparring bridge check {bridge} --list`."
        )


def load_function(slot: str, name: str) -> Callable[..., Any]:
    """Return a user's function by ``module.function``; the module has a line ``SLOT = "slot"``."""
    return find(slot, name, f"function of {slot}")[0]


def as_number(value: Any, where: str) -> float:
    """Return a reward of a library as a finite number; a text may contain one."""
    try:
        number = float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise GameError(
            f"{where} is {quoted(value)}, not a finite number, so the episode is dropped; mend the "
            "environment, or choose another one."
        )
    return number


def library_seed(stream: Stream) -> int:
    """Return a seed for a library, drawn from a play's stream."""
    return stream.integer(0, SEEDS)


class BridgeEnvironment(Environment):
    """Base of environments over a library; a subclass is a dataclass with the plug-in's options."""

    game_id: str
    call_seconds: float

    def start_of(self, play: BridgePlay) -> str:
        """Return the identity of an initial state: what the seats see before the first reply."""
        return play.first_texts

    def starts(self) -> None:
        """Return None: initial states are drawn by seed."""

    def set_payoffs(self, bounds: tuple[float, float] | None) -> None:
        """Set the least and the greatest return; None: they are unknown, so nobody can forfeit."""
        if bounds is None:
            self.illegal: Any = {"rule": "retry"}
        elif bounds[0] >= bounds[1]:
            raise ConfigError(
                f"environments {self.name!r}: payoffs={quoted(list(bounds))} must rise; write such "
                "as payoffs=[-1, 1]."
            )
        else:
            self.min_utility, self.max_utility = bounds

    def call_without_play(self, verb: str) -> library_call:
        """Return the context of a call into the library outside of an episode."""
        return library_call(LibraryCaller(self, 0), verb)

    @contextmanager
    def probe(self) -> Iterator[None]:
        """Call the library while the environment is made; its exceptions are a ``ConfigError``."""
        try:
            with self.call_without_play("start"):
                yield
        except LibraryError as error:
            raise ConfigError(f"{error} Choose another id, or mend the library.") from error


class LibraryCaller:
    """The owner of a state of the process-wide random streams, for calls into a library."""

    def __init__(self, rules: Any, seed: int) -> None:
        self.rules = rules
        self.seed_streams(seed)

    def seed_streams(self, seed: int) -> None:
        """Set the state of the random streams."""
        self.python_state: Any = random.Random(seed).getstate()
        self.numpy_bits = np.random.PCG64(seed)


class BridgePlay(LibraryCaller, ABC):
    """Base of plays over a library.

    A subclass defines ``begin``, which makes the library's object, and ``advance``, which applies
    replies. Both run in a ``library_call``, and read everything that ``due``, ``observe`` and
    ``legal`` return later. A subclass may copy its library's object in ``copy_library``.

    Attributes:
        rules: the environment.
        library: the library's object.
        seed: seed of the library's object.
        done: whether the episode is over.
        returns: payoffs so far, [num_seats].
        first_texts: what the seats saw before the first reply.
        steps: the replies of every step so far.
    """

    rules: Any
    library: Any
    first_texts: str

    def __init__(self, rules: Any, seed: int) -> None:
        super().__init__(rules, seed)
        self.seed = seed
        self._start()

    def _start(self) -> None:
        seats = self.rules.num_seats
        self.done, self.returns = False, (0.0,) * seats
        self.steps: list[Mapping[int, str]] = []
        self.knowledge = [b""] * seats  # digest of everything that each seat has seen
        with library_call(self, "reset"):
            self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Make and reset the library's object."""

    @abstractmethod
    def advance(self, replies: Mapping[int, str]) -> None:
        """Apply the replies of the seats that are due, and read the new state."""

    def step(self, replies: Mapping[int, str]) -> None:
        """Apply the replies of all seats that are due."""
        try:
            with library_call(self, "step"):
                self.advance(replies)
        except LibraryError:
            if not self.recover(replies):
                raise
        self.steps.append(dict(replies))

    def recover(self, replies: Mapping[int, str]) -> bool:
        """Restore the play after its library raised; False: the episode fails."""
        return False

    def replay(self) -> None:
        """Restore the state before an incomplete step: the same replies from the same seed."""
        steps = self.steps
        self.seed_streams(self.seed)
        self._start()
        for replies in steps:
            self.step(replies)

    def clone(self) -> Self:
        """Return an independent copy: by ``copy_library``, or by a replay."""
        twin = copy.copy(self)
        twin.steps, twin.knowledge = list(self.steps), list(self.knowledge)
        twin.numpy_bits = copy.deepcopy(self.numpy_bits)
        if not twin.copy_library():
            twin.replay()
        return twin

    def copy_library(self) -> bool:
        """Replace the library's object of a new copy by a copy; False: a replay is needed."""
        return False

    def add_to_knowledge(self, seat: int, text: str) -> None:
        """Add a text to what a seat has seen."""
        digest = hashlib.blake2b(self.knowledge[seat], digest_size=12)
        digest.update(text.encode(errors="replace"))
        self.knowledge[seat] = digest.digest()

    def key(self, seat: int) -> str:
        """Return the identity of a seat's information state."""
        return f"{seat}|{self.knowledge[seat].hex()}"


_NO_OUTPUT = Path(os.devnull).open("w")  # noqa: SIM115


class library_call:
    """A context for calls into a library.

    Raises:
        LibraryError: on exit, in place of any exception of the library.
        HungError: the call does not return in time.
    """

    __slots__ = ("_call", "_caller", "_numpy_bits", "_python_state", "_stdout", "_verb", "_watch")

    _stdout: TextIO

    def __init__(self, caller: LibraryCaller, verb: str) -> None:
        self._caller, self._verb = caller, verb
        rules = caller.rules
        self._watch = CallWatch(rules.call_seconds or call_limit_seconds())
        self._call = PluginCall(f"{named('environments', rules.name)}, {verb} of {rules.game_id},")

    def __enter__(self) -> None:
        caller = self._caller
        self._python_state, self._numpy_bits = random.getstate(), mtrand.get_bit_generator()
        self._stdout, sys.stdout = sys.stdout, _NO_OUTPUT
        random.setstate(caller.python_state)
        mtrand.set_bit_generator(caller.numpy_bits)
        self._call.__enter__()
        self._watch.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        caller = self._caller
        self._watch.__exit__()
        self._call.__exit__(None, None, None)
        caller.python_state = random.getstate()
        random.setstate(self._python_state)
        mtrand.set_bit_generator(self._numpy_bits)
        sys.stdout = self._stdout
        if self._watch.has_raised and not isinstance(error, HungError):
            raise HungError(
                f"{self._call} caught the end of its time; it needs a longer call_seconds."
            )
        if isinstance(error, PASSED_ON):
            return
        if error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}"
            raise LibraryError(
                f"{caller.rules.name}: {self._verb} of {caller.rules.game_id!r} failed{place}: "
                f"{type(error).__name__}: {_one_line(error)}."
            ) from error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()).replace(sys.prefix, "...")
    return text[:MAX_MESSAGE].rstrip(".")
