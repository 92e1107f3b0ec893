"""Werewolf by simple rules: a village that believes the seer, and wolves that lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.combining import innermost_play, innermost_seat
from sparring.environments.reply import actions_meant
from sparring.environments.werewolf.play import WerewolfPlay
from sparring.environments.werewolf.rules import ABSTAIN, SEER, SILENCE, WOLF, name_of, number_of
from sparring.environments.werewolf.sentences import phrase_of, to_sentence, victims_named
from sparring.play.players.chances import AgentWithChances, legal_actions_of

Style = Literal["talkative", "silent", "accuser"]


@dataclass(kw_only=True, eq=False)
class WerewolfBot(AgentWithChances):
    """Werewolf by simple rules, in a style: scripted village and scripted wolves.

    What: it sums a score of suspicion for each living player, and votes for a player of the highest
    score, drawn uniformly. "seer p2 wolf" adds 10 to p2's score, or to the speaker's if the bot is
    p2. "seer p2 good" subtracts 10. An accusation adds 1 and support subtracts 1. What the bot has
    seen as the seer itself adds or subtracts 100. The seer looks at players it has not seen, and
    reports a wolf. The doctor saves itself. A wolf follows its mate's proposal, or kills a player
    that claims to be the seer, or the one that wolves named most often this night. If wolves talk,
    it names such a player. A wolf never votes for its mate.
    When to use: as a fixed opponent with exact probabilities that can be believed or deceived.
    Mathematics: P(a) = 1 / |best| for each of the replies with the highest score. In
    ``choose`` the replies are numbers of candidates, and the bot takes the best candidate.
    Pitfalls: it believes any player that speaks as the seer, and so can be deceived. The
    bot's deductions (``deduce``) use only what its seat knows for certain, not the speeches. A free
    text is read as the closest phrase of the grammar: the first player named, and whether the first
    word about guilt or trust is against that player. Irony is not understood. Where the rules have
    none of these phrases (option ``say``) the bot is silent.
    Reference: styles as in "Language Agents with Reinforcement Learning for Strategic Play in the
    Werewolf Game" (Xu et al., 2023, arXiv 2310.18940), where models are prompted to them; the rules
    are ours.
    Verified by: tests/play/players/test_werewolf_bot.py.

    Args:
        style: "talkative" (default): accuses the most suspicious player, and reports its looks as
            the seer. "silent": speaks only as a seer that has found a wolf, and abstains unless
            some score is above 0. "accuser": as talkative, but as a wolf it claims to be the seer
            that has found a wolf.
        sentences: true: where speeches are free text, say a sentence for a phrase, such as "I am
            the seer and p2 is a werewolf." for "seer p2 wolf". false (default): say the phrase.
    """

    style: Style = "talkative"
    sentences: bool = False

    name = "werewolf_bot"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return a reply; where speeches are free text, a phrase or a sentence for one."""
        play = innermost_play(state)
        is_deducing = isinstance(play, WerewolfPlay) and play.position.is_deducing
        if is_deducing or state.legal(seat) is not None:
            return super().choose(state, seat, stream)
        phrases = list(self.chances(state, seat))
        phrase = phrases[stream.integer(0, len(phrases))]
        return to_sentence(phrase, stream.child(0)) if self.sentences else phrase

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the probabilities of the replies: uniform over the best ones.

        Raises:
            GameError: the environment is not werewolf.
        """
        play, inner_seat = innermost_seat(state, seat)
        if not isinstance(play, WerewolfPlay):
            raise GameError(
                f"Agent 'werewolf_bot' plays only werewolf, not {type(play).__name__}; write "
                "random or scripted there."
            )
        if play.position.is_deducing:
            legal_actions_of(self.name, state, seat)  # raises GameError
        ranked_actions, legal = self._rank_actions(play, inner_seat), state.legal(seat)
        if legal is None:
            return _equal_chances(next(filter(None, ranked_actions)))
        replies = dict(zip(actions_meant(state, seat, legal), legal, strict=True))
        for actions in ranked_actions:
            best_replies = [replies[action] for action in actions if action in replies]
            if best_replies:
                return _equal_chances(best_replies)
        return _equal_chances(list(legal))  # no candidate is an action that the bot ranks

    def _rank_actions(self, play: WerewolfPlay, seat: int) -> list[list[str]]:
        """Return lists of equally good actions, the best first; some may be illegal."""
        position, scores = play.position, self._suspicion_scores(play, seat)
        if position.phase == "speak":
            return self._speeches(play, seat, scores)
        role, names = position.setup.roles[seat], position.targets(seat)
        if position.phase == "whisper":
            preferred = (
                _rank(names, _rate_victims(play, seat))[:1] if self.style != "silent" else []
            )
            return [*([f"kill {name}" for name in group] for group in preferred), [SILENCE]]
        if position.phase == "vote":
            abstains = self.style == "silent" and max(scores[n] for n in names) <= 0
            first_group = [[ABSTAIN]] if abstains and position.setup.abstain else []
            return [*first_group, *_rank(names, scores)]
        if role == SEER:
            looked_at = {e.target for e in position.events_of(seat) if e.kind == "look"}
            return _rank(names, {n: float(n not in looked_at) for n in names})
        if role != WOLF:
            return [[name_of(position.places[seat])]]  # the doctor saves itself
        first_group = [[name_of(position.proposed_victim)]] if position.phase == "decide" else []
        return [*first_group, *_rank(names, _rate_victims(play, seat))]

    def _suspicion_scores(self, play: WerewolfPlay, seat: int) -> dict[int, float]:
        position, own_place = play.position, play.position.places[seat]
        wolves = position.setup.wolves
        scores = dict.fromkeys(range(position.setup.players), 0.0)
        for event in position.events_of(seat):
            if event.kind == "look":
                scores[event.target] += 100.0 if event.word == WOLF else -100.0
            elif event.kind == "say" and event.actor != own_place:
                verb, *words = phrase_of(event).split()
                target = number_of(words[0]) if words and verb != "claim" else -1
                if target not in scores:
                    continue
                if verb == SEER:
                    says_wolf = words[1] == WOLF
                    suspect = event.actor if target == own_place and says_wolf else target
                    scores[suspect] += 10.0 if says_wolf else -10.0
                elif verb in ("accuse", "support"):
                    scores[target] += 1.0 if verb == "accuse" else -1.0
        for mate in wolves if seat in wolves else ():
            scores[position.places[mate]] = -1000.0
        return scores

    def _speeches(self, play: WerewolfPlay, seat: int, scores: dict[int, float]) -> list[list[str]]:
        position = play.position
        names = position.targets(seat)
        most_suspicious = _rank(names, scores)[0]
        speeches: list[list[str]] = []
        looks = [e for e in position.events_of(seat) if e.kind == "look" and e.target in names]
        reports = [f"{SEER} {name_of(e.target)} {WOLF}" for e in looks if e.word == WOLF]
        if self.style != "silent" or reports:
            speeches += [reports, [f"{SEER} {name_of(e.target)} {e.word}" for e in looks]]
        if self.style == "accuser" and position.setup.roles[seat] == WOLF:
            speeches.append([f"{SEER} {name} {WOLF}" for name in most_suspicious])
        if self.style != "silent":
            speeches.append([f"accuse {name}" for name in most_suspicious])
        return [*speeches, [SILENCE]]


def _rank(names: tuple[int, ...], scores: Mapping[int, float]) -> list[list[str]]:
    levels = sorted({scores[name] for name in names}, reverse=True)
    return [[name_of(name) for name in names if scores[name] == level] for level in levels]


def _rate_victims(play: WerewolfPlay, seat: int) -> dict[int, float]:
    """Return a wolf's score of each target: 1 for a claimed seer, plus the share of naming."""
    position = play.position
    names = victims_named(position.events_of(seat))
    return {
        place: _claims_seer(play, place) + names.count(name_of(place)) / (len(names) + 1)
        for place in position.targets(seat)
    }


def _claims_seer(play: WerewolfPlay, place: int) -> float:
    speeches = (
        event for event in play.position.events if event.kind == "say" and event.actor == place
    )
    phrases = [phrase_of(event) for event in speeches]
    return float(any(phrase.startswith(SEER) or phrase == f"claim {SEER}" for phrase in phrases))


def _equal_chances(replies: list[str]) -> dict[str, float]:
    return dict.fromkeys(replies, 1.0 / len(replies))


werewolf_bot = WerewolfBot
