#!/bin/sh
# PostgreSQL's server programs are there, or are installed where that is allowed. Without them the tests of the
# shared store are skipped and say so; under CI they fail.
is_there() {
    command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}
is_there && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing postgresql for the tests of the shared store"
    { apt-get update -q && apt-get install -yq --no-install-recommends postgresql; } >/dev/null 2>&1
    is_there && exit 0
fi
echo "no PostgreSQL: the tests of the shared store cannot run; on Debian: apt-get install postgresql" >&2
exit 0
