"""Tensors: values in and out, element types, views, and wrong arguments."""

import sys

import numpy as np
import pytest

from cubeyard import Context, Placement
from cubeyard._base import dtypes
from cubeyard.errors import InputError, OutOfMemory

ROWS = Placement(cube="row_wise", pe="row_wise")
COLUMNS = Placement(cube="row_wise", pe="column_wise")
NUMPY = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
}


@pytest.fixture(scope="module")
def context():
    with Context() as context:
        yield context


def values(shape, dtype):
    bits = np.random.default_rng(7).integers(0, 100, shape)
    return (bits % 2 == 0) if dtype == "bool" else bits.astype(NUMPY[dtype])


@pytest.mark.parametrize("placement", [None, ROWS, COLUMNS, Placement.one(1)], ids=["host", "rows", "columns", "one"])
@pytest.mark.parametrize("dtype", NUMPY)
def test_arrays_come_back_as_they_were(context, dtype, placement):
    array = values((37, 19), dtype)
    tensor = context.from_numpy(array)
    if placement:
        tensor = tensor.to(placement)
    assert (tensor.dtype, tensor.shape, tensor.nbytes) == (dtype, array.shape, array.nbytes)
    assert tensor.is_deployed == (placement is not None)
    back = tensor.numpy()
    assert back.dtype == array.dtype
    assert back.flags.writeable
    np.testing.assert_array_equal(back, array)


def test_an_array_is_filled_in_place(context):
    array, out = values((8, 8), "f32"), np.zeros((8, 8), np.float32)
    for tensor in (context.from_numpy(array), context.from_numpy(array).to(COLUMNS)):
        out[:] = 0
        assert tensor.numpy(out=out) is out
        np.testing.assert_array_equal(out, array)
    frozen = np.zeros((8, 8), np.float32)
    frozen.flags.writeable = False
    for wrong in (np.zeros((4, 16), np.float32), np.zeros((8, 8)), np.zeros((8, 16), np.float32)[:, ::2], frozen, []):
        with pytest.raises(InputError, match=r"out: expected a contiguous, writable array, float32 of \(8, 8\)"):
            tensor.numpy(out=wrong)
    np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (1, 1, 1, 1, 1, 1, 1, 2)])
def test_any_shape_comes_back(context, shape):
    array = np.full(shape, 3, np.int16)
    for tensor in [context.from_numpy(array), context.from_numpy(array).to(ROWS)]:
        np.testing.assert_array_equal(tensor.numpy(), array)
        assert np.asarray(tensor).shape == shape


def test_changing_the_array_later_does_not_change_the_tensor(context):
    array = np.zeros(4, np.float32)
    tensor = context.from_numpy(array)
    array[:] = 5
    back = tensor.numpy()
    assert back.tolist() == [0, 0, 0, 0]
    back[:] = 6
    assert tensor.numpy().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "strided",
    [lambda a: a.T, lambda a: a[::2], lambda a: a[:, ::-1], lambda a: np.broadcast_to(a[0], (3, 6)), np.asfortranarray],
)
def test_strided_arrays_are_copied_in_order(context, strided):
    array = strided(np.arange(24, dtype=np.int32).reshape(4, 6))
    np.testing.assert_array_equal(context.from_numpy(array).to(ROWS).numpy(), array)


def test_creations_hold_their_values(context):
    for where in (lambda tensor: tensor, lambda tensor: tensor.to(ROWS)):
        assert not where(context.zeros((7, 3))).numpy().any()
        assert (where(context.ones((7, 3), "f16")).numpy() == 1).all()
        np.testing.assert_array_equal(where(context.full((300,), -1.25, "f64")).numpy(), np.full(300, -1.25))
        np.testing.assert_array_equal(where(context.full(5, 300, "i16")).numpy(), np.full(5, 300, np.int16))
        np.testing.assert_array_equal(where(context.arange(7)).numpy(), np.arange(7))
        np.testing.assert_array_equal(where(context.arange(5, 0, -2)).numpy(), np.arange(5, 0, -2))
        np.testing.assert_array_equal(
            where(context.arange(0, 1, 0.125)).numpy(), np.arange(0, 1, 0.125, dtype=np.float32)
        )
        np.testing.assert_array_equal(where(context.tensor([[1, 2], [3, 4]])).numpy(), [[1, 2], [3, 4]])
        assert where(context.empty((4, 4))).numpy().shape == (4, 4)
    assert context.tensor([True]).dtype == "bool"
    assert context.tensor(2.5).shape == ()
    assert context.tensor([1.5], "f64").numpy().tolist() == [1.5]
    assert context.tensor(np.arange(3.0)).dtype == "f64"


