"""Model files: plain safetensors, replaced atomically, and checked when read."""

import errno
import json
import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from manyclass.core import model_file
from manyclass.core.model_file import ModelFormatError, read, remove_leftovers, write
from manyclass.io.texts import pack_texts, unpack_texts

ARRAYS = {
    "a.byte": np.arange(5, dtype=np.int8),
    "b.wide": np.linspace(0, 1, 6).reshape(2, 3),
    "c.none": np.empty((0, 4), np.int32),
    "d.float": np.array([1.5, -2.5], np.float32),
    "e.bits": np.array([1, 65535], np.uint16),
    "f.truth": np.array([True, False]),
}


def same(left, right) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and np.array_equal(left[name], right[name]) for name in left
    )


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("verify", [True, False])
def test_arrays_and_metadata_come_back(tmp_path, mmap, verify):
    path = tmp_path / "m"
    write(path, ARRAYS, {"x": [1, {"y": "ü"}]})
    arrays, metadata = read(path, mmap, verify)
    assert same(arrays, ARRAYS) and metadata == {"x": [1, {"y": "ü"}]}
    assert all(array.flags.aligned and array.flags.c_contiguous for array in arrays.values())


def test_any_safetensors_reader_can_read_it(tmp_path):
    write(tmp_path / "m.safetensors", ARRAYS, {"x": 1})
    assert same(load_file(tmp_path / "m.safetensors"), ARRAYS)


def test_the_same_content_gives_the_same_bytes_wherever_it_goes(tmp_path):
    write(tmp_path / "one", ARRAYS, {"x": 1, "y": 2})
    write(tmp_path / "other name", dict(reversed(ARRAYS.items())), {"y": 2, "x": 1})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other name").read_bytes()


def test_a_mapped_array_can_change_and_the_file_does_not(tmp_path):
    write(tmp_path / "m", ARRAYS, {})
    before = (tmp_path / "m").read_bytes()
    arrays, _ = read(tmp_path / "m")
    arrays["d.float"][:] = 7
    assert (tmp_path / "m").read_bytes() == before and arrays["d.float"][0] == 7


def test_long_runs_of_zeros_are_holes(tmp_path):
    weights = np.zeros((3 << 20,), np.float32)
    weights[0] = weights[-1] = 1
    write(tmp_path / "m", {"w": weights}, {})
    assert np.array_equal(read(tmp_path / "m")[0]["w"], weights)
    assert os.stat(tmp_path / "m").st_size > weights.nbytes
    write(tmp_path / "z", {"w": np.zeros_like(weights)}, {})  # ends in a hole
    assert not read(tmp_path / "z")[0]["w"].any()


def test_overwriting_keeps_permissions_and_follows_links(tmp_path):
    write(tmp_path / "real", ARRAYS, {"n": 1})
    os.chmod(tmp_path / "real", 0o640)
    os.symlink(tmp_path / "real", tmp_path / "link")
    write(tmp_path / "link", ARRAYS, {"n": 2})
    assert (tmp_path / "link").is_symlink() and read(tmp_path / "real")[1] == {"n": 2}
    assert stat.S_IMODE(os.stat(tmp_path / "real").st_mode) == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path, monkeypatch):
    """The umask belongs to the whole process, so it must not be changed even for a moment."""
    (tmp_path / "plain").touch()
    monkeypatch.delattr(model_file.os, "umask")
    write(tmp_path / "m", ARRAYS, {})
    assert stat.S_IMODE(os.stat(tmp_path / "m").st_mode) == stat.S_IMODE(os.stat(tmp_path / "plain").st_mode)


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_an_error_at_any_step_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    write(tmp_path / "m", ARRAYS, {"n": 1})
    before = (tmp_path / "m").read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_file.os, step, full)
    if step != "chmod":
        with pytest.raises(OSError, match=r"written \(No space left on device\): "):
            write(tmp_path / "new", ARRAYS, {"n": 2})
    with pytest.raises(OSError, match=r"written \(No space left on device\); the old file is unchanged") as caught:
        write(tmp_path / "m", ARRAYS, {"n": 2})
    assert caught.value.errno == errno.ENOSPC and str(tmp_path / "m") in str(caught.value)
    assert (tmp_path / "m").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_disk_that_is_full_leaves_the_old_file(tmp_path):
    with open("/dev/full", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        model_file._write_array(file, np.ones(10))


def test_an_error_of_another_file_keeps_its_message(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), model_file.replaced(tmp_path / "m"):
        open(tmp_path / "elsewhere")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_not_a_model(tmp_path):
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        write(tmp_path, ARRAYS, {})
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "nowhere" / "m", ARRAYS, {})


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", os.devnull):
        before = os.stat(path).st_mode
        with pytest.raises(OSError, match="this is a pipe or a device"):
            write(path, ARRAYS, {})
        assert os.stat(path).st_mode == before


