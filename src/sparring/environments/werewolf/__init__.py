"""Werewolf: a game of two teams with hidden roles, night kills, speeches and votes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, quoted
from sparring.environments.options import seats_of
from sparring.environments.werewolf.play import MAX_LISTED, ListedWerewolf, Werewolf
from sparring.environments.werewolf.rules import (
    DOCTOR,
    SAY,
    SEER,
    VILLAGER,
    WOLF,
    Say,
    WerewolfSetup,
    role_names,
)

LIMIT = 300  # default of option ``limit``


def werewolf(
    *,
    players: Annotated[int, Field(ge=3, le=9)] = 4,
    wolves: Annotated[int, Field(ge=1, le=4)] | None = None,
    seer: bool = True,
    doctor: bool | None = None,
    rounds: Annotated[int, Field(ge=1, le=20)] = 5,
    cap: Literal["wolves", "village", "draw"] = "wolves",
    strict: bool = False,
    first_night: Literal["kill", "quiet"] | None = None,
    tie: Literal["random", "none"] = "random",
    abstain: bool = True,
    reveal: bool = False,
    speech: Literal["words", "text", "none"] = "words",
    say: tuple[Say, ...] = SAY,
    order: Literal["ordered", "simultaneous"] = "ordered",
    limit: Annotated[int, Field(ge=1, le=100_000)] = LIMIT,
    wolves_talk: bool = False,
    deduce: bool = False,
    deducers: tuple[str, ...] = (),
    malformed: Literal["noted", "illegal"] = "noted",
    style: Literal["brief", "full"] = "brief",
) -> Werewolf:
    """Werewolf for 3 to 9 players: a few wolves who know one another against a village.

    What: by night the wolves kill one other player. If there are several wolves, the one with the
    smallest number proposes a victim, and the one with the largest number decides. The seer learns
    whether one other player is a wolf. The doctor saves one player without knowing the victim. By
    day all learn who is dead, speak once each and vote at once; the player with most votes is out.
    Dead players do nothing more and learn nothing more before the end. A seat is a role, so teams
    never change. The players' numbers are random, and players know one another only by number.
    When to use: to study lies, trust and votes in two teams, one of which knows more.
    Mathematics: each seat gets +1 if its team wins and -1 if the other team wins, 0 in a draw. The
    sum over seats is not zero, as teams differ in size. In exact figures a team's payoff is the
    mean over its seats, so the payoffs of the two teams sum to zero. With 3 players, no seer,
    ``speech: none``, ``abstain: false``, ``tie: none`` and ``rounds: 1`` a random village wins with
    probability 1/4: both villagers must vote for the wolf.
    Pitfalls: do not wrap Werewolf in ``talk``, which names seats by role. Exact figures do not
    exist with random ties, free text, deductions, or more than 5 players. Prompts quote free-text
    speeches as data: one line, at most ``limit`` characters, printable, in quotation marks that the
    speech cannot close. A vote or a night choice must name exactly one living player. If a
    reply has several names, the one in brackets counts, as in "[p2]". If a speech has several
    phrases, the last one in brackets counts; if none is in brackets, the last phrase.
    Reference: "Learning Strategic Language Agents in the Werewolf Game with Iterative Latent Space
    Policy Optimization" (Xu et al., 2025, arXiv 2502.04686), appendix A, for the rules of 7
    players. ``strict`` is the end rule of the first published code for arXiv 2310.18940.
    Verified by: tests/environments/werewolf/.

    Args:
        players: number of players, 3 to 9.
        wolves: number of wolves; null (default): 1 up to 5 players, 2 up to 8, else 3.
        seer: whether the game has a seer.
        doctor: whether the game has a doctor; null (default): true from 6 players on.
        rounds: number of days after which the episode ends, 1 to 20.
        cap: the winner after the last day: "wolves" (default), "village", or "draw" for no winner.
            With "wolves" the village cannot win by waiting.
        strict: whether the wolves win only when they outnumber the village. false (default): equal
            numbers are enough.
        first_night: "kill", or "quiet" for a first night in which the wolves kill nobody; null
            (default): "quiet" with 3 players, else "kill".
        tie: who is out if several players have most votes: "random", one of them; "none", nobody.
        abstain: whether a vote may be for nobody.
        reveal: whether all players learn the role of a dead player.
        speech: "words": phrases of a small grammar. "text": any text, in style "full". "none": no
            speeches.
        say: kinds of phrases besides silence: "claim" (claim ROLE), "result" (seer PLAYER wolf,
            seer PLAYER good), "accuse" (accuse PLAYER), "support" (support PLAYER).
        order: order of the speeches: "ordered", one after the other by number; "simultaneous".
        limit: number of characters, 1 to 100,000, after which a free-text speech is truncated.
        wolves_talk: whether several wolves speak to one another each night before they propose, one
            turn each: "kill PLAYER", "claim ROLE" to announce a claim (if ``say`` has "claim"), or
            silence; with ``speech: text`` any words. Only wolves read this talk.
        deduce: whether a seat states the role of each other living player, with a confidence,
            before it speaks or votes. Only this seat sees the statement later.
        deducers: roles that deduce if ``deduce`` is true, such as [seer, villager1]. Empty
            (default): all roles.
        malformed: rule for a deduction with an unparsable part. "noted" (default): this part
            counts as unknown, and a metric counts such cases. "illegal": the reply is illegal, and
            the environment's ``illegal`` rule applies.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.

    Raises:
        ConfigError: too many roles for the players, free text in style "brief", a role twice in
            ``deducers``, ``deducers`` or ``malformed`` without ``deduce``, or ``wolves_talk`` with
            one wolf or no speech.
        UnknownNameError: a name in ``deducers`` is not a role.
    """
    num_wolves = wolves if wolves is not None else 1 if players <= 5 else 2 if players <= 8 else 3
    has_doctor = players >= 6 if doctor is None else doctor
    first_night = first_night or ("quiet" if players == 3 else "kill")
    roles = (WOLF,) * num_wolves + (SEER,) * seer + (DOCTOR,) * has_doctor
    roles += (VILLAGER,) * (players - len(roles))
    if len(roles) > players or players <= 2 * num_wolves:
        raise ConfigError(
            f"werewolf: players={players} with wolves={num_wolves}, seer={seer}, "
            f"doctor={has_doctor} leaves no game; the wolves must be fewer than the others, and "
            "nobody has two roles: write fewer wolves or more players."
        )
    if first_night == "kill" and players - 1 <= 2 * num_wolves and not has_doctor and not strict:
        raise ConfigError(
            f"werewolf: players={players} with wolves={num_wolves} is over after the first night; "
            "write first_night: quiet, or more players."
        )
    if speech == "text" and style == "brief":
        raise ConfigError(
            "werewolf: speech=text needs style=full; write speech: words for a tiny model."
        )
    if deducers and not deduce:
        raise ConfigError(
            f"werewolf: deducers={quoted(deducers)} has no effect, as deduce is false; write "
            "deduce: true, or leave deducers out."
        )
    if malformed == "illegal" and not deduce:
        raise ConfigError(
            "werewolf: malformed=illegal concerns deductions, but deduce is false; write "
            "deduce: true, or leave malformed out."
        )
    _refuse_unused_speech_options(speech, say, order, limit)
    if wolves_talk and (num_wolves == 1 or speech == "none"):
        raise ConfigError(
            f"werewolf: wolves_talk with wolves={num_wolves}, speech={speech} leaves nothing to "
            "say; write wolves: 2 or more and speech: words or text, or leave wolves_talk out."
        )
    deducing_seats = seats_of("werewolf", "deducers", deducers, role_names(roles)) or range(players)
    setup = WerewolfSetup(
        roles=roles,
        rounds=rounds,
        strict=strict,
        first_night=first_night,
        tie=tie,
        cap=cap,
        order=order,
        speech=speech,
        say=tuple(dict.fromkeys(say)),
        limit=limit,
        wolves_talk=wolves_talk,
        abstain=abstain,
        reveal=reveal,
        deduce=tuple(deducing_seats) if deduce else (),
        malformed=malformed,
    )
    has_exact_figures = speech != "text" and not deduce and tie == "none" and players <= MAX_LISTED
    return ListedWerewolf(setup, style) if has_exact_figures else Werewolf(setup, style)


def _refuse_unused_speech_options(
    speech: str, say: tuple[Say, ...], order: str, limit: int
) -> None:
    if limit != LIMIT and speech != "text":
        raise ConfigError(
            f"werewolf: limit={limit} truncates speeches in free text, but speech is {speech}; "
            "write speech: text and style: full, or leave limit out."
        )
    if tuple(say) != SAY and speech != "words":
        raise ConfigError(
            f"werewolf: say={quoted(list(say))} lists phrases of speeches by words, but speech is "
            f"{speech}; write speech: words, or leave say out."
        )
    if order != "ordered" and speech == "none":
        raise ConfigError(
            f"werewolf: order={order} orders speeches, but speech is none; write speech: "
            "words, or leave order out."
        )
