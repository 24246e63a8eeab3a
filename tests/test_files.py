"""Files in: each format is read, what is wrong is named with its line, and nothing else escapes."""

import csv
import gzip
import io
import sys
import time
import types
import warnings
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import mostfw as fw
from mostfw import files, sdpa
from mostfw.files import _text

NAN = float("nan")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(call, words):
    with pytest.raises(fw.MostFWError, match=words) as caught:
        call()
    return str(caught.value)


def data_file(name):
    folder = fw.datasets.data_folder()
    path = None if folder is None else folder / name
    if path is None or not path.is_file():
        pytest.skip(f"MOSTFW_DATA has no {name}")
    return path


# Text


@pytest.mark.parametrize("name", ["plain.txt", "packed.gz", "packed.txt"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["", "BOM"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_text_of_all_systems(name, start, end, tmp_path):
    content = start + end.join(["één", "", "twee"]).encode()
    path = put(tmp_path, name, gzip.compress(content) if "packed" in name else content)
    with files.open_text(path) as text:
        assert [(text.number, line) for line in text] == [(1, "één"), (2, ""), (3, "twee")]


PACKED = gzip.compress(b"".join(b"%d %d\n" % (n, n * n % 1009) for n in range(5000)))
NO_TEXT = {
    "cut.gz": (PACKED[: len(PACKED) // 2], "cannot be read after line \\d+.*fetch or pack"),
    "cut": (PACKED[:200], "cannot be read after line 0"),
    "head.gz": (PACKED[:5], "cannot be read after line 0"),
    "spoiled.gz": (PACKED[:99] + b"\xff\x00\xff" + PACKED[102:], "cannot be read after line"),
    "checksum.gz": (PACKED[:-8] + b"12345678", "cannot be read after line .*CRC"),
    "plain.gz": (b"1 2\n", "ends in .gz, but it is not packed.*take .gz off"),
    "empty.gz": (b"", "ends in .gz, but"),
    "latin.csv": (b"1,2\n3,4\nna\xefve,5\n", "line 3: byte 0xef is not UTF-8.*save it as UTF-8"),
    "wide.csv": ("1,2\n".encode("utf-16"), "line 1: byte 0xff is not UTF-8"),
    "binary.csv": (b"1,2\n\x00\x01\n", "line 2: a byte is 0"),
}


@pytest.mark.parametrize("name", NO_TEXT)
def test_what_is_not_text(name, tmp_path):
    content, words = NO_TEXT[name]
    path = put(tmp_path, name, content)

    def read():
        with files.open_text(path, "some file") as text:
            list(text)

    assert refused(read, words).startswith(f"some file {str(path)!r}")


def test_lines_far_into_a_file_are_counted_right(tmp_path):
    path = put(tmp_path, "far.csv", b"1.25,2.5\n" * 5000 + b"1,\xff\n")
    refused(lambda: files.read_table(path), "line 5001: byte 0xff")
    path = put(tmp_path, "far.csv.gz", gzip.compress(b"#\n" * 60 + b"1,2\n" * 5000 + b"1,x\n"))
    refused(lambda: files.read_table(path), "line 5061, column 2: 'x'")


def test_text_that_unpacks_beyond_measure(tmp_path, monkeypatch):
    packed = gzip.compress(b"0 0 0 0\n" * 100_000)
    path = put(tmp_path, "zeros.gz", packed)
    assert files.read_table(path).values.shape == (100_000, 4)  # small, so its ratio is no matter
    monkeypatch.setattr(_text, "RATIO_COUNTS_FROM", 2**16)
    refused(lambda: files.read_table(path), f"200 times its {len(packed)} bytes: unpack it")
    monkeypatch.setattr(_text, "RATIO_COUNTS_FROM", 2**26)
    monkeypatch.setattr(_text, "MOST_BYTES", 2**16)
    refused(lambda: files.read_table(path), "it is longer than .* GiB")
    refused(lambda: files.read_table(put(tmp_path, "a.txt", "0 0\n" * 2**15)), "longer than")
    monkeypatch.setattr(_text, "MOST_CHARACTERS_A_LINE", 1000)
    path = put(tmp_path, "long.csv", "1,2\n" + "1," * 600)
    refused(lambda: files.read_table(path), "line 2: the line is longer than 1000 char.*row a line")


def test_what_is_no_file(tmp_path):
    for read in files.read_table, files.read_ratings, files.read_edge_list, files.read_matrix:
        refused(lambda read=read: read(tmp_path / "absent.csv"), "there is no .* file '.*absent")
        refused(lambda read=read: read(tmp_path), "this is a folder: give a file")
        refused(lambda read=read: read("a\0b"), "there is no .* file")
    refused(lambda: files.read_matrix(put(tmp_path, "a.csv", "1,2\n")), "no file of arrays")


# Tables

TABLES = {
    "comma": ("1,2\n3,4.5\n", [[1, 2], [3, 4.5]], None, None),
    "spaces beside": ("1, 2\n 3 ,4\n", [[1, 2], [3, 4]], None, None),
    "tab": ("1\t2\n3\t4\n", [[1, 2], [3, 4]], None, None),
    "semicolon": ("1;2\n3;4\n", [[1, 2], [3, 4]], None, None),
    "blanks": ("  1   2\n3 4  \n", [[1, 2], [3, 4]], None, None),
    "one column": ("1\n-2e3\n", [[1], [-2000]], None, None),
    "one column below words": ("size; in m, say\n1\n2\n", [[1], [2]], ("size; in m, say",), None),
    "one number": ("7", [[7]], None, None),
    "one row": ("1,2,3\n", [[1, 2, 3]], None, None),
    "comments": ("# made by\n1,2\n\n#3,4\n5,6\n", [[1, 2], [5, 6]], None, None),
    "header": ("a,b\n1,2\n", [[1, 2]], ("a", "b"), None),
    "header of one": ("size\n1\n2\n", [[1], [2]], ("size",), None),
    "quoted": ('"a, b","say ""c"""\n"1",2\n', [[1, 2]], ("a, b", 'say "c"'), None),
    "quoted blanks": ('"a b" c\n1 2\n', [[1, 2]], ("a b", "c"), None),
    "labels": ("x,1,2\ny,3,4\n", [[1, 2], [3, 4]], None, ("x", "y")),
    "dates": (
        "day,A,B\n2020-01-02,1,2\n2020-01-03,3,4\n",
        [[1, 2], [3, 4]],
        ("A", "B"),
        ("2020-01-02", "2020-01-03"),
    ),
    "times": ("t,A\n2020-01-02 00:00:00,1\n2020-01-02 01:00:00,2\n", [[1], [2]], ("A",), None),
    "commas in labels": ("n;v\na,b;1\nc,d;2\n", [[1], [2]], ("v",), ("a,b", "c,d")),
    "semicolons in labels": ("n,v\na;b,1\nc;d,2\n", [[1], [2]], ("v",), ("a;b", "c;d")),
    "pandas": (",a,b\n0,1,2\n1,3,4\n", [[1, 2], [3, 4]], ("a", "b"), ("0", "1")),
    "pandas without names": (",0,1\n0,5,2\n1,3,4\n", [[5, 2], [3, 4]], ("0", "1"), ("0", "1")),
    "R": ('"a" "b"\n"1" 5 2\n"2" 3 4\n', [[5, 2], [3, 4]], ("a", "b"), ("1", "2")),
    "decimal comma, quoted no number": ("a;b\n1.5;2\n", [[1.5, 2]], ("a", "b"), None),
    "underscores in labels": ("x_1,1\nñ,2\n", [[1], [2]], None, ("x_1", "ñ")),
}


@pytest.mark.parametrize("label", TABLES)
def test_tables(label, tmp_path):
    content, values, columns, rows = TABLES[label]
    for name, packed in ("some.csv", False), ("some.csv.gz", True), ("some", True):
        raw = content.encode()
        path = put(tmp_path, name, gzip.compress(raw) if packed else raw)
        table = files.read_table(path)
        assert table.values.tolist() == values
        assert table.values.dtype == float
        assert table.columns == columns
        if label != "times":
            assert table.rows == rows
        assert table.name == "some"


WRONG_TABLES = {
    "empty": ("", "it is empty: give rows"),
    "comments only": ("# a\n\n", "it is empty"),
    "header only": ("a,b\n", "it has a header only: give rows"),
    "words": ("a,b\nc,d\n", r"line 2, column 2 \('b'\): 'd' is not a number"),
    "words in one column": ("a\nb\n", "line 2: 'b' is not a number"),
    "short row": ("1,2\n3\n", "line 2: the row has 1 cells, the rows before have 2"),
    "long row": ("1,2\n3,4\n5,6,7\n", "line 3: the row has 3 cells"),
    "long header": ("a,b,c\n1,2\n", "line 2: the row has 2 cells, the header has 3"),
    "text": ("a,b\n1,2\n3,x\n", r"line 3, column 2 \('b'\): 'x' is not a number"),
    "text in the first row": ("1,2,x,4\n", "line 1, column 3: 'x'"),
    "empty cell": ("a,b\n1,\n2,3\n", r"line 2, column 2 \('b'\): the cell is empty: fill it in"),
    "nan": ("1,2\n3,NaN\n", "line 2, column 2: 'NaN' is not a finite number"),
    "NA": ("1,2\n3,NA\n", "line 2, column 2: 'NA' is not a finite"),
    "infinite": ("1,2\n3,-inf\n", "line 2, column 2: '-inf' is not a finite"),
    "too large": ("1,2\n3,1e999\n", "line 2, column 2: '1e999' is not a finite"),
    "decimal comma": ("1,5;2,5\n3,5;4,5\n", "line 1, column 1: '1,5' .*decimals with a point"),
    "decimal comma once": ("1;2\n3;4,5\n", "line 2, column 2: '4,5'.*with a point"),
    "decimal comma first": ("1,5;2\n3,5;4\n", "line 1, column 1: '1,5' is neither.*with a point"),
    "decimal comma and labels": ("a;1,5\nb;2,5\n", "line 1, column 2: '1,5'.*with a point"),
    "decimal comma and header": ("n;v\na;1,5\nb;2,5\n", "line 2, column 2 .*: '1,5'.*a point"),
    "decimal comma and tabs": ("a\t1,5\nb\t2,5\n", "line 1, column 2: '1,5'.*with a point"),
    "thousands": ('"a","b"\n1,"1,234"\n', "'1,234' is not a number: .*without a comma"),
    "underscore": ("1,1_000\n", "'1_000' is not a number"),
    "other digits": ("1,\u0663\n", "is not a number"),
    "label among numbers": ("1,2\nx,3\n", "line 2, column 1: 'x' is not a number"),
    "number among labels": ("x,2\n7,3\n", "line 2, column 1: '7' stands where .* words"),
    "two words and a decimal comma": ("a;x;1\nb;x;2,5\n", "line 2, column 1: 'b;x;2' is neither"),
    "two numbers in a cell": ("1 2;3\n4 5;6\n", "line 1, column 1: '1 2' is neither"),
    "open quote": ('1,2\n"3,4\n', "line 2: .*cannot be split"),
}


@pytest.mark.parametrize("label", WRONG_TABLES)
def test_wrong_tables(label, tmp_path):
    content, words = WRONG_TABLES[label]
    path = put(tmp_path, "wrong.csv", content)
    assert f"data file {str(path)!r}" in refused(lambda: files.read_table(path), words)


def test_decimal_commas_between_blanks(tmp_path):
    for text in "1 2,5\n3 4,5\n", "a 1,5\nb 2,5\n":
        path = put(tmp_path, "wrong.txt", text)
        refused(lambda path=path: files.read_table(path), "column 2: .*decimals with a point")
    table = files.read_table(put(tmp_path, "fine.csv", "row 1,5\nrow 2,6\n"))
    assert (table.rows, table.values.tolist()) == (("row 1", "row 2"), [[5], [6]])


def test_missing_cells_where_they_may_be(tmp_path):
    path = put(tmp_path, "gaps.csv", "who,a,b,c\nx,1,,3\ny,NA,inf,nan\nz,,,\n")
    table = files.read_table(path, missing=True)
    np.testing.assert_array_equal(table.values, [[1, NAN, 3], [NAN] * 3, [NAN] * 3])
    assert table.rows == ("x", "y", "z")
    np.save(tmp_path / "gaps.npy", [[1.0, NAN], [np.inf, 2.0]])
    values = files.read_table(tmp_path / "gaps.npy", missing=True).values
    np.testing.assert_array_equal(values, [[1, NAN], [NAN, 2]])


def test_tables_that_are_turned_or_too_small(tmp_path):
    path = put(tmp_path, "some.csv", "day,A,B\nmo,1,2\ntu,3,4\nwe,5,6\n")
    table = files.read_table(path, transpose=True, at_least_rows=2, at_least_columns=3)
    assert table.values.tolist() == [[1, 3, 5], [2, 4, 6]]
    assert (table.rows, table.columns) == (("A", "B"), ("mo", "tu", "we"))
    refused(lambda: files.read_table(path, at_least_rows=4), "has 3 rows of num.*at least 4")
    refused(lambda: files.read_table(path, at_least_columns=3), "has 2 columns.*transpose")
    refused(lambda: files.read_table(path, key="x"), "no key 'x': leave")


# Arrays


def test_files_of_arrays(tmp_path):
    values = np.arange(6.0).reshape(2, 3) - 2.5
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "turned.npy", np.asfortranarray(values))
    np.save(tmp_path / "noname", values)
    (tmp_path / "noname.npy").rename(tmp_path / "noname")
    np.savez(tmp_path / "a.npz", values)
    np.savez_compressed(tmp_path / "packed.npz", a=values, b=np.eye(2), words=np.array(["x"]))
    scipy.io.savemat(tmp_path / "a.mat", {"a": values, "b": np.eye(2)})
    scipy.io.savemat(tmp_path / "packed.mat", {"a": values}, do_compression=True)
    for layout in "csr", "csc", "coo":
        matrix = scipy.sparse.coo_array(values).asformat(layout)
        scipy.sparse.save_npz(tmp_path / f"{layout}.npz", matrix, compressed=layout == "csr")
    scipy.io.savemat(tmp_path / "sparse.mat", {"a": scipy.sparse.csc_array(values)})
    names = ["a.npy", "turned.npy", "noname", "a.npz", "packed.npz", "a.mat", "packed.mat"]
    for name in [*names, "csr.npz", "csc.npz", "coo.npz", "sparse.mat"]:
        key = "a" if name in ("packed.npz", "a.mat") else None
        packed = put(tmp_path, f"{name}.gz", gzip.compress((tmp_path / name).read_bytes()))
        for path in tmp_path / name, packed:
            table = files.read_table(path, key=key)
            np.testing.assert_array_equal(table.values, values)
            assert table.values.flags.writeable
            assert table.name == name.partition(".")[0]
    for kind in "?", "i1", "u2", ">i4", "f2", ">f8", "f4":
        np.save(tmp_path / "kind.npy", np.ones((2, 2), kind))
        scipy.io.savemat(tmp_path / "kind.mat", {"a": np.ones((2, 2), kind)})
        for name in "kind.npy", "kind.mat" if kind != "f2" else "kind.npy":
            assert files.read_table(tmp_path / name).values.tolist() == [[1.0, 1.0]] * 2
    refused(lambda: files.read_table(tmp_path / "packed.npz"), "holds a, b, words: name one by a k")
    refused(lambda: files.read_table(tmp_path / "a.mat", key="c"), "has no 'c': it holds a, b")
    refused(lambda: files.read_table(tmp_path / "packed.npz", key="words"), "words.*<U1.*real")
    refused(lambda: files.read_table(tmp_path / "a.npy", key="a"), "no key 'a'")


def npy(shape, kind="<f8", content=b"\0" * 64):
    file = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


def npz(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def mat(**held):
    file = io.BytesIO()
    scipy.io.savemat(file, held)
    return file.getvalue()


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def sparse(layout="csr", shape=(2, 2), data=(1.0,), indices=(0,), indptr=(0, 1, 1)):
    parts = {"format": np.array(layout.encode()), "shape": np.array(shape)}
    parts |= {"data": np.array(data), "indices": np.array(indices), "indptr": np.array(indptr)}
    return npz(**{name: saved(part) for name, part in parts.items()})


WRONG_ARRAYS = {
    "garbage.npy": (b"garbage", "no .npy file inside"),
    "garbage.npy.gz": (gzip.compress(b"garbage"), "no .npy file inside"),
    "many.npy.gz": (gzip.compress(npy((10**9, 100))), r"promises .* but 64 bytes follow"),
    "cut.npy.gz": (gzip.compress(npy((2, 4)))[:-9], "cannot be unpacked .*fetch or pack it"),
    "plain.npy.gz": (npy((2, 2, 2)), r"shape \(2, 2, 2\)"),
    "x.parquet.gz": (gzip.compress(b"PAR1PAR1"), "a packed .parquet file: unpack it"),
    "empty.npz": (b"", "no .npz file inside"),
    "old.mat": (b"\0\0\0\0 version 4", "no .mat file inside.*-v7"),
    "many.npy": (npy((10**9, 100)), r"promises numbers of shape .* but 64 bytes follow"),
    "huge.npy": (npy((2**40, 2**40)), "promises"),
    "negative.npy": (npy((-1, 4)), "promises"),
    "cut.npy": (npy((2, 4))[:-1], "promises .* but 63 bytes"),
    "head.npy": (npy((2, 4))[:20], "cannot be read as numbers"),
    "complex.npy": (npy((2, 2), "<c16"), "holds complex128: save real numbers"),
    "object.npy": (npy((2, 2), "|O"), "holds object: save real"),
    "text.npy": (npy((2, 2), "<U4"), "holds <U4: save real"),
    "dates.npy": (npy((2, 2), "<M8[D]"), "holds datetime64"),
    "fields.npy": (npy((2,), [("a", "<f8")]), "holds .*save real"),
    "flat.npy": (npy((8,)), r"shape \(8,\): rows of numbers"),
    "none.npy": (npy((0, 8)), r"shape \(0, 8\)"),
    "deep.npy": (npy((2, 2, 2)), r"shape \(2, 2, 2\)"),
    "nan.npy": (saved([[1.0, NAN]]), "1 numbers are NaN.*row 1, column 2, counted from 1: fill"),
    "many.npz": (npz(a=npy((10**9, 100))), "its array 'a' promises"),
    "sheet.xlsx": (npz()[:0] + npz(), "archive without arrays.*spreadsheet as CSV"),
    "cut.npz": (npz(a=saved(np.eye(9)))[:99], "cannot be read as numbers"),
    "table.h5": (b"\x89HDF\r\n\x1a\n" + b"0" * 99, "HDF5 file"),
    "new.mat": (b"MATLAB 7.3 MAT-file" + b" " * 200, "version 7.3: save it with -v7"),
    "cut.mat": (mat(a=np.eye(5))[:200], "cannot be read as numbers"),
    "text.mat": (mat(a="words"), "holds text: save real"),
    "complex.mat": (mat(a=np.eye(2) * 1j), "holds complex"),
    "struct.mat": (mat(a={"b": 1}), "holds a struct"),
    "none.mat": (mat(), "it holds nothing"),
    "layout.npz": (sparse("dia"), "format 'dia': save it as csr"),
    "wide.npz": (sparse(shape=(2, 10**9)), "shape .* but 1 entries: leave"),
    "tall.npz": (sparse(shape=(10**6, 10**6), indptr=(0, *[1] * 10**6)), "too large with all"),
    "outside.npz": (sparse(indices=(2,)), "outside of the matrix"),
    "below.npz": (sparse(indices=(-1,)), "outside of the matrix"),
    "starts.npz": (sparse(indptr=(0, 10**6, 0)), "starts .* wrong"),
    "short.npz": (sparse(indptr=(0, 1)), "starts .* wrong"),
    "past.npz": (sparse(indptr=(0, 1, 2)), "starts .* wrong"),
}


@pytest.mark.parametrize("name", WRONG_ARRAYS)
def test_wrong_files_of_arrays(name, tmp_path):
    content, words = WRONG_ARRAYS[name]
    path = put(tmp_path, name, content)
    assert f"data file {str(path)!r}" in refused(lambda: files.read_table(path), words)


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "pickled.npy"
    np.save(path, np.array([[print]], dtype=object), allow_pickle=True)
    refused(lambda: files.read_table(path), "holds object")
    np.savez(tmp_path / "pickled.npz", a=np.array([[print]], dtype=object))
    refused(lambda: files.read_table(tmp_path / "pickled.npz"), "holds object")


def test_an_archive_that_unpacks_beyond_measure(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "zeros.npz", a=np.zeros((300, 300)))
    scipy.io.savemat(tmp_path / "zeros.mat", {"a": np.zeros((300, 300))}, do_compression=True)
    put(tmp_path, "zeros.npy.gz", gzip.compress(saved(np.zeros((300, 300)))))
    names = "zeros.npz", "zeros.mat", "zeros.npy.gz"
    for name in names:
        assert files.read_table(tmp_path / name).values.shape == (300, 300)
    monkeypatch.setattr(_text, "RATIO_COUNTS_FROM", 2**16)
    for name in names:
        refused(lambda name=name: files.read_table(tmp_path / name), "200 times")


class Column:
    def __init__(self, values):
        self.values = np.array(values)

    def to_numpy(self):
        return self.values


def fake_pyarrow(monkeypatch, columns, index=()):
    """Stands in for the package, which is optional, with one table."""

    class ParquetFile:
        metadata = types.SimpleNamespace(num_rows=2, num_columns=len(columns))

        def __init__(self, path):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def read(self):
            schema = types.SimpleNamespace(pandas_metadata={"index_columns": list(index)})
            return types.SimpleNamespace(
                schema=schema, column_names=list(columns), column=lambda name: Column(columns[name])
            )

    parquet = types.SimpleNamespace(ParquetFile=ParquetFile)
    monkeypatch.setitem(sys.modules, "pyarrow", types.SimpleNamespace(parquet=parquet))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)


def test_parquet(tmp_path, monkeypatch):
    path = put(tmp_path, "some.parquet", b"PAR1")
    fake_pyarrow(monkeypatch, {"name": ["x", "y"], "a": [1.0, 2.0], "b": [3, 4]})
    table = files.read_table(path)
    assert (table.rows, table.columns) == (("x", "y"), ("a", "b"))
    assert table.values.tolist() == [[1, 3], [2, 4]]
    days = np.array(["2020-01-02", "2020-01-03"], dtype="M8[D]")
    fake_pyarrow(monkeypatch, {"a": [1.0, NAN], "day": days}, ["day", {"kind": "range"}])
    table = files.read_table(path, missing=True)
    assert (table.rows, table.columns) == (("2020-01-02", "2020-01-03"), ("a",))
    refused(lambda: files.read_table(path), r"row 2, column 1 \('a'\)")
    fake_pyarrow(monkeypatch, {"a": [1.0, 2.0], "b": ["x", "y"]})
    refused(lambda: files.read_table(path), "column 'b' holds <U1")
    fake_pyarrow(monkeypatch, {"b": ["x", "y"]})
    refused(lambda: files.read_table(path), "no column of numbers")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = put(tmp_path, "some.parquet", b"PAR1")
    with pytest.raises(fw.MissingDependencyError, match="pip install pyarrow"):
        files.read_table(path)


# Ratings

LISTS = {
    "comma": "ann,Heat,4\nbob,Heat,2.5\nann,Ran,5\n",
    "header": "user,item,rating (0-5)\nann,Heat,4\nbob,Heat,2.5\nann,Ran,5\n",
    "times": "u,i,r,t\nann,Heat,4,99\nbob,Heat,2.5,now\nann,Ran,5,\n",
    "MovieLens": "ann::Heat::4::99\nbob::Heat::2.5::98\nann::Ran::5::97\n",
    "tab": "ann\tHeat\t4\nbob\tHeat\t2.5\nann\tRan\t5\n",
    "blanks": "# ratings\nann Heat 4\nbob  Heat 2.5\n\nann Ran 5\n",
    "semicolon": "ann;Heat;4\nbob;Heat;2.5\nann;Ran;5\n",
    "quoted": '"ann","Heat",4\n"bob","Heat",2.5\n"ann","Ran",5\n',
}


@pytest.mark.parametrize("label", LISTS)
def test_lists_of_ratings(label, tmp_path):
    for packed in False, True:
        raw = LISTS[label].encode()
        path = put(tmp_path, "some.dat", gzip.compress(raw) if packed else raw)
        found = files.read_ratings(path)
        assert (found.row_names, found.column_names) == (("ann", "bob"), ("Heat", "Ran"))
        assert (found.rows.tolist(), found.columns.tolist()) == ([0, 1, 0], [0, 0, 1])
        assert found.values.tolist() == [4, 2.5, 5]
        assert (found.name, found.shape) == ("some", (2, 2))


def test_whole_numbers_are_sorted_and_names_are_not(tmp_path):
    path = put(tmp_path, "a.csv", "10,b,1\n9,a,2\n100,b,3\n")
    found = files.read_ratings(path)
    assert (found.row_names, found.column_names) == (("9", "10", "100"), ("b", "a"))
    assert (found.rows.tolist(), found.columns.tolist()) == ([1, 0, 2], [0, 1, 0])


def test_names_with_delimiters_in_them(tmp_path):
    path = put(tmp_path, "a.csv", 'u,i,r\nann,"Me, myself; I",4\nbob,"You; her",3\n')
    assert files.read_ratings(path).column_names == ("Me, myself; I", "You; her")
    path = put(tmp_path, "a.dat", '1::Say "hi", he said::4::9\n2::Ran (1985)::3::9\n')
    assert files.read_ratings(path).column_names == ('Say "hi", he said', "Ran (1985)")


def test_matrices_of_ratings(tmp_path):
    wide = put(tmp_path, "wide.csv", "who,Heat,Ran,Ikiru,Up\nann,4,,,0\nbob,2.5,NA,3,\n")
    found = files.read_ratings(wide)
    assert found.row_names == ("ann", "bob")
    assert found.column_names == ("Heat", "Ran", "Ikiru", "Up")
    assert (found.rows.tolist(), found.columns.tolist()) == ([0, 0, 1, 1], [0, 3, 0, 2])
    assert found.values.tolist() == [4, 0, 2.5, 3]
    np.save(tmp_path / "m.npy", [[4.0, NAN], [0.0, 1.0]])
    found = files.read_ratings(tmp_path / "m.npy")
    assert (found.rows.tolist(), found.columns.tolist()) == ([0, 1, 1], [0, 0, 1])
    assert (found.values.tolist(), found.row_names) == ([4, 0, 1], ("0", "1"))
    scipy.sparse.save_npz(tmp_path / "m.npz", scipy.sparse.csr_array([[0.0, 2.0], [0.0, 0.0]]))
    found = files.read_ratings(tmp_path / "m.npz")
    assert (found.rows.tolist(), found.columns.tolist(), found.shape) == ([0], [1], (2, 2))
    np.save(tmp_path / "n.npy", [[NAN, NAN]])
    refused(lambda: files.read_ratings(tmp_path / "n.npy"), "no known entry")
    np.save(tmp_path / "n.npy", [[NAN, np.inf]])
    refused(lambda: files.read_ratings(tmp_path / "n.npy"), "NaN or infinite")


WRONG_RATINGS = {
    "empty": ("", "it is empty: give lines `user,item,rating`"),
    "header only": ("user,item,rating\n", "header only"),
    "twice": ("a,x,1\nb,x,2\n\na,x,1\n", "line 4: user 'a' has rated item 'x' on line 1 too: keep"),
    "text": ("u,i,r\na,x,1\nb,x,good\n", "line 3, column 3: the rating 'good' is not a finite"),
    "text with a digit, first": ("a,x,5stars\nb,x,1\n", "line 1, column 3: the rating '5stars'"),
    "text between numbers, first": ("1,7,good\n2,7,1\n", "line 1, column 3: the rating 'good'"),
    "empty rating": ("a,x,\nb,x,1\n", "line 1, column 3: the rating ''"),
    "nan": ("a,x,1\nb,x,nan\n", "line 2, column 3: the rating 'nan'"),
    "short": ("a,x,1\nb,x\nc,x,2\n", "line 2: the line has 2 cells, the lines before have 3"),
    "no user": ("a,x,1\n,x,2\n", "line 2: the user or the item is empty"),
    "decimal comma": ("a;x;1\nb;x;2,5\n", "line 2, column 3: the rating '2,5'"),
    "matrix": ("1,2,3,4,5\n1,2,3,4,x\n", "line 2, column 5: 'x' is not a number"),
}


@pytest.mark.parametrize("label", WRONG_RATINGS)
def test_wrong_ratings(label, tmp_path):
    content, words = WRONG_RATINGS[label]
    path = put(tmp_path, "wrong.csv", content)
    assert f"rating file {str(path)!r}" in refused(lambda: files.read_ratings(path), words)
    refused(lambda: files.read_ratings(path, key="a"), "no key 'a'")


# Graphs

PATH = {(0, 1): 1.0, (1, 2): 0.5}  # as most of these write it
MARKET = "%%MatrixMarket matrix coordinate"
GRAPHS = {
    "blanks": "1 2\n2 3 0.5\n",
    "from 0": "0 1\n1 2 0.5\n",
    "commas": "1,2,1\n3, 2, .5\n",
    "semicolons": "1;2;1\n2;3;0.5\n",
    "tabs": "1\t2\t1\n2\t\t3\t0.5\n",
    "comments": "# a\n% b\n// c\n1 2 # d\n\n2 3 0.5 // e\n",
    "header": "source,target,weight\n1,2,1\n2,3,0.5\n",
    "other header": "a b\n1 2\n2 3 0.5\n",
    "Gephi": "Source,Target,Type,Weight\n1,2,Undirected,1\n2,3,Undirected,0.5\n",
    "times": "1 2 1 99\n2 3 0.5 98\n",
    "both directions": "1 2\n2 1\n2 3 0.5\n3 2 .5\n2 3 5e-1\n",
    "whole numbers as savetxt writes them": "1.0e+00 2.0e+00 1\n2.0 3.0 0.5\n",
    "Gset": "3 2\n1 2 1\n2 3 0.5\n",
    "symmetric": f"{MARKET} real symmetric\n% c\n3 3 2\n2 1 1\n3 2 0.5\n",
    "general": f"{MARKET} real general\n3 3 5\n2 1 1\n1 2 1\n3 2 0.5\n2 3 0.5\n1 3 0\n",
    "upper case": "%%MatrixMarket Matrix Coordinate Real Symmetric\n3 3 2\n2 1 1\n3 2 0.5\n",
    "DIMACS": "c made by\nc\np edge 3 2\ne 1 2\n\ne 3 2 .5\n",
    "DIMACS, twice": "p col 3 2\nn 1 5\ne 1 2\ne 2 1\ne 2 3 .5\ne 3 2 .5\n",
    "DIMACS, promised twice": "p edge 3 4\ne 1 2\ne 2 3 .5\n",
    "DIMACS arcs": "c 3 nodes\np sp 3 4\na 1 2 1\na 2 1 1\na 2 3 .5\na 3 2 .5\n",
    "METIS": "% c\n3 2 1\n2 1\n1 1 3 .5\n2 .5\n\n",
    "METIS 11": "3 2 11\n7 2 1\n7 1 1 3 .5\n7 2 .5\n",
    "METIS 111 2": "3 2 111 2\n9 7 8 2 1\n9 7 8 1 1 3 .5\n9 7 8 2 .5\n",
}


def edges_of(graph):
    upper = scipy.sparse.triu(graph.adjacency).tocoo()
    places = zip(*(place.tolist() for place in upper.coords), strict=True)
    return dict(zip(places, upper.data.tolist(), strict=True))


@pytest.mark.parametrize("label", GRAPHS)
def test_graphs(label, tmp_path):
    raw = GRAPHS[label].encode()
    names = {"x.edges": raw, "x.gz": gzip.compress(raw), "x": raw.replace(b"\n", b"\r\n")}
    if "METIS" in label:
        names = {"x.graph": raw, "x.graph.gz": gzip.compress(raw)}
    for name, content in names.items():
        graph = fw.graphs.read_graph(put(tmp_path, name, content))
        assert (graph.nodes, edges_of(graph)) == (3, PATH)
        assert (graph.name, graph.names) == ("x", None)


NAMED = {
    "plain": "ann bob\nbob cyd 0.5\n",
    "weights": "ann,bob,1\nbob,cyd,0.5\n",
    "header": "from,to,weight\nann,bob,1\nbob,cyd,0.5\n",
    "header and no weight": "Source\tTarget\nann\tbob\ncyd\tbob\t0.5\n",
    "header by its weight": "who\twhom\thow\nann\tbob\t1\nbob\tcyd\t0.5\n",
}


@pytest.mark.parametrize("label", NAMED)
def test_graphs_with_names(label, tmp_path):
    graph = fw.graphs.read_graph(put(tmp_path, "x.csv", NAMED[label]))
    assert graph.names == ("ann", "bob", "cyd")
    assert edges_of(graph) == PATH


def test_names_with_blanks(tmp_path):
    path = put(tmp_path, "x.tsv", "New York\tRio\nRio\tThe Hague\n")
    assert fw.graphs.read_graph(path).names == ("New York", "Rio", "The Hague")
    path = put(tmp_path, "x.csv", '"York, New",Rio\n')
    assert fw.graphs.read_graph(path).names == ("York, New", "Rio")
    path = put(tmp_path, "x.txt", "C# F#\nhttp://a nan\n")
    assert fw.graphs.read_graph(path).names == ("C#", "F#", "http://a", "nan")


def test_metis_is_known_by_its_numbers(tmp_path):
    star = put(tmp_path, "star", "5 4\n2 3 4 5\n1\n1\n1\n1\n")
    assert fw.graphs.read_graph(star).edges == 4
    lonely = put(tmp_path, "lonely.graph", "4 1 0\n3\n\n1\n\n")
    graph = fw.graphs.read_graph(lonely)
    assert (graph.nodes, edges_of(graph)) == (4, {(0, 2): 1.0})


def test_where_nodes_count_from(tmp_path):
    path = put(tmp_path, "x.edges", "1 2\n2 3\n")
    assert fw.graphs.read_graph(path, one_based=True).nodes == 3
    assert fw.graphs.read_graph(path, one_based=False).nodes == 4
    path = put(tmp_path, "x.edges", "1 2\n0 3\n")
    refused(lambda: fw.graphs.read_graph(path, one_based=True), "line 2: node 0 .*leave one_based")
    path = put(tmp_path, "x.edges", "9 2\n1 2 5\n2 3 5\n")
    assert fw.graphs.read_graph(path, one_based=False).edges == 3  # no header then: an edge 9 2
    texts = [("x.graph", "2 1\n2\n1\n"), ("x.edges", "ann bob\n"), ("x.mtx", MARKET)]
    for name, text in [*texts, ("x.col", "p edge 2 1\ne 1 2\n")]:
        path = put(tmp_path, name, text)
        refused(lambda path=path: fw.graphs.read_graph(path, one_based=True), "leave one_based out")


def test_graphs_as_matrices(tmp_path):
    matrix = np.array([[0, 1, 0], [1, 0, 0.5], [0, 0.5, 0]])
    np.save(tmp_path / "x.npy", matrix)
    np.savez(tmp_path / "x.npz", adjacency=matrix, other=np.eye(2))
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_array(matrix))
    scipy.io.savemat(tmp_path / "x.mat", {"A": scipy.sparse.csc_array(matrix), "D": np.eye(3)})
    for name in "x.npy", "x.npz", "sparse.npz", "x.mat":
        graph = fw.graphs.read_graph(tmp_path / name)
        assert (graph.nodes, edges_of(graph)) == (3, PATH)
    for label, wrong, words in [
        ("shape", np.ones((2, 3)), r"shape \(2, 3\): save a square"),
        ("nan", np.array([[0, NAN], [NAN, 0]]), "NaN or infinite"),
        ("apart", np.triu(matrix), r"not symmetric: entry \(0, 1\).* is 1, and \(1, 0\) is 0"),
        ("none", np.zeros((2, 2)), "has no edges"),
        ("complex", matrix * 1j, "holds complex"),
    ]:
        np.save(tmp_path / f"{label}.npy", wrong)
        refused(lambda label=label: fw.graphs.read_graph(tmp_path / f"{label}.npy"), words)
    np.savez(tmp_path / "two.npz", a=matrix, b=matrix)
    refused(lambda: fw.graphs.read_graph(tmp_path / "two.npz"), "holds a, b: call one of them 'A'")
    np.save(tmp_path / "x.npy", matrix)
    refused(lambda: fw.graphs.read_graph(tmp_path / "x.npy", one_based=True), "leave one_based")


def test_loops_are_dropped_with_a_warning(tmp_path):
    texts = {
        "x.edges": "1 1\n1 2\n",
        "x.mtx": f"{MARKET} pattern symmetric\n2 2 2\n1 1\n2 1\n",
        "x.graph": "2 2\n1 2\n1\n",
    }
    for name, text in texts.items():
        path = put(tmp_path, name, text)
        with pytest.warns(fw.MostFWWarning, match="1 self loops were dropped"):
            assert fw.graphs.read_graph(path).edges == 1


WRONG_GRAPHS = {
    "empty": ("x", "", "has no edges"),
    "comments": ("x", "# a\n\n% b\n", "has no edges"),
    "header only": ("x", "source target\n", "has no edges"),
    "one cell": ("x", "1 2\n3\n", "line 2: '3' is not an edge"),
    "text node": ("x", "1 2\n# fine\n2 a\n", "line 3: '2 a' is not an edge.*names for nodes from"),
    "fraction": ("x", "1 2\n2 1.5\n", "line 2: '2 1.5' is not an edge"),
    "negative": ("x", "1 2\n2 -3\n", "line 2: a node is negative: number the nodes 0"),
    "text weight": ("x", "1 2 heavy\n", "line 1: '1 2 heavy' is not an edge"),
    "text weight of names": ("x", "a b 1\nb c heavy\n", "line 2: 'b c heavy' is not an edge"),
    "nan": ("x", "1 2 1\n2 3 nan\n", "line 2: the weight is 'nan': give a finite"),
    "infinite": ("x", "1 2 1\n2 3 1e999\n", "line 2: the weight is '1e999'"),
    "decimal comma": ("x", "1 2 0,5\n", "line 1: .* is not an edge"),
    "decimal comma, semicolons": ("x", "1;2;0,5\n", "line 1: '1;2;0,5' is not an edge"),
    "two weights": ("x", "1 2 1\n2 3 1\n2 1 5\n", "line 3: the edge 2 1 .* 5, .* line 1 it has 1"),
    "two weights of names": ("x", "a b 1\nb a 2\n", "line 2: the edge b a has weight 2.*line 1"),
    "widths": ("x", "1 2 1 9\n2 3 1\n", "line 2: the row has 3 cells, those before have 4"),
    "matrix": ("x", "0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n", "line 1: the 4 rows .*read_table"),
    "gap": ("x", "1 2\n1 1000000000\n", "line 2: there is node number 1000000000, but only 2"),
    "large": ("x", f"1 2\n1 {10**30}\n", "line 2: node 10+ is too large"),
    "Gset promise": ("x", "3 5\n1 2 1\n2 3 1\n", "line 1: the line promises 5 edges, but 2 follow"),
    "Gset nodes": ("x", "1000000000 2\n1 2 1\n2 3 1\n", "line 1: there are 1000000000 nodes for 2"),
    "DIMACS flow": ("x", "p max 3 2\na 1 2 5\n", "line 1: .* of DIMACS' that is not read: give"),
    "DIMACS size": ("x", "c\np edge 3\ne 1 2\n", "line 2: 'p edge 3' is not the problem line: gi"),
    "DIMACS nodes": ("x", f"p edge {10**9} 1\ne 1 2\n", "line 1: there are .* nodes for 1 edges"),
    "DIMACS range": ("x", "p edge 3 2\ne 1 4\n", "line 2: '4' is not a node: give .* 1 to 3"),
    "DIMACS word": ("x", "p edge 3 1\nc e\ne 1 x\n", "line 3: 'x' is not a node"),
    "DIMACS line": ("x", "p edge 3 1\n1 2\n", "line 2: '1 2' is no line `e u v`: correct"),
    "DIMACS arc": ("x", "p sp 3 1\na 1 2\n", "line 2: 'a 1 2' is no line `a u v weight`"),
    "DIMACS cut": ("x", "p edge 3 5\ne 1 2\n", "1 edges are there, but 5 are promised: complete"),
    "DIMACS nan": ("x", "p sp 3 1\na 1 2 nan\n", "line 2: the weight is 'nan'"),
    "DIMACS two weights": ("x", "p sp 2 2\na 1 2 3\na 2 1 4\n", "line 3: the edge 2 1 has weight"),
    "DIMACS empty": ("x", "p edge 3 0\n", "has no edges"),
    "quote": ("x.csv", '"a,b\n', "cannot be split"),
    "market array": ("x", "%%MatrixMarket matrix array real general\n2 2\n", "line 1: .*no graph"),
    "market complex": ("x", f"{MARKET} complex general\n", "line 1: .*no graph.*save it as"),
    "market without size": ("x", f"{MARKET} real general\n% c\n", "line 2: '' is not the size"),
    "market size": ("x", f"{MARKET} real general\n3 3\n", "line 2: '3 3' is not the size"),
    "market shape": ("x", f"{MARKET} real general\n3 4 1\n", "3 rows and 4 columns.*square"),
    "market large": ("x", f"{MARKET} real general\n{10**9} {10**9} 1\n", "line 2: .* nodes for 1"),
    "market range": ("x", f"{MARKET} real symmetric\n2 2 1\n3 1 1\n", "line 3: '3' is not a node"),
    "market zero": ("x", f"{MARKET} real symmetric\n2 2 1\n0 1 1\n", "'0' .* from 1 to 2"),
    "market entry": ("x", f"{MARKET} real symmetric\n2 2 1\n2 1\n", "line 3: .*and a weight"),
    "market pattern": ("x", f"{MARKET} pattern symmetric\n2 2 1\n2 1 1\n", "give two node numbers"),
    "market weight": ("x", f"{MARKET} real symmetric\n2 2 1\n2 1 a\n", "line 3: '2 1 a'"),
    "market nan": ("x", f"{MARKET} real symmetric\n2 2 1\n2 1 nan\n", "weight is 'nan'"),
    "market cut": ("x", f"{MARKET} real symmetric\n2 2 2\n2 1 1\n", "1 entries .* 2 are promised"),
    "market one way": (
        "x",
        f"{MARKET} real general\n2 2 1\n2 1 1\n",
        "line 3: there is 2 1, but no",
    ),
    "market differs": (
        "x",
        f"{MARKET} real general\n2 2 2\n2 1 1\n1 2 3\n",
        "line 4: the edge 1 2 has weight 3, and on line 3 it has 1",
    ),
    "market empty": ("x", f"{MARKET} real general\n2 2 0\n", "has no edges"),
    "METIS words": ("x.graph", "a b\n", "line 1: 'a b' is not the first line of a METIS.*.edges"),
    "METIS empty": ("x.graph", "", "is not the first line"),
    "METIS layout": ("x.graph", "2 1 7\n2\n1\n", "is not the first line"),
    "METIS cut": ("x.graph", "3 2\n2\n1 3\n", "2 lines of neighbours are there, but 3"),
    "METIS long": ("x.graph", "2 1\n2\n1\n1\n", "3 lines of neighbours are there, but 2"),
    "METIS edges": ("x.graph", "2 5\n2\n1\n", "2 neighbours, but 5 edges are promised"),
    "METIS range": ("x.graph", "2 1\n2\n3\n", "line 3: '3' is not a node: give .* from 1 to 2"),
    "METIS negative": ("x.graph", "2 1\n2\n-1\n", "line 3: '-1' is not a node"),
    "METIS large": ("x.graph", "1000000000 1\n2\n1\n", "line 1: there are 1000000000 nodes for 1"),
    "METIS one way": ("x.graph", "3 2\n2\n1 3\n\n", "line 3: there is 2 3, but no 3 2"),
    "METIS weight": ("x.graph", "2 1 1\n2\n1 1\n", "line 2: a neighbour has no weight"),
    "METIS differs": ("x.graph", "2 1 1\n2 5\n1 6\n", "line 3: the edge 2 1 has weight 6.*line 2"),
    "METIS node": ("x.graph", "2 1 10 2\n1\n1 1 1\n", "line 2: the line has 1 numbers: give the 2"),
    "METIS without edges": ("x.graph", "2 0\n\n\n", "has no edges"),
}


@pytest.mark.parametrize("label", WRONG_GRAPHS)
def test_wrong_graphs(label, tmp_path):
    name, content, words = WRONG_GRAPHS[label]
    path = put(tmp_path, name, content)
    assert f"graph file {str(path)!r}" in refused(lambda: fw.graphs.read_graph(path), words)


def test_edges_in_memory_have_one_weight():
    assert fw.graphs.as_graph([(0, 1, 2.0), (1, 0, 2.0)]).edges == 1
    refused(
        lambda: fw.graphs.as_graph([(0, 1, 2.0), (1, 2, 1.0), (1, 0, 3.0)]),
        "edges 0 and 2 of the list join .* weights 2 and 3: give each edge one",
    )


COUNTS = {
    "mammalia-primate-association-13.edges": (25, 181),
    "graphs/mammalia-primate-association-13.weighted.edges": (25, 181),
    "graphs/chesapeake.mtx.gz": (39, 170),
    "graphs/jazz.graph.gz": (198, 2742),
    "graphs/celegans_metabolic.graph.gz": (453, 2025),
    "graphs/polblogs.graph.gz": (1490, 16715),
    "graphs/power.graph.gz": (4941, 6594),
    "graphs/PGPgiantcompo.graph.gz": (10680, 24316),
    "gset/G1.gz": (800, 19176),
    "gset/G67.gz": (10000, 20000),
}


@pytest.mark.parametrize("name", COUNTS)
def test_published_graphs(name):
    graph = fw.graphs.read_graph(data_file(name))
    assert (graph.nodes, graph.edges) == COUNTS[name]


def test_published_tables():
    prices = files.read_table(data_file("covariance/sp500_2003_2008.npz"), key="price_cents")
    assert prices.values.shape == (1258, 452)
    digits = files.read_table(data_file("kmeans_mnist/data_features.mat"), key="digits")
    held = scipy.io.loadmat(data_file("kmeans_mnist/data_features.mat"))["digits"]
    np.testing.assert_array_equal(digits.values, held)


def test_sizes_that_no_program_has(tmp_path):
    for size in 10**6, -999999999:
        path = put(tmp_path, "large.dat-s", f"1\n1\n{size}\n1.0\n1 1 1 1 1\n")
        refused(lambda path=path: sdpa.read(path), f"line 3: a block has size {size}: sizes are")


# Any content is read or refused

READERS = {
    "table": (files.read_table, "csv"),
    "ratings": (files.read_ratings, "csv"),
    "graph": (fw.graphs.read_graph, "edges"),
    "METIS": (fw.graphs.read_graph, "graph"),
    "sdpa": (sdpa.read, "dat-s"),
}
VALID = {
    "table": [text for text, *_ in TABLES.values()],
    "ratings": list(LISTS.values()),
    "graph": [*GRAPHS.values(), *NAMED.values()],
    "METIS": [text for label, text in GRAPHS.items() if "METIS" in label],
    "sdpa": ['"c\n2 = m\n2\n(2, -2)\n{1.0, 2.0D0}\n0 1 1 1 1.5\n0 1 1 2 -1\n1 2 1 1 1\n'],
}
ALPHABET = st.sampled_from("pce0123456789 -+.,;:\t\n\r#%\"'eEnaif_/\0éxX{}()*")
ANY_TEXT = st.text(ALPHABET | st.characters(codec="utf-8"), max_size=60)
ALL_READERS = pytest.mark.parametrize("reader", READERS)


def attempt(folder, reader, content, ending=None):
    """Reads the content with this reader. Only the library's own errors may come of it."""
    read, usual = READERS[reader]
    path = put(folder, f"any.{ending or usual}", content)
    start = time.process_time()
    try:
        return read(path)
    except (fw.MostFWError, fw.MostFWWarning) as error:
        assert len(str(error)) < 1000
        return None
    finally:
        assert time.process_time() - start < 1


@st.composite
def mutated(draw, contents):
    """A valid content with a few characters or bytes deleted, doubled or changed, or cut off."""
    content = draw(st.sampled_from(contents))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        change = draw(st.sampled_from(["delete", "double", "change", "cut"]))
        end = min(at + draw(st.integers(1, 4)), len(content))
        if change == "delete":
            content = content[:at] + content[end:]
        elif change == "double":
            content = content[:end] + content[at:]
        elif change == "change" and isinstance(content, str):
            content = content[:at] + draw(ALPHABET) + content[at + 1 :]
        elif change == "change":
            content = content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :]
        else:
            content = content[:at]
    return content


@ALL_READERS
@settings(max_examples=100)
@given(data=st.data())
def test_any_text(reader, data, folder):
    attempt(folder, reader, data.draw(ANY_TEXT))


@ALL_READERS
@settings(max_examples=50)
@given(data=st.data())
def test_any_bytes(reader, data, folder):
    start = data.draw(st.sampled_from([b"", b"\x1f\x8b\x08", b"\x93NUMPY\x01\x00", b"PK\x03\x04"]))
    attempt(folder, reader, start + data.draw(st.binary(max_size=60)))


@ALL_READERS
@settings(max_examples=200)
@given(data=st.data())
def test_mutated_texts(reader, data, folder):
    attempt(folder, reader, data.draw(mutated(VALID[reader])))


@ALL_READERS
@settings(max_examples=40)
@given(data=st.data())
def test_mutated_gzip(reader, data, folder):
    packed = [gzip.compress(text.encode() * 5, mtime=0) for text in VALID[reader][:4]]
    attempt(folder, reader, data.draw(mutated(packed)))


def array_files():
    matrix = np.array([[0, 1, 0], [1, 0, 0.5], [0, 0.5, 0]])
    files_of = {"npy": [saved(matrix)], "npz": [npz(a=saved(matrix)), sparse()]}
    files_of["mat"] = [mat(a=matrix), mat(a=scipy.sparse.csc_array(matrix))]
    packed = io.BytesIO()
    scipy.io.savemat(packed, {"a": matrix}, do_compression=True)
    files_of["mat"].append(packed.getvalue())
    wrapped = [gzip.compress(content, mtime=0) for parts in files_of.values() for content in parts]
    return files_of | {"gz": wrapped}


ARRAYS = array_files()


@pytest.mark.parametrize("reader", ["table", "ratings", "graph"])
@pytest.mark.parametrize("ending", ARRAYS)
@settings(max_examples=60)
@given(data=st.data())
def test_mutated_arrays(reader, ending, data, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # zipfile's, of names that are there twice
        attempt(folder, reader, data.draw(mutated(ARRAYS[ending])), ending)


# What is written comes back

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(st.sampled_from("abcXYZéß ,;'\""), min_size=1, max_size=6).map(
    lambda name: f"m{name.strip()}"
)


@given(data=st.data())
def test_tables_come_back(data, folder):
    rows, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    values = data.draw(st.lists(FLOATS, min_size=rows * width, max_size=rows * width))
    values = np.array(values).reshape(rows, width)
    columns = data.draw(st.none() | st.lists(NAMES, min_size=width, max_size=width))
    labels = data.draw(st.none() | st.lists(NAMES, min_size=rows, max_size=rows))
    delimiter = data.draw(st.sampled_from(",;\t"))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=data.draw(LINE_ENDS))
    if columns:
        writer.writerow([*(["who"] if labels else []), *columns])
    for place, row in enumerate(values.tolist()):
        writer.writerow([*([labels[place]] if labels else []), *row])
    table = files.read_table(put(folder, "round.csv", text.getvalue()))
    np.testing.assert_array_equal(table.values, values)
    assert table.columns == (tuple(columns) if columns else None)
    assert table.rows == (tuple(labels) if labels else None)
    np.savetxt(folder / "round.txt.gz", values, fmt="%.17g")
    np.testing.assert_array_equal(files.read_table(folder / "round.txt.gz").values, values)
    for ending in "npy", "npz", "mat":
        path = folder / f"round.{ending}"
        if ending == "mat":
            scipy.io.savemat(path, {"a": values}, do_compression=data.draw(st.booleans()))
        else:
            (np.save if ending == "npy" else np.savez)(path, values)
        np.testing.assert_array_equal(files.read_table(path).values, values)


LINE_ENDS = st.sampled_from(["\n", "\r\n"])
IDS = st.integers(-50, 50).map(str) | NAMES


@given(data=st.data())
def test_ratings_come_back(data, folder):
    pairs = st.lists(st.tuples(IDS, IDS), min_size=1, max_size=20, unique=True)
    listed = [(*pair, data.draw(FLOATS)) for pair in data.draw(pairs)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=data.draw(LINE_ENDS))
    if data.draw(st.booleans()):
        writer.writerow(["user", "item", "rating"])
    writer.writerows(listed)
    found = files.read_ratings(put(folder, "round.csv", text.getvalue()))
    places = zip(found.rows, found.columns, found.values.tolist(), strict=True)
    assert [(found.row_names[i], found.column_names[j], value) for i, j, value in places] == listed
    for names in found.row_names, found.column_names:
        assert len(set(names)) == len(names)
        if all(name.lstrip("-").isdigit() for name in names):
            assert list(names) == sorted(names, key=int)


def as_text(kind, nodes, edges):
    """A connected graph from 1 on in the format."""
    lines = [f"{u + 1} {v + 1} {weight!r}" for (u, v), weight in edges.items()]
    if kind == "list":
        return "\n".join(lines)
    if kind == "Gset":
        return "\n".join([f"{nodes} {len(edges)}", *lines])
    if kind == "DIMACS":
        return "\n".join([f"p sp {nodes} {len(edges)}", *(f"a {line}" for line in lines)])
    if kind == "symmetric":
        return "\n".join([f"{MARKET} real symmetric", f"{nodes} {nodes} {len(edges)}", *lines])
    both = edges | {(v, u): weight for (u, v), weight in edges.items()}
    if kind == "general":
        lines = [f"{u + 1} {v + 1} {weight!r}" for (u, v), weight in both.items()]
        return "\n".join([f"{MARKET} real general", f"{nodes} {nodes} {len(both)}", *lines])
    lines = [
        " ".join(f"{v + 1} {weight!r}" for (w, v), weight in both.items() if w == u)
        for u in range(nodes)
    ]
    return "\n".join([f"{nodes} {len(edges)} 001", *lines, ""])


@given(data=st.data())
def test_graphs_come_back(data, folder):
    nodes = data.draw(st.integers(2, 8))
    weights = FLOATS.filter(bool)
    edges = {(u, u + 1): data.draw(weights) for u in range(nodes - 1)}
    pair = st.tuples(*[st.integers(0, nodes - 1)] * 2).filter(lambda pair: pair[0] < pair[1])
    edges |= {place: data.draw(weights) for place in data.draw(st.lists(pair, max_size=6))}
    for kind in "list", "Gset", "DIMACS", "symmetric", "general", "METIS":
        ending = "graph" if kind == "METIS" else "txt"
        path = put(folder, f"round.{ending}", as_text(kind, nodes, edges))
        graph = fw.graphs.read_graph(path)
        assert (graph.nodes, edges_of(graph)) == (nodes, edges), kind
    scipy.sparse.save_npz(folder / "round.npz", graph.adjacency)
    np.save(folder / "round.npy", graph.adjacency.toarray())
    for name in "round.npz", "round.npy":
        assert edges_of(fw.graphs.read_graph(folder / name)) == edges
