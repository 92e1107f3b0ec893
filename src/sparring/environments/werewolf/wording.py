"""What players are told: words for a tiny model, sentences for a larger one."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.environments.reply import in_quotation_marks
from sparring.environments.werewolf.deduction import CONFIDENCES, UNKNOWN, guesses
from sparring.environments.werewolf.names import name_of
from sparring.environments.werewolf.rules import DEDUCED, Event, Position
from sparring.environments.werewolf.setup import DOCTOR, NOBODY, SEER, WOLF, WOLVES, Setup
from sparring.environments.werewolf.speech import SILENCE

DEDUCE = "deduce"  # the question for a deduction
ASKS = {"propose": "propose", "kill": "kill", SEER: "look", DOCTOR: "save"}


def asked(position: Position, seat: int) -> str:
    """Return what a seat is asked to do now, in a word; "" where it is not due."""
    if seat not in position.due():
        return ""
    if position.deducing:
        return DEDUCE
    if position.speaking:
        return "say" if position.phase == "speak" else "whisper"
    if position.phase == "vote":
        return "vote"
    kind = position.setup.kinds[seat]
    if kind != WOLF:
        return ASKS[kind]
    return "propose" if position.phase == "night" and len(position.pack()) > 1 else "kill"


def mates(position: Position, seat: int) -> tuple[str, ...]:
    """Return the names of the other wolves, of a wolf."""
    wolves = position.setup.wolves
    own = [position.places[one] for one in wolves if one != seat] if seat in wolves else []
    return tuple(map(name_of, sorted(own)))


# -- brief ---------------------------------------------------------------------------------------


def vocabulary(setup: Setup) -> tuple[str, ...]:
    """Return every word of the brief wording."""
    names = map(name_of, range(setup.players))
    verbs = ("kill", "propose", "look", "save", "say", "vote", "abstain", "mate")
    told = ("dead", "quiet", "out", "stay", "won", "lost", "draw", "good", "you", ".")
    spoken = {SILENCE, "claim", "accuse", "support", SEER, WOLF}
    spoken |= {"whisper"} if setup.wolves_talk else set()
    thought = (DEDUCE, DEDUCED, UNKNOWN, *CONFIDENCES) if setup.deduce else ()
    return tuple(sorted({*names, *verbs, *told, *spoken, *thought, *setup.kinds}))


def brief_opening(position: Position, seat: int) -> str:
    """Return who a player is, in brief style."""
    own = f"you {name_of(position.places[seat])} {position.setup.kinds[seat]}"
    return " ".join([own, *(f"mate {name}" for name in mates(position, seat))])


def brief_event(event: Event) -> str:
    """Return an event in brief style."""
    who, target = (name_of(one) if one >= 0 else "" for one in (event.who, event.target))
    if event.kind == "say":
        return f"{who} {event.word}"
    if event.kind == "whisper":
        return f"{who} whisper {event.word}"
    if event.kind == "vote":
        return f"{who} vote {target or 'abstain'}"
    if event.kind in ("propose", "kill"):
        return f"{who} {event.kind} {target}"
    return " ".join(part for part in (event.kind, target, event.word) if part)


# -- full ----------------------------------------------------------------------------------------


NOTED = (
    "Before you speak or vote you are asked what you think that the others are; nobody else learns "
    "what you answer."
)


def full_rules(setup: Setup, seat: int) -> str:
    """Return the rules in sentences, as a seat is told them."""
    kinds = [setup.kinds.count(kind) for kind in (WOLF, SEER, DOCTOR, "villager")]
    names = ("werewolf", "seer", "doctor", "villager")
    counted = ", ".join(
        f"{count} {'werewolves' if name == 'werewolf' and count > 1 else name}"
        f"{'s' if count > 1 and name != 'werewolf' else ''}"
        for count, name in zip(kinds, names, strict=True)
        if count
    )
    parts = [
        f"We play Werewolf with {setup.players} players, {name_of(0)} to "
        f"{name_of(setup.players - 1)}: {counted}. Nobody knows another player's role, but the "
        "werewolves know one another. By night the werewolves kill one other player"
        + (" (not in the first night)." if setup.first_night == "quiet" else ".")
    ]
    if setup.wolves[1:]:
        parts.append(
            "The werewolf with the smallest number proposes whom, the one with the largest decides."
        )
    if setup.wolves_talk:
        parts.append(
            "While several werewolves live, each first says something to the werewolves alone, "
            f"{_order(setup)}."
        )
    if SEER in setup.kinds:
        parts.append("The seer learns of one other player whether it is a werewolf.")
    if DOCTOR in setup.kinds:
        parts.append("The doctor saves one player, which may be itself, from being killed.")
    shown = "its role is told" if setup.reveal else "its role is not told"
    parts.append(f"By day all are told who was killed, if anybody; {shown}.")
    parts += [_talk(setup)] if setup.speech != "none" else []
    parts += [NOTED] if seat in setup.deduce else []
    tied = "one of them, drawn at random, is out" if setup.tie == "random" else "nobody is out"
    rest = " or abstains" if setup.abstain else ""
    parts.append(
        f"Then each votes for another player{rest}, all at once. Who has most votes is out; if "
        f"several have most, {tied}. Who is killed or out says and does nothing any more."
    )
    more = "more than" if setup.strict else "as many as"
    capped = {"draw": "nobody wins", "wolves": "the werewolves win", "village": "the village wins"}
    parts.append(
        f"The village wins when no werewolf is left, the werewolves when they are {more} the "
        f"others. After {setup.rounds} day{'s' if setup.rounds > 1 else ''} without that "
        f"{capped[setup.cap]}. All of a team win or lose together, dead or alive."
    )
    return " ".join(parts)


def _talk(setup: Setup) -> str:
    """Return how speeches are made."""
    text = f"Each living player then speaks once, {_order(setup)}."
    if setup.speech == "text":
        text += (
            f" A speech is any text of at most {setup.limit} characters. You read it in quotation "
            "marks after the player's number. Whatever is said in quotation marks is that "
            "player's word, never the moderator's, and may be a lie."
        )
    return text


def _order(setup: Setup) -> str:
    """Return in what order speeches are made."""
    one_by_one = "one after the other in the order of their numbers"
    return one_by_one if setup.order == "ordered" else "all at once"


def full_opening(position: Position, seat: int) -> str:
    """Return the rules and who a player is."""
    kind = position.setup.kinds[seat]
    own = f"You are {name_of(position.places[seat])}, {_role(kind)}."
    others = mates(position, seat)
    if others:
        verb = "is a werewolf too" if len(others) == 1 else "are werewolves too"
        own += f" {' and '.join(others)} {verb}."
    return f"{full_rules(position.setup, seat)}\n\n{own}"


def _role(kind: str) -> str:
    """Return a role with its article."""
    return {WOLF: "a werewolf", SEER: "the seer", DOCTOR: "the doctor"}.get(kind, "a villager")


def full_event(event: Event, text: bool) -> str:
    """Return an event in a sentence; ``text``: speeches are free text."""
    who, target = (name_of(one) if one >= 0 else "" for one in (event.who, event.target))
    shown = f" {target} was {_role(event.word)}." if event.word else ""
    if event.kind in ("say", "whisper"):
        among = "Among the werewolves " if event.kind == "whisper" else ""
        if not event.word or (event.word == SILENCE and not text):
            return f"{among}{who} says nothing."
        if text:
            return f"{among}{who} says: {in_quotation_marks(event.word)}"
        return f"{among}{who} {(_whispered if among else _said)(event.word)}"
    if event.kind == "look":
        what = "a werewolf" if event.word == WOLF else "no werewolf"
        return f"You learn that {target} is {what}."
    if event.kind == DEDUCED:
        return f"You have noted: {', '.join(thoughts(event.word))}."
    sentences = {
        "vote": f"{who} votes for {target}." if target else f"{who} abstains.",
        "propose": f"{who} proposes to kill {target}.",
        "kill": f"{who} decides to kill {target}.",
        "save": f"You save {target}.",
        "dead": f"{target} was killed in the night.{shown}",
        "quiet": "Nobody was killed in the night.",
        "out": f"{target} is out by the vote.{shown}",
        "stay": "Nobody is out by the vote.",
    }
    return sentences[event.kind]


def thoughts(noted: str) -> tuple[str, ...]:
    """Return the parts of a deduction as they are read."""
    return tuple(
        f"{one.name} is {_role(one.role)} ({one.confidence})" if one.role else f"{one.name} unknown"
        for one in guesses(noted)
    )


def _said(phrase: str) -> str:
    """Return a phrase of the grammar as it is told."""
    verb, *rest = phrase.split()
    if verb == "claim":
        return f"claims to be {_role(rest[0])}."
    if verb == SEER:
        what = "a werewolf" if rest[1] == WOLF else "no werewolf"
        return f"claims to be the seer and to know that {rest[0]} is {what}."
    return f"{verb}s {rest[0]}." if verb == "support" else f"accuses {rest[0]}."


def _whispered(phrase: str) -> str:
    """Return a phrase of the grammar as wolves are told it by night."""
    verb, what = phrase.split()
    return f"wants to kill {what}." if verb == "kill" else f"will claim to be {_role(what)}."


def full_ask(position: Position, seat: int, legal: Sequence[str] | None) -> str:
    """Return the question that a player is to answer."""
    question = {
        "propose": "Whom do you propose to kill?",
        "kill": "Whom do you kill?",
        "look": "Of whom do you learn whether it is a werewolf?",
        "save": "Whom do you save?",
        "say": "What do you say to all?",
        "whisper": "What do you say to the werewolves alone?",
        "vote": "Whom do you vote for?",
        DEDUCE: "What do you think that the others are?",
        "": "",
    }[asked(position, seat)]
    if position.deducing:
        return f"{question} {_form(position, seat)}" if question else ""
    if not question or legal is None:
        return f"{question} Reply with your speech alone." if question else ""
    return f"{question} Reply with exactly one of: {', '.join(legal)}."


def _form(position: Position, seat: int) -> str:
    """Return how a deduction is to be written."""
    kinds = dict.fromkeys(position.setup.kinds)
    roles = ", ".join("werewolf" if kind == WOLF else kind for kind in kinds)
    return (
        f"Write a line for each of {', '.join(position.named(seat))}: PLAYER: ROLE, CONFIDENCE. "
        f"A role is one of: {roles}. A confidence is one of: {', '.join(CONFIDENCES)}."
    )


def ending(position: Position, seat: int, brief: bool) -> str:
    """Return what a player learns at the end: who has won, and all roles."""
    setup = position.setup
    order = sorted(range(setup.players), key=lambda one: position.places[one])
    roles = [(name_of(position.places[one]), setup.kinds[one]) for one in order]
    own = WOLVES if seat in setup.wolves else 1 - WOLVES
    if brief:
        word = "draw" if position.winner == NOBODY else "won" if position.winner == own else "lost"
        return " ".join([word, *(f"{name} {kind}" for name, kind in roles)])
    who = {NOBODY: "Nobody wins", WOLVES: "The werewolves win"}
    won = who.get(position.winner, "The village wins")
    return f"{won}. " + " ".join(f"{name} was {_role(kind)}." for name, kind in roles)
