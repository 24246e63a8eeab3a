"""Ctrl-C, SIGTERM, time budgets, and faults of the user's own code: where they are, and that
nothing is lost."""

import itertools
import os
import signal
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mostfw as fw
from mostfw import cli
from mostfw.cli import main
from mostfw.interruption import listening

FOREVER = 10**8


@pytest.fixture(scope="module")
def cut():
    return fw.problems.sparsest_cut(fw.datasets.karate_club(), batch=0.05)


def later(seconds, number=signal.SIGINT):
    """Sends a signal to this process after so many seconds."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.start()
    return timer


def handlers():
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_a_result(number, cut, tmp_path):
    fw.solve(cut, "most-fw", iterations=5)  # compiled
    before = handlers()
    later(0.5, number)
    began = time.monotonic()
    result = fw.solve(cut, "most-fw", iterations=FOREVER, checkpoint=tmp_path)
    assert time.monotonic() - began < 30
    assert result.status is fw.Status.INTERRUPTED
    assert 0 < result.iterations < FOREVER
    assert result.last.iteration == result.iterations
    assert result.certificate is not None
    assert handlers() == before
    longer = result.iterations + 50
    resumed = fw.solve(cut, "most-fw", iterations=longer, certify=False, checkpoint=tmp_path)
    undisturbed = fw.solve(cut, "most-fw", iterations=longer, certify=False)
    assert resumed.x.tobytes() == undisturbed.x.tobytes()


def test_a_signal_before_the_first_step_gives_the_start(cut):
    with listening() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        result = fw.solve(cut, "most-fw", iterations=FOREVER)
        again = fw.solve(cut, "cgal", iterations=FOREVER)  # nor does the next run begin
    assert (result.status, result.iterations) == (fw.Status.INTERRUPTED, 0)
    assert (again.status, again.iterations) == (fw.Status.INTERRUPTED, 0)
    assert cut.domain.contains(result.x, 1e-9)
    assert result.to_dict()["status"] == "it was interrupted"


def test_a_second_signal_stops_at_once(cut):
    with pytest.raises(KeyboardInterrupt), listening():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_other_threads_and_ignored_signals_are_left_alone(cut):
    found = []
    thread = threading.Thread(target=lambda: found.append(fw.solve(cut, "most-fw", iterations=5)))
    thread.start()
    thread.join()
    assert found[0].status is fw.Status.ITERATIONS
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with listening() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert not interruption.requested
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_sweep_is_interrupted_too(cut):
    fw.sweep(cut, ["most-fw", "most-fw"], seeds=[0, 1], iterations=5)
    later(0.5)
    results = fw.sweep(cut, ["most-fw", "most-fw"], seeds=[0, 1], iterations=FOREVER)
    assert {result.status for result in results} == {fw.Status.INTERRUPTED}
    assert all(result.last.iteration == result.iterations > 0 for result in results)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_line_returns_130_with_a_result(number, code, tmp_path, monkeypatch):
    target = tmp_path / "run.json"
    words = ["run", "sparsest-cut", "--iterations", str(FOREVER), "--quiet", "--json", str(target)]
    later(2.0, number)
    assert main(words) == code
    assert "it was interrupted" in target.read_text()
    target.unlink()
    carried_out = cli._carried_out

    def at_once(words):
        signal.raise_signal(number)
        return carried_out(words)

    monkeypatch.setattr(cli, "_carried_out", at_once)
    assert main(words) == code
    assert "it was interrupted" in target.read_text()


def test_reproduce_ends_and_keeps_what_is_complete(tmp_path):
    words = ["reproduce", "--quick", "--figure", "1", "--out", str(tmp_path / "out")]
    later(3.0)
    assert main(words) == 130
    runs = [path.parent for path in (tmp_path / "out").glob("runs/**/spec.toml")]
    complete = [run for run in runs if (run / "complete.json").exists()]
    assert len(complete) >= len(runs) - 1  # at most the one that was interrupted is not


def test_a_signal_during_the_last_record_is_not_lost(cut):
    def late(record):
        if record.iteration == 40:
            signal.raise_signal(signal.SIGINT)

    result = fw.solve(cut, "most-fw", iterations=40, record=[40], callback=late)
    assert (result.status, result.iterations) == (fw.Status.INTERRUPTED, 40)


def slow(x, seconds):
    def wait(x):
        time.sleep(seconds)
        return x

    return jax.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def test_a_time_budget_holds_where_steps_are_slow():
    def value(x):
        return jnp.sum(slow(jax.lax.stop_gradient(x), 0.02) * 0 + x**2)

    problem = fw.Problem(fw.objectives.Smooth(value), fw.domains.Simplex(3), dtype=np.float64)
    result = fw.solve(problem, "sfw", iterations=FOREVER, seconds=1.0, certify=False)
    assert result.status is fw.Status.SECONDS
    assert result.seconds < 3.0


def black_box(fails):
    """A problem of values only, whose function counts its calls and asks `fails` before each."""
    calls = itertools.count(1)

    def simulator(x):
        fails(next(calls), np.asarray(x))
        return np.asarray(np.sum((x - 0.2) ** 2), x.dtype)

    def value(x):
        number = jax.ShapeDtypeStruct((), x.dtype)
        return jax.pure_callback(simulator, number, x, vmap_method="sequential")

    objective = fw.objectives.Smooth(value)
    return fw.Problem(objective, fw.domains.Simplex(3), dtype=np.float64)


def test_an_exception_of_a_black_box_names_the_iteration_and_loses_nothing(tmp_path):
    reached = []

    def out_of_fuel(call, x):
        if len(reached) and call > 400:
            raise ValueError("no fuel")
        reached.append(call)

    problem = black_box(out_of_fuel)
    with pytest.raises(fw.UserCodeError, match=r"Smooth.* failed at iteration \d+: .*no fuel") as e:
        fw.solve(problem, "zo-sfw", iterations=1000, certify=False, checkpoint=tmp_path)
    result = e.value.result
    assert result.status is fw.Status.FAILED
    assert result.iterations == e.value.iteration - 1 > 10
    assert problem.domain.contains(result.x, 1e-9)
    undisturbed = fw.solve(black_box(lambda call, x: None), "zo-sfw", iterations=result.iterations)
    assert result.x.tobytes() == undisturbed.x.tobytes()
    assert list(tmp_path.glob("*.mostfw"))


def test_a_black_box_that_fails_from_the_start_is_the_users_error():
    def typo(call, x):
        raise NameError("name 'fule' is not defined")

    with pytest.raises(fw.UserCodeError, match="fule"):
        fw.solve(black_box(typo), "zo-sfw", iterations=10, certify=False)


def test_a_gradient_that_goes_back_to_python_is_a_black_box_too():
    calls = itertools.count(1)

    def slope(x):
        if next(calls) > 60:
            raise ConnectionError("gradient server is down")
        return np.asarray(2 * x, x.dtype)

    @jax.custom_vjp
    def value(x):
        return jnp.sum(x**2)

    def forth(x):
        return value(x), x

    def back(x, g):
        return (g * jax.pure_callback(slope, jax.ShapeDtypeStruct(x.shape, x.dtype), x),)

    value.defvjp(forth, back)
    problem = fw.Problem(fw.objectives.Smooth(value), fw.domains.Simplex(3), dtype=np.float64)
    with pytest.raises(fw.UserCodeError, match="server is down") as caught:
        fw.solve(problem, "sfw", iterations=500, certify=False)
    assert caught.value.result.iterations == caught.value.iteration - 1 > 10


def test_a_black_box_that_fails_once_is_asked_again():
    def hiccup(call, x):
        if call == 300:
            raise OSError("connection reset")

    undisturbed = fw.solve(black_box(lambda call, x: None), "zo-sfw", iterations=100, certify=False)
    with pytest.warns(fw.MostFWWarning, match="failed once between iterations"):
        result = fw.solve(black_box(hiccup), "zo-sfw", iterations=100, certify=False)
    assert result.status is fw.Status.ITERATIONS
    assert result.x.tobytes() == undisturbed.x.tobytes()


def test_an_exception_of_the_callback_carries_the_run(cut):
    def broken(record):
        if record.iteration >= 20:
            raise RuntimeError("no such column")

    with pytest.raises(fw.UserCodeError, match="the callback failed at iteration 30") as caught:
        fw.solve(cut, "most-fw", iterations=100, record=[10, 30, 50], callback=broken)
    assert caught.value.result.iterations == 30
    assert isinstance(caught.value.__cause__, RuntimeError)
    longer = fw.solve(cut, "most-fw", iterations=70, warm_start=caught.value.result)
    assert longer.x.tobytes() == fw.solve(cut, "most-fw", iterations=100).x.tobytes()


def test_nan_at_a_step_returns_the_last_good_point():
    def value(x):
        near = jnp.abs(x[0] - 0.8) < 0.02  # of the optimum, so after some steps
        return jnp.sum((x - target) ** 2) + jnp.where(near, jnp.nan, 0.0) * x[0]

    target = jnp.array([0.8, 0.1, 0.1])

    problem = fw.Problem(fw.objectives.Smooth(value), fw.domains.Simplex(3), dtype=np.float64)
    with pytest.raises(fw.NonFiniteError, match="NaN or infinite at iteration") as caught:
        fw.solve(problem, "sfw", iterations=10_000, record=[10_000], certify=False)
    result = caught.value.result
    assert result.status is fw.Status.NON_FINITE
    assert result.last.iteration == 0  # the start: at x_k itself the value is NaN
    assert np.isfinite(result.objective)
    assert caught.value.iteration > 1
    assert problem.domain.contains(result.x, 1e-9)
    assert abs(result.x[0] - 0.8) < 0.02


ROWS = np.random.default_rng(0).normal(size=(400, 4, 3))


def online(stream):
    def loss(x, batch):
        return jnp.mean((batch @ x - 1) ** 2)

    return fw.Problem(
        fw.objectives.Online(loss, stream, batch=4, holdout=ROWS[0]), fw.domains.L1Ball(3, 1.0)
    )


def broken_stream(kind):
    for number, row in enumerate(ROWS):
        if number == 37:
            if kind == "raises":
                raise OSError("the socket closed")
            yield {"nan": row * np.nan, "shape": row[:2], "text": "words"}[kind]
        else:
            yield row


@pytest.mark.parametrize("kind", ["raises", "nan", "shape", "text"])
def test_a_broken_stream_loses_no_step_before_it(kind):
    with pytest.raises(fw.StreamError, match="minibatch 37") as caught:
        fw.solve(online(broken_stream(kind)), "sfw", iterations=400)
    result = caught.value.result
    assert (result.status, result.iterations) == (fw.Status.FAILED, 37)
    good = fw.solve(online(iter(ROWS)), "sfw", iterations=37)
    assert result.x.tobytes() == good.x.tobytes()


def test_a_stalled_stream_honours_the_time_budget():
    def stalls():
        yield from ROWS[:25]
        threading.Event().wait(600)

    began = time.monotonic()
    result = fw.solve(online(stalls()), "sfw", iterations=400, seconds=1.0)
    assert (result.status, result.iterations) == (fw.Status.SECONDS, 25)
    assert time.monotonic() - began < 60
    assert 1.0 <= result.seconds < 3.0


def test_a_stalled_stream_can_be_interrupted():
    def stalls():
        yield from ROWS[:25]
        threading.Event().wait(600)

    later(4.0)
    result = fw.solve(online(stalls()), "sfw", iterations=400)
    assert (result.status, result.iterations) == (fw.Status.INTERRUPTED, 25)


def test_a_stream_that_never_begins_is_an_error_within_the_budget():
    def silent():
        threading.Event().wait(600)
        yield ROWS[0]

    with pytest.raises(fw.StreamError, match="no minibatch within the time budget"):
        fw.solve(online(silent()), "sfw", iterations=10, seconds=0.3)


def test_a_stream_that_ends_early_is_a_status():
    result = fw.solve(online(iter(ROWS[:12])), "sfw", iterations=400)
    assert (result.status, result.iterations) == (fw.Status.STREAM_ENDED, 12)
