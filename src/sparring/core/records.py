"""Records that pass between layers: immutable, with keyword arguments; comments give the shapes.

Records of each turn are named tuples, which take a third of the memory of a frozen dataclass.

Legend for shapes: E episodes, N turns (rows of a turn table), M sampled tokens of a batch,
S training sequences, V vocabulary entries.

``PlayerRef`` identifies the player in a seat. A reference survives a conversion to JSON and back.
The text form is the name in metrics, records and pages:

    learner             the latest weights of the trained policy
    policy              the published policy: EMA weights, if a run has them
    demonstrator        the player that the warm-up imitates, such as random legal play
    past-000100         the snapshot taken at step 100
    learner-NAME, policy-NAME, demonstrator-NAME, past-NAME-000100
                        as above, of the policy NAME; without NAME: of the policy ``main``, or, if
                        the run has several policies, of the policy of each seat's role
    bot-NAME            a bot of the run's ``bots``, or the player plug-in NAME
    solver-NAME, person-NAME, endpoint-NAME, mixture-NAME
    any other name      a player that the caller passes, such as ``random`` or ``opponent``

Only ``ref`` parses the text form, for seats in configurations and for records without references.
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
MAIN = "main"  # the default policy; a reference to it has no name
SINGLE_KINDS = ("learner", "policy", "demonstrator")  # each policy has exactly one of each kind
POLICY_KINDS = (*SINGLE_KINDS, "snapshot")  # kinds of players that a policy of the run plays
PREFIXED_KINDS = ("bot", "solver", "person", "endpoint", "mixture")  # text form KIND-NAME
_SNAPSHOT = re.compile(r"past-(?:(.+)-)?([0-9]{6,18})", re.DOTALL)
_MAX_STEP = 10**18  # every step is smaller


@dataclass(frozen=True, slots=True)
class PlayerRef:
    """The player in a seat.

    Args:
        kind: the kind of player.
        name: name of the bot, solver, person, endpoint, mixture or named player. For a learner,
            policy, demonstrator or snapshot: the policy's name, or empty for ``main``.
        step: step of a snapshot; else None.

    Raises:
        UnknownNameError: there is no such kind.
        ConfigError: a name or step is missing, or does not fit the kind.
    """

    kind: PlayerKind
    name: str = ""
    step: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(PlayerKind):
            raise UnknownNameError("kind of player", str(self.kind), get_args(PlayerKind))
        if not isinstance(self.name, str) or not (self.name or self.kind in POLICY_KINDS):
            expected = (
                "a policy's name, or none"
                if self.kind in POLICY_KINDS
                else "a name, such as random"
            )
            raise ConfigError(
                f"PlayerRef: name={quoted(self.name)} does not fit kind {self.kind!r}; give it "
                f"{expected}."
            )
        if self.name == MAIN and self.kind in POLICY_KINDS:
            raise ConfigError(
                f"PlayerRef: a reference to the policy {MAIN!r} needs no name; leave out "
                f"name={MAIN!r}."
            )
        is_step = type(self.step) is int and 0 <= self.step < _MAX_STEP
        if not (is_step if self.kind == "snapshot" else self.step is None):
            expected = "the step it was taken at" if self.kind == "snapshot" else "no step"
            raise ConfigError(
                f"PlayerRef: step={quoted(self.step)} does not fit kind {self.kind!r}; give it "
                f"{expected}."
            )
        if self.kind == "named" and _parse_text(self.name) is not None:
            raise ConfigError(
                f"PlayerRef: {quoted(self.name)} is the name of another kind of player; write "
                f"ref({quoted(self.name)})."
            )

    def __str__(self) -> str:
        """Return the text form."""
        suffix = f"-{self.name}" if self.name else ""
        if self.kind == "snapshot":
            return f"past{suffix}-{self.step:06d}"
        if self.kind in SINGLE_KINDS:
            return f"{self.kind}{suffix}"
        return self.name if self.kind == "named" else f"{self.kind}-{self.name}"

    def for_policy(self, policy: str) -> PlayerRef:
        """Return this kind of player for another policy; bots and others stay unchanged."""
        name = "" if policy == MAIN else policy
        if self.name == name or self.kind not in POLICY_KINDS:  # the most frequent case
            return self
        return replace(self, name=name)

    def to_json(self) -> dict[str, Any]:
        """Return the reference as JSON values, without an empty name or step."""
        name = {"name": self.name} if self.name else {}
        return {"kind": self.kind, **name, **({} if self.step is None else {"step": self.step})}

    @classmethod
    def from_json(cls, value: Any) -> PlayerRef:
        """Return the reference that ``to_json`` wrote.

        Raises:
            ConfigError: the value has another form.
        """
        if not isinstance(value, Mapping) or not {"kind"} <= {*value} <= {"kind", "name", "step"}:
            raise ConfigError(
                f"{quoted(value)} is not a reference to a player; write kind, and a name or step "
                'if it has one: {"kind": "snapshot", "step": 100}.'
            )
        return cls(**value)


def _parse_text(text: str) -> tuple[PlayerKind, str, int | None] | None:
    for single in SINGLE_KINDS:
        if text == single:
            return single, "", None  # type: ignore[return-value]
    match = _SNAPSHOT.fullmatch(text)
    if match is not None and (len(match[2]) == 6 or match[2][0] != "0"):
        return "snapshot", match[1] or "", int(match[2])
    for kind in (*PREFIXED_KINDS, *SINGLE_KINDS):
        if text.startswith(f"{kind}-") and len(text) > len(kind) + 1:
            return kind, text[len(kind) + 1 :], None  # type: ignore[return-value]
    return None


@lru_cache(maxsize=4096)
def _parse_reference(text: str) -> PlayerRef:
    parsed = _parse_text(text)
    return PlayerRef("named", text) if parsed is None else PlayerRef(*parsed)


def ref(player: PlayerRef | str) -> PlayerRef:
    """Return the reference of a player, given as a reference or text.

    Raises:
        ConfigError: the value is neither a reference nor a text.
    """
    if isinstance(player, PlayerRef):
        return player
    if not isinstance(player, str) or not player:
        raise ConfigError(
            f"{quoted(player)} is not a player; write a PlayerRef, or a name such as 'learner' or "
            "'bot-random'."
        )
    return _parse_reference(player)


def refs(players: Iterable[PlayerRef | str]) -> tuple[PlayerRef, ...]:
    """Return the references of players, given as references or texts.

    Raises:
        ConfigError: the value is not a list of players.
    """
    if type(players) is tuple and all(type(player) is PlayerRef for player in players):
        return players
    if isinstance(players, str) or not isinstance(players, Iterable):
        raise ConfigError(
            f"seats={quoted(players)} is not a list of players; write one per seat, such as "
            "('learner', 'bot-random')."
        )
    return tuple(map(ref, players))


def snapshot(step: int, policy: str = MAIN) -> PlayerRef:
    """Return the reference of the snapshot of a policy at a step."""
    return PlayerRef("snapshot", step=step).for_policy(policy)


def bot(name: str) -> PlayerRef:
    """Return the reference of a bot."""
    return PlayerRef("bot", name)


LEARNER = PlayerRef("learner")
PUBLISHED = PlayerRef("policy")
DEMONSTRATOR = PlayerRef("demonstrator")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """An oracle's verdict on one decision: the value of each legal action for the acting seat."""

    actions: tuple[str, ...]  # the legal actions
    values: tuple[float, ...]  # expected return after each action
    best: frozenset[str]  # the actions with the largest value
    certainty: float = 1.0  # in [0, 1]; 1 is exact
    bound: float = 0.0  # largest error of a value, in the game's units
    # entropy of hidden facts given the seat's knowledge, nats; None: no hidden facts, or unknown
    entropy: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SolverResult:
    """A solver's verdict on a decision; actions are in the order of ``State.legal_actions``."""

    values: Sequence[float]  # value of each action for the acting seat, in the game's units
    best: Sequence[bool] | None = None  # which actions are best; None: those with the largest value
    certainty: float = 1.0  # as in Verdict
    bound: float = 0.0  # as in Verdict
    entropy: float | None = None  # as in Verdict


