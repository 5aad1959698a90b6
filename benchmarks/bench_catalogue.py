"""Look-ups in a site's catalogue by the number of its files: by name of a dataset, by file, and thousands at once.

    python -m benchmarks.bench_catalogue [--full] [--json FILE]

The files are rows as registration makes them (their contents are not written; hashing real files is measured apart, on
20,000 small ones). With 10^4 to 10^6 files, with --full also 10^7. Random keys, the first touch of each included; the
catalogue is opened anew before the look-ups. `lookup` of the figures is the largest catalogue's.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from diana.adapters.staging.catalogue.catalogue import PAGE, Catalogue, LocalFile
from diana.adapters.staging.catalogue.registration import register

DATASETS = 10
LOOK_UPS = 2000
BATCH = 2000
SMALL_FILES, SMALL_BYTES = 20_000, 1024


def rows(dataset: int, count: int) -> Iterator[list[LocalFile]]:
    """Files as a run of an experiment names them, in order of name."""
    root = f"/data/run{dataset}"
    for start in range(0, count, PAGE):
        yield [
            LocalFile(name_of(n), root, 1 << 20, 1_700_000_000_000_000_000 + n, hash_of(dataset, n))
            for n in range(start, min(count, start + PAGE))
        ]


def name_of(number: int) -> str:
    return f"block{number // 10_000:04}/events-{number:08}.root"


def hash_of(dataset: int, number: int) -> str:
    return hashlib.sha256(b"%d %d" % (dataset, number)).hexdigest()


def build(path: Path, files: int) -> float:
    """Seconds to register `files` rows in ten datasets."""
    began = time.perf_counter()
    with closing(Catalogue(path)) as catalogue:
        for dataset in range(DATASETS):
            building = catalogue.begin(f"run{dataset}", 0.0)
            for page in rows(dataset, files // DATASETS):
                catalogue.put(building, page)
            catalogue.finish(building, folder=f"/data/run{dataset}", new_version=False, wall_s=0.0)
    return time.perf_counter() - began


def timed(look: Callable[[int], object], keys: list[int]) -> tuple[float, float]:
    """(median, 99 %) in milliseconds."""
    times = []
    for key in keys:
        began = time.perf_counter()
        found = look(key)
        times.append(1000 * (time.perf_counter() - began))
        if not found:
            raise SystemExit(f"look-up {key} found nothing")
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


def look_ups(path: Path, files: int, chance: random.Random) -> dict[str, float]:
    each = files // DATASETS
    with closing(Catalogue(path)) as catalogue:

        def ref(key: int) -> str:
            return f"dataset:run{key % DATASETS}/{name_of(key // DATASETS)}"

        def one(key: int) -> bool:
            return len(catalogue.look_up([ref(key)])[0]) == 1

        def name(key: int) -> bool:
            return len(catalogue.look_up([f"dataset:run{key % DATASETS}"])[0]) == 1

        keys = [chance.randrange(DATASETS * each) for _ in range(LOOK_UPS)]
        out: dict[str, float] = {}
        out["name_p50_ms"], out["name_p99_ms"] = timed(name, keys)
        out["file_p50_ms"], out["file_p99_ms"] = timed(one, keys)
        refs = [ref(chance.randrange(DATASETS * each)) for _ in range(BATCH)]
        began = time.perf_counter()
        found, unknown = catalogue.look_up([*refs, "dataset:run0/none"])
        out["batch_us_per_ref"] = 1e6 * (time.perf_counter() - began) / BATCH
        if len(found) != BATCH or len(unknown) != 1:
            raise SystemExit("the batch did not find what is there")
    return out


def measure(folder: Path, sizes: list[int]) -> dict[str, float]:
    chance = random.Random(4)
    out: dict[str, float] = {}
    for files in sizes:
        path = folder / f"catalogue-{files}.db"
        took_s = build(path, files)
        size_bytes = path.stat().st_size
        found = look_ups(path, files, chance)
        out[f"files_{files}_register_s"] = took_s
        out[f"files_{files}_mib"] = size_bytes / (1 << 20)
        out[f"files_{files}_bytes_per_file"] = size_bytes / files
        out.update({f"files_{files}_{key}": value for key, value in found.items()})
        path.unlink()
    out["hashed_files_per_s"] = asyncio.run(real_files(folder))
    out["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return out


async def real_files(folder: Path) -> float:
    """Files per second, found, hashed and registered."""
    root = folder / "small"
    for number in range(SMALL_FILES):
        path = root / f"d{number // 1000}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(SMALL_BYTES))
    with closing(Catalogue(folder / "real.db")) as catalogue, ThreadPoolExecutor(4) as pool:
        began = time.perf_counter()
        dataset = await register(catalogue, "small", [root], pool, 3, stopping=threading.Event())
        took_s = time.perf_counter() - began
    if dataset.files != SMALL_FILES:
        raise SystemExit(f"registered {dataset.files} files of {SMALL_FILES}")
    return SMALL_FILES / took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also 10^7 files (some minutes, 1 GiB of disk)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    sizes = [10**4, 10**5, 10**6, *([10**7] if arguments.full else [])]
    with tempfile.TemporaryDirectory(prefix="diana-bench-", dir=os.environ.get("TMPDIR")) as folder:
        figures = measure(Path(folder), sizes)
    for name, value in figures.items():
        print(f"{name:34} {value:12.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
