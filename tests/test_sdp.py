"""Semidefinite programs from SDPA files: the format, the problem posed, and runs."""

import gzip
import re

import cvxpy
import jax
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import mostfw as fw
from mostfw import sdpa
from mostfw.problems.sdp import implied_trace

# The values of data/README.md: "solved" or bracketed there, published by SDPLIB. Its files
# maximise <F_0, Y>; the optimum of a problem here is minus that.
PUBLISHED = {"mcp100": 226.1574, "theta1": 23.0, "gpp100": -44.9435, "qap5": -436.0}
TRUSS = -8.999996

TWO_BLOCKS = """
"a comment
* another
 2 = number of constraints
 2 = blocks
 (2, -2) = their sizes
{1.0, +2.0D0} the right-hand sides
0 1 1 1 1.5
0 1 2 1 -1
0 2 1 1 3e0
1 1 1 1 1
1,1,2,2,1
1 2 1 1 1
2 2 2 2 4.0
2 1 1 2 0
"""


def data_file(name):
    folder = fw.datasets.data_folder()
    path = None if folder is None else folder / "sdplib" / f"{name}.dat-s.gz"
    if path is None or not path.is_file():
        pytest.skip(f"MOSTFW_DATA has no SDPLIB file {name}")
    return path


# The format


def test_a_file_with_all_that_the_format_allows():
    program = sdpa.parse(TWO_BLOCKS)
    assert program.sizes == (2, 2)
    assert program.diagonal == (False, True)
    assert program.right_hand_side.tolist() == [1.0, 2.0]
    whole, flat = program.blocks_of(0)
    assert whole.tolist() == [[1.5, -1.0], [-1.0, 0.0]]  # given in the lower triangle
    assert flat.tolist() == [[3.0, 0.0], [0.0, 0.0]]
    assert program.blocks_of(2)[0].tolist() == [[0.0, 0.0], [0.0, 0.0]]  # a written 0 is no entry
    assert len(program.value) == 7


def test_vectors_may_go_over_several_lines():
    program = sdpa.parse("3\n2\n1\n2\n1 2\n\n3\n1 1 1 1 1\n")
    assert program.sizes == (1, 2)
    assert program.right_hand_side.tolist() == [1.0, 2.0, 3.0]


def test_files_plain_and_packed(tmp_path):
    plain, packed = tmp_path / "two.dat-s", tmp_path / "two.dat-s.gz"
    plain.write_text(TWO_BLOCKS)
    packed.write_bytes(gzip.compress(TWO_BLOCKS.encode()))
    for path in plain, str(packed):
        program = sdpa.read(path)
        assert program.name == "two"
        assert program.constraints == 2


START = "1\n1\n2\n1.0\n"
WRONG = {
    "empty": ("", 0, "ends before the number of constraints.*complete"),
    "comments only": ("* x\n* y\n", 2, "ends before the number of constraints"),
    "words for a count": ("many\n1\n1\n1\n", 1, "'many' is not the number of constraints.*whole"),
    "fraction for a count": ("1.5\n1\n1\n1\n", 1, "'1.5' is not the number"),
    "no constraints": ("0\n1\n1\n\n", 1, "'0' is not the number of constraints"),
    "no blocks": ("1\n0\n\n1\n", 2, "'0' is not the number of blocks"),
    "size zero": ("1\n1\n0\n1\n", 3, "size 0.*leave the block out"),
    "size a word": ("1\n1\nn\n1\n", 3, "'n' is not a block size"),
    "size too large": ("1\n1\n99999999999\n1\n", 3, "'99999999999' is not a block size"),
    "too few sizes": ("1\n3\n1 2\n", 3, "ends before all 3 block sizes, after 2"),
    "too many sizes": ("1\n1\n1 2\n1\n", 3, "more than 1 block sizes.*give 1"),
    "promises too much": ("999999999\n1\n2\n1.0\n", 4, "all 999999999 right-hand sides, after 1"),
    "too many sides": ("1\n1\n2\n1.0 2.0\n", 4, "more than 1 right-hand sides"),
    "side a word": ("1\n1\n2\nx\n", 4, "'x' is not a finite number"),
    "side not finite": ("1\n1\n2\nnan\n", 4, "'nan' is not a finite number"),
    "short entry": (START + "1 1 1 1\n", 5, "'1 1 1 1' has 4 numbers.*matrix block i j value"),
    "long entry": (START + "1 1 1 1 1 1\n", 5, "has 6 numbers"),
    "index a word": (START + "1 1 a 1 1\n", 5, "'a' is not an index"),
    "index a fraction": (START + "1 1 1.5 1 1\n", 5, "'1.5' is not an index"),
    "value a word": (START + "1 1 1 1 one\n", 5, "'one' is not a finite number"),
    "value infinite": (START + "\n1 1 1 1 inf\n", 6, "'inf' is not a finite number"),
    "matrix out of range": (START + "2 1 1 1 1\n", 5, "matrix is 2: give a number from 0 to 1"),
    "block out of range": (START + "1 2 1 1 1\n", 5, "block is 2: give a number from 1 to 1"),
    "row out of range": (START + "1 1 3 1 1\n", 5, "row or column of block 1 is 3.*from 1 to 2"),
    "column out of range": (START + "1 1 1 0 1\n", 5, "row or column of block 1 is 0"),
    "twice": (START + "1 1 1 2 1\n1 1 2 1 1\n", 6, "is there twice.*upper triangle"),
    "off the diagonal": ("1\n1\n-2\n1\n1 1 1 2 1\n", 5, "off the diagonal of block 1.*positive"),
}


