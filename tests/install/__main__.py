"""`python -m tests.install PART …`: the gateway as each way of installing brings it, from nothing
to a delivered call. Needs root for `deb`, `booted`, `container`, `chart`, `compose` and `edges`,
and the network for package registries.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.install import booted, chart, compose, container, deb, helm, proxies, source, systemd, wheel

PARTS: dict[str, Callable[[Path], None]] = {
    "source": source.try_source,
    "wheel": wheel.try_wheel,
    "systemd": systemd.try_systemd,
    "deb": deb.try_deb,
    "booted": booted.try_booted,
    "helm": helm.try_helm,
    "nginx": proxies.try_nginx,
    "caddy": proxies.try_caddy,
    "container": container.try_container,
    "chart": chart.try_chart,
    "compose": compose.try_compose,
    "edges": compose.try_edges,
}


def main() -> int:
    """Try the named parts, or all; 0 when each ends well."""
    parser = argparse.ArgumentParser(prog="python -m tests.install", description=__doc__)
    parser.add_argument("part", nargs="*", choices=(*PARTS, []), metavar="PART", help=f"one of {', '.join(PARTS)}; all")
    for name in parser.parse_args().part or PARTS:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix=f"install-{name}-") as folder:
            PARTS[name](Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
