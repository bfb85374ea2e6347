#!/usr/bin/env python3
"""watch.py TARGET CORPUS SECONDS [QUIET] - fuzzes until SECONDS have passed, or QUIET without new coverage (1200).

What reaches new code goes into CORPUS, a copy of the inputs in the tree is what to pass where they shall stay as they
are. The last line sums up: executions, seconds, and for how long no input has reached code that none had reached before.
"""
import os
import re
import subprocess
import sys
import time

# "#1234	NEW    cov: 81 ft: 92 corp: 5/13b ...": cov counts edges, ft also how often they are taken.
LINE = re.compile(r"#(\d+)\s+(\w+)\s+cov: (\d+)")
LIMITS = ("-timeout=20", "-max_len=65536", "-rss_limit_mb=4096", "-verbosity=1")


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    target, corpus, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    quiet = int(sys.argv[4]) if len(sys.argv) > 4 else 1200
    start = last = time.monotonic()
    executions = edges = 0
    stopped = False
    process = subprocess.Popen([target, *LIMITS, f"-max_total_time={seconds}", corpus], stderr=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, text=True, errors="replace")
    tail = []
    for line in process.stderr:
        match = LINE.match(line)
        now = time.monotonic()
        if match:
            executions = int(match[1])
            if int(match[3]) > edges:
                edges, last = int(match[3]), now
        else:
            tail = [*tail[-60:], line]
        # Lines come at least at each power of two executions.
        if not stopped and now - last > quiet:
            process.terminate()
            stopped = True
    code = process.wait()
    name = os.path.basename(target).removeprefix("fuzz_")
    now = time.monotonic()
    failed = code != 0 and not stopped
    if failed:
        sys.stderr.writelines(tail)
    print(f"{name}: {executions} executions in {now - start:.0f} s, {edges} edges, none new for {now - last:.0f} s, "
          f"{len(os.listdir(corpus))} inputs" + (f"; a finding, see above (exit code {code})" if failed else ""), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
