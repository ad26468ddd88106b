"""The kubeconfig as kubectl reads it: where a pod runs, who acts as whom, what a credential plugin is told."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sojourn.backends.kube import kubeconfig
from sojourn.backends.kube.api import Api
from sojourn.backends.kube.kubeconfig import Access, NoContext, NoCredential


def test_a_pod_without_a_kubeconfig_has_the_context_of_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("token", "t"), ("namespace", "ml\n"), ("ca.crt", "")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    for address in ("", "in-cluster"):
        found = kubeconfig.access(address)
        assert (found.server, found.namespace) == ("https://[fd00::1]:6443", "ml")
        assert found.user == {"tokenFile": str(tmp_path / "token")}
    assert kubeconfig.access("in-cluster/other").namespace == "other"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(NoContext, match="No context is called 'in-cluster'"):
        kubeconfig.access("in-cluster")


def test_a_user_acts_as_the_one_that_the_file_names() -> None:
    user = {"token": "t", "as": "ci", "as-groups": ["a", "b"], "as-user-extra": {"x/y": ["z"]}}
    client = Api(Access("c", "ml", {"server": "https://127.0.0.1:9"}, user)).client()
    sent = client.build_request("GET", "/version", headers={"Accept": "application/json"}).headers
    assert [sent["Impersonate-User"], sent["Impersonate-Extra-x%2Fy"]] == ["ci", "z"]
    assert sent.get_list("Impersonate-Group") == ["a", "b"]
    assert isinstance(sent, httpx2.Headers)


def plugin(folder: Path, text: str) -> dict[str, Any]:
    script = folder / "plugin"
    script.write_text(f"#!{sys.executable}\nimport json, os\n{text}\n")
    script.chmod(0o755)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "provideClusterInfo": True}


def test_a_credential_plugin_is_told_of_the_cluster(tmp_path: Path) -> None:
    text = f"open({str(tmp_path / 'told')!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
    user = {"exec": plugin(tmp_path, text + "print(json.dumps({'status': {'token': 't'}}))")}
    more = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]
    cluster = {"server": "https://api", "tls-server-name": "n", "extensions": more}
    assert kubeconfig.credential(user, cluster) == {"token": "t"}
    told = json.loads((tmp_path / "told").read_text())
    assert told["spec"]["cluster"] == {"server": "https://api", "tls-server-name": "n", "config": {"audience": "x"}}


def test_a_plugin_that_is_not_installed_is_said_with_how_to_install_it() -> None:
    user = {"exec": {"apiVersion": "x", "command": "no-such-plugin", "installHint": "Get it\nfrom example.com"}}
    with pytest.raises(NoCredential, match=r"it is not installed here. Get it from example.com") as caught:
        kubeconfig.credential(user, {})
    assert os.linesep not in caught.value.message
