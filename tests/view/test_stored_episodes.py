"""Episodes that a page looks at: read once, and again when their files change."""

import pytest

from sparring.play.store import EpisodeStore
from sparring.view import episode_replay
from sparring.view.http_requests import Refused
from sparring.view.runs import Run
from tests.view import run_made as made


@pytest.fixture
def reads(monkeypatch):
    """Return the (step, number) of each time that a part is read for an episode."""
    seen, one = [], EpisodeStore.one

    def counted(self, step, number):
        seen.append((step, number))
        return one(self, step, number)

    monkeypatch.setattr(EpisodeStore, "one", counted)
    return seen


def test_an_episode_is_read_once(run_folder, reads):
    run, episodes = Run(0, run_folder, "kuhn"), episode_replay.Episodes()
    first = episodes.find(run, 10, 40)
    assert episodes.find(run, 10, 40) is first and reads == [(10, 40)]
    assert first == episode_replay.Episodes().find(run, 10, 40)
    assert first.episode.episode_id == 40 and len(first.credit) == 2


def test_a_part_that_was_replaced_is_read_again(run_folder, reads):
    run, episodes = Run(0, run_folder, "kuhn"), episode_replay.Episodes()
    assert episodes.find(run, 10, 40).episode.returns == (-1.0, 1.0)
    made.write_step(run_folder, 10, [made.episode(40, returns=(2.0, -2.0))])
    assert episodes.find(run, 10, 40).episode.returns == (2.0, -2.0)
    assert len(reads) == 2


def test_one_that_is_gone_is_refused_though_it_was_seen(run_folder):
    run, episodes = Run(0, run_folder, "kuhn"), episode_replay.Episodes()
    episodes.find(run, 10, 40)
    EpisodeStore(run_folder / "episodes").path(10).unlink()
    with pytest.raises(Refused, match="not stored, or no longer"):
        episodes.find(run, 10, 40)


def test_only_the_newest_are_kept(run_folder, reads, monkeypatch):
    monkeypatch.setattr(episode_replay, "KEPT", 2)
    run, episodes = Run(0, run_folder, "kuhn"), episode_replay.Episodes()
    for number in (40, 41, 42, 42, 40):
        episodes.find(run, 10, number)
    assert reads == [(10, 40), (10, 41), (10, 42), (10, 40)]
