"""Every record that crosses a layer: frozen, made by keyword, shapes beside the fields, no logic.

Records that are made at every turn of every game are named tuples, which cost a third of a frozen
dataclass.

Legend for shapes: E episodes, N turns (rows of a turn table), M sampled tokens of a batch,
S training sequences, V vocabulary entries.

Who sits in a seat, as a value: ``PlayerRef``.

A reference goes to JSON and back to an equal value. It also has a text form, which is the name that
stands in metrics, records and pages:

    learner             the policy as it is trained, its latest weights
    policy              the policy as it is published: averaged weights, where a run has them
    demonstrator        random legal play or a player's, which the warm-up imitates
    past-000100         the snapshot taken at step 100
    learner-NAME, policy-NAME, demonstrator-NAME, past-NAME-000100
                        the same of the policy NAME, where a run has several; those without a name
                        are the policy ``main``, or in each seat the policy of the seat's role
    bot-NAME            a bot of the run's ``bots``, or the player plug-in NAME
    solver-NAME, person-NAME, endpoint-NAME, mixture-NAME
    any other name      whoever the caller has under this name, such as ``random`` or ``opponent``

The text form is read in one place, ``ref``: where people write seats by hand, and in records of
before references were stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from sparring.core.errors import ConfigError, CreditError, UnknownNameError, quoted

PlayerKind = Literal[
    "learner",
    "policy",
    "demonstrator",
    "snapshot",
    "bot",
    "solver",
    "person",
    "endpoint",
    "mixture",
    "named",
]
MAIN = "main"  # the policy of a run that names none; a reference to it has no name
SINGLE = ("learner", "policy", "demonstrator")  # kinds of which each policy of a run has one
OWN = (*SINGLE, "snapshot")  # kinds that are a policy of the run: the name is the policy's
NAMED = ("bot", "solver", "person", "endpoint", "mixture")  # kinds written KIND-NAME
_SNAPSHOT = re.compile(r"past-(?:(.+)-)?([0-9]{6,18})", re.DOTALL)
_STEPS = 10**18  # steps are below it


@dataclass(frozen=True, slots=True)
class PlayerRef:
    """Who sits in a seat.

    Args:
        kind: what the player is.
        name: of a bot, solver, person, endpoint, mixture or named player; of the policy, for a
            learner, policy, demonstrator or snapshot, where it is not ``main``; else empty.
        step: that a snapshot was taken at; else None.

    Raises:
        UnknownNameError: there is no such kind.
        ConfigError: a name or step is missing, or stands where none belongs.
    """

    kind: PlayerKind
    name: str = ""
    step: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(PlayerKind):
            raise UnknownNameError("kind of player", str(self.kind), get_args(PlayerKind))
        if not isinstance(self.name, str) or not (self.name or self.kind in OWN):
            expected = "a policy's name, or none" if self.kind in OWN else "a name, such as random"
            raise ConfigError(
                f"PlayerRef: name={quoted(self.name)} does not fit kind {self.kind!r}; give it "
                f"{expected}."
            )
        if self.name == MAIN and self.kind in OWN:
            raise ConfigError(
                f"PlayerRef: the policy {MAIN!r} has no name in a reference; leave name={MAIN!r} "
                "out."
            )
        is_step = type(self.step) is int and 0 <= self.step < _STEPS
        if not (is_step if self.kind == "snapshot" else self.step is None):
            expected = "the step it was taken at" if self.kind == "snapshot" else "no step"
            raise ConfigError(
                f"PlayerRef: step={quoted(self.step)} does not fit kind {self.kind!r}; give it "
                f"{expected}."
            )
        if self.kind == "named" and _typed(self.name) is not None:
            raise ConfigError(
                f"PlayerRef: {quoted(self.name)} is the name of another kind of player; write "
                f"ref({quoted(self.name)})."
            )

    def __str__(self) -> str:
        """Return the text form."""
        named = f"-{self.name}" if self.name else ""
        if self.kind == "snapshot":
            return f"past{named}-{self.step:06d}"
        if self.kind in SINGLE:
            return f"{self.kind}{named}"
        return self.name if self.kind == "named" else f"{self.kind}-{self.name}"

    def of(self, policy: str) -> PlayerRef:
        """Return the same player of a policy: ``main`` or another one of the run.

        Who is no policy of the run is returned as it is.
        """
        name = "" if policy == MAIN else policy
        if self.name == name or self.kind not in OWN:  # there are very many of these
            return self
        return replace(self, name=name)

    def to_json(self) -> dict[str, Any]:
        """Return the reference as values of JSON; a name or step that it has not is left out."""
        named = {"name": self.name} if self.name else {}
        return {"kind": self.kind, **named, **({} if self.step is None else {"step": self.step})}

    @classmethod
    def from_json(cls, value: Any) -> PlayerRef:
        """Return what ``to_json`` gave.

        Raises:
            ConfigError: it is something else.
        """
        if not isinstance(value, Mapping) or not {"kind"} <= {*value} <= {"kind", "name", "step"}:
            raise ConfigError(
                f"{quoted(value)} is no reference to a player; write kind, and a name or step "
                'where it has one: {"kind": "snapshot", "step": 100}.'
            )
        return cls(**value)


def _typed(text: str) -> tuple[PlayerKind, str, int | None] | None:
    """Return kind, name and step of a text form; None where it is a name of the caller's own."""
    for single in SINGLE:
        if text == single:
            return single, "", None  # type: ignore[return-value]
    match = _SNAPSHOT.fullmatch(text)
    if match is not None and (len(match[2]) == 6 or match[2][0] != "0"):
        return "snapshot", match[1] or "", int(match[2])
    for kind in (*NAMED, *SINGLE):
        if text.startswith(f"{kind}-") and len(text) > len(kind) + 1:
            return kind, text[len(kind) + 1 :], None  # type: ignore[return-value]
    return None


