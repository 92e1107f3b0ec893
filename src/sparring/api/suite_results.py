"""What a suite has measured so far.

The file is whole at any moment, so that no game is played twice.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparring import __version__
from sparring.errors import RunError
from sparring.measure.suite import SuiteRow
from sparring.measure.suite_figures import PIECE
from sparring.system.files import disk_errors, parse_json, sha256_hex, write_json_atomic

FORMAT = 1
TRAFFIC = (
    "key_variable",
    "concurrency",
    "timeout",
    "retries",
    "budget_tokens",
    "budget_cost",
    "price_in",
    "price_out",
    "cache",
)
"""Options of the agent endpoint that say how it is asked, not what.

A larger budget must not play games again.
"""


def row_key(row: SuiteRow, player: Any, seed: int, starts: str = "all") -> str:
    """Return the digest of everything the games of a row depend on.

    How many there are and how they score is no part of it.

    Args:
        row: as it is played, style included.
        player: plain data that identifies the player, weights included.
        seed: of the games.
        starts: what the row's starts are to the player.
    """
    unread = {"starts", "role", "games_per_seat", "normalise", "in_totals"} | (
        {"oracle"} if row.oracle is None else set()
    )
    # without an oracle as it was before there were any, so that files stay good
    settings = row.model_dump(mode="json", exclude=unread)
    if starts != "all":
        settings["starts"] = starts
    if row.opponent is not None:
        settings["opponent"]["options"] = without_traffic(row.opponent.options)
    return sha256_hex(
        json.dumps(
            [FORMAT, __version__, PIECE, settings, player, seed], sort_keys=True, default=str
        ).encode()
    )


def without_traffic(options: Any) -> dict[str, Any]:
    """Return an agent's options without those that change no answer."""
    return {key: value for key, value in dict(options).items() if key not in TRAFFIC}


class SuiteResults:
    """The file ``evaluation-SUITE.json``.

    "measured", the pieces of every row by the row's key, and "report", the last report.

    Raises:
        RunError: the file is something else, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._measured: dict[str, dict[str, Any]] = {}
        self._report: Any = None
        try:
            data: Any = (
                parse_json(path.read_bytes())
                if path.exists()
                else {"format": FORMAT, "measured": {}, "report": None}
            )
            if data["format"] != FORMAT:
                raise RunError(
                    f"{path} has format {data['format']!r}; this version reads format {FORMAT}. "
                    "Name another folder with --out."
                )
            self._measured, self._report = dict(data["measured"]), data["report"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, RunError):
                raise
            message = (
                f"{path} cannot be read as results of a suite ({error!r}). Remove it or name "
                "another folder with --out."
            )
            raise RunError(message) from None

    def pieces(self, key: str) -> dict[str, dict[str, Any]]:
        """Return the answers known of a row, by the piece's key."""
        return dict(self._measured.get(key, {}).get("pieces", {}))

    def add(self, key: str, about: dict[str, Any], piece: str, answer: dict[str, Any]) -> None:
        """Take in an answer and write the file; ``about`` tells people what the row is.

        Raises:
            RunError: the file cannot be written.
        """
        self._measured.setdefault(key, {**about, "pieces": {}})["pieces"][piece] = answer
        self._write()

    def finish(self, report: dict[str, Any]) -> None:
        """Take in the report and write the file.

        Raises:
            RunError: the file cannot be written.
        """
        self._report = report
        self._write()

    def _write(self) -> None:
        """Write the file."""
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomic(
            self.path, {"format": FORMAT, "measured": self._measured, "report": self._report}
        )
