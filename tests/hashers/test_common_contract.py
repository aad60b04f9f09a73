"""Every hasher keeps what scikit-learn's users expect of an estimator, whatever it learns.

A hasher joins these tests by being in `hashers.HASHERS`. What a vacuous test would let pass: rows far from every
border, whose bits no rounding can change (here rows are bisected until they lie on a border, where any sum in another
order flips a bit); one seed, one size below every block.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator
from threadpoolctl import threadpool_limits

import lookalike as la
from helpers.hashing import (
    LABELLED,
    N_FEATURES,
    NAMES,
    QUICK,
    RANDOM,
    Array,
    assert_same,
    border_rows,
    correlated,
    every_hasher,
    fitted,
    learned,
    make,
    quick,
    teach,
    teach_and_hash,
    whole_numbers,
)
from lookalike import hashers
from lookalike.core.errors import InputError

# What all of them have in common


def test_the_fourteen_are_there() -> None:
    without = {"LSH", "PCAH", "PCARR", "ITQ", "SH", "SKLSH", "SpH", "DensityDSH", "KLSH", "BRE", "DGH"}
    assert without | {"KSH", "MLH", "SDH"} == set(NAMES)
    assert without == {name for name, kind in hashers.HASHERS.items() if not kind().learns_labels}
    for name, kind in hashers.HASHERS.items():
        assert getattr(hashers, name) is kind
        assert kind.__name__ == name
        assert issubclass(kind, BaseEstimator)
        assert kind().get_params()["n_bits"] == 32
        assert kind().get_params()["random_state"] is None


@every_hasher
def test_a_loop_over_all_may_pass_a_seed(name: str) -> None:
    """Also to those that draw nothing: what they learn does not depend on it."""
    items = whole_numbers()
    one, other = (teach_and_hash(make(name, 8, seed), items) for seed in (0, 1))
    assert (one == other) is (name not in RANDOM)


@every_hasher
@pytest.mark.parametrize("n_bits", [1, 2, 8, 13, 20])
def test_gives_codes_of_the_asked_length(name: str, n_bits: int) -> None:
    items = whole_numbers()
    hasher = make(name, n_bits)
    assert teach(hasher, items) is hasher
    assert hasher.n_features_in_ == N_FEATURES
    codes, values = hasher.transform(items[:50]), hasher.project(items[:50])
    assert isinstance(codes, la.Codes)
    assert codes.n_bits == n_bits
    assert codes.shape == (50, n_bits)
    np.testing.assert_array_equal(np.asarray(codes), codes.unpack())
    assert values.dtype == np.float32
    assert values.shape == (50, n_bits)
    np.testing.assert_array_equal(codes.unpack(), values > 0)
    assert len(np.unique(codes.words)) > 1  # not all items alike


@pytest.mark.parametrize("name", ["LSH", "SH", "SKLSH", "SpH", "DensityDSH", "KLSH", "BRE", "DGH", "KSH", "MLH", "SDH"])
@pytest.mark.parametrize("n_bits", [63, 64, 65, 130])
def test_makes_more_bits_than_features(name: str, n_bits: int) -> None:
    hasher = teach(quick(name, n_bits), whole_numbers())
    codes, values = hasher.transform(whole_numbers(seed=1)), hasher.project(whole_numbers(seed=1))
    assert codes.shape == (400, n_bits)
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(codes.unpack(), values > 0)
    shares = codes.unpack().mean(0)
    assert ((shares > 0) & (shares < 1)).mean() > 0.9  # most bits tell items apart; SKLSH draws a threshold near 1


@every_hasher
def test_a_bit_is_one_where_its_value_is_above_zero_even_on_its_border(name: str) -> None:
    rows = border_rows(fitted(name), whole_numbers(), 500)
    np.testing.assert_array_equal(fitted(name).transform(rows).unpack(), fitted(name).project(rows) > 0)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "DGH"])  # its values jump between anchors
def test_the_border_rows_are_on_borders(name: str) -> None:
    hasher, items = fitted(name), whole_numbers()
    typical = np.median(np.abs(hasher.project(items)))
    nearest = np.abs(hasher.project(border_rows(hasher, items, 500))).min(1)
    assert np.median(nearest) < 1e-4 * typical


@every_hasher
def test_fit_transform_is_fit_and_transform(name: str) -> None:
    items = whole_numbers()
    assert teach_and_hash(make(name), items) == fitted(name).transform(items)
    if name not in LABELLED:  # y is not looked at
        assert make(name).fit_transform(items, np.arange(len(items))) == fitted(name).transform(items)


@every_hasher
def test_the_same_seed_gives_the_same_hasher(name: str) -> None:
    assert_same(teach(make(name), whole_numbers()), fitted(name))


@pytest.mark.parametrize("name", RANDOM)
def test_another_seed_gives_other_codes(name: str) -> None:
    items = whole_numbers()
    codes = [teach_and_hash(make(name, seed=seed), items).unpack() for seed in (0, 1)]
    assert (codes[0] != codes[1]).mean() > 0.05


@pytest.mark.parametrize("name", RANDOM)
def test_random_state_is_used_as_in_scikit_learn(name: str) -> None:
    items = whole_numbers()
    stream = np.random.RandomState(3)
    first, second = (teach_and_hash(make(name, seed=stream), items) for _ in range(2))
    assert first != second  # the stream has moved on
    assert teach_and_hash(make(name, seed=np.random.RandomState(3)), items) == first
    before = np.random.get_state()[1:3]  # noqa: NPY002  # that others use it is the point
    teach(make(name, seed=5), items)
    after = np.random.get_state()[1:3]  # noqa: NPY002
    np.testing.assert_array_equal(before[0], after[0])
    assert before[1] == after[1]
    assert teach_and_hash(make(name, seed=None), items) != teach_and_hash(make(name, seed=None), items)


@every_hasher
def test_fitting_again_forgets_what_was(name: str) -> None:
    used = teach(make(name), correlated(200, 30, seed=4))
    assert_same(teach(used, whole_numbers()), fitted(name))


@every_hasher
def test_a_clone_is_not_fitted_and_fits_alike(name: str) -> None:
    copy = clone(fitted(name))
    assert copy.get_params() == fitted(name).get_params()
    assert not learned(copy)
    assert_same(teach(copy, whole_numbers()), fitted(name))
    assert copy.set_params(n_bits=7).get_params()["n_bits"] == 7
    assert teach_and_hash(copy, whole_numbers()).n_bits == 7
    with pytest.raises(ValueError, match="n_bit"):
        copy.set_params(n_bit=7)


@every_hasher
@pytest.mark.parametrize("n_bits", [7, 64])
def test_a_changed_parameter_waits_for_the_next_fit(name: str, n_bits: int) -> None:
    items = whole_numbers(50)
    hasher = teach(make(name), whole_numbers()).set_params(n_bits=n_bits)
    assert hasher.transform(items) == fitted(name).transform(items)
    np.testing.assert_array_equal(hasher.project(items), fitted(name).project(items))


@every_hasher
def test_a_row_has_its_code_whatever_stands_beside_it(name: str) -> None:
    """Sums of matrix products depend on the block they are in, which on a border decides a bit."""
    hasher = fitted(name)
    rows = border_rows(hasher, whole_numbers(), 600)
    alone = np.concatenate([hasher.transform(rows[i : i + 1]).words for i in range(len(rows))])
    with threadpool_limits(2):
        np.testing.assert_array_equal(hasher.transform(rows).words, alone)
    for n_rows in (7, 64, 600, 4096 + 3, 3 * 65_536 + 1):
        many = hasher.transform(np.resize(rows, (n_rows, N_FEATURES))).words
        np.testing.assert_array_equal(many, np.resize(alone, many.shape), err_msg=f"{n_rows} rows together")
    for size in (2, 3, 5, 17, 100):
        parts = [hasher.transform(rows[i : i + size]).words for i in range(0, len(rows), size)]
        np.testing.assert_array_equal(np.concatenate(parts), alone, err_msg=f"parts of {size} rows")
    order = np.random.default_rng(1).permutation(len(rows))
    np.testing.assert_array_equal(hasher.transform(rows[order]).words, alone[order])


@every_hasher
def test_a_row_has_its_values_whatever_stands_beside_it(name: str) -> None:
    hasher, rows = fitted(name), whole_numbers(4096 + 3, seed=2)
    with threadpool_limits(2):
        together = hasher.project(rows)
    for i in (*range(100), *range(4080, 4099)):
        np.testing.assert_array_equal(hasher.project(rows[i : i + 1])[0], together[i], err_msg=f"row {i}")


LAYOUTS: dict[str, Callable[[Array], Any]] = {
    "float64": lambda rows: rows.astype(np.float64),
    "Fortran order": np.asfortranarray,
    "float64 in Fortran order": lambda rows: np.asfortranarray(rows.astype(np.float64)),
    "every other column": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
    "every third row": lambda rows: np.repeat(rows, 3, axis=0)[::3],
    "backwards": lambda rows: rows[::-1].copy()[::-1],
    "read-only": lambda rows: np.frombuffer(rows.tobytes(), np.float32).reshape(rows.shape),
    "lists": lambda rows: rows.tolist(),
}
WHOLE_NUMBERS: dict[str, Callable[[Array], Any]] = {
    "float16": lambda rows: rows.astype(np.float16),
    "uint8": lambda rows: rows.astype(np.uint8),
    "int64": lambda rows: rows.astype(np.int64),
    "uint8 in Fortran order": lambda rows: np.asfortranarray(rows.astype(np.uint8)),
    "lists of int": lambda rows: rows.astype(int).tolist(),
}


@every_hasher
def test_equal_values_have_equal_codes_in_any_layout(name: str) -> None:
    rows = border_rows(fitted(name), whole_numbers(), 300)
    wanted = fitted(name).transform(rows)
    for layout, lay in LAYOUTS.items():
        assert fitted(name).transform(lay(rows)) == wanted, layout
    items = whole_numbers()
    for layout, lay in (LAYOUTS | WHOLE_NUMBERS).items():
        assert fitted(name).transform(lay(items)) == fitted(name).transform(items), layout


@every_hasher
@pytest.mark.parametrize("layout", LAYOUTS | WHOLE_NUMBERS)
def test_equal_values_make_equal_hashers_in_any_layout(name: str, layout: str) -> None:
    items = whole_numbers()
    hasher = teach(make(name), (LAYOUTS | WHOLE_NUMBERS)[layout](items))
    assert hasher.transform(items) == fitted(name).transform(items)


@every_hasher
def test_data_frames_are_taken(name: str, tmp_path: Path) -> None:
    items = whole_numbers()
    frame = pd.DataFrame(items, columns=[f"feature {i}" for i in range(N_FEATURES)])
    hasher = teach(make(name), frame)
    assert hasher.transform(frame) == fitted(name).transform(items)
    assert list(hasher.feature_names_in_) == list(frame.columns)
    hasher.save(tmp_path / "hasher.npz")
    assert hashers.load(tmp_path / "hasher.npz").transform(frame) == fitted(name).transform(items)  # and no warning


@every_hasher
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_what_is_given_is_not_changed(name: str, dtype: Any) -> None:
    items = whole_numbers().astype(dtype)
    before = items.copy()
    hasher = teach(make(name), items)
    hasher.transform(items)
    hasher.project(items)
    np.testing.assert_array_equal(items, before)
    state = {key: np.copy(value) for key, value in learned(hasher).items()}
    hasher.transform(items + 1)
    for key, value in state.items():
        np.testing.assert_array_equal(value, getattr(hasher, key), err_msg=key)


@every_hasher
@pytest.mark.parametrize("power", [-40, -20, 20, 40])
def test_units_do_not_matter(name: str, power: int) -> None:
    """Each method only compares lengths with lengths; a factor of two to a power rounds nothing."""
    items = whole_numbers()
    scaled = items * np.float32(2.0**power)
    codes = teach_and_hash(make(name), scaled).unpack()
    assert (codes != fitted(name).transform(items).unpack()).mean() < 1e-3


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_whatever_can_be_learned_from_gives_finite_values(data: st.DataObject) -> None:
    """Few items, repeated items, constant features: codes of the asked shape, or a sentence that says why not."""
    name = data.draw(st.sampled_from(NAMES))
    n_items, n_features = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    items = rng.integers(0, data.draw(st.integers(1, 6)), (n_items, n_features)).astype(np.float32)
    items *= np.float32(data.draw(st.sampled_from([1, 1e-6, 1e6])))
    hasher = quick(name, data.draw(st.integers(1, 6)))
    try:
        teach(hasher, items)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017  # where no error is right too
        assert type(error) is InputError  # noqa: PT017  # a check's own, no LinAlgError from below
        with pytest.raises(NotFittedError):
            hasher.transform(items)
    else:
        values = hasher.project(items)
        assert values.shape == (n_items, hasher.n_bits)
        assert np.isfinite(values).all()
        for key, value in learned(hasher).items():
            assert np.isfinite(np.asarray(value, float)).all(), key


# scikit-learn's own checks


LEFT_OUT = {"check_array_api_input": "it skips itself unless SCIPY_ARRAY_API is set before scipy is loaded"}


def checks() -> list[Any]:
    """All of them on each hasher; Codes have a shape and give their bits as an array, so their output prevents none."""
    found = []
    for name in NAMES:
        for n_bits in (1, 2):
            for estimator, check in estimator_checks_generator(make(name, n_bits, None)):
                keywords = "-".join(f"{key}={value}" for key, value in check.keywords.items())
                label = "-".join(filter(None, [name, str(n_bits), check.func.__name__, keywords]))
                if check.func.__name__ not in LEFT_OUT:
                    found.append(pytest.param(estimator, check, id=label))
    return found


@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learn_accepts_it(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


# Memory


MEASURE = """
    import json, sys
    from pathlib import Path
    import numpy as np
    from lookalike import hashers

    def memory(what):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(what)).split()[1])

    def growth(call):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        before = memory("VmRSS")
        call()
        return (memory("VmHWM") - before) / items.nbytes

    names, dtype, n_items, n_features, n_bits, parameters = json.loads(sys.argv[1])
    items = np.empty((n_items, n_features), dtype)
    rng = np.random.default_rng(0)
    for start in range(0, n_items, 10_000):
        items[start : start + 10_000] = rng.normal(size=items[start : start + 10_000].shape)
    grown = {"a copy": growth(lambda: items.copy())}
    for name in names:
        make = lambda: hashers.HASHERS[name](n_bits=n_bits, **parameters.get(name, {}))
        labels = np.arange(n_items) % 10
        make().fit(items[:2000], labels[:2000]).transform(items[:2000])  # what is loaded once does not count
        hasher = make()
        grown[name] = growth(lambda: hasher.fit(items, labels))
        grown[name + " transform"] = growth(lambda: hasher.transform(items))
    print(json.dumps(grown))
"""


def growths(*wanted: Any) -> dict[str, float]:
    """How much memory each step takes at its peak, in sizes of its input."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEASURE), json.dumps(wanted)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    grown: dict[str, float] = json.loads(done.stdout)
    assert 0.9 < grown.pop("a copy") < 1.1  # the measure sees what it is for
    return grown


@pytest.mark.parametrize(("dtype", "n_items"), [("float32", 100_000), ("float64", 60_000)])
def test_memory_is_not_doubled(dtype: str, n_items: int) -> None:
    few = {name: {"max_samples": 2000, "n_anchors": 100} for name in ("DGH", "KSH", "SDH")}  # kernels are kept of these
    grown = growths(NAMES, dtype, n_items, 128, 32, QUICK | few | {"MLH": {"max_samples": 2000, "n_steps": 40}})
    assert max(grown.values()) < 1, grown


def test_transforming_keeps_no_values() -> None:
    """The values of 512 bits are eight times the 64 features; the codes are a quarter of these."""
    grown = growths(["LSH", "SKLSH"], "float32", 150_000, 64, 512, {})
    assert max(grown["LSH transform"], grown["SKLSH transform"]) < 1, grown
