"""The commands of helm that the tests use, over Helm's own engine (see helm.sh). A real helm understands the same."""

import argparse
import json
import os
import sys

import helm_python as helm


def values(options):
    """The values of -f, then those of --set and --set-json."""
    merged = {}
    for file in options.file:
        with open(file, encoding="utf-8") as text:
            merge(merged, helm.values_from_yaml(text.read()))
    for assignments in options.set:
        merge(merged, helm.parse_set_string(assignments))
    for assignment in options.set_json:
        path, _, value = assignment.partition("=")
        nested = json.loads(value)
        for key in reversed(path.split(".")):
            nested = {key: nested}
        merge(merged, nested)
    return merged


def merge(into, other):
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def template(options):
    with helm.Chart.load(options.chart) as chart:
        chart.validate_schema(values(options))
        files = chart.render(values(options), name=options.release, namespace=options.namespace)
    for path, text in files.items():
        if path.endswith(".yaml") and text.strip():
            print(f"---\n# Source: {path}\n{text}")


def lint(options):
    found = helm.lint(options.chart, strict=options.strict)
    for message in found["messages"]:
        print(f"{message['path']}: {message['error']}")
    if found["errors"]:
        sys.exit("\n".join(found["errors"]))


def package(options):
    print("Successfully packaged chart and saved it to:", helm.package(options.chart, destination=options.destination))


def config(options):
    return helm.Config(kubeconfig_path=os.environ.get("KUBECONFIG"), namespace=options.namespace)


def notes(cluster, options):
    """The notes of the chart, which helm renders before it changes the cluster."""
    with helm.Chart.load(options.chart) as chart:
        files = cluster.render(chart, values(options), name=options.release, namespace=options.namespace)
    return next(text for path, text in files.items() if path.endswith("/NOTES.txt"))


def install(options):
    with config(options) as cluster:
        text = notes(cluster, options)
        cluster.install(
            options.chart,
            options.release,
            values(options),
            namespace=options.namespace,
            create_namespace=options.create_namespace,
            rollback_on_failure=options.rollback_on_failure,
        )
        print(text)


def upgrade(options):
    with config(options) as cluster:
        cluster.upgrade(options.chart, options.release, values(options), namespace=options.namespace)


def uninstall(options):
    with config(options) as cluster:
        cluster.uninstall(options.release)


def main():
    parser = argparse.ArgumentParser(prog="helm")
    commands = parser.add_subparsers(required=True)

    def command(run, *arguments):
        added = commands.add_parser(run.__name__)
        added.set_defaults(run=run)
        for argument in arguments:
            added.add_argument(argument)
        return added

    for run in (template, install, upgrade):
        added = command(run)
        # Only a release that is installed needs a name.
        added.add_argument("release", **({"nargs": "?", "default": "release-name"} if run is template else {}))
        added.add_argument("chart")
        added.add_argument("-f", "--values", dest="file", action="append", default=[])
        added.add_argument("--set", action="append", default=[])
        added.add_argument("--set-json", action="append", default=[])
        added.add_argument("-n", "--namespace", default="default")
        if run is install:
            added.add_argument("--create-namespace", action="store_true")
            added.add_argument("--rollback-on-failure", action="store_true")
    command(uninstall, "release").add_argument("-n", "--namespace", default="default")
    command(lint, "chart").add_argument("--strict", action="store_true")
    command(package, "chart").add_argument("-d", "--destination", default=".")

    options = parser.parse_args()
    try:
        options.run(options)
    except helm.HelmError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
