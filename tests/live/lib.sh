# lib.sh - the functions that a row of the live matrix calls. live.sh sources this file and runs
# each row, a function `row_<server>_<what>` of rows_*.sh, in a subshell:
#     row 'llama.cpp good' 'same build, restarted' pass   name baseline and candidate, and the
#                                                         expected verdict
#     need llamacpp                                       fetch and build once; impossible here:
#                                                         "not runnable"
#     serve_llama good                                    start the candidate; sets URL and SERVER
#     judge "$FIXTURE" --server "$URL"                    run gate; its exit code must be the
#                                                         verdict's
#     want 'tokens +pass' "all answers equal"             a line of the report must match; shown as
#                                                         evidence
# Each server is ended by its own pid, at the end of its row at the latest.
# SPDX-License-Identifier: Apache-2.0

NOT_RUNNABLE=77

put() { printf '%s\t%s\n' "$1" "${*:2}" >>"$RESULT"; }          # store a fact about this row for the table
say() { printf '  %s\n' "$*"; }
wrong() { put failed "$*"; say "WRONG: $*"; }                   # the row fails, but goes on to show the rest
die() { wrong "$*"; exit 1; }
cannot() { put cannot "$*"; say "not runnable here: $*"; exit $NOT_RUNNABLE; }

row() { # BASELINE CANDIDATE VERDICT
    put baseline "$1"
    put candidate "$2"
    WANT=$3
    put want "$3 ($(exit_of "$3"))"
    say "expected: $3 (exit $(exit_of "$3"))"
}

exit_of() {
    case $1 in
    pass) echo 0 ;; regressed) echo 1 ;; refused) echo 2 ;; inconclusive) echo 3 ;; broken) echo 4 ;;
    *) echo "lib.sh: no such verdict: $1" >&2; echo 99 ;;
    esac
}
verdict_of() { case $1 in 0) echo pass ;; 1) echo regressed ;; 2) echo refused ;; 3) echo inconclusive ;; 4) echo broken ;; *) echo "exit $1" ;; esac; }

# ---- fetching ------------------------------------------------------------------------------------

# need WHAT...: run get_WHAT.sh, once in a run of live.sh; its output goes to a log. If it exits
# with 77, the row is not runnable here, and the last line of the log gives the reason.
need() {
    local what log rc start
    for what in "$@"; do
        log=$WORK/get_$what.log
        if [ ! -f "$log.rc" ]; then
            say "fetching and building: $what (log: $log)"
            start=$SECONDS
            bash "$HERE/get_$what.sh" "$CACHE" >"$log" 2>&1
            echo $? >"$log.rc"
            say "$what: ready after $((SECONDS - start)) s"
        fi
        rc=$(cat "$log.rc")
        [ "$rc" = $NOT_RUNNABLE ] && cannot "$(tail -n 1 "$log")"
        [ "$rc" = 0 ] || { tail -n 15 "$log" >&2; die "get_$what.sh failed (exit $rc): $(tail -n 1 "$log")"; }
    done
}

# ---- servers -------------------------------------------------------------------------------------

PIDS=            # this row's processes; each leads its own process group

