"""Games of TextArena: free text, judged by the game itself.

TextArena has no list of legal actions. textarena.yaml says for each game how a reply looks.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from pydantic import Field

from sparring.core.errors import ConfigError, GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bridges.base import (
    CALL_SECONDS,
    BridgeEnvironment,
    BridgePlay,
    as_number,
    check_id,
    import_library,
    library_call,
    library_seed,
)
from sparring.environments.reply import listed_reply

TESTED = "0.7.4"
STATED = "stated"  # legal actions are in the game's text
MAX_TURNS = 200  # default limit of replies, where TextArena has none
BOARD, PROMPT, OWN = "GAME_BOARD", "PROMPT", "PLAYER_ACTION"  # types of TextArena's messages


class BriefWording(NamedTuple):
    """A wording in few words, for the tiny model.

    Args:
        pattern: regular expression of the words in a game's messages.
        words: all these words, and those of actions.
        only_board: whether to read only the last board, and not all new messages.
        actions: returns the legal actions from the last board; None: its text states them.
    """

    pattern: str
    words: str
    only_board: bool = True
    actions: Callable[[str], tuple[str, ...]] | None = None


class TextArenaGame(NamedTuple):
    """What TextArena does not say about a game; see textarena.yaml."""

    replies: str | list[str]
    seats: int
    zero_sum: bool


@cache
def known_games() -> Mapping[str, TextArenaGame]:
    """Return the games of textarena.yaml by name."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    table: Any = yaml.safe_load(text)
    zero_sum = table.pop("zero_sum")
    return {
        name: TextArenaGame(replies, seats, name in zero_sum)
        for seats, games in table.items()
        for name, replies in games.items()
    }


def _free_columns(board: str) -> tuple[str, ...]:
    lines = board.partition("---")[2].splitlines()[1:]
    top_row = lines[0].split() if lines else []
    return tuple(f"[col {index}]" for index, cell in enumerate(top_row) if cell == ".")


def _nim_moves(board: str) -> tuple[str, ...]:
    piles = [int(size) for size in re.findall(r"pile \d+: (\d+)", board)]
    return tuple(f"[{pile} {n}]" for pile, size in enumerate(piles) for n in range(1, size + 1))


BRIEF = {
    "ConnectFour": BriefWording(
        r"(?<!\S)[.XO](?!\S)", ". X O col 0 1 2 3 4 5 6", actions=_free_columns
    ),
    "KuhnPoker": BriefWording(
        r"(?<=card is: ')[JQK]|(?<=\[)\w+(?=\])", "J Q K check bet call fold", only_board=False
    ),
    "Nim": BriefWording(r"(?<=: )\d+", " ".join(map(str, range(20))), actions=_nim_moves),
    "TicTacToe": BriefWording(r"\b[0-8OX]\b", "0 1 2 3 4 5 6 7 8 O X"),
}
JUDGED = ("Debate", "GuessWho", "ScenarioPlanning", "TwentyQuestions")  # by an online model
WITH_WORD_LISTS = (  # of nltk, which downloads them
    *("Codenames", "DontSayIt", "Hangman", "LetterAuction", "SpellingBee", "WordChains"),
    *("WordLadder", "WordSearch", "Wordle"),
)
_LIST = re.compile(
    r"(?:available|valid|viable|possible|remaining)[\w ]*(?:moves|actions|hand|cards)[\w ]*:(.*)",
    re.IGNORECASE,
)
_ACTION = re.compile(r"\[[^\[\]]+\]")
_DRAWN = re.compile(r"<([^<>]+)>")


def stated_actions(text: str) -> tuple[str, ...]:
    """Return the actions in brackets of the last list of legal actions in a text; () if none."""
    lists = _LIST.findall(text)
    return tuple(dict.fromkeys(_ACTION.findall(lists[-1]))) if lists else ()


