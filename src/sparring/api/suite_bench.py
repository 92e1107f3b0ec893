"""Where the pieces of a suite are played.

One process with the player, the games and the opponents, each made once.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sparring.api.load import load_answer, load_run
from sparring.api.measuring import exact_figures
from sparring.api.suite_player import REMOTE, met_by
from sparring.config.checks import AVERAGE, LAST, POLICY
from sparring.engine.local import LocalEngine
from sparring.environments.openspiel.base import Game
from sparring.errors import ConfigError, GameError, ModelError, OracleError
from sparring.measure.opponents import AgentSpec
from sparring.measure.starts import Met, Starts
from sparring.measure.suite import MAX_STATES, OpponentEntry, OracleEntry, SuiteRow
from sparring.measure.suite_figures import Piece, play_piece, starts_of
from sparring.oracles.base import Oracle
from sparring.players.base import Agent
from sparring.players.members import MemberMixture
from sparring.players.policy import PolicyAgent
from sparring.refs import LEARNER, PUBLISHED, PlayerRef
from sparring.rollout.team import Team
from sparring.system.trust import trust_file

log = logging.getLogger(__name__)


class Bench:
    """Plays pieces of a suite.

    Args:
        settings: plain data: "rows" (as dumped), "seed", "player": {"run", "step", "temperature"},
            beside which "policy" or "answer" may stand, or {"agent", "options"}, and "answers",
            the file in which endpoints' answers are kept where their options name none.
        met: what ``met_by`` says of the player, where that is known already.
    """

    def __init__(self, settings: dict[str, Any], met: Met | None = None) -> None:
        self.rows = [SuiteRow.model_validate(row) for row in settings["rows"]]
        self.seed: int = settings["seed"]
        self._player: dict[str, Any] = settings["player"]
        self._answers: str = settings["answers"]
        trust_file(Path(self._answers))  # beside the results, in a folder that the user chose
        self._agent: Agent | None = None
        self._models: list[PolicyAgent] = []  # whose samplers keep what they have computed
        self._games: dict[int, Game] = {}
        self._starts: dict[int, Starts | None] = {}
        self._met = met
        self._opponents: dict[str, Agent] = {}
        self._oracles: dict[str, Oracle] = {}

    def answer(self, job: list[Any]) -> dict[str, Any]:
        """Return {"tally": ...}, {"figures": ...} of an exact row, or {"unmeasured".

        why} of one that this player cannot do.

        Raises:
            RolloutError: an endpoint failed or its budget is spent.
        """
        piece = Piece(*job)
        row, game, agent = self.rows[piece.row], self._game(piece.row), self.agent()
        for one in self._models:
            # so that a piece does not depend, not even in the last bit, on what was played before
            # it
            one.sampler.refresh()
        try:
            if row.kind == "exact":
                return {"figures": _exact(game, agent)}
            opponent = self._opponent(row.opponent) if row.opponent is not None else None
            oracle = self._oracle(row.oracle) if row.oracle is not None else None
            starts = self._starts_of(piece.row)
            return {
                "tally": play_piece(piece, row, game, agent, opponent, self.seed, oracle, starts)
            }
        except (GameError, ModelError, OracleError) as error:
            return {"unmeasured": str(error)}

    def agent(self) -> Agent:
        """Return the player that is measured; a run's is loaded here, with one thread."""
        if self._agent is None:
            own = self._player
            self._agent = (
                self._given(AgentSpec(own["agent"], own["options"]))
                if "agent" in own
                else self._load(own)
            )
        return self._agent

    def _load(self, player: dict[str, Any]) -> Agent:
        """Return the answer of a run, or one of its policies."""
        path, temperature = Path(player["run"]), player["temperature"]
        config, engine, step = load_run(path, player["step"], threads=1)
        wanted, asked = player.get("policy"), player.get("answer", POLICY)
        if asked in (POLICY, AVERAGE) or wanted:
            return self._sat(engine, PUBLISHED, temperature, [wanted] if wanted else None)
        if asked == LAST:
            return self._sat(engine, LEARNER, temperature)
        found = load_answer(path, config, engine, step, asked)
        if not isinstance(found, MemberMixture):
            return self._sat(engine, PUBLISHED, temperature)  # as long as there are no members
        for note in found.notes:
            log.warning("%s", note)
        agents = {who: self._sat(engine, who, temperature) for who in found.members}
        return found.played_by(agents.__getitem__)

    def _sat(
        self,
        engine: LocalEngine,
        who: PlayerRef,
        temperature: float | None,
        names: Sequence[str] | None = None,
    ) -> Agent:
        """Return a player of a run; of several policies, each in the seats of its roles."""
        names = list(engine.config.by_policy) if names is None else names
        own = {name: _strict(engine.agent(who.of(name)), temperature) for name in names}
        self._models += own.values()
        if len(own) == 1:
            return next(iter(own.values()))

        def at(game: Game, seat: int) -> Agent:
            try:
                return own[engine.roles.of(game)[seat]]
            except ConfigError as error:
                raise GameError(
                    f"{error} Or measure one of them in every seat: --policy {names[0]}."
                ) from None

        games = [self._game(place) for place in range(len(self.rows))]
        return Team(str(who), at, games, engine.config.rollout.in_flight)

    def _given(self, spec: AgentSpec) -> Agent:
        """Return an agent that is no run's; one that speaks with a model speaks as a run's does."""
        made = _kept(spec, self._answers).make()
        if isinstance(made, MemberMixture):
            agents = {who: self._model_of(made.agent(who)) for who in made.members}
            return made.played_by(agents.__getitem__)
        return self._model_of(made)

    def _model_of(self, agent: Agent) -> Agent:
        """Return an agent; a model never passes over a conversation that is too long for it."""
        if not isinstance(agent, PolicyAgent):
            return agent
        self._models.append(_strict(agent, None))
        return self._models[-1]

    def _game(self, place: int) -> Game:
        """Return the game of row number ``place``."""
        if place not in self._games:
            self._games[place] = self.rows[place].make_game()
        return self._games[place]

    def _starts_of(self, place: int) -> Starts | None:
        """Return the starts that row number ``place`` is played from.

        All banks that training met are made for it once.
        """
        if place not in self._starts:
            self._met = self._met or met_by(self._player)
            self._starts[place] = starts_of(self.rows[place], self._game(place), self._met)
        return self._starts[place]

    def _opponent(self, entry: OpponentEntry) -> Agent:
        """Return an opponent.

        One with the same options is one agent, with one budget, in all rows.
        """
        key = entry.model_dump_json()
        if key not in self._opponents:
            self._opponents[key] = self._given(entry.spec)
        return self._opponents[key]

    def _oracle(self, entry: OracleEntry) -> Oracle:
        """Return an oracle.

        One with the same options is one oracle in all rows, which solves a game once.
        """
        key = entry.model_dump_json()
        if key not in self._oracles:
            self._oracles[key] = entry.spec.make()
        return self._oracles[key]


