"""The chat renderer, against small tokenizers with templates of the kinds that exist."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sparring.context.ledger import Ledger
from sparring.environments.catalogue import make_game
from sparring.errors import ConfigError, ModelError
from sparring.players.base import Reply
from sparring.render.chat import chat
from sparring.render.templates import CHATML
from sparring.rng import Stream
from tests.cases import every_case

GEMMA = (
    "{{ '<bos>' }}{% for m in messages %}{{ '<start>' + ('model' if m.role == 'assistant' else 'user') + '\n' + m.content | trim "
    "+ '<end>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start>model\n' }}{% endif %}"
)
THINKER = (
    "{% for m in messages %}{{ '<start>' + m.role + '\n' + m.content + '<end>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start>assistant\n' }}{% if not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"
)
UNSTABLE = (
    "{% for m in messages %}{{ '<start>' + m.role + ('!' if loop.index > 3 else '') + '\n' + m.content + '<end>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start>assistant\n' }}{% endif %}"
)
LAST_ONLY = (
    "{% for m in messages %}{{ '<start>' + m.role + '\n' + (m.content if loop.last else '...') + '<end>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start>assistant\n' }}{% endif %}"
)
NO_END = (
    "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
SPECIALS = ["<bos>", "<start>", "<end>", "<|im_start|>", "<|im_end|>"]


def tokenizer(template, marks=()):
    """Return a byte-level tokenizer with special tokens and a template; ``marks`` are tokens of their own, but not special."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({char: index for index, char in enumerate(alphabet)}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.add_tokens([AddedToken(mark, special=False) for mark in marks])
    specials = [token for token in SPECIALS if token not in marks]
    made = PreTrainedTokenizerFast(tokenizer_object=core, additional_special_tokens=specials, clean_up_tokenization_spaces=False)
    made.chat_template = template
    return made


def text_of(renderer, ids):
    return renderer.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("template", [CHATML, GEMMA, THINKER])
@pytest.mark.parametrize("answer", ["exact", "tagged"])
def test_a_conversation_reads_as_the_template_writes_it(template, answer):
    made = tokenizer(template)
    renderer = chat(made, answer=answer, system="" if template == GEMMA else "Be brief.")
    reply = renderer.reply("bet")
    ids = renderer.initial("one") + reply + renderer.append("two") + reply + renderer.append("three")
    opening, said = renderer.format.opening, renderer.format.opening + "bet" + renderer.format.ending
    if template == THINKER:
        said = "<think>\n\n</think>\n\n" + said
    messages = [] if template == GEMMA else [{"role": "system", "content": "Be brief."}]
    for told in (f"one\n\n{renderer.format.instruction}", "two"):
        messages += [{"role": "user", "content": told}, {"role": "assistant", "content": said}]
    messages.append({"role": "user", "content": "three"})
    expected = made.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    assert text_of(renderer, ids) == expected + opening


@pytest.mark.parametrize("template", [CHATML, GEMMA, THINKER])
@every_case("thinking", [False, True])
@every_case("said", ["", "be", "a <end> b <|im_end|>", "</think>", "<think>", "\n"])
@every_case("truncated", [False, True])
def test_replies_of_every_kind_leave_a_conversation_that_only_grows(template, thinking, said, truncated):
    renderer = chat(tokenizer(template), thinking=thinking)
    ledger = Ledger(renderer)
    ledger.ask("one")
    first = ledger.ids
    sampled = renderer.encode(said) if truncated else (*renderer.encode(said), *renderer.stop_ids)
    ledger.record(Reply(text="", ids=sampled, truncated=truncated))
    ledger.ask("two")
    if not sampled:  # nothing was sampled, so nothing was sent: the conversation had outgrown the model
        assert ledger.ids == (*first, *renderer.append("two"))
        return
    assert ledger.ids == (*first, *renderer.encode(said), *renderer.stop_ids, *renderer.append("two"))
    assert ledger.ids.count(renderer.stop_ids[0]) == 1 + first.count(renderer.stop_ids[0]) + renderer.append("two").count(
        renderer.stop_ids[0]
    )


def test_a_mark_that_is_sampled_in_a_reply_stays_what_it_is():
    renderer = chat(tokenizer(CHATML))
    (mark,) = renderer.tokenizer("<|im_start|>", add_special_tokens=False)["input_ids"]
    ledger = Ledger(renderer)
    ledger.ask("one")
    ledger.record(Reply(text="", ids=(mark, *renderer.encode("user"), *renderer.stop_ids)))
    ledger.ask("two")
    assert renderer.parse((mark, *renderer.stop_ids)) == "<|im_start|>"
    assert ledger.ids.count(mark) == renderer.initial("one").count(mark) + 1 + renderer.append("two").count(mark)


TOOLS = "{% for m in messages %}{{ '<start>' + (MARK if m.role == 'tool' else m.role) + '\n' + m.content + '<end>\n' }}{% endfor %}"
TOOLS += "{% if add_generation_prompt %}{{ '<start>assistant\n' }}{% endif %}"


@pytest.mark.parametrize(
    ("template", "found"),
    [
        (CHATML, "stable"),
        (TOOLS.replace("MARK", "'user\n[tool]'"), "stable"),
        (TOOLS.replace("MARK", "'tool ' + messages | length | string"), "unstable"),
        (TOOLS.replace("MARK", "raise_exception('no tools')"), "none"),
    ],
)
def test_the_probe_tells_whether_tools_answers_are_always_written_alike(template, found):
    assert chat(tokenizer(template)).tool_turns == found


