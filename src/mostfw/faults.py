"""What went wrong in a run, and where: NaN, and failures of the user's own code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from .errors import NonFiniteError, UserCodeError
from .frank_wolfe import State, direction, numbers_of
from .maps import Function
from .method import Method
from .oracles import FirstOrder
from .problem import Problem
from .result import Result
from .shuffling import Turn
from .sight import Estimate, Sight
from .terms import Term

_LAST_LINE = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit|Iteration)\b.*", re.MULTILINE)


def culprit(problem: Problem, method: Method, state: State, key: Any, feed: Any) -> str:
    """The label of the first term that is not finite at x_k under the sample of iteration k."""
    for label, part in _parts(problem, method, state, key, feed):
        if not _finite(part()):
            return label
    numbers = numbers_of(method, state.k, state)
    s = direction(problem, method, state.x, state.estimate.y, numbers)
    return "the LMO of the domain" if _finite(s) else "the tracked gradient"


def failing(problem: Problem, method: Method, state: State, key: Any, feed: Any) -> str:
    """The label of the first term whose function raises there; the objective's if none does now."""
    for label, part in _parts(problem, method, state, key, feed):
        try:
            jax.block_until_ready(part())
        except Exception:
            return label
    return problem.objective.label


def _parts(
    problem: Problem, method: Method, state: State, key: Any, feed: Any
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What each term brings to the direction of iteration k, by the label of the term."""
    k = state.k
    sample_key, _ = jax.random.split(jax.random.fold_in(key, k))
    numbers = numbers_of(method, k, state)
    zero = Estimate.zero(problem.structure)
    terms = method.terms(problem)

    def alone(index: int, term: Term) -> Any:
        sight = Sight.open(terms, state.x, numbers, sample_key, feed, Turn(k, key))
        one = Sight((term,), sight.x, sight.numbers, sight.key, (sight.draws[index],))
        return one.add(zero, 1.0).y

    for index, term in enumerate(terms):
        yield term.label, lambda index=index, term=term: alone(index, term)
    for constraint in method.exact_constraints(problem):
        yield (
            constraint.label,
            lambda constraint=constraint: constraint.add_whole(zero.y, 1.0, state.x, numbers),
        )


def _finite(tree: Any) -> bool:
    return all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(tree))


def calls_host(problem: Problem, method: Method, minibatch: Any) -> bool:
    """Whether something of the user's goes back to Python while the compiled loop runs (a black
    box), where an exception can end the loop in the middle: the objective's value, its gradient, or
    a map or domain that is not ours. `minibatch` is an online objective's."""
    objective, x = problem.objective, problem.structure

    def sampled(x: Any, key: Any) -> Any:
        xi = objective.sample(key, 1) if minibatch is None else minibatch
        return objective.value(x, xi)

    key = jax.random.PRNGKey(0)
    programs = [(sampled, x, key), (objective.whole_value, x)]
    if isinstance(method.oracle, FirstOrder):
        programs.append((jax.grad(sampled), x, key))
    programs += [(c.map.forward, x) for c in problem.constraints if _foreign(c.map)]
    if _foreign(problem.domain):
        programs.append((problem.domain.lmo, x))
    found = (_program(*program) for program in programs)
    return any(program is not None and _has_callback(program) for program in found)


def _foreign(part: Any) -> bool:
    return type(part).__module__.partition(".")[0] != "mostfw" or isinstance(part, Function)


def _program(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return jax.make_jaxpr(function)(*arguments).jaxpr
    except Exception:  # what cannot be traced fails where the step is compiled, with its own words
        return None


def _has_callback(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        if "callback" in equation.primitive.name:
            return True
        inner = jax.tree.leaves(
            equation.params, is_leaf=lambda p: hasattr(p, "jaxpr") or hasattr(p, "eqns")
        )
        for parameter in inner:
            program = getattr(parameter, "jaxpr", parameter)
            if hasattr(program, "eqns") and _has_callback(program):
                return True
    return False


def words_of(error: BaseException) -> str:
    """What the user's code raised, out of the traceback that the runtime wraps it in.

    >>> from mostfw.faults import words_of
    >>> words_of(RuntimeError("INTERNAL: CpuCallback error:\\nTraceback ...\\nValueError: no fuel"))
    'ValueError: no fuel'
    """
    found = _LAST_LINE.findall(str(error))
    return found[-1].strip() if found else f"{type(error).__name__}: {error}"


def user_error(
    term: str, iteration: int, error: BaseException, result: Result | None
) -> UserCodeError:
    """What is raised where the user's code did; `result` is the run so far."""
    return UserCodeError(
        f"{term} failed at iteration {iteration}: {words_of(error)}. The run so far is on this "
        "error as .result; continue it with warm_start=error.result.",
        iteration=iteration,
        result=result,
    )


def not_finite(term: str, iteration: int, result: Result | None) -> NonFiniteError:
    """What is raised where a direction was not finite."""
    return NonFiniteError(
        f"{term} is NaN or infinite at iteration {iteration}. Check its function and data there; "
        "the run so far is on this error as .result.",
        iteration=iteration,
        result=result,
    )


def value_not_finite(
    label: str, value: float, iteration: int, result: Result | None
) -> NonFiniteError:
    """What is raised where directions were finite, but the objective's value was not."""
    return NonFiniteError(
        f"the value of {label} is {value} at the point of iteration {iteration}. Check its "
        "function and data there; the run so far is on this error as .result.",
        iteration=iteration,
        result=result,
    )
