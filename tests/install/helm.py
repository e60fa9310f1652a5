"""The Helm chart: lint, and every rendering of the tests against the schemas of Kubernetes.

Needs helm and kubeconform: `go install helm.sh/helm/v3/cmd/helm@v3.19.0`,
`go install github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0`. The schemas are those that the
package kubernetes-validate carries.
"""

import json
import sys
from pathlib import Path

from tests.install.steps import say, step
from tests.unit.deploy.test_helm import CHART, INSTALLATIONS

SCHEMAS = "kubernetes-validate==1.37.0"
VERSIONS = ("1.25.0", "1.31.0", "1.37.0")
LOCATION = "{{.NormalizedKubernetesVersion}}/{{.ResourceKind}}{{.KindSuffix}}.json"
IN_A_POD = Path(__file__).parent / "sidecar-chart"


def try_helm(folder: Path) -> None:
    """Lint, template and check; a chart that includes the sidecar in a pod of its own, too."""
    step("helm", "lint", "--strict", CHART)
    step(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder / "schemas", SCHEMAS)
    for version in VERSIONS:
        unpack(folder / "schemas/kubernetes_validate/kubernetes-json-schema", folder / "by-version", version)
    manifests = folder / "manifests"
    manifests.mkdir()
    for name, values in INSTALLATIONS.items():
        (folder / "values.json").write_text(json.dumps(values))
        template = ["helm", "template", "t", CHART, "--kube-version", VERSIONS[1], "-f", folder / "values.json"]
        (manifests / f"{name.replace(' ', '-')}.yaml").write_text(step(*template))
    step("helm", "dependency", "build", "--skip-refresh", IN_A_POD)
    (manifests / "in-a-pod.yaml").write_text(step("helm", "template", "app", IN_A_POD, "--kube-version", VERSIONS[1]))
    for version in VERSIONS:
        found = step(
            *("kubeconform", "-strict", "-summary", "-skip", "ServiceMonitor", "-kubernetes-version", version),
            *("-schema-location", folder / "by-version" / LOCATION, manifests),
        )
        say(f"Kubernetes {version}: {found.splitlines()[-1]}")


def unpack(packed: Path, to: Path, version: str) -> None:
    """The strict schemas of a version; they name each other by a server's paths, here by files."""
    folder = to / f"v{version}"
    folder.mkdir(parents=True)
    for path in (packed / f"v{version}-local-strict").glob("*.json"):
        text = path.read_text().replace('"/api/_definitions.json', f'"file://{folder}/_definitions.json')
        schema = json.loads(text)
        schema.pop("$id", None)
        (folder / path.name).write_text(json.dumps(schema))
