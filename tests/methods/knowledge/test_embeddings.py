import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.methods.knowledge.rps_plays import STREAM, request_in_shares
from tests.play.players.model_server import Server

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import (
    ConfigError,
    ModelError,
    PluginError,
    RolloutError,
    UnknownNameError,
)
from sparring.methods.knowledge.embeddings.base import check_output, scale_to_unit_length
from sparring.methods.knowledge.space import LatentSpace, cluster_statements
from sparring.models import load
from sparring.models.pretrained import load_pretrained
from sparring.ops.clusters import embed_texts

SLOT = "knowledge.embeddings"


def length_one(rows):
    return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


def test_ngrams_of_masked_statements_are_those_of_the_statements():
    lines = ["p1 says 3 wolves", "P2 says 4 wolves", "nobody"]
    space = LatentSpace(embedding=bind(SLOT, "ngrams"), names=("p1", "p2"))
    assert (space.embed_texts(lines) == embed_texts(lines, names=("p1", "p2"))).all()
    assert (space.embed_texts(lines)[0] == space.embed_texts(lines)[1]).all()


@pytest.mark.parametrize("layer", [-1, 0, 1])
def test_hidden_states_are_means_over_the_tokens_of_a_text_alone(chat_folder, layer):
    network, tokenizer = load_pretrained(str(chat_folder))
    embedding, texts = (
        bind(SLOT, "hidden_states", {"model": str(chat_folder), "layer": layer}),
        ["bet pass", "pass", "bet bet pass"],
    )
    means = []
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = network(ids, output_hidden_states=True).hidden_states[layer][0]
        means.append(states.double().numpy().mean(axis=0))
    vectors = embedding(texts)
    assert vectors == pytest.approx(length_one(means), abs=1e-9)
    assert (embedding(texts[1:]) == vectors[1:]).all()  # whatever stands beside it
    assert (embedding([""]) == 0).all() and embedding([]).shape[0] == 0


def test_of_a_text_that_outgrows_the_context_the_beginning_is_read(monkeypatch):
    class Network:
        config = SimpleNamespace(num_hidden_layers=1, hidden_size=1, max_position_embeddings=3)

        def __call__(self, ids, **options):
            return SimpleNamespace(hidden_states=[ids[..., None].float()])

    def tokenizer(text, **options):
        return {"input_ids": torch.tensor([[ord(letter) for letter in text]])}

    monkeypatch.setattr(load, "_load_frozen", lambda name: (Network(), tokenizer))
    assert load.text_states("held back", -1, "abcz") == [98.0]


def test_a_layer_that_is_not_there_is_said(chat_folder):
    with pytest.raises(ModelError, match="has 2 layers, but layer=3 is not between 0"):
        bind(SLOT, "hidden_states", {"model": str(chat_folder), "layer": 3})(["bet"])


@pytest.fixture
def served():
    servers = []

    def serve(answers):
        servers.append(Server(answers))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


def answer(request, of=lambda text: [float(len(text)), 1.0]):
    rows = [{"index": place, "embedding": of(text)} for place, text in enumerate(request["input"])]
    return json.dumps({"data": rows[::-1]})


def test_an_endpoint_is_asked_once_for_each_text_in_batches(served):
    server = served(lambda number, request: answer(request))
    embedding = bind(SLOT, "endpoint", {"model": "embed", "base_url": server.url, "batch": 2})
    texts = ["rock", "a wolf", "rock", "paper"]
    assert embedding(texts) == pytest.approx(length_one([[4, 1], [6, 1], [4, 1], [5, 1]]))
    assert embedding(["paper", "no"]) == pytest.approx(length_one([[5, 1], [2, 1]]))
    assert [request["input"] for request in server.requests] == [["a wolf", "paper"], ["rock"], ["no"]]
    assert {(request["model"], request["encoding_format"]) for request in server.requests} == {("embed", "float")}
    assert set(server.paths) == {"/v1/embeddings"}


def test_an_endpoint_is_not_sent_what_it_refuses(served):
    server = served(lambda number, request: answer(request))
    embedding = bind(SLOT, "endpoint", {"model": "embed", "base_url": server.url})
    assert embedding(["", "rock", " \n"]) == pytest.approx(np.array([[0, 0], *length_one([[4, 1]]), [0, 0]]))
    assert embedding(["a" * 100_000]) == pytest.approx(length_one([[8_000, 1]]))
    assert [[len(text) for text in request["input"]] for request in server.requests] == [[4], [8_000]]
    assert embedding([""]).tolist() == [[0.0]] and embedding([]).shape[0] == 0