@pytest.mark.parametrize("label", WRONG)
def test_wrong_files_are_refused_with_their_line(label, tmp_path):
    text, line, words = WRONG[label]
    path = tmp_path / "wrong.dat-s"
    path.write_text(text)
    with pytest.raises(fw.InvalidInputError, match=words) as caught:
        sdpa.read(path)
    assert f"{str(path)!r}, line {line}:" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(fw.InvalidInputError, match="no SDPA file"):
        sdpa.read(tmp_path / "absent.dat-s")
    packed = gzip.compress((TWO_BLOCKS + "1 2 2 2 1\n" * 50).encode())
    for name, content in [
        ("cut.dat-s.gz", packed[:60]),
        ("not.dat-s.gz", TWO_BLOCKS.encode()),
        ("spoiled.dat-s.gz", packed[:30] + b"\x00\xff\x00" + packed[33:]),
        ("bytes.dat-s", b"\xff\xfe\x80"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(
            fw.InvalidInputError, match=rf"{re.escape(name)}.*(cannot be read|line)"
        ):
            sdpa.read(path)


@given(st.text(alphabet='0123456789 -+.,(){}eEdD\n*"x', max_size=80))
def test_any_text_is_read_or_refused(text):
    for start in "", START:
        try:
            program = sdpa.parse(start + text)
        except fw.InvalidInputError as error:
            assert "line" in str(error)
        else:
            assert program.constraints >= 1


@st.composite
def programs(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    sizes = draw(st.lists(st.integers(-3, 4).filter(bool), min_size=1, max_size=3))
    matrices = draw(st.integers(1, 4)) + 1
    blocks = [[_symmetric(rng, n) for n in sizes] for _ in range(matrices)]
    return sizes, rng.standard_normal(matrices - 1), blocks


def _symmetric(rng, size):
    side = abs(size)
    drawn = rng.standard_normal((side, side)) * (rng.random((side, side)) < 0.6)
    return np.diag(np.diag(drawn)) if size < 0 else np.triu(drawn) + np.triu(drawn, 1).T


def written(sizes, sides, blocks):
    lines = [f"{len(sides)}", f"{len(sizes)}", " ".join(map(str, sizes))]
    lines.append("{" + ", ".join(f"{c!r}" for c in sides.tolist()) + "}")
    for k, matrix in enumerate(blocks):
        for b, block in enumerate(matrix):
            for i, j in zip(*np.nonzero(np.triu(block)), strict=True):
                lines.append(f"{k} {b + 1} {i + 1} {j + 1} {block[i, j].item()!r}")
    return "\n".join(lines)


@given(programs())
def test_what_is_written_is_read(made):
    sizes, sides, blocks = made
    program = sdpa.parse(written(*made))
    np.testing.assert_array_equal(program.right_hand_side, sides)
    assert program.diagonal == tuple(n < 0 for n in sizes)
    for k, matrix in enumerate(blocks):
        for read, wrote in zip(program.blocks_of(k), matrix, strict=True):
            np.testing.assert_array_equal(read, wrote)


@settings(max_examples=10)
@given(programs())
def test_the_problem_has_the_numbers_of_the_file(made):
    sizes, _, blocks = made
    if any(all(not np.any(block) for block in matrix) for matrix in blocks[1:]):
        return
    problem = fw.problems.sdp(sdpa.parse(written(*made)), trace_bound=3.0)
    rng = np.random.default_rng(0)
    y = tuple(_symmetric(rng, abs(n)) + np.eye(abs(n)) for n in sizes)
    inner = [sum(np.sum(f * block) for f, block in zip(m, y, strict=True)) for m in blocks]
    point = y if len(sizes) > 1 else y[0]
    assert float(problem.objective.whole_value(point)) == pytest.approx(-inner[0])
    rule = problem.constraints[0]
    np.testing.assert_allclose(rule.map.forward(point), inner[1:], atol=1e-12)
    norms = [np.sqrt(sum(np.sum(f**2) for f in matrix)) for matrix in blocks[1:]]
    np.testing.assert_allclose(rule.map.row_norms(problem.structure), norms, atol=1e-12)
    found = problem.answer(point)
    assert found.value == pytest.approx(inner[0])
    assert [b.ndim for b in found.blocks] == [1 if n < 0 else 2 for n in sizes]


# The trace


def test_a_trace_that_the_constraints_imply():
    head = "2\n2\n2 -1\n5.0 1.0\n"
    identity = "1 1 1 1 2.0\n1 1 2 2 2.0\n1 2 1 1 2.0\n1 1 1 2 1.0\n2 1 1 2 3.0\n"
    # (F_1 - F_2/3)/2 = I, so that tr Y = (5 - 1/3)/2
    trace, exact = implied_trace(sdpa.parse(head + identity))
    assert (trace, exact) == (pytest.approx(7 / 3, rel=1e-10), True)
    problem = fw.problems.sdp(sdpa.parse(head + identity))
    assert problem.domain.equality
    assert problem.domain.sizes == (2, 1)


def test_a_trace_that_is_only_bounded():
    program = sdpa.parse("1\n1\n2\n3.0\n1 1 1 1 1.0\n1 1 2 2 2.0\n")
    trace, exact = implied_trace(program)
    assert not exact
    assert trace == pytest.approx(3.0)  # Y_11 + 2 Y_22 = 3 and Y_11 = 3 is possible
    assert not fw.problems.sdp(program).domain.equality


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (START + "1 1 1 1 1\n", "imply no bound.*trace_bound="),
        (START + "1 1 1 1 1\n1 1 2 2 -1\n", "imply no bound.*trace_bound="),
        ("1\n1\n2\n-1.0\n1 1 1 1 1\n1 1 2 2 1\n", "at most -1.*right-hand sides"),
        ("2\n1\n1\n1.0 2.0\n1 1 1 1 1\n", "constraint 2 .*no entries.*2.*correct"),
    ],
)
def test_programs_that_cannot_be_posed(text, words):
    with pytest.raises(fw.InvalidInputError, match=words):
        fw.problems.sdp(sdpa.parse(text))


def test_a_trace_bound_that_is_given():
    program = sdpa.parse(START + "1 1 1 1 1\n")
    domain = fw.problems.sdp(program, trace_bound=7.0).domain
    assert (domain.trace, domain.equality) == (7.0, False)
    with pytest.raises(fw.InvalidInputError, match="trace_bound is 0"):
        fw.problems.sdp(program, trace_bound=0)


# The problem against cvxpy, and runs


def optimum_of(problem):
    """Clarabel's optimum of the problem as it was posed."""
    structure, rule = problem.structure, problem.constraints[0]
    leaves = jax.tree.leaves(structure)
    ys = [cvxpy.Variable(leaf.shape, PSD=True) for leaf in leaves]
    flat = cvxpy.hstack([cvxpy.vec(y, order="C") for y in ys])
    costs = np.concatenate([np.ravel(c) for c in jax.tree.leaves(problem.objective.matrix)])
    rows = jax.vmap(lambda u: rule.map.adjoint(u, structure))(np.eye(rule.total))
    rows = np.concatenate([np.reshape(r, (rule.total, -1)) for r in jax.tree.leaves(rows)], axis=1)
    rules = [scipy.sparse.csr_array(rows) @ flat == np.asarray(rule.set.value)]
    if not problem.domain.equality:  # else the constraints say it, and a solver dislikes it twice
        rules.append(sum(cvxpy.trace(y) for y in ys) <= problem.domain.trace)
    posed = cvxpy.Problem(cvxpy.Minimize(costs @ flat), rules)
    posed.solve(solver="CLARABEL")
    return posed.value


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # it is not, to 1e-4
@pytest.mark.parametrize("name", ["theta1", "qap5"])
def test_the_posed_problem_has_the_published_optimum(name):
    problem = fw.problems.sdp(data_file(name))
    assert optimum_of(problem) == pytest.approx(-PUBLISHED[name], rel=1e-4)


def test_several_blocks_have_the_published_optimum():
    problem = fw.problems.sdp(data_file("truss1"), trace_bound=100.0)
    assert optimum_of(problem) == pytest.approx(-TRUSS, rel=1e-4)


def test_a_diagonal_block_is_as_good_as_numbers():
    """max of p'w + <F, Y> with <I, Y> + 1'w = 2, Y_12 + w_1 = 1/2: cvxpy with w as numbers."""
    text = """2\n2\n2 -2\n2.0 0.5
    0 1 1 1 1.0\n0 1 1 2 0.3\n0 2 1 1 0.4\n0 2 2 2 1.2
    1 1 1 1 1.0\n1 1 2 2 1.0\n1 2 1 1 1.0\n1 2 2 2 1.0
    2 1 1 2 0.5\n2 2 1 1 1.0\n"""
    problem = fw.problems.sdp(sdpa.parse(text))
    y, w = cvxpy.Variable((2, 2), PSD=True), cvxpy.Variable(2, nonneg=True)
    value = y[0, 0] + 0.6 * y[0, 1] + 0.4 * w[0] + 1.2 * w[1]
    rules = [cvxpy.trace(y) + cvxpy.sum(w) == 2, y[0, 1] + w[0] == 0.5]
    by_numbers = cvxpy.Problem(cvxpy.Maximize(value), rules).solve(solver="CLARABEL")
    assert optimum_of(problem) == pytest.approx(-by_numbers, rel=1e-6)
    result = fw.solve(problem, fw.methods.get("hfw", mu_c=1.0), iterations=3000, record=[])
    found = problem.answer(result.x)
    assert found.value == pytest.approx(by_numbers, rel=0.05)
    assert np.all(found.blocks[1] >= 0)
    np.testing.assert_allclose(
        [
            np.trace(found.blocks[0]) + found.blocks[1].sum(),
            found.blocks[0][0, 1] + found.blocks[1][0],
        ],
        [2.0, 0.5],
        atol=0.05,
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_runs_start_on_sdplib(name):
    problem = fw.problems.sdp(data_file(name), optimum=-PUBLISHED[name])
    assert problem.domain.equality
    result = fw.solve(problem, fw.methods.get("hfw", mu_c=1.0), iterations=20, record=[])
    assert problem.domain.contains(result.x, 1e-8)
    assert np.isfinite(result.objective)
    # what the run carried along agrees with the point that it ended at
    rows = problem.constraints[0].map.forward(result.x)
    off = np.linalg.norm(rows - problem.constraints[0].set.value)
    assert result.violation["equations"] == pytest.approx(off)


def test_sampled_constraints_and_single_precision():
    text = "3\n1\n3\n1 1 1\n0 1 1 2 1\n1 1 1 1 1\n2 1 2 2 1\n3 1 3 3 1\n"
    problem = fw.problems.sdp(sdpa.parse(text), constraint_batch=2, dtype=np.float32)
    result = fw.solve(problem, fw.methods.get("most-fw+", mu_c=1.0), iterations=10, record=[])
    assert np.asarray(result.x).dtype == np.float32
    assert np.isfinite(result.objective)


def test_the_image_that_a_run_carries_is_that_of_its_point():
    problem = fw.problems.sdp(sdpa.parse(TWO_BLOCKS), trace_bound=3.0)
    rule, rng = problem.constraints[0], np.random.default_rng(0)
    atom = tuple(fw.atoms.RankOneSymmetric(rng.standard_normal(2), scale) for scale in (0.7, 0.0))
    np.testing.assert_allclose(
        rule.map.image_of(atom), rule.map.forward(fw.atoms.dense(atom)), atol=1e-12
    )
