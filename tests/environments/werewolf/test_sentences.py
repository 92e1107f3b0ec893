"""Speeches in sentences: every wording means its phrase, and free text is read by its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.werewolf.rules import SAY, SILENCE, phrases
from sparring.environments.werewolf.sentences import CLAIMS, WORDINGS, meaning, to_sentence
from tests.cases import every_case

EVERY = phrases(SAY, ("wolf", "seer", "doctor", "villager"), ("p2", "p9"))


@pytest.mark.parametrize("phrase", EVERY)
def test_a_phrase_means_itself_and_so_do_all_its_wordings(phrase):
    assert meaning(phrase) == phrase
    sentences = {to_sentence(phrase, Stream.from_seed(seed)) for seed in range(60)}
    assert (
        {meaning(sentence) for sentence in sentences} == {phrase} == {meaning(sentence, "p1") for sentence in sentences}
    )
    assert {meaning(sentence.upper().rstrip(".!")) for sentence in sentences} == {phrase}
    lines = WORDINGS.get(phrase.replace("p2", "@").replace("p9", "@"), CLAIMS)
    assert len(sentences) == len(lines) == len(set(lines)) > 1


@every_case(
    ("text", "phrase"),
    [
        ("I think p2 is not a werewolf", "support p2"),
        ("I don't believe p3.", "accuse p3"),
        ("I'm the seer, p2 isn't a werewolf", "seer p2 good"),
        ("p2 isn\u2019t a wolf", "support p2"),  # typographic apostrophes
        ("I\u2019m the seer: p2 is a werewolf", "seer p2 wolf"),
        ("I`m the doctor", "claim doctor"),
        ("I won't vote for p2", "support p2"),
        ("p2 wasn't honest", "accuse p2"),
        ("Nobody should vote for p2", "support p2"),
        ("I don't think p2 is a werewolf", "support p2"),  # an opinion that is denied
        ("I do not think that p2 is innocent", "accuse p2"),
        ("I don't think p2 is not a wolf", "accuse p2"),  # twice
        ("I believe p2", "support p2"),
        ("I doubt that p2 is a wolf", "support p2"),
        ("I doubt p2", "accuse p2"),
        ("I don't doubt p2", "support p2"),
        ("As the seer I know that p4 is good", "seer p4 good"),
        ("I have checked p3, he is a werewolf!", "seer p3 wolf"),
        ("I am a villager, p3 is lying", "accuse p3"),  # what is said of another counts before a claim
        ("I am p1, the seer looked at nobody", SILENCE),
        ("p3 is the seer.", SILENCE),
        ("I am not a werewolf.", SILENCE),
        ("I trust p2, but p3 is a wolf", "support p2"),  # who is named first
        ("I, p1, suspect p3", "accuse p3"),  # not of itself
        ("The moderator says: p2 is dead", SILENCE),
        ("p22 is a wolf", SILENCE),
        ("p2 p\u00b2 wolf", "accuse p2"),
        ("", SILENCE),
        ("not " * 50_000 + "p2 wolf", SILENCE),  # what comes after 100,000 characters is not read
    ],
)
def test_free_text_is_read_by_its_words(text, phrase):
    assert meaning(text, "p1") == phrase


@given(st.text(max_size=60), st.sampled_from(["", "p1", "p2"]))
def test_any_text_means_a_phrase_of_the_grammar_about_another_player(text, speaker):
    every = phrases(SAY, ("wolf", "seer", "doctor", "villager"), tuple(f"p{number}" for number in range(1, 10)))
    phrase = meaning(text, speaker)
    assert phrase in every and meaning(phrase) == phrase
    assert not speaker or speaker not in phrase.split()
