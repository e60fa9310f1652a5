"""The Helm chart as a node would run it: what it renders with default values is given to the image
of deploy/docker/Dockerfile by podman, container by container: command, arguments, environment,
user, group, rights, read-only root, mounted files. As root, with helm and podman.

Seen: a call is delivered, a probe and a scrape are answered as the manifests ask, and an upgrade
with a changed key takes it. INSTALL_BASE is as `tests.install.container` has it.
"""

import base64
import json
import urllib.error
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from benchmarks.processes import Process
from tests.install.podman import IMAGE, address_of, build, podman, prepare
from tests.install.steps import ROOT, post_call, read, say, step, wait_for, wait_until_delivered

CHART = ROOT / "deploy/helm/telemetry-gateway"
NAME = "chart-test"
HUB = {"config": {"upstream": {"base_url": "https://127.0.0.1:9", "keys": [{"name": "hub", "secret": "a-key-of-the-hub", "managed": ["send-ai-telemetry"]}]}}}  # fmt: skip
Manifests = dict[str, dict[str, Any]]
"""Kind -> its one document."""


def try_chart(folder: Path) -> None:
    """Defaults, an upgrade with another key, and a daemonset on a node's folder."""
    prepare(folder)
    build()
    defaults = render(folder, {})
    data = folder / "claim"
    ready_claim(data, defaults)
    pod = Pod(folder / "first", defaults, data)
    with pod:
        probe(pod)
        pod.send("first")
        pod.wait_until_delivered(1)
        scrape(pod)
    say("default values: started, a call delivered, scraped")
    changed = render(folder, {})
    assert keys_of(changed) != keys_of(defaults)
    with Pod(folder / "second", changed, data) as pod:
        pod.send("second")
        pod.wait_until_delivered(2)
        assert pod.refuses(keys_of(defaults)["sender-key"])
    say("another key in the Secret: taken, the earlier one refused, the records kept")
    node = folder / "node"
    node.mkdir()  # as the kubelet makes it: of root
    with Pod(folder / "third", render(folder, {"mode": "daemonset", "hostPath": "/x", **HUB}), node) as pod:
        pod.send("third")
    assert (node / "data").stat().st_uid == 10001
    say("daemonset: started on a node's folder")


def render(folder: Path, values: Mapping[str, object]) -> Manifests:
    repository, _, tag = IMAGE.rpartition(":")
    (folder / "values.json").write_text(json.dumps({"image": {"repository": repository, "tag": tag}, **values}))
    text = step(
        "helm", "template", "gateway", CHART, "-f", folder / "values.json", "--set", "serviceMonitor.enabled=true"
    )
    return {document["kind"]: document for document in yaml.safe_load_all(text) if document}


def keys_of(manifests: Manifests) -> dict[str, str]:
    return {entry: base64.b64decode(text).decode() for entry, text in manifests["Secret"]["data"].items()}


def spec_of(manifests: Manifests) -> dict[str, Any]:
    workload = manifests.get("StatefulSet") or manifests["DaemonSet"]
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def ready_claim(folder: Path, manifests: Manifests) -> None:
    """A new volume as the kubelet hands it over: of root, writable by the pod's fsGroup."""
    folder.mkdir()
    shared(folder, spec_of(manifests))


def shared(folder: Path, spec: Mapping[str, Any]) -> None:
    group = spec["securityContext"]["fsGroup"]
    step("chown", f"root:{group}", folder)
    folder.chmod(0o2775)


