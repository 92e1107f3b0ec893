"""Candidates in place of actions."""

from collections import Counter

import pytest

from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.choose import choose
from sparring.environments.choose.proposer import MOST, Proposer, numbers
from sparring.environments.repeated import repeated
from sparring.environments.reply import actions_meant
from sparring.environments.trial import trial
from sparring.play.players.biased import biased
from sparring.play.players.scripted import scripted
from sparring.testing import check_environment
from tests.cases import every_case

RPS, FULL = {"name": "rock_paper_scissors"}, {"name": "rock_paper_scissors", "options": {"style": "full"}}
FIVE, THREE = {"name": "rps_spock_lizard"}, ("rock", "paper", "scissors")
ROOT = Stream.from_seed(0)
WAYS = [(diverse, shuffle) for diverse in (True, False) for shuffle in (True, False)]


@every_case(
    "inner",
    [
        RPS,
        FULL,
        FIVE,
        {"name": "kuhn_poker"},
        {"name": "talk"},
        {"name": "sealed_auction"},
        {"name": "tic_tac_toe", "options": {"style": "full"}},
    ],
    ids=str,
)
@every_case("options", [{}, {"count": 2, "diverse": False}, {"shuffle": False}, {"choosers": ["last"]}], ids=str)
def test_it_keeps_the_contract_around_any_environment(inner, options):
    if "choosers" in options:
        options = {"choosers": [make_game(inner["name"], options=inner.get("options", {})).roles[-1]]}
    check_environment(choose, environment=inner, plays=3, **options)
    check_environment(
        repeated, environment={"name": "choose", "options": {"environment": inner, **options}}, rounds=2, plays=2
    )


@pytest.mark.parametrize(("diverse", "shuffle"), WAYS)
def test_candidates_are_drawn_as_often_as_the_offers_say(diverse, shuffle):
    proposer = Proposer(count=2, weights={"rock": 6, "paper": 3, "scissors": 1}, diverse=diverse, shuffle=shuffle)
    offers = {candidates: share for share, candidates in proposer.offers((*THREE, "spock"))}
    assert sum(offers.values()) == pytest.approx(1)
    counts = Counter()
    for number in range(20_000):
        stream = ROOT.child(number)
        counts[proposer.in_order(THREE, proposer.draw((*THREE, "spock"), stream), stream)] += 1
    assert set(counts) == set(offers) and all(len({*candidates}) == len(candidates) for candidates in offers)
    assert {candidates: count / 20_000 for candidates, count in counts.items()} == pytest.approx(offers, abs=0.012)


def test_candidates_of_the_weights():
    offers = Proposer(count=2, weights={"rock": 6, "paper": 3, "scissors": 1}, shuffle=False).offers(THREE)
    assert {candidates: share for share, candidates in offers} == pytest.approx({
        ("rock", "paper"): 0.6 * 3 / 4 + 0.3 * 6 / 7, ("rock", "scissors"): 0.6 * 1 / 4 + 0.1 * 6 / 9, ("paper", "scissors"): 0.3 * 1 / 7 + 0.1 * 3 / 9
    })  # fmt: skip
    alike = Proposer(count=2, weights={"rock": 6, "paper": 3, "scissors": 1}, diverse=False).offers(THREE)
    assert {candidates: share for share, candidates in alike}[("rock",)] == pytest.approx(0.36)
    proposer = Proposer(count=3, weights={"rock": 6, "paper": 3, "scissors": 1})
    first = Counter(proposer.draw(THREE, ROOT.child(number))[0] for number in range(10_000))
    assert first["rock"] / 10_000 == pytest.approx(0.6, abs=0.015) and first["scissors"] / 10_000 == pytest.approx(
        0.1, abs=0.01
    )
    proposer = Proposer(count=3, weights={"rock": 1.0, "paper": 0.0})
    assert proposer.draw(("rock", "paper"), ROOT) == ("rock",)
    assert sorted(proposer.draw(("paper", "bet", "pass"), ROOT)) == ["bet", "paper", "pass"]
    words = tuple(f"w{number}" for number in range(60))
    with pytest.raises(
        GameError, match=f"3 candidates of 60 actions have 205,320 draws, more than the limit of {MOST:,}"
    ):
        Proposer(count=3).offers(words)


