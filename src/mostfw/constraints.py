"""Constraints Gx in X, whole or sampled, as terms: smoothed, each is w/(2 mu) dist(Gx, X)^2."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import checks, trees
from .errors import InvalidInputError, MostFWError, ShapeError
from .maps import LinearMap, as_map
from .operators import total
from .sets import ConvexSet
from .terms import Numbers, Term, batch_size
from .trees import Point, Structure, replaced


class Memo(eqx.Module):
    """What a run keeps of an exact constraint from step to step, so as to read x less often.

    >>> import numpy as np, mostfw as fw
    >>> problem = fw.problems.kmeans(np.arange(6.0).reshape(3, 2), clusters=2)
    >>> rows, sign = problem.constraints
    >>> atom = fw.atoms.RankOneSymmetric(np.ones(3), 2.0)
    >>> rows.memo(np.eye(3), atom).image.tolist(), sign.memo(np.eye(3), atom).image
    ([1.0, 1.0, 1.0], None)
    """

    image: jax.Array | None  # Gx, where each move tells how it changes; of rows drawn, as last seen
    guess: jax.Array | None  # of the set's search for a projection
    dual: jax.Array | None = None  # an augmented Lagrangian's multipliers
    sampled: bool = eqx.field(static=True, default=False)  # whether rows are seen when drawn


class Affine(Term):
    """Gx in X.

    `G` is a matrix (dense or scipy.sparse, acting on vec(x)), a linear function, or a map of
    `mostfw.maps`. `weight` multiplies the squared distance. With `batch` (a fraction or a count of
    rows) the rows are sampled, which needs a set X that is a product over rows; `batch=1.0` is
    every row exactly once.

    >>> import numpy as np, mostfw as fw
    >>> capacity = fw.constraints.Affine(np.ones((1, 3)), fw.sets.Box(0.0, 2.0), name="capacity")
    >>> print(capacity)
    capacity: Dense x in Box(0, 2)
    """

    counter: ClassVar[str] = "constraints"
    gathers: ClassVar[bool] = True
    map: LinearMap
    set: ConvexSet
    weight: Any
    name: str = eqx.field(static=True)
    requested: float | int | None = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    table_slots: int = eqx.field(static=True)
    image: tuple[int, ...] = eqx.field(static=True)  # the shape of Gx
    even: bool = eqx.field(static=True)  # the set treats (i, j) and (j, i) alike
    row_weights: Any  # of single rows, beside `weight`; None: all 1
    reach: Any  # the largest ||Gz|| of an atom z, rows so weighted, where a method needs it

    def __init__(
        self,
        G: Any,
        X: ConvexSet,
        weight: float = 1.0,
        name: str = "constraint",
        batch: float | int | None = None,
    ) -> None:
        self.map, self.set, self.name, self.requested = as_map(G), X, name, batch
        if not isinstance(X, ConvexSet):
            raise InvalidInputError(
                f"the set X of constraint {name!r} is a {type(X).__name__}: use one of mostfw.sets."
            )
        self.weight = checks.number(f"the weight of constraint {name!r}", weight, above=0)
        self.batch, self.total, self.table_slots = 0, None, 0  # known once x has a shape
        self.image = ()
        self.even = False
        self.row_weights, self.reach = None, 1.0

    def __str__(self) -> str:
        drawn = "" if self.requested is None else f", sampled by {self.requested}"
        return f"{self.name}: {type(self.map).__name__} x in {self.set}{drawn}"

    @property
    def sampled(self) -> bool:
        """Whether the user asked for sampled rows (1.0, every row once, included)."""
        return self.requested is not None

    @property
    def symmetric(self) -> bool:
        return self.map.symmetric and self.even

    @property
    def label(self) -> str:
        return f"constraint {self.name!r}"

    def resolve(self, structure: Structure) -> Affine:
        try:
            linear_map = self.map.resolve(structure)
            output = jax.eval_shape(linear_map.forward, structure)
            if not hasattr(output, "shape"):
                raise ShapeError(f"G of {self.label} must return one array, not a tree.")
            self.set.check(output.shape)
        except MostFWError as error:
            raise type(error)(f"{self.label}: {error}") from error
        except Exception as error:
            raise ShapeError(
                f"{self.label}: G does not apply to points of shape "
                f"{trees.describe(structure)}: {type(error).__name__}: {error}"
            ) from error
        if not linear_map.stored and not (self.set.separable and _uniform(self.set)):
            raise InvalidInputError(
                f"{self.label}: {type(linear_map).__name__} needs the same interval in every row "
                f"(Orthant, Point or Box with numbers), not {self.set}."
            )
        total = linear_map.rows(structure)
        batch = batch_size(self.requested, total, self.label)
        if batch < total:
            if not linear_map.sampleable:
                raise InvalidInputError(
                    f"{self.label}: a {type(linear_map).__name__} map cannot be sampled by rows: "
                    "give a matrix, or a Function with at= and rows=, or leave batch out."
                )
            if not self.set.separable:
                raise InvalidInputError(
                    f"{self.label}: {self.set} is not a product over rows, so rows cannot be "
                    "sampled: leave batch out."
                )
        slots = linear_map.slots(structure) if linear_map.sampleable else 0
        return replaced(
            self,
            map=linear_map,
            batch=batch,
            total=total,
            table_slots=slots,
            image=output.shape,
            even=all(_even(leaf, output.shape) for leaf in jax.tree.leaves(self.set)),
        )

    def sample(self, key: Any, size: int) -> Any:
        assert self.total is not None
        return self.map.draw(key, size, self.total)

    def look(self, x: Point, xi: Any) -> Any:
        return self.map.entries(x, xi)

    def gain(self, numbers: Numbers) -> Any:
        return numbers.penalty * jnp.asarray(self.weight, numbers.penalty.dtype)

    def _by_rows(self, rows: Any, xi: Any = None) -> Any:
        """Numbers of all rows, or of those drawn, each times the weight of its row."""
        if self.row_weights is None:
            return rows
        drawn = xi is not None
        return rows * (self.row_weights.reshape(-1)[self.slot(xi)] if drawn else self.row_weights)

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        return self._by_rows(view - self.set.at(xi, self.image).project(view), xi)

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        return self.map.scatter(y, jnp.asarray(c, message.dtype) * message, xi)

    def _residual(self, rows: jax.Array) -> jax.Array:
        return self.set.residual(rows)[0]

    def _weighted(self, rows: jax.Array) -> jax.Array:
        return self._by_rows(self._residual(rows))

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return trees.plus(y, c * self.gain(numbers), self.map.pull(x, self._weighted))

    def memo(self, x: Point, atom: Any, dual: bool = False, sampled: bool = False) -> Memo | None:
        """The memo at x, for moves towards atoms like `atom`; with multipliers, and with a table
        of what was last seen of rows that are drawn."""
        if not (self.map.stored or dual):
            return None
        carried = sampled or self.map.image_of(atom) is not None
        dtype = jax.tree.leaves(x)[0].dtype
        return Memo(
            image=self.map.forward(x) if carried else None,
            guess=self.set.first_guess(dtype),
            dual=jnp.zeros(self.image, dtype) if dual else None,
            sampled=sampled,
        )

    def moved(self, memo: Memo | None, atom: Any, eta: Any) -> Memo | None:
        """The memo after x + eta (z - x)."""
        image = self.map.image_of(atom)
        if memo is None or memo.image is None or image is None or memo.sampled:
            return memo
        return replaced(memo, image=memo.image + eta * (image - memo.image))

    def carried(self, memo: Memo | None, atom: Any) -> jax.Array | None:
        """Gx as the memo holds it, where moves towards such atoms change it."""
        if memo is None or memo.sampled or self.map.image_of(atom) is None:
            return None
        return memo.image

    def ascended(
        self, memo: Memo | None, x: Point, numbers: Numbers, eta: Any, xi: Any
    ) -> Memo | None:
        """The memo with its multipliers moved at x, to which the last step was eta; where rows are
        drawn (xi), only theirs."""
        if memo is None or memo.dual is None:
            return memo
        if memo.sampled:
            return self._ascended_where_drawn(memo, x, numbers, xi)
        ahead, renewed = self._ahead(x, numbers, memo)
        measured = ahead
        if self.set.separable:  # made once more for its norm, behind a barrier, and not stored
            x, dual = lax.optimization_barrier((x, memo.dual))
            measured, _ = self._ahead(x, numbers, replaced(memo, dual=dual))
        # CGAL's bound: sigma ||r||^2 <= 4 beta eta^2 ||G||^2, in units of beta. The squares are
        # stored to be summed up: as shares of the bound they have room in single precision, even
        # of the one before the first move, which is 0.
        far = (measured * (1 / (self.gain(numbers) * self.reach))) / jnp.maximum(2 * eta, 1e-15)
        shares = (far * far * (1 / self._by_rows(jnp.ones_like(eta)))).astype(jnp.float32)
        step = jnp.minimum(numbers.dual_step, 1 / total(shares).astype(eta.dtype))
        return replaced(renewed, dual=memo.dual + step * ahead)

    def _ahead(self, x: Point, numbers: Numbers, memo: Memo) -> tuple[jax.Array, Memo]:
        """From the multipliers to the normal of X that they move towards at x; and the memo."""
        normal, memo = self.told(x, numbers, memo)
        assert memo.dual is not None
        return self.map.placed(normal - memo.dual), memo

    def _ascended_where_drawn(self, memo: Memo, x: Point, numbers: Numbers, xi: Any) -> Memo:
        places = self.map.places(xi)
        seen, old = self.map.entries(x, xi), memo.dual.reshape(-1)[places[0]]  # pyright: ignore[reportOptionalMemberAccess]
        gain = self._by_rows(self.gain(numbers), xi)
        shifted = seen + old / gain
        normal = gain * (shifted - self.set.at(xi, self.image).project(shifted))
        assert self.total is not None
        step = jnp.minimum(numbers.sampled_step * (self.total / self.batch), 1)
        dual = old + step * (normal - old)

        # `set`, never `add`: a row that is drawn twice was seen once
        def put(array: jax.Array, values: jax.Array) -> jax.Array:
            flat, size = array.reshape(-1), places.shape[0]
            return flat.at[places.reshape(-1)].set(jnp.tile(values, size)).reshape(array.shape)

        return replaced(memo, image=put(memo.image, seen), dual=put(memo.dual, dual))  # pyright: ignore[reportArgumentType]

    def _rows(self, x: Point, memo: Memo) -> jax.Array:
        return self.map.forward(x) if memo.image is None else memo.image

    def push(
        self, y: Point, x: Point, numbers: Numbers, memo: Memo | None
    ) -> tuple[Point, Memo | None]:
        """y + the gradient at x as `add_whole` gives it, by what the memo knows; and the memo."""
        if memo is None:
            return self.add_whole(y, 1.0, x, numbers), None
        residual, guess = self._remembered(x, numbers, memo)
        back = self.map.adjoint(residual, trees.structure_of(x))
        return trees.plus(y, self.gain(numbers), back), replaced(memo, guess=guess)

    def told(self, x: Point, numbers: Numbers, memo: Memo) -> tuple[jax.Array, Memo]:
        """The u whose G'u `push` adds, and the memo."""
        residual, guess = self._remembered(x, numbers, memo)
        return self.gain(numbers) * residual, replaced(memo, guess=guess)

    def _remembered(
        self, x: Point, numbers: Numbers, memo: Memo
    ) -> tuple[jax.Array, jax.Array | None]:
        """The weighted residual at x and the next guess, by what the memo knows."""
        rows = self._rows(x, memo)
        if memo.dual is not None:
            rows = rows + memo.dual * (1 / self._by_rows(self.gain(numbers)))
        residual, guess = self.set.residual(rows, memo.guess)
        return self._by_rows(residual), guess

    def product(self, v: jax.Array, x: Point, numbers: Numbers, memo: Memo | None) -> jax.Array:
        """What `push` adds to a matrix, times v: nothing of the size of x is formed."""
        residual, _ = self._remembered(x, numbers, memo or Memo(None, None))
        return self.gain(numbers) * self.map.product(residual, v, trees.structure_of(x))

    def violation(self, x: Point) -> jax.Array:
        """||Gx - Proj_X(Gx)||, unweighted, over all rows."""
        return jnp.sqrt(self.map.squares(x, self._residual))

    def multiplier(self, x: Point, numbers: Numbers) -> jax.Array:
        """The penalty's estimate of the dual variable, weight (Gx - Proj)/mu."""
        return self.gain(numbers) * self.map.residual(x, self._weighted)

    @property
    def table_is_point(self) -> bool:
        return self.map.pointwise

    def of_table(self, table: Point) -> Point:
        return trees.symmetrised(table) if self.map.symmetric else table

    def rhs_norm(self) -> float:
        """max(1, norm of the finite right-hand side): what relative violations divide by."""
        # The image of a map without storage has places that are no rows; its set has numbers only.
        shape = self.image if self.map.stored else (self.total or 0,)
        return max(1.0, float(self.set.rhs_norm(shape)))

    def slot(self, xi: Any) -> jax.Array:
        return self.map.slot(xi)

    @property
    def slots(self) -> int:
        return self.table_slots


def _even(parameter: Any, image: tuple[int, ...]) -> bool:
    if len(image) != 2 or np.ndim(parameter) == 0:
        return True
    spread = np.broadcast_to(parameter, image)
    return image[0] == image[1] and np.array_equal(spread, spread.T)


def _uniform(the_set: ConvexSet) -> bool:
    return all(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(the_set))
