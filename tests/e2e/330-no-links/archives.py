"""archives.py - packs whose archive holds links, paths and devices.

SPDX-License-Identifier: Apache-2.0
"""
import io
import subprocess
import tarfile


def pack(name, *members, fmt=tarfile.USTAR_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as tar:
        for path, kind, target in members:
            t = tarfile.TarInfo(path)
            t.type = kind
            t.linkname = target
            t.size = len(target) if kind == tarfile.REGTYPE else 0
            tar.addfile(t, io.BytesIO(target.encode()) if t.size else None)
    subprocess.run(["zstd", "-qfo", f"a-{name}.tdz"], input=out.getvalue(), check=True)


F, L, H = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
pack("link", ("manifest.json", L, "/etc/passwd"))
pack("hard-link", ("manifest.json", H, "/etc/passwd"))
pack("device", ("manifest.json", tarfile.CHRTYPE, ""))
pack("fifo", ("manifest.json", tarfile.FIFOTYPE, ""))
pack("folder", ("manifest.json", tarfile.DIRTYPE, ""))
pack("parent", ("../evil", F, "x"))
pack("parent-of-a-file", ("../manifest.json", F, "x"))
pack("absolute", ("/manifest.json", F, "x"))
pack("below", ("x/manifest.json", F, "x"))
pack("twice", ("manifest.json", F, "x"), ("manifest.json", F, "y"))
pack("other", ("evil.sh", F, "x"))
pack("pax", ("é" * 60, F, "x"), fmt=tarfile.PAX_FORMAT)
