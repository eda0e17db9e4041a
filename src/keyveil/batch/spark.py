"""Reports and records that live in Spark: the same partition function, where the data is.

    tally_frame     a frame with a binary column `report`      -> the tally of all of it
    tally_paths     Parquet files or folders that Spark reads  -> the same
    write_reports   a frame of user, key, value                -> a folder of reports, one a user

`mapInArrow` hands each task its partition as Arrow batches; a task answers with one small row, and rows
are merged by a tree of tasks before the driver sees them. Spark keeps the row of the attempt that
succeeded, so a task that was killed and retried counts once. Every executor needs this package.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.batch.crossing import crossed
from keyveil.batch.engine import Summary
from keyveil.batch.labels import labels_of
from keyveil.batch.partition import Block, accepted, tally_partition
from keyveil.batch.perturb import perturb_many
from keyveil.batch.records import Records, units_of
from keyveil.batch.repeats import without
from keyveil.batch.stream import Bytes, SecureStream, draw_words
from keyveil.campaign import Campaign
from keyveil.errors import CampaignError, KeyveilError, MissingPackage, TallyError
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES
from keyveil.report.parquet import COLUMN
from keyveil.rounds import Round
from keyveil.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Partials that the driver merges itself; more are merged by tasks, this many at a time.
_FAN_IN = 16
_PARTIAL = "partial binary"


def session(master: str | None = None) -> SparkSession:
    """The session of this process, or a new one; `master` is spark-submit's unless it is given."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        said = f"this needs {error.name}; pip install 'keyveil[spark]'"
        raise MissingPackage(said, name=error.name) from None
    builder = SparkSession.builder.appName("keyveil")
    return (builder.master(master) if master else builder).getOrCreate()


def tally_paths(spark: SparkSession, round: Round, paths: Sequence[str], *, strict: bool = False) -> Summary:
    """The tally of Parquet files or folders, each id once."""
    try:
        frame = spark.read.parquet(*paths)
    except Exception as error:
        raise TallyError(
            f"Spark cannot read {', '.join(paths)[:200]}: {str(error).splitlines()[0]}"
        ) from None
    if COLUMN not in frame.columns:
        raise TallyError(f'the files lack the column "{COLUMN}"; expected files of reports')
    return tally_frame(round, frame, strict=strict)


def tally_frame(round: Round, frame: DataFrame, *, strict: bool = False) -> Summary:
    """The tally of the reports in a frame, each id once, whatever its partitions are."""
    reports = frame.select(COLUMN)
    try:
        tally, refused = _merged(reports.mapInArrow(_counter(round, strict), _PARTIAL), round)
    except Exception as error:
        # An executor's refusal arrives inside its trace.
        if strict and (refusal := re.search(r"report refused \([a-z-]+\): [^\n]*", str(error))):
            raise TallyError(refusal[0]) from None
        raise
    repeated = _repeated(reports)
    if repeated.isEmpty():
        return Summary(tally=tally, refused=refused)
    extra = _extra_copies(round, reports, repeated)
    counted, _ = _merged(extra.mapInArrow(_counter(round, strict), _PARTIAL), round)
    return Summary(tally=without(tally, counted), refused=refused, n_repeated=counted.n_reports)


def write_reports(campaign: Campaign, frame: DataFrame, path: str) -> None:
    """Noise the users of a frame (user, key, value; one row a pair) into a Parquet folder of reports.

    A row with a user and no key says that this user holds nothing. Columns that are called like the
    attributes of clear segments say what a user is. Nothing is handed back but the folder:
    a frame of reports would be noised anew by whoever reads it twice, and every reading would cost the
    users their epsilon again.
    """
    if campaign.has_several_rounds:
        raise CampaignError(
            f'"{campaign.mechanism}" has several rounds; each is noised once the last is counted'
        )
    segments = campaign.segments
    clear = () if segments is None or not segments.is_clear else segments.names
    columns = frame.select(
        frame["user"].cast("string"),
        frame["key"].cast("string"),
        frame["value"].cast("double"),
        *(frame[name].cast("string") for name in clear if name in frame.columns),
    )
    by_user = columns.repartition("user").sortWithinPartitions("user")
    by_user.mapInArrow(_noiser(campaign), f"{COLUMN} binary").write.parquet(path, compression="uncompressed")


# --- tallies ---


