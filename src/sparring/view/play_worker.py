"""The process in which people's plays go on, so that a crash of one takes no page down.

A job is ``[kind, ...]`` in plain data; so is its answer. Each one may come twice: the second time
nothing happens, and the answer is how things stand.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparring.api.human_play import InteractiveSession, Lobby, fresh_seed, keep
from sparring.config.plugins.guard import CallWatch
from sparring.core.errors import ConfigError, HungError, RunError, SparringError
from sparring.core.records import Episode, Turn, Verdict
from sparring.core.worker_pool import Job
from sparring.environments.base import Drawable, is_searchable_play
from sparring.environments.drawing.canvas import THEMES
from sparring.environments.foreign import environment_call, no_rules
from sparring.environments.openspiel.people import rules_of
from sparring.measure.oracle_choice import chosen_oracle
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import regret
from sparring.report.episode_summary import drawn_line, ending, thoughts, verdict
from sparring.run.folder import CONFIG
from sparring.view.http_requests import Refused
from sparring.view.run_files import Signature, signature

JUDGES, PLAYS = 60.0, 300.0  # seconds that a call of an oracle may take, and that of anything else


def make(settings: dict[str, Any]) -> Callable[[Job], Any]:
    """Return what answers jobs; see ``core.worker_pool``.

    Args:
        settings: ``trusted``, players that may be asked for besides; ``step``, of the checkpoint
            that is meant where none is named, or None; ``answer``, who answers for a run, or None.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # no request leaves the machine
    return PlayWorker(**settings)


class Session:
    """A person at a room: plays one after another.

    Args:
        room: what may be played.
        asked: run, environment, seat, against and seed, as the page sent them.
    """

    def __init__(self, room: Lobby, asked: Answer) -> None:
        self.room, self.asked = room, asked
        self.game = room.game(asked["environment"])
        self.play = 0
        self.said: dict[int, str] = {}  # what was typed at the turns of this play
        self.sat(asked["seat"], asked["against"])

    def sat(self, seat: int, against: str | None) -> None:
        """Begin the next play.

        Raises:
            ConfigError: there is no such seat.
            SparringError: the play cannot begin.
        """
        if not 0 <= seat < self.game.num_seats:
            raise ConfigError(
                f"seat {seat}: {self.game.name} has seats 0 to {self.game.num_seats - 1}."
            )
        opposite = self.room.opponent(self.game, against)
        given = self.asked["seed"]
        seed = fresh_seed() if given is None else given + self.play
        self.close()
        self.sitting = InteractiveSession(self.game, seat, opposite, seed)
        self.play += 1
        self.against = against
        self.said, self.trouble = {}, ""
        self.hint: Answer | None = None
        self.end: Answer | None = None
        self.stored: Answer | None = None
        self._ended()

    def close(self) -> None:
        """Close the play, if there is one."""
        if self.play:
            self.sitting.close()

    def move(self, turn: int, text: str) -> None:
        """Take a reply to a turn, unless it has been taken.

        Where the play cannot go on, its state says why.

        Raises:
            Refused: another reply was given at this turn, or it has not come.
        """
        if self.said.get(turn) == text and turn < self.sitting.turn:
            return
        if turn != self.sitting.turn or self.sitting.pending is None:
            raise Refused(409, f"turn {turn} is not due; the play is at turn {self.sitting.turn}")
        try:
            self.trouble = self.sitting.say(text)
        except SparringError as error:
            self.trouble = f"This play cannot go on: {error}"
        if self.sitting.turn > turn:
            self.said[turn], self.hint = text, None
            self._ended()

    def _ended(self) -> None:
        sitting = self.sitting
        if sitting.episode is None or self.end is not None:
            return
        self._keep(sitting.episode)  # first, so that it is kept whatever shows it
        try:
            self.end = {**show_down(sitting, sitting.episode), "judgement": None, "why": None}
        except SparringError as error:
            self.trouble = f"The end cannot be shown: {error}"

    def _keep(self, episode: Any) -> None:
        """Store the play, where there is a run."""
        if self.room.run is None:
            return
        try:
            number = keep(
                self.room.run, self.sitting.record(episode), (self.stored or {}).get("number")
            )
            self.stored = {"number": number, "why": None}
        except (RunError, OSError) as error:
            self.stored = {"number": None, "why": str(error)}

    def ask_hint(self, turn: int, oracle: Oracle | None, why: str) -> None:
        """Ask the oracle about the turn that is due.

        Raises:
            Refused: another turn is due.
        """
        if turn != self.sitting.turn or self.sitting.pending is None:
            raise Refused(409, f"turn {turn} is not due; the play is at turn {self.sitting.turn}")
        if self.hint is None:
            found = None if oracle is None else opinion(self.sitting.hint(oracle))
            name = None if oracle is None else oracle.name
            none = why or "the oracle does not say anything of this position"
            self.hint = {"turn": turn, "oracle": name, "why": None if found else none}
            self.hint.update(found or {})

    def judge(self, oracle: Oracle | None, why: str) -> None:
        """Let the oracle judge the play that is over.

        Raises:
            Refused: it is not over.
        """
        if self.end is None:
            raise Refused(409, "the play is not over")
        if self.end["judgement"] is not None or self.end["why"] is not None:
            return
        if oracle is None:
            self.end["why"] = why
            return
        try:
            episode = self.sitting.judged(oracle)
        except SparringError as error:
            self.end["why"] = f"the oracle {oracle.name} cannot judge this play: {error}"
            return
        found = judgement(episode, self.sitting.seat)
        self.end.update(show_down(self.sitting, episode))
        self.end["judgement"] = {**found, "oracle": oracle.name}
        self._keep(episode)

    def state(self) -> Answer:
        """Return how things stand."""
        sitting, opposite = self.sitting, self.sitting.opponent
        other = "" if opposite is None else opposite.label
        return {
            "play": self.play,
            "environment": self.game.name,
            "seat": sitting.seat,
            "roles": list(self.game.roles),
            "players": [
                "you" if place == sitting.seat else other for place in range(self.game.num_seats)
            ],
            "against": self.against,
            **position(sitting),
            "hint": self.hint,
            "trouble": self.trouble,
            "end": self.end,
            "stored": self.stored,
        }