@pytest.mark.parametrize(
    "body",
    [
        "no json",
        '{"data": []}',
        '{"data": [{"index": 1, "embedding": [1.0]}]}',
        '{"data": [{"index": 0, "embedding": ["x"]}]}',
        '{"data": [{"index": 0, "embedding": []}]}',
        '{"data": [{"index": 0, "embedding": [NaN]}]}',
        '{"data": [{"index": 0, "embedding": null}]}',
    ],
)
def test_an_answer_that_is_no_vector_for_each_text_is_an_error_that_quotes_it(served, body):
    server = served(lambda number, request: body)
    with pytest.raises(RolloutError, match="embeddings") as error:
        bind(SLOT, "endpoint", {"model": "embed", "base_url": server.url, "retries": 0})(["rock"])
    assert body[:8] in str(error.value)


def test_vectors_of_several_sizes_are_an_error(served):
    server = served(lambda number, request: answer(request, of=lambda text: [1.0] * len(text)))
    with pytest.raises(RolloutError, match="returned vectors of several sizes"):
        bind(SLOT, "endpoint", {"model": "embed", "base_url": server.url})(["rock", "paper"])


@pytest.mark.parametrize(
    "vectors", [np.zeros((1, 4)), np.zeros(2), np.array([[np.nan], [0.0]]), np.zeros((2, 3), dtype=int), None]
)
def test_what_is_no_vector_for_each_text_is_refused(vectors):
    with pytest.raises(PluginError, match="must return a vector of finite numbers for each of 2 texts"):
        check_output(bind(SLOT, "ngrams"), vectors, ["a", "b"])


def test_a_vector_of_nothing_stays_nothing():
    assert scale_to_unit_length(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]


def test_clusters_are_by_the_embedding_that_is_named(served):
    """By the endpoint statements are alike by their last word, which n-grams do not know to be a synonym."""
    near = {"wolf": [1.0, 0.0], "beast": [0.99, 0.05], "friend": [0.0, 1.0], "ally": [0.05, 0.99]}
    server = served(lambda number, request: answer(request, of=lambda text: near[text.split()[-1]]))
    counts = {
        "p1 is a wolf": 5,
        "i think p2 is some sort of beast": 3,
        "p1 is a friend": 4,
        "i think p2 is some sort of ally": 2,
    }
    halves = {}
    for name, options in (("endpoint", {"model": "embed", "base_url": server.url}), ("ngrams", {})):
        space = LatentSpace(embedding=bind(SLOT, name, options), names=("p1", "p2"))
        kind = cluster_statements(counts, 2, None, space, STREAM)
        whole = LatentSpace(embedding=space.embedding, names=space.names, kinds={"speaks": kind})
        halves[name] = dict(zip(counts, whole.nearest_sentences("speaks", list(counts)), strict=True))
    means, letters = halves["endpoint"], halves["ngrams"]
    assert means["p1 is a wolf"] == means["i think p2 is some sort of beast"] != means["p1 is a friend"]
    assert letters["p1 is a wolf"] == letters["p1 is a friend"] != letters["i think p2 is some sort of ally"]


@pytest.mark.parametrize("embedding", ["ngrams size=64", {"name": "ngrams", "size": 64}])
def test_latent_space_judges_by_the_embedding_that_is_named(embedding):
    step = request_in_shares({"rock": 0.4, "paper": 0.3, "scissors": 0.2, "spock": 0.05, "lizard": 0.05})
    output = bind("knowledge", "latent_space", {"embedding": embedding, "cfr_steps": 50})(step, {})
    kinds = output.state["space"]["kinds"]
    assert {len(row) for kind in kinds.values() for row in kind["centres"]} == {64}
    assert "embedding" not in output.state["space"]  # it is the configuration's to say


@pytest.mark.parametrize(
    ("embedding", "error", "words"),
    [
        ("ngram", UnknownNameError, "embedding.*'ngram'"),
        ("{name: ngrams, size: 4}", ConfigError, "size"),
        ("hidden_states", ConfigError, "model"),
    ],
)
def test_a_wrong_embedding_is_refused_with_the_configuration(embedding, error, words):
    config = apply_overrides(load_recipe("lspo/rps_spock_lizard-tiny"), [f"knowledge.embedding={embedding}"])
    with pytest.raises(error, match=words):
        resolve(config)
