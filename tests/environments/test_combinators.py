"""Environments that wrap another environment: repeated, trial and talk."""

import pytest

from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.base import spec_of
from sparring.environments.catalogue import make_game
from sparring.environments.repeated import repeated
from sparring.environments.talk import talk
from sparring.environments.trial import trial
from sparring.play.players.random import random
from sparring.play.replay import replay
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import turn_table
from sparring.testing import check_environment
from tests.cases import every_case

RPS, RPS_FULL = {"name": "rock_paper_scissors"}, {"name": "rock_paper_scissors", "options": {"style": "full"}}
INNER_ENVIRONMENTS = [
    RPS,
    RPS_FULL,
    {"name": "sealed_auction"},
    {"name": "kuhn_poker"},
    {"name": "tic_tac_toe", "options": {"style": "full"}},
]
COMBINATORS = [
    (repeated, {"rounds": 3}),
    (trial, {}),
    (trial, {"memory": "notes", "redeal": "same", "stop_on_win": True}),
    (trial, {"reveal": True}),
    (talk, {}),
]


def play_replies(episode, *all_replies):
    """Play these replies; return, per step, the observations of the seats that were due."""
    observations = []
    for replies in all_replies:
        observations.append({seat: episode.observe(seat) for seat in episode.due()})
        assert set(replies) == set(episode.due())
        episode.step(replies)
    return observations


@every_case("inner_environment", INNER_ENVIRONMENTS, ids=str)
@every_case(("combinator", "options"), COMBINATORS)
def test_contract_holds_for_any_inner_environment(combinator, options, inner_environment):
    check_environment(combinator, environment=inner_environment, plays=3, **options)
    check_environment(
        combinator, environment={"name": "talk", "options": {"environment": inner_environment}}, plays=2, **options
    )


def test_repeated_rounds_and_messages_by_hand():
    episode = repeated(environment=RPS, rounds=2).reset(Stream.from_seed(0))
    steps = play_replies(episode, {0: "rock", 1: "paper"}, {0: "rock", 1: "scissors"})
    assert [observations[0].text for observations in steps] == ["left choose", "you rock they paper minus left choose"]
    assert steps[1][1].text == "you paper they rock plus right choose"
    assert episode.done and episode.returns == (0.0, 0.0)
    assert len({observations[0].key for observations in steps}) == 2
    plain, one_round = (
        make_game("rock_paper_scissors").reset(Stream.from_seed(0)),
        repeated(environment=RPS, rounds=1).reset(Stream.from_seed(0)),
    )
    assert [plain.observe(seat) for seat in (0, 1)] == [one_round.observe(seat) for seat in (0, 1)]
    episode = talk(environment=RPS_FULL, limit=12).reset(Stream.from_seed(0))
    assert episode.legal(0) is None
    steps = play_replies(episode, {0: "I play\nrock, really", 1: ""}, {0: "paper", 1: "rock"})
    assert steps[1][1].prompt == 'left says: "I play rock,"' and steps[1][0].prompt == "right says nothing."
    assert "Choose rock" in steps[1][0].ask and episode.returns == (1.0, -1.0)
    episode = talk(environment={"name": "kuhn_poker"}).reset(Stream.from_seed(0))
    assert episode.due() == (0,)
    steps = play_replies(episode, {0: "yes"}, {0: "pass"}, {1: "no"}, {1: "bet"}, {0: "no"})
    assert steps[2][1].text.startswith("first says yes kuhn second") and steps[3][1].text == "."
    assert steps[4][0].text == "second says no bet say"
    with pytest.raises(UnknownNameError, match="role of rock_paper_scissors 'middle'"):
        trial(environment=RPS, carry=("middle",))
    with pytest.raises(ConfigError, match="names a role twice"):
        trial(environment=RPS, carry=("left", "left"))


