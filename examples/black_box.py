"""A black box that only returns values: the settings of a simulator, within a budget.

    python examples/black_box.py

The simulator is plain NumPy, with an `if` inside: no gradient can be had from it. Differences of
its values do.
"""

import jax
import numpy as np

import mostfw as fw

BUDGET = 0.8
LIMIT = 0.5  # for the first two settings together


def simulator(settings: np.ndarray) -> np.ndarray:
    """The waste of a plant; all a caller sees is this number."""
    wanted = np.array([0.6, 0.4, 0.3, 0.2])
    far = settings - wanted
    waste = far @ far
    if far[0] > 0:  # overheated
        waste += far[0]
    return np.asarray(waste, settings.dtype)


def measured(settings: jax.Array) -> jax.Array:
    """The way from compiled code to the simulator and back, one setting at a time."""
    number = jax.ShapeDtypeStruct((), settings.dtype)
    return jax.pure_callback(
        lambda s: simulator(np.asarray(s)), number, settings, vmap_method="sequential"
    )


def main(iterations: int = 1000) -> fw.Result:
    together = np.array([[1.0, 1.0, 0.0, 0.0]])
    problem = fw.Problem(
        objective=fw.objectives.Smooth(measured),
        domain=fw.domains.Box(np.zeros(4), np.ones(4)),
        constraints=[
            fw.constraints.Affine(together, fw.sets.Box(0.0, LIMIT), name="limit"),
            fw.constraints.Affine(np.ones((1, 4)), fw.sets.Box(0.0, BUDGET), name="budget"),
        ],
        dtype=np.float64,
    )
    result = fw.solve(problem, "zo-most-al", iterations=iterations, seed=0, certify=False)
    print(f"waste {result.objective:.4f} with settings {np.round(result.x, 3)}")
    print(f"{result.counts.values} values were asked for, and no gradient")
    print("violations", {name: f"{size:.1e}" for name, size in result.violation.items()})
    return result


if __name__ == "__main__":
    main()
