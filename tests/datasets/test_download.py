"""Downloads from a server on this machine: whole, broken off, changed on the way, refused."""

import errno
import hashlib
import json
import shutil
import socket

import pytest

from manyclass.datasets import DownloadError, download
from manyclass.datasets.download import download as fetch_file
from tests.datasets.server import Served

CONTENT = bytes(range(256)) * 4000  # a megabyte, more than one piece
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "files" / "set.bin"


@pytest.fixture
def served(server):
    server.files["/set.bin"] = Served(CONTENT)
    return server.files["/set.bin"]


@pytest.fixture
def url(server):
    return server.address("/set.bin")


def left(target):
    return sorted(path.name for path in target.parent.iterdir() if not path.name.endswith(".lock"))


def asked(server):
    """The Range and If-Range of each request."""
    return [(headers.get("Range"), headers.get("If-Range")) for _, headers in server.requests]


def test_a_whole_file(server, served, target, url):
    shown = []
    fetch_file(url, target, SHA256, lambda done, total: shown.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert left(target) == ["set.bin"]
    assert shown == sorted(shown) and shown[-1] == (len(CONTENT), len(CONTENT)) and len(shown) > 1
    assert asked(server) == [(None, None)]


def test_a_cut_connection_is_resumed(server, served, target, url):
    served.cuts = [300_000, 400_000]
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT
    assert asked(server) == [(None, None), ("bytes=300000-", '"one"'), ("bytes=700000-", '"one"')]


def test_the_next_call_resumes(server, served, target, url, monkeypatch):
    monkeypatch.setattr(download, "_WAITS", ())
    served.cuts = [300_000]
    with pytest.raises(DownloadError, match=r"set\.bin: the connection broke off after 300,000 of 1,024,000 bytes"):
        fetch_file(url, target, SHA256)
    assert left(target) == ["set.bin.part", "set.bin.part.json"]
    assert (target.parent / "set.bin.part").read_bytes() == CONTENT[:300_000]
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT and left(target) == ["set.bin"]
    assert asked(server)[1] == ("bytes=300000-", '"one"')


def test_progress_renews_the_patience(server, served, target, url):
    served.cuts = [100_000] * 9  # more often than patience has waits
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT and len(server.requests) == 10


def test_a_server_without_ranges_starts_again(server, served, target, url):
    served.ranges, served.cuts = False, [300_000]
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT


def test_a_file_that_changed_starts_again(server, served, target, url, monkeypatch):
    monkeypatch.setattr(download, "_WAITS", ())
    server.files["/set.bin"] = Served(b"old" * 10_000, cuts=[9_000])
    with pytest.raises(DownloadError):
        fetch_file(url, target)
    server.files["/set.bin"] = Served(CONTENT, etag='"two"')
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT


def test_without_a_tag_another_length_starts_again(server, target, url, monkeypatch):
    monkeypatch.setattr(download, "_WAITS", ())
    server.files["/set.bin"] = Served(b"old" * 10_000, etag=None, cuts=[9_000])
    with pytest.raises(DownloadError):
        fetch_file(url, target)
    monkeypatch.setattr(download, "_WAITS", (0.0,))
    server.files["/set.bin"] = Served(CONTENT, etag=None)
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT
    assert asked(server) == [(None, None), ("bytes=9000-", None), (None, None)]


def test_weak_tags_are_no_condition(server, served, target, url):
    served.etag, served.cuts = 'W/"one"', [300_000]
    fetch_file(url, target, SHA256)
    assert asked(server) == [(None, None), ("bytes=300000-", None)]


def test_a_part_longer_than_the_file_starts_again(server, target, url, monkeypatch):
    monkeypatch.setattr(download, "_WAITS", ())
    server.files["/set.bin"] = Served(CONTENT, cuts=[300_000])
    with pytest.raises(DownloadError):
        fetch_file(url, target)
    monkeypatch.setattr(download, "_WAITS", (0.0,))
    server.files["/set.bin"] = Served(b"short")
    fetch_file(url, target)  # the server answers 416
    assert target.read_bytes() == b"short"


def test_a_part_of_another_address_is_not_used(server, served, target, url, monkeypatch):
    monkeypatch.setattr(download, "_WAITS", ())
    server.files["/other.bin"] = Served(b"other" * 100, cuts=[50])
    with pytest.raises(DownloadError):
        fetch_file(server.address("/other.bin"), target)
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT and asked(server)[1] == (None, None)


def test_killed_before_the_last_step(server, target, url):
    target.parent.mkdir()
    (target.parent / "set.bin.part").write_bytes(CONTENT)
    (target.parent / "set.bin.part.json").write_text(json.dumps({"url": url, "total": len(CONTENT)}))
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT and server.requests == []


@pytest.mark.parametrize("note", ["", "[]", "{", '{"url": 3}'])
def test_a_damaged_note_starts_again(server, served, target, url, note):
    target.parent.mkdir()
    (target.parent / "set.bin.part").write_bytes(b"rubbish")
    (target.parent / "set.bin.part.json").write_text(note)
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT


def test_an_interruption_leaves_a_part(server, served, target, url):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_file(url, target, SHA256, interrupt)
    kept = (target.parent / "set.bin.part").stat().st_size
    assert 0 < kept < len(CONTENT)
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT and asked(server)[1] == (f"bytes={kept}-", '"one"')


def test_a_server_that_does_not_say_the_length(server, served, target, url):
    served.length = False
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT


def test_chunks_that_break_off(server, served, target, url):
    served.chunked, served.cuts = True, [300_000]
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT


def test_a_wrong_checksum(server, served, target, url):
    with pytest.raises(DownloadError, match=f"has the SHA-256 {SHA256}, not the known 00"):
        fetch_file(url, target, "0" * 64)
    assert left(target) == []


def test_not_there(server, target, url):
    with pytest.raises(DownloadError, match=r"set\.bin: the server answered 404 Not Found"):
        fetch_file(url, target)
    assert len(server.requests) == 1


def test_an_overloaded_server_is_asked_again(server, served, target, url):
    served.statuses = [503, 429]
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT and len(server.requests) == 3


def test_patience_ends(server, served, target, url):
    served.statuses = [503] * 9
    with pytest.raises(DownloadError, match="the server answered 503 Service Unavailable, 3 times in a row"):
        fetch_file(url, target)
    assert len(server.requests) == 3


def test_nothing_listens(target):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with pytest.raises(DownloadError, match=rf"http://127\.0\.0\.1:{port}/set\.bin: no connection \(.*refused"):
        fetch_file(f"http://127.0.0.1:{port}/set.bin", target)


def test_a_name_that_is_no_address(target):
    with pytest.raises(DownloadError, match="nowhere: not an address"):
        fetch_file("nowhere", target)


def test_a_full_disk_keeps_the_part(server, served, target, url, monkeypatch):
    pieces = []

    def append(file, piece):
        pieces.append(piece)
        if len(pieces) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        file.write(piece)

    with monkeypatch.context() as patch:
        patch.setattr(download, "_append", append)
        with pytest.raises(DownloadError, match=r"bin\.part: No space left on device\. Make room or set MANYCLASS"):
            fetch_file(url, target, SHA256)
    kept = (target.parent / "set.bin.part").stat().st_size
    assert kept == sum(map(len, pieces[:2]))
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT and asked(server)[1][0] == f"bytes={kept}-"


def test_too_little_room_is_said_at_once(server, served, target, url, monkeypatch):
    room = shutil.disk_usage(target.parent.parent)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: room)
    with pytest.raises(DownloadError, match=r"1,024,000 bytes are still to come, but .* has room for 1,000 only"):
        fetch_file(url, target)


