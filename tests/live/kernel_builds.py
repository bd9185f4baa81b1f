"""kernel_builds.py - for exllama_builds.py and marlin_builds.py: vLLM's source, edited and compiled with nvcc; `edited` also for
llamacpp_builds.py.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import tarfile

VERSION = "0.26.0"

# A backend of builds that says the package's name: pip download asks one, and the package's own needs torch.
BACKEND = """import os
def get_requires_for_build_wheel(config_settings=None): return []
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    name = "vllm-%s.dist-info" % os.environ["VLLM_VERSION"]
    os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\\nName: vllm\\nVersion: %s\\n" % os.environ["VLLM_VERSION"])
    return name
"""


def fetch(folder):
    """Download vLLM's source distribution into a folder, and return its csrc."""
    backend = os.path.join(folder, "backend", "setuptools")
    os.makedirs(backend)
    open(os.path.join(backend, "__init__.py"), "w").close()
    with open(os.path.join(backend, "build_meta.py"), "w") as f:
        f.write(BACKEND)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-cache-dir", "--no-deps", "--no-build-isolation", "--no-binary", "vllm",
                    "vllm==" + VERSION, "-d", folder], check=True, env=os.environ | {"PYTHONPATH": os.path.dirname(backend), "VLLM_VERSION": VERSION})
    csrc = f"vllm-{VERSION}/csrc"
    with tarfile.open(os.path.join(folder, f"vllm-{VERSION}.tar.gz")) as tar:
        tar.extractall(folder, members=[m for m in tar if m.isfile() and m.name.startswith(csrc + "/")], filter="data")
    return os.path.join(folder, csrc)


def edited(text, edits, tree="vLLM " + VERSION):
    """The text with each edit (old, new, and how often old is there: once) made."""
    for old, new, *times in edits:
        if text.count(old) != (times or [1])[0]:
            sys.exit(f"this source is not that of {tree}: {old!r} is there {text.count(old)} times")
        text = text.replace(old, new)
    return text


def compile_build(out, name, source, arch, options):
    """Compile a file to OUT/NAME.fatbin: the code of one architecture, without PTX. An edit that left it as it is in `itself` is none."""
    path = os.path.join(out, name + ".fatbin")
    subprocess.run(["nvcc", "-std=c++17", f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}", "-fatbin", *options, source, "-o", path], check=True)
    with open(path, "rb") as f, open(os.path.join(out, "itself.fatbin"), "rb") as g:
        if name != "itself" and f.read() == g.read():
            sys.exit(f"{name}: the same code as itself")
    print(name, flush=True)
