"""What is shipped to run it elsewhere: the manifests and the compose file hold together, and with the program.

No cluster and no container engine is needed: what they would complain about is found by their own schemas.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from server.cli import parser
from server.config.endpoints import load_settings
from server.config.settings import Settings
from server.transport.metrics import PATH as METRICS_PATH
from server.worker import MARGIN_SECONDS
from tests.ops import schemas
from tests.support.fleet import ROOT, Fleet

FOLDER = ROOT / "deploy/kubernetes"
KINDS = {
    "ConfigMap": "v1",
    "Secret": "v1",
    "Service": "v1",
    "Deployment": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Kustomization": "kustomize.config.k8s.io/v1beta1",
}


def load(path: Path) -> dict[str, Any]:
    [document] = yaml.safe_load_all(path.read_text())
    assert isinstance(document, dict)
    return document


MANIFESTS = {load(path)["kind"]: load(path) for path in sorted(FOLDER.glob("*.yml"))}
POD: dict[str, Any] = MANIFESTS["Deployment"]["spec"]["template"]
CONTAINER: dict[str, Any] = POD["spec"]["containers"][0]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The ConfigMap's settings, read as the program reads them."""
    text = MANIFESTS["ConfigMap"]["data"]["endpoints.yml"]
    key = tmp_path / "jwt_public_key.pem"
    key.write_text(_public_key())
    file = tmp_path / "endpoints.yml"
    file.write_text(text.replace("/run/secrets/nonstick/jwt_public_key.pem", str(key)))
    loaded, problems = load_settings(file, {"REDIS_URL": "redis://redis:6379/0"})
    assert problems == []
    return loaded


def _public_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return made.public_bytes(serialization.Encoding.PEM, form).decode()


def complaints(document: Any, kind: str) -> list[str]:
    """What a cluster that validates strictly would say."""
    validator = Draft202012Validator(schemas.kubernetes(kind, KINDS[kind]))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def test_a_cluster_that_validates_strictly_takes_every_manifest() -> None:
    assert set(MANIFESTS) == set(KINDS)
    for kind, document in MANIFESTS.items():
        assert document["apiVersion"] == KINDS[kind]
        if kind != "Kustomization":
            assert complaints(document, kind) == []
            assert document["metadata"]["name"] == "nonstick"
    assert set(MANIFESTS["Kustomization"]) == {"apiVersion", "kind", "resources"}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("spec", "template", "spec", "containers", 0, "readynessProbe"), {}),
        (("spec", "template", "spec", "terminationGracePeriodSeconds"), "soon"),
        (("spec", "template", "spec", "containers", 0, "livenessProbe", "httpGet", "path"), 7),
        (("spec", "strategy", "rollingUpdate", "maxSurplus"), 1),
    ],
)
def test_a_mistake_in_a_manifest_would_be_found(place: tuple[str | int, ...], value: Any) -> None:
    broken = copy.deepcopy(MANIFESTS["Deployment"])
    inner: Any = broken
    for step in place[:-1]:
        inner = inner[step] if isinstance(step, int) else inner.setdefault(step, {})
    inner[place[-1]] = value
    assert complaints(broken, "Deployment")


def test_the_compose_file_is_one() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    validator = Draft7Validator(schemas.compose())
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(compose)] == []
    compose["services"]["nonstick"]["read_onyl"] = True
    compose["services"]["valkey"]["healthcheck"]["intervall"] = "1s"
    assert len(list(validator.iter_errors(compose))) == 2


def test_what_is_applied_together_is_there_and_the_example_secret_is_not_among_it() -> None:
    listed = set(MANIFESTS["Kustomization"]["resources"])
    there = {path.name for path in FOLDER.glob("*.yml")} - {"kustomization.yml", "secret.example.yml"}
    assert listed == there


