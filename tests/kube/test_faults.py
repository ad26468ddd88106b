"""Seeded faults on a namespace: nothing doubled, nothing lost, nothing falsely dead, nothing left behind."""

from collections import Counter
from pathlib import Path

import pytest

from sojourn.backends.kube import reader
from tests.kube.campaign import Trial
from tests.kube.cluster import Cluster
from tests.violation import held


@pytest.mark.campaign
@pytest.mark.trials(campaign=100, soak=1000)
@pytest.mark.timeout(0)
def test_seeded_faults_on_a_namespace(trial_count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`trial_count`: trials of five faults each."""
    found: dict[int, list[str]] = {}
    blows: Counter[str] = Counter()
    for seed in range(trial_count):
        folder = tmp_path / str(seed)
        for name in ("CONFIG", "STATE", "DATA", "CACHE"):
            monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
        with Cluster(folder / "cluster") as cluster:
            for node in ("n1", "n2", "n3"):
                cluster.node(node)
            cluster.claim("sojourn")
            cluster.nodes.images += (reader.IMAGE,)
            monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
            trial = Trial(seed, folder, cluster)
            trial.play()
        blows.update(one for one in trial.story if not one.startswith("  "))
        print(f"seed {seed}: {trial.breaches or 'ok'} {trial.story}", flush=True)
        if trial.breaches:
            found[seed] = [*trial.breaches, *trial.story]
    print(sum(blows.values()), "faults:", dict(blows))
    held(not found, found)
