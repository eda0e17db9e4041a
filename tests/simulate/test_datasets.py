import gzip
import json

import numpy as np
import pytest

from keyveil.errors import PairsError
from keyveil.simulate.datasets import (
    SYNTHETIC,
    amazon_like,
    em_gaussian,
    em_linear,
    movie_like,
    read_published,
)
from keyveil.testing import Z


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_populations_have_the_size_asked_for_and_repeat_themselves(name):
    one, two = (SYNTHETIC[name](users=500, keys=40, seed=7) for _ in range(2))
    assert (one.n_users, one.n_keys) == (500, 40)
    assert np.abs(one.values).max() <= 1
    assert np.array_equal(one.codes, two.codes)
    assert np.array_equal(one.values, two.values)
    assert all(
        np.diff(one.codes[a:b]).min(initial=1) > 0 for a, b in zip(one.offsets, one.offsets[1:], strict=False)
    )


def test_em_populations_have_the_papers_moments():
    """Table 2 of the EM paper: mean of f 0.49506 and 0.51, of m -0.00987 and about 0.02."""
    gauss, linear = em_gaussian(users=20_000), em_linear(users=20_000)
    error = 0.5 / np.sqrt(20_000 * 50)
    assert gauss.frequency().mean() == pytest.approx(0.49506, abs=Z * error)
    assert gauss.mean().mean() == pytest.approx(-0.00987, abs=1e-4)
    assert linear.frequency().mean() == pytest.approx(0.51, abs=Z * error)
    assert linear.frequency().var(ddof=1) == pytest.approx(0.085, abs=5e-3)


def test_the_movie_stand_in_is_heavy_tailed():
    people = movie_like(users=4000)
    assert people.n_keys == 26_744
    assert 120 < people.sizes.mean() < 165
    p10, p50, p90 = np.percentile(people.sizes, [10, 50, 90])
    assert 18 <= p10 <= 30
    assert 55 <= p50 <= 80
    assert 230 <= p90 <= 360
    assert 0.25 < people.frequency().max() < 0.45


def test_the_amazon_stand_in_mostly_holds_one_pair():
    people = amazon_like(users=20_000)
    assert people.n_keys == 249_274
    assert people.sizes.mean() == pytest.approx(1.67, abs=0.05)
    assert people.frequency().max() < 0.01


PUBLISHED = {
    "ratings.dat": "1::10::5::838985046\n1::20::3::838983525\n2::10::0.5::1\n",
    "ratings.csv": "userId,movieId,rating,timestamp\n1,10,5.0,1\n1,20,3.0,2\n2,10,0.5,3\n",
    "ratings_Beauty.csv": "1,10,5.0,1\n1,20,3.0,2\n2,10,0.5,3\n",
    "modcloth_final_data.json": "\n".join(
        json.dumps({"user_id": u, "item_id": i, "quality": q})
        for u, i, q in ((1, 10, 5), (1, 20, 3), (2, 10, 0.5), (3, 9, None))
    ),
    "renttherunway_final_data.json": "\n".join(
        json.dumps({"user_id": u, "item_id": i, "rating": str(q)})
        for u, i, q in ((1, 10, 5), (1, 20, 3), (2, 10, 0.5))
    ),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_formats_are_read(tmp_path, name, packed):
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(PUBLISHED[name].encode()) if packed else PUBLISHED[name].encode())
    people = read_published(path)
    assert (people.n_users, people.names, people.value_range) == (2, ["10", "20"], (0.5, 5.0))
    assert people.sizes.tolist() == [2, 1]
    assert people.mean() == pytest.approx([0.0, 2 * 2.5 / 4.5 - 1])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ratings.dat", "1::10\n", "line 1: expected user::item::rating"),
        ("ratings.csv", "userId,movieId,rating\n1,10,good\n", "line 2: expected user,item,rating"),
        ("modcloth_final_data.json", "not json\n", "line 1: expected JSON with user_id"),
        ("ratings.csv", "userId,movieId,rating\n", "holds no rating"),
        ("ratings.xlsx", "x", "no format known here"),
    ],
)
def test_published_files_that_are_broken_are_refused_with_the_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(PairsError, match=message):
        read_published(tmp_path / name)
    with pytest.raises(PairsError, match="found none at"):
        read_published(tmp_path / "nowhere" / name)