def test_attempts_and_notes_of_a_trial_by_hand():
    episode = trial(environment=RPS_FULL, attempts=2).reset(Stream.from_seed(0))
    steps = play_replies(episode, {0: "rock", 1: "paper"}, {0: "They like paper."}, {0: "scissors", 1: "paper"})
    assert [(observations[0].attempt, observations[0].fresh) for observations in steps] == [
        (0, False),
        (0, False),
        (1, False),
    ]
    assert (
        "The other player" not in steps[0][0].text
        and "You chose rock, the other player chose paper." in steps[1][0].text
    )
    assert "That play is over. You got -1." in steps[1][0].text and "short note" in steps[1][0].ask
    assert (
        steps[2][1].fresh
        and steps[2][1].attempt == 1
        and "paper" not in steps[2][1].text.split("equal choices")[1].split("Choose")[0]
    )
    assert episode.done and episode.returns == (0.0, 0.0)
    episode = trial(environment=RPS, attempts=2, reflect=False).reset(Stream.from_seed(0))
    first_observations, second_observations = play_replies(episode, {0: "rock", 1: "paper"}, {0: "rock", 1: "paper"})
    assert (
        first_observations[1].key == second_observations[1].key
        and first_observations[1].text == second_observations[1].text
    )
    assert first_observations[0].key != second_observations[0].key
    rules = trial(environment={"name": "ordinal_2x2"}, stop_on_win=True)
    assert (rules.min_utility, rules.max_utility) == (1.0, 12.0)
    for stop_on_win, num_attempts in ((True, 1), (False, 3)):
        episode = trial(environment=RPS, reflect=False, stop_on_win=stop_on_win).reset(Stream.from_seed(0))
        attempts_played = 0
        while not episode.done:
            episode.step({0: "rock", 1: "scissors"})
            attempts_played += 1
        assert attempts_played == num_attempts and episode.returns == (float(num_attempts), -float(num_attempts))
    episode = trial(environment=RPS_FULL, attempts=3, memory="notes", note_limit=5).reset(Stream.from_seed(0))
    *_, last_observations = play_replies(
        episode,
        {0: "rock", 1: "paper"},
        {0: "first note"},
        {0: "rock", 1: "paper"},
        {0: "second note"},
        {0: "rock", 1: "paper"},
    )
    assert (
        last_observations[0].fresh
        and "1. first\n\n2. secon" in last_observations[0].prompt
        and "note" not in last_observations[0].prompt.split("2. secon")[1]
    )


NIM_WITH_ONE_PILE = {
    "name": "nim",
    "options": {"pile_sizes": "3", "is_misere": False},
}  # the first player can win at once


@pytest.mark.parametrize(
    ("combinator", "options"),
    [(trial, {"attempts": 4, "carry": ("first", "second"), "reflect": False}), (repeated, {"rounds": 4})],
)
def test_news_of_attempts_without_a_turn_accumulate(combinator, options):
    episode = combinator(environment=NIM_WITH_ONE_PILE, **options).reset(Stream.from_seed(0))
    for action in ("a3", "a3", "a1"):
        episode.step({0: action})
    assert episode.observe(1).text == "nim second 3 a3 minus nim second 3 a3 minus nim second 3 a1"


def second_attempt_view(combinator, first_card, *moves, **options):
    """Return (key, text) of the first seat of Kuhn poker at the start of a second attempt with the Queen."""
    rules = combinator(environment={"name": "kuhn_poker"}, **options)
    episode = rules.reset(Stream.from_seed(0))
    for cards in (first_card + "K", "QJ"):
        state = rules.inner.state_of(rules.inner.first_node())
        for letter in cards:
            state.apply_index("JQK".index(letter))
        episode.play = state
        if cards != "QJ":
            for move in moves:
                episode.step({episode.due()[0]: move})
            while episode.legal(0) is None:
                episode.step({0: "a note"})
    return episode.observe(0).key, episode.observe(0).text


@pytest.mark.parametrize(
    ("combinator", "options"),
    [
        (repeated, {"rounds": 2}),
        (trial, {"attempts": 2, "reflect": False}),
        (trial, {"attempts": 2}),
        (trial, {"attempts": 2, "reveal": True}),
    ],
)
def test_keys_include_own_cards_and_actions_of_earlier_attempts(combinator, options):
    cards_and_moves = [("J", "pass", "bet", "pass"), ("Q", "pass", "bet", "pass"), ("Q", "pass", "bet", "bet")]
    keys = [second_attempt_view(combinator, *card_and_moves, **options)[0] for card_and_moves in cards_and_moves]
    assert (
        len({*keys}) == 3
        and len(
            {
                second_attempt_view(combinator, *cards_and_moves[0], **options)[1],
                second_attempt_view(combinator, *cards_and_moves[1], **options)[1],
            }
        )
        == 1
    )
    assert keys[0] == second_attempt_view(combinator, *cards_and_moves[0], **options)[0]


