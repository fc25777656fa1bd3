#!/usr/bin/env bash
# PCP 6.0.3 and sysstat 12.6.1 (Debian 12): iostat2pcp makes the KiB that were read the number of writes.
#
# iostat2pcp turns the output of iostat into an archive, with which a slow hour is looked at later. It counts the
# columns of `iostat -x`: with discards there are 23 of them, and it takes that many. One expects it to know what they
# are. It takes the places that they had in sysstat 11: a disk of 100 reads and 50 writes a second, of 3200 and 200
# KiB, is in the archive with 3200 writes, 0.5 KiB read, 0.495 KiB written, and 32 merged writes (the mean size of a
# read). The status is 0, and nothing is said. Issue 945 of PCP tells of an error where there are 21 columns. Of iostat
# without -x the figures are right. The header is the one that iostat prints here; the values are put in by its names.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
# holds COMMAND...: it succeeds, or the behaviour has changed.
holds() { "$@" || { echo "other than stated: $*"; exit 1; }; }
version=6.0.3-1.1
apt-get -q -o APT::Sandbox::User=root download sysstat=12.6.1-1 pcp=$version pcp-conf=$version libpcp3=$version \
    libpcp-import1=$version libpcp-import-perl=$version pcp-import-iostat2pcp=$version libtimedate-perl > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib PCP_CONF=$PWD/etc/pcp.conf LC_ALL=C TZ=UTC
export PERL5LIB=$PWD/usr/lib/x86_64-linux-gnu/perl5/5.36:$PWD/usr/share/perl5
# sample NAME=VALUE... < HEADER: three reports of 10 s of one disk, with these values, and 0 in the other columns.
sample() {
    local header second
    header=$(cat)
    printf 'Linux 6.1.0 (hv1) \t2026-01-01 \t_x86_64_\t(2 CPU)\n\n'
    for second in 00 10 20; do
        printf '2026-01-01T00:00:%s+0000\n%s\n' "$second" "$header"
        awk -v values="$*" '{
            count = split(values, pairs, " ")
            for (each = 1; each <= count; each++) { split(pairs[each], pair, "="); value[pair[1]] = pair[2] }
            printf "rbd0"
            for (each = 2; each <= NF; each++) printf " %.2f", value[$each]
            print "\n\n"
        }' <<< "$header"
    done
}
usr/bin/iostat -d -x | grep '^Device' > extended
usr/bin/iostat -d -k | grep '^Device' > plain
sample r/s=100 rkB/s=3200 rrqm/s=1 %rrqm=0.99 r_await=2 rareq-sz=32 w/s=50 wkB/s=200 w_await=4 wareq-sz=4 aqu-sz=0.4 \
    %util=20 < extended > extended.txt
sample tps=150 kB_read/s=3200 kB_wrtn/s=200 kB_read=32000 kB_wrtn=2000 < plain > plain.txt
for each in extended plain; do
    /usr/bin/perl usr/bin/iostat2pcp $each.txt $each.archive
    usr/bin/pmdumplog -a $each.archive | sed -n 's/.*(disk.dev.\(.*\)): inst .* value \(.*\)/\1 \2/p' | sort -u \
        > $each.values
done
sed -n 4,5p extended.txt
tr '\n' ' ' < extended.values
echo
echo "without -x: $(tr '\n' ' ' < plain.values)"
holds [ "$(wc -w < extended)" = 23 ]
holds grep -qx 'read 100' extended.values
holds grep -qx 'write 3200' extended.values
holds grep -qx 'read_bytes 0.5' extended.values
holds grep -qx 'write_bytes 0.495' extended.values
holds grep -qx 'write_merge 32' extended.values
holds grep -qx 'total 150' plain.values
holds grep -qx 'read_bytes 3200' plain.values
holds grep -qx 'write_bytes 200' plain.values
