"""Lets a person play: the lobby offers environments and opponents, the session plays an episode."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock

from sparring.config import RunConfig, resolve
from sparring.config.checks import AVERAGE, LAST, NON_MIXTURE_ANSWERS, POLICY, check_answer
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.files import disk_errors
from sparring.core.records import (
    POLICY_KINDS,
    PUBLISHED,
    Episode,
    PlayerRef,
    Verdict,
    bot,
    ref,
    snapshot,
)
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
from sparring.environments.openspiel.solve import reason_unsolvable
from sparring.measure.agent_spec import parse_agent
from sparring.methods.oracles.base import Oracle, judge_states
from sparring.methods.oracles.judge import configured_oracles, judge_episodes
from sparring.play.episode import EpisodeInPlay
from sparring.play.players.base import Agent, FailedPlay, PendingTurn, Reply, TextAgent, replies
from sparring.play.players.cfr import has_at_most_histories
from sparring.play.players.human import parse_human_reply
from sparring.play.players.mixture import Mixture
from sparring.play.spec import EpisodeSpec
from sparring.play.store import EpisodeStore
from sparring.play.team import rename_agents, seat_single_agents
from sparring.run import checkpoint
from sparring.run.folder import PLAYED_FOLDER, RunFolder

if TYPE_CHECKING:
    from sparring.engine.local import LocalEngine


# a person may try again a few times after an illegal reply
RETRY_RULE = {"rule": "retry", "retries": 5}
BOTS = ("minimax", "cfr", "mcts", "house", "random")  # bots without network, files or packages
FULL_STYLE = "full"  # the option style: prompts in whole sentences
MAX_ENGINES = 2  # largest number of checkpoints in memory
MAX_HISTORIES = 50_000  # cfr solves a game tree of this size in seconds


class Opponent(NamedTuple):
    """The player in the other seats."""

    name: str  # name in records
    label: str  # name that a person reads
    agent: Agent


class Lobby:
    """The environments and opponents that a person can choose.

    Args:
        run: folder of a run; None: all environments, and bots as opponents.
        step: step of the default checkpoint; None: the newest.
        trusted: other players that may be chosen, such as one named on the command line.
        answer: which policy of the run plays: "policy", "last", or a mixture of league members
            such as "nash"; None: the answer that the configuration names.

    Raises:
        RunError: there is no such run.
        ConfigError: the configuration cannot be read, or the run has no such answer.
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
        self._requested_answer = answer
        self._engines: dict[tuple[int | None, int | None], tuple[LocalEngine, int]] = {}
        self._games: dict[str, Environment] = {}
        self._bots: dict[str, list[str]] = {}

    @property
    def environments(self) -> tuple[str, ...]:
        """Names of the environments: the run's, or all."""
        if self.config is None:
            return registry.names("environments")
        return tuple(section.display_name for section in self.config.environments)

    def game(self, name: str | None) -> Environment:
        """Return an environment; without a run its prompts are whole sentences.

        Args:
            name: name of the environment; None: the first environment of the run.

        Raises:
            UnknownNameError: there is no environment of this name.
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
            game = configured_game(section.model_copy(update={"illegal": RETRY_RULE}))
        else:
            if name not in game_names():
                hint = "See `sparring list environments`."
                raise UnknownNameError("game", name, game_names(), hint)
            is_plugin = registry.is_known("environments", name)
            options = with_style(name, {}, self._style_of_trusted()) if is_plugin else {}
            game = make_game(name, options=options, illegal=RETRY_RULE)
        self._games[name] = game
        return game

    def _style_of_trusted(self) -> str:
        """Return the first style of a trusted player that is not full; otherwise full."""
        specs = (
            parse_agent(text)
            for text in self.trusted
            if registry.is_known("players", _first_word(text))
        )
        return next((spec.style for spec in specs if spec.style != FULL_STYLE), FULL_STYLE)

    def oracle(self, game: Environment) -> Oracle | None:
        """Return the oracle of an environment in the run's configuration, if any."""
        if self.config is None:
            return None
        sections = [
            section for section in self.config.environments if section.display_name == game.name
        ]
        return configured_oracles(sections, [game]).get(game.name)

    def steps(self) -> list[int]:
        """Return the steps of the run's checkpoints, newest first."""
        return [] if self.run is None else checkpoint.steps(self.run)[::-1]

    def opponent_choices(self, game: Environment) -> list[tuple[str, str]]:
        """Return (name, label) of each possible opponent; the default comes first."""
        if game.num_seats == 1:
            return []
        if game.name not in self._bots:
            self._bots[game.name] = bots_for(game)
        steps = self.steps()
        default_step = self.step if self.step is not None else steps[0] if steps else None
        is_mixture = self.config is not None and self.answer not in NON_MIXTURE_ANSWERS
        label = "mixture of members" if is_mixture else self._policy_label(self._requested_answer)
        choices = [] if default_step is None else [("policy", f"{label}, step {default_step}")]
        choices += [(str(step), f"policy, step {step}") for step in steps if step != default_step]
        bot_names = [] if self.config is None else [*self.config.bots]
        names = dict.fromkeys([*bot_names, *self._bots[game.name], *sorted(self.trusted)])
        return choices + [(name, name) for name in names if not name.isdigit() and name != "policy"]

    def opponent(self, game: Environment, name: str | None) -> Opponent | None:
        """Return the opponent of an environment, or None if it has one seat.

        Args:
            game: the environment.
            name: a step, a player of the run such as ``past-000100``, or a bot; None: the run's
                policy, or without a run the default bot.

        Raises:
            UnknownNameError: there is no such player.
            ConfigError: the text of a bot cannot be parsed, or the bot may not be chosen.
            CheckpointError: the checkpoint is damaged or does not exist.
        """
        if game.num_seats == 1:
            return None
        if not name and self.config is not None:
            name = str(PUBLISHED)
        if not name:
            choices = self.opponent_choices(game)
            if not choices:
                raise ConfigError(f"{game.name}: no bot can play it; name a player with --against.")
            name = choices[0][0]
        if self.config is not None:
            if name.isascii() and name.isdigit():
                step_digits = name[:18]  # int() raises an error if there are thousands of digits
                return self._make_policy_opponent(int(step_digits), POLICY)
            if name == str(PUBLISHED):
                return self._make_policy_opponent(self.step, self._requested_answer)
            if ref(name).kind in POLICY_KINDS:
                agent = self._load_engine(self.step)[0].agent(ref(name))
                return Opponent(str(ref(name)), name, agent)
            if name in self.config.bots:
                bot_agent: Agent = self.config.bots[name].bind("players")()
                return Opponent(str(bot(name)), name, bot_agent)
        if name not in self.trusted and (_first_word(name) or name) not in BOTS:
            policies = [str(PUBLISHED)] if self.config is not None else []
            bot_names = [] if self.config is None else [*self.config.bots]
            raise UnknownNameError("opponent", name, {*policies, *bot_names, *BOTS, *self.trusted})
        spec = parse_agent(name)
        return Opponent(str(bot(spec.name)), name, spec.make())

    def _make_policy_opponent(self, step: int | None, answer: str | None = None) -> Opponent:
        from sparring.api.load import load_answer

        engine, loaded_step = self._load_engine(step)
        assert self.run is not None and self.config is not None, "only a run has policies"
        agent = load_answer(self.run, self.config, engine, loaded_step, answer)
        if isinstance(agent, Mixture):
            description = f"mixture of {len(agent.weights)} members, step {loaded_step}"
            return Opponent(str(PlayerRef("mixture", "answer")), description, agent)
        return Opponent(
            str(snapshot(loaded_step)), f"{self._policy_label(answer)}, step {loaded_step}", agent
        )

    @staticmethod
    def _policy_label(answer: str | None) -> str:
        return {LAST: "learner", AVERAGE: "average"}.get(answer or POLICY, "policy")

    def _load_engine(self, step: int | None) -> tuple[LocalEngine, int]:
        assert self.run is not None, "only a run has policies"
        newest_step = next(iter(self.steps()), None)  # a run may still be training
        key = (step, newest_step if step is None else None)
        if key not in self._engines:
            from sparring.api.load import load_run  # imports torch, needed by policies only

            _, engine, loaded_step = load_run(self.run, step)
            while len(self._engines) >= MAX_ENGINES:
                self._engines.pop(next(iter(self._engines)))
            self._engines[key] = engine, loaded_step
        return self._engines[key]