def test_a_file_that_is_being_written_is_no_leftover(tmp_path, monkeypatch):
    """Another process may clean up while this one writes."""
    real = os.fsync

    def clean_up(handle):
        remove_leftovers(tmp_path / "m")
        real(handle)

    monkeypatch.setattr(model_file.os, "fsync", clean_up)
    write(tmp_path / "m", ARRAYS, {"n": 1})
    assert read(tmp_path / "m")[1] == {"n": 1}


def test_only_leftovers_of_killed_writers_are_removed(tmp_path):
    others = [".m1.abcdefgh.part", ".m[1].v2.abcdefgh.part", "m[1].part"]
    for name in (".m[1].abcd_123.part", ".m[1].abcdefgh.part", *others):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path / "m[1]")
    assert sorted(path.name for path in tmp_path.iterdir()) == others


def test_what_only_looks_like_a_leftover_stays(tmp_path):
    (tmp_path / ".m.abcdefg0.part").mkdir()
    os.mkfifo(tmp_path / ".m.abcdefg1.part")
    (tmp_path / ".m.abcdefg2.part").write_bytes(b"")
    remove_leftovers(tmp_path / "m", also_empty=False)
    assert len(list(tmp_path.iterdir())) == 3
    remove_leftovers(tmp_path / "m")
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(tmp_path / "nowhere" / "m")


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path, monkeypatch):
    real = os.fsync

    def only_files(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(handle)

    monkeypatch.setattr(model_file.os, "fsync", only_files)
    write(tmp_path / "m", ARRAYS, {})
    assert same(read(tmp_path / "m")[0], ARRAYS)


def test_metadata_that_is_too_long_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "_LONGEST_HEADER", 1000)
    with pytest.raises(ValueError, match="too much for a model file"):
        write(tmp_path / "m", ARRAYS, {"x": "y" * 1000})
    assert not list(tmp_path.iterdir())


def test_impossible_shapes_are_refused(tmp_path):
    write(tmp_path / "m", {"a": np.empty((0, 4), np.int32)}, {})
    raw = (tmp_path / "m").read_bytes()
    table = {"a": {"dtype": "I32", "shape": [0, 2**61, 2**61], "data_offsets": [0, 0]}}
    header = json.loads(raw[8:])
    header["a"] = table["a"]
    header["__metadata__"]["structure_sha256"] = model_file._structure(table, "{}")
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 8)
    (tmp_path / "m").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(ModelFormatError, match="impossible shape"):
        read(tmp_path / "m")


def test_every_truncation_and_every_changed_byte_is_found(tmp_path):
    path = tmp_path / "m"
    write(path, ARRAYS, {"x": 1})
    raw = path.read_bytes()
    for end in range(len(raw)):
        path.write_bytes(raw[:end])
        with pytest.raises(ModelFormatError):
            read(path)
    start = 8 + int.from_bytes(raw[:8], "little")
    padding = raw[:start].rstrip(b" ")
    for at in range(len(raw)):
        if len(padding) <= at < start:
            continue  # spaces after the header have no meaning
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        try:
            changed = read(path)
        except ModelFormatError:
            continue
        assert same(changed[0], ARRAYS) and changed[1] == {"x": 1}  # the same contents in another form


def test_the_header_is_checked_without_verifying_the_arrays(tmp_path):
    path = tmp_path / "m"
    write(path, ARRAYS, {"x": 1})
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    read(path, verify=False)
    with pytest.raises(ModelFormatError, match="checksum of the arrays"):
        read(path)
    path.write_bytes(bytes(raw).replace(b"F64", b"I64"))
    with pytest.raises(ModelFormatError, match="checksum of the header"):
        read(path, verify=False)


@pytest.mark.parametrize(
    "raw",
    [b"", b"x", b"\xff" * 8, b"\xff" * 64, (2**40).to_bytes(8, "little") + b"{}", b"\x02" + bytes(7) + b"{}",
     b"\x02" + bytes(7) + b"[]", (100_000).to_bytes(8, "little") + b"[" * 100_000],
)  # fmt: skip
def test_other_files_are_refused(tmp_path, raw):
    (tmp_path / "m").write_bytes(raw)
    with pytest.raises(ModelFormatError, match="not a model file"):
        read(tmp_path / "m")


@given(st.lists(st.text(st.characters(codec=None))))
def test_texts_come_back(texts):
    packed = pack_texts(texts)
    assert unpack_texts(packed["bytes"], packed["end"]) == texts


def test_texts_with_wrong_ends_are_refused():
    packed = pack_texts(["ab", "c"])
    for ends in ([3, 2], [-1, 3], [1, 9], [2]):
        with pytest.raises(ValueError, match="not where they should be"):
            unpack_texts(packed["bytes"], np.array(ends))