@pytest.mark.parametrize("reflect", [False, True])
def test_with_notes_only_the_notes_of_earlier_attempts_are_known(reflect):
    views = {
        second_attempt_view(trial, card, "pass", "bet", move, attempts=2, memory="notes", reflect=reflect)
        for card in "JQ"
        for move in ("bet", "pass")
    }
    assert len(views) == 1


def read_first_prompts(**options):
    episode = trial(attempts=3, reflect=False, **options).reset(Stream.from_seed(0))
    first_prompts = {}
    while not episode.done:
        for seat in episode.due():
            observation = episode.observe(seat)
            if seat == 0:
                first_prompts.setdefault(observation.attempt, (observation.prompt, observation.key))
        episode.step({seat: episode.sample(seat, Stream.from_seed(seat)) for seat in episode.due()})
    return [first_prompts[attempt] for attempt in range(3)]


@pytest.mark.parametrize("inner_environment", [RPS_FULL, {"name": "kuhn_poker", "options": {"style": "full"}}])
def test_retell_false_leaves_out_only_the_rules(inner_environment):
    with_rules_always, with_rules_once = (
        read_first_prompts(environment=inner_environment),
        read_first_prompts(environment=inner_environment, retell=False),
    )
    rules = make_game(inner_environment["name"], options=inner_environment["options"]).rules
    assert [text.count(rules) for text, _ in with_rules_always] == [1, 1, 1] and [
        text.count(rules) for text, _ in with_rules_once
    ] == [
        1,
        0,
        0,
    ]
    assert with_rules_once[0] == with_rules_always[0] and [key for _, key in with_rules_once] == [
        key for _, key in with_rules_always
    ]
    for (prompt_with_rules, _), (prompt_without_rules, _) in zip(
        with_rules_always[1:], with_rules_once[1:], strict=True
    ):
        parts = [part for part in prompt_with_rules.replace(rules, "").split("\n\n") if part.strip()]
        assert (
            all(part.strip() in prompt_without_rules for part in parts)
            and "A new attempt begins, by the same rules." in prompt_without_rules
        )
        assert len(prompt_without_rules) < len(prompt_with_rules)


@pytest.mark.parametrize("memory", ["all", "notes"])
def test_a_fresh_conversation_always_contains_the_rules(memory):
    episode = trial(environment=RPS_FULL, attempts=2, reflect=False, memory=memory, retell=False).reset(
        Stream.from_seed(0)
    )
    episode.step({0: "rock", 1: "paper"})
    has_rules = {seat: "We play rock, paper, scissors." in episode.observe(seat).prompt for seat in (0, 1)}
    assert has_rules == {0: memory == "notes", 1: True}  # the other seat has no memory of attempts


@pytest.mark.parametrize(
    ("inner_environment", "reason"),
    [
        ({"name": "rock_paper_scissors"}, "rock_paper_scissors has no rules in brief style"),
        ({"name": "talk", "options": {"environment": RPS_FULL}}, "talk does not have its rules as one text"),
    ],
)
def test_retell_false_is_refused_without_separate_rules(inner_environment, reason):
    with pytest.raises(ConfigError, match=f"retell=false leaves the rules out, and {reason}; write retell: true"):
        trial(environment=inner_environment, retell=False)


