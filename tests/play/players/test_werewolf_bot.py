import pytest

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.werewolf import werewolf
from sparring.environments.werewolf.sentences import phrase_meant, victim_in
from sparring.play.players.werewolf_bot import werewolf_bot


def play_after_first_night(seer_target="p1", victim="p3", **options):
    """Return a play after the first night; p1 is the wolf, p2 the seer, p3 and p4 are villagers."""
    play = werewolf(**options).begin((0, 1, 2, 3), Stream.from_seed(0))
    play.step({0: victim, 1: seer_target})
    return play


def test_actions_at_night():
    play = werewolf().begin((0, 1, 2, 3), Stream.from_seed(0))
    bot = werewolf_bot()
    assert bot.chances(play, 0) == dict.fromkeys(("p2", "p3", "p4"), 1 / 3) == {**bot.chances(play, 0)}
    assert set(bot.chances(play, 1)) == {"p1", "p3", "p4"}
    play_of_seven = werewolf(players=7).begin(tuple(range(7)), Stream.from_seed(0))
    assert bot.chances(play_of_seven, 3) == {"p4": 1.0}  # the doctor p4 protects itself
    play_of_seven.step({0: "p6", 2: "p1", 3: "p4"})
    assert bot.chances(play_of_seven, 1) == {"p6": 1.0}  # the proposed victim of the other wolf


def test_talking_wolves_name_a_victim_and_follow_each_other():
    play = werewolf(players=7, wolves_talk=True).begin(tuple(range(7)), Stream.from_seed(0))  # wolves p1, p2
    bot = werewolf_bot()
    assert set(bot.chances(play, 0)) == {f"kill p{number}" for number in range(3, 8)}
    assert bot.chances(play.clone(), 0) != werewolf_bot(style="silent").chances(play, 0) == {"silence": 1.0}
    play.step({0: "kill p6"})
    assert bot.chances(play, 1) == {"kill p6": 1.0}
    play.step({1: "silence"})
    assert bot.chances(play, 0) == {"p6": 1.0} and set(bot.chances(play, 2)) == {"p1", "p2", "p4", "p5", "p6", "p7"}
    play.step({0: "p6", 2: "p1", 3: "p6"})
    play.step({1: "p6"})  # the doctor protects p6
    while play.position.phase == "speak":
        play.step({seat: "claim seer" if seat == 4 else "silence" for seat in play.due()})
    play.step(dict.fromkeys(play.due(), "abstain"))
    assert bot.chances(play, 0) == {"kill p5": 1.0}  # p5 claimed to be the seer this day, so wolves prefer it
    for _ in range(2):
        play.step({play.due()[0]: "kill p7"})
    assert bot.chances(play, 0) == {"p5": 1.0}


@pytest.mark.parametrize(
    ("speech", "names"),
    [("Let us kill p5", {"p5"}), ("p5", {"p5"}), ("Not p4, but p5!", {"p5"}), ("p5 is the seer, kill him", {"p5"}),
     ("Don't kill p5", {f"p{n}" for n in range(3, 8)}), ("Kill p1", {f"p{n}" for n in range(3, 8)}), ("", {f"p{n}" for n in range(3, 8)})],
)  # fmt: skip
def test_free_text_by_night_names_a_victim(speech, names):
    play = werewolf(players=7, wolves_talk=True, speech="text", style="full").begin(
        tuple(range(7)), Stream.from_seed(0)
    )
    play.step({0: speech})
    bot = werewolf_bot(sentences=True)
    assert set(bot.chances(play, 1)) == {f"kill {name}" for name in names}
    speeches = {bot.choose(play, 1, Stream.from_seed(seed)) for seed in range(200)}
    assert len(speeches) == 3 * len(names) and {victim_in(text) for text in speeches} == names


@pytest.mark.parametrize(
    ("style", "wolf_speeches", "seer_speeches", "villager_speeches"),
    [
        ("talkative", {"accuse p2", "accuse p4"}, {"seer p1 wolf"}, {"accuse p1"}),
        ("silent", {"silence"}, {"seer p1 wolf"}, {"silence"}),
        ("accuser", {"seer p2 wolf", "seer p4 wolf"}, {"seer p1 wolf"}, {"accuse p1"}),
    ],
)
def test_speeches_and_votes_by_style(style, wolf_speeches, seer_speeches, villager_speeches):
    play, bot = play_after_first_night(), werewolf_bot(style=style)
    assert set(bot.chances(play, 0)) == wolf_speeches
    play.step({0: "silence"})
    assert set(bot.chances(play, 1)) == seer_speeches
    play.step({1: "seer p1 wolf"})
    assert set(bot.chances(play, 3)) == villager_speeches
    play.step({3: "silence"})
    assert bot.chances(play, 1) == bot.chances(play, 3) == {"p1": 1.0}
    # an accused villager votes against the accuser, so the wolf does this as well
    assert bot.chances(play, 0) == {"p2": 1.0}


