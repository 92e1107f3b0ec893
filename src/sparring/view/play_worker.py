"""The process of people's episodes, separate so that a crash does not stop the server.

Jobs ``[kind, ...]`` and answers are JSON values. A repeated job changes nothing and returns the
current state.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparring.api.human_play import InteractiveSession, Lobby, random_seed, store_episode
from sparring.config.plugins.guard import CallWatch
from sparring.core.errors import ConfigError, HungError, RunError, SparringError
from sparring.core.records import Episode, Turn, Verdict
from sparring.core.worker_pool import Job
from sparring.environments.base import Drawable, is_searchable_play
from sparring.environments.drawing.canvas import THEMES
from sparring.environments.foreign import environment_call, reason_not_searchable
from sparring.environments.openspiel.people import rules_of
from sparring.measure.oracle_choice import choose_oracle
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import regret
from sparring.report.episode_summary import (
    ending_text,
    member_line,
    policy_probabilities,
    result_text,
)
from sparring.run.folder import CONFIG
from sparring.view.http_requests import RequestError
from sparring.view.run_files import Signature, signature

ORACLE_SECONDS, PLAY_SECONDS = 60.0, 300.0  # time limits of jobs with and without an oracle


def make(settings: dict[str, Any]) -> Callable[[Job], Any]:
    """Return the function that answers jobs; see ``core.worker_pool``.

    Args:
        settings: keyword arguments of ``PlayWorker``.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # no request leaves the machine
    return PlayWorker(**settings)


class PlaySession:
    """A series of episodes of one person.

    Args:
        lobby: environments and players.
        choices: run, environment, seat, against and seed, as the page sent them.
    """

    def __init__(self, lobby: Lobby, choices: Answer) -> None:
        self.lobby, self.choices = lobby, choices
        self.game = lobby.game(choices["environment"])
        self.play = 0
        self.replies: dict[int, str] = {}  # by turn number of this episode
        self.begin(choices["seat"], choices["against"])

    def begin(self, seat: int, against: str | None) -> None:
        """Begin the next episode.

        Raises:
            ConfigError: the seat does not exist.
            SparringError: the episode cannot begin.
        """
        if not 0 <= seat < self.game.num_seats:
            raise ConfigError(
                f"seat {seat}: {self.game.name} has seats 0 to {self.game.num_seats - 1}."
            )
        opponent = self.lobby.opponent(self.game, against)
        first_seed = self.choices["seed"]
        seed = random_seed() if first_seed is None else first_seed + self.play
        self.close()
        self.interactive = InteractiveSession(self.game, seat, opponent, seed)
        self.play += 1
        self.against = against
        self.replies, self.trouble = {}, ""
        self.hint: Answer | None = None
        self.end: Answer | None = None
        self.stored: Answer | None = None
        self._finish()

    def close(self) -> None:
        """Close the current episode, if there is one."""
        if self.play:
            self.interactive.close()

    def move(self, turn: int, text: str) -> None:
        """Apply a reply to a turn; a repeated reply changes nothing.

        If the episode cannot continue, ``trouble`` has the reason.

        Raises:
            RequestError: the turn has another reply, or is not due yet.
        """
        if self.replies.get(turn) == text and turn < self.interactive.turn_number:
            return
        if turn != self.interactive.turn_number or self.interactive.pending is None:
            raise RequestError(
                409,
                f"turn {turn} is not due; the episode is at turn {self.interactive.turn_number}",
            )
        try:
            self.trouble = self.interactive.submit_reply(text)
        except SparringError as error:
            self.trouble = f"This episode cannot continue: {error}"
        if self.interactive.turn_number > turn:
            self.replies[turn], self.hint = text, None
            self._finish()

    def _finish(self) -> None:
        session = self.interactive
        if session.episode is None or self.end is not None:
            return
        self._store(session.episode)  # before the other steps, because they can fail
        try:
            self.end = {**revealed_end(session, session.episode), "judgement": None, "why": None}
        except SparringError as error:
            self.trouble = f"The end cannot be shown: {error}"

    def _store(self, episode: Any) -> None:
        if self.lobby.run is None:
            return
        try:
            number = store_episode(
                self.lobby.run, self.interactive.record(episode), (self.stored or {}).get("number")
            )
            self.stored = {"number": number, "why": None}
        except (RunError, OSError) as error:
            self.stored = {"number": None, "why": str(error)}

    def ask_hint(self, turn: int, oracle: Oracle | None, why: str) -> None:
        """Ask the oracle about the current turn.

        Raises:
            RequestError: another turn is due.
        """
        if turn != self.interactive.turn_number or self.interactive.pending is None:
            raise RequestError(
                409,
                f"turn {turn} is not due; the episode is at turn {self.interactive.turn_number}",
            )
        if self.hint is None:
            hint = None if oracle is None else verdict_data(self.interactive.judge_decision(oracle))
            name = None if oracle is None else oracle.name
            reason = why or "the oracle has no verdict on this position"
            self.hint = {"turn": turn, "oracle": name, "why": None if hint else reason}
            self.hint.update(hint or {})

    def judge(self, oracle: Oracle | None, why: str) -> None:
        """Judge the finished episode.

        Raises:
            RequestError: the episode is not over.
        """
        if self.end is None:
            raise RequestError(409, "the episode is not over")
        if self.end["judgement"] is not None or self.end["why"] is not None:
            return
        if oracle is None:
            self.end["why"] = why
            return
        try:
            episode = self.interactive.judge_episode(oracle)
        except SparringError as error:
            self.end["why"] = f"the oracle {oracle.name} cannot judge this episode: {error}"
            return
        figures = judgement(episode, self.interactive.seat)
        self.end.update(revealed_end(self.interactive, episode))
        self.end["judgement"] = {**figures, "oracle": oracle.name}
        self._store(episode)

    def state(self) -> Answer:
        """Return the state of the session."""
        session, opponent = self.interactive, self.interactive.opponent
        opponent_label = "" if opponent is None else opponent.label
        return {
            "play": self.play,
            "environment": self.game.name,
            "seat": session.seat,
            "roles": list(self.game.roles),
            "players": [
                "you" if seat == session.seat else opponent_label
                for seat in range(self.game.num_seats)
            ],
            "against": self.against,
            **position(session),
            "hint": self.hint,
            "trouble": self.trouble,
            "end": self.end,
            "stored": self.stored,
        }


