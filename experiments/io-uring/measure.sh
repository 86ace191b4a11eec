#!/bin/bash
# CPU per operation of redis-server, a bare epoll loop, a bare ring and our engines, paired, in one run.
# bench.sh stands between the script and redis-benchmark and records user and system time of each sample's server.
exec 9>/tmp/heavy2.lock
flock 9
cd /tmp/uring || exit 1
rm -f split.log
bare=/tmp/uring/target/release/bare
ours='--bind 127.0.0.1 --port {port} --dir {dir} --save "" --appendonly no'
servers=()
while IFS== read -r name flags; do
    [ -n "$name" ] && servers+=(--server "$name=$bare --port {port} $flags")
done <variants
date -u
(cd /work/main && CARGO_TARGET_DIR=/tmp/uring/lab exec timeout 420 python3 /tmp/uring/side_by_side.py --loads P1c50,P1c1000 --passes "${PASSES:-5}" \
    --bench /tmp/uring/bench.sh --out /tmp/uring/side.txt \
    --server "redis-server=/usr/bin/redis-server --bind 127.0.0.1 --port {port} --dir {dir} --save \"\" --appendonly no" \
    --server "actor=/work/lab-bin/box2 --engine actor $ours" \
    --server "mutex=/work/lab-bin/box2 --engine mutex $ours" "${servers[@]}")
date -u
flock -u 9
python3 /tmp/uring/split.py >>/tmp/uring/side.txt
