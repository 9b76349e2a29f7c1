# SPDX-License-Identifier: Apache-2.0
"""The Python examples of README.md and docs/ run."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [(page.name, text) for page in PAGES for text in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)]


@pytest.mark.parametrize("text", [pytest.param(text, id=f"{name}-{i}") for i, (name, text) in enumerate(EXAMPLES)])
def test_example(text):
    if "import torch" in text or "fovea.torch" in text:
        pytest.importorskip("torch")
    if "transformers" in text:
        pytest.importorskip("transformers")
    exec(compile(text, "example", "exec"), {})