def splitmix64(seed, count):
    """The published generator, in Python's whole numbers."""
    mask, state, found = 2**64 - 1, seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        found.append(mixed ^ (mixed >> 31))
    return found


def test_random_values_are_the_published_sequence(context):
    expected = [bits / (2**64 - 1) for bits in splitmix64(42, 12)]
    np.testing.assert_allclose(context.rand((3, 4), "f64", seed=42).numpy().reshape(-1), expected, rtol=1e-15)
    assert (context.rand(9, seed=1).numpy() != context.rand(9, seed=2).numpy()).all()
    np.testing.assert_array_equal(context.rand(9).to(ROWS).numpy(), context.rand(9).numpy())


def test_conversions_round_as_numpy_does(context):
    array = np.random.default_rng(3).normal(0, 100, 4096)
    for dtype in ("f16", "f32"):
        expected = array.astype(NUMPY[dtype])
        np.testing.assert_array_equal(context.from_numpy(array).to(dtype).numpy(), expected)
        np.testing.assert_array_equal(context.from_numpy(array).to(ROWS).to(NUMPY[dtype]).numpy(), expected)
    np.testing.assert_array_equal(context.from_numpy(array).to("i16").numpy(), array.astype(np.int16))


def test_bf16_is_the_upper_half_of_f32(context):
    array = np.random.default_rng(5).normal(0, 1, 1000).astype(np.float32)
    bits = array.view(np.uint32)
    expected = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    tensor = context.from_numpy(array).to("bf16").to(ROWS)
    assert (tensor.dtype, tensor.nbytes) == ("bf16", 2000)
    np.testing.assert_array_equal(tensor.numpy().view(np.uint16), expected)
    again = context.from_numpy(expected, dtype="bf16").to("f32").numpy()
    np.testing.assert_array_equal(again.view(np.uint32), expected.astype(np.uint32) << 16)


@pytest.mark.parametrize("is_installed", [True, False])
def test_types_that_numpy_lacks_are_bits_without_ml_dtypes(context, monkeypatch, is_installed):
    if is_installed:
        held = pytest.importorskip("ml_dtypes").bfloat16
    else:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
        held = np.uint16
    dtypes.numpy_type.cache_clear()
    try:
        tensor = context.tensor([1.0, -2.0], "bf16").to(ROWS)
        assert tensor.numpy().dtype == held
        assert tensor.numpy().view(np.uint16).tolist() == [0x3F80, 0xC000]
        tensor.copy_(np.array([0x4040, 0x3F00], np.uint16)).copy_(tensor.numpy())
        assert tensor.to("f32").numpy().tolist() == [3.0, 0.5]
        assert context.from_numpy(tensor.numpy(), "bf16").dtype == "bf16"
    finally:
        dtypes.numpy_type.cache_clear()


def test_eight_bit_floats_have_their_values(context):
    # 0.3125 is 0 0101 010 in 4 + 3 bits, and 0.3 is rounded to it; in 5 + 2 bits they are 0 01101 01.
    tensor = context.tensor([0.3, 1.0])
    assert tensor.to("fp8_e4m3").numpy().view(np.uint8).tolist() == [0x2A, 0x38]
    assert tensor.to("fp8_e5m2").numpy().view(np.uint8).tolist() == [0x35, 0x3C]
    assert tensor.to("fp8_e4m3").to("f32").numpy().tolist() == [0.3125, 1.0]


def test_host_tensors_are_shared_without_a_copy():
    tensor = Context().from_numpy(np.arange(1000.0))
    one, two = np.asarray(tensor), np.asarray(tensor)
    assert np.shares_memory(one, two)
    assert not one.flags.writeable
    del tensor
    np.testing.assert_array_equal(two, np.arange(1000.0))


def test_numpy_asks_for_copies_and_types(context):
    host, deployed = context.arange(4), context.arange(4).to(ROWS)
    assert np.array(host).flags.writeable
    assert np.asarray(deployed, dtype=np.float32).dtype == np.float32
    assert (np.asarray(host) + deployed == [0, 2, 4, 6]).all()
    with pytest.raises(ValueError, match="copy=False"):
        deployed.__array__(copy=False)
    assert host.__array__(copy=False).tolist() == [0, 1, 2, 3]