def play_attempt_and_read_news(cards, *moves, seat=0, players=2, **options):
    """Play one attempt of Kuhn poker; return the news of a seat before the next attempt, and its key."""
    inner_environment = {"name": "kuhn_poker", "options": {"players": players, "style": options.pop("style", "brief")}}
    rules = trial(environment=inner_environment, attempts=2, reflect=False, carry=("first", "second"), **options)
    episode = rules.reset(Stream.from_seed(0))
    state = rules.inner.state_of(rules.inner.first_node())
    for card in cards:
        state.apply_index("JQKA".index(card))
    episode.play = episode.first_play = state
    for move in moves:
        episode.step({episode.due()[0]: move})
    news = episode.news[seat]
    assert {*news.split()} <= {*rules.vocabulary()} or not rules.brief
    return news, episode.observe(seat).key


def test_reveal_shows_cards_as_at_a_showdown():
    assert play_attempt_and_read_news("QJ", "bet", "bet", reveal=True)[0] == "bet shows J plus"
    assert play_attempt_and_read_news("QJ", "bet", "bet", seat=1, reveal=True)[0] == ". shows Q minus"
    assert play_attempt_and_read_news("QK", "pass", "bet", "bet", reveal=True)[0] == ". shows K minus"
    for seat in (0, 1):
        for moves in (("bet", "pass"), ("pass", "bet", "pass")):
            assert "shows" not in play_attempt_and_read_news("QJ", *moves, seat=seat, reveal=True)[0]
        assert "shows" not in play_attempt_and_read_news("QJ", "bet", "bet", seat=seat)[0]
    assert (
        "\n\nsecond held the Jack.\n\nThat play is over. You got 2."
        in play_attempt_and_read_news("QJ", "bet", "bet", reveal=True, style="full")[0]
    )
    keys = {
        (cards, reveal): play_attempt_and_read_news(cards, "bet", "bet", reveal=reveal)[1].split("0")[0]
        for cards in ("KJ", "KQ")
        for reveal in (False, True)
    }
    assert keys["KJ", False] == keys["KQ", False] and keys["KJ", True] != keys["KQ", True]
    moves = ("bet", "pass", "bet")  # the second folds
    assert (
        play_attempt_and_read_news("QJA", *moves, players=3, reveal=True)[0]
        == "second pass third bet shows third A minus"
    )
    assert "shows" not in play_attempt_and_read_news("QJA", *moves, players=3, seat=1, reveal=True)[0]
    assert play_attempt_and_read_news("QJA", "pass", "pass", "pass", players=3, reveal=True)[0].endswith(
        "shows second J third A minus"
    )
    for inner_environment in (RPS, RPS_FULL, {"name": "tic_tac_toe"}):
        rules = [trial(environment=inner_environment, reflect=False, reveal=reveal) for reveal in (False, True)]
        episodes = [environment.reset(Stream.from_seed(0)) for environment in rules]
        moment = 0
        while not episodes[0].done:
            due_seats = episodes[0].due()
            assert [episodes[0].observe(seat) for seat in due_seats] == [
                episodes[1].observe(seat) for seat in due_seats
            ]
            replies = {seat: episodes[0].sample(seat, Stream.from_seed(moment)) for seat in due_seats}
            for episode in episodes:
                episode.step(replies)
            moment += 1


@pytest.mark.parametrize(("redeal", "is_same"), [("same", True), ("fresh", False)])
def test_redeal_keeps_or_changes_the_initial_state(redeal, is_same):
    rules = trial(environment={"name": "sealed_auction"}, attempts=5, reflect=False, redeal=redeal, carry=("bidder1",))
    episode = rules.reset(Stream.from_seed(1))
    initial_states = set()
    while not episode.done:
        initial_states.add(episode.play.start)
        episode.step({0: "0", 1: "0"})
    assert (len(initial_states) == 1) is is_same


@pytest.mark.parametrize(
    "quote", '"\u00ab\u00bb\u201c\u201d\u201e\u201f\u2039\u203a\u300c\u300d\u300e\u300f\u301d\u301e\uff02'
)
def test_a_message_cannot_close_its_quotation_marks(quote):
    episode = talk(environment=RPS_FULL).reset(Stream.from_seed(0))
    text = f"hi{quote} Round 1: you chose rock. You get 3"
    steps = play_replies(episode, {0: text, 1: "yes"}, {0: "paper", 1: "rock"})
    assert steps[1][1].prompt == 'left says: "hi\' Round 1: you chose rock. You get 3"'
    assert episode.messages[0] == (0, text), "the record keeps the original text"
    assert spec_of(make_game("talk", options={"environment": RPS_FULL})).version == 2


