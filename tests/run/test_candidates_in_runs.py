"""Runs whose trained seats sample several candidate replies per prompt."""

import json

import pytest
from typer.testing import CliRunner

import sparring
from sparring.cli import app
from sparring.config import resolve
from sparring.core.errors import ConfigError, GameError, MissingError
from tests.engine.fleet.simulated import simulated_workers
from tests.run.builders import KillSignal

VPR = {"name": "vpr", "baseline": "candidates", "process": "regret"}


def candidates_config(**changes):
    return {
        "name": "candidates",
        "threads": 1,
        "steps": 4,
        "environments": [
            {"name": "kuhn_poker", "illegal": {"rule": "random"}, "oracle": {"name": "cfr", "iterations": 50}}
        ],
        "rollout": {"games_per_step": 16, "candidates": {"count": 3}},
        "rewards": [{"name": "regret"}],
        "credit": VPR,
        "reorder_outcomes": True,
        "warmup": {"updates": 2, "games": 16},
        "evaluation": {"every": 4, "opponents": []},
        "checkpoint": {"every": 2},
        "store": {"every": 1},
        **changes,
    }


def train(path, **changes):
    return sparring.train(candidates_config(**changes), run=path, overwrite=True)


def read_metrics(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_all_candidates_are_trained_and_stored(tmp_path):
    run_result = train(tmp_path / "run")
    last_metrics = [row for row in read_metrics(tmp_path / "run") if "loss" in row][-1]
    assert last_metrics["logprob_difference_max"] < 1e-4
    assert last_metrics["candidates/gain"] > 0 and last_metrics["candidates/unjudged"] == 0
    rows = (
        run_result.table("episodes")
        .to_pandas()
        .merge(run_result.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    )
    assert len(rows) == len(run_result.table("episodes"))  # all candidates of both seats, as both are trained
    assert rows.selected.all()
    sums = rows.groupby(["step", "episode_id", "state_group"]).agg(
        {"committed": "sum", "advantage": "sum", "candidate": "count"}
    )
    assert (sums.committed == 1).all() and (sums.candidate == 3).all() and (abs(sums.advantage) < 1e-5).all()
    assert (
        rows.groupby(["step", "episode_id", "state_group"]).score.transform("max")[rows.committed]
        == rows.score[rows.committed]
    ).all()


def test_an_estimator_by_trajectory_gets_the_committed_replies(tmp_path):
    run_result = train(tmp_path / "run", credit={"name": "mars"}, steps=1)
    rows = (
        run_result.table("episodes")
        .to_pandas()
        .merge(run_result.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    )
    assert (rows.selected == rows.committed).all()
    assert rows.advantage[~rows.committed].isna().all()


@pytest.mark.parametrize("in_flight", [2, 16])
def test_results_do_not_depend_on_the_number_of_plays_in_flight(tmp_path, in_flight):
    rollout = {"games_per_step": 16, "candidates": {"count": 3, "explore": 0.3}}
    train(tmp_path / "a", rollout=rollout, steps=2)
    train(tmp_path / "b", rollout={**rollout, "in_flight": in_flight}, steps=2)
    assert read_metrics(tmp_path / "a") == read_metrics(tmp_path / "b")


def test_without_an_oracle_candidates_are_scored_by_rewards(tmp_path):
    run_result = train(
        tmp_path / "run",
        environments=[{"name": "kuhn_poker", "illegal": {"rule": "random", "penalty": 0.5}}],
        rewards=[{"name": "format_bonus", "bonus": 1.0, "penalty": 1.0, "weight": 0.5}],
        credit={"name": "vpr", "baseline": "candidates", "process": "format_bonus"},
        steps=1,
    )
    for _, episode in run_result.episodes():
        for turn in episode.turns:
            for reply in (turn, *turn.candidates):  # 0.5 * 1 if legal, else 0.5 * -1 and the penalty 0.5
                assert reply.score == pytest.approx(0.5 if reply.event == "ok" else -1.0)


def test_sparring_show_prints_candidates(tmp_path):
    train(tmp_path / "run", steps=1)
    text = CliRunner().invoke(app, ["show", str(tmp_path / "run"), "--ids"]).output
    num_prompts = text.count("    prompt")
    assert num_prompts and text.count("not played, candidate") == 2 * num_prompts
    assert text.count("    score ") == 3 * num_prompts


AS_RELEASED = {"name": "vpr", "preset": "as_released", "process": "regret", "skip_above": 1.0}


def weights_bytes(path, step):
    return (path / "checkpoints" / f"step_{step:06d}" / "model.safetensors").read_bytes()


def test_as_released_only_unequal_state_groups_are_trained(tmp_path):
    run_result = train(tmp_path / "run", credit=AS_RELEASED)
    last_metrics = [row for row in read_metrics(tmp_path / "run") if "loss" in row][-1]
    assert last_metrics["credit/equal_share"] == pytest.approx(last_metrics["candidates/equal_share"])
    assert last_metrics["credit/skipped_update"] == 0 and last_metrics["logprob_difference_max"] < 1e-4
    rows = (
        run_result.table("episodes")
        .to_pandas()
        .merge(run_result.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    )
    groups = rows.groupby(["step", "episode_id", "state_group"])
    has_equal_scores = groups.score.transform("nunique") == 1
    assert (rows.advantage[has_equal_scores] == 0).all() and (rows.selected == ~has_equal_scores).all()
    unequal_rows = rows[~has_equal_scores & (rows.step == last_metrics["step"])]
    tokens = unequal_rows.advantage.repeat(unequal_rows.entropies.map(len))
    assert last_metrics["advantage_std"] == pytest.approx(tokens.std(ddof=0), rel=1e-5)  # tokens that have a loss
    for _, unequal_rows in rows[~has_equal_scores].groupby("step"):
        assert unequal_rows.advantage.mean() == pytest.approx(0, abs=1e-6) and unequal_rows.advantage.std(
            ddof=0
        ) == pytest.approx(1, abs=1e-5)


def test_a_step_with_too_many_equal_groups_is_skipped_and_reported(tmp_path):
    train(tmp_path / "run", credit={**AS_RELEASED, "skip_above": 0.0})
    rows = [row for row in read_metrics(tmp_path / "run") if "candidates/tokens" in row]
    assert len(rows) == 4 and all(row["credit/skipped_update"] == 1 and "loss" not in row for row in rows)
    assert weights_bytes(tmp_path / "run", 2) == weights_bytes(tmp_path / "run", 4)


def test_abstentions_of_the_oracle_are_counted_and_not_trained(tmp_path):
    environment = {
        "name": "kuhn_poker",
        "illegal": {"rule": "random"},
        "oracle": {"name": "noisy", "oracle": "cfr", "options": {"iterations": 50}},
    }
    with_abstentions, without_verdicts = (
        {**environment, "oracle": {**environment["oracle"], "abstain": share, "per": "turn"}} for share in (0.5, 1.0)
    )
    train(tmp_path / "none", environments=[without_verdicts], credit=AS_RELEASED)
    rows = [row for row in read_metrics(tmp_path / "none") if "candidates/tokens" in row]
    for row in rows:
        assert row["candidates/unjudged"] == 1 and row["abstained/regret"] == 1 and row["judged_rate/kuhn_poker"] == 0
        assert row["credit/skipped_update"] == 1 and row["credit/judged_share"] == 0
    assert weights_bytes(tmp_path / "none", 2) == weights_bytes(tmp_path / "none", 4)
    train(tmp_path / "some", environments=[with_abstentions], credit=AS_RELEASED, steps=2)
    (last_row,) = [row for row in read_metrics(tmp_path / "some") if row["step"] == 2]
    assert 0 < last_row["candidates/unjudged"] < 1 and last_row["credit/skipped_update"] == 0


@pytest.mark.parametrize("kill_at_commit", [85, 125])
def test_a_run_killed_within_a_state_group_ends_with_the_same_bytes(tmp_path, monkeypatch, kill_at_commit):
    from sparring.play.episode import EpisodeInPlay

    train(tmp_path / "whole", credit=AS_RELEASED)
    commit, num_remaining = EpisodeInPlay.commit, [kill_at_commit]

    def commit_or_kill(self, scores=(), **options):
        if scores:
            num_remaining[0] -= 1
            if num_remaining[0] < 0:
                raise KillSignal
        return commit(self, scores, **options)

    with monkeypatch.context() as patch:
        patch.setattr(EpisodeInPlay, "commit", commit_or_kill)
        with pytest.raises(KillSignal):
            train(tmp_path / "halves", credit=AS_RELEASED)
    sparring.train(candidates_config(credit=AS_RELEASED), run=tmp_path / "halves", resume=True)
    for name in (
        "metrics.jsonl",
        "checkpoints/step_000004/model.safetensors",
        "checkpoints/step_000004/optimizer.safetensors",
    ):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_at_grpo_compares_candidates_by_team_and_own_reward(tmp_path):
    rewards = [{"name": "regret"}, {"name": "format_bonus", "bonus": 0.1, "penalty": 0.1}]
    run_result = train(
        tmp_path / "run",
        rewards=rewards,
        credit={"name": "at_grpo", "candidates": True, "team": "regret", "local": "format_bonus"},
        steps=1,
    )
    rows = (
        run_result.table("episodes")
        .to_pandas()
        .merge(run_result.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    )
    sums = rows.groupby(["step", "episode_id", "state_group"]).advantage.sum()
    assert rows.selected.all() and abs(sums).max() < 1e-5 and (rows.advantage != 0).any()


def test_vine_ppo_trains_and_counts_its_playouts(tmp_path):
    train(
        tmp_path / "run",
        rollout={"games_per_step": 16, "playouts": 2},
        rewards=[],
        reorder_outcomes=False,
        credit={"name": "vine_ppo"},
    )
    last_metrics = [row for row in read_metrics(tmp_path / "run") if "loss" in row][-1]
    assert (
        last_metrics["playouts/tokens"] > 0
        and last_metrics["playouts/failed"] == 0
        and last_metrics["advantage_std"] == pytest.approx(1, abs=0.05)
    )
    for _, episode in sparring.load_run(tmp_path / "run").episodes():
        assert all(turn.playout is not None and turn.playout_before is not None for turn in episode.turns)


# Candidates together with every other option that changes episodes, records or training.
KUHN = {
    "name": "kuhn_poker",
    "illegal": {"rule": "retry", "retries": 1, "penalty": 0.2},
    "oracle": {"name": "cfr", "iterations": 50},
}
SMALL_MODEL = {"hidden_size": 8, "heads": 1, "layers": 1}
ROLLOUT = {"games_per_step": 16, "group_size": 4, "candidates": {"count": 3}}


def config_with(**changes):
    return {
        "name": "pairs",
        "threads": 1,
        "steps": 2,
        "environments": [KUHN],
        "model": SMALL_MODEL,
        "rollout": ROLLOUT,
        "rewards": [{"name": "regret"}],
        "credit": VPR,
        "reorder_outcomes": True,
        "warmup": {"updates": 1, "games": 8},
        "evaluation": {"every": 2, "opponents": []},
        "checkpoint": {"every": 1},
        "store": {"every": 1},
        **changes,
    }


def rollout_with(**changes):
    return {**ROLLOUT, **changes}


AUCTION = {"name": "sealed_auction", "illegal": {"rule": "random", "penalty": 0.1}}
LENGTH_REWARD = {
    "rewards": [{"name": "length", "shortest": 1, "longest": 4, "bonus": 0.1}],
    "credit": {**VPR, "process": "length"},
}
OTHER_OPTIONS = {
    "simultaneous moves": {"environments": [AUCTION], **LENGTH_REWARD},
    "several sampled segments of one turn": {
        "environments": [{"name": "lookups"}],
        **LENGTH_REWARD,
        "rollout": rollout_with(max_new_tokens=6),
    },
    "tree": {"rollout": rollout_with(plan={"name": "tree", "branching": [2, 2]})},
    "branch": {"rollout": rollout_with(plan={"name": "branch"})},
    "playouts": {"rollout": rollout_with(playouts=2)},
    "refills": {"rollout": rollout_with(refills=1)},
    "max_turns": {"rollout": rollout_with(max_turns=2)},
    "replay": {"replay": {"name": "r3"}},
    "markov": {
        "environments": [{"name": "liars_dice", "options": {"dice": 1}, "illegal": {"rule": "random"}}],
        "context": {"name": "markov"},
        "evaluation": {"every": 2, "opponents": [], "exact": False},
        **LENGTH_REWARD,
    },
    "summary": {"context": {"name": "summary", "every": 1}},
    "window": {"context": {"name": "sliding_window", "exchanges": 1}},
    "reward model": {"credit": {"name": "oprl"}},
    "critic": {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}]},
    "top_k": {"rollout": rollout_with(top_k=3)},
    "snapshots as opponents": {"matchmaker": {"name": "mixed"}, "league": {"every": 1}},
    "two policies": {
        "policies": {"one": {"credit": VPR}, "two": {"credit": {"name": "mars"}}},
        "roles": {"first": "one", "second": "two"},
    },
}


@pytest.mark.parametrize("options_name", OTHER_OPTIONS)
def test_candidates_work_with_other_options(options_name, tmp_path):
    run_result = sparring.train(config_with(**OTHER_OPTIONS[options_name]), run=tmp_path / "run", overwrite=True)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    for name, value in rows[-1].items():
        if name.endswith("logprob_difference_max"):
            assert value < 1e-4
    episodes = run_result.table("episodes").to_pandas()
    keys = ["step", "episode_id", "seat", "turn_index", "candidate"]
    assert not episodes.duplicated(keys).any()
    state_groups = episodes[episodes.state_group.notna()].groupby(["step", "episode_id", "state_group"])
    assert (
        (state_groups.committed.sum() == 1).all()
        and (state_groups.candidate.nunique() == 3).all()
        and len(state_groups)
    )
    assert (state_groups.moment.nunique() == 1).all()
    credit = run_result.table("credit").to_pandas()
    assert not credit.duplicated(keys).any()
    stored_episodes = [episode for _, episode in run_result.episodes()]
    assert sum(len(turn.candidates) + 1 for episode in stored_episodes for turn in episode.turns) == len(episodes)


# Runs that learn from preferences between candidates.
LOSS = {"name": "turn_dpo", "beta": 1.0}


def dpo_config(**changes):
    return {
        "name": "turn_dpo",
        "threads": 1,
        "steps": 15,
        "environments": [
            {"name": "kuhn_poker", "illegal": {"rule": "random"}, "oracle": {"name": "cfr", "iterations": 50}}
        ],
        "rollout": {"games_per_step": 64, "candidates": {"count": 3, "commit": "random"}},
        "rewards": [{"name": "regret"}],
        "credit": {"name": "candidate_value"},
        "losses": [LOSS],
        "reorder_outcomes": True,
        "warmup": {"updates": 20, "games": 32},
        "learner": {"minibatches": 2, "learning_rate": 0.005},
        "evaluation": {"every": 15, "opponents": []},
        **changes,
    }


def loss_rows(path):
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "loss" in row]


@pytest.mark.parametrize(("labels", "reference", "weight"), [("hard", "start", 1.0), ("soft", "step", 8.0)])
def test_preferred_candidates_become_more_probable(tmp_path, labels, reference, weight):
    losses = [{**LOSS, "labels": labels, "reference": reference}]
    sparring.train(dpo_config(losses=losses, rewards=[{"name": "regret", "weight": weight}]), run=tmp_path / "run")
    rows = loss_rows(tmp_path / "run")
    assert rows[0]["turn_dpo/pairs"] > 10 and rows[-1]["logprob_difference_max"] < 1e-4
    assert rows[-1]["candidates/score"] > rows[0]["candidates/score"] + 0.1 * weight
    assert rows[0]["credit/judged"] == 1.0


@pytest.mark.parametrize("changes", [{}, {"reduction": "agent_mean"}, {"leaves": 2}, {"order": "reverse_turns"}])
@pytest.mark.parametrize("reference", ["start", "step"])
def test_one_and_several_passes_give_equal_weights_with_a_kl_penalty(tmp_path, reference, changes):
    losses = [{**LOSS, "labels": "soft", "reference": reference}, {"name": "kl_penalty", "estimator": "k2"}]
    metrics = []
    for micro_tokens in (8192, 40):
        learner = {"minibatches": 2, "learning_rate": 0.005, "micro_tokens": micro_tokens, **changes}
        path = tmp_path / str(micro_tokens)
        short_run = {"steps": 1, "warmup": {"updates": 5, "games": 16}, "evaluation": {"exact": False, "opponents": []}}
        sparring.train(dpo_config(losses=losses, learner=learner, **short_run), run=path)
        metrics.append(loss_rows(path)[0])
    one_pass, several_passes = metrics
    assert one_pass["kl_penalty/kl"] > 0 and one_pass["turn_dpo/pairs"] > 10
    for name in ("loss", "gradient_norm", "turn_dpo/margin"):
        assert one_pass[name] == pytest.approx(several_passes[name], rel=1e-3, abs=1e-5), name


# Runs with knowledge plug-ins, which score the candidates.
KNOWLEDGE_CONFIG = {
    "name": "knowing",
    "threads": 1,
    "steps": 3,
    "environments": [{"name": "rps_spock_lizard", "illegal": {"rule": "random", "penalty": 0.5}}],
    "model": {"context": 16},
    "rollout": {"games_per_step": 64, "candidates": {"count": 3, "commit": "random"}},
    "knowledge": {"name": "latent_space", "every": 1},
    "credit": {"name": "candidate_value"},
    "losses": [{"name": "turn_dpo", "preset": "lspo"}],
    "warmup": {"updates": 20, "games": 64},
    "evaluation": {"every": 3},
    "checkpoint": {"every": 1, "keep": 9},
    "store": {"every": 1},
}


def knowledge_config(**changes):
    return {**KNOWLEDGE_CONFIG, **changes}


def test_scores_of_knowledge_are_stored_and_trained(tmp_path):
    run_result = sparring.train(knowledge_config(), run=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["knowledge/latent_space/clusters"] for row in rows if "loss" in row] == [3, 4, 5]
    assert all(row["knowledge/judged"] == row["credit/judged"] == 1.0 for row in rows if "loss" in row)
    replies = (
        run_result.table("episodes")
        .to_pandas()
        .merge(run_result.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    )
    assert len(replies) == 3 * 64 * 2 * 3  # steps x games x seats x candidates
    assert replies.score.notna().all()
    assert abs(replies.score - replies.advantage).max() < 1e-6
    states = [
        json.loads((folder / "state.json").read_text())["knowledge"]
        for folder in sorted((tmp_path / "run" / "checkpoints").iterdir())
    ]
    assert [state["iteration"] for state in states] == [0, 1, 2]


def test_scores_do_not_depend_on_workers(tmp_path):
    metrics = []
    for name, scale in (("here", {}), ("two", {"fleet": "processes", "workers": 2})):
        with simulated_workers():
            sparring.train(knowledge_config(scale=scale), run=tmp_path / name)
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        metrics.append([(row["loss"], row["knowledge/latent_space/apart"]) for row in rows if "loss" in row])
    assert metrics[0] == metrics[1]


def test_knowledge_works_with_a_lag(tmp_path):
    losses = [{"name": "turn_dpo", "preset": "lspo"}, {"name": "truncated_is"}]
    with simulated_workers():
        sparring.train(
            knowledge_config(scale={"lag": 1, "fleet": "processes", "workers": 1}, losses=losses), run=tmp_path / "run"
        )
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["knowledge/latent_space/iteration"] for row in rows if "loss" in row] == [1, 2, 3]


def test_speeches_of_werewolf_are_clustered_without_player_names(tmp_path):
    game = {
        "name": "werewolf",
        "options": {
            "players": 3,
            "tie": "none",
            "rounds": 1,
            "abstain": False,
            "say": ["result"],
            "order": "simultaneous",
        },
    }
    knowledge = {"name": "latent_space", "actions": True, "cfr_steps": 60}
    configuration = knowledge_config(
        environments=[{**game, "illegal": {"rule": "random", "penalty": 0.5}}],
        knowledge=knowledge,
        model={"context": 64},
        rollout={**KNOWLEDGE_CONFIG["rollout"], "max_new_tokens": 4},
        steps=1,
        warmup={"updates": 10, "games": 32},
        evaluation={"every": 9, "exact": False},
    )
    run_result = sparring.train(configuration, run=tmp_path / "run")
    (folder,) = (tmp_path / "run" / "checkpoints").iterdir()
    kinds = json.loads((folder / "state.json").read_text())["knowledge"]["space"]["kinds"]
    assert sorted(kinds) == ["seer speaks", "villager speaks", "wolf speaks"]
    assert all(sorted(kind["sentences"]) == ["seer @ good", "seer @ wolf", "silence"] for kind in kinds.values())
    replies = run_result.table("episodes").to_pandas()
    scored_replies = replies[replies.groupby(["episode_id", "seat", "turn_index"]).candidate.transform("count") == 3]
    assert len(scored_replies) > 64 * 5 * 3 and scored_replies.score.notna().all()


@pytest.mark.parametrize("options", [{}, {"gists": False, "depth": 2, "embedding": "ngrams size=64"}])
def test_a_game_without_a_tree_is_scored_by_repeatable_sampling(tmp_path, options):
    game = {"name": "werewolf", "options": {"players": 4, "tie": "random", "rounds": 1, "say": ["result"]}}
    configuration = knowledge_config(
        environments=[{**game, "illegal": {"rule": "random", "penalty": 0.5}}],
        knowledge={"name": "latent_space", "actions": True, "every": 1, "solver": "sampled", "cfr_steps": 8, **options},
        model={"context": 96, "hidden_size": 16, "layers": 1},
        rollout={**KNOWLEDGE_CONFIG["rollout"], "games_per_step": 16, "max_new_tokens": 4},
        steps=2,
        warmup={"updates": 2, "games": 16},
        evaluation={"every": 9, "exact": False},
    )
    metrics = []
    for name in ("one", "other"):
        sparring.train(configuration, run=tmp_path / name)
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        metrics.append(
            [
                (row["loss"], row["knowledge/judged"], row["knowledge/latent_space/apart"])
                for row in rows
                if "loss" in row
            ]
        )
    assert metrics[0] == metrics[1] and len(metrics[0]) == 2  # both steps have a loss, which needs scored replies
    assert all(0 < share_judged < 1 for _, share_judged, _ in metrics[0])
    folders = sorted((tmp_path / "one" / "checkpoints").iterdir())
    space = json.loads((folders[-1] / "state.json").read_text())["knowledge"]["space"]
    assert {len(centre) for kind in space["kinds"].values() for centre in kind["centres"]} == (
        {64} if options else {256}
    )
    assert {key.split()[0] for key in space["strategies"]["werewolf"]} == (
        {"0", "1", "2", "3"} if options else {"wolf", "seer", "villager"}
    )
    unsampled = {**configuration, "knowledge": {**configuration["knowledge"], "solver": "whole"}}
    with pytest.raises(GameError, match="write solver: sampled"):
        sparring.train(unsampled, run=tmp_path / "whole")


def test_without_knowledge_the_configuration_has_no_knowledge_key():
    assert "knowledge" not in resolve({"environments": [{"name": "kuhn_poker"}]}).model_dump()
    assert "player" not in resolve({"environments": [{"name": "kuhn_poker"}]}).model_dump()["warmup"]


WITHOUT_CANDIDATES = {"rollout": {"games_per_step": 64}}
COMMIT_ADVICE = r"candidates: \{count: 3, commit: random\}"
REFUSED_CONFIGURATIONS = [
    (candidates_config(rollout={"candidates": {"count": 1}}), MissingError, "rollout.candidates.count: 4"),
    (candidates_config(rewards=[], credit={"name": "mars"}), MissingError, "judges a single turn"),
    (
        candidates_config(rewards=[{"name": "potential"}], credit={**VPR, "process": "potential"}),
        ConfigError,
        "reads several turns",
    ),
    (
        candidates_config(
            environments=[{"name": "kuhn_poker"}],
            rewards=[{"name": "length"}],
            credit={"name": "mars"},
            rollout={"candidates": {"count": 2, "by": "oracle"}},
        ),
        MissingError,
        "an oracle judges candidates",
    ),
    (candidates_config(rollout={"candidates": {"count": 5000}}), ConfigError, "rollout.candidates.count"),
    (
        candidates_config(rollout={"games_per_step": 4000, "candidates": {"count": 1000}}),
        ConfigError,
        "lower it, or rollout.in_flight",
    ),
    (
        dpo_config(**WITHOUT_CANDIDATES),
        MissingError,
        r"compares the candidates of a prompt, but.*rollout\.candidates\.count: 4",
    ),
    (knowledge_config(**WITHOUT_CANDIDATES, credit={"name": "rae"}), MissingError, COMMIT_ADVICE),
    (knowledge_config(rollout={"games_per_step": 64, "candidates": {"count": 3}}), MissingError, COMMIT_ADVICE),
    (knowledge_config(replay={"name": "r3"}), ConfigError, "replay 'r3' learns from older episodes; leave replay out"),
]


@pytest.mark.parametrize(("configuration", "error", "message"), REFUSED_CONFIGURATIONS)
def test_options_that_do_not_fit_candidates_are_refused(configuration, error, message):
    with pytest.raises(error, match=message):
        resolve(configuration)