class PlayWorker:
    """Answers jobs; one at a time.

    Args:
        trusted: players that may be asked for besides.
        step: of the checkpoint that is meant where none is named.
        answer: who answers for a run; None: whom its configuration names.
    """

    def __init__(self, trusted: list[str], step: int | None, answer: str | None = None) -> None:
        self.trusted, self.step, self.answer = trusted, step, answer
        self._rooms: dict[str | None, tuple[Signature | None, Lobby]] = {}
        self._sessions: dict[str, Session] = {}
        self._oracles: dict[tuple[Lobby, str], tuple[Oracle | None, str]] = {}

    def __call__(self, job: Job) -> Answer:
        """Return the answer to a job; an error is one, with its status."""
        kind, *rest = job
        try:
            with CallWatch(JUDGES if kind in ("hint", "judge") else PLAYS):
                found: Answer = getattr(self, f"on_{kind}")(*rest)
        except Refused as refused:
            return {"error": str(refused), "status": refused.status}
        except SparringError as error:
            return {"error": str(error), "status": 400}
        return found

    def on_options(self, run: str | None, environment: str | None) -> Answer:
        """Return what may be played, and the seats and players of one environment."""
        room = self._room(run)
        names = list(room.environments)
        chosen = environment if environment is not None else names[0]
        game = room.game(chosen)
        return {
            "environments": names,
            "environment": chosen,
            "roles": list(game.roles),
            "against": [{"name": name, "said": said} for name, said in room.opponent_choices(game)],
        }

    def on_begin(self, name: str, asked: Answer, dropped: list[str]) -> Answer:
        """Begin a session, and forget others."""
        for other in dropped:
            if (session := self._sessions.pop(other, None)) is not None:
                session.close()
        if name not in self._sessions:
            self._sessions[name] = Session(self._room(asked["run"]), asked)
        return self._sessions[name].state()

    def on_move(self, name: str, play: int, turn: int, text: str) -> Answer:
        """Take a reply."""
        session = self._session(name, play)
        session.move(turn, text)
        return session.state()

    def on_hint(self, name: str, play: int, turn: int) -> Answer:
        """Ask the oracle about the turn that is due."""
        session = self._session(name, play)
        session.ask_hint(turn, *self._oracle(session))
        return session.state()

    def on_judge(self, name: str, play: int) -> Answer:
        """Have a finished play judged."""
        session = self._session(name, play)
        session.judge(*self._oracle(session))
        return session.state()

    def on_next(self, name: str, play: int, seat: int, against: str | None) -> Answer:
        """Begin the play after one."""
        session = self._session(name)
        if session.play != play + 1:
            self._session(name, play)
            session.sat(seat, against)
        return session.state()

    def _room(self, run: str | None) -> Lobby:
        """Return the room of a run as it is now, or that of no run."""
        path = None if run is None else Path(run)
        now = None if path is None else signature(path / CONFIG)
        before, room = self._rooms.get(run, (None, None))
        if room is None or before != now:  # none yet, or the run was overwritten or removed
            self._oracles = {key: one for key, one in self._oracles.items() if key[0] is not room}
            meant = (None, None) if path is None else (self.step, self.answer)
            room = Lobby(path, meant[0], self.trusted, meant[1])
            self._rooms[run] = now, room
        return room

    def _session(self, name: str, play: int | None = None) -> Session:
        if name not in self._sessions:
            raise Refused(404, "this session has ended; begin a new one")
        session = self._sessions[name]
        if play is not None and play != session.play:
            raise Refused(409, f"play {play} is not the one that goes on; that is {session.play}")
        return session

    def _oracle(self, session: Session) -> tuple[Oracle | None, str]:
        """Return the oracle of a session's environment; None with the reason."""
        room, game = session.room, session.game
        key = room, game.name
        if key not in self._oracles:
            try:
                oracle, note = chosen_oracle(game, room.oracle(game))
            except HungError:
                oracle, note = None, f"it takes longer than {JUDGES:g} s to judge a position"
            except SparringError as error:
                oracle, note = None, str(error)
            why = note.removeprefix(f"{game.name}: no regret, as ")
            why = no_rules(game) or why.removesuffix(" Name one with --oracle.")
            self._oracles[key] = oracle, f"there is no oracle: {why}" if oracle is None else ""
        return self._oracles[key]


