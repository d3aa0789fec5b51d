"""Fetching from a server on loopback, and finding the files again."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from edge_tvbo_adapters.datasets import fetch as fetching
from edge_tvbo_adapters.datasets.csv import dataset as csv_dataset
from edge_tvbo_adapters.datasets.fetch import fetch, fetch_files, find, look_for, verify
from edge_tvbo_adapters.datasets.intel_lab import IntelLab
from edge_tvbo_adapters.datasets.lab_sample import dataset as lab_sample
from edge_tvbo_adapters.datasets.metr_la import dataset as metr_la

from edge_tvbo.errors import DataError

BODY = b"0 1 2 3 4 5 6 7\n" * 20_000  # more than one chunk
SHA256 = hashlib.sha256(BODY).hexdigest()


class Publisher(BaseHTTPRequestHandler):
    """Serves /whole, /cut, /unsized, /moved, /astray and nothing else."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path in ("/moved", "/astray"):
            self.send_response(302)
            self.send_header("Location", "/whole" if self.path == "/moved" else "file:///etc/hosts")
            self.end_headers()
        elif self.path in ("/whole", "/cut", "/unsized"):
            self.send_response(200)
            if self.path != "/unsized":
                self.send_header("Content-Length", str(len(self.server.body)))
            self.end_headers()
            self.wfile.write(self.server.body[: 1000 if self.path == "/cut" else None])
        else:
            self.send_error(404)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Publisher)
        self.body = BODY
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def no_progress(done: int, total: int | None) -> None:
    """Ignore it."""


class TestFetch:
    @pytest.mark.parametrize("page", ["whole", "moved", "unsized"])
    def test_gives_the_checksum_of_what_it_wrote(self, server, tmp_path, page):
        target = tmp_path / "new" / "data.txt"

        assert fetch(f"{server.url}/{page}", target, SHA256.upper(), no_progress) == SHA256
        assert target.read_bytes() == BODY
        assert [path.name for path in target.parent.iterdir()] == ["data.txt"]

    @pytest.mark.parametrize(("page", "total"), [("whole", len(BODY)), ("unsized", None)])
    def test_tells_how_far_it_is(self, server, tmp_path, page, total):
        seen = []

        fetch(f"{server.url}/{page}", tmp_path / "a", None, lambda *now: seen.append(now))

        assert seen == sorted(seen, key=lambda now: now[0])
        assert len(seen) > 1
        assert seen[-1] == (len(BODY), total)

    @pytest.mark.parametrize(
        ("page", "sha256", "words"),
        [
            ("cut", None, f"ended after 1000 of {len(BODY)} bytes"),
            ("whole", "0" * 64, f"has SHA-256 {SHA256}, expected {'0' * 64}"),
            ("absent", None, "404"),
            ("astray", None, "could not be fetched"),
        ],
    )
    def test_a_failure_keeps_the_old_file_and_leaves_nothing_beside(
        self, server, tmp_path, page, sha256, words
    ):
        target = tmp_path / "data.txt"
        target.write_text("old")

        with pytest.raises(DataError, match=words):
            fetch(f"{server.url}/{page}", target, sha256, no_progress)

        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]

    def test_an_interrupted_download_leaves_nothing(self, server, tmp_path):
        def interrupt(done: int, total: int | None) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch(f"{server.url}/whole", tmp_path / "a", None, interrupt)

        assert list(tmp_path.iterdir()) == []

    def test_nobody_listening_is_a_data_error(self, server, tmp_path):
        server.server_close()

        with pytest.raises(DataError, match="Check the network"):
            fetch(f"{server.url}/whole", tmp_path / "a", None, no_progress)

    @pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://127.0.0.1/a", "data.txt"])
    def test_only_http_is_fetched(self, tmp_path, url):
        with pytest.raises(DataError, match="only http and https"):
            fetch(url, tmp_path / "a", None, no_progress)

    def test_a_place_that_cannot_be_written_is_a_data_error(self, server, tmp_path):
        (tmp_path / "file").write_text("")

        with pytest.raises(DataError, match="could not be fetched"):
            fetch(f"{server.url}/whole", tmp_path / "file" / "a", None, no_progress)