class PlayWorker:
    """Does the jobs of all sessions, one at a time.

    Args:
        trusted: allowed opponents besides the usual ones.
        step: the checkpoint to play against; None: the newest.
        answer: which policies to play against, as ``league.answer``; None: as configured.
    """

    def __init__(self, trusted: list[str], step: int | None, answer: str | None = None) -> None:
        self.trusted, self.step, self.answer = trusted, step, answer
        self._lobbies: dict[str | None, tuple[Signature | None, Lobby]] = {}
        self._sessions: dict[str, PlaySession] = {}
        self._oracles: dict[tuple[Lobby, str], tuple[Oracle | None, str]] = {}

    def __call__(self, job: Job) -> Answer:
        """Return the answer to a job; errors become answers with a status."""
        kind, *arguments = job
        try:
            with CallWatch(ORACLE_SECONDS if kind in ("hint", "judge") else PLAY_SECONDS):
                result: Answer = getattr(self, f"on_{kind}")(*arguments)
        except RequestError as error:
            return {"error": str(error), "status": error.status}
        except SparringError as error:
            return {"error": str(error), "status": 400}
        return result

    def on_options(self, run: str | None, environment: str | None) -> Answer:
        """Return the environments, and the seats and players of one of them."""
        lobby = self._lobby(run)
        names = list(lobby.environments)
        game_name = environment if environment is not None else names[0]
        game = lobby.game(game_name)
        return {
            "environments": names,
            "environment": game_name,
            "roles": list(game.roles),
            "against": [
                {"name": name, "said": label} for name, label in lobby.opponent_choices(game)
            ],
        }

    def on_begin(self, name: str, choices: Answer, names_to_drop: list[str]) -> Answer:
        """Begin a session, and drop the named other sessions."""
        for other_name in names_to_drop:
            if (session := self._sessions.pop(other_name, None)) is not None:
                session.close()
        if name not in self._sessions:
            self._sessions[name] = PlaySession(self._lobby(choices["run"]), choices)
        return self._sessions[name].state()

    def on_move(self, name: str, play: int, turn: int, text: str) -> Answer:
        """Apply a reply."""
        session = self._session(name, play)
        session.move(turn, text)
        return session.state()

    def on_hint(self, name: str, play: int, turn: int) -> Answer:
        """Ask the oracle about the current turn."""
        session = self._session(name, play)
        session.ask_hint(turn, *self._oracle(session))
        return session.state()

    def on_judge(self, name: str, play: int) -> Answer:
        """Judge a finished episode."""
        session = self._session(name, play)
        session.judge(*self._oracle(session))
        return session.state()

    def on_next(self, name: str, play: int, seat: int, against: str | None) -> Answer:
        """Begin the episode after number ``play``."""
        session = self._session(name)
        if session.play != play + 1:
            self._session(name, play)
            session.begin(seat, against)
        return session.state()

    def _lobby(self, run: str | None) -> Lobby:
        path = None if run is None else Path(run)
        new_signature = None if path is None else signature(path / CONFIG)
        old_signature, lobby = self._lobbies.get(run, (None, None))
        if lobby is None or old_signature != new_signature:  # first use, or the run was replaced
            self._oracles = {
                key: oracle for key, oracle in self._oracles.items() if key[0] is not lobby
            }
            step_and_answer = (None, None) if path is None else (self.step, self.answer)
            lobby = Lobby(path, step_and_answer[0], self.trusted, step_and_answer[1])
            self._lobbies[run] = new_signature, lobby
        return lobby

    def _session(self, name: str, play: int | None = None) -> PlaySession:
        if name not in self._sessions:
            raise RequestError(404, "this session has ended; begin a new one")
        session = self._sessions[name]
        if play is not None and play != session.play:
            raise RequestError(409, f"episode {play} is not the current one, {session.play}")
        return session

    def _oracle(self, session: PlaySession) -> tuple[Oracle | None, str]:
        lobby, game = session.lobby, session.game
        key = lobby, game.name
        if key not in self._oracles:
            try:
                oracle, note = choose_oracle(game, lobby.oracle(game))
            except HungError:
                oracle = None
                note = f"it takes longer than {ORACLE_SECONDS:g} s to judge a position"
            except SparringError as error:
                oracle, note = None, str(error)
            why = note.removeprefix(f"{game.name}: no regret, as ")
            why = reason_not_searchable(game) or why.removesuffix(" Name one with --oracle.")
            self._oracles[key] = oracle, f"there is no oracle: {why}" if oracle is None else ""
        return self._oracles[key]


