"""Artifacts go to an S3-compatible store and come back from it."""

import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress

import pytest
from versions import dvc, git

pytest.importorskip("dvc_s3", reason="dvc-s3 is not installed")
pytest.importorskip("moto.server", reason="moto is not installed")
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu"}


@contextmanager
def store():
    """Address of a server with a bucket."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    served = "import sys; from moto.server import main; main(['-p', sys.argv[1]])"
    server = subprocess.Popen([sys.executable, "-c", served, str(port)], stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=address,
            region_name="us-east-1",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        for _ in range(100):
            with suppress(Exception):
                client.create_bucket(Bucket="bucket")
                break
            time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait()


def test_what_is_pushed_to_s3_is_pulled_from_it(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    dvc(folder, "init", "--quiet")
    (folder / "results").mkdir()
    (folder / "results/model.safetensors").write_bytes(bytes(range(256)) * 100)
    dvc(folder, "add", "results")
    with store() as address:
        dvc(folder, "remote", "add", "--default", "store", "s3://bucket/path")
        dvc(folder, "remote", "modify", "store", "endpointurl", address)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "first")
        dvc(folder, "push", **KEYS)
        git(tmp_path, "clone", "-q", str(folder), "clone")
        dvc(tmp_path / "clone", "pull", **KEYS)
    pulled = (tmp_path / "clone/results/model.safetensors").read_bytes()
    assert pulled == (folder / "results/model.safetensors").read_bytes()