@lru_cache(maxsize=4096)
def _read(text: str) -> PlayerRef:
    typed = _typed(text)
    return PlayerRef("named", text) if typed is None else PlayerRef(*typed)


def ref(player: PlayerRef | str) -> PlayerRef:
    """Return the reference of a player, who may be given in the text form.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(player, PlayerRef):
        return player
    if not isinstance(player, str) or not player:
        raise ConfigError(
            f"{quoted(player)} is no player; write a PlayerRef, or a name such as 'learner' or "
            "'bot-random'."
        )
    return _read(player)


def refs(players: Iterable[PlayerRef | str]) -> tuple[PlayerRef, ...]:
    """Return the references of players, who may be given in the text form.

    Raises:
        ConfigError: this is no list of players.
    """
    if type(players) is tuple and all(type(player) is PlayerRef for player in players):
        return players
    if isinstance(players, str) or not isinstance(players, Iterable):
        raise ConfigError(
            f"seats={quoted(players)} is no list of players; write one per seat, such as "
            "('learner', 'bot-random')."
        )
    return tuple(map(ref, players))


def snapshot(step: int, policy: str = MAIN) -> PlayerRef:
    """Return the snapshot of a policy that was taken at a step."""
    return PlayerRef("snapshot", step=step).of(policy)


def bot(name: str) -> PlayerRef:
    """Return the bot of this name."""
    return PlayerRef("bot", name)


LEARNER = PlayerRef("learner")
PUBLISHED = PlayerRef("policy")
DEMONSTRATOR = PlayerRef("demonstrator")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What an oracle says of one decision.

    The worth of every legal action to the seat that acts, in the game's units.
    """

    actions: tuple[str, ...]  # the legal actions
    values: tuple[float, ...]  # expected return after each
    best: frozenset[str]  # the actions of the largest value
    certainty: float = 1.0  # in [0, 1]; 1 is exact
    bound: float = 0.0  # how far a value may be from the truth, in the game's units
    # of what is hidden given what the seat knows, nats; None where nothing is, or it is unknown
    entropy: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What a game's solver says of a decision; actions in the order of ``State.legal_actions``."""

    values: Sequence[float]  # what each action is worth to the seat that acts, in the game's units
    best: Sequence[bool] | None = None  # which are the best; None: those of the largest value
    certainty: float = 1.0  # this and the rest as of Verdict
    bound: float = 0.0
    entropy: float | None = None


