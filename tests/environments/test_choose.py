"""The environment choose: seats reply with the number of a candidate action."""

from collections import Counter

import pytest

from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.choose import choose
from sparring.environments.choose.proposer import MAX_DRAWS, Proposer, numerals
from sparring.environments.repeated import repeated
from sparring.environments.reply import actions_meant
from sparring.environments.trial import trial
from sparring.play.players.biased import biased
from sparring.play.players.scripted import scripted
from sparring.testing import check_environment
from tests.cases import every_case

RPS, RPS_FULL_STYLE = {"name": "rock_paper_scissors"}, {"name": "rock_paper_scissors", "options": {"style": "full"}}
RPS_SPOCK_LIZARD, RPS_ACTIONS = {"name": "rps_spock_lizard"}, ("rock", "paper", "scissors")
ROOT = Stream.from_seed(0)
DRAW_OPTIONS = [(diverse, shuffle) for diverse in (True, False) for shuffle in (True, False)]


@every_case(
    "inner_environment",
    [
        RPS,
        RPS_FULL_STYLE,
        RPS_SPOCK_LIZARD,
        {"name": "kuhn_poker"},
        {"name": "talk"},
        {"name": "sealed_auction"},
        {"name": "tic_tac_toe", "options": {"style": "full"}},
    ],
    ids=str,
)
@every_case("options", [{}, {"count": 2, "diverse": False}, {"shuffle": False}, {"choosers": ["last"]}], ids=str)
def test_contract_holds_for_any_inner_environment(inner_environment, options):
    if "choosers" in options:
        options = {
            "choosers": [make_game(inner_environment["name"], options=inner_environment.get("options", {})).roles[-1]]
        }
    check_environment(choose, environment=inner_environment, plays=3, **options)
    check_environment(
        repeated,
        environment={"name": "choose", "options": {"environment": inner_environment, **options}},
        rounds=2,
        plays=2,
    )


@pytest.mark.parametrize(("diverse", "shuffle"), DRAW_OPTIONS)
def test_candidates_are_drawn_with_their_stated_probabilities(diverse, shuffle):
    proposer = Proposer(count=2, weights={"rock": 6, "paper": 3, "scissors": 1}, diverse=diverse, shuffle=shuffle)
    expected_shares = {candidates: share for share, candidates in proposer.possible_lists((*RPS_ACTIONS, "spock"))}
    assert sum(expected_shares.values()) == pytest.approx(1)
    counts = Counter()
    for number in range(20_000):
        stream = ROOT.child(number)
        counts[proposer.order_candidates(RPS_ACTIONS, proposer.draw((*RPS_ACTIONS, "spock"), stream), stream)] += 1
    assert set(counts) == set(expected_shares) and all(
        len({*candidates}) == len(candidates) for candidates in expected_shares
    )
    assert {candidates: num_draws / 20_000 for candidates, num_draws in counts.items()} == pytest.approx(
        expected_shares, abs=0.012
    )


def test_probabilities_of_candidates_by_hand():
    lists_with_shares = Proposer(count=2, weights={"rock": 6, "paper": 3, "scissors": 1}, shuffle=False).possible_lists(
        RPS_ACTIONS
    )
    assert {candidates: share for share, candidates in lists_with_shares} == pytest.approx({
        ("rock", "paper"): 0.6 * 3 / 4 + 0.3 * 6 / 7, ("rock", "scissors"): 0.6 * 1 / 4 + 0.1 * 6 / 9, ("paper", "scissors"): 0.3 * 1 / 7 + 0.1 * 3 / 9
    })  # fmt: skip
    # drawn with replacement, both candidates are rock with probability 0.6 * 0.6
    lists_with_repeats = Proposer(
        count=2, weights={"rock": 6, "paper": 3, "scissors": 1}, diverse=False
    ).possible_lists(RPS_ACTIONS)
    assert {candidates: share for share, candidates in lists_with_repeats}[("rock",)] == pytest.approx(0.36)
    proposer = Proposer(count=3, weights={"rock": 6, "paper": 3, "scissors": 1})
    first_candidates = Counter(proposer.draw(RPS_ACTIONS, ROOT.child(number))[0] for number in range(10_000))
    assert first_candidates["rock"] / 10_000 == pytest.approx(0.6, abs=0.015) and first_candidates[
        "scissors"
    ] / 10_000 == pytest.approx(0.1, abs=0.01)
    proposer = Proposer(count=3, weights={"rock": 1.0, "paper": 0.0})
    assert proposer.draw(("rock", "paper"), ROOT) == ("rock",)
    assert sorted(proposer.draw(("paper", "bet", "pass"), ROOT)) == ["bet", "paper", "pass"]
    words = tuple(f"w{number}" for number in range(60))
    with pytest.raises(
        GameError, match=f"3 candidates of 60 actions have 205,320 draws, more than the limit of {MAX_DRAWS:,}"
    ):
        Proposer(count=3).possible_lists(words)


