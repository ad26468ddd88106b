"""An artifact is written and read by one function each, and a receipt is made of a good proof only."""

import json

import pytest

from sojourn.core.artifact import LOG, UNKNOWN, Artifact
from sojourn.wire.errors import Defect

GOOD = Artifact("a.pt", "torch_zip", 3, "0" * 64, ("bytes", "load"), remarks=("small",), facts={"n": 1}, loader="torch")
NOT_INSTALLED = "not loaded: pyarrow is not installed here; only its structure is proven"


@pytest.mark.parametrize("artifact", [GOOD, Artifact("b", problem="missing", detail="no such file")])
def test_what_was_written_is_read_again(artifact: Artifact) -> None:
    assert Artifact.from_json(json.loads(json.dumps(artifact.as_json()))) == artifact


@pytest.mark.parametrize(
    "row", [{}, {"path": "a"}, {**GOOD.as_json(), "bytes": "many"}, {**GOOD.as_json(), "proved": 1}]
)
def test_what_is_no_artifact_is_refused(row: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Artifact.from_json(row)


def test_a_receipt_holds_all_that_was_proven() -> None:
    assert Artifact.of_receipt(GOOD.receipt("digits", "/home/a.pt")) == GOOD


@pytest.mark.parametrize("bad", [Artifact("a.pt", problem="corrupt"), Artifact("a.pt", proved=("load",))])
def test_there_is_no_receipt_for_what_is_not_good_or_was_not_expected(bad: Artifact) -> None:
    with pytest.raises(Defect):
        bad.receipt("digits", "/home/a.pt")


@pytest.mark.parametrize(
    ("artifact", "needs"),
    [
        (GOOD, ""),
        (Artifact("a", UNKNOWN, proved=("bytes",)), ""),
        (Artifact("a", LOG, proved=("bytes",)), ""),
        (Artifact("a", "parquet", remarks=(NOT_INSTALLED,)), "install pyarrow"),
        (Artifact("a", "jpeg", remarks=("not loaded: too many pixels",)), "too many pixels"),
        (Artifact("a", "hdf5", proved=("bytes",)), "no reader of hdf5 here"),
    ],
)
def test_what_was_not_loaded_says_what_it_needs(artifact: Artifact, needs: str) -> None:
    assert artifact.needs == needs
