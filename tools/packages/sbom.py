#!/usr/bin/env python3
"""sbom.py FOLDER VERSION EPOCH - writes FOLDER/ole-VERSION.cdx.json, a bill of materials in CycloneDX 1.5.

Components: every file under FOLDER with its SHA-256 sum; for each Debian system the packages that the built packages
depend on, in the versions they were built with (from .buildinfo); for wheels what they bundle (from the CycloneDX
files that they carry in .dist-info/sboms). The same folder gives the same bytes.
"""
import hashlib
import json
import re
import subprocess
import sys
import time
import urllib.parse
import uuid
import zipfile
from pathlib import Path

DISTRIBUTIONS = {"debian12": "bookworm", "debian13": "trixie"}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def file_component(folder, path):
    name = path.relative_to(folder).as_posix()
    return {"type": "file", "bom-ref": f"file:{name}", "name": name,
            "hashes": [{"alg": "SHA-256", "content": sha256(path)}]}


def field(deb, name):
    return subprocess.run(["dpkg-deb", "--field", deb, name], capture_output=True, text=True, check=True).stdout


def built_with(buildinfo):
    """{package: version} of the build's chroot."""
    text = buildinfo.read_text().split("Installed-Build-Depends:")[1]
    return dict(re.findall(r"^ ([a-z0-9.+-]+) \(= ([^)]+)\)", text, re.M))


def debian_component(package, version, system):
    at = "@" + urllib.parse.quote(version, safe="") if version else ""
    reference = f"pkg:deb/debian/{package}{at}?arch=amd64&distro={DISTRIBUTIONS[system]}"
    component = {"type": "library", "bom-ref": reference, "name": package, "purl": reference}
    return {**component, "version": version} if version else component


def debian(folder, system):
    """Components, and what each of our packages depends on."""
    installed = {}
    for buildinfo in (folder / system).glob("*.buildinfo"):
        installed.update(built_with(buildinfo))
    components, dependencies = {}, []
    for deb in sorted((folder / system).glob("*.deb")):
        needs = set()
        for entry in field(deb, "Depends").replace("\n", "").split(","):
            package = re.match(r"\s*([a-z0-9.+-]+)?", entry.split("|")[0])[1]
            if not package:
                continue
            ours = [f"file:{p.relative_to(folder).as_posix()}" for p in (folder / system).glob(f"{package}_*.deb")]
            if ours:
                needs.update(ours)
                continue
            component = debian_component(package, installed.get(package, ""), system)
            components[component["bom-ref"]] = component
            needs.add(component["bom-ref"])
        dependencies.append({"ref": f"file:{deb.relative_to(folder).as_posix()}", "dependsOn": sorted(needs)})
    return [components[k] for k in sorted(components)], dependencies


def bundled(wheel, name):
    """What a wheel says it carries."""
    components = []
    with zipfile.ZipFile(wheel) as archive:
        for member in sorted(archive.namelist()):
            if re.search(r"\.dist-info/sboms/.*\.json$", member):
                for component in json.loads(archive.read(member)).get("components", []):
                    components.append({**component, "bom-ref": f"{name}#{component.get('bom-ref', component['name'])}"})
    return components


def main():
    folder, version, epoch = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    out = folder / f"ole-{version}.cdx.json"
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p != out and p.name != "SHA256SUMS"
             and p.suffix != ".log"]
    components = [file_component(folder, p) for p in files]
    dependencies = []
    for system in DISTRIBUTIONS:
        if (folder / system).is_dir():
            more, depends = debian(folder, system)
            components += more
            dependencies += depends
    for wheel in (p for p in files if p.suffix == ".whl"):
        more = bundled(wheel, f"file:{wheel.relative_to(folder).as_posix()}")
        components += more
        dependencies.append({"ref": f"file:{wheel.relative_to(folder).as_posix()}",
                             "dependsOn": [c["bom-ref"] for c in more]})
    sums = "".join(c["hashes"][0]["content"] for c in components if c["type"] == "file")
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
           "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, sums)}",
           "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
                        "component": {"type": "application", "bom-ref": f"ole@{version}", "name": "ole",
                                      "version": version, "licenses": [{"license": {"id": "MIT"}}],
                                      "purl": f"pkg:generic/ole@{version}"}},
           "components": components, "dependencies": dependencies}
    out.write_text(json.dumps(bom, indent=1, ensure_ascii=False) + "\n", "utf-8")


main()