Answer = dict[str, Any]


def position(session: InteractiveSession) -> Answer:
    """Return the position as the person's seat sees it.

    Args:
        session: a session, finished or not.
    """
    first_prompt = session.person_turns[0].prompt if session.person_turns else session.prompt
    legal = session.legal
    phase = "failed" if session.episode is None else "over"
    if session.pending is not None:
        phase = "yours"
    return {
        "phase": phase,
        "turn": session.turn_number,
        "told": session.prompt,
        "legal": None if legal is None else list(legal),
        "past": [{"told": turn.prompt, "reply": turn.reply} for turn in session.person_turns],
        "rules": first_prompt
        if reason_not_searchable(session.game)
        else rules_of(session.full_style_game),
        "picture": picture(session, None if session.episode is not None else session.seat),
    }


def picture(session: InteractiveSession, seat: int | None) -> Answer | None:
    """Return the position drawn in both themes and in words; None if it cannot be drawn.

    Args:
        session: a session, finished or not.
        seat: seat of the viewer; None hides nothing.
    """
    play = session.play
    if is_searchable_play(play) and session.full_style_game is not session.game:
        play = session.full_style_game.state_of(play.node)  # its picture has words for people
    if not isinstance(play, Drawable):
        return None
    try:
        with environment_call(session.game):
            drawings: Answer = {theme: play.draw(seat, theme) for theme in THEMES}
            return {**drawings, "said": play.described(seat)}
    except SparringError:
        return None  # the prompt is shown instead


def verdict_data(verdict: Verdict | None) -> Answer | None:
    """Return a verdict as JSON values."""
    if verdict is None:
        return None
    return {
        "actions": list(verdict.actions),
        "values": list(verdict.values),
        "best": [action for action in verdict.actions if action in verdict.best],
        "certainty": verdict.certainty,
        "bound": verdict.bound,
    }


def revealed_end(session: InteractiveSession, episode: Episode) -> Answer:
    """Return a finished episode with all hidden information.

    Args:
        session: a finished session.
        episode: record of its episode, judged or not.
    """
    game, opponent = session.game, session.opponent
    probability_texts = {}
    if opponent is not None and not reason_not_searchable(game):
        probability_texts = policy_probabilities(game, episode, opponent.agent, opponent.name)
    turns = [
        {**_turn(session, turn), "index": number, "thought": probability_texts.get(number, "")}
        for number, turn in enumerate(episode.turns)
    ]
    return {
        "verdict": result_text(game, episode.returns, session.seat),
        "returns": list(episode.returns),
        "ending": "" if reason_not_searchable(game) else ending_text(game, episode, session.seat),
        "turns": turns,
        "cut": episode.cut,
        "drawn": member_line(session.drawn_members) if session.drawn_members else "",
        "seed": session.seed,
    }


def _turn(session: InteractiveSession, turn: Turn) -> Answer:
    return {
        "seat": turn.seat,
        "yours": turn.seat == session.seat,
        "moment": turn.moment,
        "told": turn.prompt,
        "reply": turn.reply,
        "action": turn.action,
        "event": turn.event,
        "oracle": verdict_data(turn.verdict),
        "regret": regret(turn),
    }


def judgement(episode: Episode, seat: int) -> Answer:
    """Return the oracle's judgement of a seat's moves.

    Args:
        episode: a judged episode.
        seat: seat of the person.
    """
    turns = [turn for turn in episode.decisions if turn.seat == seat]
    regrets = [value for turn in turns if (value := regret(turn)) is not None]
    num_best = sum(
        turn.verdict is not None and turn.event == "ok" and turn.action in turn.verdict.best
        for turn in turns
    )
    return {"moves": len(turns), "judged": len(regrets), "best": num_best, "regret": sum(regrets)}
