"""A problem of your own from scratch: a portfolio with sampled returns, a domain and sector limits.

    python examples/own_problem.py

Minimise E (target - r'x)^2 / 2 over the portfolios with at most 30% in one asset, a domain that
the library does not have, and at most 40% in each of three sectors. Only five days of returns are
looked at in a step.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import mostfw as fw

LIMIT = 0.4  # of a sector


class CappedSimplex(fw.domains.Domain):
    """{x >= 0, sum x = 1, x_i <= cap}. Five methods are all that a domain needs."""

    size: int = eqx.field(static=True)
    cap: float

    def structure(self, dtype):
        return jax.ShapeDtypeStruct((self.size,), dtype)

    def start(self, dtype):
        return jnp.full(self.size, 1 / self.size, dtype)

    def lmo(self, direction, *, key=None, start=None, tolerance=0.0):
        """The cheapest assets are filled up to the cap, one after another, until all is spent."""
        order = jnp.argsort(direction)
        before = self.cap * jnp.arange(self.size)
        amounts = jnp.clip(1 - before, 0, self.cap).astype(direction.dtype)
        atom = jnp.zeros_like(direction).at[order].set(amounts)
        value, matvecs = jnp.sum(direction * atom), jnp.zeros((), jnp.int32)
        return fw.domains.LinearMinimum(fw.atoms.Dense(atom), value, matvecs)

    def excess(self, x):
        outside = jnp.maximum(jnp.max(x) - self.cap, -jnp.min(x))
        return jnp.maximum(outside, jnp.abs(jnp.sum(x) - 1))

    @property
    def diameter(self):
        return (2 * self.cap) ** 0.5  # x'x <= cap sum x, and two portfolios may share no asset


def main(days: int = 500, iterations: int = 5000) -> fw.Result:
    rng = np.random.default_rng(0)
    sectors = np.kron(np.eye(3), np.ones((1, 3)))  # three sectors of three assets
    means = np.array([0.12] * 3 + [0.02] * 6)  # the first sector is where the returns are
    returns = rng.normal(means, 0.1, size=(days, 9))

    def loss(x, day):
        return (0.1 - jnp.dot(day, x)) ** 2 / 2

    domain = CappedSimplex(9, cap=0.3)
    fw.testing.check_domain(domain)  # an LMO with a mistake is found here, not in the answer
    problem = fw.Problem(
        objective=fw.objectives.FiniteSum(loss, returns, batch=5),
        domain=domain,
        constraints=[fw.constraints.Affine(sectors, fw.sets.Box(0.0, LIMIT), name="sectors")],
    )
    result = fw.solve(problem, iterations=iterations, seed=0)
    print(f"loss {result.objective:.6f}, sector violation {result.violation['sectors']:.1e}")
    print("weights", np.round(result.x, 3), "sectors", np.round(sectors @ result.x, 3))
    print(result.certificate)
    return result


if __name__ == "__main__":
    main()
