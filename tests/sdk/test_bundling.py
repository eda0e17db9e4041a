"""The package in other people's builds: for a page, for Node and for neither it gives the same bytes."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from javascript import FOLDER, ROOT, find_node, find_tool, run_node
from parts import lacking

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
PLAIN = APP % json.dumps(DESCRIPTION)
# What a relay is sent: where to, and how much more than the report that is inside.
SEALED = """
  import { Device, MemoryLedger } from "keyveil"; import { seal } from "keyveil/sealed";
  const description = %s;
  const met = [];
  const fetch = async (url, { body }) => {
    met.push(url, body.length);
    throw new TypeError("no network");
  };
  const relay = { url: "https://relay.example", seal, key: "%s" };
  const ledger = new MemoryLedger({ secret: "07".repeat(32) });
  const device = await Device.open(description, { ledger, environment: {}, relay, fetch });
  await device.enable();
  await device.submit({ maps: 12 });
  const { bytes } = await device.report({});
  const { code } = await device.upload();
  const { route } = await device.status();
  export const answer = JSON.stringify([code, route, met[0], met[1] - bytes.length]);
"""
RELAYED = json.dumps(
    DESCRIPTION
    | {
        "campaign": json.dumps(
            CAMPAIGN | {"relay": "required", "batch": 1000}, sort_keys=True, separators=(",", ":")
        )
    }
)
KEY = "1896bc41da9a7dd488a08463b916a77dc5f690d46939bab346538c8dc2349966"
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
    """Somebody's project, in which the package is installed: the files that it ships, and no other."""
    installed = tmp_path / "node_modules" / "keyveil"
    installed.mkdir(parents=True)
    shipped = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["files"]
    for name in ("package.json", *shipped):
        source = FOLDER / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, installed / name)
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
    return run, {name.removeprefix("node_modules/keyveil/") for name in inputs}


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
    (project / "plain.js").write_text(PLAIN, encoding="utf-8")
    answer = run_module(project / "plain.js", cwd=project)
    assert answer[0] == "done"
    return answer


def as_function(app):
    """The same for a page's plain script, which awaits nothing at its top."""
    imports, body = app.split(";\n", 1)
    made = body.replace("export const answer =", "return")
    return f"{imports};\nexport const answer = (async () => {{ {made} }})();"


BUNDLE = Path(__file__).parent / "bundle.js"


