#!/bin/sh
# tally.sh KIND TEXT: appends a line to out/tally.txt, outside the run, where a test counts what really happened.
#   plain       appends, always
#   idempotent  appends unless the token is there already
#   status      tells whether the token is there
set -eu
kind=$1 text=$2 token=$LOOPFORGE_STEP_TOKEN tally=out/tally.txt
# One at a time, so that looking and appending are one act.
exec 9>>out/lock
flock 9
there() { grep -q "^$token " "$tally" 2>/dev/null; }
case $kind in
status)
    if there; then echo "{\"happened\":true,\"result\":{\"line\":\"$text\"}}"; else echo '{"happened":false}'; fi
    exit ;;
plain) echo "$token $kind $text" >>"$tally" ;;
idempotent) there || echo "$token $kind $text" >>"$tally" ;;
esac
echo "{\"line\":\"$text\"}"
