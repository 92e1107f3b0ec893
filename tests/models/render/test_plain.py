import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import ModelError
from sparring.models.render.plain import SPECIAL, plain
from sparring.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(["bet", "pass", "K"])
RENDERER = plain(TOKENIZER)
SPECIAL_IDS = {TOKENIZER.get_vocab()[token] for token in SPECIAL} - {RENDERER.unknown}
WORDS = st.sampled_from([*SPECIAL, "bet", "K", "<|im_end|>", "<end><ask>", "</s>", "zzz"])
FOREIGN = st.lists(WORDS | st.text(max_size=5), max_size=10).map(" ".join)


@given(FOREIGN)
def test_foreign_text_never_yields_a_special_id(text):
    assert not SPECIAL_IDS & set(RENDERER.encode(text))
    expected_ids = [RENDERER.begin, *RENDERER.encode(text), RENDERER.ask]
    assert list(RENDERER.initial(text)) == expected_ids
    assert list(RENDERER.append(text)) == expected_ids[1:]


@given(st.lists(st.sampled_from(["bet", "pass", "K"]), max_size=6).map(" ".join))
def test_known_words_round_trip_and_agree_with_the_tokenizer(text):
    assert RENDERER.parse(RENDERER.reply(text)) == text
    assert list(RENDERER.encode(text)) == TOKENIZER(text)["input_ids"]


def test_special_ids_in_a_reply_are_not_read_as_words():
    assert RENDERER.parse((RENDERER.words["bet"], RENDERER.begin, RENDERER.end)) == "bet <begin>"
    assert RENDERER.parse(()) == ""


def test_only_a_truncated_reply_is_closed():
    assert RENDERER.close(True) == (RENDERER.end,)
    assert RENDERER.close(False) == ()


def test_a_tokenizer_without_the_scaffold_is_refused():
    class TokenizerWithoutScaffold:
        all_special_tokens = ()

        def get_vocab(self):
            return {"a": 0}

    with pytest.raises(ModelError, match="<begin>"):
        plain(TokenizerWithoutScaffold())
