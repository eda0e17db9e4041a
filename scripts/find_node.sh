#!/bin/sh
# Node 18 or newer is there, or is installed where that is allowed. Without it the tests of sdk/js are skipped
# and say so; under CI they fail.
is_new_enough() {
    command -v node >/dev/null 2>&1 && node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)'
}
is_new_enough && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing nodejs for the JavaScript tests"
    { apt-get update -q && apt-get install -yq --no-install-recommends nodejs; } >/dev/null 2>&1
    is_new_enough && exit 0
fi
echo "no Node 18 or newer: the JavaScript tests cannot run; on Debian: apt-get install nodejs" >&2
exit 0
