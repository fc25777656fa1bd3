#!/usr/bin/env bash
# node_exporter 1.5.0 (Debian 12): of two textfiles with the same metric, series of the second one vanish while
# node_textfile_scrape_error is 0.
#
# One expects a file that cannot be served to be told by that metric, as one with a timestamp is. Where the second file
# has another TYPE or HELP for the metric, or a series that the first has too, its series are dropped, the answer is 200,
# the metric is 0, and only node_exporter's own log tells it. So an alert on scrape_error sees a node on which two
# versions of one agent write files as well.
set -euo pipefail
version=1.5.0-1+b6
directory=$(mktemp -d)
trap 'kill "${exporter:-}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download prometheus-node-exporter=$version > /dev/null
dpkg -x prometheus-node-exporter_*.deb .

# file NAME TYPE HELP DISK [TIMESTAMP]
file() { printf '# HELP disk_limit %s\n# TYPE disk_limit %s\ndisk_limit{disk="%s"} 500%s\n' "$3" "$2" "$4" "${5:-}" > "files/$1.prom"; }
served() {
    usr/bin/prometheus-node-exporter --collector.disable-defaults --collector.textfile \
        --collector.textfile.directory=files --web.listen-address=127.0.0.1:19101 2> exporter.log &
    exporter=$!
    sleep 2
    python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:19101/metrics").read().decode())' |
        grep -E '^(disk_limit|node_textfile_scrape_error)' | sort | tr '\n' ' '
    kill $exporter
    wait $exporter 2> /dev/null || true
}
# expect WORDS...: what is served of a second file, made so
expect() {
    local seen
    seen=$(served)
    echo "$1: $seen"
    [ "$seen" = "$2" ]
}
first='disk_limit{disk="vda"} 500 '
both="$first"'disk_limit{disk="vdb"} 500 '
mkdir files
file a gauge "A limit" vda
file b gauge "A limit" vdb
expect "the same TYPE and HELP" "${both}node_textfile_scrape_error 0 "
file b counter "A limit" vdb
expect "another TYPE" "${first}node_textfile_scrape_error 0 "
file b gauge "The limit" vdb
expect "another HELP" "${first}node_textfile_scrape_error 0 "
file b gauge "A limit" vda
expect "the same series" "${first}node_textfile_scrape_error 0 "
file b gauge "A limit" vdb " 1700000000000"
expect "a timestamp" "${first}node_textfile_scrape_error 1 "
