"""A person who plays: the lobby, where environment and opponents are chosen, and the session."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock

from sparring.config import RunConfig, resolve
from sparring.config.checks import AVERAGE, LAST, PLAIN, POLICY, check_answer
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.files import disk_errors
from sparring.core.records import OWN, PUBLISHED, Episode, PlayerRef, Verdict, bot, ref, snapshot
from sparring.core.rng import Stream
from sparring.environments.base import (
    Environment,
    HasRandomReply,
    PartnerPlay,
    Play,
    is_searchable,
    is_searchable_play,
    temporary_play,
)
from sparring.environments.catalogue import configured_game, game_names, make_game
from sparring.environments.combining import with_style
from sparring.environments.foreign import environment_call
from sparring.environments.openspiel.people import for_people, seen_by
from sparring.environments.openspiel.solve import unfit
from sparring.measure.agent_spec import parse_agent
from sparring.methods.oracles.base import Oracle, verdicts
from sparring.methods.oracles.judge import configured_oracles, judge_episodes
from sparring.play.episode import EpisodeInPlay
from sparring.play.players.base import Agent, Failed, PendingTurn, Reply, TextAgent, replies
from sparring.play.players.cfr import fits
from sparring.play.players.human import understood
from sparring.play.players.mixture import Mixture
from sparring.play.spec import EpisodeSpec
from sparring.play.store import EpisodeStore
from sparring.play.team import renamed, seated
from sparring.run import checkpoint
from sparring.run.folder import PLAYED, RunFolder

if TYPE_CHECKING:
    from sparring.engine.local import LocalEngine


# a reply that is no legal action is asked for again a few times, so that the play goes on
RETRY = {"rule": "retry", "retries": 5}
BOTS = ("minimax", "cfr", "mcts", "house", "random")  # that need nothing from outside
SENTENCES = "full"  # the wording of environments in sentences
ENGINES = 2  # checkpoints held at a time
HISTORIES = 50_000  # of a game tree that cfr solves in seconds


class Opponent(NamedTuple):
    """Who sits in the other seats."""

    name: str  # in records
    said: str  # in words
    agent: Agent


class Lobby:
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
        self._games: dict[str, Environment] = {}
        self._bots: dict[str, list[str]] = {}

    @property
    def environments(self) -> tuple[str, ...]:
        """Their names: those of the run, or all that are there."""
        if self.config is None:
            return registry.names("environments")
        return tuple(section.known_as for section in self.config.environments)

    def game(self, name: str | None) -> Environment:
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
        if name in self._games:
            return self._games[name]
        if self.config is not None:
            if name not in self.environments:
                raise UnknownNameError("game of this run", name, self.environments)
            section = self.config.environments[self.environments.index(name)]
            game = configured_game(section.model_copy(update={"illegal": RETRY}))
        else:
            if name not in game_names():
                where = "See `sparring list environments`."
                raise UnknownNameError("game", name, game_names(), where)
            known = registry.known("environments", name)
            options = with_style(name, {}, self._style()) if known else {}
            game = make_game(name, options=options, illegal=RETRY)
        self._games[name] = game
        return game

    def _style(self) -> str:
        """Return the wording that who is named to sit opposite is used to: mostly sentences."""
        named = (parse_agent(one) for one in self.trusted if registry.known("players", _first(one)))
        return next((one.style for one in named if one.style != SENTENCES), SENTENCES)

    def oracle(self, game: Environment) -> Oracle | None:
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

    def others(self, game: Environment) -> list[tuple[str, str]]:
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

    def opposite(self, game: Environment, asked: str | None) -> Opponent | None:
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
                return Opponent(str(ref(asked)), asked, agent)
            if asked in self.config.bots:
                made: Agent = self.config.bots[asked].bind("players")()
                return Opponent(str(bot(asked)), asked, made)
        if asked not in self.trusted and (_first(asked) or asked) not in BOTS:
            there = [str(PUBLISHED)] if self.config is not None else []
            own = [] if self.config is None else self.config.bots
            raise UnknownNameError("opponent", asked, {*there, *own, *BOTS, *self.trusted})
        spec = parse_agent(asked)
        return Opponent(str(bot(spec.name)), asked, spec.make())

    def _policy(self, step: int | None, answer: str | None = None) -> Opponent:
        """Return the run's answer; None is the one that the configuration names."""
        from sparring.api.load import load_answer

        engine, found = self._engine(step)
        assert self.run is not None and self.config is not None, "only a run has policies"
        agent = load_answer(self.run, self.config, engine, found, answer)
        if isinstance(agent, Mixture):
            said = f"mixture of {len(agent.weights)} members, step {found}"
            return Opponent(str(PlayerRef("mixture", "answer")), said, agent)
        return Opponent(str(snapshot(found)), f"{self._plain(answer)}, step {found}", agent)

    @staticmethod
    def _plain(answer: str | None) -> str:
        """Return in words who answers for a run, where it is no mixture."""
        return {LAST: "learner", AVERAGE: "average"}.get(answer or POLICY, "policy")

    def _engine(self, step: int | None) -> tuple[LocalEngine, int]:
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


