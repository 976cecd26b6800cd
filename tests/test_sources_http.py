"""Addresses: a real server on the loopback; whole files or one clear error, tokens kept secret."""

import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from reading import read_source, run_read_shard

from anneal.config.sources import Source
from anneal.errors import UserError
from anneal.sources import download
from anneal.sources.shards import DigestCache, plan_shards

ROWS = b"".join(b'{"instruction":"q%d","output":"a%d"}\n' % (i, i * 7919) for i in range(3000))
PACKED = gzip.compress(ROWS, mtime=0)
TOKEN = "s3cr3t-t0ken"


class Handler(BaseHTTPRequestHandler):
    """Serves `server.files`; a path may be cut off some times, need a token, or lead elsewhere."""

    def do_GET(self):
        server, path = self.server, self.path.partition("?")[0]
        server.asked.append((self.path, dict(self.headers)))
        if path in server.moved:
            self.send_response(302)
            self.send_header("Location", server.moved[path])
            self.end_headers()
        elif path not in server.files:
            self.send_error(404)
        elif path in server.closed and self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.send_error(401)
        elif server.busy.get(path):
            server.busy[path] -= 1
            self.send_error(503)
        else:
            self._send(path)

    def _send(self, path):
        body, start = self.server.files[path], 0
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        if "Range" in self.headers and self.headers["If-Range"] == etag:
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", len(body) - start)
        if path not in self.server.without_etag:
            self.send_header("ETag", etag)
        self.end_headers()
        cut = self.server.cut.get(path, 0)
        self.server.cut[path] = cut - 1
        self.wfile.write(body[start : start + len(body) // 3] if cut > 0 else body[start:])
        self.server.files.update(self.server.after_cut)

    def log_message(self, *_):
        pass


def serve():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.moved, server.busy, server.cut = {}, {}, {}, {}
    server.closed, server.without_etag, server.asked, server.after_cut = set(), set(), [], {}
    server.at = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "WAITS", (0, 0))
    server = serve()
    yield server
    server.shutdown()
    server.server_close()


def rows_at(server, tmp_path, path="/rows", **more):
    return read_source(Source(url=f"{server.at}{path}", **more), tmp_path)


@pytest.mark.parametrize("form", ["plain", "gzip", "parquet"])
def test_a_file_is_read_like_a_local_one_and_leaves_nothing_behind(server, tmp_path, form):
    table = pa.BufferOutputStream()
    pq.write_table(pa.table({"instruction": ["q0"] * 3000, "output": ["a0"] * 3000}), table)
    forms = {"plain": ROWS, "gzip": PACKED, "parquet": table.getvalue().to_pybytes()}
    server.files["/rows"] = forms[form]
    records, rejects, _ = rows_at(server, tmp_path, "/rows?version=3#part")
    assert [r["line"] for r in records] == list(range(1, 3001))
    assert rejects == []
    assert records[0]["instruction"] == "q0"
    assert {r["file"] for r in records} == {f"{server.at}/rows"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.parquet", "good.parquet"]


def test_nothing_is_fetched_before_the_source_is_read(server, tmp_path):
    source = Source(url=f"{server.at}/rows")
    plan_shards("s", source, "text", 64, DigestCache(tmp_path / "d"))
    assert server.asked == []


def test_another_snapshot_or_address_is_another_source_and_a_pin_is_its_digest(tmp_path):
    def digest(url="http://host/rows", **more):
        source = Source(url=url, **more)
        return plan_shards("s", source, "text", 64, DigestCache(tmp_path / "d"))[0].digest

    sha256 = hashlib.sha256(ROWS).hexdigest()
    assert digest() == digest(token_env="T")
    assert len({digest(), digest(snapshot="May"), digest("http://host/rows?v=2")}) == 3
    assert digest(sha256=sha256.upper()) == sha256


def test_the_pinned_digest_is_checked(server, tmp_path):
    server.files["/rows"] = PACKED
    sha256 = hashlib.sha256(PACKED).hexdigest()
    assert rows_at(server, tmp_path, sha256=sha256)[2]["records"] == 3000
    (tmp_path / "good.parquet").unlink()
    with pytest.raises(UserError, match=f"/rows: has the sha256 {sha256}, not {'0' * 64}"):
        rows_at(server, tmp_path, sha256="0" * 64)
    assert not (tmp_path / "good.parquet").exists()


def test_a_download_that_breaks_off_goes_on_where_it_stopped(server, tmp_path):
    server.files["/rows"], server.cut["/rows"] = PACKED, 2
    assert rows_at(server, tmp_path)[2]["records"] == 3000
    third = len(PACKED) // 3
    ranges = [headers.get("Range") for _, headers in server.asked]
    assert ranges == [None, f"bytes={third}-", f"bytes={2 * third}-"]


def test_a_file_that_changed_meanwhile_is_fetched_anew(server, tmp_path):
    server.files["/rows"], server.cut["/rows"] = ROWS.upper(), 1
    server.after_cut["/rows"] = ROWS
    records, rejects, _ = rows_at(server, tmp_path)
    assert (len(records), rejects) == (3000, [])
    assert records[0]["instruction"] == "q0"


def test_without_an_etag_it_begins_again(server, tmp_path):
    server.files["/rows"], server.cut["/rows"] = ROWS, 1
    server.without_etag.add("/rows")
    assert rows_at(server, tmp_path)[2]["records"] == 3000
    assert [headers.get("Range") for _, headers in server.asked] == [None, None]


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(server, tmp_path):
    server.files["/rows"], server.busy["/rows"] = ROWS, 2
    assert rows_at(server, tmp_path)[2]["records"] == 3000
    server.asked.clear()
    with pytest.raises(UserError, match="/nope: the server answers 404 Not Found; check the addr"):
        rows_at(server, tmp_path, "/nope")
    assert len(server.asked) == 1


def test_a_body_that_is_always_cut_off_is_truncated(server, tmp_path):
    server.files["/rows"], server.cut["/rows"] = ROWS, 99
    server.without_etag.add("/rows")
    with pytest.raises(UserError, match="/rows: truncated: the connection breaks off"):
        rows_at(server, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_packed_file_that_is_cut_off_at_its_source_is_named_by_its_address(server, tmp_path):
    server.files["/rows"] = PACKED[:-40]
    with pytest.raises(UserError, match=f"^{server.at}/rows: truncated or damaged gzip"):
        rows_at(server, tmp_path)


def test_a_server_that_is_not_there_is_one_clear_error(server, tmp_path):
    server.server_close()
    server.shutdown()
    with pytest.raises(UserError, match="/rows: cannot be reached") as error:
        rows_at(server, tmp_path)
    assert "\n" not in str(error.value)


def test_an_sqlite_file_behind_an_address_needs_a_query(server, tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "a.db") as db:
        db.execute("create table t (instruction, output)")
        db.execute("insert into t values ('q', 'a')")
    server.files["/rows"] = (tmp_path / "a.db").read_bytes()
    assert rows_at(server, tmp_path, query="select * from t")[0][0]["output"] == "a"
    with pytest.raises(UserError, match="/rows: is a database; give a 'query'"):
        rows_at(server, tmp_path)


def test_the_token_reaches_its_host_and_no_other(server, tmp_path, monkeypatch):
    monkeypatch.setenv("ROWS_TOKEN", f"{TOKEN}\n")
    other = serve()
    other.files["/rows"] = server.files["/rows"] = ROWS
    server.closed.add("/rows")
    server.moved["/away"] = f"{other.at}/rows"
    assert rows_at(server, tmp_path, token_env="ROWS_TOKEN")[2]["records"] == 3000
    assert rows_at(server, tmp_path, "/away", token_env="ROWS_TOKEN")[2]["records"] == 3000
    sent = [[headers.get("Authorization") for _, headers in s.asked] for s in (server, other)]
    assert sent == [[f"Bearer {TOKEN}"] * 2, [None]]
    other.shutdown()
    other.server_close()


def test_a_password_of_netrc_does_not_take_the_tokens_place(server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password wrong\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("ROWS_TOKEN", TOKEN)
    server.files["/rows"] = ROWS
    server.closed.add("/rows")
    assert rows_at(server, tmp_path, token_env="ROWS_TOKEN")[2]["records"] == 3000


@pytest.mark.parametrize(
    ("token", "path", "line"),
    [
        (None, "/rows", "error: $ROWS_TOKEN: is not set; export it with the token"),
        (f"{TOKEN}\nX: y", "/rows", "error: $ROWS_TOKEN: holds no token; export it with"),
        (f"{TOKEN}-old", "/rows", "{at}/rows: the server answers 401 Unauthorized; name the env"),
        (TOKEN, "/nope", "{at}/nope: the server answers 404 Not Found; check the address"),
        (TOKEN, "/rows", ""),
    ],
)
def test_the_token_is_written_nowhere(server, tmp_path, token, path, line):
    server.files["/rows"] = ROWS
    server.closed.add("/rows")
    source = Source(url=f"{server.at}{path}", token_env="ROWS_TOKEN")
    done = run_read_shard(source, tmp_path, **({"ROWS_TOKEN": token} if token else {}))
    assert done.stderr.startswith(line.format(at=f"error: {server.at}") if line else "")
    assert done.stderr.count("\n") == (1 if line else 0)
    written = [p.read_bytes().decode("utf-8", "replace") for p in tmp_path.iterdir()]
    assert "s3cr3t" not in "".join([done.stdout, done.stderr, *written])


@pytest.mark.parametrize(
    "url",
    [
        "https://me:s3cr3t@host/rows",
        "https://s3cr3t@host/rows",
        "https://host/rows?X-Amz-Signature=s3cr3t",
        "https://host/rows?access_token=s3cr3t",
        "https://host/rows?v=1&api_key=s3cr3t",
        "https://host/rows?sig=s3cr3t",
        "https://me:s3cr3t@[host/rows",
        "ftp://host/s3cr3t",
        "s3cr3t",
    ],
)
def test_an_address_with_credentials_or_of_another_kind_is_refused_without_showing_it(
    tmp_path, url
):
    from anneal.config.schema import load_config

    path = tmp_path / "config.yaml"
    path.write_text(f'project: p\ndatasets: {{d: {{sources: {{s: {{url: "{url}"}}}}}}}}\n'
                    "models: {m: {path: x}}\n")  # fmt: skip
    with pytest.raises(UserError, match=r"datasets\.d\.sources\.s: 'url' ") as error:
        load_config(path)
    assert "s3cr3t" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "more", [{"sha256": "0" * 64}, {"token_env": "T"}, {"url": "http://host/x", "sha256": "0"}]
)
def test_settings_of_an_address_need_one_and_a_pin_is_a_whole_digest(more):
    with pytest.raises(ValidationError):
        Source(**{"path": "x", **more} if "url" not in more else more)


@pytest.mark.parametrize("url", ["https://host/rows?key_of=3&page=2", "http://host:8080/a/b.gz"])
def test_a_plain_address_is_taken(url):
    assert Source(url=url).url == url
