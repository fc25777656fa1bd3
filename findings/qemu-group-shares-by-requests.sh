#!/usr/bin/env bash
# QEMU 7.2 (Debian 12): disks that share a limit of bytes a second take turns by requests, not by bytes.
#
# One expects two busy disks of a group (group_name of <iotune>, or a throttle group) with 8 MiB/s to get 4 MiB/s
# each. The group lets its disks' requests pass in turn, whatever they cost. Where one disk asks for 4 KiB and the
# other for 1 MiB, both 8 at a time, the first has some 20 to 50 requests a second, a fiftieth of the bytes or less;
# alone it has 2048. With 64 KiB each both have half. So a backup of one volume takes nearly all of the limit that it
# shares with a database's volume. Of a limit of requests they have half each. So has QEMU 11.1.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 libaio1 liburing2 \
    libfuse3-3 libglib2.0-0 libnuma1 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
cat > shares.py << 'PYTHON'
"""Bytes a second that each of two disks reads under a limit that they share: of what kind, how much, sizes of requests."""
import os, selectors, socket, struct, subprocess, sys, time

SECONDS, DEPTH = 10, 8
command = ["usr/bin/qemu-storage-daemon", "--object", f"throttle-group,id=g,x-{sys.argv[1]}-total={sys.argv[2]}",
           "--nbd-server", "addr.type=unix,addr.path=nbd"]
for name in "ab":
    command += ["--blockdev", f"null-co,node-name=under-{name},size=1073741824",
                "--blockdev", f"throttle,node-name={name},throttle-group=g,file=under-{name}",
                "--export", f"nbd,id=export-{name},node-name={name},name={name}"]
daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)


class Disk:
    """The NBD protocol, from which each answer is 16 bytes and the data."""

    def __init__(self, name, size):
        self.size, self.answers, self.rest = size, 0, 16 + size
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect("nbd")
        self.receive(18)
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 1) + name.encode())
        self.receive(10)

    def receive(self, number):
        while number:
            number -= len(self.socket.recv(number))

    def read(self):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, 0, self.size))

    def ready(self):
        self.rest -= len(self.socket.recv(self.rest))
        if not self.rest:
            self.answers, self.rest = self.answers + 1, 16 + self.size
            self.read()


for _ in range(50):
    time.sleep(0.1)
    if os.path.exists("nbd"):
        break
disks = [Disk(name, int(size)) for name, size in zip("ab", sys.argv[3:])]
selector = selectors.DefaultSelector()
for disk in disks:
    selector.register(disk.socket, selectors.EVENT_READ, disk)
    for _ in range(DEPTH):
        disk.read()
end = time.monotonic() + SECONDS
while (left := end - time.monotonic()) > 0:
    for key, _ in selector.select(left):
        key.data.ready()
print(*(disk.answers * disk.size // SECONDS for disk in disks))
daemon.kill()
daemon.wait()
os.path.exists("nbd") and os.unlink("nbd")
PYTHON
read -r small large <<< "$(python3 shares.py bps 8388608 4096 1048576)"
read -r first second <<< "$(python3 shares.py bps 8388608 65536 65536)"
read -r of_small of_large <<< "$(python3 shares.py iops 100 4096 1048576)"
echo "bytes a second of 8388608: requests of 4 KiB $small, of 1 MiB $large; 64 KiB both: $first, $second"
echo "requests a second of 100: of 4 KiB $((of_small / 4096)), of 1 MiB $((of_large / 1048576))"
[ $((small * 20)) -lt "$large" ]
[ "$large" -gt 6000000 ]
[ $((first * 10)) -gt $((second * 9)) ]
[ $((second * 10)) -gt $((first * 9)) ]
[ $((of_small / 4096)) -ge 45 ]
[ $((of_large / 1048576)) -ge 45 ]
