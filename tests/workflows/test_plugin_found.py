"""The plug-in stands where Snakemake looks for it: in the wheel at the top, once, and with settings it understands."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "snakemake_executor_plugin_diana"

ASK = """
import pkgutil, snakemake_executor_plugin_diana as plugin
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry
registry = ExecutorPluginRegistry.__new__(ExecutorPluginRegistry)
registry.plugins = {}
for found in pkgutil.iter_modules():
    if found.ispkg and found.name.startswith(registry.module_prefix):
        registry.register_plugin(found.name, plugin)
print(plugin.__file__, sorted(registry.plugins), *registry.plugins["diana"].settings_cls.__dataclass_fields__)
"""


def test_the_wheel_holds_it_at_the_top_and_snakemake_takes_it(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        places = [name for name in packed.namelist() if NAME in name]
        packed.extractall(tmp_path / "installed")
    assert places == [f"{NAME}/__init__.py"]
    told = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    place = tmp_path / "installed" / NAME / "__init__.py"
    assert told == f"{place} ['diana'] data address credential sites patience\n"
