import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyveil.errors import DomainError, PairsError
from keyveil.estimate import Estimates
from keyveil.protocols import build_protocol
from keyveil.simulate import (
    Population,
    Truth,
    insecure_generator,
    measure,
    ncr,
    play,
    run,
    synthetic,
    top_keys,
)
from keyveil.simulate.pairs import read_pairs


def csv(folder, text):
    path = folder / "pairs.csv"
    path.write_text(text)
    return path


def test_repeated_rows_are_averaged_and_counted(tmp_path):
    path = csv(tmp_path, "user,key,value\n1,a,1\n1,a,3\n1,b,5\n2,a,1\n")
    population = read_pairs(path, value_range=(1, 5))
    assert (population.n_users, population.n_keys, population.repeated_rows) == (2, 2, 2)
    assert population.sizes.tolist() == [2, 1]
    assert population.mean().tolist() == [(-0.5 - 1) / 2, 1.0]
    assert population.frequency().tolist() == [1.0, 0.5]


def test_parquet_and_csv_say_the_same(tmp_path):
    table = {"user": [3, 1, 1], "key": [20, 10, 20], "value": [0.5, 1.0, 2.0]}
    pq.write_table(pa.table(table), tmp_path / "pairs.parquet")
    from_csv = read_pairs(csv(tmp_path, "user,key,value\n3,20,0.5\n1,10,1\n1,20,2\n"))
    from_parquet = read_pairs(tmp_path / "pairs.parquet")
    for name in ("names", "value_range"):
        assert getattr(from_csv, name) == getattr(from_parquet, name)
    for name in ("offsets", "codes", "values"):
        assert np.array_equal(getattr(from_csv, name), getattr(from_parquet, name))
    assert from_csv.names == ["10", "20"]


def test_a_row_without_key_and_value_is_a_user_who_holds_nothing(tmp_path):
    population = read_pairs(csv(tmp_path, "user,key,value\nu1,,\nu2,maps,3\nu2,mail,4\n"))
    assert population.sizes.tolist() == [0, 2]


def test_one_value_only_still_has_a_range(tmp_path):
    assert read_pairs(csv(tmp_path, "user,key,value\n1,a,7\n")).value_range == (6.0, 8.0)


def test_values_outside_the_range_are_refused_or_clamped(tmp_path):
    path = csv(tmp_path, "user,key,value\n1,a,1\n2,a,9\n")
    with pytest.raises(PairsError, match=r"1 values of pairs.csv lie outside \[1, 5\], first at pair 2"):
        read_pairs(path, value_range=(1, 5))
    assert read_pairs(path, value_range=(1, 5), clamp=True).values.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; expected the columns user, key, value"),
        ("user,key,value\n", "has no rows"),
        ("user,key\n1,a\n", 'lacks the column "value"; expected user, key, value, got user, key'),
        ("user,key,value\n1,a,nan\n", "1 values of pairs.csv are not finite numbers, first at pair 1"),
        ("user,key,value\n1,a,2\n1,b,inf\n", "not finite numbers, first at pair 2"),
        ("user,key,value\n1,a,many\n", 'column "value" of pairs.csv must hold numbers'),
        ("user,key,value\n1,a,1\n1,b,\n", 'column "value" of pairs.csv is empty in 1 rows, first at 2'),
        ("user,key,value\n1,,\n", "names no key"),
    ],
)
def test_files_that_are_no_pairs_are_refused(tmp_path, text, message):
    with pytest.raises(PairsError, match=message):
        read_pairs(csv(tmp_path, text))


