"""Measures a player by a suite, a list of rows: each is a game, an opponent and a number of games.

Worker processes play pieces of the rows, and a report adds up the pieces of each row.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from sparring.api.load import load_answer, load_run
from sparring.api.policy_evaluation import exact_figures
from sparring.api.suite_player import REMOTE, Player, SuiteResults, row_key, states_seen_by, styles
from sparring.config.checks import AVERAGE, LAST, POLICY
from sparring.core.errors import ConfigError, GameError, ModelError, OracleError
from sparring.core.records import LEARNER, PUBLISHED, PlayerRef
from sparring.core.trust import trust_file
from sparring.core.worker_pool import WorkerPool
from sparring.engine.local import LocalEngine
from sparring.environments.base import Environment, Searchable
from sparring.environments.foreign import words_of
from sparring.measure.agent_spec import AgentSpec, labels
from sparring.measure.info_states import ActionScorer
from sparring.measure.initial_states import SeenInitialStates, Starts
from sparring.measure.oracle_choice import OracleSpec
from sparring.measure.suite import (
    MAX_STATES,
    OpponentEntry,
    OracleEntry,
    Suite,
    SuitePiece,
    SuiteRow,
    add_tallies,
    figures,
    load_suite,
    pieces_of,
    play_piece,
    starts_of,
    total_score,
    with_opponents,
    with_oracle,
    with_seen_starts,
    without_oracles,
)
from sparring.methods.oracles.base import Oracle
from sparring.play.players.base import Agent
from sparring.play.players.mixture import MemberMixture
from sparring.play.players.policy import PolicyAgent
from sparring.play.team import Team

log = logging.getLogger(__name__)


class PieceRunner:
    """Plays pieces of a suite.

    Args:
        settings: plain data with the keys "rows" (``SuiteRow`` as JSON), "seed", "answers" (the
            default file for replies of endpoints) and "player": {"run", "step", "temperature"} with
            an optional "policy" or "answer", or {"agent", "options"}.
        seen_states: ``states_seen_by`` of the player; None: computed when needed.
    """

    def __init__(
        self, settings: dict[str, Any], seen_states: SeenInitialStates | None = None
    ) -> None:
        self.rows = [SuiteRow.model_validate(row) for row in settings["rows"]]
        self.seed: int = settings["seed"]
        self._player: dict[str, Any] = settings["player"]
        self._answers: str = settings["answers"]
        trust_file(Path(self._answers))  # in a folder that the user chose
        self._agent: Agent | None = None
        self._models: list[PolicyAgent] = []  # agents whose samplers have caches
        self._games: dict[int, Environment] = {}
        self._starts: dict[int, Starts | None] = {}
        self._seen_states = seen_states
        self._opponents: dict[str, Agent] = {}
        self._oracles: dict[str, Oracle] = {}

    def play_job(self, job: list[Any]) -> dict[str, Any]:
        """Play a piece; return {"tally": ...}, {"figures": ...} (exact) or {"unmeasured": reason}.

        Raises:
            RolloutError: an endpoint failed or its budget is exhausted.
        """
        piece = SuitePiece(*job)
        row, game, agent = self.rows[piece.row], self._game(piece.row), self.agent()
        for model in self._models:
            # the result of a piece must not depend on earlier pieces, not even in its last digit
            model.sampler.refresh()
        try:
            if row.kind == "exact":
                return {"figures": _exact_figures(game, agent)}
            opponent = self._opponent(row.opponent) if row.opponent is not None else None
            oracle = self._oracle(row.oracle) if row.oracle is not None else None
            starts = self._starts_of(piece.row)
            return {
                "tally": play_piece(piece, row, game, agent, opponent, self.seed, oracle, starts)
            }
        except (GameError, ModelError, OracleError) as error:
            return {"unmeasured": str(error)}

    def agent(self) -> Agent:
        """Return the measured player; the first call loads it, a run's with one thread."""
        if self._agent is None:
            player = self._player
            self._agent = (
                self._player_of_spec(AgentSpec(player["agent"], player["options"]))
                if "agent" in player
                else self._load(player)
            )
        return self._agent

    def _load(self, player: dict[str, Any]) -> Agent:
        path, temperature = Path(player["run"]), player["temperature"]
        config, engine, step = load_run(path, player["step"], threads=1)
        policy, answer = player.get("policy"), player.get("answer", POLICY)
        if answer in (POLICY, AVERAGE) or policy:
            return self._agent_of(engine, PUBLISHED, temperature, [policy] if policy else None)
        if answer == LAST:
            return self._agent_of(engine, LEARNER, temperature)
        mixture = load_answer(path, config, engine, step, answer)
        if not isinstance(mixture, MemberMixture):
            return self._agent_of(engine, PUBLISHED, temperature)  # the league has no members yet
        for note in mixture.notes:
            log.warning("%s", note)
        agents = {member: self._agent_of(engine, member, temperature) for member in mixture.members}
        return mixture.with_agents(agents.__getitem__)

    def _agent_of(
        self,
        engine: LocalEngine,
        player: PlayerRef,
        temperature: float | None,
        names: Sequence[str] | None = None,
    ) -> Agent:
        names = list(engine.config.by_policy) if names is None else names
        agents = {
            name: _make_strict(engine.agent(player.for_policy(name)), temperature) for name in names
        }
        self._models += agents.values()
        if len(agents) == 1:
            return next(iter(agents.values()))

        def agent_of_seat(game: Environment, seat: int) -> Agent:
            try:
                return agents[engine.roles.of(game)[seat]]
            except ConfigError as error:
                raise GameError(
                    f"{error} Or measure one policy in every seat: --policy {names[0]}."
                ) from None

        games = [self._game(index) for index in range(len(self.rows))]
        return Team(str(player), agent_of_seat, games, engine.config.rollout.in_flight)

    def _player_of_spec(self, spec: AgentSpec) -> Agent:
        if spec.name == REMOTE:  # store replies that were paid for, in case the piece fails
            spec = AgentSpec(spec.name, {"cache": self._answers, **spec.options})
        agent = spec.make()
        if isinstance(agent, MemberMixture):
            agents = {member: self._model_of(agent.agent(member)) for member in agent.members}
            return agent.with_agents(agents.__getitem__)
        return self._model_of(agent)

    def _model_of(self, agent: Agent) -> Agent:
        if not isinstance(agent, PolicyAgent):
            return agent
        self._models.append(_make_strict(agent, None))
        return self._models[-1]

    def _game(self, index: int) -> Environment:
        if index not in self._games:
            self._games[index] = self.rows[index].make_game()
        return self._games[index]

    def _starts_of(self, index: int) -> Starts | None:
        if index not in self._starts:
            self._seen_states = self._seen_states or states_seen_by(self._player)
            self._starts[index] = starts_of(self.rows[index], self._game(index), self._seen_states)
        return self._starts[index]

    def _opponent(self, entry: OpponentEntry) -> Agent:
        key = entry.model_dump_json()
        if key not in self._opponents:
            self._opponents[key] = self._player_of_spec(entry.spec)
        return self._opponents[key]

    def _oracle(self, entry: OracleEntry) -> Oracle:
        key = entry.model_dump_json()
        if key not in self._oracles:
            self._oracles[key] = entry.spec.make()
        return self._oracles[key]