def bots_for(game: Environment) -> list[str]:
    """Return the bots that can play an environment, the first at any size and without a wait."""
    with environment_call(game), temporary_play(game, Stream.from_seed(0)) as play:
        legal = play.legal(play.due()[0])
    found = []
    if is_searchable(game):
        if game.perfect_information:
            found.append("mcts")
        if not unfit(game):
            found.append("minimax")
        if not game.perfect_information and game.has_info_states and fits(game, HISTORIES):
            found.append("cfr")
    if isinstance(play, PartnerPlay):
        found.append("house")
    if legal is not None or isinstance(play, HasRandomReply):
        found.append("random")
    return found


def _first(text: str) -> str:
    """Return the first word of a text, or ""."""
    return text.split()[0] if text.split() else ""


YOU = str(PlayerRef("person", "you"))
LONGEST = 8000  # characters of a person's reply
SEEDS = 1_000_000  # a seed that is drawn is below this


class Exchange(NamedTuple):
    """What a person was told at a turn, and the reply."""

    told: str
    reply: str


class _Person(TextAgent):
    """Stands where the person sits: the play asks it nothing."""

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Refuse: the reply comes from outside."""
        raise GameError("A person's reply comes from outside.")


class InteractiveSession:
    """One play, as it goes on; whoever makes it calls ``close`` in the end.

    Args:
        game: the environment.
        seat: the person's.
        opposite: who sits in the other seats; None: there are none.
        seed: of the deal, and of all that is drawn.

    Attributes:
        asked: the decision that the person is to take; None: the play is over.
        turn: its number among the person's, from 0.
        past: what the person was told and has replied.
        episode: the record, when the play is over.

    Raises:
        GameError: the environment's own code raised.
        SparringError: a player cannot play it.
    """

    def __init__(self, game: Environment, seat: int, opposite: Opponent | None, seed: int) -> None:
        self.game, self.seat, self.opposite, self.seed = game, seat, opposite, seed
        self._people = for_people(game) if is_searchable(game) else None
        agents: dict[str, Agent] = {YOU: _Person(YOU)}
        name = ""
        if opposite is not None:
            name, agents[opposite.name] = opposite.name, opposite.agent
        stream = Stream.from_seed(seed).child("terminal")
        spec = EpisodeSpec(
            game=game,
            episode_id=0,
            group_id=0,
            deal=stream.child("deal"),
            stream=stream,
            seats=tuple(YOU if place == seat else name for place in range(game.num_seats)),
            trained=(False,) * game.num_seats,
        )
        (spec,), self._agents, self._whose, self._who = seated([spec], agents)
        self._seats = spec.players
        with environment_call(game):
            self._play = EpisodeInPlay(spec, self._agents)
        self.asked: PendingTurn | None = None
        self.turn = 0
        self.past: list[Exchange] = []
        self.episode: Episode | None = None
        self._heard: list[Reply | None] = []
        try:
            self._go_on()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the play, which nobody looks at any more; a second call does nothing."""
        self._play.close()

    @property
    def play(self) -> Any:
        """The play as it stands; it knows what is hidden."""
        return self._play.play

    @property
    def drawn(self) -> dict[str, str]:
        """Who was drawn in each other role, where a mixture sits opposite; it is for the end."""
        return {self.game.roles[place]: who for place, who in self._drawn_at().items()}

    def _drawn_at(self) -> dict[int, str]:
        if self.opposite is None or not isinstance(self.opposite.agent, Mixture):
            return {}
        return {
            place: self.opposite.agent.called(self._who[str(name)])
            for place, name in enumerate(self._seats)
            if place != self.seat
        }

    def record(self, episode: Episode) -> Episode:
        """Return what is stored of a finished play: it names who was drawn from a mixture.

        Args:
            episode: of this play, as it was or judged.
        """
        drawn = self._drawn_at()
        if not drawn:
            return episode
        names = [drawn.get(place, YOU) for place in range(self.game.num_seats)]
        turns = tuple(turn._replace(agent=names[turn.seat]) for turn in episode.turns)
        return replace(episode, agents=tuple(names), players=(), turns=turns)

    @property
    def people(self) -> Any:
        """The environment as people see it."""
        return self.game if self._people is None else self._people

    @property
    def told(self) -> str:
        """What the person is told now; nothing when the play is over."""
        if self.asked is None:
            return ""
        if is_searchable_play(self.asked.state):
            return seen_by(self.people, self.asked.state, self.seat)
        return self.asked.told

    @property
    def legal(self) -> tuple[str, ...] | None:
        """The person's legal actions; None: any text, or nothing is asked."""
        if self.asked is None:
            return None
        found: tuple[str, ...] | None = self.asked.state.legal(self.seat)
        return found

    def say(self, text: str) -> str:
        """Take the person's reply and go on to the next one, or to the end.

        Args:
            text: as it was typed.

        Returns:
            What is wrong with it, in which case nothing has happened; else "".

        Raises:
            GameError: the play is over, or the environment's own code raised.
            SparringError: a player cannot go on.
        """
        if self.asked is None:
            raise GameError("This play is over; begin the next one.")
        text = text.strip().encode("utf-8", "replace").decode("utf-8")  # no half characters
        if not text:
            return "Type a reply."
        if len(text) > LONGEST:
            return f"A reply has at most {LONGEST:,} characters; this one has {len(text):,}."
        with environment_call(self.game):
            reply, trouble = understood(self._people, self.asked.state, self.seat, text)
        if reply is None:
            return f"{trouble.rstrip('.')}."
        self.past.append(Exchange(self.told, reply))
        self.turn += 1
        heard = [Reply(text=reply) if one is None else one for one in self._heard]
        self.asked = None
        with environment_call(self.game):
            self._play.answer(heard)
        self._go_on()
        return ""

    def _go_on(self) -> None:
        """Ask everybody else, until the person is asked or the play is over."""
        while not self._play.done:
            with environment_call(self.game):
                asked = self._play.ask()
            self._heard = self._replies(asked)
            if None in self._heard:
                self.asked = asked[self._heard.index(None)]
                return
            with environment_call(self.game):
                self._play.answer([reply for reply in self._heard if reply is not None])
        with environment_call(self.game):
            self.episode = renamed(self._play.finish(), self._whose)

    def _replies(self, asked: Sequence[PendingTurn]) -> list[Reply | None]:
        """Return what everybody else replies; None stands for the person's reply."""
        found: list[Reply | None] = [None] * len(asked)
        names = self._play.names
        for name in dict.fromkeys(names[turn.seat] for turn in asked if turn.seat != self.seat):
            own = [n for n, turn in enumerate(asked) if names[turn.seat] == name]
            said = replies(name, self._agents[name], [asked[n] for n in own])
            for place, reply in zip(own, said, strict=True):
                if isinstance(reply, Failed):
                    with environment_call(self.game):
                        raise reply.error
                found[place] = reply
        return found

    def hint(self, oracle: Oracle) -> Verdict | None:
        """Return what an oracle says of the person's decision; None where it abstains.

        Raises:
            GameError: nothing is asked.
            OracleError: the oracle refuses the state.
        """
        if self.asked is None:
            raise GameError("This play is over; there is nothing to judge.")
        draft = next(one for one in self._play.asked if one.seat == self.seat)
        state, stream = self._play.question(draft)
        return verdicts(oracle, [state], [stream])[0]

    def judged(self, oracle: Oracle | None) -> Episode:
        """Return the record of the finished play, every turn judged if there is an oracle."""
        if self.episode is None:
            raise GameError("This play is not over.")
        if oracle is None:
            return self.episode
        games, oracles = {self.game.name: self.game}, {self.game.name: oracle}
        return judge_episodes([self.episode], games, oracles, everyone=True)[0]


def fresh_seed() -> int:
    """Return a seed of a play for which nobody has named one; it is short, to be typed again."""
    return secrets.randbelow(SEEDS)


def keep(run: Path, episode: Episode, number: int | None = None) -> int:
    """Store a play of a person in a run's folder, beside the run's own; return its number.

    Args:
        run: the run folder.
        episode: the record.
        number: of a play that is stored, to replace it; None takes the next one.

    Raises:
        RunError: the disk is full or not writable.
    """
    folder = run / PLAYED
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
        with FileLock(str(folder / ".lock"), timeout=30):
            store = EpisodeStore(folder / "episodes")
            if number is None:
                number = max(store.steps(), default=0) + 1
            store.append(number, [episode])
    return number
