"""A problem of your own from scratch: a portfolio with sampled returns and sector limits.

    python examples/own_problem.py

Minimise E (target - r'x)^2 / 2 over the simplex, with at most 40% in each of three sectors. Only
five days of returns are looked at in a step.
"""

import jax.numpy as jnp
import numpy as np

import mostfw as fw


def main(days: int = 500, iterations: int = 5000) -> fw.Result:
    rng = np.random.default_rng(0)
    sectors = np.kron(np.eye(3), np.ones((1, 3)))  # three sectors of three assets
    means = np.array([0.12] * 3 + [0.02] * 6)  # the first sector is where the returns are
    returns = rng.normal(means, 0.1, size=(days, 9))

    def loss(x, day):
        return (0.1 - jnp.dot(day, x)) ** 2 / 2

    problem = fw.Problem(
        objective=fw.objectives.FiniteSum(loss, returns, batch=5),
        domain=fw.domains.Simplex(9),
        constraints=[fw.constraints.Affine(sectors, fw.sets.Box(0.0, 0.4), name="sectors")],
    )
    result = fw.solve(problem, fw.methods.most_fw(mu_c=0.1), iterations=iterations, seed=0)
    print(f"loss {result.objective:.6f}, sector violation {result.violation['sectors']:.1e}")
    print("weights", np.round(result.x, 3), "sectors", np.round(sectors @ result.x, 3))
    return result


if __name__ == "__main__":
    main()
