"""Somebody is told when a group is over: by a real node, over TLS, signed, and again after a failure and a restart."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from diana.node.config.site_file import Notifying, load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, until
from tests.node.notify.receiver import Receiver

pytestmark = pytest.mark.e2e


def submit(site: Site, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "diana.cli", "submit", "--data", str(site.data), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=site.environment())
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


def test_a_group_that_is_over_is_told_until_it_arrived_and_once(grid: Grid, tmp_path: Path) -> None:
    receiver = Receiver(tmp_path, [500, 204])
    alpha = grid.add("alpha", 2)
    mail = tmp_path / "mail"
    program = tmp_path / "sendmail"
    program.write_text(f"#!/bin/sh\ncat > {mail}.new; mv {mail}.new {mail}\n")
    program.chmod(0o755)
    notify = Notifying(private_hosts=("localhost",), certificates=str(receiver.certificates), sendmail=str(program))
    write_config(alpha.paths.config, msgspec.structs.replace(load_config(alpha.paths.config), notify=notify))
    grid.start()
    hook = f"https://localhost:{receiver.port}/hooks/secret"
    assert "127.0.0.1 is no public address" in submit(alpha, "--notify", "https://127.0.0.1/x", "--", "true", code=2)
    assert "write https://HOST/PATH or mail:NAME@HOST" in submit(alpha, "--notify", "ftp://x/", "--", "true", code=2)
    submit(
        alpha, "--wait", "--notify", f"{hook},mail:ann@lab.org", "--", "sh", "-c", "exit {x}", ":::", "0", "3", code=1
    )
    until(lambda: len(receiver.calls) == 2, "it is told again after a failure")
    (_, first, body), (path, headers, again) = receiver.calls
    assert (path, body, first["Diana-Delivery"]) == ("/hooks/secret", again, headers["Diana-Delivery"])
    told = json.loads(body)
    assert {key: told[key] for key in ("event", "site", "group", "owner", "state", "jobs", "done", "failed")} == {
        "event": "group.over", "site": "alpha", "group": "alpha-1", "owner": told["owner"], "state": "failed",
        "jobs": 2, "done": 1, "failed": 1,
    }  # fmt: skip
    certificate = x509.load_der_x509_certificate(base64.b64decode(headers["Diana-Certificate"]))
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(base64.b64decode(headers["Diana-Signature"]), body, ec.ECDSA(hashes.SHA256()))
    root = x509.load_pem_x509_certificates((alpha.paths.keys / "site.pem").read_bytes())
    assert certificate == root[0]
    until(lambda: mail.exists() and "Subject: alpha-1 is failed" in mail.read_text(), "a mail was sent")
    until(lambda: (alpha.data / "notices" / "alpha-1").exists(), "a mark says so")
    assert "secret" not in (alpha.data / "node.log").read_text()
    shown = grid.run(alpha, "status", "--data", str(alpha.data), "alpha-1").stdout
    assert f"notify localhost:{receiver.port}: told\nnotify mail:ann@lab.org: told\n" in shown

    receiver.answers[:] = [503, 204]
    submit(alpha, "--wait", "--notify", hook, "--", "true")
    until(lambda: len(receiver.calls) == 3, "its first try fails")
    alpha.kill()
    alpha.start()
    until(lambda: len(receiver.calls) == 4, "it is told after the restart")
    assert [json.loads(call[2])["group"] for call in receiver.calls] == ["alpha-1", "alpha-1", "alpha-2", "alpha-2"]
    receiver.close()
