#!/bin/sh
# Builds two systems whose claims the audit holds, mini-kv and redis-rust, and measures them beside our engines and
# redis-server with redis-benchmark: `experiments/scripts/claimants.sh [FOLDER] [--passes N …]`.
#
# They are built in FOLDER, outside of this repository (by default in the system's folder for temporary files); nothing of
# theirs gets into it. A folder of theirs that is there already is taken as it is. mini-kv has no PING and no INFO, which
# the measurement bears. redis-rust listens on all addresses; in a network namespace of its own only loopback is there.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=${TMPDIR:-/tmp}/shardrace-claimants
case ${1:-} in ''|-*) ;; *) folder=$1; shift ;; esac
mkdir -p "$folder"

get() { # name, where from
  [ -d "$folder/$1" ] || git clone --quiet "$2" "$folder/$1"
  echo "$1: commit $(git -C "$folder/$1" rev-parse --short=12 HEAD)"
}

get mini-kv "${MINI_KV:-https://github.com/smb374/mini-kv}"
get redis-rust "${REDIS_RUST:-https://github.com/nerdsane/redis-rust}"
(cd "$folder/mini-kv" && CARGO_TARGET_DIR=target cargo build --release --bin kv_server)
(cd "$folder/redis-rust" && CARGO_TARGET_DIR=target cargo build --release --bin redis-server-optimized)

cd "$here"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$here/target}"
exec unshare --net sh -c 'ip link set lo up && exec "$@"' claimants experiments/scripts/side_by_side.py \
  --server "mini-kv=$folder/mini-kv/target/release/kv_server --host=127.0.0.1 --port={port}" \
  --server "redis-rust=env REDIS_PORT={port} $folder/redis-rust/target/release/redis-server-optimized" \
  --out docs/results/claimants.txt "$@"