def bots_for(game: Environment) -> list[str]:
    """Return the bots that can play an environment; a bot that replies quickly comes first."""
    with environment_call(game), temporary_play(game, Stream.from_seed(0)) as play:
        legal = play.legal(play.due()[0])
    names = []
    if is_searchable(game):
        if game.perfect_information:
            names.append("mcts")
        if not reason_unsolvable(game):
            names.append("minimax")
        if (
            not game.perfect_information
            and game.has_info_states
            and has_at_most_histories(game, MAX_HISTORIES)
        ):
            names.append("cfr")
    if isinstance(play, PartnerPlay):
        names.append("house")
    if legal is not None or isinstance(play, HasRandomReply):
        names.append("random")
    return names


def _first_word(text: str) -> str:
    return text.split()[0] if text.split() else ""


PERSON_NAME = str(PlayerRef("person", "you"))
MAX_CHARS = 8000  # largest length of a person's reply
SEED_LIMIT = 1_000_000  # random seeds are below this


class PersonTurn(NamedTuple):
    """One turn of a person: the prompt and the reply."""

    prompt: str
    reply: str


class _Person(TextAgent):
    """Fills the person's seat; the session never asks it for a reply."""

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Raise GameError, as the person types the reply."""
        raise GameError("The person types the reply; this player has none.")


class InteractiveSession:
    """One running episode with a person; the caller must call ``close`` at the end.

    Args:
        game: the environment.
        seat: seat of the person.
        opponent: player in the other seats; None: there are no other seats.
        seed: seed of the initial state and of all other random draws.

    Attributes:
        pending: the decision that waits for the person; None: the episode is over.
        turn_number: number of the person's turn, from 0.
        person_turns: the person's turns so far.
        episode: the record, once the episode is over.

    Raises:
        GameError: the code of the environment raised an error.
        SparringError: a player cannot play this environment.
    """

    def __init__(self, game: Environment, seat: int, opponent: Opponent | None, seed: int) -> None:
        self.game, self.seat, self.opponent, self.seed = game, seat, opponent, seed
        self._full_style_game = for_people(game) if is_searchable(game) else None
        agents: dict[str, Agent] = {PERSON_NAME: _Person(PERSON_NAME)}
        opponent_name = ""
        if opponent is not None:
            opponent_name = opponent.name
            agents[opponent_name] = opponent.agent
        stream = Stream.from_seed(seed).child("terminal")
        spec = EpisodeSpec(
            game=game,
            episode_id=0,
            group_id=0,
            deal=stream.child("deal"),
            stream=stream,
            seats=tuple(
                PERSON_NAME if index == seat else opponent_name for index in range(game.num_seats)
            ),
            trained=(False,) * game.num_seats,
        )
        (spec,), self._agents, self._team_names, self._members = seat_single_agents([spec], agents)
        self._seats = spec.players
        with environment_call(game):
            self._play = EpisodeInPlay(spec, self._agents)
        self.pending: PendingTurn | None = None
        self.turn_number = 0
        self.person_turns: list[PersonTurn] = []
        self.episode: Episode | None = None
        self._other_replies: list[Reply | None] = []
        try:
            self._play_until_decision()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the episode; a second call does nothing."""
        self._play.close()

    @property
    def play(self) -> Any:
        """The live episode, hidden facts included."""
        return self._play.play

    @property
    def drawn_members(self) -> dict[str, str]:
        """The league member that the mixture drew, by role; to be shown only after the end."""
        return {self.game.roles[seat]: member for seat, member in self._members_by_seat().items()}

    def _members_by_seat(self) -> dict[int, str]:
        if self.opponent is None or not isinstance(self.opponent.agent, Mixture):
            return {}
        return {
            seat: self.opponent.agent.label(self._members[str(name)])
            for seat, name in enumerate(self._seats)
            if seat != self.seat
        }

    def record(self, episode: Episode) -> Episode:
        """Return the record to store; it names the members that a mixture drew.

        Args:
            episode: the finished episode, judged or not.
        """
        member_names = self._members_by_seat()
        if not member_names:
            return episode
        names = [member_names.get(seat, PERSON_NAME) for seat in range(self.game.num_seats)]
        turns = tuple(turn._replace(agent=names[turn.seat]) for turn in episode.turns)
        return replace(episode, agents=tuple(names), players=(), turns=turns)

    @property
    def full_style_game(self) -> Any:
        """The environment with the wording for people."""
        return self.game if self._full_style_game is None else self._full_style_game

    @property
    def prompt(self) -> str:
        """The prompt for the person; "" when the episode is over."""
        if self.pending is None:
            return ""
        if is_searchable_play(self.pending.state):
            return seen_by(self.full_style_game, self.pending.state, self.seat)
        return self.pending.prompt

    @property
    def legal(self) -> tuple[str, ...] | None:
        """Legal actions of the person; None: any text, or the episode is over."""
        if self.pending is None:
            return None
        actions: tuple[str, ...] | None = self.pending.state.legal(self.seat)
        return actions

    def submit_reply(self, text: str) -> str:
        """Take the person's reply and play until the next decision or the end.

        Args:
            text: the text as it was typed.

        Returns:
            "" if the reply is accepted; otherwise the reason why it is rejected. A rejected reply
            does not change the episode.

        Raises:
            GameError: the episode is over, or the code of the environment raised an error.
            SparringError: another player has failed.
        """
        if self.pending is None:
            raise GameError("This episode is over; begin the next one.")
        text = text.strip().encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
        if not text:
            return "Type a reply."
        if len(text) > MAX_CHARS:
            return f"A reply has at most {MAX_CHARS:,} characters; this one has {len(text):,}."
        with environment_call(self.game):
            reply, mistake = parse_human_reply(
                self._full_style_game, self.pending.state, self.seat, text
            )
        if reply is None:
            return f"{mistake.rstrip('.')}."
        self.person_turns.append(PersonTurn(self.prompt, reply))
        self.turn_number += 1
        all_replies = [
            Reply(text=reply) if other is None else other for other in self._other_replies
        ]
        self.pending = None
        with environment_call(self.game):
            self._play.answer(all_replies)
        self._play_until_decision()
        return ""

    def _play_until_decision(self) -> None:
        while not self._play.done:
            with environment_call(self.game):
                turns = self._play.ask()
            self._other_replies = self._ask_other_players(turns)
            if None in self._other_replies:
                self.pending = turns[self._other_replies.index(None)]
                return
            with environment_call(self.game):
                self._play.answer([reply for reply in self._other_replies if reply is not None])
        with environment_call(self.game):
            self.episode = rename_agents(self._play.finish(), self._team_names)

    def _ask_other_players(self, turns: Sequence[PendingTurn]) -> list[Reply | None]:
        """Return the replies of the other players, with None for the person."""
        results: list[Reply | None] = [None] * len(turns)
        names = self._play.names
        for name in dict.fromkeys(names[turn.seat] for turn in turns if turn.seat != self.seat):
            indices = [index for index, turn in enumerate(turns) if names[turn.seat] == name]
            agent_replies = replies(name, self._agents[name], [turns[index] for index in indices])
            for index, reply in zip(indices, agent_replies, strict=True):
                if isinstance(reply, FailedPlay):
                    with environment_call(self.game):
                        raise reply.error
                results[index] = reply
        return results

    def judge_decision(self, oracle: Oracle) -> Verdict | None:
        """Return an oracle's verdict on the person's decision; None: the oracle abstains.

        Raises:
            GameError: no decision is pending.
            OracleError: the oracle cannot judge the state.
        """
        if self.pending is None:
            raise GameError("This episode is over; there is no decision to judge.")
        draft = next(turn for turn in self._play.due_drafts if turn.seat == self.seat)
        state, stream = self._play.oracle_query(draft)
        return judge_states(oracle, [state], [stream])[0]

    def judge_episode(self, oracle: Oracle | None) -> Episode:
        """Return the record of the finished episode, with an oracle's verdict on every turn."""
        if self.episode is None:
            raise GameError("This episode is not over.")
        if oracle is None:
            return self.episode
        games, oracles = {self.game.name: self.game}, {self.game.name: oracle}
        return judge_episodes([self.episode], games, oracles, all_seats=True)[0]


def random_seed() -> int:
    """Return a random seed that is short enough to type."""
    return secrets.randbelow(SEED_LIMIT)


def store_episode(run: Path, episode: Episode, number: int | None = None) -> int:
    """Store a person's episode in a run's folder and return its number.

    Args:
        run: the run folder.
        episode: the record.
        number: number of a stored episode, which is replaced; None: the next number.

    Raises:
        RunError: the disk is full or not writable.
    """
    folder = run / PLAYED_FOLDER
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
        with FileLock(str(folder / ".lock"), timeout=30):
            store = EpisodeStore(folder / "episodes")
            if number is None:
                number = max(store.steps(), default=0) + 1
            store.append(number, [episode])
    return number
