"""Adapters at a server: written to a folder, and loaded by a new name per version.

A name that was used before keeps its old weights in a server's caches.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterator
from pathlib import Path

from sparring.core.endpoint_connection import Connection, StatusError
from sparring.core.errors import RolloutError, RunError
from sparring.core.files import disk_errors
from sparring.models.language_model import LanguageModel

SHARED = "SPARRING_ADAPTERS"  # environment variable: a folder that the server sees too
ALREADY, UNKNOWN = "already been loaded", 404  # what a server says of a name
PARTING = 10.0  # seconds that a server has to unload adapters

Key = tuple[int, int]  # updates, and changes from outside


@contextlib.contextmanager
def ends_the_run() -> Iterator[None]:
    """Let what a server does not do end the run, as a context: a play that fails would be repeated.

    Raises:
        RunError: in place of a RolloutError.
    """
    try:
        yield
    except RolloutError as error:
        raise RunError(str(error)) from None


class Shelf:
    """The folder of adapters, and which of them a server has loaded.

    Args:
        connection: to the server.

    Raises:
        RunError: the folder that the user named is none.
    """

    def __init__(self, connection: Connection) -> None:
        named = os.environ.get(SHARED)
        if named and not Path(named).is_dir():
            raise RunError(f"{SHARED} names {named}, which is no folder; make it, or unset it.")
        self._connection = connection
        self.folder = Path(tempfile.mkdtemp(prefix="sparring-adapters-", dir=named or None))
        self.folder.chmod(0o755)  # the server may run as another user
        self._count, self._lock = itertools.count(1), threading.RLock()
        self._loaded: set[str] = set()
        self._gone: set[str] = set()  # of these: what nobody needs any more
        weakref.finalize(self, _left, connection, self._loaded, self.folder)

    def add(self, model: LanguageModel) -> str:
        """Let the server load the adapters of now; return the name it has for them.

        Raises:
            RunError: it does not, or the folder cannot be written.
        """
        name = f"{self.folder.name}-{next(self._count)}"
        with disk_errors(self.folder):
            # embeddings are not trained, and peft would ask a hub whether there are more of them
            model.network.save_pretrained(self.folder / name, save_embedding_layers=False)
        self.load(name)
        return name

    def load(self, name: str) -> None:
        """Let the server load adapters that are in the folder; again, where it knows them no more.

        Raises:
            RunError: it does not.
        """
        request = {"lora_name": name, "lora_path": str(self.folder / name)}
        with self._lock, ends_the_run():
            try:
                self._connection.send("/load_lora_adapter", request, str, "a word")
            except StatusError as error:
                if ALREADY not in str(error):  # by a try whose answer was lost
                    raise
            self._loaded.add(name)

    def has(self, name: str) -> bool:
        """Return whether adapters of this name are to be loaded."""
        return name in self._loaded - self._gone

    def drop(self, names: Collection[str]) -> None:
        """Note that nobody needs adapters any more."""
        self._gone.update(names)

    def unload(self, needed: Collection[str]) -> None:
        """Let the server unload what was dropped, but for what is needed for a while."""
        with self._lock:
            for name in [one for one in self._gone if one not in needed]:
                _unload(self._connection, name)
                shutil.rmtree(self.folder / name, ignore_errors=True)
                self._gone.discard(name)
                self._loaded.discard(name)


def _unload(connection: Connection, name: str) -> None:
    """Let the server unload adapters; one that is gone has none."""
    # RuntimeError: at the end of the process a host's address cannot be looked up any more
    with contextlib.suppress(RolloutError, RuntimeError):
        connection.send(
            "/unload_lora_adapter",
            {"lora_name": name},
            str,
            "a word",
            once=min(PARTING, connection.timeout),
        )


def _left(connection: Connection, loaded: set[str], folder: Path) -> None:
    """Unload all that is loaded, and remove the folder."""
    for name in sorted(loaded):
        _unload(connection, name)
    shutil.rmtree(folder, ignore_errors=True)


class Adapters:
    """The adapters of one model at a server.

    Args:
        shelf: where they are.

    Attributes:
        changes: of the weights from outside, so far.
        tried: temperatures at which the server was tried on the weights of now.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf, self.changes = shelf, 0
        self.tried: set[float] = set()
        self._held: list[str] = []  # the name of those that are loaded
        self._key: Key | None = None
        weakref.finalize(self, shelf.drop, self._held)

    def name(self, model: LanguageModel) -> str:
        """Return the server's name for the weights of now, which it is given if it has others.

        Raises:
            RunError: as for ``Shelf.add``.
        """
        key = model.version, self.changes
        if key != self._key:
            new = self._shelf.add(model)
            self._shelf.drop(self._held)
            self._held[:], self._key = [new], key
            self.tried.clear()
        return self._held[0]