class TestFetchFiles:
    def test_the_first_checksum_seen_is_kept_beside(self, server, tmp_path):
        fetch_files([(f"{server.url}/whole", "data.txt", None)], tmp_path, no_progress)

        assert (tmp_path / "data.txt.sha256").read_text() == f"{SHA256}  data.txt\n"
        verify(tmp_path / "data.txt")

    def test_a_published_checksum_needs_no_file_beside(self, server, tmp_path):
        fetch_files([(f"{server.url}/whole", "data.txt", SHA256)], tmp_path, no_progress)

        assert [path.name for path in tmp_path.iterdir()] == ["data.txt"]

    def test_what_is_there_and_right_is_not_fetched_again(self, server, tmp_path):
        files = [(f"{server.url}/whole", "data.txt", None)]
        fetch_files(files, tmp_path, no_progress)
        fetch_files(files, tmp_path, no_progress)

        assert server.asked == ["/whole"]

    def test_a_damaged_file_is_fetched_again(self, server, tmp_path):
        files = [(f"{server.url}/whole", "data.txt", None)]
        fetch_files(files, tmp_path, no_progress)
        (tmp_path / "data.txt").write_text("damaged")
        fetch_files(files, tmp_path, no_progress)

        assert (tmp_path / "data.txt").read_bytes() == BODY

    def test_another_file_under_the_same_address_is_refused(self, server, tmp_path):
        files = [(f"{server.url}/whole", "data.txt", None)]
        fetch_files(files, tmp_path, no_progress)
        (tmp_path / "data.txt").unlink()
        server.body = b"something else"

        with pytest.raises(DataError, match=f"expected {SHA256}"):
            fetch_files(files, tmp_path, no_progress)


class TestFind:
    def test_the_first_directory_wins_then_the_first_name(self, tmp_path):
        for path in ("a/y", "b/x", "b/y"):
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text("")
        directories = [str(tmp_path / name) for name in "0ab"]

        assert look_for(directories, ("x", "y")) == tmp_path / "a" / "y"
        assert look_for(directories[2:], ("x", "y")) == tmp_path / "b" / "x"
        assert look_for([str(tmp_path / "b" / "y")], ("x", "y")) == tmp_path / "b" / "y"
        assert look_for(directories, ("z",)) is None

    def test_an_error_lists_where_it_looked_and_what_to_do(self, tmp_path):
        with pytest.raises(DataError) as caught:
            find(["/one", "/two"], ("data.txt", "data.csv"), "Fetch it.")

        assert str(caught.value) == ("none of data.txt, data.csv is in:\n  /one\n  /two\nFetch it.")

    def test_a_file_changed_since_it_was_fetched_is_refused(self, tmp_path):
        path = tmp_path / "data.txt"
        path.write_text("changed")
        path.with_name("data.txt.sha256").write_text(f"{SHA256}  data.txt\n")

        with pytest.raises(DataError, match="changed since it was fetched"):
            find([str(tmp_path)], ("data.txt",), "")

    def test_a_checksum_file_without_a_checksum_is_said(self, tmp_path):
        (tmp_path / "data.txt.sha256").write_text("\n")
        with pytest.raises(DataError, match="holds no SHA-256"):
            verify(tmp_path / "data.txt")


class TestDatasets:
    def test_intel_lab_fetches_both_its_files(self, server, tmp_path, monkeypatch):
        here = ((f"{server.url}/whole", "data.txt.gz", None), (f"{server.url}/whole", "b", None))
        monkeypatch.setattr(IntelLab, "files", here)

        IntelLab().fetch(tmp_path, no_progress)

        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "b",
            "b.sha256",
            "data.txt.gz",
            "data.txt.gz.sha256",
        ]

    @pytest.mark.parametrize("dataset", [metr_la, csv_dataset, lab_sample], ids=lambda d: d.name)
    def test_the_others_say_where_their_data_come_from(self, dataset, tmp_path):
        assert dataset.url is None
        with pytest.raises(DataError, match=f"{dataset.name}: cannot be fetched"):
            dataset.fetch(tmp_path, no_progress)

    def test_the_address_of_intel_lab_is_the_publishers(self):
        assert IntelLab.url == IntelLab.files[0][0]
        assert fetching.TIMEOUT > 0
