"""What is published of a version: both distributions, a bill of materials, checksums.

    python scripts/release.py [FOLDER]     writes into dist/ if no folder is named

    keyveil-V.tar.gz, keyveil-V-py3-none-any.whl     everything
    keyveil_client-V-py3-none-any.whl                the device's side alone
    keyveil-V.cdx.json                               what is in it and what each extra brings, in the tested
                                                     versions (CycloneDX 1.6)
    SHA256SUMS

The same sources give the same bytes: times inside the archives are the commit's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def build(folder: Path) -> list[Path]:
    """The distributions."""
    folder.mkdir(parents=True, exist_ok=True)
    when = {"SOURCE_DATE_EPOCH": _commit_time()}
    for place, targets in ((ROOT, ("sdist", "wheel")), (ROOT / "sdk" / "python", ("wheel",))):
        named = [word for target in targets for word in ("-t", target)]
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", str(folder.resolve()), *named],
            cwd=place,
            check=True,
            env=os.environ | when,
            stdout=subprocess.DEVNULL,
        )
    return sorted([*folder.glob("keyveil*.whl"), *folder.glob("keyveil*.tar.gz")])


def bill_of_materials(version: str) -> dict[str, Any]:
    """Every package that an extra may bring, in the version that was tested."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = _pinned((ROOT / "constraints.txt").read_text())
    extras: dict[str, list[str]] = {}
    for extra, wanted in project["optional-dependencies"].items():
        for line in wanted:
            name = re.split(r"[\[<>=!~; ]", line)[0].lower()
            if name != "keyveil":
                extras.setdefault(name, []).append(extra)
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{pinned[name]}",
            "name": name,
            "version": pinned[name],
            "purl": f"pkg:pypi/{name}@{pinned[name]}",
            "scope": "optional",
            "properties": [{"name": "keyveil:extra", "value": extra} for extra in of],
        }
        for name, of in sorted(extras.items())
        if name in pinned
    ]
    root = f"pkg:pypi/keyveil@{version}"
    described = {"type": "library", "bom-ref": root, "name": "keyveil", "version": version, "purl": root}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**described, "licenses": [{"license": {"id": project["license"]}}]}},
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": []}],
    }


def _pinned(constraints: str) -> dict[str, str]:
    """The newest pin of each package; some depend on the version of Python."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\n]+)", constraints, flags=re.M)
    return {name.lower().replace("_", "-"): version for name, version in found}


def _commit_time() -> str:
    told = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    # Outside a checkout: a day that every archive can hold.
    return told.stdout.strip() or "1700000000"


def main() -> None:
    """Everything, into one folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    made = build(folder)
    version = re.search(r"-([0-9][^-]*?)(?:\.tar\.gz|-py3)", made[0].name)
    assert version is not None
    bill = folder / f"keyveil-{version[1]}.cdx.json"
    bill.write_text(json.dumps(bill_of_materials(version[1]), indent=1) + "\n")
    sums = folder / "SHA256SUMS"
    listed = [*made, bill]
    sums.write_text(
        "".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in listed)
    )
    for each in (*listed, sums):
        print(f"{each.stat().st_size:>10,}  {each.name}")


if __name__ == "__main__":
    main()
