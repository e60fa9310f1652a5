"""`doctor`, of the further exporters and the push of own telemetry: whether each can be reached."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from yarl import URL

from gateway.config.model import Config, FileExporter, OtlpTarget
from gateway.operate.findings.finding import Finding

CONNECT_S: Final = 10.0
REACH_REMEDY: Final = "correct its endpoint, and see whether it runs, and a firewall or proxy lies between"
TRUST_REMEDY: Final = "name the authority that signed it in ca_file of this exporter"
TLS_REMEDY: Final = "write http:// in its endpoint where it takes plain HTTP, or correct the port"
FILE_REMEDY: Final = "make the folder, and let the gateway's user write there, or set another path"


async def of_exporters(config: Config) -> AsyncIterator[Finding]:
    """Of each exporter that sends somewhere; what waits for one that fails is kept."""
    targets = (
        dict(config.exporters) if config.telemetry is None else {**config.exporters, "telemetry": config.telemetry}
    )
    for name, options in targets.items():
        what = name if options is config.telemetry else f"exporter {name}"
        if isinstance(options, OtlpTarget):
            yield await of_endpoint(what, options)
        elif isinstance(options, FileExporter):
            yield of_file(what, options.path)


async def of_endpoint(what: str, target: OtlpTarget) -> Finding:
    """Whether a connection opens, with TLS where the endpoint has it; nothing is sent."""
    if target.proxy is not None:
        return Finding("ok", what, "is reached through its proxy: not tried")
    try:
        await connect(URL(target.endpoint), target.ca_file)
    except ssl.SSLCertVerificationError as error:
        text = f"{target.endpoint}: its certificate is not trusted ({error.verify_message})"
        return Finding("fault", what, text, TRUST_REMEDY)
    except ssl.SSLError:
        return Finding("fault", what, f"{target.endpoint}: no TLS is spoken there", TLS_REMEDY)
    except TimeoutError:
        return Finding("fault", what, f"{target.endpoint} does not answer within {CONNECT_S:.0f} s", REACH_REMEDY)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or type(error).__name__
        return Finding("fault", what, f"{target.endpoint} cannot be reached: {reason}", REACH_REMEDY)
    return Finding("ok", what, f"{target.endpoint} takes connections")


async def connect(endpoint: URL, ca_file: Path | None) -> None:
    """Open a connection and close it. Raises OSError (ssl.SSLError is one), TimeoutError."""
    tls = ssl.create_default_context(cafile=ca_file) if endpoint.scheme == "https" else None
    async with asyncio.timeout(CONNECT_S):
        _, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=tls)
    writer.close()


def of_file(what: str, path: Path) -> Finding:
    """Whether records can be appended to *path*; it is not opened."""
    written = path if path.exists() else path.parent
    if not written.exists():
        return Finding("fault", what, f"{written} does not exist", FILE_REMEDY)
    if not os.access(written, os.W_OK):
        return Finding("fault", what, f"{written} cannot be written to", FILE_REMEDY)
    return Finding("ok", what, f"{path} can be written")
