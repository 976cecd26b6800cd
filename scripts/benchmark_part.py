"""Score one model on some of the benchmarks, for `benchmark` to put together with the others.

python scripts/benchmark_part.py --step JSON --model DIR/manifest.json --heldout H.jsonl \\
    --results R.json --samples S.jsonl --manifest M.json
"""

from anneal import cli
from benchmark import main, options

if __name__ == "__main__":
    cli.run(main, options().parse_args())
