"""The plugin that Snakemake looks for at `--executor diana`: a top-level package of this name, with these three names
in it."""

from diana.workflows.snakemake_executor import Executor, common_settings
from diana.workflows.snakemake_settings import ExecutorSettings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
