"""Who sits in a seat, as a value: ``PlayerRef``.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from sparring.core.errors import ConfigError, UnknownNameError, quoted

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
            wanted = "a policy's name, or none" if self.kind in OWN else "a name, such as random"
            raise ConfigError(
                f"PlayerRef: name={quoted(self.name)} does not fit kind {self.kind!r}; give it "
                f"{wanted}."
            )
        if self.name == MAIN and self.kind in OWN:
            raise ConfigError(
                f"PlayerRef: the policy {MAIN!r} has no name in a reference; leave name={MAIN!r} "
                "out."
            )
        is_step = type(self.step) is int and 0 <= self.step < _STEPS
        if not (is_step if self.kind == "snapshot" else self.step is None):
            wanted = "the step it was taken at" if self.kind == "snapshot" else "no step"
            raise ConfigError(
                f"PlayerRef: step={quoted(self.step)} does not fit kind {self.kind!r}; give it "
                f"{wanted}."
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
    found = _SNAPSHOT.fullmatch(text)
    if found is not None and (len(found[2]) == 6 or found[2][0] != "0"):
        return "snapshot", found[1] or "", int(found[2])
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
