import json
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import sparring
from sparring.api.measurement import measure
from sparring.config import resolve
from sparring.core.errors import ConfigError, ModelError, SparringError
from sparring.engine.exported_policy import export, export_mixture
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import parse_agent
from sparring.measure.info_states import enumerate_info_states
from sparring.play.players.exported import FILE, exported, identity_of, is_mixture
from sparring.play.store import EpisodeStore
from sparring.run.evaluation import answer_of
from tests.run_with_members import BASE, CYCLE, MEMBERS, engine_of, run_of

GAME = make_game("kuhn_poker", options={"style": "brief"})
STATES = enumerate_info_states(GAME)


@pytest.fixture(scope="module")
def engine():
    return engine_of(resolve(BASE))


@pytest.fixture(scope="module")
def folders(engine, tmp_path_factory):
    root = tmp_path_factory.mktemp("exported")
    export(engine, root / "policy", step=2)
    export_mixture(engine, root / "mixture", answer_of(engine, CYCLE, "nash"), step=2, answer="nash")
    return root


@pytest.fixture
def mixture_folder(folders, tmp_path):
    return shutil.copytree(folders / "mixture", tmp_path / "my mixture")


def test_exported_players_equal_those_of_the_run(engine, folders):
    for name, agent_of_run in (("policy", engine.agent("policy")), ("mixture", answer_of(engine, CYCLE, "nash"))):
        exported_agent = exported(folder=str(folders / name))
        for row, row_of_run in zip(
            exported_agent.action_logprobs(STATES.queries), agent_of_run.action_logprobs(STATES.queries), strict=True
        ):
            assert row == pytest.approx(row_of_run, abs=1e-5)
        replies = [
            [
                turn.reply
                for episode in sparring.play_episodes(GAME, [agent, "random"], plays=40)
                for turn in episode.turns
            ]
            for agent in (exported_agent, agent_of_run)
        ]
        assert replies[0] == replies[1]
    assert not is_mixture(str(folders / "policy")) and is_mixture(str(folders / "mixture"))


def test_a_mixture_draws_a_member_for_each_episode_by_its_weights(folders):
    exported_agent, labels = exported(folder=str(folders / "mixture")), []
    original_agent_of = exported_agent._agent_of
    exported_agent._agent_of = lambda reference: (
        labels.append(exported_agent.label(reference)) or original_agent_of(reference)
    )
    episodes = sparring.play_episodes(GAME, [exported_agent, exported_agent], plays=60)
    assert {episode.agents for episode in episodes} == {("ExportedMembers", "ExportedMembers")}
    counts = [labels.count(str(member)) for member in MEMBERS]
    assert min(counts) > 20 and max(counts) < 80
    assert str(exported_agent) == "0.333 past-000000, 0.333 past-000001, 0.333 past-000002"


def test_an_exported_player_is_measured_in_its_style(folders):
    result = measure(
        None,
        f"exported folder={folders / 'mixture'}",
        names=["kuhn_poker", "leduc_poker"],
        games_per_seat=2,
        use_oracle=False,
    )
    assert result["figures"]["illegal_mass/kuhn_poker"] < 1 and "leduc_poker: 4 words are unknown" in result["notes"][0]
    assert result["answer"].startswith("mixture of 0.333 past-000000")
    spec = parse_agent(f"exported folder={folders / 'policy'}")
    assert spec.style == "brief" and {"first", "K", "bet"} <= spec.words
    assert parse_agent("random").style == "full" and parse_agent("random").words is None


def test_an_exported_player_can_be_a_bot_of_a_run(folders, tmp_path):
    bots = {
        "crowd": {"name": "exported", "folder": str(folders / "mixture")},
        "one": {"name": "exported", "folder": str(folders / "policy")},
    }
    changes = {
        "bots": bots,
        "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"crowd": 0.5, "one": 0.5}},
        "rollout": {"games_per_step": 32},
        "store": {"every": 1},
    }
    sparring.train(
        {
            **BASE,
            **changes,
            "steps": 1,
            "evaluation": {
                "exact": False,
                "opponents": [{"name": "exported", "folder": str(folders / "mixture"), "games_per_seat": 2}],
            },
        },
        run=tmp_path / "run",
    )
    names = {
        str(player).rpartition("/")[2]
        for _, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes()
        for player in episode.players
    }
    assert names == {"learner", "bot-one", *map(str, MEMBERS)}


