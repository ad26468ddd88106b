"""`tunnel` to the node of a job of the real Slurm, from its login node itself and over ssh."""

import contextlib
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from sojourn.core.values import State
from sojourn.verbs.observe.tunnel import NoNode, tunnel
from tests.lab.cluster import until
from tests.verbs.slurm_client import Client

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cluster_fixtures", "tests.verbs.slurm_fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]
NODE = "127.0.0.2"
SERVES = f"echo from-the-node > it; exec {sys.executable} -m http.server --bind {NODE} PORT"


@contextlib.contextmanager
def known_as(client: Client, node: str, address: str) -> Iterator[None]:
    """Slurm says meanwhile that the node has another address than the login node; it starts nothing there."""
    client.cluster.sh(f"scontrol update nodename={node} nodeaddr={address}")
    try:
        yield
    finally:
        client.cluster.sh(f"scontrol update nodename={node} nodeaddr=127.0.0.1")


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("transport", ["local", "ssh"])
def test_a_tunnel_reaches_the_node_and_not_the_login_node(client: Client, transport: str) -> None:
    with socket.socket() as free:
        free.bind((NODE, 0))
        port = free.getsockname()[1]
    node = client.cluster.nodes[0]
    client.site(transport, nodelist=node)
    client.run(SERVES.replace("PORT", str(port)))
    client.becomes(State.RUNNING)

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((NODE, port)):
            return True
        return False

    until(answers, client.logs)
    with known_as(client, node, NODE), contextlib.closing(tunnel(client.ctx, "r", port)) as opened:
        up = next(opened)
        assert up.is_forwarded and up.answers, up
        assert urllib.request.urlopen(f"http://{up.address}/it", timeout=20).read() == b"from-the-node\n"


@pytest.mark.campaign
def test_while_the_job_waits_and_once_it_is_over_one_line_says_that_there_is_no_node(client: Client) -> None:
    client.site("local", hold=True)
    client.run("true")
    with pytest.raises(NoNode) as waits:
        next(tunnel(client.ctx, "r", 6006))
    assert "waits in the queue" in waits.value.message and "held by its owner" in waits.value.message
    told = subprocess.run([sys.executable, "-m", "sojourn", "tunnel", "r", "6006"], capture_output=True, text=True)
    assert told.returncode == 5 and not told.stdout and "waits in the queue" in told.stderr, told
    client.cluster.sh(f"scontrol release {client.native()}")
    client.becomes(State.SUCCEEDED)
    with pytest.raises(NoNode, match="does not run any more"):
        next(tunnel(client.ctx, "r", 6006))
