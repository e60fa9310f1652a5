"""The image of deploy/docker/Dockerfile, built by buildah and run without a daemon: its files are
the read-only root of a process of the image's user, with a volume and /tmp to write to.

As root. INSTALL_BASE names another base than that of the Dockerfile (where no registry of images is
reached: a local one of Debian 13 with Python 3.11 or newer). The machine's certificates are lent to
the build.
"""

import json
import os
import subprocess
from pathlib import Path

from benchmarks.processes import Process
from tests.install.steps import ROOT, free_port, post_call, read, say, see_reader, step, wait_for, wait_until_delivered

NAME = "telemetry-gateway:install-test"
USER = "10001:10001"
ENTER = """
mount --bind {root} {root} && mount -o remount,bind,ro {root}
mount -t tmpfs tmpfs {root}/tmp && mount --bind {volume} {root}/var/lib/telemetry-gateway
mount --rbind /proc {root}/proc && mount --rbind /dev {root}/dev
exec chroot --userspec={user} {root} /usr/bin/env -i {env} {command}
"""
KEY = "a-key-of-the-install-test"


def try_container(folder: Path) -> None:
    """Build, make the first key, run, send one call, probe, stop."""
    base = os.environ.get("INSTALL_BASE", "python:3.11-slim")
    build = ["buildah", "bud", "--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={base}"]
    step(*build, "-v", "/etc/ssl/certs:/etc/ssl/certs:ro", "-f", "deploy/docker/Dockerfile", "-t", NAME, ROOT)
    described = json.loads(step("buildah", "inspect", "--type", "image", NAME))["Docker"]["config"]
    assert described["User"] == USER
    assert described["Healthcheck"]["Test"] == ["CMD", "telemetry-gateway", "healthcheck"]
    container = step("buildah", "from", "--pull-never", NAME).strip()
    try:
        run_image(
            folder,
            Path(step("buildah", "mount", container).strip()),
            dict(pair.split("=", 1) for pair in described["Env"]),
        )
    finally:
        step("buildah", "rm", container)


def run_image(folder: Path, root: Path, env: dict[str, str]) -> None:
    """As `docker run --read-only --tmpfs /tmp -v volume:/var/lib/telemetry-gateway` would."""
    added = step("du", "-sm", root / "opt/gateway").split()[0]
    say(f"{added} MiB above its base")
    volume = folder / "volume"
    volume.mkdir(mode=0o700)
    os.chown(volume, 10001, 10001)
    http, admin, service = free_port(), free_port(), free_port()
    env |= {
        "TELEMETRY_GATEWAY_LISTEN_HTTP": f"0.0.0.0:{http}",
        "TELEMETRY_GATEWAY_LISTEN_GRPC": "off",
        "TELEMETRY_GATEWAY_LISTEN_ADMIN": f"0.0.0.0:{admin}",
        "TELEMETRY_GATEWAY_LISTEN_SERVICE": f"127.0.0.1:{service}",
        "TELEMETRY_GATEWAY_COUNTING_SETTLE": "200ms",
    }

    def inside(*command: str) -> list[str]:
        settings = " ".join(f"'{name}={value}'" for name, value in env.items())
        words = " ".join(f"'{word}'" for word in command)
        return [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            ENTER.format(root=root, volume=volume, user=USER, env=settings, command=words),
        ]

    refused = subprocess.run(
        inside("telemetry-gateway", "run"), capture_output=True, text=True, check=False, timeout=60
    )
    assert refused.returncode == 1, refused.stderr
    say(f"without a key: {refused.stderr.strip()[:200]}")
    (volume / "key").write_text(KEY)
    (volume / "key").chmod(0o644)
    importing = ("keys", "import-legacy", "--if-missing", "--by=test", "--managed=send-ai-telemetry")
    step(*inside("telemetry-gateway", *importing, "--secret-file=/var/lib/telemetry-gateway/key"))
    written = subprocess.run(inside("touch", "/opt/gateway/x"), capture_output=True, text=True, check=False)
    assert "Read-only file system" in written.stderr, written
    process = Process(inside("telemetry-gateway", "run"), log=folder / "run.log")
    try:
        wait_for(process, f"http://127.0.0.1:{admin}/readyz")
        post_call(f"http://127.0.0.1:{http}", Authorization=f"Bearer {KEY}")
        token = (volume / "data/admin-token").read_text().strip()
        wait_until_delivered(process, f"http://127.0.0.1:{admin}", token=token)
        see_reader(f"http://127.0.0.1:{admin}", "native", folder / "run.log", token=token)
        assert read(f"http://127.0.0.1:{admin}/healthz") == b"ok\n"
        say(step(*inside("telemetry-gateway", "healthcheck")).strip())
        assert process.terminate() == 0, process.log_tail()
        step(*inside("telemetry-gateway", "healthcheck"), code=1)
    finally:
        process.kill()
    say("one call sent, and delivered, by user 10001 on a read-only root")