def test_the_identity_has_a_digest_of_every_file(mixture_folder):
    digests_before = identity_of(str(mixture_folder))
    weights = mixture_folder / "past-000001" / "model.safetensors"
    tensors = load_file(weights)
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, weights, metadata={"format": "pt"})
    digests_after = identity_of(str(mixture_folder))
    assert {name for name in digests_before if digests_before[name] != digests_after[name]} == {
        "past-000001/model.safetensors"
    }


def change_manifest(folder, **changes):
    data = json.loads((folder / FILE).read_text()) | changes
    (folder / FILE).write_text(json.dumps({key: value for key, value in data.items() if value is not None}))


EQUAL_WEIGHTS = {str(member): 1 / 3 for member in MEMBERS}
TWO_MEMBERS = {str(member): 0.5 for member in MEMBERS[:2]}


def manifest_of_sides(*sides):
    return {"version": 2, "members": None, "sides": list(sides)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "has version 3, and this Sparring reads versions 1 and 2"),
        ({"version": 2}, "sides: Field required"),  # version 2 has weights of sides, not of members
        ({"version": 2, "kind": "policy"}, "in version 2 it must be mixture"),
        ({"version": 1, "sides": [{}, {}]}, "'sides'"),
        ({"version": None}, "has version None"),
        ({"version": True}, "has version True"),
        ({"version": 2.0}, "has version 2.0"),
        ({"kind": "crowd"}, "kind is 'crowd'"),
        ({"members": {**EQUAL_WEIGHTS, "past-000001": 0.5}}, "sum to 1.16667; they must sum to 1"),
        ({"members": {**EQUAL_WEIGHTS, "past-000001": -1.0}}, "the weight of past-000001 is -1.0"),
        ({"members": {**EQUAL_WEIGHTS, "past-000001": float("nan")}}, "past-000001: "),
        ({"members": {**EQUAL_WEIGHTS, "past-000001": "a"}}, "past-000001: "),
        ({"members": {}}, "sum to 0"),
        ({"members": {"past-000009": 1.0}}, "member past-000009: .*past-000009 is not a folder"),
        ({"members": {"../policy": 1.0}}, "is not a file name"),
        ({"members": None}, "members: "),
        ({"more": 1}, "'more'"),
        (manifest_of_sides(TWO_MEMBERS), "sides"),
        (manifest_of_sides(TWO_MEMBERS, TWO_MEMBERS, TWO_MEMBERS), "sides"),
        (manifest_of_sides(TWO_MEMBERS, {}), "sides.1: the weights of members sum to 0; they must sum to 1"),
        (manifest_of_sides({"past-000000": 0.4}, TWO_MEMBERS), "sides.0: the weights of members sum to 0.4"),
        (manifest_of_sides(TWO_MEMBERS, {"past-000000": -1, "past-000001": 2}), "the weight of past-000000 is -1"),
        (manifest_of_sides(TWO_MEMBERS, {"past-000009": 1}), "member past-000009: .*past-000009 is not a folder"),
        (manifest_of_sides(TWO_MEMBERS, None), "sides.1"),
    ],
)
def test_a_wrong_manifest_is_refused_with_advice(mixture_folder, changes, message):
    change_manifest(mixture_folder, **changes)
    with pytest.raises(ModelError, match=message) as error:
        exported(folder=str(mixture_folder))
    assert "\n" not in str(error.value) and "sparring export RUN FOLDER" in str(error.value)


