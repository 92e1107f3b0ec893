"""A person who sits in a seat of a play: what the seat is told, its replies, hints, the end.

It knows neither a terminal nor HTTP. Before the end it gives away nothing that the seat is not
told.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from sparring.api.room import Opposite
from sparring.environments.openspiel.base import Game, State
from sparring.environments.openspiel.people import for_people, seen_by
from sparring.environments.own import Asking
from sparring.errors import GameError
from sparring.oracles.base import Oracle, verdicts
from sparring.oracles.judge import judge_episodes
from sparring.players.base import Agent, Failed, PendingTurn, Reply, TextAgent, replies
from sparring.players.human import understood
from sparring.players.mixture import Mixture
from sparring.refs import PlayerRef
from sparring.rng import Stream
from sparring.rollout.episode import EpisodeInPlay
from sparring.rollout.spec import EpisodeSpec
from sparring.rollout.store import EpisodeStore
from sparring.rollout.team import renamed, seated
from sparring.run.folder import PLAYED
from sparring.system.files import disk_errors
from sparring.types import Episode, Verdict

YOU = str(PlayerRef("person", "you"))
LONGEST = 8000  # characters of a person's reply
SEEDS = 1_000_000  # a seed that is drawn is below this


class Exchange(NamedTuple):
    """What a person was told at a turn, and the reply."""

    told: str
    reply: str


class _Person(TextAgent):
    """Stands where the person sits: the play asks it nothing."""

    def choose(self, state: Any, seat: int, stream: Stream) -> str:
        """Refuse: the reply comes from outside.

        Raises:
            GameError: always.
        """
        raise GameError("A person's reply comes from outside.")


class Sitting:
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

    def __init__(self, game: Game, seat: int, opposite: Opposite | None, seed: int) -> None:
        self.game, self.seat, self.opposite, self.seed = game, seat, opposite, seed
        self._people = for_people(game) if isinstance(game, Game) else None
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
        with Asking(game):
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
        """Return who was drawn, by seat."""
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
        if isinstance(self.asked.state, State):
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
        with Asking(self.game):
            reply, trouble = understood(self._people, self.asked.state, self.seat, text)
        if reply is None:
            return f"{trouble.rstrip('.')}."
        self.past.append(Exchange(self.told, reply))
        self.turn += 1
        heard = [Reply(text=reply) if one is None else one for one in self._heard]
        self.asked = None
        with Asking(self.game):
            self._play.answer(heard)
        self._go_on()
        return ""

    def _go_on(self) -> None:
        """Ask everybody else, until the person is asked or the play is over."""
        while not self._play.done:
            with Asking(self.game):
                asked = self._play.ask()
            self._heard = self._replies(asked)
            if None in self._heard:
                self.asked = asked[self._heard.index(None)]
                return
            with Asking(self.game):
                self._play.answer([reply for reply in self._heard if reply is not None])
        with Asking(self.game):
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
                    with Asking(self.game):
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