def test_prompts_and_replies_of_a_chooser():
    candidate_sets = set()
    for seed in range(40):
        for number in numerals(3):
            episode = choose(environment=RPS_SPOCK_LIZARD).reset(Stream.from_seed(seed))
            candidates = dict(episode.candidates)
            observation = episode.observe(0)
            assert observation.text == "left choose " + " ".join(
                f"{candidate_number} {action}" for candidate_number, action in zip("123", candidates[0], strict=True)
            )
            assert (
                all(word in observation.key for word in candidates[0])
                and actions_meant(episode, 0, episode.legal(0)) == candidates[0]
            )
            episode.step({0: number, 1: "2"})
            assert episode.play.moves == (candidates[0][int(number) - 1], candidates[1][1])
            candidate_sets.add(candidates[0])
    assert len(candidate_sets) > 15
    assert any(
        episode.candidates[0] != episode.candidates[1]
        for episode in (
            choose(environment=RPS_SPOCK_LIZARD).reset(Stream.from_seed(seed_of_episode))
            for seed_of_episode in range(5)
        )
    )
    episode = choose(environment=RPS_FULL_STYLE, shuffle=False).reset(ROOT)
    observation = episode.observe(1)
    assert (
        observation.prompt.endswith("Your choices:\n1. rock\n2. paper\n3. scissors")
        and "beats scissors" in observation.prompt
    )
    assert observation.ask == "Reply with exactly one of these numbers: 1, 2, 3."
    assert episode.read(0, "I take **2**, since paper wins 1 point") == "2" and episode.read(0, "paper") is None
    assert episode.read(0, "I take 2", exact=True) is None and episode.read(0, "2", exact=True) == "2"
    episode = choose(environment=RPS, proposals={"rock": 1, "paper": 1}).reset(ROOT)
    assert episode.legal(0) == ("1", "2") and episode.read(0, "3") == "3" and episode.read(0, "4") is None


def test_a_chooser_sees_only_its_own_candidates():
    keys = set()
    for seed in range(60):
        episode = choose(environment={"name": "kuhn_poker"}).reset(Stream.from_seed(seed))
        first_candidates = episode.candidates[0]
        episode.step({0: numerals(2)[first_candidates.index("pass")]})
        episode.step({1: numerals(2)[episode.candidates[1].index("bet")]})
        keys.add((episode.observe(0).key, episode.play.observe(0).key, first_candidates, episode.candidates[0]))
    assert (
        len({key for key, *_ in keys}) == len(keys) == 12
    )  # 3 cards x 2 orders of candidates at its first turn x 2 at its second
    episode = choose(environment=RPS_SPOCK_LIZARD, count=2).reset(Stream.from_seed(2))
    other_episode = episode.clone()
    other_episode.candidates = {**episode.candidates, 1: ("lizard", "spock")}
    assert episode.draw(0) == other_episode.draw(0) and episode.described(0) == other_episode.described(0)
    assert episode.draw(None) != other_episode.draw(None) and "Candidates of right" in other_episode.described(None)
    episode.step({0: "1", 1: "2"})
    assert (
        "(chosen)" in episode.described(0)
        and "right chose among" not in episode.described(0)
        and not other_episode.done
    )
    inner_environment = {"name": "choose", "options": {"environment": {"name": "kuhn_poker"}}}
    check_environment(trial, environment=inner_environment, attempts=2, reveal=True, plays=6)


def test_seats_without_candidates_and_scripted_players():
    game, inner_game = (
        make_game("choose", options={"environment": {"name": "kuhn_poker"}, "choosers": ["second"]}),
        make_game("kuhn_poker"),
    )
    for seed in range(20):
        episode, inner_play = game.reset(Stream.from_seed(seed)), inner_game.reset(Stream.from_seed(seed).child(0))
        assert episode.observe(0) == inner_play.observe(0) and episode.legal(0) == inner_play.legal(0) == (
            "pass",
            "bet",
        )
        assert episode.read(0, "bet", exact=True) == "bet" and not episode.candidates
        episode.step({0: "bet"})
        inner_play.step({0: "bet"})
        assert (
            episode.legal(1) == ("1", "2")
            and episode.observe(1).prompt
            == f"{inner_play.observe(1).prompt} 1 {episode.candidates[1][0]} 2 {episode.candidates[1][1]}"
        )
        episode.step({1: "1"})
        assert episode.choices.keys() == {1} and "first chose among" not in episode.described(None)
    rules = choose(environment=RPS)
    for seed in range(12):
        episode = rules.reset(Stream.from_seed(seed))
        shares = biased(weights={"rock": 8, "paper": 1, "scissors": 1}).chances(episode, 0)
        assert shares[numerals(3)[episode.candidates[0].index("rock")]] == pytest.approx(0.8)
        probabilities = scripted(preference=("scissors",)).chances(episode, 1)
        assert episode.candidates[1][int(next(iter(probabilities))) - 1] == "scissors"
        repeated_episode = repeated(environment={"name": "choose", "options": {"environment": RPS}}).reset(
            Stream.from_seed(seed)
        )
        assert actions_meant(repeated_episode, 0, repeated_episode.legal(0)) == repeated_episode.play.candidates[0]


@pytest.mark.parametrize(
    ("choosers", "message"),
    [(["third"], "no role of kuhn_poker named 'third'|third"), (["first", "first"], "names a role twice")],
)
def test_choosers_must_be_distinct_roles(choosers, message):
    with pytest.raises(ConfigError, match=message):
        choose(environment={"name": "kuhn_poker"}, choosers=choosers)


def test_zero_weights_are_refused_and_free_text_is_not_checked():
    with pytest.raises(ConfigError, match="gives no action a weight above 0; write proposals"):
        choose(proposals={"rock": 0.0})
    choose(environment={"name": "werewolf", "options": {"style": "full"}}, proposals={"anything": 1.0})


@pytest.mark.parametrize(
    ("inner_environment", "proposals", "word", "nearest"),
    [
        ({"name": "rps_spock_lizard"}, {"rokc": 0.6, "paper": 0.4}, "rokc", "rock"),
        ({"name": "werewolf"}, {"accuse p9": 1.0}, "p9", "p"),
    ],
)
def test_proposals_outside_the_vocabulary_are_refused(inner_environment, proposals, word, nearest):
    with pytest.raises(
        UnknownNameError,
        match=f"Unknown word of choose.proposals for {inner_environment['name']} '{word}'. Did you mean '{nearest}",
    ):
        choose(environment=inner_environment, proposals=proposals)
