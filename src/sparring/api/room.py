"""Where a person sits down: environments of a run or of none, and who may sit opposite."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sparring import registry
from sparring.config import RunConfig, resolve
from sparring.config.checks import AVERAGE, LAST, PLAIN, POLICY, check_answer
from sparring.environments.base import temporary_play
from sparring.environments.catalogue import configured_game, game_names, make_game
from sparring.environments.combining import styled
from sparring.environments.openspiel.base import Game
from sparring.environments.openspiel.solve import unfit
from sparring.environments.own import Asking, no_rules
from sparring.errors import ConfigError, UnknownNameError
from sparring.measure.opponents import parse_agent
from sparring.oracles.base import Oracle
from sparring.oracles.judge import configured_oracles
from sparring.players.base import Agent
from sparring.players.cfr import fits
from sparring.players.mixture import Mixture
from sparring.refs import OWN, PUBLISHED, PlayerRef, bot, ref, snapshot
from sparring.rng import Stream
from sparring.run import checkpoint
from sparring.run.folder import RunFolder

if TYPE_CHECKING:
    from sparring.engine.local import LocalEngine

# a reply that is no legal action is asked for again a few times, so that the play goes on
RETRY = {"rule": "retry", "retries": 5}
BOTS = ("minimax", "cfr", "mcts", "house", "random")  # that need nothing from outside
SENTENCES = "full"  # the wording of environments in sentences
ENGINES = 2  # checkpoints held at a time
HISTORIES = 50_000  # of a game tree that cfr solves in seconds


class Opposite(NamedTuple):
    """Who sits in the other seats."""

    name: str  # in records
    said: str  # in words
    agent: Agent


class Room:
    """What a person may play, and against whom.

    Args:
        run: its folder; None: any environment, against bots.
        step: of the checkpoint that is meant where none is named; None: the newest.
        trusted: further players that may be asked for, as they are written.
        answer: who answers for the run; None: whom its configuration names.

    Raises:
        RunError: there is no such run.
        ConfigError: its configuration cannot be read, or it has no such answer.
        UnknownNameError: there is no such answer.
    """

    def __init__(
        self,
        run: Path | None = None,
        step: int | None = None,
        trusted: Collection[str] = (),
        answer: str | None = None,
    ) -> None:
        self.run, self.step, self.trusted = run, step, frozenset(trusted)
        self.config: RunConfig | None = None
        self.answer = POLICY
        if run is not None:
            self.config = resolve(RunFolder.open(run).config())
            self.answer = check_answer(answer or self.config.league.answer, self.config)
        self._asked = answer
        self._engines: dict[tuple[int | None, int | None], tuple[LocalEngine, int]] = {}
        self._games: dict[str, Game] = {}
        self._bots: dict[str, list[str]] = {}

    @property
    def environments(self) -> tuple[str, ...]:
        """Their names: those of the run, or all that are there."""
        if self.config is None:
            return registry.names("environments")
        return tuple(section.known_as for section in self.config.environments)

    def game(self, name: str | None) -> Game:
        """Return an environment, in sentences where no run says otherwise.

        Args:
            name: None takes the run's first.

        Raises:
            UnknownNameError: there is none of this name.
            ConfigError: there is neither a name nor a run.
        """
        if name is None:
            if self.config is None:
                raise ConfigError("Name an environment with --environment, or a run folder.")
            name = self.environments[0]
        if name not in self._games:
            self._games[name] = self._made(name)
        return self._games[name]

    def _made(self, name: str) -> Game:
        """Return an environment that was not made yet."""
        if self.config is not None:
            if name not in self.environments:
                raise UnknownNameError("game of this run", name, self.environments)
            section = self.config.environments[self.environments.index(name)]
            return configured_game(section.model_copy(update={"illegal": RETRY}))
        if name not in game_names():
            raise UnknownNameError("game", name, game_names(), "See `sparring list environments`.")
        return make_game(name, options=_worded(name, self._style()), illegal=RETRY)

    def _style(self) -> str:
        """Return the wording that who is named to sit opposite is used to: mostly sentences."""
        named = (parse_agent(one) for one in self.trusted if registry.known("players", _first(one)))
        return next((one.style for one in named if one.style != SENTENCES), SENTENCES)

    def oracle(self, game: Game) -> Oracle | None:
        """Return the oracle that the run's configuration names for an environment, if any."""
        if self.config is None:
            return None
        sections = [
            section for section in self.config.environments if section.known_as == game.name
        ]
        return configured_oracles(sections, [game]).get(game.name)

    def steps(self) -> list[int]:
        """Return the steps of the run's checkpoints, newest first."""
        return [] if self.run is None else checkpoint.steps(self.run)[::-1]

    def others(self, game: Game) -> list[tuple[str, str]]:
        """Return who may sit opposite: as it is written, and in words; the usual one first."""
        if game.num_seats == 1:
            return []
        if game.name not in self._bots:
            self._bots[game.name] = bots_for(game)
        steps = self.steps()
        newest = self.step if self.step is not None else steps[0] if steps else None
        mixed = self.config is not None and self.answer not in PLAIN
        usual = "mixture of members" if mixed else self._plain(self._asked)
        found = [] if newest is None else [("policy", f"{usual}, step {newest}")]
        found += [(str(step), f"policy, step {step}") for step in steps if step != newest]
        own = [] if self.config is None else [*self.config.bots]
        names = dict.fromkeys([*own, *self._bots[game.name], *sorted(self.trusted)])
        return found + [(name, name) for name in names if not name.isdigit() and name != "policy"]

    def opposite(self, game: Game, asked: str | None) -> Opposite | None:
        """Return who sits in the other seats; nobody where there are none.

        Args:
            game: of this room.
            asked: a step, a player of the run such as ``past-000100``, or a bot; None: the run's
                policy, or without a run the usual bot.

        Raises:
            UnknownNameError: there is no such player.
            ConfigError: a bot cannot be read, or may not be asked for.
            CheckpointError: the checkpoint is damaged or does not exist.
        """
        if game.num_seats == 1:
            return None
        if not asked and self.config is not None:
            asked = str(PUBLISHED)
        if not asked:
            listed = self.others(game)
            if not listed:
                raise ConfigError(f"{game.name}: no bot fits it; name a player with --against.")
            asked = listed[0][0]
        if self.config is not None:
            if asked.isascii() and asked.isdigit():
                return self._policy(int(asked[:18]), POLICY)
            if asked == str(PUBLISHED):
                return self._policy(self.step, self._asked)
            if ref(asked).kind in OWN:
                agent = self._engine(self.step)[0].agent(ref(asked))
                return Opposite(str(ref(asked)), asked, agent)
            if asked in self.config.bots:
                made: Agent = self.config.bots[asked].bind("players")()
                return Opposite(str(bot(asked)), asked, made)
        return self._bot(asked)

    def _bot(self, asked: str) -> Opposite:
        """Return a player plug-in, as a person writes it."""
        name = _first(asked) or asked
        if asked not in self.trusted and name not in BOTS:
            there = [str(PUBLISHED)] if self.config is not None else []
            own = [] if self.config is None else self.config.bots
            raise UnknownNameError("opponent", asked, {*there, *own, *BOTS, *self.trusted})
        spec = parse_agent(asked)
        return Opposite(str(bot(spec.name)), asked, spec.make())

    def _policy(self, step: int | None, answer: str | None = None) -> Opposite:
        """Return the run's answer as a checkpoint has it, its policies each in its roles.

        None is the answer that the run's configuration names.
        """
        from sparring.api.load import load_answer

        engine, found = self._engine(step)
        assert self.run is not None and self.config is not None, "only a run has policies"
        agent = load_answer(self.run, self.config, engine, found, answer)
        if isinstance(agent, Mixture):
            said = f"mixture of {len(agent.weights)} members, step {found}"
            return Opposite(str(PlayerRef("mixture", "answer")), said, agent)
        return Opposite(str(snapshot(found)), f"{self._plain(answer)}, step {found}", agent)

    @staticmethod
    def _plain(answer: str | None) -> str:
        """Return in words who answers for a run, where it is no mixture."""
        return {LAST: "learner", AVERAGE: "average"}.get(answer or POLICY, "policy")

    def _engine(self, step: int | None) -> tuple[LocalEngine, int]:
        """Return an engine with the weights of a checkpoint, and its step."""
        assert self.run is not None, "only a run has policies"
        newest = next(iter(self.steps()), None)  # a run may go on while people play
        key = (step, newest if step is None else None)
        if key not in self._engines:
            from sparring.api.load import load_run  # torch: only where a policy plays

            _, engine, found = load_run(self.run, step)
            while len(self._engines) >= ENGINES:
                self._engines.pop(next(iter(self._engines)))
            self._engines[key] = engine, found
        return self._engines[key]


def bots_for(game: Game) -> list[str]:
    """Return the bots that can play an environment, the first at any size and without a wait."""
    with Asking(game), temporary_play(game, Stream.from_seed(0)) as play:
        legal = play.legal(play.due()[0])
    found = []
    if not no_rules(game):
        if game.perfect_information:
            found.append("mcts")
        if not unfit(game):
            found.append("minimax")
        if not game.perfect_information and game.has_info_states and fits(game, HISTORIES):
            found.append("cfr")
    if hasattr(play, "house"):
        found.append("house")
    if legal is not None or hasattr(play, "sample"):
        found.append("random")
    return found


def _first(text: str) -> str:
    """Return the first word of a text, or ""."""
    return text.split()[0] if text.split() else ""


def _worded(name: str, style: str) -> dict[str, Any]:
    """Return options that give an environment a style: itself, or what it is made of."""
    if not registry.known("environments", name):
        return {}
    return styled(name, {}, style)
