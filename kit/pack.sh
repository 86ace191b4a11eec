#!/bin/sh
# pack.sh FOLDER BINARIES DRIVER-BINARIES PREDICTED: makes the kit in FOLDER, and an archive of it beside FOLDER.
set -eu
[ $# = 4 ] || { echo "pack.sh FOLDER BINARIES DRIVER-BINARIES PREDICTED" >&2; exit 2; }
folder=$1
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/experiments" "$folder/predicted"
cp "$2/shardrace" "$2/loadgen" "$2/experiments" "$3/shardrace-scaling" "$folder/bin/"
strip "$folder"/bin/*
cp -r experiments/sweeps experiments/claims experiments/scaling "$folder/experiments/"
if [ -f "$4" ]; then cp "$4" "$folder/predicted/"; fi
cp kit/run kit/cores kit/README.md LICENSE-MIT LICENSE-APACHE "$folder/"
{ git rev-parse HEAD 2>/dev/null || echo unknown; } > "$folder/commit.txt"
tar -C "$(dirname "$folder")" -czf "$folder.tar.gz" "$(basename "$folder")"
echo "$folder.tar.gz"
