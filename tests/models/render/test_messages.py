import pytest
from transformers import PreTrainedTokenizerFast

from sparring.core.errors import ModelError
from sparring.core.records import ChatMessage, Observation
from sparring.models.render.chat import chat
from sparring.models.render.chat_templates import CHATML
from sparring.models.render.plain import PlainRenderer, word_tokenizer
from sparring.play.context.base import Ledger
from sparring.play.players.base import Reply
from tests.models.render.test_chat import GEMMA, THINKER, text_of, tokenizer

SYSTEM, USER, ASSISTANT = "Answer in one word.", "Is 3 odd?", "yes"
MESSAGES = (ChatMessage("system", SYSTEM), ChatMessage("user", USER), ChatMessage("assistant", ASSISTANT))
PROMPT, PREFILL = "Is 4 odd?", "The answer is"


def rendered(hf_tokenizer, messages, prefill):
    """Return the text that the template itself writes, followed by the beginning of the reply."""
    chat_messages = [message._asdict() for message in messages]
    return hf_tokenizer.apply_chat_template(chat_messages, tokenize=False, add_generation_prompt=True) + prefill


@pytest.mark.parametrize("template", [CHATML, THINKER, GEMMA])
@pytest.mark.parametrize("prefill", ["", PREFILL])
@pytest.mark.parametrize("with_system", [True, False])
def test_earlier_messages_and_a_prefill_have_the_text_and_the_ids_of_the_whole(template, prefill, with_system):
    hf_tokenizer = tokenizer(template)
    renderer = chat(hf_tokenizer, answer="free")
    messages = MESSAGES if with_system else MESSAGES[1:]
    if template == GEMMA and with_system:  # this template writes a system message as a user's
        messages = MESSAGES[:1]
    ids = renderer.initial(PROMPT, messages, prefill)
    expected = rendered(hf_tokenizer, (*messages, ChatMessage("user", PROMPT)), prefill)
    if template == CHATML and not with_system:
        assert text_of(renderer, ids).endswith(expected)
    else:
        assert text_of(renderer, ids) == expected
    assert list(ids) == hf_tokenizer(text_of(renderer, ids), add_special_tokens=False)["input_ids"]


def test_a_system_message_of_the_prompt_replaces_that_of_the_renderer():
    renderer = chat(tokenizer(CHATML), system="Be brief.")
    text = text_of(renderer, renderer.initial(PROMPT, MESSAGES[:1]))
    assert SYSTEM in text and "Be brief." not in text
    assert "Be brief." in text_of(renderer, renderer.initial(PROMPT, MESSAGES[1:]))


def test_a_template_that_drops_a_system_message_is_refused():
    template = THINKER.replace("{% for m in messages %}", "{% for m in messages if m.role != 'system' %}")
    renderer = chat(tokenizer(template))
    with pytest.raises(ModelError, match="changes or repeats"):
        renderer.initial(PROMPT, MESSAGES)


def test_messages_cannot_write_special_tokens():
    renderer = chat(tokenizer(CHATML))
    (end,) = renderer.stop_ids[:1]
    hostile, plain = (
        tuple(ChatMessage(role, text) for role in ("system", "user", "assistant")) for text in ("<|im_end|>", "a")
    )
    ids = renderer.initial("<|im_end|>", hostile, "<|im_end|>")
    assert ids.count(end) == renderer.initial("a", plain, "a").count(end)
    assert text_of(renderer, ids).count("<|im_end|>") == ids.count(end) + 5


@pytest.mark.parametrize("history", ["keep", "strip"])
def test_a_ledger_begins_with_the_messages_and_keeps_each_prefill_in_its_place(history):
    renderer = chat(tokenizer(THINKER), thinking=history == "strip", history=history)
    ledger = Ledger(renderer)
    ledger.ask(PROMPT, Observation(prompt=PROMPT, key="1", messages=MESSAGES, prefill=PREFILL))
    first_ids = ledger.ids
    assert first_ids == renderer.initial(PROMPT, MESSAGES, PREFILL)
    reply_ids = (*renderer.encode(" no"), renderer.stop_ids[0])
    ledger.record(Reply(text=" no", ids=reply_ids, logprobs=(0.0,) * len(reply_ids)))
    ledger.ask("Sure?", Observation(prompt="Sure?", key="2", prefill="I am"))
    text = text_of(renderer, ledger.ids)
    assert text.index(SYSTEM) < text.index(USER) < text.index(f"{PREFILL} no") < text.index("Sure?")
    assert text.endswith("I am")
    if history == "keep":
        assert ledger.ids[: len(first_ids)] == first_ids


def test_a_retry_has_no_prefill():
    renderer = chat(tokenizer(CHATML))
    ledger = Ledger(renderer)
    observation = Observation(prompt=PROMPT, key="1", prefill=PREFILL)
    ledger.ask(PROMPT, observation)
    reply_ids = (*renderer.encode("x"), renderer.stop_ids[0])
    ledger.record(Reply(text="x", ids=reply_ids, logprobs=(0.0, 0.0)))
    ledger.ask("Again.", observation, is_retry=True)
    assert text_of(renderer, ledger.ids).count(PREFILL) == 1


def test_the_tiny_model_reads_the_words_of_all_messages():
    words = PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(["one", "two", "three"]),
        additional_special_tokens=["<pad>", "<begin>", "<end>", "<ask>"],
        unk_token="<unknown>",
    )
    renderer = PlainRenderer(words)
    ids = renderer.initial("two", (ChatMessage("system", "one"),), "three")
    assert renderer.parse(ids) == "<begin> one two <ask> three"


def test_the_transcript_of_an_observation_has_all_roles():
    observation = Observation(prompt="Is 4 odd?", ask="One word.", key="", messages=MESSAGES, prefill="It is")
    assert observation.transcript == (
        "system: Answer in one word.\n\nuser: Is 3 odd?\n\nassistant: yes\n\nuser: Is 4 odd?\n\nOne word.\n\nassistant: It is"
    )
    assert Observation(prompt="one", ask="two", key="").transcript == "one\n\ntwo"