def _counter(round: Round, strict: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        blocks = (Block.of_arrow(batch.column(0)) for batch in batches)
        found = tally_partition(round, blocks, strict=strict)
        yield _as_batch(found.tally, found.refused)

    return run


def _merger(batches: Iterator[Any]) -> Iterator[Any]:
    partials = [_of_row(row) for batch in batches for row in batch.column(0).to_pylist()]
    if partials:
        tallies, refused = zip(*partials, strict=True)
        yield _as_batch(reduce(Tally.__add__, tallies), sum(refused, Counter()))


def _merged(partials: DataFrame, round: Round) -> tuple[Tally, Counter[str]]:
    from keyveil.tally.count import Counter as TallyCounter

    count = partials.rdd.getNumPartitions()
    while count > _FAN_IN:
        count = math.ceil(count / _FAN_IN)
        partials = partials.repartition(count).mapInArrow(_merger, _PARTIAL)
    total, refused = TallyCounter.of(round).tally(), Counter[str]()
    for row in partials.collect():
        tally, why = _of_row(row[0])
        total, refused = total + tally, refused + why
    return total, refused


def _as_batch(tally: Tally, refused: Counter[str]) -> Any:
    import pyarrow as pa

    said = json.dumps({"tally": tally.to_json(), "refused": dict(refused)}).encode()
    return pa.RecordBatch.from_arrays([pa.array([said], pa.binary())], names=["partial"])


def _of_row(said: bytes | bytearray) -> tuple[Tally, Counter[str]]:
    fields = json.loads(bytes(said))
    return Tally.from_json(fields["tally"]), Counter(fields["refused"])


def _repeated(reports: DataFrame) -> DataFrame:
    """The ids that came more than once; some may belong to reports that are refused."""
    from pyspark.sql import functions as f

    own = f.substring(COLUMN, HEADER_BYTES - REPORT_ID_BYTES + 1, REPORT_ID_BYTES).alias("id")
    ids = reports.where(f.length(COLUMN) >= HEADER_BYTES).select(own)
    return ids.groupBy("id").count().where("count > 1").select("id")


def _extra_copies(round: Round, reports: DataFrame, repeated: DataFrame) -> DataFrame:
    """All copies but the one of the smallest SHA-256, among those that are not refused."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    own = f.substring(COLUMN, HEADER_BYTES - REPORT_ID_BYTES + 1, REPORT_ID_BYTES).alias("id")
    copies = reports.select(COLUMN, own).join(repeated, "id", "left_semi").select(COLUMN)
    good = copies.mapInArrow(_filter(round), f"{COLUMN} binary").select(COLUMN, own)
    order = Window.partitionBy("id").orderBy(f.sha2(COLUMN, 256))
    return good.select(COLUMN, f.row_number().over(order).alias("place")).where("place > 1").select(COLUMN)


def _filter(round: Round) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        blocks = (Block.of_arrow(batch.column(0)) for batch in batches)
        for block, places in accepted(round, blocks):
            kept = pa.array(block.reports(places), pa.binary())
            yield pa.RecordBatch.from_arrays([kept], names=[COLUMN])

    return run


# --- noise ---


def _noiser(campaign: Campaign) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        asked, stream = campaign.only_round(), SecureStream()
        for table in _whole_users(batches):
            reports = perturb_many(
                asked.mechanism,
                _asked_of(campaign, table),
                tag=campaign.tag,
                stream=stream,
                is_dithered=asked.is_dithered,
                labels=_labels_of(campaign, table) if campaign.clear_labels else None,
            )
            # Neighbours in the frame are no neighbours in the output.
            reports = reports[np.argsort(draw_words(stream, len(reports)))]
            fixed = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(reports.shape[1]), len(reports), [None, pa.py_buffer(np.ascontiguousarray(reports))]
            )
            yield pa.RecordBatch.from_arrays([fixed.cast(pa.binary())], names=[COLUMN])

    return run


def _asked_of(campaign: Campaign, table: Any) -> Records:
    """The records in a table, over what is asked about."""
    plain, crossing = records_of(campaign, table), campaign.domain.crossing
    if crossing is None:
        return plain
    labels = _labels_of(campaign, table)
    return crossed(plain, crossing, None if labels is None else labels[:, 0].astype(np.int64))


def _labels_of(campaign: Campaign, table: Any) -> Bytes | None:
    """The labels of the users of a table, in the order of `records_of`."""
    if campaign.segments is None:
        return None
    users = table["user"].combine_chunks().dictionary_encode()
    columns = {
        name: table[name].combine_chunks() for name in campaign.segments.names if name in table.column_names
    }
    codes = users.indices.to_numpy().astype(np.int64)
    return labels_of(campaign.segments, codes, columns, len(users.dictionary))


def _whole_users(batches: Iterator[Any]) -> Iterator[Any]:
    """Tables of pairs sorted by user, cut only between users."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if kept is not None:
            table = pa.concat_tables([kept, table])
        if not table.num_rows:
            continue
        last = pc.index(table["user"], table["user"][-1]).as_py() if table["user"][-1].is_valid else -1
        if last < 0:
            raise KeyveilError("every row must name a user, one does not; drop such rows first")
        kept = table.slice(last)
        if last:
            yield table.slice(0, last)
    if kept is not None and kept.num_rows:
        yield kept


def records_of(campaign: Campaign, table: Any) -> Records:
    """The records in an Arrow table of user, key and value, by the rules of `Domain.encode`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    domain, n_keys = campaign.domain, len(campaign.domain.key_names)
    users = table["user"].combine_chunks().dictionary_encode().indices.to_numpy()
    n_users = int(users.max()) + 1
    names = pa.array(domain.keys, pa.string())
    codes = pc.fill_null(pc.index_in(table["key"].cast(pa.string()), names), -1).to_numpy().astype(np.int64)
    named = pc.is_valid(table["key"]).to_numpy()
    values = pc.fill_null(table["value"], float("nan")).to_numpy()
    if domain.other:
        codes = np.where(codes < 0, n_keys - 1, codes)
    units = units_of(domain, values)
    held = named & (codes >= 0) & ~np.isnan(values)
    cell, inverse, times = np.unique(
        users[held].astype(np.int64) * n_keys + codes[held], return_inverse=True, return_counts=True
    )
    total = np.bincount(inverse, weights=units[held], minlength=cell.size)
    sizes = np.bincount(cell // n_keys, minlength=n_users)
    return Records(
        offsets=np.concatenate(([0], np.cumsum(sizes))),
        codes=cell % n_keys,
        values=np.clip(total / times, -1.0, 1.0),
    )