class Pod:
    """The containers of a pod, one after the other, in one network."""

    def __init__(self, folder: Path, manifests: Manifests, data: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.manifests = manifests
        self.spec = spec_of(manifests)
        self.key = keys_of(manifests)["sender-key"]
        self._volumes = {volume["name"]: self._volume(volume) for volume in self.spec["volumes"]} | {"data": data}
        self._log = folder / "log"
        self._process: Process | None = None

    def __enter__(self) -> Self:
        for container in self.spec.get("initContainers", []):
            say(podman("run", "--rm", *self._flags(container)).strip() or f"{container['name']}: done")
        (container,) = self.spec["containers"]
        self._process = Process(["podman", "run", "--rm", "--name", NAME, *self._flags(container)], log=self._log)
        try:
            self._process.wait_until(self._has_address, timeout_s=60, what="the container's address")
            self.address = address_of(NAME)
            wait_for(self._process, self.url("admin", "/readyz"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        """As the kubelet stops it: a signal, and the grace period."""
        assert self._process is not None
        grace_s = self.spec["terminationGracePeriodSeconds"]
        podman("stop", "--ignore", "--time", grace_s, NAME)
        self._process.wait(timeout_s=60)
        assert "stopped" in self._log.read_text(), self._process.log_tail()

    def url(self, port: str, path: str = "") -> str:
        (container,) = self.spec["containers"]
        number = next(each["containerPort"] for each in container["ports"] if each["name"] == port)
        return f"http://{self.address}:{number}{path}"

    def send(self, name: str) -> None:
        post_call(self.url("otlp-http"), name, Authorization=f"Bearer {self.key}")

    def refuses(self, key: str) -> bool:
        return is_refused(lambda: post_call(self.url("otlp-http"), "refused", Authorization=f"Bearer {key}"))

    def wait_until_delivered(self, calls: int) -> None:
        assert self._process is not None
        token = (self._volumes["data"] / "data/viewer-token").read_text().strip()
        wait_until_delivered(self._process, self.url("admin"), calls=calls, token=token)

    def _has_address(self) -> bool | None:
        return True if podman("ps", "--quiet", "--filter", f"name={NAME}").strip() else None

    def _flags(self, container: Mapping[str, Any]) -> list[str]:
        pod, own = self.spec["securityContext"], container["securityContext"]
        flags = ["--pull=never", "--no-healthcheck"]
        user = own.get("runAsUser", pod["runAsUser"])
        flags += [f"--user={user}:{pod['runAsGroup']}", f"--group-add={pod['fsGroup']}"]
        flags += ["--read-only", "--read-only-tmpfs=false"] if own["readOnlyRootFilesystem"] else []
        flags += [] if own["allowPrivilegeEscalation"] else ["--security-opt=no-new-privileges"]
        flags += [f"--cap-drop={name}" for name in own["capabilities"]["drop"]]
        flags += [f"--cap-add={name}" for name in own["capabilities"].get("add", [])]
        flags += [f"--env={each['name']}={each['value']}" for each in container.get("env", [])]
        for mount in container["volumeMounts"]:
            mode = "ro" if mount.get("readOnly") else "rw"
            flags.append(f"--volume={self._volumes[mount['name']]}:{mount['mountPath']}:{mode}")
        flags += [f"--entrypoint={json.dumps(container['command'])}"] if "command" in container else []
        return [*flags, container["image"], *container.get("args", [])]

    def _volume(self, volume: Mapping[str, Any]) -> Path:
        """The folder that a kubelet would make of it."""
        folder = self._folder / volume["name"]
        folder.mkdir()
        if "configMap" in volume:
            write_all(folder, self.manifests["ConfigMap"]["data"])
        elif "secret" in volume:
            assert volume["secret"]["secretName"] == self.manifests["Secret"]["metadata"]["name"]
            keys = keys_of(self.manifests)
            write_all(folder, {item["path"]: keys[item["key"]] for item in volume["secret"]["items"]})
        else:
            shared(folder, self.spec)
        return folder


def write_all(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)


def probe(pod: Pod) -> None:
    """Each probe of the container, as the kubelet asks it."""
    (container,) = pod.spec["containers"]
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[name]["httpGet"]
        assert read(pod.url(asked["port"], asked["path"])).startswith((b"ok", b"ready"))


def scrape(pod: Pod) -> None:
    """As the ServiceMonitor has Prometheus do; without its token there is no answer."""
    (endpoint,) = pod.manifests["ServiceMonitor"]["spec"]["endpoints"]
    token = keys_of(pod.manifests)[endpoint["authorization"]["credentials"]["key"]]
    url = pod.url(endpoint["port"], endpoint["path"])
    metrics = read(url, Authorization=f"Bearer {token}")
    assert b"telemetry_gateway_items_received_total 1" in metrics
    assert b'reader="native"' in metrics, "the image has the native reader"
    assert is_refused(lambda: read(url))


def is_refused(request: Callable[[], object]) -> bool:
    """Whether it is answered 401."""
    try:
        request()
    except urllib.error.HTTPError as error:
        return error.code == 401
    return False
