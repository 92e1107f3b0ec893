"""A stored episode as text: prompt, reply, tokens and credit of every turn.

`sparring show` prints the text as lines; the template ``play.html`` makes a page of it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparring.core.errors import RunError, SparringError, quoted
from sparring.core.records import MAIN, Episode, Turn, Verdict, ref
from sparring.environments.openspiel.people import list_actions
from sparring.methods.oracles.judge import regret
from sparring.play.replay import ENDS, Conversation, is_unsent_turn
from sparring.play.store import Credits

INVALID_RECORD_ERRORS = (ValueError, TypeError, LookupError, OverflowError, AttributeError)
WIDTH = 100  # columns of printed lines
LABEL = 10  # columns of a line's label
UNSENT = "not sent: longer than the model's context"
INCOMPLETE = "\ufffd"  # what a decoder returns for an incomplete character
WINDOW = 32  # tokens that are decoded together
Decode = Callable[[str, Sequence[int]], list[str]]  # (agent, ids) -> a text per id


class Token(NamedTuple):
    """A sampled token; its text is its id if there is no tokenizer."""

    text: str
    probability: float
    entropy: float | None


class ReplyText(NamedTuple):
    """A reply as text; fields that do not apply are empty.

    Attributes:
        label: "reply", or "memory" if the seat wrote its memory.
        reply: text of the reply.
        event: "illegal" or "unparsable".
        truncated: whether it reached the token limit.
        unsent: whether the prompt was not sent, being longer than the model's context.
        played: the action that was played instead.
        tokens: the tokens that are shown.
        num_tokens: number of sampled tokens.
        facts: versions of the weights, rewards and score, by name.
        credit: advantage and baselines of the reply, in words.
        sign: "gain" or "loss" by the sign of its advantage.
    """

    label: str
    reply: str
    event: str
    truncated: bool
    unsent: bool
    played: str
    tokens: list[Token]
    num_tokens: int
    facts: dict[str, str]
    credit: str
    sign: str


class TurnText(NamedTuple):
    """A turn as text: its number in the episode, its reply, and the other candidates."""

    number: int
    turn: Turn
    role: str
    prompt: str
    legal: str
    reply: ReplyText
    oracle: str
    others: list[ReplyText]


def turn_texts(
    episode: Episode,
    credits: Credits,
    decode: Decode | None,
    numbers: Sequence[int] | None = None,
    max_tokens: int | None = None,
) -> Iterator[TurnText]:
    """Yield the turns of an episode as text.

    Args:
        episode: the episode.
        credits: rows of credit of its replies.
        decode: returns the texts of tokens; None shows ids.
        numbers: numbers of the turns to show; None: all.
        max_tokens: largest number of shown tokens per reply; None: all.
    """
    has_prompts = any(turn.prompt for turn in episode.turns) or episode.environment is not None
    no_prompt = "(nothing)" if has_prompts else "(not recorded: an older version wrote this file)"

    def text_of(turn: Turn) -> ReplyText:
        credit = credits.get((turn.seat, turn.turn_index, turn.candidate))
        return _reply_text(turn, credit, decode, max_tokens)

    for number in range(len(episode.turns)) if numbers is None else numbers:
        turn = episode.turns[number]
        yield TurnText(
            number=number,
            turn=turn,
            role=episode.roles[turn.seat],
            prompt=turn.prompt or no_prompt,
            legal=list_actions(turn.legal_actions) if turn.is_decision else "",
            reply=text_of(turn),
            oracle="" if turn.verdict is None else _verdict_text(turn, turn.verdict),
            others=[text_of(other) for other in turn.candidates],
        )


def _reply_text(
    turn: Turn, credit: Mapping[str, Any] | None, decode: Decode | None, max_tokens: int | None
) -> ReplyText:
    segments = [segment for segment in turn.segments if segment.kind == "sampled"]
    pairs = [pair for part in segments for pair in zip(part.ids, part.logprobs, strict=True)]
    entropies = (credit["entropies"] if credit is not None else None) or [None] * len(pairs)
    tokens = list(zip(pairs, entropies, strict=True))[:max_tokens]
    ids = [index for (index, _), _ in tokens]
    texts = list(map(str, ids)) if decode is None else decode(turn.agent, ids)
    is_memory = turn.event == "memory"
    advantage = credit["advantage"] if credit is not None and credit["selected"] else 0.0
    facts = {
        "weights": _weights_text(turn),
        "rewards": ", ".join(f"{name} {value:+.4g}" for name, value in turn.rewards.items()),
        "score": "" if turn.score is None else f"{turn.score:+.4g}",
    }
    return ReplyText(
        label="memory" if is_memory else "reply",
        reply=turn.reply,
        event=turn.event if turn.event in ("illegal", "unparsable") else "",
        truncated=turn.truncated and turn.event != "unsent",
        unsent=is_unsent_turn(turn),
        played="" if turn.action == turn.reply or is_memory else turn.action or "nothing",
        tokens=[
            Token(text, math.exp(logprob), entropy)
            for text, ((_, logprob), entropy) in zip(texts, tokens, strict=True)
        ],
        num_tokens=len(pairs),
        facts=facts,
        credit="" if credit is None else credit_words(credit),
        sign="gain" if advantage > 0 else "loss" if advantage < 0 else "",
    )


def _verdict_text(turn: Turn, verdict: Verdict) -> str:
    pairs = sorted(zip(verdict.actions, verdict.values, strict=True), key=lambda pair: -pair[1])
    values_text = ", ".join(f"{action} {value:+.4g}" for action, value in pairs[:6])
    return f"{values_text}{', ...' if len(pairs) > 6 else ''}; regret {regret(turn):.4g}"


def _weights_text(turn: Turn) -> str:
    """Return which weights sampled which tokens of a reply; "" if all are of one version."""
    segments = [segment for segment in turn.segments if segment.kind == "sampled"]
    if len({segment.weights_version for segment in segments}) < 2:
        return ""
    first, *others = ((len(segment.ids), segment.weights_version) for segment in segments)
    other_texts = [f"of {version} updates for the next {count}" for count, version in others]
    return ", ".join([f"of {first[1]} updates for the first {first[0]} tokens", *other_texts])


def credit_words(row: Mapping[str, Any]) -> str:
    """Return the credit of a turn in words."""
    if not row["selected"]:
        return "not trained on: selection dropped it, or the step had enough episodes"
    parts = [f"advantage {row['advantage']:+.4g}"]
    names = {"baseline": "baseline", "value": "value", "value_target": "value target"}
    parts += [f"{label} {row[name]:+.4g}" for name, label in names.items() if row[name] is not None]
    if row["token_advantages"]:
        parts.append(f"per token {', '.join(f'{value:+.3g}' for value in row['token_advantages'])}")
    return ", ".join(parts) + (", replayed" if row["replayed"] else "")


def seat_texts(episode: Episode) -> list[tuple[str, str, str]]:
    """Return (role, player, return) of each seat as text."""
    seats = zip(episode.roles, episode.agents, episode.trained, episode.returns, strict=True)
    return [
        (role, f"{agent}{', trained' if trained else ''}", f"{value:+g}")
        for role, agent, trained, value in seats
    ]


def early_endings(episode: Episode) -> list[str]:
    """Return the reasons why an episode ended early."""
    endings = []
    if episode.forfeited_by is not None:
        endings.append(f"forfeited by {episode.roles[episode.forfeited_by]}")
    if episode.has_outgrown_context:
        unsent_seats = [turn.seat for turn in episode.turns if turn.event == "unsent"]
        roles = " and ".join(episode.roles[seat] for seat in unsent_seats)
        endings.append(
            f"truncated, without a result: the prompt of {roles} outgrew the model's context"
        )
    elif episode.cut:
        endings.append("truncated by the limit of turns")
    return endings


def episode_lines(
    step: int,
    episode: Episode,
    credit: Credits,
    decode: Decode | None,
    positions: Sequence[str] = (),
    conversations: Sequence[Conversation] = (),
) -> list[str]:
    """Return an episode as lines.

    Args:
        step: the step of the episode.
        episode: the episode.
        credit: rows of credit of its replies.
        decode: returns the texts of tokens; None shows ids.
        positions: the position in words before each turn and at the end; empty if unknown.
        conversations: conversations with their ends; empty if unknown.

    Raises:
        RunError: its record is invalid.
    """
    heading = f"Episode {episode.episode_id} of {episode.game}, step {step}, group"
    lines = [f"{heading} {episode.group_id}"]
    ends = {
        conversation.turns[-1]: ENDS[conversation.end]
        for conversation in conversations
        if conversation.end != "over"
    }
    try:
        if (spec := episode.environment) is not None:
            options = ", ".join(f"{name}={value}" for name, value in spec.options.items())
            lines.append(
                f"{spec.name}{f' with {options}' if options else ''}; after an illegal "
                f"reply: {spec.illegal.get('rule', '')}"
            )
        lines += [
            f"  {role}: {player}, return {value}" for role, player, value in seat_texts(episode)
        ]
        lines += [f"  {ending}" for ending in early_endings(episode)]
        for text in turn_texts(episode, credit, decode):
            position = positions[text.number] if positions else ""
            lines += ["", *_turn_lines(text, position, decode is not None)]
            lines += _label_lines("ended", ends.get(text.number, ""))
    except INVALID_RECORD_ERRORS as error:
        raise RunError(
            f"Episode {episode.episode_id} of step {step} is an invalid record "
            f"({quoted(str(error))})."
        ) from error
    return [*lines, "", *_label_lines("end", positions[-1])] if positions else lines


def _turn_lines(text: TurnText, position: str, is_decoded: bool) -> list[str]:
    turn = text.turn
    suffix = f", conversation {turn.conversation}" if turn.conversation else ""
    lines = [f"[{turn.moment}] {text.role} ({turn.agent}){suffix}"]
    lines += _label_lines("now", position) + _label_lines("prompt", text.prompt)
    lines += _label_lines("legal", text.legal) if turn.is_decision else []
    lines += _reply_lines(text.reply, is_decoded) + _label_lines("oracle", text.oracle)
    for candidate, other in zip(turn.candidates, text.others, strict=True):
        lines += [f"    not played, candidate {candidate.candidate}"]
        lines += _reply_lines(other, is_decoded)
    return lines


def _reply_lines(reply: ReplyText, is_decoded: bool) -> list[str]:
    words = f"{reply.reply!r}{f', {reply.event}' if reply.event else ''}"
    words += ", truncated" if reply.truncated else ""
    words += f"   -> {reply.played} was played" if reply.played else ""
    words += f" ({UNSENT})" if reply.unsent else ""
    tokens = "  ".join(
        f"{repr(text) if is_decoded else text} p={probability:.3g}"
        f"{'' if entropy is None else f' H={entropy:.2f}'}"
        for text, probability, entropy in reply.tokens
    )
    lines = _label_lines(reply.label, words) + _label_lines("tokens", tokens)
    for name, fact in reply.facts.items():
        lines += _label_lines(name, fact or ("none" if name == "rewards" else ""))
    return lines + _label_lines("credit", reply.credit)


def _label_lines(label: str, text: str) -> list[str]:
    """Return a text as labelled and wrapped lines; [] for an empty text."""
    if not text:
        return []
    first_indent, indent = f"    {label:<{LABEL - 2}}", " " * (LABEL + 2)
    lines: list[str] = []
    for line in text.split("\n"):
        parts = textwrap.wrap(
            line,
            WIDTH - len(indent),
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=False,
        )
        lines += [
            f"{indent if lines or number else first_indent}{part}".rstrip()
            for number, part in enumerate(parts or [""])
        ]
    return lines


def endings_lines(episode: Episode, conversations: Sequence[Conversation]) -> list[str]:
    """Return a line for each seat that says how its conversations ended."""
    ends_by_seat: dict[int, list[str]] = {}
    for conversation in conversations:
        ends_by_seat.setdefault(conversation.seat, []).append(conversation.end)
    return [
        f"{episode.roles[seat]} ended: {', '.join(ends)}"
        for seat, ends in sorted(ends_by_seat.items())
        if set(ends) != {"over"}
    ]


def listing_rows(episodes: Sequence[Episode]) -> list[tuple[str, ...]]:
    """Return a table of the episodes of a step; the first row is the header."""
    header = ("episode", "environment", "seats", "returns", "turns", "illegal")
    rows: list[tuple[str, ...]] = [header]
    for episode in episodes:
        num_illegal = sum(turn.event != "ok" for turn in episode.decisions)
        returns = " ".join(f"{value:+g}" for value in episode.returns)
        seats, turns = " ".join(episode.agents), len(episode.turns)
        number = str(episode.episode_id)
        rows.append((number, episode.game, seats, returns, str(turns), str(num_illegal)))
    return rows


def token_decoder(run: Path) -> tuple[Decode | None, str]:
    """Return (decoder of a run's tokens, ""), or (None, reason) if there is no tokenizer."""
    from sparring.run.folder import load_tokenizers

    try:
        tokenizers = load_tokenizers(run)
    except SparringError as error:
        return None, f"Tokens are shown as ids: {error}"

    def decode(agent: str, ids: Sequence[int]) -> list[str]:
        tokenizer = tokenizers.get(ref(agent).name or MAIN)
        return [str(index) for index in ids] if tokenizer is None else split(tokenizer, ids)

    return decode, ""


def split(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Split the text of token ids: return the text that each id adds to the text before it.

    An id that ends inside a character adds ""; the id that completes the character adds it.
    """
    # ``previous`` is the text of the ids from ``start`` on
    texts, start, previous, is_complete = [], 0, "", True
    for end in range(1, len(ids) + 1):
        text = str(tokenizer.decode(list(ids[start:end])))
        complete_text = text if end == len(ids) else text.rstrip(INCOMPLETE)
        if not complete_text.startswith(previous):  # the decoder changed earlier text
            return [str(tokenizer.decode([index])) for index in ids]
        texts.append(complete_text[len(previous) :])
        previous, was_complete, is_complete = complete_text, is_complete, complete_text == text
        if end - start > WINDOW and was_complete and is_complete:
            start, previous = end - 1, str(tokenizer.decode([ids[end - 1]]))
    return texts