# free_port: print a free port, one of the hundred from TD_LIVE_PORT on
free_port() {
    local p
    for p in $(seq "$PORT0" $((PORT0 + 99))); do
        [ -e "$WORK/port.$p" ] && continue
        (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null && continue
        : >"$WORK/port.$p"
        echo "$p"
        return
    done
    echo "live: no free port between $PORT0 and $((PORT0 + 99)); name others with TD_LIVE_PORT" >&2
    return 1
}

# launch NAME COMMAND...: run a command in the background, in its own process group, with its output
# in $ROW.NAME.log; sets SERVER
launch() {
    LOG=$ROW.$1.log
    setsid "${@:2}" >"$LOG" 2>&1 </dev/null &
    SERVER=$!
    disown $SERVER # else the shell reports how it ended
    PIDS="$PIDS $SERVER"
}

# serve NAME PORT SECONDS COMMAND...: launch a server and wait until it listens on PORT; sets URL
serve() {
    local name=$1 port=$2 limit=$3
    shift 3
    launch "$name" "$@"
    URL=127.0.0.1:$port
    wait_listening "$port" "$limit" || { tail -n 15 "$LOG" >&2; die "$name did not start: $(tail -n 1 "$LOG")"; }
}

wait_listening() { # PORT SECONDS
    local end=$((SECONDS + $2))
    while [ $SECONDS -lt $end ]; do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        kill -0 "$SERVER" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

stop() { # PID: ask the process to end; after at most 20 s kill what is left of its group
    local i
    kill "$1" 2>/dev/null
    for i in $(seq 200); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL -- "-$1" 2>/dev/null
    PIDS=" $PIDS "
    PIDS=${PIDS/ $1 / }
}
stop_all() { local p; for p in $PIDS; do stop "$p"; done; }

# ---- recording and judging -----------------------------------------------------------------------

# shorten paths on stdin for display
shown() { sed "s|$CACHE/||g; s|$WORK/||g; s|$HERE/|tests/live/|g"; }

# record_to DIR OPTIONS...: make a recording; if that fails, the row ends
record_to() {
    local rc
    say "\$ record -o $(basename "$1") ${*:2}" | shown
    "$BIN/record" -o "$@" >"$ROW.record.txt" 2>&1
    rc=$?
    [ $rc = 0 ] || { tail -n 20 "$ROW.record.txt" >&2; die "record: exit $rc, $(tail -n 1 "$ROW.record.txt")"; }
    sed -n '/^phase\|^timed\|^tapped\|^ops/s/^/    /p' "$ROW.record.txt"
}

# replay_to DIR FIXTURE OPTIONS...: make a replay; if that fails, the row ends
replay_to() {
    local rc
    say "\$ replay $(basename "$2") -o $(basename "$1") ${*:3}" | shown
    mkdir -p "$(dirname "$1")"
    "$BIN/replay" "$2" -o "$1" "${@:3}" >"$ROW.replay.txt" 2>&1
    rc=$?
    [ $rc = 0 ] || { tail -n 20 "$ROW.replay.txt" >&2; die "replay: exit $rc, $(tail -n 1 "$ROW.replay.txt")"; }
}

# judge FIXTURE OPTIONS...: run gate. compare FIXTURE REPLAY OPTIONS...: run differ. Both set
# REPORT, and the verdict must be the one that `row` named.
judge() { verdict gate "$@"; }
compare() { verdict differ "$@"; }

verdict() { # PROGRAM ARGUMENTS...
    local rc line
    REPORT=$ROW.report.txt
    say "\$ $1 $(basename "$2") ${*:3}" | shown
    "$BIN/$1" "${@:2}" --verbose >"$REPORT" 2>"$ROW.err"
    rc=$?
    sed -z -i -E -f "$ROOT/tests/fakes/unwrap.sed" "$REPORT"
    cat "$ROW.err" >>"$REPORT"
    lanes_of_report
    put got "$(verdict_of $rc) ($rc)"
    line=$(grep '^verdict:' "$REPORT" || grep -v '^ *$' "$REPORT") # the last: refused (2) has no verdict line
    line=$(shown <<<"${line##*$'\n'}")
    put line "$line"
    say "got: $(verdict_of $rc) (exit $rc)  $line"
    [ $rc = "$(exit_of "$WANT")" ] || { tail -n 60 "$REPORT" >&2; wrong "expected $WANT ($(exit_of "$WANT")), got exit $rc"; }
}

# store the judged lanes with their verdicts, from the report's table
lanes_of_report() {
    local lanes
    lanes=$(sed -n '/^lanes$/,/^$/p' "$REPORT" | awk '$1 ~ /^(tokens|collapse|ops|speed)$/ && $2 != "not" {printf "%s%s %s", s, $1, $2; s = ", "}')
    put lanes "${lanes:-none}"
}

# want REGEX [WHAT]: a line of the report must match (grep -E); the first match is shown as evidence
want() {
    local line
    line=$(grep -m 1 -E -- "$1" "$REPORT" | shown | sed 's/^ *//; s/  */ /g')
    if [ -n "$line" ]; then
        case $line in verdict:*) ;; *) put measured "${2:+$2: }$line" ;; esac # that line is in the table anyway
        say "${2:-found}: $line"
    else
        wrong "the report has no line with ${2:+$2, }/$1/"
    fi
}
want_not() { # REGEX WHAT
    if grep -q -E -- "$1" "$REPORT"; then wrong "$2: $(grep -m 1 -E -- "$1" "$REPORT")"; else put measured "$2: no"; fi
}