@cache
def _choices(field: str) -> tuple[str, ...]:
    choices: list[str] = []
    for item in field.split(","):
        low, _, high = item.partition("-")
        if not low or not high:
            choices.append(item)
        elif low.isdigit():
            choices += map(str, range(int(low), int(high) + 1))
        else:
            choices += map(chr, range(ord(low), ord(high) + 1))
    return tuple(choices)


def random_text(form: str, stream: Stream) -> str:
    """Return a random reply of a form; see textarena.yaml."""
    alternatives = form.split("|")
    text = alternatives[stream.integer(0, len(alternatives))]
    draws = stream.child("fields")
    parts = _DRAWN.split(text)
    for number in range(1, len(parts), 2):
        choices = _choices(parts[number])
        parts[number] = choices[draws.integer(number, len(choices))]
    return "".join(parts)


def _words(action: str) -> str:
    return " ".join(re.findall(r"\w+", action))


@dataclass(kw_only=True, eq=False)
class TextArena(BridgeEnvironment):
    """A game of TextArena, by its id.

    What: the library's game without wrappers (``-raw``). Each seat reads the messages that are new
    to it. Where the game's text lists the legal actions, a reply must contain one of them, and
    ``illegal`` decides about others. Elsewhere any text is a reply, and the game decides: it asks
    again once, and then the seat loses; if the game would ask for ever, the episode ends with -1
    for the seat and 0 for the others. The figure ``invalid_replies`` counts these replies.
    When to use: to train and measure in the games that other work on language models uses.
    Pitfalls: rewards come at the end. Games without an entry in textarena.yaml cannot draw random
    replies: no warm-up and no random player. A game's exception counts as an invalid reply in games
    for one and two players, and else drops the episode.
    Reference: TextArena (arXiv 2504.11442), version 0.7.4.
    Verified by: tests/bridges/test_textarena.py.

    Args:
        game: id, such as "TicTacToe-v0"; its ending (-train, -raw) is ignored.
        seats: number of seats; 0 (default): the usual number of the game.
        turns: the episode is truncated after this number of replies; 0 (default): 200.
        style: "full" (default): the game's own text. "brief": few words for the tiny model, for
            the games that have them.
        call_seconds: limit of one call into the library; 0: the limit of the run.
    """

    game: str = "TicTacToe-v0"
    seats: Annotated[int, Field(ge=0, le=15)] = 0
    turns: Annotated[int, Field(ge=0, le=100_000)] = 0
    style: Literal["full", "brief"] = "full"
    call_seconds: Annotated[float, Field(ge=0)] = CALL_SECONDS

    name, figures = "textarena", ("invalid_replies",)

    def __post_init__(self) -> None:
        library = import_library("textarena", "textarena", TESTED)
        registry: Mapping[str, Any] = library.envs.registration.ENV_REGISTRY
        self.game_id = self.game.removesuffix("-raw").removesuffix("-train")
        check_id(
            "textarena", self.game_id, (name for name in registry if f"{name}-raw" in registry)
        )
        family = self.game_id.partition("-v")[0]
        _refuse_network(family)
        self.entry, self.brief_wording = known_games().get(family), BRIEF.get(family)
        self.make: Callable[[], Any] = lambda: library.make(f"{self.game_id}-raw")
        self.num_seats = self.seats or (self.entry.seats if self.entry else 2)
        self.max_turns = self.turns or MAX_TURNS
        self.brief = self.style == "brief"
        if self.brief and self.brief_wording is None:
            raise ConfigError(
                f"environments textarena: {self.game_id!r} has no brief wording, which the tiny "
                f"model needs; write style=full and a language model, or one of {', '.join(BRIEF)}."
            )
        self.roles = tuple(f"player_{seat}" for seat in range(self.num_seats))
        self._try_once()

    def _try_once(self) -> None:
        """Begin one play, for the roles and the bounds of payoffs."""
        try:
            play = TextArenaPlay(self, 0)
        except GameError as error:
            raise ConfigError(f"{error} Choose another game.") from error
        names = [play.role_names.get(seat, "") for seat in range(self.num_seats)]
        roles = tuple("_".join(re.findall(r"\w+", name)).lower() for name in names)
        if all(roles) and len(set(roles)) == self.num_seats:
            self.roles = roles
        self.zero_sum = self.entry is not None and self.entry.zero_sum
        self.utility_sum = 0.0 if self.zero_sum else None
        self.cooperative = False
        self.set_payoffs((-1.0, 1.0) if play.has_two_strikes else None)

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of prompts and replies in brief style."""
        assert self.brief_wording is not None
        seats = {f"seat{number}" for number in range(self.num_seats)}
        return tuple(sorted({*self.brief_wording.words.split(), *seats}))

    def reset(self, stream: Stream) -> TextArenaPlay:
        """Return a new play."""
        return TextArenaPlay(self, library_seed(stream))


def _refuse_network(family: str) -> None:
    if family in JUDGED:
        raise ConfigError(
            f"environments textarena: {family} needs a network for its judge, a language model, so "
            "no seed binds; choose another game."
        )
    if family in WITH_WORD_LISTS:
        try:
            import_library("nltk", "textarena", TESTED).data.find("corpora/words")
        except LookupError:
            raise ConfigError(
                f"environments textarena: {family} needs a network once, for word lists of nltk; "
                "write python -c 'import nltk; nltk.download(\"words\")', or choose another game."
            ) from None


class TextArenaPlay(BridgePlay):
    """A play of a game of TextArena."""

    rules: TextArena

    def begin(self) -> None:
        """Make and reset the game."""
        seats = self.rules.num_seats
        self.library = self.rules.make()
        self.library.reset(num_players=seats, seed=self.seed)
        state = self.library.state
        self.role_names: Mapping[int, str] = dict(state.role_mapping or {})
        self.has_two_strikes = type(state).__name__ in ("SinglePlayerState", "TwoPlayerState")
        self.num_invalid, self._strikes = [0] * seats, [0] * seats
        self._new: list[list[tuple[str, str]]] = [[] for _ in range(seats)]  # (type, text)
        self._board, self._rules_text = [""] * seats, [""] * seats
        self._faulty = getattr(self, "_faulty", frozenset[int]())
        self._receive()
        self.first_texts = repr(self._new)

    def _receive(self) -> None:
        state = self.library.state
        self._seat = int(state.current_player_id)
        for seat in range(self.rules.num_seats):
            messages, state.observations[seat] = state.observations[seat], []
            for sender, text, kind in messages:
                if sender == seat and kind.name == OWN:
                    continue  # the seat's own reply is in its conversation
                if kind.name == BOARD:
                    self._board[seat] = text
                elif kind.name == PROMPT:
                    self._rules_text[seat] = text
                speaker = "" if sender < 0 else f"[{self.role_names.get(sender, sender)}] "
                self._new[seat].append((kind.name, f"{speaker}{text}"))
                self.add_to_knowledge(seat, f"{sender} {text}")

    def due(self) -> tuple[int, ...]:
        """Return the seat to reply."""
        return () if self.done else (self._seat,)

    def observe(self, seat: int) -> Observation:
        """Return the messages that are new to a seat."""
        key = self.key(seat)
        brief = self.rules.brief_wording
        if self.rules.brief and brief is not None:
            kinds = [(BOARD, self._board[seat])] if brief.only_board else self._new[seat]
            text = " ".join(text for kind, text in kinds if kind != PROMPT)
            text = _LIST.sub("", text) if brief.only_board else text
            prompt = " ".join([f"seat{seat}", *re.findall(brief.pattern, text)])
            return Observation(prompt=prompt, key=key, view=prompt if brief.only_board else "")
        prompt = "\n".join(text for _, text in self._new[seat])
        board = self._board[seat]
        view = f"{self._rules_text[seat]}\n{board}" if board else ""
        return Observation(prompt=prompt or "It is your turn.", key=key, view=view)

    def _actions(self, seat: int) -> dict[str, str]:
        """Return the game's text of each legal action, by its word or text for the seat."""
        entry, brief = self.rules.entry, self.rules.brief_wording
        if entry is None:
            return {}
        if brief is not None and brief.actions is not None:
            actions = brief.actions(self._board[seat])
        elif entry.replies == STATED:
            actions = stated_actions(self._board[seat])
        else:
            actions = () if isinstance(entry.replies, str) else tuple(entry.replies)
        return {_words(action) if self.rules.brief else action: action for action in actions}

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the actions that the game's text states; None: the game judges any text."""
        return tuple(self._actions(seat)) or None

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random reply of the game's form."""
        entry = self.rules.entry
        if entry is None:
            raise GameError(
                f"{self.rules.game_id}: TextArena lists no legal actions, and Sparring knows no "
                "form of replies of this game. Write warmup.updates=0 and use no random player, or "
                "add the game to environments/bridges/textarena.yaml."
            )
        form = entry.replies if isinstance(entry.replies, str) else "|".join(entry.replies)
        return random_text("[skip]" if form == STATED else form, stream)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the legal action in a reply; where the game judges, the reply itself."""
        actions = self.legal(seat)
        return reply if actions is None else listed_reply(actions, reply, exact)

    def advance(self, replies: Mapping[int, str]) -> None:
        """Give the reply to the game."""
        ((seat, reply),) = replies.items()
        self._new[seat] = []
        if len(self.steps) in self._faulty:
            self.library.state.set_invalid_move(reason="The reply could not be read.")
            done, _ = self.library.state.step()
        else:
            done, _ = self.library.step(self._actions(seat).get(reply, reply))
        is_second = self._count_invalid(seat)
        self.add_to_knowledge(seat, reply)
        self._receive()
        self.done = bool(done)
        if is_second and not self.done and self._seat == seat:  # the game would ask for ever
            self.done = True
            self.returns = tuple(-1.0 * (index == seat) for index in range(self.rules.num_seats))
        elif self.done:
            rewards, _ = self.library.close()
            where = f"{self.rules.game_id}: the reward of a seat"
            self.returns = tuple(
                as_number((rewards or {}).get(index, 0.0), where)
                for index in range(self.rules.num_seats)
            )

    def _count_invalid(self, seat: int) -> bool:
        """Count an invalid reply, and return whether it is the seat's second one in a row."""
        state = self.library.state
        texts = [text for _, text, kind in state.observations[seat] if kind.name == "GAME_ADMIN"]
        has_lost = state.game_info[seat].get("invalid_move", False)
        is_invalid = bool(has_lost or any("invalid move" in text for text in texts))
        self.num_invalid[seat] += is_invalid
        self._strikes[seat] = self._strikes[seat] + 1 if is_invalid else 0
        return self._strikes[seat] > 1

    def recover(self, replies: Mapping[int, str]) -> bool:
        """Count an exception of the game as an invalid reply, in games with such a rule."""
        if not self.has_two_strikes:
            return False
        self._faulty |= {len(self.steps)}
        self.replay()
        with library_call(self, "step"):
            self.advance(replies)
        return True

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the number of invalid replies of each seat."""
        return {"invalid_replies": tuple(map(float, self.num_invalid))}

    def copy_library(self) -> bool:
        """Copy the game."""
        self.library = copy.deepcopy(self.library)
        for name in ("num_invalid", "_strikes", "_board", "_rules_text"):
            setattr(self, name, list(getattr(self, name)))
        self._new = [list(messages) for messages in self._new]
        return True


def library_ids() -> list[str]:
    """Return the ids of TextArena, without those of the same game with other settings."""
    registry = import_library("textarena", "textarena", TESTED).envs.registration.ENV_REGISTRY
    return [name for name in registry if name.endswith("-v0") and f"{name}-raw" in registry]


textarena = TextArena
