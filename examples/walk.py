"""A random walk whose step widens with the temperature; the program of sweep.toml."""

import argparse
import json
import random

parser = argparse.ArgumentParser()
parser.add_argument("--temperature", type=float, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--out", required=True)
args = parser.parse_args()

rng = random.Random(args.seed)
place = farthest = 0.0
for _ in range(20_000):
    place += rng.gauss(0.0, args.temperature / 300.0)
    farthest = max(farthest, abs(place))
with open(args.out, "w") as file:
    json.dump({"temperature": args.temperature, "seed": args.seed, "end": place, "farthest": farthest}, file)
