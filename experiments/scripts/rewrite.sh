#!/bin/sh
# Memory and latency while the log is rewritten: ENGINE KEYS REQUESTS_PER_SECOND. See docs/results/rewrite.md.
# BIN is where the release binaries are; redis-cli has to be there.
set -eu
engine=${1:-actor} keys=${2:-1000000} rate=${3:-20000} seconds=${SECONDS_EACH:-10} port=${PORT:-7391}
bin=${BIN:-${CARGO_TARGET_DIR:-target}/release}
dir=$(mktemp -d)
"$bin/shardrace" --engine "$engine" --port "$port" --dir "$dir" --auto-aof-rewrite-percentage 0 2>"$dir/server.log" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$dir"' EXIT
cli() { redis-cli -p "$port" "$@" | tr -d '\r'; }
until [ "$(cli ping 2>/dev/null)" = PONG ]; do sleep 0.1; done

load() { # seconds, name, more flags
  time=$1 name=$2; shift 2
  "$bin/loadgen" -p "$port" -c 50 -d 100 --key-maximum "$keys" --ratio 1:1 --rate-limiting "$rate" \
    --test-time "$time" --json-out-file "$dir/$name.json" --quiet "$@"
}
field() { cli info "$1" | sed -n "s/^$2://p"; }

# Largest of a field of INFO memory until a file appears.
watch_memory() {
  used=0 rss=0
  while [ ! -e "$dir/stop" ]; do
    u=$(field memory used_memory) r=$(field memory used_memory_rss)
    [ "$u" -gt "$used" ] && used=$u
    [ "$r" -gt "$rss" ] && rss=$r
    sleep 0.05
  done
  echo "$used $rss" >"$dir/memory"
}
rewrite_for_ever() {
  while [ ! -e "$dir/stop" ]; do cli bgrewriteaof >/dev/null; sleep 0.05; done
}

phase() { # name, whether to rewrite
  rm -f "$dir/stop"
  watch_memory & watcher=$!
  if [ "$2" = yes ]; then rewrite_for_ever & rewriter=$!; fi
  load "$seconds" "$1"
  touch "$dir/stop"
  wait $watcher
  if [ "$2" = yes ]; then wait $rewriter; fi
  python3 - "$1" "$dir/$1.json" $(cat "$dir/memory") <<'PY'
import json, sys
name, path, used, rss = sys.argv[1:]
latency = json.load(open(path))["totals"]
print(f"{name:8} {latency['ops_per_sec']:10.0f}/s  p50 {latency['latency_us']['p50']:8.0f} us  p99 {latency['latency_us']['p99']:8.0f} us"
      f"  max {latency['latency_us']['max']:9.0f} us  used {int(used) / 2**20:8.1f} MB  rss {int(rss) / 2**20:8.1f} MB")
PY
}

echo "engine $engine, $keys keys, $rate requests/s, $seconds s each"
load 1 prefill --prefill
phase before no
phase during yes
until [ "$(field persistence aof_rewrite_in_progress)" = 0 ]; do sleep 0.1; done
phase after no
echo "rewritings $(field persistence aof_rewrites), the last in $(field persistence aof_last_rewrite_time_sec) s," \
  "status $(field persistence aof_last_bgrewrite_status)"
