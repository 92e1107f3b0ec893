"""Combinator ``choose``: a proposer names a few actions, and the seat chooses one by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, UnknownNameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import (
    Environment,
    HasVocabulary,
    random_reply,
    read_reply,
    teams_of,
)
from sparring.environments.choose.proposer import Proposer, candidates_key, join_actions, numerals
from sparring.environments.combining import (
    CombinedEnvironment,
    CombinedPlay,
    ending_of,
    inner_of,
    join_texts,
    shown_of,
    with_news,
)
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, printed_lines
from sparring.environments.options import seats_of, unknown_words
from sparring.environments.reply import listed_reply

NOTHING = "(nothing)"  # shown for a candidate that is an empty text


class ChooseEnvironment(CombinedEnvironment):
    """The rules of the wrapped environment, with candidates in place of actions.

    Attributes:
        proposer: the source of the candidates.
        choosers: the seats that choose by number; other seats reply with actions.
        figures: names of the figures of the wrapped environment.
        version: 2; in version 1 the draws of a seat depended on the turns of other seats.
    """

    version = 2

    def __init__(self, inner: Any, proposer: Proposer, choosers: Sequence[int] = ()) -> None:
        super().__init__("choose", inner)
        self.proposer, self.choosers = proposer, frozenset(choosers or range(inner.num_seats))
        self.max_turns, self.utility_sum = inner.max_turns, inner.utility_sum
        self.min_utility, self.max_utility = inner.min_utility, inner.max_utility
        self.figures: tuple[str, ...] = inner.figures

    def words(self) -> tuple[str, ...]:
        """Return the numbers of the candidates."""
        return numerals(self.proposer.count)

    def reset(self, stream: Stream) -> ChoosePlay:
        return ChoosePlay(self, self.inner.reset(stream.child(0)), stream.child(1))

    def add_candidates(
        self, observation: Observation, candidates: Sequence[str], earlier_key: str
    ) -> Observation:
        """Return an observation with the candidates of a seat that chooses next.

        Args:
            observation: the observation of the wrapped environment.
            candidates: the candidates in order of their numbers.
            earlier_key: ``candidates_key`` of all earlier candidates of the seat.
        """
        pairs = list(zip(numerals(len(candidates)), candidates, strict=True))
        key = f"{earlier_key}{observation.key} {candidates_key(candidates)}"
        if self.brief:
            choices_text = " ".join(f"{number} {action}" for number, action in pairs)
            ask = ""
        else:
            lines = (f"{number}. {' '.join(action.split()) or NOTHING}" for number, action in pairs)
            choices_text = "Your choices:\n" + "\n".join(lines)
            ask = f"Reply with exactly one of these numbers: {', '.join(n for n, _ in pairs)}."
        view = join_texts([observation.view, choices_text], self.brief) if observation.view else ""
        prompt = join_texts([observation.prompt, choices_text], self.brief)
        return observation._replace(prompt=prompt, ask=ask, key=key, view=view)


class ChoosePlay(CombinedPlay):
    """A play in which a seat sees candidates and replies with the number of one of them.

    Attributes:
        draws: seat that acts next -> its candidates, in the order of the draws.
        candidates: seat that acts next -> its candidates, in the order of their numbers.
        choices: seat -> its last candidates, and the candidate that it chose.
    """

    def __init__(self, rules: Any, play: Any, stream: Stream) -> None:
        super().__init__(rules, play)
        self.stream = stream
        self.num_choices = (0,) * rules.num_seats
        self.keys = ("",) * rules.num_seats  # the earlier candidates of each seat, as text
        self.choices: dict[int, tuple[tuple[str, ...], str]] = {}
        self.draws: dict[int, tuple[str, ...]] = {}
        self.candidates: dict[int, tuple[str, ...]] = {}
        try:
            self._propose()
        except BaseException:
            self.close()
            raise

    def _propose(self) -> None:
        """Draw the candidates of every chooser that acts next, unless any text is legal."""
        self.draws, self.candidates = {}, {}
        for seat in self.play.due():
            legal = self.play.legal(seat)
            if seat in self.rules.choosers and legal is not None:
                stream = self._choice_stream(seat)
                self.draws[seat] = self.rules.proposer.draw(legal, stream)
                self.candidates[seat] = self.rules.proposer.order_candidates(
                    legal, self.draws[seat], stream
                )

    def _choice_stream(self, seat: int) -> Stream:
        """Return the stream of a seat's next choice, which does not depend on other seats."""
        return self.stream.child(seat).child(self.num_choices[seat])

    def legal(self, seat: int) -> tuple[str, ...] | None:
        if seat not in self.candidates:
            return super().legal(seat)
        return numerals(len(self.candidates[seat]))

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the number in a reply."""
        if seat not in self.candidates:
            return super().read(seat, reply, exact)
        return listed_reply(numerals(self.rules.proposer.count), reply, exact or self.rules.brief)

    def inner_actions(self, seat: int, legal: tuple[str, ...]) -> tuple[str, ...]:
        """Return the candidates, in the order of their numbers."""
        return (
            self.candidates[seat] if seat in self.candidates else super().inner_actions(seat, legal)
        )

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply drawn at random."""
        if seat not in self.candidates:
            return super().sample(seat, stream)
        return numerals(len(self.candidates[seat]))[stream.integer(0, len(self.candidates[seat]))]

    def observe(self, seat: int) -> Observation:
        """Return the current play's observation with the candidates."""
        observation = super().observe(seat)
        if seat not in self.candidates:
            return observation._replace(key=f"{self.keys[seat]}{observation.key}")
        rules: ChooseEnvironment = self.rules
        return rules.add_candidates(observation, self.candidates[seat], self.keys[seat])

    def step(self, replies: Mapping[int, str]) -> None:
        actions = dict(replies)
        for seat, candidates in self.candidates.items():
            actions[seat] = candidates[int(replies[seat]) - 1]
            self.choices = {**self.choices, seat: (candidates, actions[seat])}
            self.keys = tuple(
                f"{key}{candidates_key(candidates)}" if player == seat else key
                for player, key in enumerate(self.keys)
            )
        choosers = self.candidates
        self.num_choices = tuple(
            count + (seat in choosers) for seat, count in enumerate(self.num_choices)
        )
        super().step(actions)
        self._propose()

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of the wrapped environment for a finished play."""
        return dict(self.play.figures())

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        super().paint(canvas, seat)
        for title, lines in self._candidate_sections(seat):
            heading(canvas, title)
            printed_lines(canvas, lines)

    def _candidate_sections(self, seat: int | None) -> list[tuple[str, list[str]]]:
        """Return (heading, numbered candidates) of a seat, or of all seats for seat None."""
        sections, roles = list[tuple[str, list[str]]](), self.rules.roles
        for player in range(self.rules.num_seats):
            if seat not in (None, player):
                continue
            if player in self.candidates:
                sections.append(
                    (f"Candidates of {roles[player]}", _numbered_lines(self.candidates[player]))
                )
            elif player in self.choices:
                candidates, action = self.choices[player]
                sections.append(
                    (f"{roles[player]} chose among", _numbered_lines(candidates, action))
                )
        return sections

    def described(self, seat: int | None) -> str:
        parts = [f"{title}: {', '.join(lines)}." for title, lines in self._candidate_sections(seat)]
        return " ".join([super().described(seat), *parts])


def _numbered_lines(candidates: Sequence[str], choice: str | None = None) -> list[str]:
    return [
        f"{number} {action}{' (chosen)' if action == choice else ''}"
        for number, action in zip(numerals(len(candidates)), candidates, strict=True)
    ]


PROPOSE = "propose"  # asks for a proposal in brief style
CHOSEN_PREFIX = "took"  # the word before the chosen action in brief style
ASK_FIRST = "Propose an action."
ASK_AGAIN = "Propose an action once more."
ASK_OTHER = "Propose another action."


class ChooseWithProposerSeats(ChooseEnvironment):
    """Rules in which every seat has a proposer, which is another seat of its team."""

    def __init__(self, inner: Any, proposer: Proposer, choosers: Sequence[int] = ()) -> None:
        super().__init__(inner, proposer, choosers)
        self.roles = (*inner.roles, *(f"{role}_proposer" for role in inner.roles))
        self.num_seats = 2 * inner.num_seats
        self.teams = tuple(teams_of(inner)) * 2
        self.max_turns = inner.max_turns * (1 + proposer.count)
        self.utility_sum = None if inner.utility_sum is None else 2 * inner.utility_sum

    def words(self) -> tuple[str, ...]:
        """Return the words around proposals and choices."""
        return (*super().words(), PROPOSE, CHOSEN_PREFIX)

    def reset(self, stream: Stream) -> ProposerSeatsPlay:
        return ProposerSeatsPlay(self, self.inner.reset(stream.child(0)), stream.child(1))


class ProposerSeatsPlay(ChoosePlay):
    """A play in which a seat's proposer names the candidates one by one before the seat chooses.

    Where any text is legal, candidates are texts. Seats write notes without a proposer.

    Attributes:
        proposals: the proposals so far for each chooser.
    """

    def _propose(self) -> None:
        """Reset the proposals of every chooser that acts next, unless it writes a note."""
        self.draws, self.candidates = {}, {}
        self.proposals: dict[int, tuple[str, ...]] = {
            seat: ()
            for seat in self.play.due()
            if seat in self.rules.choosers and not self.play.observe(seat).note
        }

    def inner_seat(self, seat: int) -> int:
        """Return the chooser of a proposer, or the seat itself."""
        chooser: int = seat % self.rules.inner.num_seats
        return chooser

    def _seats_without_candidates(self) -> tuple[int, ...]:
        proposer, seats = self.rules.proposer, list[int]()
        for seat, proposals in self.proposals.items():
            legal = self.play.legal(seat)
            num_needed = len(legal) if proposer.diverse and legal is not None else proposer.count
            if len(proposals) < min(num_needed, proposer.count):
                seats.append(seat)
        return tuple(seats)

    def _is_proposer(self, seat: int) -> bool:
        return self.inner_seat(seat) != seat

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far; a proposer has the payoff of its chooser."""
        return tuple(self.play.returns) * 2

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of the wrapped environment; a proposer gets its chooser's figures."""
        return {name: tuple(values) * 2 for name, values in super().figures().items()}

    def due(self) -> tuple[int, ...]:
        seats = self._seats_without_candidates()
        if seats:
            return tuple(seat + self.rules.inner.num_seats for seat in seats)
        return tuple(self.play.due())

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the numbers of candidates, or the possible proposals; None: any text."""
        if not self._is_proposer(seat):
            return super().legal(seat)
        chooser = self.inner_seat(seat)
        earlier_proposals = self.proposals.get(chooser, ()) if self.rules.proposer.diverse else ()
        legal = self.play.legal(chooser)
        if legal is None:
            return None
        return tuple(action for action in legal if action not in earlier_proposals)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the number or the proposed action in a reply."""
        if not self._is_proposer(seat):
            return super().read(seat, reply, exact)
        legal = self.legal(seat)
        return read_reply(self.play, self.inner_seat(seat), legal, reply, exact or self.rules.brief)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply drawn at random."""
        if not self._is_proposer(seat):
            return super().sample(seat, stream)
        return random_reply(self.play, self.inner_seat(seat), self.legal(seat), stream)

    def observe(self, seat: int) -> Observation:
        """Return the observation of a seat; a proposer sees the observation of its chooser."""
        if not self._is_proposer(seat):
            return super().observe(seat)
        rules, proposals = self.rules, self.proposals.get(self.inner_seat(seat), ())
        observation: Observation = self.play.observe(self.inner_seat(seat))
        if self.inner_seat(seat) not in self._seats_without_candidates():
            observation = observation._replace(ask="", key=f"{self.keys[seat]}{observation.key}")
            return with_news(observation, self.news.get(seat, ""), rules.brief)
        key = f"{self.keys[seat]}{observation.key} {PROPOSE} {join_actions(proposals)}"
        prompt = "" if proposals else observation.prompt
        if rules.brief:
            prompt = join_texts([prompt, PROPOSE], True)
            observation = observation._replace(prompt=prompt, ask="", key=key)
        else:
            repeat_question = ASK_OTHER if rules.proposer.diverse else ASK_AGAIN
            ask = repeat_question if proposals else ASK_FIRST
            parts = [part for part in (observation.ask, ask) if part]
            observation = observation._replace(prompt=prompt, ask=" ".join(parts), key=key)
        observation = observation._replace(fresh=observation.fresh and not proposals)
        return with_news(observation, self.news.get(seat, ""), rules.brief)

    def step(self, replies: Mapping[int, str]) -> None:
        if self._seats_without_candidates():
            for seat, action in replies.items():
                self.news.pop(seat, None)
                chooser = self.inner_seat(seat)
                self.proposals = {**self.proposals, chooser: (*self.proposals[chooser], action)}
            if not self._seats_without_candidates():
                self._number_candidates()
            return
        proposals, choosers = self.proposals, tuple(self.candidates)
        super().step(replies)
        for seat in choosers:
            proposer, action = seat + self.rules.inner.num_seats, self.choices[seat][1]
            prefix, suffix = (CHOSEN_PREFIX, "") if self.rules.brief else ("What was chosen:", ".")
            self.news[proposer] = f"{prefix} {action}{suffix}"
            self.keys = tuple(
                f"{key}{join_actions((*proposals[seat], action))}|" if player == proposer else key
                for player, key in enumerate(self.keys)
            )

    def _number_candidates(self) -> None:
        for seat, proposals in self.proposals.items():
            self.draws = {**self.draws, seat: tuple(dict.fromkeys(proposals))}
            legal, stream = self.play.legal(seat), self._choice_stream(seat)
            candidates = self.rules.proposer.order_candidates(legal, self.draws[seat], stream)
            self.candidates = {**self.candidates, seat: candidates}

    def ending(self, seat: int) -> str:
        """Return the final news of a seat; a proposer gets the news of its chooser."""
        return ending_of(self.play, self.inner_seat(seat))

    def shown(self, seat: int) -> str:
        """Return the information revealed at the end; a proposer gets its chooser's information."""
        return shown_of(self.play, self.inner_seat(seat), brief=False)

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        CombinedPlay.paint(self, canvas, None if seat is None else self.inner_seat(seat))
        for title, lines in self._candidate_sections(seat):
            heading(canvas, title)
            printed_lines(canvas, lines)

    def described(self, seat: int | None) -> str:
        chooser = None if seat is None else self.inner_seat(seat)
        parts = [f"{title}: {', '.join(lines)}." for title, lines in self._candidate_sections(seat)]
        return " ".join([CombinedPlay.described(self, chooser), *parts])

    def _candidate_sections(self, seat: int | None) -> list[tuple[str, list[str]]]:
        """Return the candidates that a seat sees, and the proposals that a proposer made."""
        choosers = self._seats_without_candidates()
        sections = [
            (f"Proposed for {self.rules.roles[chooser]}", list(self.proposals[chooser]))
            for chooser in choosers
            if self.proposals[chooser] and seat in (None, chooser + self.rules.inner.num_seats)
        ]
        return [*super()._candidate_sections(seat), *sections]