def test_a_manifest_of_two_sides_has_members_by_side(mixture_folder):
    change_manifest(mixture_folder, **manifest_of_sides(TWO_MEMBERS, {"past-000001": 0.25, "past-000002": 0.75}))
    agent = exported(folder=str(mixture_folder))
    assert (
        str(agent)
        == "0.500 past-000000, 0.500 past-000001 in the first side; 0.250 past-000001, 0.750 past-000002 in the second"
    )
    assert is_mixture(str(mixture_folder)) and len(identity_of(str(mixture_folder))) > 9
    original_agent_of = agent._agent_of
    for seats, member_indices in (([agent, "random"], (0, 1)), (["random", agent], (1, 2))):
        labels = []
        agent._agent_of = lambda reference, labels=labels: (
            labels.append(agent.label(reference)) or original_agent_of(reference)
        )
        sparring.play_episodes(GAME, seats, plays=40)
        # the first three labels are from loading each member once
        assert set(labels[3:]) == {str(MEMBERS[index]) for index in member_indices}


def test_missing_folders_and_broken_members_are_refused(mixture_folder, tmp_path):
    with pytest.raises(ModelError, match="nowhere is not a folder"):
        exported(folder=str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match=f"has no {FILE}"):
        exported(folder=str(tmp_path))
    (mixture_folder / FILE).write_text('{"version": 1,')
    with pytest.raises(ModelError, match="cannot be read as JSON"):
        exported(folder=str(mixture_folder))
    manifest = {"version": 1, "kind": "mixture", "answer": "nash", "step": 2, "members": EQUAL_WEIGHTS}
    (mixture_folder / FILE).write_text(json.dumps(manifest))
    (mixture_folder / "past-000001" / "model.safetensors").write_bytes(b"?")
    with pytest.raises(ModelError, match="past-000001"):
        sparring.play_episodes(GAME, [exported(folder=str(mixture_folder)), "random"])
    shutil.copy(mixture_folder / FILE, mixture_folder / "past-000001" / FILE)
    for name in EQUAL_WEIGHTS:
        (mixture_folder / "past-000001" / name).mkdir()
        shutil.copy(mixture_folder / "past-000000" / FILE, mixture_folder / "past-000001" / name / FILE)
    with pytest.raises(ModelError, match="past-000001 is itself a mixture"):
        exported(folder=str(mixture_folder))


def test_members_of_another_tokenizer_are_refused(mixture_folder, tmp_path):
    path = mixture_folder / "past-000002" / "tokenizer.json"
    data = json.loads(path.read_text())
    data["model"]["vocab"] |= {f"more{number}": len(data["model"]["vocab"]) + number for number in range(99)}
    path.write_text(json.dumps(data))
    with pytest.raises(ModelError, match="they do not belong together"):
        sparring.play_episodes(GAME, [exported(folder=str(mixture_folder)), "random"])


def test_a_mixture_in_a_mixture_is_refused(folders):
    text = f"exported folder={folders / 'mixture'}"
    with pytest.raises(ConfigError, match="is itself a mixture"):
        sparring.play_episodes(GAME, [parse_agent(f"mixture 'players={{\"{text}\": 1}}'").make(), "random"])


def test_export_writes_the_requested_answer(tmp_path):
    path, engine = run_of(tmp_path / "run", learner={"average": 0.9})
    trained_run = sparring.load_run(path)
    for name in ("policy", "average", "last"):
        trained_run.export(tmp_path / name, answer=name)
    logprobs = [
        exported(folder=str(tmp_path / name)).action_logprobs(STATES.queries)[0]
        for name in ("policy", "average", "last")
    ]
    assert np.array_equal(logprobs[0], logprobs[1]) and not np.allclose(logprobs[0], logprobs[2])
    assert logprobs[2] == pytest.approx(engine.agent("learner").action_logprobs(STATES.queries)[0], abs=1e-5)
    trained_run.export(tmp_path / "delta", answer="delta_uniform delta=0.99")
    assert json.loads((tmp_path / "delta" / FILE).read_text())["members"] == {"past-000002": 1.0}
    with pytest.raises(SparringError, match="answer of a run"):
        trained_run.export(tmp_path / "wrong", answer="nahs")