SegmentKind = Literal["prompt", "context", "sampled", "boundary"]
TurnEvent = Literal["ok", "illegal", "unparsable", "memory", "unsent"]
"""What became of a reply: a legal action, a well-formed but illegal one, or no action at all.

"memory": it was no decision. The seat was asked to write its memory, and the play did not move.
"unsent": the conversation had outgrown the model's context. The model was not asked, and the
episode is truncated there.
"""


class Observation(NamedTuple):
    """What one seat is told at its turn.

    ``told`` is the wording of everything the seat has not been told yet, ``ask`` the question that
    closes it, such as the legal actions and the form of an answer. ``key`` identifies the seat's
    information state: two states have the same key exactly when the seat cannot tell them apart.
    ``view`` is what the seat can see of the position now, without its memory of how it came about:
    equal views may have different keys. ``fresh`` begins a new conversation: what the seat was told
    before is not shown to it again. ``attempt`` counts the attempts of a trial, from 0. ``note``
    says that the seat is asked for a note to itself, as between two attempts, and not to act.
    """

    told: str
    key: str
    view: str = ""
    ask: str = ""
    fresh: bool = False
    attempt: int = 0
    note: bool = False

    @property
    def text(self) -> str:
        """All of it: what is told, then the question."""
        return f"{self.told}\n\n{self.ask}" if self.told and self.ask else self.told or self.ask


class Segment(NamedTuple):
    """A run of token ids of one seat's conversation, of one kind.

    ``logprobs`` has one entry per id when ``kind == "sampled"`` (natural log, under the
    distribution actually sampled from) and is empty otherwise. Only ``sampled`` ids carry loss.
    ``kept`` holds, per sampled id, the ids that truncation (top-p, top-k) left to choose from; it
    is empty when nothing was truncated. ``weights_version`` counts the updates of the weights that
    a sampled run was drawn with; a reply that goes on after an update has several such runs.
    """

    kind: SegmentKind
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()
    kept: tuple[tuple[int, ...], ...] = ()
    weights_version: int = 0


