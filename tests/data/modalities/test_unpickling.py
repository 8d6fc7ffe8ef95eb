"""Pickles give arrays and plain containers; whatever else they ask for is refused before anything of it has run."""

from __future__ import annotations

import collections
import contextlib
import io
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from excora.data.modalities.unpickling import DEEPEST, read_pickle
from excora.errors import InputError

KINDS = st.sampled_from(["<f4", "<f8", ">f4", "<i8", "<i4", ">i2", "|b1", "<U5", "|S3", "|u1"])


def through(tmp_path, value, protocol=4):
    path = tmp_path / "a.pkl"
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return read_pickle(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pickles")


@given(st.data(), st.integers(0, 5))
def test_arrays_come_out_as_they_went_in(folder, data, protocol):
    array = data.draw(arrays.arrays(data.draw(KINDS), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0)))
    for made in (array, np.asfortranarray(array)):
        found = through(folder, {"x": made}, protocol)["x"]
        assert (found.dtype, found.shape) == (made.dtype, made.shape)
        np.testing.assert_array_equal(found, made)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_containers(tmp_path, protocol):
    value = {"a": [1, 2.5, None, True, "é", b"\x00\xff", b""], "b": (1, (2,)), "c": {1, 2}, "d": frozenset({3})}
    assert through(tmp_path, value, protocol) == value
    assert through(tmp_path, collections.OrderedDict(x=1), protocol) == {"x": 1}
    assert through(tmp_path, np.float32(2.5), protocol) == 2.5
    words = through(tmp_path, np.array(["a", 1.5, None], object), protocol)
    assert words.tolist() == ["a", 1.5, None]


def test_the_program_of_an_array(tmp_path):
    assert through(tmp_path, array(b"1", b"f8", b"\\x00" * 8)).tolist() == [0.0]


def test_a_pickle_of_python_2(tmp_path):
    np.testing.assert_array_equal(through(tmp_path, np.arange(3.0), 2), np.arange(3.0))
    text = b"(dp0\nS'id'\np1\nS'clip\\xe9'\np2\ns."
    assert through(tmp_path, text) == {"id": "clipé"}


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


RAN: list[str] = []


def ran(word: str) -> None:
    RAN.append(word)


@pytest.mark.parametrize(
    "evil",
    [
        Evil(ran, ("x",)), Evil(eval, ("1+1",)), Evil(exec, ("pass",)), Evil(getattr, ({}, "keys")),
        Evil(__import__, ("os",)), Evil(open, ("/tmp/x",)), Evil(io.open_code, ("/tmp/x",)), Evil(np.load, ("x.npy",)),
        Evil(np.memmap, ("x",)), Evil(bytearray, (10**12,)), Evil(bytes, (10**12,)), Evil(np.zeros, (10**12,)),
        Evil(np.dtype, ("O",)), Evil(np.ndarray, ((10**12,),)), Evil(type, ("X", (), {})),
        Evil(struct.unpack, ("i", b"1234")),
    ],
    ids=lambda evil: evil.call[0].__name__,
)  # fmt: skip
@pytest.mark.parametrize("inside", [False, True])
def test_nothing_is_called(tmp_path, evil, inside):
    RAN.clear()
    value = {"train": {"text": np.zeros(3), "x": [evil]}} if inside else evil
    with pytest.raises(InputError, match="this pickle is not read"):
        through(tmp_path, value)
    assert RAN == []


def build(*parts: bytes) -> bytes:
    return b"".join((*parts, b"."))


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
DTYPE = b"cnumpy\ndtype\n"


def array(shape: bytes, kind: bytes, data: bytes) -> bytes:
    """The program of an array, in the words of protocol 0."""
    start = RECONSTRUCT + b"(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I" + shape + b"\nt"
    return start + DTYPE + b"(S'" + kind + b"'\ntRI00\nS'" + data + b"'\ntb."


@pytest.mark.parametrize(
    "program",
    [
        build(b"cos\nsystem\n(S'true'\ntR"),
        build(b"(S'true'\nios\nsystem\n"),
        build(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R"),
        build(b"\x80\x02\x82\x01"),  # an extension of copyreg
        build(b"Ppersistent\n"),
        build(DTYPE),  # a name as the value
        build(RECONSTRUCT, b"N}(S'name'\nS'x'\nu\x86b"),  # a state for a name: setattr on what it stands for
        build(DTYPE, b"(S'i4'\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb"),  # a dtype as the value
        array(b"1000000000000", b"f8", b"abc"),
        array(b"1", b"O", b"12345678"),
        array(b"-1", b"f8", b""),
        array(b"1", b"f8,f8", b"1234567812345678"),
        array(b"1", b"V8", b"12345678"),
    ],
    ids=lambda program: str(program[:24]),
)  # fmt: skip
def test_hand_written_programs_are_refused(tmp_path, program):
    with pytest.raises(InputError, match="this pickle is not read"):
        through(tmp_path, program)


def test_containers_that_multiply_or_never_end(tmp_path):
    many: list = ["x"]
    for _ in range(DEEPEST - 5):
        many = [many, many]  # 2^45 leaves
    assert len(through(tmp_path, many)) == 2
    deep: list = []
    for _ in range(DEEPEST + 5):
        deep = [deep]
    itself: list = []
    itself.append(itself)
    for value in (deep, itself):
        with pytest.raises(InputError, match="nested"):
            through(tmp_path, value)


@given(st.binary(max_size=60))
def test_rubbish_is_an_input_error(folder, content):
    path = folder / "rubbish.pkl"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert pickle.dumps(read_pickle(path))


def test_a_file_that_is_cut_off(tmp_path):
    content = pickle.dumps({"text": np.zeros(100)})
    with pytest.raises(InputError, match="not read"):
        through(tmp_path, content[:200])