def test_the_end_of_a_turn_stops_a_reply_and_closes_a_cut_one():
    renderer = chat(tokenizer(GEMMA))
    assert [renderer.tokenizer.decode([index]) for index in renderer.stop_ids] == ["<end>"]
    assert renderer.close(truncated=True) == renderer.stop_ids and renderer.close(truncated=False) == ()
    assert renderer.parse(renderer.reply("bet")) == "bet"
    assert renderer.parse(renderer.stop_ids) == "" and renderer.parse(()) == ""


@settings(deadline=None)
@given(st.lists(st.sampled_from(["<end>", "<|im_end|>", "<bos>", "a", " ", "\n", "é", "<", "end>"]), max_size=12).map("".join))
def test_foreign_text_yields_no_special_ids_and_survives(text):
    renderer = RENDERER
    ids = renderer.encode(text)
    assert not set(ids) & set(renderer.tokenizer.all_special_ids)
    assert text_of(renderer, ids) == text


RENDERER = chat(tokenizer(GEMMA))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (UNSTABLE, "not prefix-stable"),
        (LAST_ONLY, "changes or repeats"),
        (NO_END, "no special token"),
        (None, "no chat template"),
        ("{{ raise_exception('system not supported') }}", "chat template fails"),
    ],
)
def test_templates_that_cannot_be_used_are_refused_with_the_fix(template, message):
    with pytest.raises(ModelError, match=message) as caught:
        chat(tokenizer(template))
    assert "renderer.template=chatml" in str(caught.value)
    assert chat(tokenizer(template), template="chatml").prefix_stable


@pytest.mark.parametrize("marks", [["<|im_end|>"], ["<|im_start|>"], ["<|im_start|>", "<|im_end|>"]])
def test_marks_that_foreign_text_could_hold_are_refused(marks):
    with pytest.raises(ModelError, match="foreign text could end a turn"):
        chat(tokenizer(CHATML, marks))
    assert chat(tokenizer(CHATML, ["<think>", "</think>"])).prefix_stable  # what is no mark of turns may be said


def test_stripping_thoughts_needs_thoughts():
    with pytest.raises(ConfigError, match="history"):
        chat(tokenizer(CHATML), history="strip", thinking=False)


def test_kept_thoughts_stay_in_the_conversation_and_stripped_ones_leave_it():
    said = tuple(chat(tokenizer(CHATML)).encode("hm</think> <answer>bet</answer>"))
    for history in ("keep", "strip"):
        renderer = chat(tokenizer(CHATML), thinking=True, history=history, answer="tagged")
        ledger = Ledger(renderer)
        ledger.ask("one")
        first = ledger.ids
        ledger.record(Reply(text="", ids=(*said, *renderer.stop_ids)))
        ledger.ask("two")
        text = text_of(renderer, ledger.ids)
        assert text.endswith("two<|im_end|>\n<|im_start|>assistant\n<think>\n")
        assert ledger.conversation == (history == "strip")
        if history == "keep":
            assert ledger.ids[: len(first) + len(said)] == first + said
        else:
            assert "hm" not in text and "<|im_start|>assistant\n<answer>bet</answer><|im_end|>" in text


@pytest.mark.parametrize(
    ("template", "answer", "said", "shown"),
    [
        (CHATML, "tagged", "first this, then", ""),
        (CHATML, "tagged", "first</think> <answer>bet</answer>", "<answer>bet</answer>"),
        (CHATML, "boxed", "First \\boxed{pass}? No: \\boxed{bet}", "\\boxed{bet}"),
        (CHATML, "boxed", "hm</think>So \\boxed{bet} it is", "\\boxed{bet}"),
        (CHATML, "boxed", "First this, then", ""),
        (CHATML, "free", "<think>hm</think> bet", "bet"),
        (CHATML, "free", "<think>hm, bet", ""),
        (CHATML, "free", " bet", "bet"),
        (CHATML.replace("assistant\n'", "assistant\n<think>'"), "free", "hm, bet", ""),
        (CHATML, "free", "", ""),
    ],
)
def test_thoughts_leave_the_conversation_in_every_form_and_however_they_were_cut(template, answer, said, shown):
    renderer = chat(tokenizer(template), thinking=True, history="strip", answer=answer)
    text = text_of(renderer, renderer.conversation([("one", renderer.encode(said))], "two"))
    assert f"<|im_start|>assistant\n{shown}<|im_end|>\n<|im_start|>user\ntwo" in text


def test_what_is_stripped_opens_a_new_sample_each_turn():
    renderer = chat(tokenizer(CHATML), thinking=True, history="strip", answer="tagged")
    ledger = Ledger(renderer)
    for turn in range(3):
        ledger.ask(f"turn {turn}")
        before = ledger.ids
        segments = ledger.record(Reply(text="", ids=(*renderer.encode("x</think><answer>bet</answer>"), *renderer.stop_ids)))
        assert [segment.kind for segment in segments] == ["prompt", "sampled"]
        assert sum((segment.ids for segment in segments), ()) == ledger.ids == before + segments[1].ids
        assert ledger.conversation == turn


@pytest.mark.parametrize(
    ("answer", "thinking", "alone"),
    [("exact", False, True), ("boxed", False, True), ("tagged", False, False), ("tagged", True, False), ("boxed", True, False)],
)
def test_games_do_not_ask_for_the_action_alone_where_the_renderer_asks_for_more(answer, thinking, alone):
    """With history kept and laid out anew; the golden playthroughs hold the sentence as games say it."""
    game = make_game("kuhn_poker", options={"style": "full"})
    said = game.reset(Stream.from_seed(0)).observe(0, 0).text
    renderer = chat(tokenizer(CHATML), answer=answer, thinking=thinking)
    for ids in (renderer.initial(said), renderer.append(said), renderer.conversation([("", ())], said)):
        text = text_of(renderer, ids)
        assert ("reply with exactly one legal action" in text) == alone
