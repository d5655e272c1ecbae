"""Reads an assistant's folder into one checked, compiled project."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from server.dialogue.domain import Domain, build_domain, merge_domains
from server.dialogue.flowfile import parse_flow
from server.dialogue.flows import Flow, Scope, scope_of
from server.dialogue.problems import Reporter
from server.dialogue.validation import check_flows
from server.dialogue.yamlfiles import Located, parse_yaml, read_yaml

_NOT_FLOWS = frozenset({"config", "endpoints", "credentials", "dialogues", "domain"})
_DATA_KEYS = frozenset({"flows", "nlu", "version"})
_ANNOTATION = re.compile(r"\[[^\]]*\](?:\([^)]*\)|\{[^}]*\})")


@dataclass(frozen=True, slots=True)
class Project:
    """Everything the files say, before any client or action is created."""

    root: Path
    domain: Domain
    flows: dict[str, Flow]
    scopes: dict[str, Scope]
    examples: dict[str, tuple[str, ...]]  # intent -> examples
    config: Located
    endpoints: Located
    fingerprint: str
    replaced_patterns: frozenset[str]


def load_project(root: Path, report: Reporter) -> Project | None:
    """Collects all problems of the folder; None when there is no folder to speak of."""
    if not root.is_dir():
        report.error(f"There is no folder '{root.name}'.", "Give the path of an assistant's folder.")
        return None
    config = _optional(root, "config", report)
    endpoints = _optional(root, "endpoints", report)
    domain = _domain(root, report)
    flow_specs: dict[str, tuple[str, Any]] = {}
    examples: dict[str, tuple[str, ...]] = {}
    for path in _data_files(root):
        content = read_yaml(path, root, report)
        if content is None:
            continue
        here = report.at(file=str(path.relative_to(root)))
        _collect_flows(content.get("flows"), flow_specs, here)
        examples.update(_collect_examples(content.get("nlu"), here))
        for key in sorted(content.keys() - _DATA_KEYS):
            here.warning(f"'{key}' is not used.", "Flows go under 'flows', examples under 'nlu'.")
    if not flow_specs:
        report.error("No flows were found.", "Put a 'flows:' mapping into flows.yml or a file under data/.")
    builtin_specs = builtin_data("patterns.yml")["flows"]
    flows: dict[str, Flow] = {}
    for flow_id, (file, spec) in flow_specs.items():
        flow = parse_flow(flow_id, spec, domain, report.at(file=file))
        if flow is not None:
            flows[flow_id] = flow
    for flow_id, spec in builtin_specs.items():
        if flow_id not in flow_specs:
            builtin = parse_flow(flow_id, spec, domain, report.at(file="built-in patterns"))
            if builtin is not None:
                flows[flow_id] = builtin
    intents = frozenset(examples) | {"session_start", "restart"}
    check_flows(flows, frozenset(builtin_specs), intents, _agents(root), domain, report)
    return Project(
        root=root,
        domain=domain,
        flows=flows,
        scopes={flow_id: scope_of(flow_id, flows) for flow_id in flows},
        examples=examples,
        config=config,
        endpoints=endpoints,
        fingerprint=_fingerprint({name: spec for name, (_, spec) in flow_specs.items()}, domain.raw),
        replaced_patterns=frozenset(flow_specs.keys() & builtin_specs.keys()),
    )


@lru_cache(maxsize=8)
def builtin_data(name: str) -> Located:
    """A YAML file of this package."""
    text = resources.files("server.dialogue.builtin").joinpath(name).read_text(encoding="utf-8")
    report = Reporter(file=name)
    content = parse_yaml(text, report)
    assert content is not None, report.found
    return content


def _optional(root: Path, name: str, report: Reporter) -> Located:
    for suffix in (".yml", ".yaml"):
        path = root / f"{name}{suffix}"
        if path.is_file():
            return read_yaml(path, root, report) or Located()
    return Located()


def _domain(root: Path, report: Reporter) -> Domain:
    paths = [path for path in (root / "domain.yml", root / "domain.yaml") if path.is_file()]
    paths.extend(sorted(path for path in (root / "domain").rglob("*.y*ml") if path.is_file()))
    if not paths:
        report.error("No domain was found.", "Add domain.yml with 'slots' and 'responses'.")
    parts: list[tuple[str, Located]] = []
    for path in paths:
        content = read_yaml(path, root, report)
        if content is not None:
            parts.append((str(path.relative_to(root)), content))
    builtin = {name: ("built-in texts", spec) for name, spec in builtin_data("responses.yml")["responses"].items()}
    return build_domain(merge_domains(parts, report), builtin, report)


def _data_files(root: Path) -> list[Path]:
    here = [path for path in root.glob("*.y*ml") if path.stem not in _NOT_FLOWS and path.is_file()]
    return sorted(here) + sorted(path for path in (root / "data").rglob("*.y*ml") if path.is_file())


def _collect_flows(spec: Any, into: dict[str, tuple[str, Any]], here: Reporter) -> None:
    if spec is None:
        return
    if not isinstance(spec, dict):
        here.error("'flows' must be a mapping of flow ids.", "Write 'flow_id:' below it.")
        return
    for flow_id, flow in spec.items():
        if flow_id in into:
            here.error(f"The flow '{flow_id}' is defined twice (also in {into[flow_id][0]}).", "Rename one of them.")
            continue
        into[flow_id] = (here.file, flow)


def _collect_examples(spec: Any, here: Reporter) -> dict[str, tuple[str, ...]]:
    result: dict[str, tuple[str, ...]] = {}
    if spec is None:
        return result
    if not isinstance(spec, list):
        here.error("'nlu' must be a list of intents.", "Write '- intent: name' and 'examples: |' below it.")
        return result
    for item in spec:
        if not isinstance(item, dict) or "intent" not in item:
            continue  # synonyms, lookups and regexes belong to other pipelines
        examples = item.get("examples")
        lines = examples if isinstance(examples, list) else str(examples or "").splitlines()
        cleaned = (str(line).strip().removeprefix("-").strip() for line in lines)
        result[str(item["intent"])] = tuple(" ".join(_ANNOTATION.sub(" ", line).split()) for line in cleaned if line)
    return result


def _agents(root: Path) -> frozenset[str]:
    folder = root / "sub_agents"
    return frozenset(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else frozenset()


def _fingerprint(flows: dict[str, Any], domain: dict[str, Any]) -> str:
    content = json.dumps([flows, domain], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
