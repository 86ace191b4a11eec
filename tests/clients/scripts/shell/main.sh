#!/bin/sh
# redis-cli --eval, its reading of a function library, and redis-benchmark's test of scripts. Each check ends the program
# where it fails.
address=$2
host=${address%:*} port=${address##*:}
checks=0
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

check() { # what got wanted
  checks=$((checks + 1))
  [ "$2" = "$3" ] || { printf 'FAILED: %s: %s, and not %s\n' "$1" "$2" "$3"; exit 1; }
}
cli() { redis-cli -h "$host" -p "$port" "$@"; }

echo 'return {KEYS[1], KEYS[2], ARGV[1], redis.call("incrby", KEYS[1], ARGV[1])}' > "$scratch/one.lua"
check "--eval" "$(cli --eval "$scratch/one.lua" a b , 3 | tr '\n' ' ')" "a b 3 3 "
check "--eval without keys" "$(cli --eval "$scratch/one.lua" a b , 4 | tail -1)" "7"
printf '#!lua name=mine\nredis.register_function("twice", function(keys, args) return 2 * args[1] end)\n' > "$scratch/mine.lua"
check "-x FUNCTION LOAD" "$(cli -x FUNCTION LOAD < "$scratch/mine.lua")" "mine"
check "FCALL" "$(cli FCALL twice 0 21)" "42"
check "--functions-rdb" "$(cli --functions-rdb "$scratch/functions.rdb" > /dev/null 2>&1 && head -c 5 "$scratch/functions.rdb")" "REDIS"
sha=$(cli SCRIPT LOAD "return redis.call('SET', KEYS[1], ARGV[1])")
redis-benchmark -h "$host" -p "$port" -n 20000 -P 16 -r 1000 -q evalsha "$sha" 1 key:__rand_int__ value > "$scratch/benchmark"
check "redis-benchmark's scripts" "$(grep -c 'requests per second' "$scratch/benchmark")" "1"
check "they have set keys" "$([ "$(cli DBSIZE)" -gt 900 ] && echo yes)" "yes"
check "no script has failed" "$(cli INFO errorstats | grep -c errorstat_)" "0"
echo "ok $checks"
