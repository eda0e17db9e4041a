"""Spark with real executors: the integers of one process, for any partitioning, whatever dies.

The executors run in a virtual environment of their own, with the built wheel and what the extra `spark`
brings: what runs there proves that the extra brings all that an executor needs.
"""

import os
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from environments import make_environment
from parts import lacking

from keyveil import Campaign
from keyveil.batch import Records, perturb_many, tally_partition
from keyveil.batch.engine import tally_files
from keyveil.batch.partition import Block
from keyveil.domain import Record
from keyveil.segments import Segments
from keyveil.tally import Tally

PLATFORMS = Segments(told="clear", attributes=(("platform", ("ios",)),))

# What a program that drives Spark imports.
DRIVER = "import keyveil.batch.spark, pyspark.sql.functions, pyspark.sql.pandas.map_ops"


def why_not():
    if shutil.which("java") is None:
        return "no Java runtime; on Debian: apt-get install openjdk-17-jre-headless"
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed"
    return None


pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def environment(published, tmp_path_factory):
    """The wheel with the extra, and nothing else."""
    if (reason := why_not()) is not None:
        lacking(reason)
    (wheel,) = published.glob("keyveil-*.whl")
    return make_environment(tmp_path_factory.mktemp("spark") / "venv", wheel, "spark")