def test_the_silent_style_abstains_without_evidence():
    play = play_after_first_night(seer_target="p4")
    while play.position.phase == "speak":
        play.step(dict.fromkeys(play.due(), "silence"))
    assert werewolf_bot(style="silent").chances(play, 3) == {"abstain": 1.0}
    assert set(werewolf_bot().chances(play, 3)) == {"p1", "p2"}


def test_wolves_kill_a_claimed_seer_and_do_not_vote_for_each_other():
    play = werewolf(players=7).begin(tuple(range(7)), Stream.from_seed(0))  # wolves p1, p2
    play.step({0: "p7", 2: "p1", 3: "p4"})
    play.step({1: "p7"})
    bot, speeches = werewolf_bot(), {2: "seer p1 wolf"}
    while play.position.phase == "speak":
        play.step({seat: speeches.get(seat, "silence") for seat in play.due()})
    assert "p1" not in bot.chances(play, 1) and bot.chances(play, 5) == {"p1": 1.0}
    play.step(dict.fromkeys(play.due(), "abstain"))
    assert bot.chances(play, 0) == {"p3": 1.0}


@pytest.mark.parametrize(
    ("speech", "votes"),
    [
        ("My vision shows that p2 is the wolf.", {"p2"}),
        ("I am the seer and p2 is no werewolf!", {"p1"}),
        ("We should vote for p2 today.", {"p2"}),
        ("I trust p2.", {"p1"}),
        ("p2 p2 p2", {"p1", "p2"}),
    ],
)
def test_free_text_is_read_by_its_meaning(speech, votes):
    play, bot = play_after_first_night(style="full", speech="text"), werewolf_bot()
    for seat, text in ((0, speech), (1, "good morning"), (3, "nothing")):
        play.step({seat: text})
    assert set(bot.chances(play, 3)) == votes  # the votes of p4; p1 and p2 are alive


@pytest.mark.parametrize("sentences", [False, True])
def test_the_bot_speaks_in_phrases_or_in_sentences_of_equal_meaning(sentences):
    play, bot = play_after_first_night(style="full", speech="text"), werewolf_bot(sentences=sentences)
    play.step({0: "I have nothing to say."})
    texts = {bot.choose(play, 1, Stream.from_seed(seed)) for seed in range(20)}
    assert {phrase_meant(text) for text in texts} == {"seer p1 wolf"}
    assert len(texts) == (3 if sentences else 1) and ("seer p1 wolf" in texts) is not sentences
    play_of_wolf = play_after_first_night(style="full", speech="text")
    wolf_speeches = {bot.choose(play_of_wolf, 0, Stream.from_seed(seed)) for seed in range(100)}
    assert len(wolf_speeches) == (8 if sentences else 2)  # either target, in several wordings
    play_with_phrases = play_after_first_night()  # with phrases as speech only the grammar is used
    play_with_phrases.step({0: "silence"})
    assert bot.choose(play_with_phrases, 1, Stream.from_seed(0)) == "seer p1 wolf"


@pytest.mark.parametrize("order", ["ordered", "simultaneous"])
@pytest.mark.parametrize(
    ("style", "wolf_meaning", "villager_meaning"),
    [("talkative", "accuse", "accuse"), ("silent", "silence", "silence"), ("accuser", "seer", "accuse")],
)
def test_every_style_has_equal_meanings_in_sentences_and_phrases(style, wolf_meaning, villager_meaning, order):
    play, bot = (
        play_after_first_night(style="full", speech="text", order=order),
        werewolf_bot(style=style, sentences=True),
    )
    meanings = {}
    while play.position.phase == "speak":
        texts = {seat: bot.choose(play, seat, Stream.from_seed(0).child(seat)) for seat in play.due()}
        meanings |= {seat: phrase_meant(text) for seat, text in texts.items()}
        play.step(texts)
    assert meanings[1] == "seer p1 wolf" and (meanings[0].split()[0], meanings[3].split()[0]) == (
        wolf_meaning,
        villager_meaning,
    )
    assert "p1" in bot.chances(play, 3)  # it read the seer's accusation of p1


def test_free_text_that_begins_with_a_phrase_is_read():
    play, bot = play_after_first_night(style="full", speech="text"), werewolf_bot()
    play.step({0: "seer p4 wolf, believe me"})
    assert bot.choose(play, 1, Stream.from_seed(0)) == "seer p1 wolf"
    play.step({1: "p1 p1 p1 \u00b2 seer"})
    play.step({3: "seer p\u00b2 wolf"})
    assert bot.chances(play, 3) == {"p1": 1.0}


def test_werewolf_bot_plays_only_werewolf():
    with pytest.raises(GameError, match="plays only werewolf"):
        werewolf_bot().chances(make_game("nim").reset(Stream.from_seed(0)), 0)
