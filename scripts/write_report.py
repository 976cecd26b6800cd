"""Write the report of a project: one HTML page that works offline, and the same as JSON.

python scripts/write_report.py --step JSON --results DIR --inputs A B ... --html R.html \\
    --json R.json --manifest M.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.files import whole_file
from anneal.provenance.manifests import write_manifest
from anneal.reporting.gather import as_text, gather
from anneal.reporting.page import render


def main(arguments) -> None:
    document = gather(arguments.step.settings, arguments.results)
    with whole_file(arguments.json) as path:
        path.write_text(as_text(document), encoding="utf-8")
    with whole_file(arguments.html) as path:
        path.write_text(render(document), encoding="utf-8")
    inputs = {path.relative_to(arguments.results).as_posix(): path for path in arguments.inputs}
    outputs = [arguments.html, arguments.json]
    write_manifest(arguments.manifest, arguments.step, inputs, outputs)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("results", "html", "json", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--inputs", type=Path, nargs="*", default=[], help="what is shown")
    cli.run(main, arguments.parse_args())
