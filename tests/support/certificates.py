"""Certificates of a made-up authority, by the openssl command."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class Pair(NamedTuple):
    cert: Path
    key: Path

    @property
    def files(self) -> dict[str, str]:
        """As options of `tls.NAME`."""
        return {"cert_file": str(self.cert), "key_file": str(self.key)}


class Authority:
    """Signs certificates in *folder*; `name` distinguishes several."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self.pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
        openssl(
            *("req", "-x509", *KEY, "-days", "30", "-subj", f"/CN={name}"),
            *("-keyout", str(self.pair.key), "-out", str(self.pair.cert)),
        )

    def signed(self, name: str, *, days: int = 30, subject: str | None = None) -> Pair:
        """A certificate for 127.0.0.1 and localhost; *subject*: else its common name is *name*."""
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request, more = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        more.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        subject = f"/CN={name}" if subject is None else subject
        openssl("req", "-new", *KEY, "-subj", subject, "-keyout", str(made.key), "-out", str(request))
        openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.pair.cert), "-CAkey", str(self.pair.key)),
            *("-CAcreateserial", "-days", str(days), "-extfile", str(more), "-out", str(made.cert)),
        )
        return made


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
