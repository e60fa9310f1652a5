"""`python -m tests.install PART …`: the gateway as each way of installing brings it, from nothing
to a delivered call. Needs root for `deb` and `container`, and the network for package registries.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.install import container, deb, helm, proxies, source, systemd, wheel

PARTS: dict[str, Callable[[Path], None]] = {
    "source": source.try_source,
    "wheel": wheel.try_wheel,
    "systemd": systemd.try_systemd,
    "deb": deb.try_deb,
    "helm": helm.try_helm,
    "nginx": proxies.try_nginx,
    "caddy": proxies.try_caddy,
    "container": container.try_container,
}


def main() -> int:
    """Try the named parts, or all; 0 when each ends well."""
    for name in sys.argv[1:] or PARTS:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix=f"install-{name}-") as folder:
            PARTS[name](Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