def test_dlpack_goes_out_and_in(context):
    host = context.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert host.__dlpack_device__() == (1, 0)
    for tensor in (host, host.to(ROWS)):
        np.testing.assert_array_equal(np.from_dlpack(tensor), [[0, 1, 2], [3, 4, 5]])
        np.testing.assert_array_equal(context.from_dlpack(tensor).numpy(), [[0, 1, 2], [3, 4, 5]])
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert np.shares_memory(np.from_dlpack(host), np.asarray(host))
    strided = np.arange(12.0)[::3]
    np.testing.assert_array_equal(context.from_dlpack(strided).numpy(), strided)
    with pytest.raises(InputError, match="source: expected an object with __dlpack__"):
        context.from_dlpack([1, 2])


def test_views_share_memory(context):
    tensor = context.arange(24, dtype="f32").view(6, 4).to(ROWS)
    flat, middle = tensor.view(24), tensor[2:4]
    assert (flat.shape, middle.shape, tensor[-1].shape) == ((24,), (2, 4), (4,))
    middle.copy_(np.full((2, 4), -1, np.float32))
    expected = np.arange(24, dtype=np.float32).reshape(6, 4)
    expected[2:4] = -1
    np.testing.assert_array_equal(tensor.numpy(), expected)
    np.testing.assert_array_equal(flat.numpy(), expected.reshape(-1))
    assert [row.numpy().tolist() for row in tensor] == expected.tolist()
    assert (len(tensor), tensor[3:3].shape, tensor.rows(5, 6).shape) == (6, (0, 4), (1, 4))
    assert middle.va_base - tensor.va_base == 32


def test_copies_are_written_into_every_copy(context):
    tensor = context.zeros((4, 4)).to(Placement())
    assert len(tensor.shards) == 128
    assert tensor.copy_(context.ones((4, 4))) is tensor
    assert tensor.read_from("sip0.cube15.pe7").values == np.ones((4, 4), np.float32).tobytes()


def test_a_pe_reads_the_rows_of_another(context):
    array = np.arange(1024, dtype=np.float32).reshape(256, 4)
    tensor = context.from_numpy(array).to(ROWS)
    near, far = tensor.read_from("sip0.cube0.pe1", 32, 64), tensor.read_from("sip0.cube15.pe7", 32, 64)
    assert near.values == far.values == array[2:4].tobytes()
    assert 0 < near.latency_ns < far.latency_ns


