"""The player that a suite measures, and the file of results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.api.load import published_policy
from sparring.config import EnvironmentConfig, RunConfig, resolve
from sparring.config.checks import NON_MIXTURE_ANSWERS, POLICY, check_answer, measured_weights
from sparring.core import version
from sparring.core.errors import ConfigError, RunError
from sparring.core.files import disk_errors, parse_json, sha256_hex, write_json_atomic
from sparring.engine.plan import TINY
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.environments.foreign import words_of
from sparring.league.meta_game import APART, apart_keys
from sparring.measure.agent_spec import AgentSpec
from sparring.measure.initial_states import SeenInitialStates, rules_of
from sparring.measure.suite import GAMES_PER_PIECE, Suite, SuiteRow
from sparring.models.render.plain import vocabulary
from sparring.run import checkpoint
from sparring.run.config_checks import FREE_KEYS
from sparring.run.folder import RunFolder

FORMAT = 1  # version of the file of results
TRAFFIC_OPTIONS = (
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
"""Options of the agent endpoint that affect its traffic but not its replies.

After a change of these options, such as a larger budget, games are not played again.
"""


def row_key(row: SuiteRow, player: Any, seed: int, starts: str = "all") -> str:
    """Return a digest of everything that determines the games of a row.

    The number of games and the rules of their scores are left out.

    Args:
        row: the row as it is played, with its style.
        player: plain data that identify the player, weights included.
        seed: seed of the games.
        starts: label of the row's initial states for the player.
    """
    excluded_fields = {"starts", "role", "games_per_seat", "normalise", "in_totals"}
    if row.oracle is None:  # so that files from before oracles keep their keys
        excluded_fields.add("oracle")
    settings = row.model_dump(mode="json", exclude=excluded_fields)
    if starts != "all":
        settings["starts"] = starts
    if row.opponent is not None:
        settings["opponent"]["options"] = without_traffic(row.opponent.options)
    return sha256_hex(
        json.dumps(
            [FORMAT, version(), GAMES_PER_PIECE, settings, player, seed],
            sort_keys=True,
            default=str,
        ).encode()
    )


def without_traffic(options: Any) -> dict[str, Any]:
    """Return an agent's options without the options in ``TRAFFIC_OPTIONS``."""
    return {key: value for key, value in dict(options).items() if key not in TRAFFIC_OPTIONS}


class SuiteResults:
    """The file ``evaluation-SUITE.json``.

    The key "measured" holds the results of each row's pieces, and "report" the last report.

    Raises:
        RunError: the file is damaged or of another kind.
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
        """Return the results of a row's pieces, by key of the piece."""
        return dict(self._measured.get(key, {}).get("pieces", {}))

    def add(self, key: str, about: dict[str, Any], piece: str, result: dict[str, Any]) -> None:
        """Add the result of a piece and write the file; ``about`` describes the row.

        Raises:
            RunError: the file cannot be written.
        """
        self._measured.setdefault(key, {**about, "pieces": {}})["pieces"][piece] = result
        self._write()

    def finish(self, report: dict[str, Any]) -> None:
        """Add the report and write the file.

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
    """The measured player."""

    data: dict[str, Any]  # data from which another process can make the player
    identity: Any  # everything that determines its replies
    about: dict[str, Any]  # description for people
    config: RunConfig | None  # None for an agent without a run
    remote: bool  # whether it is an endpoint, which only one process calls
    wording: str = "full"  # the option style for an agent without a run
    words: frozenset[str] | None = None  # vocabulary of an agent; None: any word

    def style(self, row: SuiteRow) -> str:
        """Return the option style of a row's prompts for the player.

        A run reads a game of its training in the style of training, and other games in the style of
        its first game.
        """
        if self.config is None:
            return self.wording
        trained_games = [
            game for game in self.config.environments if _same_game(row.game, row.options, game)
        ]
        return str((trained_games or self.config.environments)[0].options.get("style", "brief"))

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
        """Return the words of a game that the player's vocabulary lacks, if it has one."""
        if self.config is None:
            return unknown_to(self.words, game)
        if not game.brief:
            return []
        if all(policy.model.name != TINY for policy in self.config.by_policy.values()):
            return []
        return unknown_to(frozenset(vocabulary(self.config)), game)


def run_player(
    path: Path,
    step: int | None,
    temperature: float | None,
    policy: str | None = None,
    answer: str | None = None,
) -> Player:
    """Return the player of a run's checkpoint; each policy plays the seats of its role.

    Args:
        path: the run folder.
        step: step of the checkpoint; None: the newest good one.
        temperature: sampling temperature; None: the temperature of training.
        policy: the policy for every seat; None: all policies, each in its role.
        answer: name of the answer, such as "nash"; None: the configuration's.

    Raises:
        RunError: there is no such run, or it has no checkpoint yet.
        CheckpointError: the checkpoint is damaged or does not exist.
        ConfigError: the temperature is not above 0.
        UnknownNameError: there is no such policy or answer.
    """
    if temperature is not None and not 0 < temperature < float("inf"):
        raise ConfigError(
            f"--temperature {temperature:g} must be above 0; write 1 for the model's own "
            "distribution."
        )
    run = RunFolder.open(path)
    config, source = resolve(run.config()), run.checkpoint(step)
    published_policy(config, path, policy)  # raises for an unknown policy
    choice = {"policy": policy} if policy is not None else {}
    answer_name = config.league.answer if answer is None else check_answer(answer, config)
    if policy is None and answer_name != POLICY:
        choice = {"answer": answer_name}
        if answer_name not in NON_MIXTURE_ANSWERS and apart_keys(config):
            choice["sides"] = APART  # one mixture per side; other results than with a common one
    settings = {
        key: value for key, value in config.model_dump(mode="json").items() if key not in FREE_KEYS
    }
    weights = sha256_hex((source.path / checkpoint.MANIFEST).read_bytes())
    return Player(
        data={"run": str(path.absolute()), "step": source.step, "temperature": temperature}
        | choice,
        identity=[
            weights,
            sha256_hex(json.dumps(settings, sort_keys=True).encode()),
            temperature,
            *choice.values(),
        ],
        about={
            "run": str(path),
            "step": source.step,
            "temperature": temperature or config.rollout.temperature,
            "weights": measured_weights(config, answer_name, policy),
        }
        | choice,
        config=config,
        remote=False,
    )


def states_seen_by(player: Mapping[str, Any]) -> SeenInitialStates:
    """Return the initial states that a player's training saw, from its plain ``data``."""
    if "run" not in player:
        return SeenInitialStates(None)
    config = resolve(RunFolder.open(Path(player["run"])).config())
    return SeenInitialStates(config, [configured_game(section) for section in config.environments])


def agent_player(spec: AgentSpec) -> Player:
    """Return the player of an agent without a run, such as an endpoint."""
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
    """Return the words of a brief game that are not among ``words``; if None, all are known."""
    if words is None or not game.brief:
        return []
    return [word for word in words_of(game) if word not in words]


def styles(suite: Suite, player: Player) -> dict[str, str]:
    """Return the wording style of every row by its name."""
    return {row.name: player.style(row) for row in suite.rows}


def _same_game(name: str, options: Mapping[str, Any], training_game: EnvironmentConfig) -> bool:
    return rules_of(name, options) == rules_of(training_game.name, training_game.options)