def bundle_by(bundler, kind, project, app=PLAIN):
    """The text of a bundle; without a warning, for authors read those."""
    find_tool(bundler)
    (project / "app.js").write_text(as_function(app), encoding="utf-8")
    run = subprocess.run(
        [find_node(), str(BUNDLE), bundler, kind, str(project)], capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stderr + run.stdout
    return (project / "made" / "app.cjs").read_text(encoding="utf-8")


@pytest.mark.parametrize("bundler", ["esbuild", "vite", "webpack"])
def test_a_bundle_for_a_page_runs_there_and_holds_nothing_of_nodes(project, expected, bundler):
    """U3: bundlers refused the client, which named node:crypto and awaited it at its top."""
    made = bundle_by(bundler, "page", project)
    assert "node:" not in made
    # All mechanisms are in it, for a campaign names its own; series are 5 kB; segments, pairs, open keys 8.
    assert len(made.encode()) < 66_500
    assert run_in_page(project) == expected


def run_in_page(project):
    """The answer in a world of a page's."""
    shown = subprocess.run(
        [find_node(), "--input-type=module", "-e", PAGE, str(project / "made" / "app.cjs")],
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


@pytest.mark.parametrize("bundler", ["esbuild", "vite", "webpack"])
def test_who_sends_through_a_relay_bundles_what_seals(project, bundler):
    """5 kB more; the entries share their modules, so that a refusal of one is a refusal of the other."""
    app = SEALED % (RELAYED, KEY)
    # A frame's length, a header, an encapsulated key, a proof.
    wanted = ["waiting", "relay", "https://relay.example/v1/campaigns/%s/sealed", 4 + 11 + 32 + 16]
    wanted[2] %= hashlib.sha256(json.loads(RELAYED)["campaign"].encode()).hexdigest()
    assert len(bundle_by(bundler, "page", project, app).encode()) < 71_500
    assert run_in_page(project) == wanted
    bundle_by(bundler, "commonjs", project, app)
    assert run_required("./made/app.cjs", cwd=project) == wanted
    (project / "plain.js").write_text(app, encoding="utf-8")
    assert run_module(project / "plain.js", cwd=project) == wanted


def test_a_plain_device_bundles_nothing_that_seals(project):
    sealing = {"sealed.js", "src/client/relayed.js", "src/client/keys.js"}
    sealing |= {f"src/sealing/{name}.js" for name in ("hpke", "sealed")}
    for app, wanted in ((PLAIN, set()), (SEALED % (RELAYED, KEY), sealing)):
        run, files = bundle(project, app, "--platform=browser", "--format=esm")
        assert run.returncode == 0, run.stderr
        assert files & sealing == wanted


@pytest.mark.parametrize("bundler", ["esbuild", "vite", "webpack"])
def test_a_bundle_for_node_is_a_commonjs_module(project, expected, bundler):
    bundle_by(bundler, "commonjs", project)
    assert run_required("./made/app.cjs", cwd=project) == expected


def test_commonjs_gets_the_package_without_a_bundler(project, expected):
    """Node 20.19 and newer hand a module that awaits nothing at its top to `require`."""
    if not run_node("console.log(JSON.stringify(Boolean(process.features.require_module)))"):
        lacking("Node 20.19 or newer is needed, where require takes ES modules")
    app = as_function(PLAIN)
    app = app.replace("import {", "const {").replace('} from "keyveil"', '} = require("keyveil")')
    (project / "app.cjs").write_text(app.replace("export const answer", "exports.answer"), encoding="utf-8")
    assert run_required("./app.cjs", cwd=project) == expected


def run_required(name, *, cwd):
    script = f"require({json.dumps(name)}).answer.then(console.log)"
    run = subprocess.run([find_node(), "-e", script], cwd=cwd, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    return json.loads(run.stdout)


def test_a_page_takes_the_entry_without_nodes_modules(project):
    run, files = bundle(project, 'export * from "keyveil";', "--platform=browser", "--format=esm")
    assert run.returncode == 0, run.stderr
    assert "keyveil.js" in files
    assert not files & {"node.js", "src/ledgers/file.js"}


@pytest.mark.parametrize("platform", ["neutral", "node"])
def test_a_bundle_for_servers_gives_the_same_bytes(project, expected, platform):
    run, files = bundle(project, PLAIN, f"--platform={platform}", "--format=esm")
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


CONSUMER, MISTAKEN = (Path(__file__).parent / name for name in ("consumer.ts", "mistaken.ts"))
# What a page's build does not declare, and Node does.
IN_NODE = 'import { FileLedger } from "keyveil";\nexport const ledger = new FileLedger("ledger.json");\n'


def compiled(project, app, *, name="app.ts", module="esnext", resolution="bundler"):
    """The lines of an application in which the type checker finds a mistake."""
    (project / name).write_text(app, encoding="utf-8")
    options = {
        "noEmit": True,
        "strict": True,
        "target": "es2022",
        "lib": ["es2022", "dom"],
        "types": [],
        "module": module,
        "moduleResolution": resolution,
    }
    settings = {"compilerOptions": options, "files": [name]}
    (project / "tsconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    run = subprocess.run(
        [find_node(), find_tool("tsc"), "--pretty", "false", "-p", "."],
        cwd=project,
        capture_output=True,
        text=True,
    )
    found = {int(line) for line in re.findall(rf"^{re.escape(name)}\((\d+),\d+\): error", run.stdout, re.M)}
    assert bool(found) == (run.returncode != 0), run.stdout + run.stderr
    return found


@pytest.mark.parametrize(("module", "resolution"), [("esnext", "bundler"), ("nodenext", "nodenext")])
def test_an_application_in_typescript_compiles_and_its_mistaken_twin_does_not(project, module, resolution):
    """Every line of the twin that is marked is found, and no other."""
    options = {"module": module, "resolution": resolution}
    assert compiled(project, CONSUMER.read_text(encoding="utf-8"), **options) == set()
    twin = MISTAKEN.read_text(encoding="utf-8")
    wrong = {number for number, line in enumerate(twin.splitlines(), 1) if line.endswith("// wrong")}
    assert len(wrong) >= 10
    assert compiled(project, twin, **options) == wrong
    # In Node the ledger in files is declared; in a page's build it is not.
    assert bool(compiled(project, IN_NODE, **options)) == (resolution == "bundler")


def test_typescript_for_commonjs_finds_the_types(project):
    app = 'import keyveil = require("keyveil");\nexport const { Device }: typeof keyveil = keyveil;\n'
    assert compiled(project, app, name="app.cts", module="nodenext", resolution="nodenext") == set()


def test_the_checked_versions_are_exact_and_the_lock_names_no_registry():
    tools = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert all(version.replace(".", "").isdigit() for version in tools.values())
    packages = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert packages[""]["devDependencies"] == tools
    for name, package in packages.items():
        if name:
            assert "resolved" not in package
            assert package["integrity"].startswith("sha512-")
    # What is for another platform is named too: without it `npm ci` installs nothing at all.
    wanted = {name for package in packages.values() for name in package.get("optionalDependencies", ())}
    assert wanted <= {name.rpartition("node_modules/")[2] for name in packages}
