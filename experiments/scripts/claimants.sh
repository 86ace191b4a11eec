#!/bin/sh
# Builds two systems whose claims the audit holds, mini-kv and redis-rust, and measures them beside our engines and the
# peers with redis-benchmark: `experiments/scripts/claimants.sh [FOLDER] [--passes N …]`, as root, for a network namespace.
#
# They are built in FOLDER, outside of this repository (by default in the system's folder for temporary files); nothing of
# theirs gets into it. A clone that is there already is used. The commits are those that their claims are of: mini-kv's is
# the last one before its log, which cannot be turned off. redis-rust takes its number of shards from a file: it is
# measured with one and with sixteen, which is its own claim. It asks for sccache and clang, which do not change what is
# built. mini-kv has no PING and no INFO, which the measurement bears. redis-rust listens on all addresses; in a network
# namespace of its own only loopback is there.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=${TMPDIR:-/tmp}/shardrace-claimants
case ${1:-} in ''|-*) ;; *) folder=$1; shift ;; esac
mkdir -p "$folder"

get() { # name, where from, commit
  if [ ! -d "$folder/$1" ]; then
    git clone --quiet --no-checkout "$2" "$folder/$1"
    # Some mirrors lack redis-rust's archive of another project's tests.
    git -C "$folder/$1" sparse-checkout set --no-cone '/*' '!/maelstrom'
  fi
  git -C "$folder/$1" checkout --quiet --detach "$3"
  echo "$1: commit $3"
}

build() { # name, binary
  (cd "$folder/$1" && CARGO_TARGET_DIR="$folder/target-$1" cargo build --release --bin "$2")
}

get mini-kv "${MINI_KV:-https://github.com/smb374/mini-kv}" 18c6e29
get redis-rust "${REDIS_RUST:-https://github.com/nerdsane/redis-rust}" c94fcb1
build mini-kv kv_server
(export RUSTC_WRAPPER= CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=cc RUSTFLAGS="-C debuginfo=0"
  build redis-rust redis-server-optimized)

cd "$here"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$here/target}"
redis_rust="$folder/target-redis-rust/release/redis-server-optimized"
exec unshare --net sh -c 'ip link set lo up && exec "$@"' claimants experiments/scripts/side_by_side.py \
  --server "mini-kv=$folder/target-mini-kv/release/kv_server --host=127.0.0.1 --port={port}" \
  --server "redis-rust-1=env PERF_CONFIG_PATH=$folder/redis-rust/perf_config.toml REDIS_PORT={port} $redis_rust" \
  --server "redis-rust-16=env PERF_CONFIG_PATH=$folder/redis-rust/docker-benchmark/perf_config.toml REDIS_PORT={port} $redis_rust" \
  --out docs/results/claimants.txt "$@"
