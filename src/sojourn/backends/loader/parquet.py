"""Verifies Parquet files: footer, pages and counts by our own walker; every column decoded and scanned by pyarrow, in
batches, if installed. Without it `load` and `content` are not claimed.

Few writers make page checksums: then only the sha256 shows a flipped bit that still decodes.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import parquet as walker
from sojourn.formats.damage import Unloadable

_BATCH_ROWS = 1 << 16
_NAMED = 5


class Backend(Loader):
    """Loads one .parquet file."""

    kind: ClassVar[str] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    magic: ClassVar[tuple[bytes, ...]] = (walker.MAGIC,)

    def owns(self, path: str, head: bytes) -> bool:
        """The magic suffices."""
        return True

    def load(self, path: str) -> Loaded:
        """Walk and decode it. Raises: Unloadable, OSError."""
        found = walker.walk(path)
        facts: dict[str, Any] = {
            "rows": found.rows,
            "row_groups": found.row_groups,
            "columns": [name[:200] for name in found.columns[:32]],
            "created_by": found.created_by[:200],
        }
        if found.is_summary:
            remark = "a summary of other files that hold its columns: only the summary itself is proven"
            return Loaded(("structure", "load", "content"), {**facts, "by": "sojourn"}, (remark,))
        by = _decode(path, found)
        remarks = (
            ()
            if found.has_sums
            else ("written without page checksums: some flipped bits can be detected only by its SHA-256",)
        )
        if not by:
            more = "not loaded: pyarrow is not installed here; only its structure is proven"
            return Loaded(("structure",), {**facts, "by": ""}, (*remarks, more))
        return Loaded(("structure", "load", "content"), {**facts, "by": by}, remarks)


def _decode(path: str, found: walker.Table) -> str:
    """pyarrow's name and version, "" if not installed. Raises: Unloadable."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return ""
    bad: list[str] = []
    pyarrow.set_cpu_count(1)
    try:
        with parquet.ParquetFile(
            path, memory_map=True, pre_buffer=False, page_checksum_verification=found.has_sums
        ) as opened:
            if opened.metadata.num_rows != found.rows:
                raise Unloadable("corrupt", "pyarrow finds a different number of rows")
            for group in range(opened.metadata.num_row_groups):
                for name in dict.fromkeys(column.split(".")[0] for column in found.columns):
                    _column(opened, group, name, bad)
    except pyarrow.ArrowNotImplementedError as error:
        raise Unloadable("unsupported", f"pyarrow does not read a type in it: {_first_line(error)}") from None
    except (pyarrow.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
        raise Unloadable("corrupt", f"pyarrow refuses it: {_first_line(error)}") from None
    if bad:
        named = list(dict.fromkeys(bad))
        more = f" and {len(named) - _NAMED} more columns" if len(named) > _NAMED else ""
        raise Unloadable("non-finite", f"NaN or infinity in {', '.join(named[:_NAMED])}{more}")
    return f"pyarrow {pyarrow.__version__}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _column(opened: Any, group: int, name: str, bad: list[str]) -> None:
    """Decode one column of one row group; add its name to `bad` if a number in it is not finite."""
    rows = 0
    for batch in opened.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[name], use_threads=False):
        rows += batch.num_rows
        batch.validate(full=True)
        if any(_is_bad(array) for array in batch.columns):
            bad.append(name[:80])
    if rows != opened.metadata.row_group(group).num_rows:
        raise Unloadable("corrupt", f"column {name[:80]} has {rows} rows")


def _is_bad(array: Any) -> bool:
    """It contains a number that is NaN or infinite, at any depth."""
    import pyarrow
    from pyarrow import compute, types

    kind = array.type
    if types.is_floating(kind):
        return bool(compute.any(compute.invert(compute.is_finite(array))).as_py())
    if types.is_dictionary(kind):
        return _is_bad(array.dictionary)
    if isinstance(array, pyarrow.ExtensionArray):
        return _is_bad(array.storage)
    if isinstance(array, pyarrow.MapArray):
        return _is_bad(array.keys) or _is_bad(array.items)
    if isinstance(array, pyarrow.StructArray):
        return any(_is_bad(part) for part in array.flatten())
    if isinstance(array, pyarrow.FixedSizeListArray | pyarrow.ListArray | pyarrow.LargeListArray):
        return _is_bad(array.flatten())
    return False