def test_two_at_once(server, served, target, url):
    def meanwhile(done, total):
        with pytest.raises(DownloadError, match=r"set\.bin is being downloaded by another process"):
            fetch_file(url, target)

    pytest.importorskip("fcntl")
    fetch_file(url, target, SHA256, meanwhile)
    assert target.read_bytes() == CONTENT


def page(action: str) -> bytes:
    return f"""<html><head><title>Google Drive - Virus scan warning</title></head><body>
        <form action="/search"><input type="hidden" name="q" value="no"></form>
        <form id="download-form" action="{action}" method="get"><input type="submit" value="Download anyway"/>
        <input type="hidden" name="id" value="a&amp;b"><input type="hidden" name="uuid" value="1-2"></form>
        </body></html>""".encode()


def test_the_question_of_google_drive_is_answered(server, target, url):
    server.files["/set.bin"] = Served(page("/download"), kind="text/html", ranges=False)  # pages are made anew
    server.files["/download?id=a%26b&uuid=1-2"] = Served(CONTENT, cuts=[300_000])
    fetch_file(url, target, SHA256)
    assert target.read_bytes() == CONTENT
    assert asked(server)[-1] == ("bytes=300000-", '"one"')


@pytest.mark.parametrize("body", [b"<title>Sign in</title>", b"", page("https://elsewhere.example/x"), page("file:/x")])
def test_other_pages_are_no_files(server, target, url, body):
    server.files["/set.bin"] = Served(body, kind="text/html")
    with pytest.raises(DownloadError, match=r"answered with a web page \(.+\) instead of the file"):
        fetch_file(url, target)
    assert "set.bin" not in left(target) and len(server.requests) == 1


def test_a_question_is_answered_once(server, target, url):
    server.files["/set.bin"] = server.files["/set.bin?id=a%26b&uuid=1-2"] = Served(page("/set.bin"), kind="text/html")
    with pytest.raises(DownloadError, match="Virus scan warning"):
        fetch_file(url, target)
    assert len(server.requests) == 2
