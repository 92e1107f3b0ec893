"""Who is measured by a suite: a run's policy, or any agent.

What it is known by, and which words it knows.

What a suite has measured so far.

The file is whole at any moment, so that no game is played twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.api.load import published
from sparring.config import EnvironmentConfig, RunConfig, resolve
from sparring.config.checks import PLAIN, POLICY, check_answer, measured_weights
from sparring.core import version
from sparring.core.errors import ConfigError, RunError
from sparring.core.files import disk_errors, parse_json, sha256_hex, write_json_atomic
from sparring.engine.plan import TINY
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.environments.foreign import words_of
from sparring.league.meta_game import APART, apart_by
from sparring.measure.agent_spec import AgentSpec
from sparring.measure.initial_states import SeenInitialStates, rules_of
from sparring.measure.suite import PIECE, Suite, SuiteRow
from sparring.models.render.plain import vocabulary
from sparring.run import checkpoint
from sparring.run.config_checks import FREE
from sparring.run.folder import RunFolder

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
            [FORMAT, version(), PIECE, settings, player, seed], sort_keys=True, default=str
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
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomic(
            self.path, {"format": FORMAT, "measured": self._measured, "report": self._report}
        )


REMOTE = "endpoint"


@dataclass(frozen=True, kw_only=True, slots=True)
class Player:
    """Who is measured.

    ``data`` makes it anywhere, ``identity`` is all that its play depends on, ``about`` is for
    people.
    """

    data: dict[str, Any]
    identity: Any
    about: dict[str, Any]
    config: RunConfig | None  # of a run
    remote: bool  # whether it is asked over a network, from one process alone
    wording: str = "full"  # that an agent is used to
    words: frozenset[str] | None = None  # that an agent knows; None: any

    def style(self, row: SuiteRow) -> str:
        """Return the wording that the player is used to.

        Its own for a game it trained on, else its first game's; full for most agents.
        """
        if self.config is None:
            return self.wording
        trained = [
            game for game in self.config.environments if _same_game(row.game, row.options, game)
        ]
        return str((trained or self.config.environments)[0].options.get("style", "brief"))

    def trained_on(self, row: SuiteRow) -> bool | None:
        """Return whether the run trained on the row's game; None for an agent."""
        return (
            None
            if self.config is None
            else any(
                _same_game(row.game, row.options, game)
                for game in self.config.environments
                if game.weight
            )
        )

    def unknown_words(self, game: Environment) -> list[str]:
        """Return the words of a game that the player's vocabulary lacks.

        Only a tiny model has a closed one.
        """
        if self.config is None:
            return unknown_to(self.words, game)
        if not game.brief:
            return []
        if all(own.model.name != TINY for own in self.config.by_policy.values()):
            return []
        return unknown_to(frozenset(vocabulary(self.config)), game)


def run_player(
    path: Path,
    step: int | None,
    temperature: float | None,
    policy: str | None = None,
    answer: str | None = None,
) -> Player:
    """Return the answer of a run's checkpoint; of several policies each in the seats of its roles.

    Args:
        path: the run folder.
        step: of the checkpoint; None takes the newest good one.
        temperature: of sampling; None takes that of training.
        policy: the one of several that sits in every seat; None: all of them.
        answer: such as "nash"; None: the one that the configuration names.

    Raises:
        RunError: no such run, or it has no checkpoint yet.
        CheckpointError: the checkpoint is damaged or does not exist.
        ConfigError: a temperature that is not above 0.
        UnknownNameError: no such policy or answer.
    """
    if temperature is not None and not 0 < temperature < float("inf"):
        raise ConfigError(
            f"--temperature {temperature:g} must be above 0; write 1 for the model's own "
            "distribution."
        )
    run = RunFolder.open(path)
    config, found = resolve(run.config()), run.checkpoint(step)
    published(config, path, policy)  # refuses what is none of its policies
    named = {"policy": policy} if policy is not None else {}
    asked = config.league.answer if answer is None else check_answer(answer, config)
    if policy is None and asked != POLICY:
        named = {"answer": asked}
        if asked not in PLAIN and apart_by(config):
            named["sides"] = APART  # its results are not those of one mixture for both sides
    settings = {
        key: value for key, value in config.model_dump(mode="json").items() if key not in FREE
    }
    weights = sha256_hex((found.path / checkpoint.MANIFEST).read_bytes())
    return Player(
        data={"run": str(path.absolute()), "step": found.step, "temperature": temperature} | named,
        identity=[
            weights,
            sha256_hex(json.dumps(settings, sort_keys=True).encode()),
            temperature,
            *named.values(),
        ],
        about={
            "run": str(path),
            "step": found.step,
            "temperature": temperature or config.rollout.temperature,
            "weights": measured_weights(config, asked, policy),
        }
        | named,
        config=config,
        remote=False,
    )


def met_by(player: Mapping[str, Any]) -> SeenInitialStates:
    """Return the starts that a player's training met, from its plain ``data``.

    None of an agent's that is no run's.
    """
    if "run" not in player:
        return SeenInitialStates(None)
    config = resolve(RunFolder.open(Path(player["run"])).config())
    return SeenInitialStates(config, [configured_game(section) for section in config.environments])


def agent_player(spec: AgentSpec) -> Player:
    """Return an agent that is no run's policy, such as an endpoint.

    Games are told to it in full style, unless it is used to another.
    """
    options = without_traffic(spec.options)
    data = {"agent": spec.name, "options": dict(spec.options)}
    about = {"agent": spec.name, "options": options}
    files = spec.identity
    return Player(
        data=data,
        identity=[spec.name, options, *([] if files is None else [files])],
        about=about,
        config=None,
        remote=spec.name == REMOTE,
        wording=spec.style,
        words=spec.words,
    )


def unknown_to(words: frozenset[str] | None, game: Environment) -> list[str]:
    """Return the words of a game in brief wording that are not among some; None: all are."""
    if words is None or not game.brief:
        return []
    return [word for word in words_of(game) if word not in words]


def styles(suite: Suite, player: Player) -> dict[str, str]:
    """Return the wording style of every row."""
    return {row.name: player.style(row) for row in suite.rows}


def _same_game(name: str, options: Mapping[str, Any], trained: EnvironmentConfig) -> bool:
    """The wording of the game that was trained on, the way it pays and its bank may differ."""
    return rules_of(name, options) == rules_of(trained.name, trained.options)
