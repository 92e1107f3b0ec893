import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from sparring.core.errors import ConfigError, ModelError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.models.render.chat import chat
from sparring.models.render.chat_templates import CHATML, COMPLETION
from sparring.play.context.base import Ledger
from sparring.play.players.base import Reply
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
NO_END = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
SPECIALS = ["<bos>", "<start>", "<end>", "<|im_start|>", "<|im_end|>"]


def tokenizer(template, marks=()):
    """Return a byte-level tokenizer with special tokens and a template; ``marks`` are added tokens that are not special."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({char: index for index, char in enumerate(alphabet)}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.add_tokens([AddedToken(mark, special=False) for mark in marks])
    specials = [token for token in SPECIALS if token not in marks]
    hf_tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, additional_special_tokens=specials, clean_up_tokenization_spaces=False
    )
    hf_tokenizer.chat_template = template
    return hf_tokenizer


def text_of(renderer, ids):
    return renderer.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("template", [CHATML, GEMMA, THINKER])
@pytest.mark.parametrize("answer", ["exact", "tagged"])
def test_a_conversation_has_the_text_of_the_template(template, answer):
    hf_tokenizer = tokenizer(template)
    renderer = chat(hf_tokenizer, answer=answer, system="" if template == GEMMA else "Be brief.")
    reply = renderer.reply("bet")
    ids = renderer.initial("one") + reply + renderer.append("two") + reply + renderer.append("three")
    opening, reply_text = renderer.format.opening, renderer.format.opening + "bet" + renderer.format.ending
    if template == THINKER:
        reply_text = "<think>\n\n</think>\n\n" + reply_text
    messages = [] if template == GEMMA else [{"role": "system", "content": "Be brief."}]
    for prompt in (f"one\n\n{renderer.format.instruction}", "two"):
        messages += [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply_text}]
    messages.append({"role": "user", "content": "three"})
    expected = hf_tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    assert text_of(renderer, ids) == expected + opening


@pytest.mark.parametrize("template", [CHATML, GEMMA, THINKER])
@every_case("thinking", [False, True])
@every_case("text", ["", "be", "a <end> b <|im_end|>", "</think>", "<think>", "\n"])
@every_case("truncated", [False, True])
def test_after_any_reply_the_conversation_only_grows(template, thinking, text, truncated):
    renderer = chat(tokenizer(template), thinking=thinking)
    ledger = Ledger(renderer)
    ledger.ask("one")
    first_ids = ledger.ids
    reply_ids = renderer.encode(text) if truncated else (*renderer.encode(text), *renderer.stop_ids)
    ledger.record(Reply(text="", ids=reply_ids, truncated=truncated))
    ledger.ask("two")
    if not reply_ids:  # the conversation exceeded the context, so no reply was sampled
        assert ledger.ids == (*first_ids, *renderer.append("two"))
        return
    assert ledger.ids == (*first_ids, *renderer.encode(text), *renderer.stop_ids, *renderer.append("two"))
    assert ledger.ids.count(renderer.stop_ids[0]) == 1 + first_ids.count(renderer.stop_ids[0]) + renderer.append(
        "two"
    ).count(renderer.stop_ids[0])


def test_a_sampled_added_token_keeps_its_id():
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
    ("template", "tool_turns"),
    [
        (CHATML, "stable"),
        (TOOLS.replace("MARK", "'user\n[tool]'"), "stable"),
        (TOOLS.replace("MARK", "'tool ' + messages | length | string"), "unstable"),
        (TOOLS.replace("MARK", "raise_exception('no tools')"), "none"),
    ],
)
def test_templates_are_tested_for_stable_tool_results(template, tool_turns):
    assert chat(tokenizer(template)).tool_turns == tool_turns


def test_prompts_do_not_depend_on_the_date(monkeypatch):
    template = "{{ '<|im_start|>system\nToday is ' + strftime_now('%d %b %Y') + '<|im_end|>\n' }}" + CHATML
    for name in ("datetime", "date"):
        monkeypatch.setattr(chat_template_utils, name, None, raising=False)
    renderer = chat(tokenizer(template))
    assert text_of(renderer, renderer.initial("one")).startswith("<|im_start|>system\nToday is 26 Jul 2024<|im_end|>\n")
    later_renderer = chat(tokenizer(template), date="2031-01-02")
    assert "Today is 02 Jan 2031" in text_of(later_renderer, later_renderer.initial("one"))
    with pytest.raises(ConfigError, match="write one such as 2024-07-26"):
        chat(tokenizer(template), date="tomorrow")


@pytest.mark.parametrize("body", ["", "{{ m.content | upper }}", "{{ m.content[:4] }}"])
def test_a_template_that_drops_or_changes_the_system_message_is_refused(body):
    template = (
        "{% for m in messages if m.role == 'system' %}"
        + body
        + "{% endfor %}"
        + CHATML.replace("messages", "messages if message.role != 'system'")
    )
    with pytest.raises(
        ModelError, match=r"drops the system message 'Be brief.'.*renderer.template=chatml.*renderer.system=''"
    ):
        chat(tokenizer(template), system="Be brief.")
    assert chat(tokenizer(template)).prefix_stable
    renderer = chat(tokenizer(CHATML), system=" Be brief.\n")
    assert "Be brief." in text_of(renderer, renderer.initial("one"))


def test_every_end_token_ends_a_reply_and_a_missing_end_is_added():
    hf_tokenizer = tokenizer(CHATML)
    ids = dict(zip(SPECIALS, hf_tokenizer.convert_tokens_to_ids(SPECIALS), strict=True))
    hf_tokenizer.eos_token = "<end>"
    hf_tokenizer.declared_ends = (ids["<|im_end|>"], ids["<bos>"], hf_tokenizer.convert_tokens_to_ids("a"))
    renderer = chat(hf_tokenizer)
    assert renderer.stop_ids == (ids["<|im_end|>"], ids["<end>"], ids["<bos>"])
    reply_ids = renderer.encode("bet")
    for end in renderer.stop_ids:
        assert renderer.parse((*reply_ids, end)) == "bet"
        ledger = Ledger(renderer)
        ledger.ask("one")
        first_ids = ledger.ids
        ledger.record(Reply(text="bet", ids=(*reply_ids, end)))
        ledger.ask("two")
        closing_ids = () if end == ids["<|im_end|>"] else (ids["<|im_end|>"],)
        assert ledger.ids == (*first_ids, *reply_ids, end, *closing_ids, *renderer.append("two"))


WORDS = [
    "bet",
    "pass",
    "one",
    "two",
    "user",
    "assistant",
    "Answer",
    "with",
    "legal",
    "action",
    "and",
    "nothing",
    "else",
    "Be",
    "brief",
]
ZEPHYR = "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '</s>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
LLAMA = (  # the template of Llama 2
    "{% for m in messages %}{% if m.role == 'user' %}{{ '<s>' + '[INST] ' + (system if loop.first else '') + m.content.strip() + ' [/INST]' }}"
    "{% elif m.role == 'assistant' %}{{ ' ' + m.content.strip() + ' </s>' }}{% endif %}{% endfor %}"
).replace(
    "{% for",
    "{% set system = '' %}{% if messages[0].role == 'system' %}{% set system = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}"
    "{% set messages = messages[1:] %}{% endif %}{% for",
    1,
)


def pieces_tokenizer(template, scheme="first", specials=(), **marks):
    """Return a tokenizer of word pieces that marks the beginning of a word, as SentencePiece does."""
    vocabulary = {"<unk>": 0}
    for word in [*WORDS, *"abcdefghijklmnopqrstuvwxyzABINST.,:<|>/[]\n"]:
        for piece in (word, "▁" + word):
            vocabulary.setdefault(piece, len(vocabulary))
    vocabulary.setdefault("▁", len(vocabulary))
    scored_pieces = [(piece, -1.0 if len(piece.strip("▁")) > 1 else -3.0) for piece in vocabulary]
    core = Tokenizer(models.Unigram(scored_pieces, unk_id=0, byte_fallback=False))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    core.decoder = decoders.Metaspace(prepend_scheme=scheme)
    hf_tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        additional_special_tokens=list(specials),
        clean_up_tokenization_spaces=False,
        **marks,
    )
    hf_tokenizer.chat_template = template
    return hf_tokenizer


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("specials", [[], ["<|user|>", "<|assistant|>"]])
@pytest.mark.parametrize("template", [ZEPHYR, LLAMA, None])
def test_encoded_parts_equal_the_encoded_text(scheme, specials, template):
    """The tokenizer adds a mark at the beginning of a text, so a separately encoded part would have an extra mark."""
    hf_tokenizer = pieces_tokenizer(template, scheme, specials, eos_token="</s>", bos_token="<s>")
    renderer = chat(
        hf_tokenizer, template=None if template else "completion", system="Be brief" if template == LLAMA else ""
    )
    ids = [*renderer.initial("one"), *renderer.reply("bet"), *renderer.append("two"), *renderer.reply("pass")]
    messages = [{"role": "system", "content": "Be brief"}] if template == LLAMA else []
    for prompt, reply in ((f"one\n\n{renderer.format.instruction}", "bet"), ("two", "pass")):
        messages += [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
    full_text = hf_tokenizer.apply_chat_template(messages, tokenize=False, chat_template=template or COMPLETION)
    assert ids == hf_tokenizer(full_text, add_special_tokens=False)["input_ids"][: len(ids)]
    assert renderer.parse(renderer.reply("bet")).strip() == "bet"
    assert hf_tokenizer.convert_ids_to_tokens(list(renderer.stop_ids)) == ["</s>"]
    assert renderer.read(renderer.parse(renderer.reply("bet"))) == "bet"


def test_a_template_with_a_space_before_the_end_closes_replies_with_it():
    """Llama 2 writes ' bet </s>': the model samples the first space, and the second is part of the end."""
    hf_tokenizer = pieces_tokenizer(LLAMA, eos_token="</s>", bos_token="<s>")
    renderer = chat(hf_tokenizer)
    assert hf_tokenizer.convert_ids_to_tokens(list(renderer.reply("bet"))) == ["▁bet", "▁", "</s>"]
    assert hf_tokenizer.convert_ids_to_tokens(list(renderer.close(truncated=True))) == ["▁", "</s>"]
    assert text_of(renderer, renderer.initial("one")).endswith("[/INST]")
    tagged = chat(hf_tokenizer, answer="tagged")
    assert text_of(tagged, tagged.initial("one")).endswith("[/INST] <answer>")


def test_a_tokenizer_that_joins_the_prompt_and_the_reply_is_refused():
    vocabulary = {piece: index for index, piece in enumerate([*map(chr, range(33, 127)), "Ġ", "Ċ", ":b", "Ġb"])}
    core = Tokenizer(models.BPE(vocabulary, [(":", "b"), ("Ġ", "b")]))
    core.pre_tokenizer, core.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        decoders.ByteLevel(),
    )
    hf_tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>", clean_up_tokenization_spaces=False)
    template_without_space = COMPLETION.replace("' ' + message", "message")
    with pytest.raises(ModelError, match=r"differently from its parts: \[':b', 'e', 't'\] in the whole"):
        chat(hf_tokenizer, template=template_without_space)
    assert (
        chat(hf_tokenizer, template="completion").parse(chat(hf_tokenizer, template="completion").reply("bet"))
        == " bet"
    )


@pytest.mark.parametrize("answer", ["exact", "boxed"])
def test_a_base_model_completes_text_up_to_its_end_token(answer):
    hf_tokenizer = tokenizer(None)
    hf_tokenizer.add_special_tokens({"eos_token": "<|endoftext|>"})
    renderer = chat(hf_tokenizer, template="completion", system="A game.", answer=answer)
    opening, ending = (" \\boxed{", "}") if answer == "boxed" else ("", "")
    ids = (*renderer.initial("one"), *renderer.reply("bet"), *renderer.append("two"))
    prompt = f"A game.\n\none\n\n{renderer.format.instruction}\n\nAnswer:{opening}"
    assert (
        text_of(renderer, ids) == f"{prompt}{'' if opening else ' '}bet{ending}<|endoftext|>\n\ntwo\n\nAnswer:{opening}"
    )
    assert renderer.close(truncated=True) == (hf_tokenizer.eos_token_id,)


@pytest.mark.parametrize(("template", "reason"), [(None, "no chat template"), (NO_END, "not a special token")])
def test_the_fix_that_a_refusal_suggests_works(template, reason):
    for tokens, advice in ((SPECIALS, "chatml"), (["<s>"], "completion")):
        hf_tokenizer = pieces_tokenizer(template, specials=tokens, eos_token="</s>")
        with pytest.raises(ModelError, match=f"{reason}.*renderer.template={advice}"):
            chat(hf_tokenizer)
        assert chat(hf_tokenizer, template=advice).stop_ids


@pytest.mark.parametrize(
    ("thinking", "answer", "end"),
    [
        (False, "exact", "<think>\n\n</think>\n\n"),
        (False, "boxed", "<think>\n\n</think>\n\n\\boxed{"),
        (False, "tagged", "<think>\n\n</think>\n\n<answer>"),
        (True, "tagged", "assistant\n<think>\n"),
        (True, "boxed", "assistant\n<think>\n"),
    ],
)
def test_a_template_that_always_opens_thinking_is_closed_or_opened_once(thinking, answer, end):
    """The template is like that of DeepSeek-R1, which has no ``enable_thinking``."""
    template = CHATML.replace("assistant\n'", "assistant\n<think>\n'")
    renderer = chat(tokenizer(template), thinking=thinking, answer=answer)
    text = text_of(renderer, renderer.initial("one"))
    assert text.endswith("<|im_start|>assistant\n" + end.removeprefix("assistant\n"))
    assert text.count("<think>") == 1 + (answer == "tagged" and thinking)  # the instruction also contains <think>
    assert text_of(renderer, renderer.append("two")).endswith(end)
    replies = {
        "exact": "bet",
        "boxed": "hm</think>\\boxed{bet}" if thinking else "bet}",
        "tagged": "hm</think><answer>bet</answer>" if thinking else "bet</answer>",
    }
    assert renderer.read(replies[answer]) == "bet"


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["<end>", "<|im_end|>", "<bos>", "a", " ", "\n", "é", "<", "end>"]), max_size=12).map(
        "".join
    )
)
def test_foreign_text_gives_no_special_ids_and_is_unchanged(text):
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
        ("{{ raise_exception('system not supported') }}", "chat template fails"),
    ],
)
def test_templates_that_cannot_be_used_are_refused_with_the_fix(template, message):
    with pytest.raises(ModelError, match=message) as error_info:
        chat(tokenizer(template))
    assert "renderer.template=chatml" in str(error_info.value)
    assert chat(tokenizer(template), template="chatml").prefix_stable


@pytest.mark.parametrize(
    "template", [CHATML, THINKER.replace("<start>", "<|im_start|>").replace("<end>", "<|im_end|>")]
)
@pytest.mark.parametrize(
    "marks", [[], ["<|im_end|>"], ["<|im_start|>", "<|im_end|>"], ["<think>", "</think>", "<answer>", "k>x"]]
)
def test_foreign_text_never_becomes_a_special_or_added_token(template, marks):
    hf_tokenizer = tokenizer(template, marks)
    renderer = chat(hf_tokenizer)
    reserved = set(hf_tokenizer.all_special_ids) | set(hf_tokenizer.added_tokens_decoder)
    for text in (
        "<|im_end|>",
        "a</think>b<|im_end|>",
        "<|im_start|>user\n<think>x</think><answer>",
        "<think",
        "|im_end|>",
        "<|im_end|><|im_end|>",
    ):
        ids = renderer.encode(text)
        assert not reserved & set(ids) and text_of(renderer, ids) == text
        for with_text, without_text in (
            (renderer.initial(text), renderer.initial("")),
            (renderer.append(text), renderer.append("")),
            (renderer.reply(text), renderer.reply("")),
        ):
            assert [index for index in with_text if index in reserved] == [
                index for index in without_text if index in reserved
            ]
            assert text in text_of(renderer, with_text)


def test_foreign_text_is_not_normalised_into_an_added_token():
    hf_tokenizer = tokenizer(CHATML)
    hf_tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    hf_tokenizer.add_tokens([AddedToken("</think>", normalized=True)])
    renderer = chat(hf_tokenizer)
    ids = renderer.encode("x</THINK>y")
    assert hf_tokenizer("</THINK>")["input_ids"] == [hf_tokenizer.convert_tokens_to_ids("</think>")]
    assert text_of(renderer, ids) == "x</think>y" and hf_tokenizer.convert_tokens_to_ids("</think>") not in ids


def test_added_tokens_for_white_space_and_letters_count_as_text():
    hf_tokenizer = tokenizer(CHATML, ["  ", "\n\n", "ä"])
    renderer = chat(hf_tokenizer)
    assert [hf_tokenizer.convert_ids_to_tokens(index) for index in renderer.encode("a  b\n\nä")] == [
        "a",
        "  ",
        "b",
        "\n\n",
        "ä",
    ]
    with pytest.raises(ModelError, match="not a special token"):
        chat(tokenizer(NO_END, ["\n"]))


def test_thoughts_stay_in_the_conversation_or_are_stripped():
    with pytest.raises(ConfigError, match="history"):
        chat(tokenizer(CHATML), history="strip", thinking=False)
    reply_ids = tuple(chat(tokenizer(CHATML)).encode("hm</think> <answer>bet</answer>"))
    for history in ("keep", "strip"):
        renderer = chat(tokenizer(CHATML), thinking=True, history=history, answer="tagged")
        ledger = Ledger(renderer)
        ledger.ask("one")
        first_ids = ledger.ids
        ledger.record(Reply(text="", ids=(*reply_ids, *renderer.stop_ids)))
        ledger.ask("two")
        text = text_of(renderer, ledger.ids)
        assert text.endswith("two<|im_end|>\n<|im_start|>assistant\n<think>\n")
        assert ledger.conversation == (history == "strip")
        if history == "keep":
            assert ledger.ids[: len(first_ids) + len(reply_ids)] == first_ids + reply_ids
        else:
            assert "hm" not in text and "<|im_start|>assistant\n<answer>bet</answer><|im_end|>" in text


@pytest.mark.parametrize(
    ("template", "answer", "reply", "remaining_text"),
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
def test_stripped_thoughts_leave_the_conversation_even_if_truncated(template, answer, reply, remaining_text):
    renderer = chat(tokenizer(template), thinking=True, history="strip", answer=answer)
    text = text_of(renderer, renderer.conversation([("one", renderer.encode(reply))], "two"))
    assert f"<|im_start|>assistant\n{remaining_text}<|im_end|>\n<|im_start|>user\ntwo" in text


def test_with_stripped_thoughts_each_turn_begins_a_new_sample():
    renderer = chat(tokenizer(CHATML), thinking=True, history="strip", answer="tagged")
    ledger = Ledger(renderer)
    for turn in range(3):
        ledger.ask(f"turn {turn}")
        previous_ids = ledger.ids
        segments = ledger.record(
            Reply(text="", ids=(*renderer.encode("x</think><answer>bet</answer>"), *renderer.stop_ids))
        )
        assert [segment.kind for segment in segments] == ["prompt", "sampled"]
        assert sum((segment.ids for segment in segments), ()) == ledger.ids == previous_ids + segments[1].ids
        assert ledger.conversation == turn


@pytest.mark.parametrize(
    ("answer", "thinking", "asks_action_only"),
    [
        ("exact", False, True),
        ("boxed", False, True),
        ("tagged", False, False),
        ("tagged", True, False),
        ("boxed", True, False),
    ],
)
def test_games_ask_for_only_the_action_if_the_renderer_does(answer, thinking, asks_action_only):
    game = make_game("kuhn_poker", options={"style": "full"})
    prompt = game.reset(Stream.from_seed(0)).observe(0, 0).text
    renderer = chat(tokenizer(CHATML), answer=answer, thinking=thinking)
    for ids in (renderer.initial(prompt), renderer.append(prompt), renderer.conversation([("", ())], prompt)):
        text = text_of(renderer, ids)
        assert ("reply with exactly one legal action" in text) == asks_action_only
