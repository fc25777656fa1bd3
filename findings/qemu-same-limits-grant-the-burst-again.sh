#!/usr/bin/env bash
# QEMU 7.2 (Debian 12): to write the limits that a disk has already grants its whole burst again.
#
# One expects that a write that changes nothing changes nothing. But every write empties the bucket (util/throttle.c,
# throttle_config). With 20 requests a second and bursts of 100 for 10 s, a disk that is always busy gets 1400 requests in
# 20 s. With the same limits written each 5 s it gets 2000, and so on for ever: the limit of 20 never counts. So has
# QEMU 11.1. What writes limits regularly, to be sure of them, takes them away.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 libaio1 liburing2 \
    libfuse3-3 libglib2.0-0 libnuma1 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
usr/bin/qemu-storage-daemon --version | head -1
cat > requests.py <<'PYTHON'
"""Requests that a disk gets in 20 s; the argument is how often its limits are written, in seconds."""
import json, os, select, socket, struct, subprocess, sys, time

every = float(sys.argv[1])
limits = {"iops-total": 20, "iops-total-max": 100, "iops-total-max-length": 10}
daemon = subprocess.Popen([
    "usr/bin/qemu-storage-daemon", "--chardev", "socket,id=c,path=qmp,server=on,wait=off", "--monitor", "chardev=c",
    "--object", "throttle-group,id=g," + ",".join(f"x-{name}={value}" for name, value in limits.items()),
    "--blockdev", "null-co,node-name=n,size=1073741824", "--blockdev", "throttle,node-name=t,throttle-group=g,file=n",
    "--nbd-server", "addr.type=unix,addr.path=nbd", "--export", "nbd,id=e,node-name=t,name=e"],
    stderr=subprocess.DEVNULL)
while not (os.path.exists("qmp") and os.path.exists("nbd")):
    time.sleep(0.1)

def connection(path):
    one = socket.socket(socket.AF_UNIX)
    one.connect(path)
    return one

qmp = connection("qmp").makefile("rw")
def execute(command, **arguments):
    qmp.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
    qmp.flush()
    while "return" not in (answer := json.loads(qmp.readline())):
        assert "error" not in answer, answer
qmp.readline()
execute("qmp_capabilities")

disk = connection("nbd")
def receive(number):
    while number:
        number -= len(disk.recv(number))
def read(number):  # the NBD protocol: 512 bytes
    disk.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, number, number % 1000 * 4096, 512))
receive(18)
disk.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 1) + b"e")
receive(10)

served, began = 0, time.monotonic()
end, write = began + 20, began + every
for number in range(16):
    read(number)
while (now := time.monotonic()) < end:
    if now >= write:
        execute("qom-set", path="/objects/g", property="limits", value=limits)
        write += every
    if select.select([disk], [], [], min(end, write) - now if write > now else 0)[0]:
        receive(16 + 512)
        served += 1
        read(served + 15)
print(served)
daemon.terminate()
daemon.wait()
for path in ("qmp", "nbd"):
    if os.path.exists(path):
        os.unlink(path)
PYTHON
once=$(python3 requests.py 100)
again=$(python3 requests.py 5)
echo "20 a second, bursts of 100 for 10 s: $once requests in 20 s, $again if the same limits are written each 5 s"
[ "$once" -gt 1300 ] && [ "$once" -lt 1500 ] && [ "$again" -gt 1850 ] && [ "$again" -lt 2150 ]
