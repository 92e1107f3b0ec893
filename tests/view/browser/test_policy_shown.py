"""The policy's probabilities beside the legal moves: the checkpoint is named, a reason stands where there are none."""

import shutil

import pytest

import sparring
from sparring.play.store import EpisodeStore

CHANGES = (
    *("steps=2", "threads=1", "store.every=1", "warmup.updates=1", "warmup.games=8", "rollout.games_per_step=8", "checkpoint.every=1", "checkpoint.keep=2"),
    *("model.hidden_size=8", "model.layers=1", "model.heads=1", "evaluation.exact=false", "evaluation.opponents=[]"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "kuhn"
    sparring.train("kuhn-tiny", *CHANGES, run=path)
    return path


def address(run, turn=1):
    number = next(one.episode_id for step, one in EpisodeStore(run / "episodes").episodes() if step == 2)
    return f"?view=replay&run=0&step=2&episode={number}&turn={turn}"


def test_the_policy_stands_beside_the_moves_with_its_step(visitor, serve, run):
    with serve(run) as served:
        page = visitor.open(served, address(run))
        page.wait_for_selector(".legal-moves .bar.chance", timeout=30_000)
        said = page.inner_text(".legal-moves")
        assert "policy: learner, live weights of the checkpoint of step 1; other replies" in said
        assert "The p of a token is of the weights that sampled it" in said
        assert "policy, step 1" in page.inner_text(".legal-moves thead")
        assert page.locator(".legal-moves .bar.chance").count() == page.locator(".legal-moves tbody tr").count()


def test_a_reason_stands_where_it_cannot_be_had(visitor, serve, run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "kuhn")
    for file in folder.glob("checkpoints/*/model.safetensors"):
        file.write_bytes(b"?")
    with serve(folder) as served:
        page = visitor.open(served, address(folder))
        page.wait_for_selector(".legal-moves >> text=has changed", timeout=30_000)
        assert page.locator(".legal-moves .bar.chance").count() == 0
        visitor.close()  # before the server ends, whom the page asks once a second