def test_shards_are_where_the_layout_says(context):
    tensor = context.zeros((256, 64), "f16").to(COLUMNS)
    layout = COLUMNS.layout((256, 64), "f16")
    assert [(s.pe, s.nbytes, s.offset) for s in tensor.shards] == [
        (s.pe, s.nbytes, s.offset) for s in layout.shards
    ]
    assert len({shard.address for shard in tensor.shards}) == 128


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros(3, ">f4"), r"array: expected little-endian elements, found >f4: use array.astype\('<f4'\)"),
        (np.array([1, "a"], object), "dtype of array=dtype\\('O'\\): expected one of f16"),
        (np.array(["a"]), "dtype of array="),
        (np.zeros(3, complex), "dtype of array=dtype\\('complex128'\\)"),
        (np.zeros(3, "M8[s]"), "dtype of array="),
        (np.zeros(3, [("a", "f4")]), "dtype of array="),
        ([1, 2], "array: expected a numpy.ndarray, found list"),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "array: expected a numpy.ndarray, found MaskedArray"),
        (np.zeros((1,) * 9, np.float32), "at most 8 dimensions"),
    ],
)
def test_arrays_that_are_no_tensors_are_refused(context, array, expected):
    with pytest.raises(InputError, match=expected):
        context.from_numpy(array)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda c: c.zeros(-1), "shape=-1: expected a whole number from 0"),
        (lambda c: c.zeros((2, -3)), "shape=-3"),
        (lambda c: c.zeros((2, 1.5)), "shape=1.5"),
        (lambda c: c.zeros("4x4"), "shape='4x4'"),
        (lambda c: c.zeros(True), "shape=True"),
        (lambda c: c.zeros(2**64), "shape=18446744073709551616"),
        (lambda c: c.zeros((2**40, 2**40)), "more elements than 64 bits"),
        (lambda c: c.zeros(2**63, "f32"), "more bytes of f32 than 64 bits"),
        (lambda c: c.zeros(3, "float31"), "dtype='float31': expected one of f16"),
        (lambda c: c.zeros(3, None), "dtype=None"),
        (lambda c: c.zeros(3, ">f4"), "dtype='>f4'"),
        (lambda c: c.full(3, "x"), "value='x': expected a number"),
        (lambda c: c.full(3, 2**53 + 1, "i64"), "value=9007199254740993: expected a number that a 64-bit float holds"),
        (lambda c: c.full(3, 10**400), "value=1000.*: expected a number"),
        (lambda c: c.arange(2**53 + 1, 2**53 + 3), "start=9007199254740993"),
        (lambda c: c.full(3, 300, "u8"), "300 does not fit in u8, which ranges from 0 to 255"),
        (lambda c: c.full(3, float("nan"), "i32"), "NaN does not fit in i32"),
        (lambda c: c.rand(3, seed=-1), "seed=-1"),
        (lambda c: c.arange(0, 5, 0), "a step that is not 0"),
        (lambda c: c.arange(float("inf")), "expected finite numbers"),
        (lambda c: c.arange(0, 300, dtype="u8"), "299 does not fit in u8"),
        (lambda c: c.tensor([[1, 2], [3]]), "values: expected numbers in nested lists of equal length"),
        (lambda c: c.tensor(["a"]), "values: expected numbers in nested lists"),
        (lambda c: c.tensor([1, None]), "values: expected numbers in nested lists"),
        (lambda c: c.tensor([300], "u8"), "300 does not fit in u8"),
        (lambda c: c.from_numpy(np.zeros(3, np.float32), "bf16"), "expected elements of bf16 or its bits as uint16"),
        (lambda c: c.zeros(3).to(None), "where=None: expected a Placement or an element type"),
        (lambda c: c.zeros(3).to("rows"), "where='rows': expected one of"),
        (lambda c: c.zeros(3).to(Placement(sips=(9,))), "there is no sip9"),
        (lambda c: c.zeros(3).to(Placement(cubes=99)), "99 cubes"),
        (lambda c: c.zeros(3).copy_(np.zeros(3, np.float32)), "the tensor is not on a device"),
        (lambda c: c.zeros(3)[0], "the tensor is not on a device"),
        (lambda c: c.zeros(3).shards, "the tensor is not on a device"),
        (lambda c: c.zeros((2, 3)).view(7), "2x3 has 6 elements, but 7 has 7"),
        (lambda c: c.zeros((2, 3)).to(ROWS)[2], "index=2: expected a whole number from -2 to 1"),
        (lambda c: c.zeros((2, 3)).to(ROWS)[::2], "found a step of 2"),
        (lambda c: c.zeros((2, 3)).to(ROWS)["a"], "index='a'"),
        (lambda c: c.zeros((2, 3)).to(ROWS).rows(1, 5), "rows 1 to 5 are not a range of a tensor of 2x3"),
        (lambda c: c.zeros((16, 16)).to(COLUMNS)[1], "split by columns"),
        (lambda c: len(c.zeros(())), "found a scalar"),
        (lambda c: c.zeros(3).to(ROWS).copy_(np.zeros(4, np.float32)), r"expected f32 of \(3,\), found f32 of \(4,\)"),
        (lambda c: c.zeros(3).to(ROWS).copy_(np.zeros(3)), r"expected f32 of \(3,\), found f64 of \(3,\)"),
        (lambda c: c.zeros(3).to(ROWS).copy_([0, 0, 0]), "source: expected a numpy.ndarray, found list"),
        (lambda c: c.zeros(3).to(ROWS).read_from("sip0.cube0.pe99"), "pe99"),
        (lambda c: c.zeros(3).to(ROWS).read_from("sip0.cube0.pe0", 8, 4), "bytes 8 to 4 are not a range of a tensor of 12 bytes"),
        (lambda c: c.zeros(3).to(ROWS).read_from(0), "pe=0: expected a name"),
    ],
)
def test_wrong_arguments_are_named(context, make, expected):
    before = context.memory_stats()
    with pytest.raises(InputError, match=expected):
        make(context)
    after = context.memory_stats()
    assert (after.tensors, after.used, after.virtual_used) == (before.tensors, before.used, before.virtual_used)


def test_an_array_that_the_host_cannot_hold_is_refused(context):
    with pytest.raises(OutOfMemory, match="the host cannot allocate") as caught:
        context.zeros(2**62, "u8").numpy()
    assert caught.value.details == {"requested": 2**62}


def test_tensors_show_where_they_are(context):
    tensor = context.zeros((256, 64), "f16")
    assert repr(tensor) == "Tensor(shape=(256, 64), dtype='f16', on the host)"
    assert "<svg" not in tensor._repr_html_()
    deployed = tensor.to(ROWS)
    assert repr(deployed) == "Tensor(shape=(256, 64), dtype='f16', on 128 PEs)"
    assert deployed._repr_html_().count("<svg") == 1
    assert "256x64 f16" in deployed.draw()
