"""Download of datasets from a server on loopback, and search for their files."""

import hashlib
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from edge_tvbo_adapters import datasets
from edge_tvbo_adapters.datasets import fetch as fetch_module
from edge_tvbo_adapters.datasets.csv import dataset as csv_dataset
from edge_tvbo_adapters.datasets.fetch import fetch, fetch_files
from edge_tvbo_adapters.datasets.files import find, look_for, verify
from edge_tvbo_adapters.datasets.intel_lab import IntelLab
from edge_tvbo_adapters.datasets.lab_sample import dataset as lab_sample
from edge_tvbo_adapters.datasets.metr_la import dataset as metr_la

from edge_tvbo.errors import DataError, MissingExtra

BODY = b"0 1 2 3 4 5 6 7\n" * 20_000  # several chunks
SHA256 = hashlib.sha256(BODY).hexdigest()


class Publisher(BaseHTTPRequestHandler):
    """Serves /whole, /cut, /unsized, /moved, /astray and nothing else."""

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
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
        """Do not log."""


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Publisher)
        self.body = BODY
        self.requests: list[str] = []
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
    """Do nothing."""


class TestFetch:
    @pytest.mark.parametrize("page", ["whole", "moved", "unsized"])
    def test_returns_the_checksum_of_the_written_file(self, server, tmp_path, page):
        target = tmp_path / "new" / "data.txt"

        assert fetch(f"{server.url}/{page}", target, SHA256.upper(), no_progress) == SHA256
        assert target.read_bytes() == BODY
        assert [path.name for path in target.parent.iterdir()] == ["data.txt"]

    @pytest.mark.parametrize(("page", "total"), [("whole", len(BODY)), ("unsized", None)])
    def test_reports_progress_in_bytes(self, server, tmp_path, page, total):
        seen = []

        fetch(f"{server.url}/{page}", tmp_path / "a", None, lambda *now: seen.append(now))

        assert seen == sorted(seen, key=lambda now: now[0])
        assert len(seen) > 1
        assert seen[-1] == (len(BODY), total)

    @pytest.mark.parametrize(
        ("page", "sha256", "words"),
        [
            ("cut", None, "1000 bytes read"),
            ("whole", "0" * 64, f"expected {'0' * 64} but got {SHA256}"),
            ("absent", None, "404"),
            ("astray", None, "could not be fetched"),
        ],
    )
    def test_failed_download_keeps_the_old_file_and_nothing_else(
        self, server, tmp_path, page, sha256, words
    ):
        target = tmp_path / "data.txt"
        target.write_text("old")

        with pytest.raises(DataError, match=words):
            fetch(f"{server.url}/{page}", target, sha256, no_progress)

        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]

    def test_interrupted_download_leaves_no_file(self, server, tmp_path):
        def interrupt(done: int, total: int | None) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch(f"{server.url}/whole", tmp_path / "a", None, interrupt)

        assert list(tmp_path.iterdir()) == []

    def test_refused_connection_is_a_data_error(self, server, tmp_path):
        server.server_close()

        with pytest.raises(DataError, match="Check the network"):
            fetch(f"{server.url}/whole", tmp_path / "a", None, no_progress)

    @pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://127.0.0.1/a", "data.txt"])
    def test_other_schemes_than_http_are_rejected(self, tmp_path, url):
        with pytest.raises(DataError, match="must begin with http or https"):
            fetch(url, tmp_path / "a", None, no_progress)

    def test_unwritable_directory_is_a_data_error(self, server, tmp_path):
        (tmp_path / "file").write_text("")

        with pytest.raises(DataError, match="could not be fetched"):
            fetch(f"{server.url}/whole", tmp_path / "file" / "a", None, no_progress)

    def test_without_pooch_the_pip_command_is_named(self, server, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pooch", None)

        with pytest.raises(MissingExtra, match=r"pooch.*\n.*edge-tvbo\[data\]"):
            fetch(f"{server.url}/whole", tmp_path / "a", None, no_progress)


class TestFetchFiles:
    def test_checksum_of_the_first_download_is_kept(self, server, tmp_path):
        fetch_files([(f"{server.url}/whole", "data.txt", None)], tmp_path, no_progress)

        assert (tmp_path / "data.txt.sha256").read_text() == f"{SHA256}  data.txt\n"
        verify(tmp_path / "data.txt")

    def test_published_checksum_is_not_written_to_a_file(self, server, tmp_path):
        fetch_files([(f"{server.url}/whole", "data.txt", SHA256)], tmp_path, no_progress)

        assert [path.name for path in tmp_path.iterdir()] == ["data.txt"]

    def test_valid_file_is_not_fetched_again(self, server, tmp_path):
        files = [(f"{server.url}/whole", "data.txt", None)]
        fetch_files(files, tmp_path, no_progress)
        fetch_files(files, tmp_path, no_progress)

        assert server.requests == ["/whole"]

    def test_damaged_file_is_fetched_again(self, server, tmp_path):
        files = [(f"{server.url}/whole", "data.txt", None)]
        fetch_files(files, tmp_path, no_progress)
        (tmp_path / "data.txt").write_text("damaged")
        fetch_files(files, tmp_path, no_progress)

        assert (tmp_path / "data.txt").read_bytes() == BODY

    def test_changed_file_at_the_publisher_is_rejected(self, server, tmp_path):
        files = [(f"{server.url}/whole", "data.txt", None)]
        fetch_files(files, tmp_path, no_progress)
        (tmp_path / "data.txt").unlink()
        server.body = b"something else"

        with pytest.raises(DataError, match=f"expected {SHA256}"):
            fetch_files(files, tmp_path, no_progress)


class TestFind:
    def test_first_directory_and_then_first_name_is_found(self, tmp_path):
        for path in ("a/y", "b/x", "b/y"):
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text("")
        directories = [str(tmp_path / name) for name in "0ab"]

        assert look_for(directories, ("x", "y")) == tmp_path / "a" / "y"
        assert look_for(directories[2:], ("x", "y")) == tmp_path / "b" / "x"
        assert look_for([str(tmp_path / "b" / "y")], ("x", "y")) == tmp_path / "b" / "y"
        assert look_for(directories, ("z",)) is None

    def test_error_lists_the_directories_and_the_advice(self, tmp_path):
        with pytest.raises(DataError) as caught:
            find(["/one", "/two"], ("data.txt", "data.csv"), "Fetch it.")

        assert str(caught.value) == ("none of data.txt, data.csv is in:\n  /one\n  /two\nFetch it.")

    def test_file_changed_since_its_download_is_rejected(self, tmp_path):
        path = tmp_path / "data.txt"
        path.write_text("changed")
        path.with_name("data.txt.sha256").write_text(f"{SHA256}  data.txt\n")

        with pytest.raises(DataError, match="changed since it was fetched"):
            find([str(tmp_path)], ("data.txt",), "")

    def test_empty_checksum_file_is_a_data_error(self, tmp_path):
        (tmp_path / "data.txt.sha256").write_text("\n")
        with pytest.raises(DataError, match="has no SHA-256"):
            verify(tmp_path / "data.txt")

    def test_files_are_found_without_pooch(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pooch", None)
        (tmp_path / "stocks.csv").write_text("time,a\n0,1\n60,2\n")

        assert datasets.find("csv").load([str(tmp_path)]).sensors == ("a",)


class TestDatasets:
    def test_intel_lab_fetches_both_of_its_files(self, server, tmp_path, monkeypatch):
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
    def test_other_datasets_say_where_their_data_are(self, dataset, tmp_path):
        assert dataset.url is None
        with pytest.raises(DataError, match=f"{dataset.name}: cannot be fetched"):
            dataset.fetch(tmp_path, no_progress)

    def test_address_of_intel_lab_is_the_publishers(self):
        assert IntelLab.url == IntelLab.files[0][0]
        assert fetch_module.TIMEOUT_S > 0