SegmentKind = Literal["prompt", "context", "sampled", "boundary"]
TurnEvent = Literal["ok", "illegal", "unparsable", "memory", "unsent"]
"""Outcome of a reply: a legal action, an illegal one, or unparsable text.

"memory" is not a decision: the seat wrote its memory, and the environment's state did not change.
"unsent" means that the prompt was longer than the model's context: it was not sent, and the episode
is truncated.
"""


class ChatMessage(NamedTuple):
    """A message of a conversation."""

    role: str  # "system", "user" or "assistant"
    content: str


def can_precede_user(messages: Sequence[ChatMessage]) -> bool:
    """Return whether a user's message may follow: a system message, then user and assistant."""
    roles = [message.role for message in messages]
    roles = roles[1:] if roles[:1] == ["system"] else roles
    return roles == ["user", "assistant"] * (len(roles) // 2)


class Observation(NamedTuple):
    """The environment's part of a seat's prompt."""

    prompt: str  # the text that is new to the seat
    # the seat's information state: equal exactly if the seat cannot distinguish two states
    key: str
    # the position as the seat sees it, without its memory; equal views may have different keys
    view: str = ""
    ask: str = ""  # the end of the prompt, such as the legal actions and the form of an answer
    fresh: bool = False  # begins a new conversation, without the earlier prompts
    attempt: int = 0  # from 0, in an environment that a player may try several times (a *trial*)
    # asks the seat for a note to itself (a *reflection*) instead of an action
    note: bool = False
    # messages before the prompt, where a conversation begins: a system message (if any), then user
    # and assistant in turn
    messages: tuple[ChatMessage, ...] = ()
    prefill: str = ""  # the beginning of the reply, which the seat continues

    @property
    def text(self) -> str:
        """The whole text: the new text, then the end of the prompt."""
        return (
            f"{self.prompt}\n\n{self.ask}" if self.prompt and self.ask else self.prompt or self.ask
        )

    @property
    def transcript(self) -> str:
        """The messages, the whole text and the beginning of the reply, for players without ids."""
        if not self.messages and not self.prefill:
            return self.text
        turns = (
            *self.messages,
            ChatMessage("user", self.text),
            ChatMessage("assistant", self.prefill),
        )
        return "\n\n".join(f"{role}: {content}".rstrip() for role, content in turns)


class Segment(NamedTuple):
    """Consecutive token ids of one kind in a seat's conversation.

    ``logprobs`` has one entry per id if ``kind == "sampled"``, otherwise none: the natural log of
    its probability after temperature, top-p and top-k. Only ``sampled`` ids are trained.
    ``support`` has, for each sampled id, the ids that top-p or top-k allowed; it is empty without
    top-p and top-k. ``weights_version`` counts the updates of the weights that sampled
    the segment; a reply that spans an update has several sampled segments.
    """

    kind: SegmentKind
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()
    support: tuple[tuple[int, ...], ...] = ()
    weights_version: int = 0


class Turn(NamedTuple):
    """A seat's reply that was played, or a memory that the seat wrote (event "memory").

    A memory has no legal actions and no action. A memory comes before its decision and has the
    decision's state key and view, with "|memory" appended.

    ``segments`` is empty for players without tokens. ``conversation`` numbers the seat's
    conversations in the episode; each is one training sequence. The environment, the context
    strategy or a renderer that edits history may begin a new one. A turn may hold several sampled
    segments with prompts between them.
    """

    seat: int
    turn_index: int  # index among the seat's turns, from 0
    agent: str  # name of the player in the seat
    state_key: str  # Observation.key
    legal_actions: tuple[str, ...]
    reply: str  # text of the reply
    action: str | None  # the played action; None when the turn forfeits or is retried
    event: TurnEvent
    # reward components by name, from this turn until the seat's next turn
    rewards: Mapping[str, float]
    segments: tuple[Segment, ...] = ()
    conversation: int = 0
    truncated: bool = False  # the reply ran into the token limit
    weights_version: int = 0  # version of the weights that sampled the last token
    view: str = ""  # Observation.view
    # text of this prompt: a notice if the last reply was illegal, then the new observation
    prompt: str = ""
    # number of the decision in the episode, from 0; equal for simultaneous turns
    moment: int = 0
    # verdict on the state before the turn; None: no oracle, or the oracle abstained
    verdict: Verdict | None = None
    # mean return of the seat over playouts that start after the turn; None: no playouts
    playout: float | None = None
    attempt: int = 0  # Observation.attempt; a note belongs to the attempt before it
    candidate: int = 0  # number among the candidates of one prompt, from 0
    # score among the candidates; None: only one candidate, or no score
    score: float | None = None
    # the candidates that were not played: with this turn they form a state group. Each one is a
    # separate conversation with its own reward
    candidates: tuple[Turn, ...] = ()
    # mean return of the seat over playouts that start before the turn; None: no playouts
    playout_before: float | None = None
    # Observation.note: the reply is a note, for example between two attempts, and no decision
    note: bool = False

    @property
    def is_decision(self) -> bool:
        """Whether the turn is a reply to the environment, legal or not."""
        return self.event != "memory" and self.event != "unsent"


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentSpec:
    """An environment as JSON values; ``catalogue.from_spec`` makes the environment again."""

    name: str  # name of the plug-in
    options: Mapping[str, Any] = field(default_factory=dict)  # options of the plug-in, as JSON
    # the rule for illegal replies
    illegal: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""  # name in metrics and records; "" is ``name``
    version: int = 1  # version of the rules and the wording


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """One episode: the turns of all seats in order, and the return of each seat."""

    episode_id: int
    group_id: int
    game: str
    seed: int  # key of the stream from which the deal was drawn; equal within a group
    roles: tuple[str, ...]  # [num_seats] role name per seat
    agents: tuple[str, ...]  # [num_seats] player per seat, in the text form of ``players``
    trained: tuple[bool, ...]  # [num_seats] whether this seat's tokens may be trained
    turns: tuple[Turn, ...]
    returns: tuple[float, ...]  # [num_seats] sum of the game's payoffs, forfeits included
    forfeited_by: int | None = None
    # truncated: ended by max_turns or the model's context, not by its rules
    cut: bool = False
    # the spec of ``game``; None in old files, and for environments without a name
    environment: EnvironmentSpec | None = None
    players: tuple[PlayerRef, ...] = ()  # [num_seats]; if empty, they are read from ``agents``
    # truncated because a prompt outgrew the model's context: a turn is "unsent", and metrics of
    # returns do not count the episode
    has_outgrown_context: bool = False

    @property
    def decisions(self) -> tuple[Turn, ...]:
        """The turns that are decisions, without memories and unsent turns."""
        return tuple(turn for turn in self.turns if turn.is_decision)

    def __post_init__(self) -> None:
        if not self.players:
            object.__setattr__(self, "players", refs(self.agents))


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """The sampling distribution; ``top_k=0`` and ``top_p=1`` mean no truncation."""

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


class SampleRequest(NamedTuple):
    """A request to sample one reply from exact ids with one random stream.

    ``num_cached_ids`` is the number of ids at the beginning that the sampler has already processed
    in this conversation, or 0: a hint that helps to find cached keys and values.
    """

    ids: tuple[int, ...]
    stream: int  # 64-bit stream key; token t of the reply is drawn with counter t
    num_cached_ids: int = 0


class SampledSpan(NamedTuple):
    """A part of a reply that one version of the weights sampled."""

    length: int
    version: int


class SampleResult(NamedTuple):
    """Sampled ids (with the stop id, if any) and their log-probabilities.

    ``spans`` is empty if one version of the weights sampled all ids.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    truncated: bool  # the token limit came before a stop id
    support: tuple[tuple[int, ...], ...] = ()  # as in Segment
    spans: tuple[SampledSpan, ...] = ()  # if the weights changed within the reply


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnTable:
    """Columns over turns, sorted by (episode, seat, turn_index): the input of credit.

    All arrays have shape [N], except ``token_value``. A *trajectory* is the turns of one seat in
    one episode: its rows are contiguous and in order.
    """

    episode: IntArray
    group: IntArray
    trajectory: IntArray  # 0..num_trajectories-1, non-decreasing
    game: IntArray  # index into game_names
    role: IntArray  # index into role_names
    seat: IntArray
    agent: IntArray  # index into agent_names
    turn_index: IntArray
    # sum of the turn's reward components, in the game's units multiplied by environments.N.scale
    reward: FloatArray
    done: BoolArray  # last turn of its trajectory
    state_key: IntArray  # equal exactly when the information states are equal, within a game
    legal: BoolArray
    n_tokens: IntArray  # sampled tokens of the turn
    # last turn of its trajectory in a truncated episode; None if no episode is truncated
    cut: BoolArray | None = None
    # index into action_names of the played action; -1: none
    action: IntArray | None = None
    # index into view_names: equal exactly when the seat saw the same, within a game
    view: IntArray | None = None
    # sum of the sampler's log-probabilities over the turn's sampled tokens, nats
    logprob: FloatArray | None = None
    # the turn's named rewards; they sum to ``reward``
    components: Mapping[str, FloatArray] = field(default_factory=dict)
    # whether the turn has an oracle's verdict; None if no turn has one
    judged: BoolArray | None = None
    # whether the turn is a memory and not a decision; None if no turn is a memory
    memory: BoolArray | None = None
    # Observation.attempt; None if all turns are of attempt 0
    attempt: IntArray | None = None
    # whether the turn is a note after its attempt and not a decision; None if no turn is a note
    note: BoolArray | None = None
    # state_group: equal for the candidates of one prompt; committed: whether the reply was played.
    # Both are present in tables of all candidates. A candidate that was not played is a separate
    # trajectory, after the played trajectories of its seat
    state_group: IntArray | None = None
    committed: BoolArray | None = None
    # the columns below are present if the estimator NEEDS them; see the plug-ins in methods/columns
    value: FloatArray | None = None
    value_after: FloatArray | None = None
    token_value: FloatArray | None = None  # [sum of n_tokens]
    old_logprob: FloatArray | None = None
    reference_logprob: FloatArray | None = None
    process_logprob: FloatArray | None = None
    action_value: FloatArray | None = None
    state_value: FloatArray | None = None
    default_value: FloatArray | None = None
    playout: FloatArray | None = None  # nan: no playouts
    playout_before: FloatArray | None = None
    # the judge's value of each candidate, and whether there is one
    candidate_value: FloatArray | None = None
    candidate_judged: BoolArray | None = None
    opponents: IntArray | None = None  # equal exactly if the same players had the other seats
    failed: BoolArray | None = None  # whether a limit ended the turn's conversation
    wideseek_turns: BoolArray | None = None  # whether WideSeek-R1's own code trains the turn
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
            CreditError: the column is missing; the message says what to declare.
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
    """The output of an advantage estimator.

    ``advantages`` has shape [N] if ``level == "turn"`` (all sampled tokens of a turn have its
    advantage), or [sum of n_tokens] in row order if ``level == "token"``. ``state`` is the
    estimator's running state for the checkpoint, as values of JSON. ``value_targets`` are the
    critic's targets, if a critic is trained: [N], for the state before each turn, or after it if
    the plug-in NEEDS "value_after" and not "value". If the plug-in NEEDS "token_value", the targets
    are [sum of n_tokens], for the state before each token. ``baselines`` [N] is the
    value subtracted from each turn's outcome before any scaling, for the records only. ``trained``
    [N] says which turns are trained (None: all); losses and their means leave out other turns.
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
    """A point estimate with its confidence interval and number of samples."""

    mean: float
    low: float
    high: float
    count: int
    level: float = 0.95
