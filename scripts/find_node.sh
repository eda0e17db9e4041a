#!/bin/sh
# Node 20.19 or newer with npm is there, or is installed where that is allowed: what checks the JavaScript needs it (the
# client itself runs on Node 18). Without it the tests of sdk/js are skipped and say so; under CI they fail.
is_new_enough() {
    command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 &&
        node -e 'const [major, minor] = process.versions.node.split("."); process.exit(+major > 20 || (+major == 20 && +minor >= 19) ? 0 : 1)'
}
is_new_enough && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing nodejs and npm for the JavaScript"
    { apt-get update -q && apt-get install -yq --no-install-recommends nodejs npm; } >/dev/null 2>&1
    is_new_enough && exit 0
fi
echo "no Node 20.19 or newer with npm: the JavaScript cannot be checked; on Debian 13: apt-get install nodejs npm" >&2
exit 0
