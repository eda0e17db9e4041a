"""The package in other people's builds: for a page, for Node and for neither it gives the same bytes."""

import json
import subprocess
from pathlib import Path

import pytest
from javascript import FOLDER, ROOT, find_node, find_tool

# One answer, every word of it known: the same bytes whoever imports the package.
APP = """
  import { Device, MemoryLedger, toHex } from "keyveil";
  const description = %s;
  const device = await Device.open(description, {
    ledger: new MemoryLedger({ secret: "07".repeat(32) }),
    environment: {},
    ids: () => new Uint8Array(16).fill(5),
    entropy: (size) => new Uint8Array(size).fill(1),
  });
  const { code, bytes } = await device.report({ maps: 12 });
  export const answer = JSON.stringify([code, toHex(bytes)]);
"""
CAMPAIGN = {
    "epsilon": 1.0,
    "expires": "",
    "keys": ["maps", "mail"],
    "mechanism": "pckv-ue",
    "name": "apps",
    "other": False,
    "owner": "",
    "pairs_per_user": 1,
    "purpose": "",
    "value_range": [0.0, 60.0],
}
DESCRIPTION = {
    "format": "keyveil-round/1",
    "campaign": json.dumps(CAMPAIGN, sort_keys=True, separators=(",", ":")),
    "number": 1,
    "purpose": "collect",
    "protocol": "one-round/1",
    "group": ["0", "1"],
    "keys": None,
    "mechanism": {"id": "pckv-ue", "epsilon": "1", "allocation": "optimal", "pairs_per_user": 1},
}
# A world with what every browser has and nothing else: no `process`, no `require`.
PAGE = """
  import { readFileSync } from "node:fs";
  import vm from "node:vm";
  const texts = { TextEncoder, TextDecoder, URL, atob, btoa };
  const time = { AbortController, performance, setTimeout, clearTimeout };
  const world = vm.createContext({ ...texts, ...time, Uint8Array, crypto: globalThis.crypto });
  vm.runInContext(readFileSync(process.argv[1], "utf8"), world);
  console.log(await vm.runInContext("app.answer", world));
"""


@pytest.fixture
def project(tmp_path):
    """Somebody's project, in which the package is installed."""
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "keyveil").symlink_to(FOLDER)
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    return tmp_path


def bundle(project, app, *options):
    """What esbuild says of a bundle, and which files it took."""
    (project / "app.js").write_text(app, encoding="utf-8")
    made, taken = project / "bundle.js", project / "taken.json"
    run = subprocess.run(
        [
            find_node(),
            find_tool("esbuild"),
            "app.js",
            "--bundle",
            f"--outfile={made}",
            f"--metafile={taken}",
            *options,
        ],
        cwd=project,
        capture_output=True,
        text=True,
    )
    inputs = json.loads(taken.read_text(encoding="utf-8"))["inputs"] if run.returncode == 0 else {}
    files = {
        Path(name).resolve() if Path(name).is_absolute() else (project / name).resolve() for name in inputs
    }
    return run, {path.relative_to(FOLDER).as_posix() for path in files if path.is_relative_to(FOLDER)}


def run_module(path, *, cwd):
    run = subprocess.run(
        [
            find_node(),
            "--input-type=module",
            "-e",
            f"console.log((await import({json.dumps(str(path))})).answer)",
        ],
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture
def expected(project):
    """The answer without any bundler."""
    (project / "plain.js").write_text(APP % json.dumps(DESCRIPTION), encoding="utf-8")
    answer = run_module(project / "plain.js", cwd=project)
    assert answer[0] == "done"
    return answer


def as_function(app):
    """The same for a page's plain script, which awaits nothing at its top."""
    imports, body = app.split(";", 1)
    made = body.replace("export const answer =", "return")
    return f"{imports};\nexport const answer = (async () => {{ {made} }})();"


def test_a_bundle_for_a_page_runs_there_and_holds_nothing_of_nodes(project, expected):
    app = as_function(APP % json.dumps(DESCRIPTION))
    run, files = bundle(project, app, "--platform=browser", "--format=iife", "--global-name=app", "--minify")
    assert run.returncode == 0, run.stderr
    assert "keyveil.js" in files
    assert not files & {"node.js", "src/ledgers/file.js"}
    text = (project / "bundle.js").read_text(encoding="utf-8")
    assert "node:" not in text
    shown = subprocess.run(
        [find_node(), "--input-type=module", "-e", PAGE, str(project / "bundle.js")],
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout) == expected


@pytest.mark.parametrize("platform", ["neutral", "node"])
def test_a_bundle_for_servers_gives_the_same_bytes(project, expected, platform):
    run, files = bundle(project, APP % json.dumps(DESCRIPTION), f"--platform={platform}", "--format=esm")
    assert run.returncode == 0, run.stderr
    assert ("node.js" in files) == (platform == "node")
    assert run_module(project / "bundle.js", cwd=project) == expected


def test_a_ledger_in_files_is_nodes_alone(project):
    app = 'import { FileLedger } from "keyveil"; export const answer = typeof FileLedger;'
    page, _ = bundle(project, app, "--platform=browser", "--format=esm")
    assert page.returncode == 1
    assert "No matching export" in page.stderr
    server, files = bundle(project, app, "--platform=node", "--format=esm")
    assert server.returncode == 0, server.stderr
    assert "src/ledgers/file.js" in files
    (project / "plain.js").write_text(
        app.replace("typeof FileLedger", "'\"ok\"' && JSON.stringify(typeof FileLedger)")
    )
    assert run_module(project / "plain.js", cwd=project) == "function"
    (project / "plain.js").write_text(
        'import { FileLedger } from "keyveil/node"; export const answer = JSON.stringify(typeof FileLedger);'
    )
    assert run_module(project / "plain.js", cwd=project) == "function"


TYPED = """
  import * as everything from "keyveil";
  import { Device, type Outcome } from "keyveil";
  import { FileLedger } from "keyveil/node";
  const device: Device = await Device.open({} as never, { ledger: new FileLedger("ledger.json") });
  const outcome: Outcome<{ bytes: Uint8Array }> = await device.report({ maps: 1 });
  export const size = outcome.ok ? outcome.bytes.length : outcome.reason.length;
  // @ts-expect-error a record maps names to numbers
  await device.report({ maps: "often" });
"""


@pytest.mark.parametrize(
    ("module", "resolution", "file_ledger"),
    [
        (
            "esnext",
            "bundler",
            "// @ts-expect-error not in a page\nexport const { FileLedger: other } = everything;",
        ),
        ("nodenext", "nodenext", "export const { FileLedger: other } = everything;"),
    ],
)
def test_typescript_finds_the_types_of_what_it_gets(project, module, resolution, file_ledger):
    """In Node the ledger in files is declared; in a page's build it is not."""
    (project / "app.ts").write_text(TYPED + file_ledger, encoding="utf-8")
    options = {
        "noEmit": True,
        "strict": True,
        "target": "es2022",
        "lib": ["es2022", "dom"],
        "types": [],
        "module": module,
        "moduleResolution": resolution,
        "preserveSymlinks": True,
    }
    settings = {"compilerOptions": options, "files": ["app.ts"]}
    (project / "tsconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    run = subprocess.run(
        [find_node(), find_tool("tsc"), "-p", "."], cwd=project, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_checked_versions_are_exact_and_the_lock_names_no_registry():
    tools = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert all(version.replace(".", "").isdigit() for version in tools.values())
    packages = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert packages[""]["devDependencies"] == tools
    for name, package in packages.items():
        if name:
            assert "resolved" not in package
            assert package["integrity"].startswith("sha512-")