def test_numbers_that_a_seat_replies():
    seen = set()
    for seed in range(40):
        for number in numbers(3):
            course = choose(environment=FIVE).reset(Stream.from_seed(seed))
            candidates = dict(course.candidates)
            observation = course.observe(0)
            assert observation.text == "left choose " + " ".join(
                f"{n} {a}" for n, a in zip("123", candidates[0], strict=True)
            )
            assert (
                all(word in observation.key for word in candidates[0])
                and actions_meant(course, 0, course.legal(0)) == candidates[0]
            )
            course.step({0: number, 1: "2"})
            assert course.play.moves == (candidates[0][int(number) - 1], candidates[1][1])
            seen.add(candidates[0])
    assert len(seen) > 15
    assert any(
        course.candidates[0] != course.candidates[1]
        for course in (choose(environment=FIVE).reset(Stream.from_seed(n)) for n in range(5))
    )
    course = choose(environment=FULL, shuffle=False).reset(ROOT)
    seen = course.observe(1)
    assert seen.prompt.endswith("Your choices:\n1. rock\n2. paper\n3. scissors") and "beats scissors" in seen.prompt
    assert seen.ask == "Reply with exactly one of these numbers: 1, 2, 3."
    assert course.read(0, "I take **2**, since paper wins 1 point") == "2" and course.read(0, "paper") is None
    assert course.read(0, "I take 2", exact=True) is None and course.read(0, "2", exact=True) == "2"
    course = choose(environment=RPS, proposals={"rock": 1, "paper": 1}).reset(ROOT)
    assert course.legal(0) == ("1", "2") and course.read(0, "3") == "3" and course.read(0, "4") is None


def test_what_a_chooser_knows():
    keys = set()
    for seed in range(60):
        course = choose(environment={"name": "kuhn_poker"}).reset(Stream.from_seed(seed))
        before = course.candidates[0]
        course.step({0: numbers(2)[before.index("pass")]})
        course.step({1: numbers(2)[course.candidates[1].index("bet")]})
        keys.add((course.observe(0).key, course.play.observe(0).key, before, course.candidates[0]))
    assert len({key for key, *_ in keys}) == len(keys) == 12  # three cards, two orders, twice
    course = choose(environment=FIVE, count=2).reset(Stream.from_seed(2))
    other = course.clone()
    other.candidates = {**course.candidates, 1: ("lizard", "spock")}
    assert course.draw(0) == other.draw(0) and course.described(0) == other.described(0)
    assert course.draw(None) != other.draw(None) and "Candidates of right" in other.described(None)
    course.step({0: "1", 1: "2"})
    assert "(chosen)" in course.described(0) and "right chose among" not in course.described(0) and not other.done
    inner = {"name": "choose", "options": {"environment": {"name": "kuhn_poker"}}}
    check_environment(trial, environment=inner, attempts=2, reveal=True, plays=6)


def test_who_does_not_choose_and_what_players_choose():
    game, plain = (
        make_game("choose", options={"environment": {"name": "kuhn_poker"}, "choosers": ["second"]}),
        make_game("kuhn_poker"),
    )
    for seed in range(20):
        course, beneath = game.reset(Stream.from_seed(seed)), plain.reset(Stream.from_seed(seed).child(0))
        assert course.observe(0) == beneath.observe(0) and course.legal(0) == beneath.legal(0) == ("pass", "bet")
        assert course.read(0, "bet", exact=True) == "bet" and not course.candidates
        course.step({0: "bet"})
        beneath.step({0: "bet"})
        assert (
            course.legal(1) == ("1", "2")
            and course.observe(1).prompt
            == f"{beneath.observe(1).prompt} 1 {course.candidates[1][0]} 2 {course.candidates[1][1]}"
        )
        course.step({1: "1"})
        assert course.chosen.keys() == {1} and "first chose among" not in course.described(None)
    rules = choose(environment=RPS)
    for seed in range(12):
        course = rules.reset(Stream.from_seed(seed))
        shares = biased(weights={"rock": 8, "paper": 1, "scissors": 1}).chances(course, 0)
        assert shares[numbers(3)[course.candidates[0].index("rock")]] == pytest.approx(0.8)
        chances = scripted(preference=("scissors",)).chances(course, 1)
        assert course.candidates[1][int(next(iter(chances))) - 1] == "scissors"
        around = repeated(environment={"name": "choose", "options": {"environment": RPS}}).reset(Stream.from_seed(seed))
        assert actions_meant(around, 0, around.legal(0)) == around.play.candidates[0]


@pytest.mark.parametrize(
    ("choosers", "message"),
    [(["third"], "no role of kuhn_poker named 'third'|third"), (["first", "first"], "names a role twice")],
)
def test_who_chooses_is_a_role_named_once(choosers, message):
    with pytest.raises(ConfigError, match=message):
        choose(environment={"name": "kuhn_poker"}, choosers=choosers)


def test_weights_that_are_refused_and_words_that_are_not_checked():
    with pytest.raises(ConfigError, match="gives no action a weight above 0; write proposals"):
        choose(proposals={"rock": 0.0})
    choose(environment={"name": "werewolf", "options": {"style": "full"}}, proposals={"anything": 1.0})


@pytest.mark.parametrize(
    ("inner", "proposals", "word", "nearest"),
    [
        ({"name": "rps_spock_lizard"}, {"rokc": 0.6, "paper": 0.4}, "rokc", "rock"),
        ({"name": "werewolf"}, {"accuse p9": 1.0}, "p9", "p"),
    ],
)
def test_a_word_that_the_environment_has_not_is_not_proposed(inner, proposals, word, nearest):
    with pytest.raises(
        UnknownNameError,
        match=f"Unknown word of choose.proposals for {inner['name']} '{word}'. Did you mean '{nearest}",
    ):
        choose(environment=inner, proposals=proposals)