def test_a_file_that_is_not_there_or_not_parquet_is_refused(tmp_path):
    with pytest.raises(PairsError, match="found no file at"):
        read_pairs(tmp_path / "nowhere.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(PairsError, match="not a readable Parquet file"):
        read_pairs(tmp_path / "broken.parquet")


def test_synthetic_records_never_exceed_the_bound():
    population = synthetic(users=2000, keys=10, pairs_per_user=4, seed=1)
    assert population.sizes.max() <= 4
    assert population.sizes.min() == 0
    assert population.typical_size() in (3, 4)
    assert len(list(population.records())) == 2000


def test_metrics_by_hand():
    truth = Truth(
        frequency=np.array([0.5, 0.3, 0.0]),
        mean=np.array([0.2, -0.4, np.nan]),
        variance=np.array([0.1, 0.1, np.nan]),
        reached=np.empty((0, 0)),
    )
    guess = Estimates(
        n_reports=10,
        asked=np.full(3, 10),
        frequency=np.array([0.4, 0.1, 0.2]),
        frequency_se=np.zeros(3),
        signed=np.zeros(3),
        signed_se=np.zeros(3),
        covariance=np.zeros(3),
        mean=np.array([0.0, np.nan, 1.0]),
        mean_se=np.zeros(3),
    )
    errors = measure(truth, guess, top=2)
    assert errors.frequency_mse == pytest.approx((0.01 + 0.04 + 0.04) / 3)
    assert errors.mean_mse == pytest.approx((0.04 + 0.16) / 2)
    assert errors.frequency_mse_top == pytest.approx((0.01 + 0.04) / 2)
    assert errors.mean_mse_top == pytest.approx((0.04 + 0.16) / 2)
    assert errors.frequency_mae == pytest.approx(0.5 / 3)
    assert errors.frequency_relative_error_top == pytest.approx((0.1 / 0.5 + 0.2 / 0.3) / 2)
    assert errors.precision_top == 0.5
    assert errors.ncr_top == pytest.approx(2 / 3)


def test_ncr_counts_ranks_and_ties_go_to_the_lower_code():
    assert ncr(np.array([5, 6, 7]), np.array([7, 6, 5])) == 1
    assert ncr(np.array([5, 6, 7]), np.array([1, 2, 3])) == 0
    assert top_keys(np.array([0.2, 0.2, 0.2]), 2).tolist() == [0, 1]


def test_a_run_repeats_itself_and_cells_do_not_depend_on_each_other():
    population = synthetic(users=500, keys=5, seed=2)
    together = run(population, ["ks-ue", "kvue"], [1.0, 2.0], repeats=3, seed=9)
    alone = run(population, ["kvue"], [2.0], repeats=3, seed=9)
    assert without_time(alone[0]) == without_time(together[3])
    assert without_time(run(population, ["kvue"], [2.0], repeats=3, seed=10)[0]) != without_time(alone[0])


def without_time(cell):
    return {name: value for name, value in cell.to_fields().items() if name != "seconds"}


def test_runs_that_make_no_sense_are_refused():
    population = synthetic(users=50, keys=5, seed=2)
    with pytest.raises(DomainError, match="repeats must be at least 1"):
        run(population, ["ks-ue"], [1.0], repeats=0)
    with pytest.raises(DomainError, match="top must be at least 1"):
        run(population, ["ks-ue"], [1.0], top=0)
    nobody = Population.from_pairs(
        np.array([], dtype=np.int64), np.array([], dtype=np.int64), np.array([]), n_users=3, names=["a"]
    )
    with pytest.raises(PairsError, match="nobody in this population holds a pair"):
        run(nobody, ["ks-ue"], [1.0])
    with pytest.raises(PairsError, match="at least one user"):
        synthetic(users=0, keys=1)


def test_a_user_with_every_key_is_sampled_evenly():
    everything = Population.from_pairs(
        np.zeros(4, dtype=np.int64), np.arange(4), np.ones(4), n_users=1, names=list("abcd")
    )
    cells = run(everything, ["pckv-grr"], [4.0], pairs_per_user=1, repeats=2)
    assert cells[0].users == 1


def test_twins_multiply_the_reports_and_shrink_the_error():
    people, protocol = synthetic(users=2000, keys=4), build_protocol("privkvm", 2, n_keys=4, rounds=2)

    def error(twins):
        runs = [play(protocol, people, insecure_generator(seed), twins=twins) for seed in range(20)]
        return np.mean([(run.raw.frequency - people.frequency()) ** 2 for run in runs])

    assert 8 < error(1) / error(16) < 32


def test_kept_pairs_are_a_fair_choice_among_a_users_own():
    people = Population.from_pairs(
        np.repeat(np.arange(3000), 3),
        np.tile([1, 4, 7], 3000),
        np.tile([0.1, 0.4, 0.7], 3000),
        n_users=3001,
        names=[str(k) for k in range(8)],
    )
    one = people.keep_pairs(1, insecure_generator(5))
    assert one.sizes.tolist() == [1] * 3000 + [0]
    assert np.allclose(one.values, one.codes / 10)
    counts = np.bincount(one.codes, minlength=8)[[1, 4, 7]]
    assert np.all(np.abs(counts - 1000) < 5 * np.sqrt(3000 * 2 / 9))
    assert people.keep_pairs(5, insecure_generator(5)).codes.tolist() == people.codes.tolist()