class Turn(NamedTuple):
    """One reply of one seat that was played, or a memory that it wrote (event "memory").

    A memory has no legal actions and no action; it stands before the decision that it was written
    for, whose state key and view it has with "|memory" after them.

    ``segments`` is empty for agents that do not speak in tokens. ``conversation`` numbers the
    conversations of the seat within its episode, each one sequence to train on: it grows where the
    environment or the context strategy begins a new one, and where a renderer edits history. A turn
    may hold several sampled segments, with what its seat was told in between.
    """

    seat: int
    turn_index: int  # own-turn index of the seat, from 0
    agent: str  # name of the agent that sits in the seat
    state_key: str  # Observation.key
    legal_actions: tuple[str, ...]
    reply: str  # what the agent said, as text
    action: str | None  # what was played; None when the turn forfeits or is to be retried
    event: TurnEvent
    # named components earned by this seat from this turn to its next one
    rewards: Mapping[str, float]
    segments: tuple[Segment, ...] = ()
    conversation: int = 0
    truncated: bool = False  # the reply ran into the token limit
    weights_version: int = 0  # of the last sampled run
    view: str = ""  # Observation.view
    # what the seat was told at this turn: news, and a word about its last reply if that was not
    # legal
    told: str = ""
    # number of the decision in the play, from 0; equal for turns taken at once
    moment: int = 0
    # on the state before the turn; None where no oracle judged, or it abstained
    verdict: Verdict | None = None
    # mean return to the seat of games played on from after the turn; None where none were
    playout: float | None = None
    attempt: int = 0  # of a trial, from 0; a reflection belongs to the attempt before it
    candidate: int = 0  # its number among the replies to one prompt, from 0
    # what it was judged by when one of several replies to its prompt was chosen; None where none
    # was, or nothing could judge it
    score: float | None = None
    # the other replies to its prompt, which were not played: with it they are a state group. Each
    # is a conversation of its own, and has what it earned by itself alone
    candidates: tuple[Turn, ...] = ()
    # mean return to the seat of games played on from before the turn; None where none were
    playout_before: float | None = None
    # Observation.note: no decision, but a note that the seat wrote, as between two attempts
    note: bool = False

    @property
    def is_decision(self) -> bool:
        """Whether the seat replied to what the environment asked, legally or not."""
        return self.event != "memory" and self.event != "unsent"


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentSpec:
    """An environment as a value: ``games.catalogue.from_spec`` makes it again, anywhere, the same.

    It goes to JSON and back.
    """

    name: str  # of the plug-in
    options: Mapping[str, Any] = field(default_factory=dict)  # of the plug-in; values of JSON
    # the rule for replies that are no legal action
    illegal: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""  # its name in metrics and records; "" is ``name``
    version: int = 1  # of its rules and wording: another one may play otherwise


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """The turns of all seats of one play of a game, in order, with the returns per seat."""

    episode_id: int
    group_id: int
    game: str
    seed: int  # key of the stream the deal was drawn from; equal within a group
    roles: tuple[str, ...]  # [num_seats] role name per seat
    agents: tuple[str, ...]  # [num_seats] player per seat, in the text form of ``players``
    trained: tuple[bool, ...]  # [num_seats] whether this seat's tokens may carry loss
    turns: tuple[Turn, ...]
    returns: tuple[float, ...]  # [num_seats] sum of the game's payoffs, forfeits included
    forfeited_by: int | None = None
    # truncated: ended by max_turns or the model's context, not by its rules
    cut: bool = False
    # what ``game`` was made from; None in files of before, and for unnamed rules
    environment: EnvironmentSpec | None = None
    players: tuple[PlayerRef, ...] = ()  # [num_seats]; left out, they are read from ``agents``
    # truncated as a conversation outgrew the model's context: a turn is "unsent", and the returns
    # are no result; figures of results leave it out
    has_outgrown_context: bool = False

    @property
    def decisions(self) -> tuple[Turn, ...]:
        """The turns that are decisions: no memories, and none that the model was not asked."""
        return tuple(turn for turn in self.turns if turn.is_decision)

    def __post_init__(self) -> None:
        if not self.players:
            object.__setattr__(self, "players", refs(self.agents))


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """The distribution replies are drawn from; ``top_k=0``, ``top_p=1`` switch truncation off."""

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


class SampleRequest(NamedTuple):
    """One reply to be sampled.

    The exact ids the model must see, and the key of the stream to draw from.

    ``known`` is the length of the prefix the sampler has seen in this conversation (0 when unsure):
    a hint where to look for cached keys and values, never a promise.
    """

    ids: tuple[int, ...]
    stream: int  # 64-bit stream key; draw number t of the reply uses counter t
    known: int = 0


class SampledRun(NamedTuple):
    """Tokens of a reply that were drawn with weights of one version."""

    length: int
    version: int


