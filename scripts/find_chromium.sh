#!/bin/sh
# Chromium is there, or is installed where that is allowed. Without it the tests of the dashboard are skipped and
# say so; under CI they fail.
is_there() {
    command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1
}
is_there && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing chromium for the dashboard's tests"
    { apt-get update -q && apt-get install -yq --no-install-recommends chromium; } >/dev/null 2>&1
    is_there && exit 0
fi
echo "no Chromium: the dashboard's tests cannot run; on Debian: apt-get install chromium" >&2
exit 0