def make_piece_runner(
    settings: dict[str, Any], seen_states: SeenInitialStates | None = None
) -> Callable[[list[Any]], dict[str, Any]]:
    """Return the function that plays the pieces of a suite; see ``PieceRunner``."""
    return PieceRunner(settings, seen_states).play_job


def _make_strict(agent: Any, temperature: float | None) -> PolicyAgent:
    """Return a policy with this temperature that raises an error if a conversation is too long."""
    params = dataclasses.replace(agent.params, temperature=temperature or agent.params.temperature)
    policy = PolicyAgent(
        name=agent.name,
        sampler=agent.sampler,
        renderer=agent.renderer,
        params=params,
        context=agent.context,
        in_flight=agent.in_flight,
    )
    policy.refuse_overlong = True
    return policy


def _exact_figures(game: Environment, agent: Any) -> dict[str, float]:
    if not isinstance(agent, ActionScorer):
        raise GameError(
            f"Agent {agent.name!r} returns no probabilities of its actions, so exact figures "
            "cannot be computed."
        )
    return {
        name.replace(f"/{game.name}", "", 1): value
        for name, value in exact_figures(game, agent, max_states=MAX_STATES).items()
    }


SECONDS_BETWEEN_LINES = 10.0
PieceResult = dict[str, Any]


