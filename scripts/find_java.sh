#!/bin/sh
# Java 17 or newer is there, or is installed where that is allowed. Without it the tests of Spark are skipped
# and say so; under CI they fail.
is_new_enough() {
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ]
}
command -v java >/dev/null 2>&1 && is_new_enough && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing a Java runtime for the Spark tests"
    { apt-get update -q && apt-get install -yq --no-install-recommends openjdk-17-jre-headless; } >/dev/null 2>&1
    command -v java >/dev/null 2>&1 && is_new_enough && exit 0
fi
echo "no Java 17 or newer: the Spark tests cannot run; on Debian: apt-get install openjdk-17-jre-headless" >&2
exit 0
