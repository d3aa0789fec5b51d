"""Certificates for the tests, made by the `openssl` that every Debian has."""

import subprocess


def run(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
HERE = "DNS:localhost,IP:127.0.0.1"  # names of this machine


def authority(directory, name):
    """Make a CA: `name`.pem and `name`.key."""
    files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
    run(directory, "req", "-x509", *NEW_KEY, *files, "-days", "30", "-subj", f"/CN={name}")


def expired_authority(directory, name):
    """Make a CA whose own certificate has expired: `name`.pem and `name`.key."""
    files = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
    run(directory, "req", *NEW_KEY, *files, "-subj", f"/CN={name}")
    (directory / f"{name}.ext").write_text("basicConstraints=critical,CA:TRUE\n")
    files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", f"{name}.ext")
    run(directory, "x509", "-req", "-signkey", f"{name}.key", *files, "-days", "-1")


def self_signed(directory, name):
    """Make a certificate of this machine that signs itself: `name`.pem and `name`.key."""
    files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={HERE}")
    run(directory, "req", "-x509", *NEW_KEY, *files, "-days", "30", *names)


def certificate(directory, name, *, ca, names, days=30):
    """Make a certificate that `ca` signed for `names`: `name`.pem and `name`.key."""
    files = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
    run(directory, "req", *NEW_KEY, *files, "-subj", f"/CN={name}")
    (directory / f"{name}.ext").write_text(f"subjectAltName={names}\n")
    signer = ("-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial")
    files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", f"{name}.ext")
    run(directory, "x509", "-req", *signer, *files, "-days", str(days))


def server(directory):
    """Make a CA, and the certificate of a server on this machine."""
    authority(directory, "ca")
    certificate(directory, "server", ca="ca", names=HERE)


def everything(directory):
    """Make all certificates of the TLS tests, in 0.3 s."""
    server(directory)
    authority(directory, "stranger")
    certificate(directory, "expired", ca="ca", names=HERE, days=-1)
    expired_authority(directory, "old")
    certificate(directory, "young", ca="old", names=HERE)
    certificate(directory, "elsewhere", ca="ca", names="DNS:broker.example,IP:192.0.2.1")
    certificate(directory, "client", ca="ca", names="DNS:edge")
    certificate(directory, "intruder", ca="stranger", names="DNS:edge")
