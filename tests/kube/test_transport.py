"""Transport `kube` against the stand-in: the port's contract, and what is its own."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.kube import reader
from sojourn.backends.transport import kube
from sojourn.core.values import Ended, NoAnswer, Place, Site
from sojourn.testing.contracts.transport import EVERY_BYTE, StreamContract
from tests.kube.cluster import Cluster, until
from tests.kube.store import Refused


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.node("n1")
        cluster.claim("sojourn")
        cluster.nodes.images += (reader.IMAGE,)
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        yield cluster


def line(**options: Any) -> kube.Backend:
    return kube.Backend(Place(Site("lab", "kube", address="lab/ml", options={"kube": options})))


@pytest.fixture(scope="class")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.node("n1")
        cluster.claim("sojourn")
        cluster.nodes.images += (reader.IMAGE,)
        yield cluster


class TestContract(StreamContract):
    @pytest.fixture
    def make(self, shared: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
        monkeypatch.setenv("KUBECONFIG", str(shared.kubeconfig))
        return line

    @pytest.fixture
    def there(self, request: pytest.FixtureRequest) -> str:
        return f"/mnt/sojourn/of this test {request.node.name[:30]}"


def test_what_is_put_lies_on_the_claim_and_outlives_the_pod(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "near").write_bytes(EVERY_BYTE)
    assert line().put(str(tmp_path / "near"), "/mnt/sojourn/a/b") is None
    assert (cluster.nodes.claim("ml", "sojourn") / "a/b").read_bytes() == EVERY_BYTE
    (pod,) = cluster.pods("app.kubernetes.io/component=reader")
    cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=1")
    assert line().get("/mnt/sojourn/a/b", str(tmp_path / "home")) == len(EVERY_BYTE)


def test_a_cut_stream_is_no_answer_and_was_sent(cluster: Cluster) -> None:
    assert isinstance(line().call(["true"]), Ended)
    cluster.faults.append(lambda method, path: "cut" if method == "STREAM" else None)
    said = line().call(["sh", "-c", "echo a; sleep 1; echo later >/mnt/sojourn/later"])
    assert isinstance(said, NoAnswer) and said.sent and said.kind == "reset"
    until(lambda: (cluster.nodes.claim("ml", "sojourn") / "later").exists())


def test_a_transfer_that_was_cut_goes_on_at_the_bytes_that_came(cluster: Cluster, tmp_path: Path) -> None:
    data, home, cut = EVERY_BYTE * 20, tmp_path / "home", []

    def fault(method: str, path: str) -> str | None:
        cut.append(method)
        return "cut" if method == "STREAM" and cut.count("STREAM") == 4 else None

    (cluster.nodes.claim("ml", "sojourn") / "big").write_bytes(data)
    cluster.faults.append(fault)
    assert isinstance(line().get("/mnt/sojourn/big", str(home)), NoAnswer)
    have = home.stat().st_size
    assert 0 < have < len(data)
    assert line().get("/mnt/sojourn/big", str(home), offset=have) == len(data) - have
    assert home.read_bytes() == data


def test_a_busy_server_is_asked_again_as_late_as_it_wants(cluster: Cluster) -> None:
    said = iter([Refused(429, "TooManyRequests", "slow down", retry_s=1), Refused(500, "InternalError", "etcd")])
    cluster.faults.append(lambda method, path: next(said, None) if method in ("GET", "POST") else None)
    assert isinstance(line().call(["true"]), Ended)


def test_a_stream_that_a_pod_ends_with_is_over(cluster: Cluster) -> None:
    found = bytearray()
    said = line().stream(["cat"], stdin=io.BytesIO(b"x" * 300_000), out=found.extend)
    assert isinstance(said, Ended) and said.rc == 0 and len(found) == 300_000


def test_a_claim_that_is_not_there_is_said_in_one_line(cluster: Cluster) -> None:
    with pytest.raises(reader.NoClaim, match="namespace ml of lab has no claim work, which .*it has: sojourn"):
        line(claim="work").call(["true"])


def test_an_image_that_cannot_be_pulled_is_said_in_one_line(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HOPELESS_S", 0.5)
    with pytest.raises(reader.NoReader, match="its image cannot be pulled .none:1."):
        line(reader_image="none:1").call(["true"])


def test_a_missing_right_names_verb_resource_and_role(cluster: Cluster) -> None:
    cluster.denied["ann"] = {"create pods/exec"}
    with pytest.raises(Exception, match="does not allow you to create pods/exec in namespace ml of lab") as caught:
        line().call(["true"])
    assert "create role sojourn-create-pods-exec --verb=create --resource=pods/exec" in caught.value.next
    assert caught.value.code == "not-allowed"


def test_expired_credentials_are_no_answer(cluster: Cluster) -> None:
    assert isinstance(line().call(["true"]), Ended)
    cluster.tokens.clear()
    said = line().call(["true"])
    assert isinstance(said, NoAnswer) and (said.sent, said.kind) == (False, "auth")
    assert "\n" not in said.detail