Count = Annotated[int, Field(ge=1, le=26)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def choose(
    *,
    environment: dict[str, Any] | None = None,
    proposer: Literal["weights", "seat"] = "weights",
    count: Count = 3,
    proposals: dict[str, Weight] | None = None,
    diverse: bool = True,
    shuffle: bool = True,
    choosers: tuple[str, ...] = (),
) -> ChooseEnvironment:
    """An environment in which a frozen proposer names actions, and the seat chooses one by number.

    What: at every decision the environment draws up to ``count`` different legal actions and shows
    them with numbers in random order. The seat replies with a number. The prompt contains the
    candidates, so the episode records them and the update sees the same candidates. SLA (see
    Reference) trains a separate network to choose; here the language model itself chooses.
    When to use: to learn which of a few proposed actions to take, with a fixed proposer; to measure
    the cost of a biased proposer.
    Mathematics: the policy over actions a of the wrapped environment in information state h is

        P(a | h) = sum over lists c of candidates of  P(c | h) * P(number of a in c | h, c)

    Exact figures (``nash_conv``, ``exploitability``) are those of this policy in the wrapped
    environment. A best response there may use every action, even one that is never proposed.
    ``diverse`` draws without replacement, in proportion to the remaining weights. Without
    ``diverse`` there are ``count`` draws with replacement, and equal draws are one candidate.
    Pitfalls: an equilibrium among proposed actions need not be one of all actions: with only rock,
    paper and scissors, the exploitability in ``rps_spock_lizard`` is 1/3. Without ``shuffle``
    the policy may learn positions in the list instead of actions. Where any text is legal,
    "weights" proposes nothing, and "seat" proposes texts; equal texts are one candidate. Players
    that compute the game's actions (``cfr``, ``minimax``) do not reply with numbers.
    Reference: Xu et al., "Language agents with reinforcement learning for strategic play in the
    Werewolf game", 2024 (arXiv:2310.18940).
    Verified by: tests/environments/test_choose.py,
    tests/environments/test_choose_proposer_seats.py, tests/measure/test_exact_figures.py.

    Args:
        environment: the environment to wrap, {name: ..., options: {...}}. null (default):
            rock_paper_scissors, as an example.
        proposer: "weights" (default): the environment draws the candidates. "seat": each seat has
            a proposer, the role ROLE_proposer of its team, which acts ``count`` times before the
            seat. A frozen policy or any player can have this role. "seat" has no exact figures.
        count: largest number of candidates of a decision, 1 to 26.
        proposals: weights of the actions that the proposer knows, {rock: 0.6, paper: 0.4}; other
            actions are proposed only if all of these are illegal. null (default): equal weights of
            all legal actions.
        diverse: whether candidates are drawn until ``count`` are different.
        shuffle: whether candidates are shown in random order; otherwise in the order of the legal
            actions.
        choosers: roles that choose. Other roles reply with actions, as without the combinator, so a
            policy of the wrapped environment can play them. Empty (default): all roles choose.

    Raises:
        ConfigError: the option ``environment`` names no environment, all weights are 0,
            ``proposals`` and proposer "seat" are combined, or a role is named twice.
        UnknownNameError: a name in ``choosers`` is not a role, or an action in ``proposals`` has an
            unknown word.
    """
    if proposals is not None and not any(proposals.values()):
        raise ConfigError(
            f"environments 'choose', option 'proposals': {quoted(proposals)} gives no action a "
            "weight above 0; write proposals: {rock: 0.6, paper: 0.4}, or leave it out."
        )
    inner = inner_of("choose", environment)
    _check_words(proposals or {}, inner)
    seats = seats_of("choose", "choosers", choosers, inner.roles, inner.name)
    source = Proposer(count=count, weights=proposals or {}, diverse=diverse, shuffle=shuffle)
    if proposer == "weights":
        return ChooseEnvironment(inner, source, seats)
    if proposals is not None:
        raise ConfigError(
            "environments 'choose': 'proposals' need proposer: weights; write that, or leave them "
            "out: the player in the seat ROLE_proposer proposes."
        )
    return ChooseWithProposerSeats(inner, source, seats)


def _check_words(proposals: dict[str, float], inner: Environment) -> None:
    if not inner.brief or not isinstance(inner, HasVocabulary):
        return
    vocabulary = set(inner.vocabulary())
    for action in proposals:
        for word in unknown_words(action, vocabulary):
            raise UnknownNameError(f"word of choose.proposals for {inner.name}", word, vocabulary)
