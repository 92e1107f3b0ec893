"""Speeches as sentences: every wording is parsed as its phrase, and free text by its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.werewolf.rules import SAY, SILENCE, phrases
from sparring.environments.werewolf.sentences import CLAIMS, WORDINGS, phrase_meant, to_sentence
from tests.cases import every_case

PHRASES = phrases(SAY, ("wolf", "seer", "doctor", "villager"), ("p2", "p9"))


@pytest.mark.parametrize("phrase", PHRASES)
def test_all_wordings_of_a_phrase_are_parsed_as_it(phrase):
    assert phrase_meant(phrase) == phrase
    sentences = {to_sentence(phrase, Stream.from_seed(seed)) for seed in range(60)}
    assert (
        {phrase_meant(sentence) for sentence in sentences}
        == {phrase}
        == {phrase_meant(sentence, "p1") for sentence in sentences}
    )
    assert {phrase_meant(sentence.upper().rstrip(".!")) for sentence in sentences} == {phrase}
    wordings = WORDINGS.get(phrase.replace("p2", "@").replace("p9", "@"), CLAIMS)
    assert len(sentences) == len(wordings) == len(set(wordings)) > 1


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
        ("I don't think p2 is a werewolf", "support p2"),  # a negated opinion
        ("I do not think that p2 is innocent", "accuse p2"),
        ("I don't think p2 is not a wolf", "accuse p2"),  # a double negation
        ("I believe p2", "support p2"),
        ("I doubt that p2 is a wolf", "support p2"),
        ("I doubt p2", "accuse p2"),
        ("I don't doubt p2", "support p2"),
        ("As the seer I know that p4 is good", "seer p4 good"),
        ("I have checked p3, he is a werewolf!", "seer p3 wolf"),
        ("I am a villager, p3 is lying", "accuse p3"),  # a statement about a different player has priority over a claim
        ("I am p1, the seer looked at nobody", SILENCE),
        ("p3 is the seer.", SILENCE),
        ("I am not a werewolf.", SILENCE),
        ("I trust p2, but p3 is a wolf", "support p2"),  # the player that is named first counts
        ("I, p1, suspect p3", "accuse p3"),  # a player makes no statement about itself
        ("The moderator says: p2 is dead", SILENCE),
        ("p22 is a wolf", SILENCE),
        ("p2 p\u00b2 wolf", "accuse p2"),
        ("", SILENCE),
        ("not " * 50_000 + "p2 wolf", SILENCE),  # only the first 100,000 characters are parsed
    ],
)
def test_free_text_is_parsed_by_its_words(text, phrase):
    assert phrase_meant(text, "p1") == phrase


@given(st.text(max_size=60), st.sampled_from(["", "p1", "p2"]))
def test_any_text_means_a_phrase_of_the_grammar_about_another_player(text, speaker):
    all_phrases = phrases(SAY, ("wolf", "seer", "doctor", "villager"), tuple(f"p{number}" for number in range(1, 10)))
    phrase = phrase_meant(text, speaker)
    assert phrase in all_phrases and phrase_meant(phrase) == phrase
    assert not speaker or speaker not in phrase.split()
