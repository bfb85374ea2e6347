#!/bin/sh
# check_shell.sh - shellcheck has nothing to say about the project's scripts.
set -eu
command -v shellcheck >/dev/null 2>&1 || exit 77
shellcheck -x dev .ci/run bench/*.sh tests/*.sh tests/*/*.sh tools/*/*.sh tools/*/*/*.sh cli/completion/ole.bash