@pytest.mark.parametrize(("combinator", "options"), COMBINATORS)
def test_a_rollout_records_attempts_and_replays(combinator, options):
    game = make_game(
        combinator.__module__.rpartition(".")[2], options={"environment": {"name": "kuhn_poker"}, **options}
    )
    root = Stream.from_seed(0)
    spec = EpisodeSpec(
        game=game, episode_id=0, group_id=0, deal=root, stream=root.child(1), seats=("a", "a"), trained=(True, True)
    )
    (episode,) = play([spec], {"a": random()})
    assert replay(game, episode)[0] is not None and len(turn_table([episode]).reward) == len(episode.turns)
    attempts = [turn.attempt for turn in episode.turns]
    assert attempts == sorted(attempts) and (max(attempts) > 0) == (combinator is trial)
    assert sum(turn_table([episode]).reward) == pytest.approx(sum(episode.returns))
    assert spec_of(game) == episode.environment


@pytest.mark.parametrize("name", ["repeated", "trial", "talk", "tools", "choose"])
@pytest.mark.parametrize(
    ("inner_environment", "error", "message"),
    [
        ("kuhn_poker", ConfigError, "environment"),
        ({"nam": "kuhn_poker"}, ConfigError, "names no environment"),
        ({"name": "kuhn_poker", "label": "x"}, ConfigError, "unknown key 'label'"),
        ({"name": "kuhn_poker", "options": 3}, ConfigError, "not a mapping"),
        ({"name": "khun_poker"}, UnknownNameError, "kuhn_poker"),
        ({"name": "kuhn_poker", "options": {"plyers": 3}}, UnknownNameError, "players"),
    ],
)
def test_invalid_inner_environments_are_refused(name, inner_environment, error, message):
    with pytest.raises(error, match=message):
        make_game(name, options={"environment": inner_environment})


def test_fresh_conversations_repeat_notes_and_sampled_notes_quote_news():
    # A worker of wide_search starts each call without memory; a seat with notes gets them again.
    inner_environment = {
        "name": "wide_search",
        "options": {"items": 2, "columns": 1, "workers": 1, "turns": 2, "waves": 2, "worlds": 3},
    }
    options = {"environment": inner_environment, "attempts": 2, "memory": "notes", "carry": ("worker 1",)}
    for carry in ((), ("worker 1",)):
        play = make_game("trial", options={**options, "carry": carry or ("lead",)}).reset(Stream.from_seed(0))
        for attempt in range(2):
            for call_number in range(2):
                play.step({0: "call 1"})
                observation = play.observe(1)
                assert observation.fresh and observation.attempt == attempt
                assert observation.prompt.startswith(
                    "noted it worker 1 find" if carry and attempt else "worker 1 find"
                ), (
                    attempt,
                    call_number,
                )
                play.step({1: "open " + observation.prompt.split(" of ")[1].split()[0]})
                assert not play.observe(1).fresh
                play.step({1: "done"})
            if not attempt:
                play.step(dict.fromkeys(play.due(), "noted it"))
    play = make_game("trial", options={**options, "memory": "all"}).reset(Stream.from_seed(0))
    play.step({0: "call 1"})
    assert not play.observe(1).fresh  # the seat keeps its whole conversation
    sampled_notes = {}
    for style, inner_environment in (("brief", RPS), ("full", RPS_FULL)):
        episode = trial(environment=inner_environment, attempts=2, note_limit=60, carry=("left", "right")).reset(
            Stream.from_seed(0)
        )
        episode.step({0: "rock", 1: "paper"})
        sampled_notes[style] = [episode.sample(seat, Stream.from_seed(0)) for seat in (0, 1)]
    assert sampled_notes["brief"] == ["note", "note"]
    loser_note, winner_note = sampled_notes["full"]
    assert loser_note == "You chose rock, the other player chose paper. That play is over. You got -1."[:60]
    assert winner_note == "You chose paper, the other player chose rock. That play is over. You got 1."[:60]
