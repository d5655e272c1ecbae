"""Language models an assistant may ask, read from `model_groups` of endpoints.yml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from server.dialogue.problems import Reporter
from server.dialogue.yamlfiles import interpolate, is_variable


@dataclass(frozen=True, slots=True)
class LLMSettings:
    """The pipeline entry of a language model generator; times in seconds."""

    model_group: str = ""
    on_error: str = "keyword"  # or "fail"
    connect_timeout: float = 3.0
    read_timeout: float = 7.0
    budget: float = 12.0  # for the whole call with its retries; below the task's own timeout
    retries: int = 2
    history_turns: int = 20
    log_prompts: bool = False

    @classmethod
    def read(cls, spec: dict[str, Any], report: Reporter) -> LLMSettings:
        llm = spec.get("llm")
        group = llm.get("model_group") if isinstance(llm, dict) else None
        if not isinstance(group, str):
            report.error(
                "The language model generator names no model group.", "Add 'llm: {model_group: ...}' to its entry."
            )
        on_error = spec.get("on_error", "keyword")
        if on_error not in ("keyword", "fail"):
            report.error(f"'on_error: {on_error}' is not known.", "Use keyword or fail.")
            on_error = "keyword"
        return cls(
            model_group=str(group or ""),
            on_error=str(on_error),
            read_timeout=_positive(spec, "timeout", 7.0, report),
            budget=_positive(spec, "budget", 12.0, report),
            log_prompts=spec.get("log_prompts") is True,
        )


@dataclass(frozen=True, slots=True)
class Model:
    """One model; the key is kept out of every representation."""

    url: str
    name: str
    headers: tuple[tuple[str, str], ...]
    parameters: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None
    temperature: float = 0.0
    max_tokens: int = 256

    def __repr__(self) -> str:
        return f"Model({self.name})"


def read_models(groups: Any, wanted: str, report: Reporter) -> tuple[Model, ...]:
    """The group's models in their order, which is the order of failover."""
    if not wanted:
        return ()
    for group in groups if isinstance(groups, list) else []:
        if isinstance(group, dict) and group.get("id") == wanted:
            models = group.get("models")
            if not isinstance(models, list) or not models:
                report.error(f"The model group '{wanted}' has no models.", "List at least one under 'models'.")
                return ()
            return tuple(model for spec in models if (model := _model(spec, report)) is not None)
    report.error(f"There is no model group '{wanted}'.", "Add it under 'model_groups', with 'id' and 'models'.")
    return ()


def _model(spec: Any, report: Reporter) -> Model | None:
    if not isinstance(spec, dict) or not isinstance(spec.get("model") or spec.get("deployment"), str):
        report.error("A model needs the key 'model'.", "Write 'model: name' with 'provider' and 'api_base'.")
        return None
    if spec.get("api_key") is not None and not is_variable(spec["api_key"]):
        report.error("'api_key' is written out.", "Keep it in the environment: api_key: ${MY_KEY}.")
        return None
    given = interpolate(spec, report)
    provider = str(given.get("provider", "openai"))
    base = given.get("api_base") or ("https://api.openai.com/v1" if provider == "openai" else None)
    if not isinstance(base, str) or not base.startswith(("http://", "https://")):
        report.error(f"The model '{spec.get('model')}' has no usable 'api_base'.", "Give its http(s) base URL.")
        return None
    base = base.rstrip("/")
    key = str(given.get("api_key") or "")
    parameters: tuple[tuple[str, str], ...] = ()
    if provider == "azure":
        headers = (("api-key", key),) if key else ()
        base = f"{base}/openai/deployments/{given.get('deployment') or given['model']}"
        parameters = (("api-version", str(given.get("api_version", "2024-06-01"))),)
    else:
        headers = (("authorization", f"Bearer {key}"),) if key else ()
    return Model(
        url=f"{base}/chat/completions",
        name=str(given.get("model") or given.get("deployment")),
        headers=headers,
        parameters=parameters,
        timeout=_positive(given, "timeout", 0.0, report) or None,
        temperature=float(given.get("temperature") or 0.0),
        max_tokens=int(given.get("max_tokens") or 256),
    )


def _positive(spec: dict[str, Any], key: str, default: float, report: Reporter) -> float:
    value = spec.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        report.error(f"'{key}' must be a number of seconds above 0.", "Write a plain number.")
        return default
    return float(value)