class SuiteEvaluation:
    """The evaluation of a player by a suite.

    Args:
        name: name of a suite, or the path of a YAML file.
        player: the measured player.
        opponents: further opponents, in every game with matches.
        games: games per seat of every row; None: the number of each row.
        seed: seed of deals and random draws; with equal seeds, all players get equal deals.
        folder: folder of the file ``evaluation-SUITE.json``.
        oracle: judges the rows that name no oracle, where it can.
        use_oracle: whether oracles judge turns; False also leaves out the oracles of rows.

    Raises:
        UnknownNameError: there is no such suite, or a name in it is unknown.
        ConfigError: the suite or an opponent is wrong, or the oracle can judge no row.
        RunError: the file of results cannot be read.
    """

    def __init__(
        self,
        name: str,
        player: Player,
        *,
        opponents: Sequence[AgentSpec] = (),
        games: int | None = None,
        seed: int = 0,
        folder: Path,
        oracle: OracleSpec | None = None,
        use_oracle: bool = True,
    ) -> None:
        self.name, suite = load_suite(name)
        specs_by_label = dict(zip(labels(opponents), opponents, strict=True))
        self.suite: Suite = with_opponents(suite, specs_by_label, games, styles(suite, player))
        # reason why the oracle cannot judge a row, by name of the row
        self.reasons_unjudged: dict[str, str] = {}
        if not use_oracle:
            self.suite = without_oracles(self.suite)
        elif oracle is not None:
            self.suite, self.reasons_unjudged = with_oracle(self.suite, oracle)
        self.player, self.seed = player, seed
        self._seen_states = states_seen_by(player.data)
        self.suite, self.starts = with_seen_starts(self.suite, self._seen_states)
        self.games: list[Environment] = [row.make_game() for row in self.suite.rows]
        self.unknown_words: list[list[str]] = [player.unknown_words(game) for game in self.games]
        self.results = SuiteResults(folder / f"evaluation-{self.name}.json")
        rows_with_starts = zip(self.suite.rows, self.starts, strict=True)
        self.keys = [row_key(row, player.identity, seed, label) for row, label in rows_with_starts]
        self.pieces = [
            pieces_of(index, row, game)
            for index, (row, game) in enumerate(zip(self.suite.rows, self.games, strict=True))
        ]
        self.num_played = 0  # games played by this object

    @property
    def path(self) -> Path:
        """The file of results."""
        return self.results.path

    def run(
        self, *, workers: int | None = None, watch: Callable[[str], None] | None = None
    ) -> dict[str, Any]:
        """Play the missing pieces, write the report to the file and return it.

        Args:
            workers: number of processes, which does not change results; None: one per core.
            watch: called with lines of progress.

        Raises:
            ConfigError: ``workers`` is below 1.
            RolloutError: an endpoint or a worker failed; earlier results stay in the file.
            RunError: the file of results cannot be written.
        """
        if workers is not None and workers < 1:
            raise ConfigError(f"--workers {workers} must be at least 1.")
        pieces = list[SuitePiece]()
        for index, key in enumerate(self.keys):
            results = self.results.pieces(key)
            if not self._find_obstacle(index) and not any(
                "unmeasured" in result for result in results.values()
            ):
                pieces += [piece for piece in self.pieces[index] if piece.key not in results]
        last_line, num_done, games = (time.monotonic(), 0, sum(piece.games for piece in pieces))
        if watch and not pieces:
            watch("all pieces have been measured before; nothing is played")
        for piece, result in self._play_pieces(pieces, workers or os.cpu_count() or 1):
            row = self.suite.rows[piece.row]
            self.results.add(
                self.keys[piece.row],
                {"row": row.name, "player": self.player.about},
                piece.key,
                result,
            )
            num_done += piece.games
            self.num_played += piece.games if "tally" in result else 0
            if watch and (
                time.monotonic() - last_line > SECONDS_BETWEEN_LINES or self._is_complete(piece.row)
            ):
                last_line = time.monotonic()
                state = "done" if self._is_complete(piece.row) else "in progress"
                watch(f"{row.name} {state}; {num_done} of {games} games")
        report = self.report()
        self.results.finish(report)
        return report

    def report(self) -> dict[str, Any]:
        """Return the results so far as plain data: rows, totals and rows not in the totals."""
        rows = [self._row(index) for index in range(len(self.suite.rows))]
        complete_rows = [
            (row, self._add_tallies(index))
            for index, row in enumerate(self.suite.rows)
            if rows[index]["measured"] and row.kind != "exact"
        ]
        groups: dict[str, Callable[[SuiteRow], bool]] = {
            "trained": lambda row: row.role == "trained",
            "held_out": lambda row: row.role == "held_out",
            "all": lambda row: True,
        }
        if self.player.config is not None:
            groups["trained_by_this_run"] = lambda row: bool(self.player.trained_on(row))
            groups["new_to_this_run"] = lambda row: not self.player.trained_on(row)
        totals = {
            name: total_score([(row, counts) for row, counts in complete_rows if is_member(row)])
            for name, is_member in groups.items()
        }
        gaps = [row["name"] for row in rows if not row["measured"] and row["kind"] != "exact"]
        about = {"suite": self.name, "player": self.player.about, "seed": self.seed}
        return {**about, "rows": rows, "totals": totals, "not_in_totals": gaps}

    def _find_obstacle(self, index: int) -> str:
        row, game = self.suite.rows[index], self.games[index]
        if row.kind == "exact" and set(self.unknown_words[index]) & set(
            cast(Searchable, game).words or self.unknown_words[index]
        ):
            return (
                "The model's vocabulary lacks actions of this game, so their probabilities cannot "
                "be compared."
            )
        return ""

    def _play_pieces(
        self, missing_pieces: Sequence[SuitePiece], workers: int
    ) -> Iterator[tuple[SuitePiece, PieceResult]]:
        """Yield pieces with their results; only this process calls endpoints, with one budget."""
        unmeasured_rows: set[int] = set()
        rows = [row.model_dump(mode="json") for row in self.suite.rows]
        settings = {
            "rows": rows,
            "seed": self.seed,
            "player": self.player.data,
            "answers": str(self.path.with_suffix(".answers.jsonl")),
        }
        own_pieces = [
            piece for piece in missing_pieces if self.player.remote or self._is_remote(piece.row)
        ]
        shared_pieces = [piece for piece in missing_pieces if piece not in own_pieces]
        workers = min(workers, len(shared_pieces))
        if workers > 1:
            with WorkerPool(make_piece_runner, settings, workers) as pool:
                jobs = (list(piece) for piece in shared_pieces if piece.row not in unmeasured_rows)
                for job, result in pool.results(jobs):
                    yield self._note_unmeasured(SuitePiece(*job), result, unmeasured_rows)
        else:
            own_pieces = shared_pieces + own_pieces
        if own_pieces:
            play = make_piece_runner(settings, self._seen_states)
            for piece in own_pieces:
                if piece.row not in unmeasured_rows:
                    yield self._note_unmeasured(piece, play(list(piece)), unmeasured_rows)

    def _note_unmeasured(
        self, piece: SuitePiece, result: PieceResult, unmeasured_rows: set[int]
    ) -> tuple[SuitePiece, PieceResult]:
        if "unmeasured" in result:
            unmeasured_rows.add(piece.row)
        return piece, result

    def _is_remote(self, index: int) -> bool:
        opponent = self.suite.rows[index].opponent
        return opponent is not None and opponent.name == REMOTE

    def _is_complete(self, index: int) -> bool:
        results = self.results.pieces(self.keys[index])
        return all(
            piece.key in results and "unmeasured" not in results[piece.key]
            for piece in self.pieces[index]
        )

    def _add_tallies(self, index: int, seat: int | None = None) -> PieceResult:
        record = self.results.pieces(self.keys[index])
        return add_tallies(
            record[piece.key]["tally"] for piece in self.pieces[index] if seat in (None, piece.seat)
        )

    def _row(self, index: int) -> dict[str, Any]:
        row, game = self.suite.rows[index], self.games[index]
        opponent = row.opponent.model_dump(mode="json") if row.opponent is not None else None
        about = row.model_dump(
            mode="json",
            include={"name", "game", "options", "role", "kind", "oracle", "normalise", "in_totals"},
        )
        about["starts"] = self.starts[index]
        columns = {
            **about,
            "opponent": opponent,
            "trained_by_this_run": self.player.trained_on(row),
            "notes": self._notes(index),
        }
        if not self._is_complete(index):
            return {**columns, "measured": False}
        if row.kind == "exact":
            (result,) = self.results.pieces(self.keys[index]).values()
            return {**columns, "measured": True, "figures": result["figures"]}
        seats = range(game.num_seats) if row.kind == "match" else ()
        seat_figures = [
            {"role": game.roles[seat], **figures(self._add_tallies(index, seat), row, game)}
            for seat in seats
        ]
        return {
            **columns,
            "measured": True,
            "seats": seat_figures,
            "overall": figures(self._add_tallies(index), row, game),
        }

    def _notes(self, index: int) -> list[str]:
        notes, unknown_words = [], self.unknown_words[index]
        if unknown_words:
            count = len(words_of(self.games[index]))
            notes.append(
                f"{len(unknown_words)} of {count} words of this game are unknown to the model and "
                "read as <unknown>."
            )
        if self._is_remote(index) and self.games[index].brief:
            notes.append(
                "The endpoint reads the prompts of the tiny model, which do not explain the game."
            )
        if self.suite.rows[index].name in self.reasons_unjudged:
            notes.append(f"Moves not judged: {self.reasons_unjudged[self.suite.rows[index].name]}")
        reasons = [
            result["unmeasured"]
            for result in self.results.pieces(self.keys[index]).values()
            if "unmeasured" in result
        ]
        return [
            *notes,
            *(
                f"Not measured: {reason}"
                for reason in [self._find_obstacle(index), *reasons[:1]]
                if reason
            ),
        ]