class SampleResult(NamedTuple):
    """Sampled ids (the stop id included when one was sampled) and their log-probabilities.

    ``runs`` is empty where all were drawn with the weights that the sampler had when it was asked.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    truncated: bool  # the token limit came before a stop id
    kept: tuple[tuple[int, ...], ...] = ()  # as in Segment
    runs: tuple[SampledRun, ...] = ()  # of a reply that went on over a change of weights


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnTable:
    """Columns over turns, sorted by (episode, seat, turn_index): what credit works on.

    All arrays have shape [N] but ``token_value``.

    A *trajectory* is the run of turns of one seat in one episode: rows with equal ``trajectory``
    are contiguous and in order of play.
    """

    episode: IntArray
    group: IntArray
    trajectory: IntArray  # 0..num_trajectories-1, non-decreasing
    game: IntArray  # index into game_names
    role: IntArray  # index into role_names
    seat: IntArray
    agent: IntArray  # index into agent_names
    turn_index: IntArray
    # sum of the turn's reward components, in the game's units times its scale
    # (environments.N.scale)
    reward: FloatArray
    done: BoolArray  # last turn of its trajectory
    state_key: IntArray  # equal exactly when the information states are equal, within a game
    legal: BoolArray
    n_tokens: IntArray  # sampled tokens of the turn
    # last turn of its trajectory in an episode that was truncated; present if any was
    cut: BoolArray | None = None
    # index into action_names of what was played; -1 where nothing was
    action: IntArray | None = None
    # index into view_names: equal exactly when the seat saw the same, within a game
    view: IntArray | None = None
    # sum of the sampler's log-probabilities over the turn's sampled tokens, nats
    logprob: FloatArray | None = None
    # the turn's named rewards; they sum to ``reward``
    components: Mapping[str, FloatArray] = field(default_factory=dict)
    # whether the oracle gave a verdict on the turn; present if it did on any
    judged: BoolArray | None = None
    # whether the turn is no decision but a memory that the seat wrote; present if any is
    memory: BoolArray | None = None
    # attempt of a trial, from 0; present if any turn is of a later one
    attempt: IntArray | None = None
    # whether the turn is no decision but a note after an attempt, of which it is; present if any is
    note: BoolArray | None = None
    # equal exactly for the replies to one prompt, and whether the reply was played; both present in
    # tables of all candidates. What was not played is a trajectory of its own, after those of its
    # seat that were
    state_group: IntArray | None = None
    committed: BoolArray | None = None
    # from here on: present if the estimator NEEDS them; see the slot columns/
    value: FloatArray | None = None
    value_after: FloatArray | None = None
    token_value: FloatArray | None = None  # [sum of n_tokens]
    old_logprob: FloatArray | None = None
    reference_logprob: FloatArray | None = None
    process_logprob: FloatArray | None = None
    action_value: FloatArray | None = None
    state_value: FloatArray | None = None
    default_value: FloatArray | None = None
    playout: FloatArray | None = None  # nan where nothing was played on
    playout_before: FloatArray | None = None
    # what judged the replies to one prompt said of each, and whether anything did
    candidate_value: FloatArray | None = None
    candidate_judged: BoolArray | None = None
    opponents: IntArray | None = None  # equal exactly where the same players sat in the other seats
    failed: BoolArray | None = None  # whether a limit ended the turn's conversation
    wideseek_turns: BoolArray | None = None  # whether WideSeek-R1, as released, trains the turn
    # columns of plug-ins that have no field here
    extra: Mapping[str, FloatArray] = field(default_factory=dict)
    game_names: tuple[str, ...] = ()
    role_names: tuple[str, ...] = ()
    agent_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    view_names: tuple[str, ...] = ()

    def column(self, name: str) -> FloatArray:
        """Return a column that was computed on demand.

        Raises:
            CreditError: it was not; the message says what to declare.
        """
        values: FloatArray | None = self.extra.get(name, getattr(self, name, None))
        if values is None:
            raise CreditError(
                f"The turn table has no column {name!r}; declare NEEDS = {{{name!r}}} in the "
                "module, so that it is computed."
            )
        return values


@dataclass(frozen=True, kw_only=True, slots=True)
class Credit:
    """What an advantage estimator returns.

    ``advantages`` has shape [N] when ``level == "turn"`` (every sampled token of a turn gets its
    turn's value), or [sum of n_tokens] in row order when ``level == "token"``. ``state`` is the
    estimator's running state to be saved with a checkpoint (JSON-serialisable). When a critic is to
    be fitted, ``value_targets`` has shape [N]: before the turns, or after them if the plug-in NEEDS
    "value_after" and not "value"; with "token_value" [sum of n_tokens], before each token.
    ``baselines`` [N] is what was subtracted from what followed each turn, before any scaling: it is
    recorded, and nothing reads it. ``trained`` [N] says which turns carry loss: the tokens of all
    others are left out of every loss, and of what losses are averaged over. None: all carry it.
    """

    advantages: FloatArray
    state: dict[str, Any] = field(default_factory=dict)
    level: Literal["turn", "token"] = "turn"
    value_targets: FloatArray | None = None
    baselines: FloatArray | None = None
    trained: BoolArray | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A point estimate, the ends of its confidence interval, and how much is behind it."""

    mean: float
    low: float
    high: float
    count: int
    level: float = 0.95
