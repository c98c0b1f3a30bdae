"""Servers whose certificates an authority of the user's own has signed."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import subprocess
import sysconfig
from pathlib import Path

import outcore
import pytest
from stores import HOST, Web

x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")

OUTCORE = str(Path(sysconfig.get_path("scripts")) / "outcore")


def certificates(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """The certificate of a new authority, and a server's that it has signed."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.timezone.utc)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
        for name in ("authority of a test", HOST)
    ]
    made = []
    for number, (name, key) in enumerate(zip(names, keys)):
        is_authority = number == 0
        builder = (
            x509.CertificateBuilder()
            .subject_name(name).issuer_name(names[0]).public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            place = x509.IPAddress(ipaddress.ip_address(HOST))
            builder = builder.add_extension(x509.SubjectAlternativeName([place]), critical=False)
        made.append(builder.sign(keys[0], hashes.SHA256()))
    paths = [folder / name for name in ("authority.pem", "server.pem", "server.key")]
    for path, one in zip(paths, made):
        path.write_bytes(one.public_bytes(serialization.Encoding.PEM))
    paths[2].write_bytes(keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paths[1], paths[2])
    return paths[0], context


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OUTCORE, *words], capture_output=True, text=True, timeout=120)


def test_a_server_is_read_if_its_authority_is_trusted(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = certificates(here)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    with Web(b"b\na\n", tls=context) as web:
        refused = run("sort", f"{web.address}/x.txt")
        assert refused.returncode == 3, refused
        assert "the certificate of its server is not accepted" in refused.stderr, refused
        assert "SSL_CERT_FILE" in refused.stderr
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        read = run("sort", f"{web.address}/x.txt")
        assert (read.returncode, read.stdout) == (0, "a\nb\n"), read.stderr
        outcore.sort(f"{web.address}/x.txt", "out.txt")
        assert Path("out.txt").read_bytes() == b"a\nb\n"


def test_a_certificate_for_another_name_is_rejected(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = certificates(here)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with Web(b"b\na\n", tls=context) as web:
        done = run("sort", f"{web.address.replace(HOST, 'localhost')}/x.txt")
    assert done.returncode == 3 and "is not accepted" in done.stderr, done
    assert "the name of the server" in done.stderr, done


def test_the_bundle_of_s3_takes_the_place_of_the_systems_certificates(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = certificates(here)
    keys = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    with Web(b"b\na\n", tls=context) as web:
        monkeypatch.setenv("AWS_ENDPOINT_URL", web.address)
        read = run("sort", "s3://bucket/x.txt")
        assert (read.returncode, read.stdout) == (0, "a\nb\n"), read.stderr
        Path("empty.pem").write_text("nothing\n")
        monkeypatch.setenv("AWS_CA_BUNDLE", "empty.pem")
        empty = run("sort", "s3://bucket/x.txt")
        assert empty.returncode == 2 and "AWS_CA_BUNDLE has no certificates" in empty.stderr, empty
        for damaged in ("not base64!", "AAAA"):
            Path("damaged.pem").write_text(f"-----BEGIN CERTIFICATE-----\n{damaged}\n-----END CERTIFICATE-----\n")
            monkeypatch.setenv("AWS_CA_BUNDLE", "damaged.pem")
            wrong = run("sort", "s3://bucket/x.txt")
            assert wrong.returncode == 2 and "AWS_CA_BUNDLE has an invalid certificate" in wrong.stderr, wrong
            assert "damaged.pem" in wrong.stderr and "AWS_ACCESS_KEY_ID" not in wrong.stderr, wrong
        monkeypatch.setenv("AWS_CA_BUNDLE", "absent.pem")
        absent = run("sort", "s3://bucket/x.txt")
        assert absent.returncode == 3 and "absent.pem" in absent.stderr, absent