@pytest.fixture(scope="module")
def spark(environment):
    """Two executors, each a process of its own, as on a cluster."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = str(environment.python)
    # Of every Java process: none lives long enough for the optimising compiler.
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", "")
        .config("spark.executor.memory", "700m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.task.maxFailures", "3")
        .getOrCreate()
    )
    yield session
    session.stop()


def campaign_of(mechanism):
    return Campaign(
        name="apps",
        epsilon=1,
        keys=list("abcdefg"),
        value_range=(0, 1),
        pairs_per_user=2,
        mechanism=mechanism,
    )


def reports_of(campaign, n):
    rng = np.random.default_rng(1)
    records = [Record.of({int(k): 0.5 for k in rng.choice(7, 2)}) for _ in range(n)]
    return [row.tobytes() for row in perturb_many(campaign.build(), Records.of(records), tag=campaign.tag)]


@pytest.fixture
def files(tmp_path):
    """Good reports, refused ones, copies and a forged copy, in two files."""
    campaign = campaign_of("pckv-ue")
    reports = reports_of(campaign, 2000)
    mixed = [b"short", b"\x02" + reports[0][1:], *reports, *reports[:7], reports[8][:35] + reports[9][35:]]
    mixed.append(reports[10][:35] + b"\xff\xff")
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for path, some in zip(paths, (mixed[:900], mixed[900:]), strict=True):
        pq.write_table(pa.table({"report": pa.array(some, pa.binary())}), path, row_group_size=200)
    return campaign, paths


def test_the_extra_brings_what_drivers_and_executors_need(spark, environment):
    driven = environment.run(environment.python, "-I", "-c", DRIVER)
    assert driven.returncode == 0, driven.stderr

    def place(batches):
        import keyveil

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"place": [keyveil.__file__] * batch.num_rows})

    (row,) = spark.range(1).mapInArrow(place, "place string").collect()
    assert row.place.startswith(str(environment.packages))


def test_spark_counts_what_one_process_counts_for_any_partitioning(spark, files, tmp_path, monkeypatch):
    from keyveil.batch import spark as module
    from keyveil.batch.spark import tally_frame, tally_paths

    campaign, paths = files
    question = campaign.first_round()
    local = tally_files(question, paths, folder=tmp_path / "parts")
    assert (local.n_repeated, local.refused.total()) == (8, 3)
    there = tally_paths(spark, question, [str(path) for path in paths])
    assert (there.tally, there.refused, there.n_repeated) == (local.tally, local.refused, 8)
    frame = spark.read.parquet(*map(str, paths))
    # Five partials are merged by tasks before the driver sees them.
    monkeypatch.setattr(module, "_FAN_IN", 4)
    again = tally_frame(question, frame.repartition(5))
    assert (again.tally, again.refused, again.n_repeated) == (local.tally, local.refused, 8)


@pytest.mark.nightly
def test_spark_counts_the_same_for_many_partitionings(spark, files, tmp_path):
    from keyveil.batch.spark import tally_frame

    campaign, paths = files
    question = campaign.first_round()
    local = tally_files(question, paths, folder=tmp_path / "parts")
    frame = spark.read.parquet(*map(str, paths))
    for partitions in (1, 2, 7, 40, 300):
        again = tally_frame(question, frame.repartition(partitions))
        assert (again.tally, again.refused, again.n_repeated) == (local.tally, local.refused, 8)


def test_a_task_that_is_killed_and_retried_does_not_count_twice(spark, files, tmp_path):
    """The first attempt of every task counts its partition, answers, and dies with its worker."""
    from keyveil.batch import spark as module

    campaign, paths = files
    question, died = campaign.first_round(), tmp_path / "died"
    died.mkdir()
    whole = tally_files(question, paths, folder=tmp_path / "parts")
    count = module._counter(question, False)

    def dies_once(batches):
        import os
        import signal

        from pyspark import TaskContext

        mark = died / str(TaskContext.get().partitionId())
        answered = list(count(batches))
        if not mark.exists():
            mark.touch()
            yield from answered
            os.kill(os.getpid(), signal.SIGKILL)
        yield from answered

    frame = spark.read.parquet(*map(str, paths)).select("report").repartition(3)
    tally, refused = module._merged(frame.mapInArrow(dies_once, "partial binary"), question)
    assert len(list(died.iterdir())) == 3
    assert tally.n_reports == whole.tally.n_reports + whole.n_repeated
    assert refused == whole.refused


def test_records_are_noised_where_they_live(spark, tmp_path):
    from keyveil.batch.spark import tally_paths, write_reports

    campaign = campaign_of("pckv-grr")
    rows = [(str(user), "a", 1.0) for user in range(0, 3000, 2)]
    rows += [(str(user), "b", 0.0) for user in range(0, 3000, 3)] + [
        (str(user), None, None) for user in range(3000)
    ]
    rows += [("7", "stranger", 1.0), ("8", "a", 0.5)]
    frame = spark.createDataFrame(rows, "user string, key string, value double")
    out = str(tmp_path / "reports")
    write_reports(campaign, frame, out)
    question = campaign.first_round()
    counted = tally_paths(spark, question, [out])
    assert counted.is_whole
    assert counted.tally.n_reports == 3000
    assert counted.n_repeated == 0
    a, b, *_ = campaign.estimate(counted.tally).rows()
    for row, truth in ((a, 0.5), (b, 1 / 3)):
        assert abs(row["frequency"] - truth) < 6 * row["frequency_se"]


def test_labels_in_columns_are_told_and_counted_by_segment(spark, tmp_path):
    from keyveil.batch.spark import tally_paths, write_reports

    campaign = replace(campaign_of("kvue"), segments=PLATFORMS)
    rows = [(str(user), "a", 1.0, ("ios", "web", None)[user % 3]) for user in range(900)]
    frame = spark.createDataFrame(rows, "user string, key string, value double, platform string")
    out = str(tmp_path / "reports")
    write_reports(campaign, frame, out)
    question = campaign.first_round()
    counted = tally_paths(spark, question, [out]).tally
    assert {segment: part.n_reports for segment, part in counted.segments.items()} == {
        (0, 0): 600,
        (0, 1): 300,
    }
    assert counted.unsettled() == []
    parts = sorted(path for path in (tmp_path / "reports").glob("*.parquet"))
    assert tally_files(question, parts, folder=tmp_path / "parts").tally == counted


def test_strict_stops_spark_too(spark, files):
    from keyveil.batch.spark import tally_paths
    from keyveil.errors import TallyError

    campaign, paths = files
    # Tasks run at once: which of the refused is met first is chance.
    with pytest.raises(TallyError, match=r"report refused \((wrong-length|not-canonical|wrong-campaign)\)"):
        tally_paths(spark, campaign.first_round(), [str(path) for path in paths], strict=True)
    with pytest.raises(TallyError, match="Spark cannot read"):
        tally_paths(spark, campaign.first_round(), ["/nowhere.parquet"])


def test_partials_cross_the_wire_unchanged():
    from keyveil.batch.spark import _as_batch, _of_row

    campaign = campaign_of("bucket")
    found = tally_partition(campaign.first_round(), [Block.of([*reports_of(campaign, 20), b"x"])])
    (said,) = _as_batch(found.tally, found.refused).column(0).to_pylist()
    tally, refused = _of_row(said)
    assert isinstance(tally, Tally)
    assert (tally, refused) == (found.tally, found.refused)


def test_tables_of_pairs_follow_the_rules_of_the_domain():
    from keyveil.batch.spark import records_of

    campaign = Campaign(
        name="apps",
        epsilon=1,
        keys=["maps", "mail"],
        value_range=(0, 60),
        pairs_per_user=2,
        mechanism="pckv-ue",
        other=True,
    )
    held = {"ada": {"maps": 12.0, "chess": 3.0}, "bob": {}, "eve": {"mail": 99.0, "go": 1.0, "chess": 5.0}}
    rows = [(user, key, value) for user, pairs in held.items() for key, value in pairs.items()]
    rows.insert(2, ("bob", None, None))
    users, keys, values = zip(*rows, strict=True)
    table = pa.table({"user": users, "key": keys, "value": pa.array(values, pa.float64())})
    many = records_of(campaign, table)
    for place, pairs in enumerate(held.values()):
        assert many.record(place) == campaign.domain.encode(pairs)


def test_labels_of_a_table_are_in_the_order_of_its_records():
    from keyveil.batch.spark import _labels_of

    campaign = replace(campaign_of("kvue"), segments=PLATFORMS)
    table = pa.table({"user": ["b", "b", "a", "c"], "platform": [None, "ios", "web", None]})
    assert _labels_of(campaign, table).tolist() == [[1], [0], [0]]
    assert _labels_of(campaign, table.drop_columns(["platform"])).tolist() == [[0], [0], [0]]
    assert _labels_of(campaign_of("kvue"), table) is None