def test_every_selector_selects_the_pods() -> None:
    labels = POD["metadata"]["labels"]
    spread = POD["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]
    selectors = [
        MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["Service"]["spec"]["selector"],
        MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        spread,
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
    target = MANIFESTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", MANIFESTS["Deployment"]["metadata"]["name"])


def test_nothing_sticks_a_caller_to_a_replica() -> None:
    assert MANIFESTS["Service"]["spec"]["sessionAffinity"] == "None"
    for path in [*FOLDER.glob("*.yml"), ROOT / "deploy/nginx.conf", ROOT / "docker-compose.yml"]:
        text = "\n".join(line.split("#")[0] for line in path.read_text().splitlines())
        assert not re.search(r"ip_hash|sticky|hash \$|ClientIP|affinity:", text), path


async def test_ports_and_probes_are_those_of_the_program(
    settings: Settings, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert f'"--port", "{ports["http"]}"' in dockerfile
    assert f"EXPOSE {ports['http']}" in dockerfile
    assert settings.metrics_port == ports["metrics"]
    assert settings.metrics_interface == "0.0.0.0"
    assert POD["metadata"]["annotations"]["prometheus.io/port"] == str(ports["metrics"])
    assert POD["metadata"]["annotations"]["prometheus.io/path"] == METRICS_PATH
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = CONTAINER[name]["httpGet"]
        assert (await http.get(fleet.nodes[0].url + probe["path"])).status_code == 200
        assert probe["port"] in ports
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {port["targetPort"] for port in MANIFESTS["Service"]["spec"]["ports"]} <= set(ports)
    opened = {port["port"] for rule in MANIFESTS["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
    assert opened == set(ports)


def test_a_pod_has_time_to_drain(settings: Settings) -> None:
    pause = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["spec"]["terminationGracePeriodSeconds"] > pause + settings.drain_seconds + MARGIN_SECONDS
    # A worker waits 30 s for its store before it gives up; the cluster must not kill it sooner.
    startup = CONTAINER["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > 60


def test_the_flags_are_the_programs_and_the_entry_point_the_images() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    entry = yaml.safe_load(re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)[0])
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    for flags in (CONTAINER["args"], compose["services"]["nonstick"]["command"]):
        given = parser("1").parse_args([*entry[1:], *flags])
        assert given.command == "run"
        assert (ROOT / given.assistant).is_dir()


def test_the_container_may_do_little() -> None:
    may, pod = CONTAINER["securityContext"], POD["spec"]["securityContext"]
    assert may["readOnlyRootFilesystem"] is True
    assert may["allowPrivilegeEscalation"] is False
    assert may["capabilities"] == {"drop": ["ALL"]}
    assert pod["runAsNonRoot"] is True
    assert f"USER {pod['runAsUser']}" in (ROOT / "Dockerfile").read_text()
    assert POD["spec"]["automountServiceAccountToken"] is False
    assert {"requests", "limits"} <= set(CONTAINER["resources"])
    volumes = {volume["name"] for volume in POD["spec"]["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert set(mounts) == volumes
    assert mounts["tmp"] == "/tmp"


def test_secrets_are_taken_from_the_secret_and_exist_in_its_example(settings: Settings) -> None:
    secret = MANIFESTS["Secret"]["stringData"]
    for variable in CONTAINER["env"]:
        assert variable["valueFrom"]["secretKeyRef"]["key"] in secret
    mounted = next(volume for volume in POD["spec"]["volumes"] if volume["name"] == "secrets")
    assert {item["key"] for item in mounted["secret"]["items"]} <= set(secret)
    assert "${REDIS_URL}" in MANIFESTS["ConfigMap"]["data"]["endpoints.yml"]
    assert settings.auth is not None


def test_the_compose_fleet_is_the_one_that_is_tested() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    services = compose["services"]
    assert set(services) == {"valkey", "nonstick", "balancer"}
    replicas = services["nonstick"]
    assert replicas["deploy"]["replicas"] == 3
    assert replicas["read_only"] is True
    grace = int(replicas["stop_grace_period"].removesuffix("s"))
    assert grace > Settings().drain_seconds + MARGIN_SECONDS
    assert replicas["depends_on"]["valkey"]["condition"] == "service_healthy"
    assert "healthcheck" in services["valkey"]
    assert replicas["environment"]["REDIS_URL"].startswith("redis://valkey:")
    command = services["valkey"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    # The balancer runs the very file that the process tests put before real workers.
    assert "./deploy/nginx.conf:/etc/nginx/nginx.conf:ro" in services["balancer"]["volumes"]
    nginx = (ROOT / "deploy/nginx.conf").read_text()
    assert "server nonstick:5005 max_fails=0;" in nginx
    assert services["balancer"]["ports"] == ["127.0.0.1:5005:5005"]
    assert set(compose["volumes"]) == {mount.split(":")[0] for mount in services["valkey"]["volumes"]}
