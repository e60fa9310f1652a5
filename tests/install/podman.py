"""Containers by podman, without a daemon, and its quirks on a machine that is itself a container:
one that may not raise limits (CAP_SYS_RESOURCE), or has both versions of cgroups. As root.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.install.steps import ROOT, step

IMAGE = "localhost/telemetry-gateway:run-by-podman"
CLONE_NEWNS = 0x00020000
BOTH_CGROUPS = Path("/sys/fs/cgroup/unified")
RUNTIME = """#!{python}
import json, os, sys
words = sys.argv[1:]
for option, name in (("--bundle", "config.json"), ("--process", "")):
    if option in words:
        path = os.path.join(words[words.index(option) + 1], name).rstrip("/")
        with open(path) as file:
            spec = json.load(file)
        spec.get("process", spec).pop("rlimits", None)
        with open(path, "w") as file:
            json.dump(spec, file)
os.execvp("crun", ["crun", *words])
"""
"""crun, but no limit of a process is set."""


def prepare(folder: Path) -> None:
    """For this process and those it starts: a mount namespace of its own with one kind of cgroups,
    and a configuration of podman without cgroups and limits.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "root is needed")
    step("mount", "--make-rprivate", "/")
    if BOTH_CGROUPS.exists():
        step("mount", "--rbind", BOTH_CGROUPS, "/sys/fs/cgroup")
    runtime = folder / "crun"
    runtime.write_text(RUNTIME.format(python=sys.executable))
    runtime.chmod(0o755)
    configuration = folder / "containers.conf"
    configuration.write_text(
        f'[network]\nnetwork_backend = "netavark"\n[containers]\ncgroups = "disabled"\n[engine]\ncgroup_manager = "cgroupfs"\n'
        f'runtime = "crun"\n[engine.runtimes]\ncrun = ["{runtime}"]\n'
    )
    os.environ["CONTAINERS_CONF"] = str(configuration)


def podman(*words: object, code: int = 0) -> str:
    return step("podman", *words, env=dict(os.environ), code=code)


def has_image(name: str) -> bool:
    return subprocess.run(["podman", "image", "exists", name], check=False).returncode == 0


def build() -> None:
    """The image of deploy/docker/Dockerfile; steps of which nothing changed are not done again."""
    buildah(IMAGE, ROOT, "-f", "deploy/docker/Dockerfile", "--layers")


def buildah(name: str, context: Path, *more: str) -> None:
    """Build *name*, on INSTALL_BASE where that is set, with the machine's certificates."""
    base = os.environ.get("INSTALL_BASE")
    chosen = [] if base is None else ["--build-arg", f"BASE={base}"]
    command = ["buildah", "bud", "--isolation", "chroot", "--format", "docker", *chosen]
    step(*command, "-v", "/etc/ssl/certs:/etc/ssl/certs:ro", *more, "-t", name, context)


def address_of(container: str) -> str:
    """Its address in podman's network."""
    (found,) = json.loads(podman("inspect", container))
    networks = found["NetworkSettings"]["Networks"].values()
    return next(str(each["IPAddress"]) for each in networks if each["IPAddress"])
