"""MatrixCompletion: held-out errors against soft-impute, the box, scikit-learn's rules."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks

import mostfw as fw
from mostfw.estimators import MatrixCompletion, _completion
from mostfw.estimators._completion import rank_radius
from mostfw.problems.completion import generated_ratings, pulled

PAIRS = "predict takes (row, column) pairs, not a matrix like that of fit"
# Checks that call predict with the X of fit; below they run on the class without predict.
CALLING_PREDICT = (
    "check_n_features_in_after_fitting",
    "check_estimators_dtypes",
    "check_dtype_object",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_dict_unchanged",
    "check_fit_idempotent",
    "check_fit2d_predict1d",
)
QUICK = {"rank_bound": 2, "tol": None, "max_iter": 5, "random_state": 0}


class Filling(MatrixCompletion):
    """Without predict, so that scikit-learn looks at transform alone."""

    @property
    def predict(self):
        raise AttributeError("only transform")


@pytest.mark.study
def test_scikit_learn_accepts_it():
    failing = dict.fromkeys(CALLING_PREDICT, PAIRS)
    estimator_checks.check_estimator(MatrixCompletion(**QUICK), expected_failed_checks=failing)


def test_the_checks_that_predict_fails_hold_without_it():
    pairs = estimator_checks.estimator_checks_generator(Filling(**QUICK))
    wanted = [(model, check) for model, check in pairs if check.func.__name__ in CALLING_PREDICT]
    assert len(wanted) >= len(CALLING_PREDICT)
    for model, check in wanted:
        check(model)


def table(ratings):
    """The ratings as a matrix with NaN where nothing is known."""
    known = np.full(ratings.truth.shape, np.nan)
    known[ratings.rows, ratings.columns] = ratings.values
    return known


def unseen_error(found, ratings):
    unseen = np.isnan(table(ratings))
    return np.sqrt(np.mean((found - ratings.truth)[unseen] ** 2))


def soft_impute(known, threshold, start, steps=2000, tolerance=1e-5, rank=None):
    """min ||P(X - known)||^2/2 + threshold ||X||_*: the known entries filled in, the singular
    values shrunk, until nothing moves (Mazumder, Hastie, Tibshirani 2010)."""
    x = start
    for _ in range(steps):
        left, values, right = np.linalg.svd(
            np.where(np.isnan(known), x, known), full_matrices=False
        )
        values[rank:] = 0 if rank is not None else values[rank:]
        renewed = (left * np.maximum(values - threshold, 0)) @ right
        moved = np.linalg.norm(renewed - x)
        x = renewed
        if moved <= tolerance * np.linalg.norm(x):
            break
    return x


def soft_imputed(known):
    """A path of falling thresholds, warm-started as its authors do it."""
    top = np.linalg.norm(np.nan_to_num(known), 2)
    x = np.zeros_like(known)
    for threshold in top * np.geomspace(0.5, 0.005, 20):
        x = soft_impute(known, threshold, x)
        yield x


def rank_matched(known, rank):
    """The last of the path whose rank is at most the true one."""
    last = np.zeros_like(known)
    for x in soft_imputed(known):
        if np.linalg.matrix_rank(x, tol=1e-2) > rank:
            break
        last = x
    return last


def truncated(known, rank):
    """The best, which nobody could choose, of soft-impute told the rank: no other singular values
    are kept, and those are shrunk by a threshold that falls to almost nothing. Centred, which is
    better."""
    mean = np.nanmean(known)
    top = np.linalg.norm(np.nan_to_num(known - mean), 2)
    x = np.zeros_like(known)
    for threshold in top * np.geomspace(0.5, 0.005, 12):
        x = soft_impute(known - mean, threshold, x, steps=300, tolerance=1e-4, rank=rank)
        yield x + mean


def errors(size, rank, seed, noise=0.3):
    """Ours, with the defaults; soft-impute of the true rank; and the best of its whole path and of
    that cut to the rank, which nobody could choose. All are clipped to the range."""
    ratings = generated_ratings(*size, rank, seed=seed, noise=noise)
    known = table(ratings)
    model = MatrixCompletion(random_state=seed).fit(known)
    assert model.matrix_.min() >= 1 - 1e-3
    assert model.matrix_.max() <= 5 + 1e-3
    matched = unseen_error(np.clip(rank_matched(known, rank), 1, 5), ratings)
    best, cut = (
        min(unseen_error(np.clip(x, 1, 5), ratings) for x in path)
        for path in (soft_imputed(known), truncated(known, rank))
    )
    return unseen_error(model.matrix_, ratings), matched, best, cut


@pytest.mark.parametrize(("seed", "noise"), [(0, 0.3), (1, 0.3), (2, 0.3), (0, 0.0)])
def test_it_predicts_no_worse_than_soft_impute_of_the_same_rank(seed, noise):
    ours, matched, best, cut = errors((60, 40), 3, seed=seed, noise=noise)
    assert ours <= matched
    assert ours <= best
    assert ours <= cut


@pytest.mark.study
def test_study_ratings():
    found = np.array([errors((200, 100), 4, seed) for seed in range(5)])
    ours, matched, best, cut = np.median(found, axis=0)
    print(f"ours {ours:.4f}, soft-impute of rank 4 {matched:.4f}, best of its path {best:.4f}")
    print(f"cut to rank 4 {cut:.4f}")
    assert ours <= matched
    assert ours <= best
    assert ours <= cut


@pytest.fixture(scope="module")
def ratings():
    return generated_ratings(30, 20, 2, observed=0.5, seed=1)


@pytest.fixture(scope="module")
def model(ratings):
    chosen = {"rank_bound": 2, "max_iter": 1000, "random_state": 0, "refit": False}
    return MatrixCompletion(**chosen).fit(table(ratings))


def test_a_refit_is_kept_where_it_predicts_better(ratings, model):
    other = clone(model).set_params(refit=True).fit(table(ratings))
    assert other.refit_.rank == 2
    assert other.refit_.held_out_error < other.refit_.convex_error
    assert unseen_error(other.matrix_, ratings) < unseen_error(model.matrix_, ratings)
    assert 1 <= other.matrix_.min() <= other.matrix_.max() <= 5
    # The convex problem's point and what is proved about it stay, and the words tell them apart.
    # (Bounds are looked at by the clock, so that two runs need not have the same.)
    assert np.linalg.norm(other.result_.x, "nuc") <= other.radius_ * (1 + 1e-9)
    assert np.linalg.norm(other.matrix_, "nuc") > np.linalg.norm(other.result_.x, "nuc")
    assert other.certificate_ == other.result_.certificate
    assert "refit of rank 2" in other.summary_ and "nothing is proved for it" in other.summary_
    assert model.refit_ is None and "refit" not in model.summary_


def test_a_refit_that_predicts_worse_is_not_kept(ratings, model, monkeypatch):
    monkeypatch.setattr(_completion, "chosen", lambda *tried: (2, 1.0, 1e9))
    other = clone(model).set_params(refit=True).fit(table(ratings))
    assert other.refit_ is None
    np.testing.assert_array_equal(other.matrix_, np.clip(other.result_.x, 1, 5))


def test_entries_that_do_not_vary_are_not_refitted():
    known = np.full((12, 10), np.nan)
    known[:, ::2] = 4.0
    found = MatrixCompletion(rank_bound=2, max_iter=50, random_state=0).fit(known)
    assert found.refit_ is None
    assert 1 <= found.matrix_.min() <= found.matrix_.max() <= 5


def test_the_fit_is_inside_ball_and_box(ratings, model):
    assert np.linalg.norm(model.result_.x, "nuc") <= model.radius_ * (1 + 1e-9)
    np.testing.assert_array_equal(model.matrix_, np.clip(model.result_.x, 1, 5))
    assert model.clipped_by_ == np.abs(model.matrix_ - model.result_.x).max() < 0.1
    np.testing.assert_allclose(
        model.singular_values_, np.linalg.svd(model.matrix_, compute_uv=False)
    )
    assert model.certificate_.upper is not None
    assert model.certificate_.lower <= model.certificate_.upper
    assert model.held_out_ is None
    assert f"30 by 20 from {len(ratings.values)} known entries" in model.summary_


def test_entries_and_tables_are_the_same(ratings, model):
    other = clone(model)
    order = np.argsort(ratings.rows * 20 + ratings.columns)  # as a table lists them
    other.fit(tuple(part[order] for part in ratings.entries))
    np.testing.assert_array_equal(other.matrix_, model.matrix_)
    assert other.n_features_in_ == 20
    np.testing.assert_array_equal(other.transform(ratings.entries), other.matrix_)
    assert other.score(ratings.entries) == pytest.approx(model.score(table(ratings)))


def test_transform_fills_what_is_unknown(ratings, model):
    known = table(ratings)
    filled = model.transform(known)
    seen = ~np.isnan(known)
    np.testing.assert_array_equal(filled[seen], known[seen])
    np.testing.assert_array_equal(filled[~seen], model.matrix_[~seen])
    with pytest.raises(fw.errors.ShapeError, match="X has 3 rows, but the matrix was fitted with"):
        model.transform(known[:3])


def test_predict_and_score(ratings, model):
    pairs = np.array([[0, 0], [29, 19]])
    assert model.predict(pairs).tolist() == [model.matrix_[0, 0], model.matrix_[29, 19]]
    known = np.full((30, 20), np.nan)
    known[3, 4] = model.matrix_[3, 4] + 2
    assert model.score(known) == pytest.approx(-2)
    with pytest.raises(fw.errors.InvalidInputError, match=r"pair \[30, 0\] is outside"):
        model.predict([(0, 0), (30, 0)])
    with pytest.raises(fw.errors.InvalidInputError, match="pairs have shape"):
        model.predict([[0.5, 1.0]])


def test_copies_and_pickles(ratings, model):
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.matrix_, model.matrix_)
    np.testing.assert_array_equal(copy.result_.x, model.result_.x)
    assert copy.certificate_ == model.certificate_
    assert clone(model).get_params() == model.get_params()


def test_a_radius_is_chosen_by_entries_held_out(ratings):
    found = MatrixCompletion(max_iter=1000, random_state=0).fit(table(ratings))
    radii, held_out = found.held_out_.T
    assert np.all(np.diff(radii) > 0)
    assert found.radius_ == radii[np.argmin(held_out)]
    assert 0.8 < found.radius_ / ratings.radius < 1.25


def test_a_radius_given_is_the_radius(ratings):
    found = MatrixCompletion(rank_bound=1, radius=90.0, max_iter=5).fit(table(ratings))
    assert found.radius_ == 90.0


@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("middle", [0.0, 0.5, 3.0])
def test_no_matrix_of_the_rank_exceeds_its_radius(rank, middle):
    rng = np.random.default_rng(rank)
    left = np.column_stack([np.ones(12), rng.normal(size=(12, rank - 1))])
    right = np.vstack([middle + rng.normal(size=9), rng.normal(size=(rank - 1, 9))])
    matrix = left @ right
    radius = rank_radius(matrix.ravel(), matrix.shape, rank, (-99.0, 99.0))
    assert np.linalg.norm(matrix, "nuc") <= radius * (1 + 1e-12)


def test_a_pulled_point_is_inside_both_sets():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.normal(3, 2, size=(5, 4))
        radius = np.linalg.norm(x, "nuc")
        found = pulled(x, bounds=(1.0, 5.0), radius=radius)
        assert 1 - 1e-12 <= found.min() <= found.max() <= 5 + 1e-12
        assert np.linalg.norm(found, "nuc") <= radius * (1 + 1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank_bound": 0}, "rank_bound is 0: give a whole number of at least 1"),
        ({"bounds": (5, 1)}, "the upper bound is 1"),
        ({"radius": 1.0}, "nuclear norm of at least .* raise the radius"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"tol": -1}, "tol is -1"),
    ],
)
def test_bad_parameters_are_refused_by_name(ratings, parameters, message):
    with pytest.raises(fw.errors.InvalidInputError, match=message):
        MatrixCompletion(**parameters).fit(table(ratings))


def test_nothing_known_is_refused():
    with pytest.raises(fw.errors.InvalidInputError, match="observed entries is empty"):
        MatrixCompletion().fit(np.full((4, 3), np.nan))