Answer = dict[str, Any]


def position(sitting: InteractiveSession) -> Answer:
    """Return where a play stands, as the person's seat sees it.

    Args:
        sitting: that goes on, or is over.
    """
    first = sitting.past[0].prompt if sitting.past else sitting.prompt
    legal = sitting.legal
    phase = "failed" if sitting.episode is None else "over"
    if sitting.pending is not None:
        phase = "yours"
    return {
        "phase": phase,
        "turn": sitting.turn,
        "told": sitting.prompt,
        "legal": None if legal is None else list(legal),
        "past": [{"told": turn.prompt, "reply": turn.reply} for turn in sitting.past],
        "rules": first if no_rules(sitting.game) else rules_of(sitting.people),
        "picture": picture(sitting, None if sitting.episode is not None else sitting.seat),
    }


def picture(sitting: InteractiveSession, seat: int | None) -> Answer | None:
    """Return the position drawn in both themes and in words; None where nothing draws it.

    Args:
        sitting: that goes on, or is over.
        seat: whose view it is; None hides nothing.
    """
    play = sitting.play
    if is_searchable_play(play) and sitting.people is not sitting.game:
        play = sitting.people.state_of(play.node)  # in sentences
    if not isinstance(play, Drawable):
        return None
    try:
        with environment_call(sitting.game):
            found: Answer = {theme: play.draw(seat, theme) for theme in THEMES}
            return {**found, "said": play.described(seat)}
    except SparringError:
        return None  # the told text is shown in its place


def opinion(found: Verdict | None) -> Answer | None:
    """Return what an oracle said of a decision."""
    if found is None:
        return None
    return {
        "actions": list(found.actions),
        "values": list(found.values),
        "best": [action for action in found.actions if action in found.best],
        "certainty": found.certainty,
        "bound": found.bound,
    }


def show_down(sitting: InteractiveSession, episode: Episode) -> Answer:
    """Return a finished play with everything that was hidden.

    Args:
        sitting: that is over.
        episode: its record, judged or not.
    """
    game, opposite = sitting.game, sitting.opponent
    known = {}
    if opposite is not None and not no_rules(game):
        known = thoughts(game, episode, opposite.agent, opposite.name)
    turns = [
        {**_turn(sitting, turn), "index": number, "thought": known.get(number, "")}
        for number, turn in enumerate(episode.turns)
    ]
    return {
        "verdict": verdict(game, episode.returns, sitting.seat),
        "returns": list(episode.returns),
        "ending": "" if no_rules(game) else ending(game, episode, sitting.seat),
        "turns": turns,
        "cut": episode.cut,
        "drawn": drawn_line(sitting.drawn_members) if sitting.drawn_members else "",
        "seed": sitting.seed,
    }


def _turn(sitting: InteractiveSession, turn: Turn) -> Answer:
    return {
        "seat": turn.seat,
        "yours": turn.seat == sitting.seat,
        "moment": turn.moment,
        "told": turn.told,
        "reply": turn.reply,
        "action": turn.action,
        "event": turn.event,
        "oracle": opinion(turn.verdict),
        "regret": regret(turn),
    }


def judgement(episode: Episode, seat: int) -> Answer:
    """Return how good a seat's moves were, as the oracle says.

    Args:
        episode: judged.
        seat: the person's.
    """
    own = [turn for turn in episode.decisions if turn.seat == seat]
    found = [value for turn in own if (value := regret(turn)) is not None]
    best = sum(
        turn.verdict is not None and turn.event == "ok" and turn.action in turn.verdict.best
        for turn in own
    )
    return {"moves": len(own), "judged": len(found), "best": best, "regret": sum(found)}
