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


def normalise_rows(rows):
    return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


def test_ngrams_are_computed_from_the_statements_with_masked_names():
    lines = ["p1 says 3 wolves", "P2 says 4 wolves", "nobody"]
    space = LatentSpace(embedding=bind(SLOT, "ngrams"), names=("p1", "p2"))
    assert (space.embed_texts(lines) == embed_texts(lines, names=("p1", "p2"))).all()
    assert (space.embed_texts(lines)[0] == space.embed_texts(lines)[1]).all()


@pytest.mark.parametrize("layer", [-1, 0, 1])
def test_hidden_states_are_means_over_the_tokens_of_each_text(chat_folder, layer):
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
    assert vectors == pytest.approx(normalise_rows(means), abs=1e-9)
    assert (embedding(texts[1:]) == vectors[1:]).all()  # the vector does not depend on the batch
    assert (embedding([""]) == 0).all() and embedding([]).shape[0] == 0


def test_a_text_longer_than_the_context_is_truncated_at_its_end(monkeypatch):
    class Network:
        config = SimpleNamespace(num_hidden_layers=1, hidden_size=1, max_position_embeddings=3)

        def __call__(self, ids, **options):
            return SimpleNamespace(hidden_states=[ids[..., None].float()])

    def tokenizer(text, **options):
        return {"input_ids": torch.tensor([[ord(letter) for letter in text]])}

    monkeypatch.setattr(load, "_load_frozen_network", lambda name: (Network(), tokenizer))
    assert load.text_states("held back", -1, "abcz") == [98.0]


def test_a_layer_that_does_not_exist_is_refused(chat_folder):
    with pytest.raises(ModelError, match="has 2 layers, but layer=3 is not between 0"):
        bind(SLOT, "hidden_states", {"model": str(chat_folder), "layer": 3})(["bet"])


@pytest.fixture
def embedding_endpoint():
    servers = []

    def serve(answers):
        servers.append(Server(answers))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


def answer_with_vectors(request, vector_of=lambda text: [float(len(text)), 1.0]):
    rows = [{"index": index, "embedding": vector_of(text)} for index, text in enumerate(request["input"])]
    return json.dumps({"data": rows[::-1]})


def test_an_endpoint_gets_each_text_once_in_batches(embedding_endpoint):
    server = embedding_endpoint(lambda number, request: answer_with_vectors(request))
    embedding = bind(SLOT, "endpoint", {"model": "embed", "base_url": server.url, "batch": 2})
    texts = ["rock", "a wolf", "rock", "paper"]
    assert embedding(texts) == pytest.approx(normalise_rows([[4, 1], [6, 1], [4, 1], [5, 1]]))
    assert embedding(["paper", "no"]) == pytest.approx(normalise_rows([[5, 1], [2, 1]]))
    assert [request["input"] for request in server.requests] == [["a wolf", "paper"], ["rock"], ["no"]]
    assert {(request["model"], request["encoding_format"]) for request in server.requests} == {("embed", "float")}
    assert set(server.paths) == {"/v1/embeddings"}


def test_an_endpoint_is_not_sent_empty_or_overlong_texts(embedding_endpoint):
    server = embedding_endpoint(lambda number, request: answer_with_vectors(request))
    embedding = bind(SLOT, "endpoint", {"model": "embed", "base_url": server.url})
    assert embedding(["", "rock", " \n"]) == pytest.approx(np.array([[0, 0], *normalise_rows([[4, 1]]), [0, 0]]))
    assert embedding(["a" * 100_000]) == pytest.approx(normalise_rows([[8_000, 1]]))
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
def test_a_response_without_one_vector_per_text_is_an_error_that_quotes_it(embedding_endpoint, body):
    server = embedding_endpoint(lambda number, request: body)
    with pytest.raises(RolloutError, match="embeddings") as error:
        bind(SLOT, "endpoint", {"model": "embed", "base_url": server.url, "retries": 0})(["rock"])
    assert body[:8] in str(error.value)


def test_vectors_of_several_sizes_are_an_error(embedding_endpoint):
    server = embedding_endpoint(
        lambda number, request: answer_with_vectors(request, vector_of=lambda text: [1.0] * len(text))
    )
    with pytest.raises(RolloutError, match="returned vectors of several sizes"):
        bind(SLOT, "endpoint", {"model": "embed", "base_url": server.url})(["rock", "paper"])


@pytest.mark.parametrize(
    "vectors", [np.zeros((1, 4)), np.zeros(2), np.array([[np.nan], [0.0]]), np.zeros((2, 3), dtype=int), None]
)
def test_a_wrong_number_or_shape_of_vectors_is_refused(vectors):
    with pytest.raises(PluginError, match="must return a vector of finite numbers for each of 2 texts"):
        check_output(bind(SLOT, "ngrams"), vectors, ["a", "b"])


def test_a_zero_vector_stays_zero():
    assert scale_to_unit_length(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]


def test_clusters_use_the_configured_embedding(embedding_endpoint):
    """The endpoint's vectors depend on the last word; n-grams do not recognise the synonyms."""
    vector_of_word = {"wolf": [1.0, 0.0], "beast": [0.99, 0.05], "friend": [0.0, 1.0], "ally": [0.05, 0.99]}
    server = embedding_endpoint(
        lambda number, request: answer_with_vectors(request, vector_of=lambda text: vector_of_word[text.split()[-1]])
    )
    counts = {
        "p1 is a wolf": 5,
        "i think p2 is some sort of beast": 3,
        "p1 is a friend": 4,
        "i think p2 is some sort of ally": 2,
    }
    halves = {}
    for name, options in (("endpoint", {"model": "embed", "base_url": server.url}), ("ngrams", {})):
        space = LatentSpace(embedding=bind(SLOT, name, options), names=("p1", "p2"))
        clusters = cluster_statements(counts, 2, None, space, STREAM)
        space_with_clusters = LatentSpace(embedding=space.embedding, names=space.names, kinds={"speaks": clusters})
        halves[name] = dict(zip(counts, space_with_clusters.nearest_sentences("speaks", list(counts)), strict=True))
    means, letters = halves["endpoint"], halves["ngrams"]
    assert means["p1 is a wolf"] == means["i think p2 is some sort of beast"] != means["p1 is a friend"]
    assert letters["p1 is a wolf"] == letters["p1 is a friend"] != letters["i think p2 is some sort of ally"]


@pytest.mark.parametrize("embedding", ["ngrams size=64", {"name": "ngrams", "size": 64}])
def test_latent_space_scores_by_the_configured_embedding(embedding):
    step = request_in_shares({"rock": 0.4, "paper": 0.3, "scissors": 0.2, "spock": 0.05, "lizard": 0.05})
    output = bind("knowledge", "latent_space", {"embedding": embedding, "cfr_steps": 50})(step, {})
    kinds = output.state["space"]["kinds"]
    assert {len(row) for clusters_of_kind in kinds.values() for row in clusters_of_kind["centres"]} == {64}
    assert "embedding" not in output.state["space"]  # the configuration holds it


@pytest.mark.parametrize(
    ("embedding", "error", "words"),
    [
        ("ngram", UnknownNameError, "embedding.*'ngram'"),
        ("{name: ngrams, size: 4}", ConfigError, "size"),
        ("hidden_states", ConfigError, "model"),
    ],
)
def test_an_invalid_embedding_is_refused_when_the_configuration_is_read(embedding, error, words):
    config = apply_overrides(load_recipe("lspo/rps_spock_lizard-tiny"), [f"knowledge.embedding={embedding}"])
    with pytest.raises(error, match=words):
        resolve(config)