def make_bench(
    settings: dict[str, Any], met: Met | None = None
) -> Callable[[list[Any]], dict[str, Any]]:
    """Return the function that answers the jobs of a suite; see ``Bench``."""
    return Bench(settings, met).answer


def _kept(spec: AgentSpec, answers: str) -> AgentSpec:
    """Return an agent that keeps what it is told over a network.

    A piece that is broken off has been paid for.
    """
    return AgentSpec(spec.name, {"cache": answers, **spec.options}) if spec.name == REMOTE else spec


def _strict(agent: Any, temperature: float | None) -> PolicyAgent:
    """Return a run's policy that samples at this temperature, and is never too long in silence."""
    params = dataclasses.replace(agent.params, temperature=temperature or agent.params.temperature)
    return PolicyAgent(
        agent.name,
        sampler=agent.sampler,
        renderer=agent.renderer,
        params=params,
        refuse_overlong=True,
        context=agent.context,
        in_flight=agent.in_flight,
    )


def _exact(game: Game, agent: Any) -> dict[str, float]:
    """Return the exact figures of an agent.

    Raises:
        GameError: its replies have no known probabilities, or the game is too large.
    """
    if not hasattr(agent, "action_logprobs"):
        raise GameError(
            f"Agent {agent.name!r} gives no probabilities of its actions, so nothing exact can be "
            "said of it."
        )
    return {
        name.replace(f"/{game.name}", "", 1): value
        for name, value in exact_figures(game, agent, max_states=MAX_STATES).items()
    }
