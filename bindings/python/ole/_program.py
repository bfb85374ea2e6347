"""The command ``ole`` that pip installs: becomes the program in ole/bin of this package.

It is a script because pip puts nothing but scripts on PATH; where a package has no program (the pure-Python one), it
prints a message.
"""
from __future__ import annotations

import os
import sys
from pathlib import Path

# Where distributions keep the certificates of authorities; libcurl inside the wheel knows Debian's place alone.
_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def _certificates() -> str | None:
    """The first collection of certificates there is, that of the Python package certifi last."""
    for path in _CERTIFICATES:
        if os.path.exists(path):
            return path
    try:
        import certifi
    except ImportError:
        return None
    return str(certifi.where())


def main() -> int:
    """Runs the program with the arguments of this one."""
    program = Path(__file__).resolve().parent / "bin" / "ole"
    if not program.exists():
        print(
            "ole: this package has no program for your system, only the Python modules (ole.score, ole.torch); "
            "'pip install' of the source on Linux builds it",
            file=sys.stderr,
        )
        return 1
    if "CURL_CA_BUNDLE" not in os.environ and not os.path.exists(_CERTIFICATES[0]):
        found = _certificates()
        if found:
            os.environ["CURL_CA_BUNDLE"] = found
    try:
        os.execv(program, ["ole", *sys.argv[1:]])
    except OSError as reason:
        print(f"ole: {program} cannot be run: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
