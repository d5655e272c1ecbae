"""Settings files for tests."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path, text: str) -> Path:
    file = folder / "endpoints.yml"
    file.write_text(text, encoding="utf-8")
    return file
