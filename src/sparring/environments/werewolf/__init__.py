"""Werewolf: hidden roles, nights, speeches and votes."""

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

    What: by night the wolves kill one other player; of several wolves the one with the smallest
    number proposes a victim and the one with the largest number decides. The seer learns whether
    one other player is a wolf. The doctor saves one player without knowing the victim. By day all
    learn who is dead, speak once each and vote at once; the player with most votes is out. Dead
    players do nothing more and learn nothing more before the end. A seat is a role, so teams never
    change; the numbers of the players are drawn, and players know one another only by number.
    When to use: to study lies, trust and votes in two teams, one of which knows more.
    Mathematics: each seat gets +1 if its team wins and -1 if the other wins, 0 in a draw. The sum
    over seats is not zero, as teams differ in size; the mean over the seats of one team is minus
    that of the other, and this mean is a team's payoff in exact figures. With 3 players, no seer,
    ``speech: none``, ``abstain: false``, ``tie: none`` and ``rounds: 1`` a random village wins with
    probability 1/4, where both villagers hit the wolf.
    Pitfalls: do not wrap it in ``talk``, which names the seats by their roles. With random ties,
    free text, deductions, or more than 5 players nothing is computed exactly. Speeches in free text
    are data: one line, truncated at ``limit`` characters, without unprintable characters, in
    quotation marks that they cannot close. A vote or a choice by night that names two players, no
    player, or a dead one is illegal, unless one is marked, as in "[p2]". In a
    speech with several phrases the last marked one counts, else the last.
    Reference: "Learning Strategic Language Agents in the Werewolf Game with Iterative Latent Space
    Policy Optimization" (Xu et al., 2025, arXiv 2502.04686), appendix A: its rules are those of 7
    players. ``strict`` is the end rule of the first release for arXiv 2310.18940 (Xu et al., 2023).
    Verified by: tests/environments/werewolf/.

    Args:
        players: 3 to 9.
        wolves: number of wolves; null (default): 1 up to 5 players, 2 up to 8, else 3.
        seer: whether the game has a seer.
        doctor: whether the game has a doctor; null (default): from 6 players on.
        rounds: days after which the episode ends, 1 to 20.
        cap: the winner after the last day: "wolves" (default), so that every episode has a winner
            and the village cannot win by waiting; "village"; "draw", nobody.
        strict: whether the wolves win only when they outnumber the others. false (default): equal
            numbers are enough.
        first_night: "kill" or "quiet", in which the wolves kill nobody; null (default): "quiet"
            with 3 players, else "kill".
        tie: who is out if several have most votes: "random", one of them; "none", nobody.
        abstain: whether a vote may be for nobody.
        reveal: whether all learn the role of a dead player.
        speech: "words": phrases of a small grammar. "text": any text, in style "full". "none".
        say: kinds of phrases besides silence: "claim" (claim ROLE), "result" (seer PLAYER wolf,
            seer PLAYER good), "accuse", "support".
        order: "ordered", one after the other by number; "simultaneous".
        limit: characters of a speech in free text before truncation, 1 to 100,000.
        wolves_talk: whether several wolves speak to one another each night before they propose, one
            turn each: "kill PLAYER", "claim ROLE" to announce a claim (where ``say`` has "claim"),
            or silence; in free text anything. Only wolves learn of this talk, and a single wolf
            does not talk.
        deduce: whether a seat, before it speaks or votes, states the role of each other living
            player with a confidence, in a separate turn: a note that only this seat sees later.
        deducers: roles that deduce where ``deduce`` is true, such as [seer, villager1]. Empty
            (default): all.
        malformed: a deduction with an unparsable part is "noted" (default) with that part unknown,
            counted, and costs nothing; or "illegal", a reply that the environment's ``illegal``
            rule punishes and replaces.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.

    Raises:
        ConfigError: the roles do not fit the players, free text in style "brief", a role twice in
            ``deducers``, deductions without ``deduce``, or talking wolves with one wolf or no
            speech.
        UnknownNameError: a name in ``deducers`` is not a role.
    """
    pack = wolves if wolves is not None else 1 if players <= 5 else 2 if players <= 8 else 3
    has_doctor = players >= 6 if doctor is None else doctor
    night = first_night or ("quiet" if players == 3 else "kill")
    special = (SEER,) * seer + (DOCTOR,) * has_doctor
    kinds = (WOLF,) * pack + special
    kinds += (VILLAGER,) * (players - len(kinds))
    if len(kinds) > players or players <= 2 * pack:
        raise ConfigError(
            f"werewolf: players={players} with wolves={pack}, seer={seer}, doctor={has_doctor} "
            "leaves no game; the wolves must be fewer than the others, and nobody has two roles: "
            "write fewer wolves or more players."
        )
    if night == "kill" and players - 1 <= 2 * pack and not has_doctor and not strict:
        raise ConfigError(
            f"werewolf: players={players} with wolves={pack} is over after the first night; write "
            "first_night: quiet, or more players."
        )
    if speech == "text" and style == "brief":
        raise ConfigError(
            "werewolf: speech=text needs style=full; write speech: words for a tiny model."
        )
    if deducers and not deduce:
        raise ConfigError(
            f"werewolf: deducers={quoted(deducers)} deduce nothing, as deduce is false; write "
            "deduce: true, or leave deducers out."
        )
    if malformed == "illegal" and not deduce:
        raise ConfigError(
            "werewolf: malformed=illegal concerns deductions, but deduce is false; write "
            "deduce: true, or leave malformed out."
        )
    _refuse_idle_speech(speech, say, order, limit)
    if wolves_talk and (pack == 1 or speech == "none"):
        raise ConfigError(
            f"werewolf: wolves_talk with wolves={pack}, speech={speech} leaves nothing to say; "
            "write wolves: 2 or more and speech: words or text, or leave wolves_talk out."
        )
    deducing = seats_of("werewolf", "deducers", deducers, role_names(kinds)) or range(players)
    setup = WerewolfSetup(
        kinds=kinds,
        rounds=rounds,
        strict=strict,
        first_night=night,
        tie=tie,
        cap=cap,
        order=order,
        speech=speech,
        say=tuple(dict.fromkeys(say)),
        limit=limit,
        wolves_talk=wolves_talk,
        abstain=abstain,
        reveal=reveal,
        deduce=tuple(deducing) if deduce else (),
        malformed=malformed,
    )
    is_listed = speech != "text" and not deduce and tie == "none" and players <= MAX_LISTED
    return ListedWerewolf(setup, style) if is_listed else Werewolf(setup, style)


def _refuse_idle_speech(speech: str, say: tuple[Say, ...], order: str, limit: int) -> None:
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
