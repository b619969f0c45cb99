#!/usr/bin/env python3
"""Appends one line to out/tally.txt per effect: the step token, the kind and the text.

The file stands outside the run, so it shows what really happened: count the lines of a token to see how often.

    tally.py plain        appends, always. Nobody can tell later whether it did.
    tally.py idempotent   appends unless the token is there already.
    tally.py status       tells whether the token is there: {"happened": true | false}.

Arguments come as JSON on standard input: "text", and "slow_ms", a wait before and again after the line is written, which gives a
crash the time to come in between. The token is in LOOPFORGE_STEP_TOKEN, and for `status` in the argument "step_token".
"""

import fcntl
import json
import os
import sys
import time

TALLY = os.path.join("out", "tally.txt")


def find(lines, token):
    return next((line for line in lines if line.split("\t")[0] == token), None)


def status(arguments):
    try:
        with open(TALLY, encoding="utf-8") as file:
            line = find(file.read().splitlines(), arguments["step_token"])
    except FileNotFoundError:
        line = None
    if line is None:
        return {"happened": False}
    return {"happened": True, "result": {"line": line}}


def write(kind, arguments):
    token = os.environ["LOOPFORGE_STEP_TOKEN"]
    wait = arguments.get("slow_ms", 0) / 1000
    time.sleep(wait)
    with open(TALLY, "a+", encoding="utf-8") as file:
        # One writer at a time, so that looking and appending are one act.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        line = find(file.read().splitlines(), token)
        if line is None or kind == "plain":
            line = "\t".join([token, kind, arguments["text"]])
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
    time.sleep(wait)
    return {"line": line}


def main():
    kind = sys.argv[1] if len(sys.argv) == 2 else ""
    if kind not in ("plain", "idempotent", "status"):
        sys.exit("usage: tally.py plain | idempotent | status")
    arguments = json.load(sys.stdin)
    result = status(arguments) if kind == "status" else write(kind, arguments)
    json.dump(result, sys.stdout, ensure_ascii=False)


main()
