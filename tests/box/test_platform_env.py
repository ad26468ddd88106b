"""What a platform wants of every run reaches the payload, after all that a person has said."""

import json
from pathlib import Path
from typing import Any, Dict

from tests.box.rig import Rig

_WRITE = 'env -0 > "$SOJOURN_RUN_DIR/seen"'


def seen(rig: Rig, run: str, wanted: Dict[str, Any], **spec: Any) -> Dict[str, str]:
    """The environment of a payload on a box of such a platform."""
    root = rig.place(_WRITE, run=run, platform_env=wanted, **spec)
    assert rig.finish(root)["rc"] == 0
    pairs = Path(root.path, "seen").read_text().split("\0")
    return dict(pair.partition("=")[::2] for pair in pairs if pair)


def test_a_run_gets_the_mirror_the_hook_and_the_caches_of_its_platform(rig: Rig, tmp_path: Path) -> None:
    hook, disk = tmp_path / "network turbo", tmp_path / "disk"
    disk.mkdir()
    hook.write_text("export http_proxy=http://192.0.2.1:3128 https_proxy=http://192.0.2.1:3128\n")
    rig.env.update(HOME=str(tmp_path))
    for name in ("http_proxy", "https_proxy", "no_proxy", "NO_PROXY", "HF_HOME", "HF_TOKEN", "XDG_CACHE_HOME"):
        rig.env.pop(name, None)
    values = {"HF_ENDPOINT": "https://mirror.example", "HF_HOME": str(disk / "hf"), "TORCH_HOME": "/not-here/torch"}
    needs = {"HF_HOME": str(disk), "TORCH_HOME": "/not-here"}
    wanted = {"set": values, "needs": needs, "hook": "source '%s' || true" % hook, "no_proxy": ".cn,localhost"}
    env = seen(rig, "plain", wanted)
    assert (env["HF_ENDPOINT"], env["HF_HOME"]) == (values["HF_ENDPOINT"], values["HF_HOME"])
    assert "TORCH_HOME" not in env  # its disk is not on this box
    assert env["http_proxy"] == "http://192.0.2.1:3128" and env["no_proxy"] == env["NO_PROXY"] == ".cn,localhost"
    own = seen(rig, "own", wanted, envs={"HF_ENDPOINT": "https://mine.example", "http_proxy": ""})
    assert own["HF_ENDPOINT"] == "https://mine.example" and own["http_proxy"] == "" and "no_proxy" not in own


def test_a_mirror_gets_no_token_and_a_cache_that_is_there_stays_in_use(rig: Rig, tmp_path: Path) -> None:
    usual = tmp_path / ".cache" / "huggingface"
    (usual / "hub").mkdir(parents=True)
    (usual / "token").write_text("hf_secret")
    rig.env.update(HOME=str(tmp_path))
    for name in ("HF_HOME", "HF_TOKEN", "XDG_CACHE_HOME"):
        rig.env.pop(name, None)
    wanted = {"set": {"HF_ENDPOINT": "https://mirror.example", "HF_HOME": str(tmp_path / "hf")}, "needs": {}}
    env = seen(rig, "r", wanted)
    assert "HF_ENDPOINT" not in env and "HF_HOME" not in env


def test_a_damaged_wish_of_a_platform_is_refused_with_its_name(rig: Rig) -> None:
    for wanted in ("text", {"set": [1]}, {"set": {"A=B": "c"}}, {"hook": 3}):
        run = {"argv": ["true"], "run": "r", "platform_env": wanted}
        answer = rig.call("place", run=run, want={"attempt": 1, "by": "run", "token": "t"})
        assert not answer["ok"] and "platform_env" in json.dumps(answer)
