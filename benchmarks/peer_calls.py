"""Tasks a second of Ray or of Dask on this machine, for `bench_calls.py`, whose environment this one is not.

python peer_calls.py ray|dask WORKERS CALLS
"""

import json
import sys
import time


def square(number: int) -> int:
    return number * number


def ray_tasks(workers: int, count: int) -> float:
    import ray  # type: ignore[import-not-found]

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        task = ray.remote(square)
        ray.get([task.remote(number) for number in range(10 * workers)])
        began = time.perf_counter()
        ray.get([task.remote(number) for number in range(count)])
        return count / (time.perf_counter() - began)
    finally:
        ray.shutdown()


def dask_tasks(workers: int, count: int) -> float:
    from distributed import Client, LocalCluster  # type: ignore[import-not-found]

    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.gather(client.map(square, range(10 * workers)))
        began = time.perf_counter()
        client.gather(client.map(square, range(-count, 0)))
        return count / (time.perf_counter() - began)


if __name__ == "__main__":
    ways = {"ray": ray_tasks, "dask": dask_tasks}
    print(json.dumps(ways[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))))
