#!/usr/bin/env bash
# quietly.sh LOG WHAT COMMAND...: runs a command whose output goes into a log; at a terminal a line says meanwhile what is
# done, and is gone at the end. Where the command fails, all that it printed is shown.
set -euo pipefail
log=$1 what=$2
shift 2
mkdir -p "$(dirname "$log")"
is_terminal() { [ -t 2 ]; }
if is_terminal; then printf '%s ...' "$what" >&2; fi
status=0
"$@" >"$log" 2>&1 || status=$?
if is_terminal; then printf '\r\033[K' >&2; fi
if [ $status != 0 ]; then cat "$log" >&2; fi
exit $status
